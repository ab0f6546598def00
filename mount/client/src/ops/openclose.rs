//! Opening and closing regular files.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::node::NodeId;
use crate::open::{FileHandle, OpenMode};
use std::sync::Arc;

impl Client {
    /// Opens an inode that is no directory. 1 round trip.
    pub async fn open(
        self: Arc<Self>,
        _caller: Caller,
        _node: NodeId,
        _open: OpenMode,
    ) -> Result<FileHandle, ClientError> {
        unimplemented!()
    }

    /// close(2) of one descriptor: drops the fcntl locks of `lock_owner`. No request if it never took one.
    pub async fn flush(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _lock_owner: u64,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// The last descriptor is gone. `flock_owner`: drop the flock(2) lock of this owner. Returns at once; the MDT is
    /// told in the background.
    pub async fn release(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _flock_owner: Option<u64>,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }
}
