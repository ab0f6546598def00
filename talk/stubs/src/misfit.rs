//! A target answered an operation with the reply of another: a protocol error of the peer.

use rpc::error::RpcError;
use rpc::import::Import;
use std::fmt::Debug;
use types::errno::Errno;

/// The error for it; says in the log what came.
pub(crate) fn unexpected(import: &Import, reply: &dyn Debug) -> RpcError {
    tracing::error!(target = %import.target(), ?reply, "reply does not fit the operation");
    RpcError::Refused { target: import.target(), errno: Errno::EPROTO }
}
