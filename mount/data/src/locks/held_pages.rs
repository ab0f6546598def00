//! Pages that writes hold in the kernel while they wait for their lock (docs/locks/kernel.md, R39).
//!
//! Where the kernel opens files without requests it keeps pages of what it writes. A write that
//! does not fill its last page holds that page until it is answered, if the page was not read
//! before. Such a page has nothing that a program could read. Had it been read before, the kernel
//! would not hold it, and it must be dropped as any other page. The daemon cannot know which it is.
//! So a callback has each of these pages dropped by itself: either it is dropped at once, or the
//! kernel waits for it, and then the callback need not.
//!
//! A page that was dropped while its write waits may be read anew, as it was before the write. So
//! reads into pages are known, too, and a write beside one has its pages dropped once it is done
//! (R46).

use foldhash::HashMap;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;
use types::fid::Fid;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// See the module. At most one page for each write under way.
#[derive(Default)]
pub struct HeldPages {
    files: Mutex<HashMap<Fid, InPages>>,
    changed: Notify,
}

/// What is under way in the pages of a file.
#[derive(Default)]
struct InPages {
    held: Vec<Held>,
    /// Reads that fill pages.
    reads: usize,
}

#[derive(Clone, Copy)]
struct Held {
    page: u64,
    /// Writes under way that may hold it: the kernel lets one at a time, so mostly one.
    writes: usize,
    /// The kernel was told to drop it, and waits for it.
    going: bool,
    /// A read into pages of the file was under way at the same time as these writes.
    read: bool,
}

/// A write may hold a page, until this is dropped.
pub struct HoldsPage {
    pages: Arc<HeldPages>,
    fid: Fid,
    page: u64,
}

/// A read fills pages of a file, until this is dropped.
pub struct FillsPages {
    pages: Arc<HeldPages>,
    fid: Fid,
}

impl HoldsPage {
    /// True if a read filled pages of the file beside the write.
    pub fn is_beside_a_read(&self) -> bool {
        self.pages.has(self.fid, |held| held.page == self.page && held.read)
    }
}

impl HeldPages {
    /// A write of `len` bytes (more than 0) at `offset` is under way.
    pub fn hold(self: &Arc<Self>, fid: Fid, offset: u64, len: u64) -> HoldsPage {
        let page = offset.saturating_add(len).saturating_sub(1) / PAGE;
        {
            let mut files = self.files.lock();
            let InPages { held, reads } = files.entry(fid).or_default();
            let read = *reads > 0;
            match held.iter_mut().find(|held| held.page == page) {
                Some(held) => {
                    held.writes += 1;
                    held.read |= read;
                }
                None => held.push(Held { page, writes: 1, going: false, read }),
            }
        }
        self.changed.notify_waiters();
        HoldsPage { pages: self.clone(), fid, page }
    }

    /// A read into pages of a file is under way.
    pub fn fill(self: &Arc<Self>, fid: Fid) -> FillsPages {
        let mut files = self.files.lock();
        let InPages { held, reads } = files.entry(fid).or_default();
        *reads += 1;
        held.iter_mut().for_each(|held| held.read = true);
        FillsPages { pages: self.clone(), fid }
    }

    /// Pages of a file that writes may hold, in order.
    pub fn of(&self, fid: Fid) -> Vec<u64> {
        let files = self.files.lock();
        let mut pages: Vec<u64> =
            files.get(&fid).into_iter().flat_map(|file| &file.held).map(|held| held.page).collect();
        pages.sort_unstable();
        pages
    }

    /// Ready when a write may hold another page of the file than these.
    pub(crate) async fn other_than(&self, fid: Fid, known: &[u64]) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.of(fid).iter().any(|page| !known.contains(page)) {
                return;
            }
            changed.await;
        }
    }

    /// The kernel waits for a page that it was told to drop, or no longer.
    pub(crate) fn set_going(&self, fid: Fid, page: u64, going: bool) {
        let mut files = self.files.lock();
        let held = files.get_mut(&fid).into_iter().flat_map(|file| &mut file.held);
        held.filter(|held| held.page == page).for_each(|held| held.going = going);
    }

    /// True if the kernel waits for this page already in order to drop it.
    pub(crate) fn is_going(&self, fid: Fid, page: u64) -> bool {
        self.has(fid, |held| held.page == page && held.going)
    }

    fn has(&self, fid: Fid, is: impl Fn(&Held) -> bool) -> bool {
        self.files.lock().get(&fid).is_some_and(|file| file.held.iter().any(is))
    }

    /// A write or a read is over.
    fn over(&self, fid: Fid, end: impl FnOnce(&mut InPages)) {
        let mut files = self.files.lock();
        let Some(file) = files.get_mut(&fid) else { return };
        end(file);
        if file.held.is_empty() && file.reads == 0 {
            files.remove(&fid);
        }
    }
}

impl Drop for HoldsPage {
    fn drop(&mut self) {
        self.pages.over(self.fid, |file| {
            let held = file.held.iter_mut().filter(|held| held.page == self.page);
            held.for_each(|held| held.writes -= 1);
            file.held.retain(|held| held.writes > 0);
        });
        self.pages.changed.notify_waiters();
    }
}

impl Drop for FillsPages {
    fn drop(&mut self) {
        self.pages.over(self.fid, |file| file.reads -= 1);
    }
}

/// What is left of a file without these pages, as offset and length (0: to the end).
pub fn between(pages: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges = Vec::with_capacity(pages.len() + 1);
    let mut start = 0;
    for page in pages {
        if start < page * PAGE {
            ranges.push((start, page * PAGE - start));
        }
        start = (page + 1) * PAGE;
    }
    ranges.push((start, 0));
    ranges
}

/// One page, as offset and length.
pub fn bytes_of(page: u64) -> (u64, u64) {
    (page * PAGE, PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    #[test]
    fn a_write_may_hold_its_last_page() {
        let pages = Arc::new(HeldPages::default());
        let first = pages.hold(A, 0, 4096);
        assert_eq!(pages.of(A), [0]);
        let second = pages.hold(A, 5000, 5000);
        let third = pages.hold(A, 8192, 1);
        assert_eq!(pages.of(A), [0, 2]);
        drop((first, third));
        assert_eq!(pages.of(A), [2]);
        pages.set_going(A, 2, true);
        assert!(pages.is_going(A, 2) && !pages.is_going(A, 0));
        drop(second);
        assert!(pages.of(A).is_empty() && !pages.is_going(A, 2));
    }

    #[test]
    fn a_write_knows_of_reads_beside_it() {
        let pages = Arc::new(HeldPages::default());
        let alone = pages.hold(A, 0, 1);
        assert!(!alone.is_beside_a_read());
        let read = pages.fill(A);
        assert!(alone.is_beside_a_read(), "it began before the read");
        let second = pages.hold(A, 4096, 1);
        assert!(second.is_beside_a_read(), "it began after the read");
        drop(read);
        assert!(second.is_beside_a_read(), "the read is over, its page is there");
        drop((alone, second));
        assert!(!pages.hold(A, 0, 1).is_beside_a_read());
        assert!(pages.files.lock().is_empty());
    }

    #[test]
    fn the_rest_of_a_file_is_what_nobody_holds() {
        assert_eq!(between(&[]), [(0, 0)]);
        assert_eq!(between(&[0]), [(4096, 0)]);
        assert_eq!(between(&[1, 2, 5]), [(0, 4096), (12288, 8192), (24576, 0)]);
    }

    #[tokio::test]
    async fn a_page_that_comes_to_be_held_is_told() {
        let pages = Arc::new(HeldPages::default());
        let held = pages.hold(A, 0, 1);
        let mut other = pin!(pages.other_than(A, &[0]));
        assert!(futures_util::poll!(other.as_mut()).is_pending());
        let more = pages.hold(A, 4096, 1);
        other.await;
        drop((held, more));
    }
}
