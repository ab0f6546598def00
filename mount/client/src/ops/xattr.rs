//! Extended attributes and the ioctl seam.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use bytes::Bytes;
use std::sync::Arc;
use wire::mds::SetxattrFlags;

impl Client {
    /// One value; ENODATA if absent.
    pub async fn getxattr(self: Arc<Self>, _caller: Caller, _node: NodeId, _name: Bytes) -> Result<Bytes, ClientError> {
        unimplemented!()
    }

    /// All names, each with a NUL behind it.
    pub async fn listxattr(self: Arc<Self>, _caller: Caller, _node: NodeId) -> Result<Bytes, ClientError> {
        unimplemented!()
    }

    /// Sets one.
    pub async fn setxattr(
        self: Arc<Self>,
        _caller: Caller,
        _node: NodeId,
        _name: Bytes,
        _value: Bytes,
        _flags: SetxattrFlags,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Removes one.
    pub async fn removexattr(self: Arc<Self>, _caller: Caller, _node: NodeId, _name: Bytes) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// ioctl(2): none is known yet, ENOTTY.
    pub async fn ioctl(
        self: Arc<Self>,
        _caller: Caller,
        _node: NodeId,
        _command: u32,
        _argument: Bytes,
    ) -> Result<Bytes, ClientError> {
        unimplemented!()
    }
}
