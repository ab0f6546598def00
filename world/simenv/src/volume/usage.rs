//! Space that a volume has used, in pages.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Bytes that a disk writes or does not write, as one.
pub(crate) const PAGE: u64 = 4096;

/// Space that a volume has used, shared with its files.
pub(crate) struct Usage {
    pub(crate) pages: AtomicI64,
    pub(crate) capacity: AtomicU64,
}

impl Usage {
    /// Takes a page; `false`: the volume is full.
    pub(crate) fn take(&self) -> bool {
        let fits = (self.pages.load(Ordering::Relaxed) as u64 + 1) * PAGE
            <= self.capacity.load(Ordering::Relaxed);
        if fits {
            self.pages.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    pub(crate) fn give(&self, pages: usize) {
        self.pages.fetch_sub(pages as i64, Ordering::Relaxed);
    }
}
