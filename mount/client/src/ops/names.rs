//! Names of inodes that exist: unlink, rmdir, rename, link, readlink.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use bytes::Bytes;
use std::sync::Arc;
use types::name::Name;
use wire::mds::RenameFlags;

impl Client {
    /// Removes a name that is no directory.
    pub async fn unlink(self: Arc<Self>, _caller: Caller, _parent: NodeId, _name: Name) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Removes an empty directory.
    pub async fn rmdir(self: Arc<Self>, _caller: Caller, _parent: NodeId, _name: Name) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Moves a name.
    pub async fn rename(
        self: Arc<Self>,
        _caller: Caller,
        _parent: NodeId,
        _name: Name,
        _new_parent: NodeId,
        _new_name: Name,
        _flags: RenameFlags,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Gives an inode a second name.
    pub async fn link(
        self: Arc<Self>,
        _caller: Caller,
        _node: NodeId,
        _new_parent: NodeId,
        _new_name: Name,
    ) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// Target of a symbolic link.
    pub async fn readlink(self: Arc<Self>, _caller: Caller, _node: NodeId) -> Result<Bytes, ClientError> {
        unimplemented!()
    }
}
