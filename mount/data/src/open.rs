//! Opening a file at its MDT, and the bytes that come along ([`crate::open_prefetch`]).

use crate::dom::is_elsewhere;
use crate::file::File;
use crate::open_prefetch::{OpenPrefetch, PREFETCH_BYTES_MAX, PREFETCHED_BYTES_MAX, Prefetched};
use crate::path::DataPath;
use bytes::Bytes;
use session::error::ClientError;
use session::targets::{misfit, two};
use std::sync::atomic::Ordering;
use stubs::mdc::Opened;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::{MdsOp, MdsReply, Open, OpenFlags, Read};

impl DataPath {
    /// Opens a file at its MDT; its bytes come along where that is likely to save a request.
    ///
    /// # Errors
    /// Those of the MDT.
    pub async fn open_at_mdt(
        &self,
        credentials: &Credentials,
        fid: Fid,
        flags: OpenFlags,
        truncate: bool,
    ) -> Result<Opened, ClientError> {
        let mdc = self.session.mdc(fid)?;
        let Some(len) = self.prefetch_len(fid, flags, truncate) else {
            return Ok(mdc.open(credentials, fid, flags).await?);
        };
        let (first, second) =
            (MdsOp::Open(Open { fid, flags }), MdsOp::Read(Read { fid, offset: 0, len }));
        match two(&mdc, credentials, first, second).await? {
            (MdsReply::Opened { entry, created, handle, layout }, read) => {
                match read {
                    Ok(MdsReply::Data { entry, data }) if entry.attr.size == data.len() as u64 => {
                        let prefetched = Prefetched::new(&entry, data, &self.open_prefetch.kept);
                        self.files.get(fid).keep_prefetched(prefetched);
                    }
                    // It grew meanwhile.
                    Ok(MdsReply::Data { .. }) => {}
                    Ok(other) => return Err(misfit(mdc.import(), &other)),
                    Err(error) if is_elsewhere(&error) => {}
                    // A reader of it gets the error.
                    Err(error) => tracing::debug!(%fid, %error, "read with an open"),
                }
                Ok(Opened { entry: *entry, created, handle, layout })
            }
            (other, _) => Err(misfit(mdc.import(), &other)),
        }
    }

    /// Number of bytes to ask for with an open.
    fn prefetch_len(&self, fid: Fid, flags: OpenFlags, truncate: bool) -> Option<u32> {
        if flags.write || truncate || !flags.read {
            return None;
        }
        let OpenPrefetch { likely, kept } = &self.open_prefetch;
        let (layout, entry) = {
            let mut table = self.locks.table.lock();
            (table.layout(fid), table.attr(fid)?)
        };
        let here = layout
            .map_or(likely.load(Ordering::Relaxed), |layout| layout.mdt_bytes() >= entry.attr.size);
        let small = (1..=PREFETCH_BYTES_MAX).contains(&entry.attr.size);
        let room = kept.load(Ordering::Relaxed) < PREFETCHED_BYTES_MAX;
        (here && small && room).then_some(entry.attr.size as u32)
    }

    /// The bytes that came with an open, if they are `[offset, end)` of the present version. The
    /// caller has a guard of DATA.
    pub(crate) fn read_prefetched(&self, file: &File, offset: u64, end: u64) -> Option<Bytes> {
        let version = self.locks.table.lock().attr(file.fid)?.attr.version;
        file.prefetched(version, offset, end)
    }
}
