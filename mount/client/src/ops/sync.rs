//! Durability: fsync, fsyncdir, syncfs.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::open::{DirHandle, FileHandle};
use std::sync::Arc;

impl Client {
    /// Data and attributes of a file are durable when this returns. All targets in parallel, 1 round trip.
    pub async fn fsync(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _datasync: bool,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// The names in a directory are durable when this returns.
    pub async fn fsyncdir(self: Arc<Self>, _caller: Caller, _handle: DirHandle) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Everything of this file system is durable when this returns.
    pub async fn syncfs(self: Arc<Self>, _caller: Caller) -> Result<(), ClientError> {
        unimplemented!()
    }
}
