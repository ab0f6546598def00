//! Bytes of small files that come with their open.
//!
//! A file that is opened for reading is usually read. If all of it lives on the MDT (docs/dom.md)
//! and is small, the request that opens it reads it, too; so open and read are one request. The
//! data stays with the file as long as it is open, and serves reads under DATA while the file has
//! the same version: every change of bytes, by any client, makes another version. Whether a file
//! lives on the MDT is often known only from its open. Then the data is asked for if the last
//! opened file lived there.

use crate::client::Client;
use crate::dom::is_elsewhere;
use crate::file::File;
use crate::open::OpenMode;
use bytes::Bytes;
use session::error::ClientError;
use session::targets::{misfit, two};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stubs::mdc::Opened;
use types::credentials::Credentials;
use types::fid::Fid;
use wire::mds::{Entry, MdsOp, MdsReply, Open, Read};

/// Largest file that is read with its open, bytes.
pub const PREFETCH_BYTES_MAX: u64 = 64 << 10;
/// Bytes that are kept of all files together; beyond it, opens bring no data.
pub const PREFETCHED_BYTES_MAX: u64 = 32 << 20;

/// What a mount knows of it.
#[derive(Default)]
pub(crate) struct OpenPrefetch {
    /// The last opened file had bytes on its MDT.
    likely: AtomicBool,
    kept: Arc<AtomicU64>,
}

/// All bytes of a file as it was.
pub(crate) struct Prefetched {
    version: u64,
    data: Bytes,
    kept: Arc<AtomicU64>,
}

impl Prefetched {
    fn new(entry: &Entry, data: Bytes, kept: &Arc<AtomicU64>) -> Prefetched {
        kept.fetch_add(data.len() as u64, Ordering::Relaxed);
        Prefetched { version: entry.attr.version, data, kept: kept.clone() }
    }

    /// `[offset, end)`, if the file is still as it was.
    pub(crate) fn read(&self, version: u64, offset: u64, end: u64) -> Option<Bytes> {
        let holds = self.version == version && offset <= end && end <= self.data.len() as u64;
        holds.then(|| self.data.slice(offset as usize..end as usize))
    }
}

impl Drop for Prefetched {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.data.len() as u64, Ordering::Relaxed);
    }
}

impl OpenPrefetch {
    /// A file was opened that may have this many bytes on its MDT.
    pub(crate) fn note(&self, mdt_bytes: u64) {
        self.likely.store(mdt_bytes > 0, Ordering::Relaxed);
    }
}

impl Client {
    /// Opens a file at its MDT; its bytes come along where that is likely to save a request.
    ///
    /// # Errors
    /// Those of the MDT.
    pub(crate) async fn open_at_mdt(
        &self,
        credentials: &Credentials,
        fid: Fid,
        open: OpenMode,
    ) -> Result<Opened, ClientError> {
        let mdc = self.session.mdc(fid)?;
        let Some(len) = self.prefetch_len(fid, open) else {
            return Ok(mdc.open(credentials, fid, open.flags).await?);
        };
        let (first, second) = (MdsOp::Open(Open { fid, flags: open.flags }), MdsOp::Read(Read { fid, offset: 0, len }));
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
    fn prefetch_len(&self, fid: Fid, open: OpenMode) -> Option<u32> {
        if open.flags.write || open.truncate || !open.flags.read {
            return None;
        }
        let OpenPrefetch { likely, kept } = &self.open_prefetch;
        let (layout, entry) = {
            let mut table = self.locks.table.lock();
            (table.layout(fid), table.attr(fid)?)
        };
        let here = layout.map_or(likely.load(Ordering::Relaxed), |layout| layout.mdt_bytes() >= entry.attr.size);
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

#[cfg(test)]
mod tests {
    use super::*;
    use types::attr::Attr;
    use types::time::Timestamp;

    #[test]
    fn what_came_is_served_only_for_its_version_and_counts_as_long_as_it_is_kept() {
        let kept = Arc::new(AtomicU64::new(0));
        let (fid, at, size) = (Fid::ROOT, Timestamp::default(), 4);
        let (atime, mtime, ctime, btime) = (at, at, at, at);
        let (mode, uid, gid, nlink, rdev, blocks, version) = (0o100_644, 0, 0, 1, 0, 1, 7);
        let attr = Attr { fid, mode, uid, gid, nlink, rdev, size, blocks, atime, mtime, ctime, btime, version };
        let prefetched =
            Prefetched::new(&Entry { attr, has_xattr: false, noatime: false }, Bytes::from_static(b"0123"), &kept);
        assert_eq!(prefetched.read(7, 0, 4), Some(Bytes::from_static(b"0123")));
        assert_eq!(prefetched.read(7, 1, 3), Some(Bytes::from_static(b"12")));
        for (version, offset, end) in [(8, 0, 4), (6, 0, 4), (7, 0, 5), (7, 5, 5), (7, 3, 2)] {
            assert_eq!(prefetched.read(version, offset, end), None, "{version} {offset} {end}");
        }
        assert_eq!(kept.load(Ordering::Relaxed), 4);
        drop(prefetched);
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }
}
