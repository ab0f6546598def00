//! Names to inodes.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::counters::Operation;
use crate::error::ClientError;
use crate::node::NodeId;
use std::sync::Arc;
use types::name::Name;

impl Client {
    /// Finds a name in a directory. 1 round trip.
    pub async fn lookup(self: Arc<Self>, caller: Caller, parent: NodeId, name: Name) -> Result<Found, ClientError> {
        self.counters.count(Operation::Lookup);
        let parent = self.fid(parent)?;
        let entry = self.mdc(parent)?.lookup(&caller.credentials, parent, name).await?;
        Ok(self.found(parent, &entry.attr))
    }

    /// `.`: the inode itself, counted once more.
    pub async fn lookup_self(self: Arc<Self>, caller: Caller, node: NodeId) -> Result<Found, ClientError> {
        self.counters.count(Operation::Lookup);
        let fid = self.fid(node)?;
        let entry = self.mdc(fid)?.getattr(&caller.credentials, fid).await?;
        Ok(self.found(fid, &entry.attr))
    }

    /// `..`: the parent of a directory.
    pub async fn lookup_parent(self: Arc<Self>, caller: Caller, node: NodeId) -> Result<Found, ClientError> {
        self.counters.count(Operation::Lookup);
        let fid = self.fid(node)?;
        let entry = self.mdc(fid)?.get_parent(&caller.credentials, fid).await?;
        Ok(self.found(fid, &entry.attr))
    }

    /// The kernel gives back `count` lookups of a node.
    pub fn forget(&self, node: NodeId, count: u64) {
        self.nodes.forget(node, count);
    }
}
