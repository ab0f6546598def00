//! Names to inodes.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use std::sync::Arc;
use types::name::Name;

impl Client {
    /// Finds a name in a directory. 1 round trip.
    pub async fn lookup(self: Arc<Self>, _caller: Caller, _parent: NodeId, _name: Name) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// `.`: the inode itself, counted once more.
    pub async fn lookup_self(self: Arc<Self>, _caller: Caller, _node: NodeId) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// `..`: the parent of a directory.
    pub async fn lookup_parent(self: Arc<Self>, _caller: Caller, _node: NodeId) -> Result<Found, ClientError> {
        unimplemented!()
    }

    /// The kernel gives back `count` lookups of a node.
    pub fn forget(&self, _node: NodeId, _count: u64) {
        unimplemented!()
    }
}
