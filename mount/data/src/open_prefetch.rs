//! Bytes of small files that come with their open.
//!
//! A file that is opened for reading is usually read. If all of it lives on the MDT (docs/dom.md)
//! and is small, the request that opens it reads it, too; so open and read are one request. The
//! data stays with the file as long as it is open, and serves reads under DATA while the file has
//! the same version: every change of bytes, by any client, makes another version. Whether a file
//! lives on the MDT is often known only from its open. Then the data is asked for if the last
//! opened file lived there.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::mds::Entry;

/// Largest file that is read with its open, bytes.
pub(crate) const PREFETCH_BYTES_MAX: u64 = 64 << 10;
/// Bytes that are kept of all files together; beyond it, opens bring no data.
pub(crate) const PREFETCHED_BYTES_MAX: u64 = 32 << 20;

/// What a mount knows of it.
#[derive(Default)]
pub struct OpenPrefetch {
    /// The last opened file had bytes on its MDT.
    pub likely: AtomicBool,
    /// Bytes that are kept now, of all files.
    pub kept: Arc<AtomicU64>,
}

/// All bytes of a file as it was.
pub(crate) struct Prefetched {
    version: u64,
    data: Bytes,
    kept: Arc<AtomicU64>,
}

impl Prefetched {
    pub fn new(entry: &Entry, data: Bytes, kept: &Arc<AtomicU64>) -> Prefetched {
        kept.fetch_add(data.len() as u64, Ordering::Relaxed);
        Prefetched { version: entry.attr.version, data, kept: kept.clone() }
    }

    /// `[offset, end)`, if the file is still as it was.
    pub fn read(&self, version: u64, offset: u64, end: u64) -> Option<Bytes> {
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
    pub fn note(&self, mdt_bytes: u64) {
        self.likely.store(mdt_bytes > 0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::attr::Attr;
    use types::fid::Fid;
    use types::time::Timestamp;

    #[test]
    fn what_came_is_served_only_for_its_version_and_counts_as_long_as_it_is_kept() {
        let kept = Arc::new(AtomicU64::new(0));
        let (fid, at, size) = (Fid::ROOT, Timestamp::default(), 4);
        let (atime, mtime, ctime, btime) = (at, at, at, at);
        let (mode, uid, gid, nlink, rdev, blocks, version) = (0o100_644, 0, 0, 1, 0, 1, 7);
        let attr = Attr {
            fid,
            mode,
            uid,
            gid,
            nlink,
            rdev,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            btime,
            version,
        };
        let prefetched = Prefetched::new(
            &Entry { attr, has_xattr: false, noatime: false, striped: 0 },
            Bytes::from_static(b"0123"),
            &kept,
        );
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
