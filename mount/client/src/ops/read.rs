//! Reading.

use crate::caller::Caller;
use crate::client::Client;
use crate::error::ClientError;
use crate::open::FileHandle;
use bytes::Bytes;
use std::sync::Arc;

impl Client {
    /// Up to `len` bytes at `offset`, in pieces; fewer only at the end of the file.
    pub async fn read(
        self: Arc<Self>,
        _caller: Caller,
        _handle: FileHandle,
        _offset: u64,
        _len: u32,
    ) -> Result<Vec<Bytes>, ClientError> {
        unimplemented!()
    }
}
