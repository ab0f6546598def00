//! copy_file_range(2).

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::open::FileHandle;
use std::sync::Arc;

impl Client {
    /// Copies up to `len` bytes between two open files; returns how many, 0 at the end of the source.
    pub async fn copy_file_range(
        self: Arc<Self>,
        _caller: Caller,
        _source: FileHandle,
        _source_offset: u64,
        _target: FileHandle,
        _target_offset: u64,
        _len: u64,
    ) -> Result<u64, ClientError> {
        unimplemented!()
    }
}
