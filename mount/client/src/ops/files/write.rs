//! write(2).

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::{Operation, Way};
use crate::open::FileHandle;
use bytes::Bytes;
use data::writeback::flags::{WriteFlags, Written};
use session::error::ClientError;
use std::sync::Arc;
use types::errno::Errno;

impl Client {
    /// Writes `data` (at most BULK_BYTES_MAX) at `offset`: under WRITE into the cache, without a
    /// round trip; one more to get WRITE, one more if a component of the layout is written for the
    /// first time. A write that does not fit the cache goes through: 2 round trips, 1 where it all
    /// lives on the MDT. Also reports a loss of earlier writes, once.
    pub async fn write(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        offset: u64,
        data: Bytes,
        flags: WriteFlags,
    ) -> Result<Written, ClientError> {
        let _timed = self.timed(Operation::Write);
        let open = self.files_open.get(handle)?;
        open.check()?;
        if !open.mode.flags.write {
            return Err(Errno::EBADF.into());
        }
        if !flags.from_page_cache {
            // Otherwise it is the kernel's own write, on behalf of a mapping: it is stored, and its
            // fsync reports the loss.
            open.failed_at_write(caller.pid)?;
        }
        let counters = self.counters.clone();
        let written = self
            .data
            .write_file(caller.credentials, open.file.clone(), offset, data, flags)
            .await?;
        counters.moved(Way::Write, written.bytes as usize);
        Ok(written)
    }
}
