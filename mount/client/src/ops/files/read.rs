//! read(2).

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::{Operation, Way};
use crate::open::FileHandle;
use bytes::Bytes;
use data::read_ahead::Reader;
use session::error::ClientError;
use std::sync::Arc;

impl Client {
    /// Up to `len` bytes (at most BULK_BYTES_MAX) at `offset`, in pieces; fewer only at the end of
    /// the file. 1 round trip; one more if DATA is not held. No round trip for data that this mount
    /// wrote a moment ago, holes between included, or that came with the open. `from_page_cache`:
    /// the kernel reads it into pages, which it holds until then.
    pub async fn read(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        offset: u64,
        len: u32,
        from_page_cache: bool,
    ) -> Result<Vec<Bytes>, ClientError> {
        let _timed = self.timed(Operation::Read);
        let open = self.files_open.get(handle)?;
        open.check()?;
        if from_page_cache && self.locks.no_open() {
            // Others were watched when they were opened.
            let fid = open.file.fid;
            open.eof.get_or_init(|| {
                self.data.writeback.kernel_eof.watch(fid, self.locks.told_size(fid))
            });
        }
        if offset == 0 && open.begins_unasked() {
            self.read_next(&caller.credentials, open.file.fid);
        }
        let _fills = (from_page_cache && self.locks.no_open())
            .then(|| self.locks.held_pages.fill(open.file.fid));
        let data = self
            .data
            .read_file(
                &caller.credentials,
                &open.file,
                (offset, len),
                Reader { handle, from_page_cache },
            )
            .await?;
        self.counters.moved(Way::Read, data.iter().map(Bytes::len).sum());
        Ok(data)
    }
}
