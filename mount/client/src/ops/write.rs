//! Writing.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::open::FileHandle;
use bytes::Bytes;
use std::sync::Arc;

/// How to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteFlags {
    /// O_APPEND: at the end of the file, wherever that is now; the given offset is ignored.
    pub append: bool,
    /// Clear set-id bits (FUSE_WRITE_KILL_SUIDGID).
    pub kill_suidgid: bool,
    /// O_SYNC, O_DSYNC: durable before the answer.
    pub sync: bool,
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Where it went: the given offset, or for `append` the end of the file. If that differs from what the kernel
    /// thought, its cached pages and size of this inode must be dropped.
    pub offset: u64,
    /// Bytes from there on; fewer than given only if a target failed after some were stored.
    pub bytes: u32,
}

impl Client {
    /// Stores `data` at `offset`.
    pub async fn write(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _offset: u64,
        _data: Bytes,
        _flags: WriteFlags,
    ) -> Result<Written, ClientError> {
        unimplemented!()
    }
}
