//! The way back: a target asks a client something, over the connection that the client made.

use crate::error::RpcError;
use crate::import::Callbacks;
use crate::service::Export;
use std::sync::Arc;
use types::errno::Errno;
use wire::client::{ClientOp, ClientReply};

/// How a client is reached.
#[derive(Clone)]
pub(crate) enum Road {
    /// It lives in this process.
    Local(Option<Arc<dyn Callbacks>>),
}

/// Asks and waits.
pub(crate) async fn ask(export: &Export, op: ClientOp) -> Result<ClientReply, RpcError> {
    if export.is_gone() {
        return Err(RpcError::Evicted { target: export.target() });
    }
    match export.road() {
        Road::Local(Some(callbacks)) => Ok(callbacks.callback(op).await?),
        Road::Local(None) => Err(RpcError::Errno(Errno::EOPNOTSUPP)),
    }
}
