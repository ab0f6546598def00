//! Attributes: stat, chmod, chown, utimes, truncate.

use crate::caller::{Caller, Stat};
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use crate::open::FileHandle;
use std::sync::Arc;
use types::attr::SetAttr;

/// What access(2) asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessMask {
    /// R_OK
    pub read: bool,
    /// W_OK
    pub write: bool,
    /// X_OK
    pub exec: bool,
}

impl Client {
    /// Attributes of an inode. 1 round trip.
    pub async fn getattr(
        self: Arc<Self>,
        _caller: Caller,
        _node: NodeId,
        _handle: Option<FileHandle>,
    ) -> Result<Stat, ClientError> {
        unimplemented!()
    }

    /// Changes attributes; a new size also cuts the objects.
    pub async fn setattr(
        self: Arc<Self>,
        _caller: Caller,
        _node: NodeId,
        _handle: Option<FileHandle>,
        _set: SetAttr,
    ) -> Result<Stat, ClientError> {
        unimplemented!()
    }

    /// access(2) by mode bits. The kernel asks only without `default_permissions`.
    pub async fn access(self: Arc<Self>, _caller: Caller, _node: NodeId, _mask: AccessMask) -> Result<(), ClientError> {
        unimplemented!()
    }
}
