//! Reading: the objects and the size are asked for at once.
//!
//! The MDT has the size. A reader must not take bytes beyond the size that it knew *before* it asked the objects: a
//! writer stores its bytes first and tells the MDT then, so a size that came later may cover bytes that the objects
//! did not have yet when they were read. So: read up to the size known before; ask for the size meanwhile; if the file
//! turned out shorter, clip; if longer, read the rest in a second round.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::data::clip;
use crate::error::ClientError;
use crate::file::File;
use crate::open::FileHandle;
use crate::validity;
use bytes::Bytes;
use std::sync::Arc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, FILE_BYTES_MAX};

impl Client {
    /// Up to `len` bytes (at most BULK_BYTES_MAX) at `offset`, in pieces; fewer only at the end of the file.
    /// 1 round trip, 2 if the file has grown.
    pub async fn read(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        offset: u64,
        len: u32,
    ) -> Result<Vec<Bytes>, ClientError> {
        self.counters.count(Operation::Read);
        let open = self.files_open.get(handle)?;
        open.check()?;
        self.read_file(&caller.credentials, &open.file, offset, len).await
    }

    pub(crate) async fn read_file(
        &self,
        credentials: &Credentials,
        file: &File,
        offset: u64,
        len: u32,
    ) -> Result<Vec<Bytes>, ClientError> {
        if len as usize > BULK_BYTES_MAX {
            return Err(Errno::EINVAL.into());
        }
        let end = offset.saturating_add(u64::from(len)).min(FILE_BYTES_MAX);
        if offset < end
            && let Some(data) = self.read_small(credentials, file, offset, end).await?
        {
            return Ok(data);
        }
        let known_before = file.size().unwrap_or(0);
        let first_end = end.min(known_before);
        if validity::size_covered(file.fid) && file.size().is_some() {
            return self.read_known(credentials, file, offset, first_end).await;
        }
        let (data, size) = futures_util::join!(
            self.read_known(credentials, file, offset, first_end),
            self.ask_size(credentials, file)
        );
        let (mut data, size) = (data?, size?);
        if size < first_end {
            clip(&mut data, size.saturating_sub(offset));
        } else if size > known_before && end > known_before {
            data.extend(self.read_known(credentials, file, offset.max(known_before), end.min(size)).await?);
        }
        Ok(data)
    }

    async fn read_known(
        &self,
        credentials: &Credentials,
        file: &File,
        start: u64,
        end: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let layout = self.layout_for(credentials, file, false, start, end).await?;
        self.fetch(&layout, file.fid, start, end).await
    }

    /// The size that the MDT has now.
    pub(crate) async fn ask_size(&self, credentials: &Credentials, file: &File) -> Result<u64, ClientError> {
        let entry = self.mdc(file.fid)?.getattr(credentials, file.fid).await?;
        file.learn(&entry.attr);
        Ok(entry.attr.size)
    }
}
