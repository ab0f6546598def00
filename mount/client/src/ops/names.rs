//! Names of inodes that exist: unlink, rmdir, rename, link, readlink. The objects of a removed file are the MDT's
//! business: its log destroys them.

use crate::caller::{Caller, Found};
use crate::client::Client;
use crate::counters::Operation;
use crate::error::ClientError;
use crate::node::NodeId;
use bytes::Bytes;
use std::sync::Arc;
use types::name::Name;
use wire::mds::RenameFlags;

impl Client {
    /// Removes a name that is no directory.
    pub async fn unlink(self: Arc<Self>, caller: Caller, parent: NodeId, name: Name) -> Result<(), ClientError> {
        self.counters.count(Operation::Unlink);
        let parent = self.fid(parent)?;
        self.mdc(parent)?.unlink(&caller.credentials, parent, name).await?;
        Ok(())
    }

    /// Removes an empty directory.
    pub async fn rmdir(self: Arc<Self>, caller: Caller, parent: NodeId, name: Name) -> Result<(), ClientError> {
        self.counters.count(Operation::Rmdir);
        let parent = self.fid(parent)?;
        self.mdc(parent)?.rmdir(&caller.credentials, parent, name).await?;
        Ok(())
    }

    /// Moves a name.
    pub async fn rename(
        self: Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: Name,
        new_parent: NodeId,
        new_name: Name,
        flags: RenameFlags,
    ) -> Result<(), ClientError> {
        self.counters.count(Operation::Rename);
        let (parent, new_parent) = (self.fid(parent)?, self.fid(new_parent)?);
        self.mdc(parent)?.rename(&caller.credentials, parent, name, new_parent, new_name, flags).await?;
        Ok(())
    }

    /// Gives an inode a second name.
    pub async fn link(
        self: Arc<Self>,
        caller: Caller,
        node: NodeId,
        new_parent: NodeId,
        new_name: Name,
    ) -> Result<Found, ClientError> {
        self.counters.count(Operation::Link);
        let (fid, new_parent) = (self.fid(node)?, self.fid(new_parent)?);
        let entry = self.mdc(new_parent)?.link(&caller.credentials, fid, new_parent, new_name).await?;
        Ok(self.found(new_parent, &entry.attr))
    }

    /// Target of a symbolic link.
    pub async fn readlink(self: Arc<Self>, caller: Caller, node: NodeId) -> Result<Bytes, ClientError> {
        self.counters.count(Operation::Readlink);
        let fid = self.fid(node)?;
        Ok(self.mdc(fid)?.readlink(&caller.credentials, fid).await?)
    }
}
