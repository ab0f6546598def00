//! Allocation: fallocate, lseek DATA and HOLE.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::open::FileHandle;
use std::sync::Arc;

impl Client {
    /// fallocate(2) with the kernel's `mode`: 0, KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE[|KEEP_SIZE]; others are
    /// EOPNOTSUPP.
    pub async fn fallocate(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _offset: u64,
        _len: u64,
        _mode: u32,
    ) -> Result<(), ClientError> {
        unimplemented!()
    }

    /// Next data (or with `hole` next hole) at or after `offset`; ENXIO at or beyond the end of the file, or if no
    /// data follows.
    pub async fn seek(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _offset: u64,
        _hole: bool,
    ) -> Result<u64, ClientError> {
        unimplemented!()
    }
}
