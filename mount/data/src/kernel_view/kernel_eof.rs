//! The ends of files, as the kernel believes them, whose pages programs read.
//!
//! A file that other clients extend grows in the kernel when it is told new attributes. The kernel
//! then cuts its pages at the end in these attributes, which may be older than what another thread
//! was told, and read, a moment ago. If a callback overtakes them, it ignores them altogether, and
//! reads on up to the older end. So before attributes with a new end are shown, the last byte is
//! put among the kernel's pages. That moves the end, leaves the pages alone, and comes in the order
//! of callbacks ([`KernelCache::store`](super::kernel_cache::KernelCache::store)). The attributes
//! then say nothing new about the end.

use foldhash::HashMap;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;
use types::fid::Fid;

/// Files of which the kernel has pages for open files.
#[derive(Default)]
pub struct KernelEof {
    files: Mutex<HashMap<Fid, Eof>>,
    grown: Notify,
}

struct Eof {
    /// The kernel was told of this end, or a later one.
    known: u64,
    /// A task is telling it of a later one.
    growing: bool,
    watchers: usize,
}

impl KernelEof {
    /// The kernel has pages of this file from now on, for one open file more. It was told this
    /// size: a later one that only the client knows would move the end with attributes, which the
    /// kernel may ignore.
    pub fn watch(self: &Arc<Self>, fid: Fid, size: u64) -> Watched {
        self.files
            .lock()
            .entry(fid)
            .or_insert(Eof { known: size, growing: false, watchers: 0 })
            .watchers += 1;
        Watched { eof: self.clone(), fid }
    }

    /// True if any program reads pages of it.
    pub(crate) fn is_watched(&self, fid: Fid) -> bool {
        self.files.lock().contains_key(&fid)
    }

    /// True if attributes with this size would move the end. A lower size is noted: such attributes
    /// move the end down.
    pub fn is_behind(&self, fid: Fid, size: u64) -> bool {
        let mut files = self.files.lock();
        let Some(end) = files.get_mut(&fid) else { return false };
        let behind = end.known < size;
        end.known = end.known.min(size);
        behind
    }

    /// A program of this mount wrote up to `size`, which its kernel knows without being told.
    pub fn written(&self, fid: Fid, size: u64) {
        if let Some(end) = self.files.lock().get_mut(&fid) {
            end.known = end.known.max(size);
        }
    }

    /// Waits for its turn to tell the kernel of a later end. `None`: no program reads pages of it.
    pub async fn turn(&self, fid: Fid) -> Option<Growing<'_>> {
        loop {
            let mut grown = pin!(self.grown.notified());
            grown.as_mut().enable();
            match self.files.lock().get_mut(&fid) {
                None => return None,
                Some(end) if !end.growing => {
                    end.growing = true;
                    return Some(Growing { eof: self, fid });
                }
                Some(_) => {}
            }
            grown.await;
        }
    }

    /// True if the kernel is not being told of an end of this file just now.
    pub fn is_quiet(&self, fid: Fid) -> bool {
        self.files.lock().get(&fid).is_none_or(|end| !end.growing)
    }

    /// Ready when it is told of none.
    pub async fn quiesce(&self, fid: Fid) {
        loop {
            let mut grown = pin!(self.grown.notified());
            grown.as_mut().enable();
            if self.is_quiet(fid) {
                return;
            }
            grown.await;
        }
    }
}

/// The kernel has pages of a file for an open file, until this is dropped.
pub struct Watched {
    eof: Arc<KernelEof>,
    fid: Fid,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut files = self.eof.files.lock();
        if let Some(end) = files.get_mut(&self.fid) {
            end.watchers -= 1;
            if end.watchers == 0 {
                files.remove(&self.fid);
            }
        }
        drop(files);
        self.eof.grown.notify_waiters();
    }
}

/// The turn to tell the kernel of a file's end.
pub struct Growing<'a> {
    eof: &'a KernelEof,
    fid: Fid,
}

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        if let Some(end) = self.eof.files.lock().get_mut(&self.fid) {
            end.growing = false;
        }
        self.eof.grown.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    #[test]
    fn only_files_with_pages_are_behind() {
        let eof = Arc::new(KernelEof::default());
        assert!(!eof.is_behind(A, 10), "nobody reads it");
        let first = eof.watch(A, 5);
        let second = eof.watch(A, 7);
        assert!(eof.is_behind(A, 6), "who opens it again knows no more than the kernel");
        drop(first);
        assert!(eof.is_watched(A));
        drop(second);
        assert!(!eof.is_behind(A, 10) && !eof.is_watched(A));
    }

    #[test]
    fn what_was_shown_or_written_is_known() {
        let eof = Arc::new(KernelEof::default());
        let _watched = eof.watch(A, 5);
        eof.written(A, 9);
        assert!(!eof.is_behind(A, 9));
        assert!(!eof.is_behind(A, 4), "it was cut: attributes show that");
        assert!(eof.is_behind(A, 9), "and it grew again");
    }

    #[tokio::test]
    async fn one_at_a_time_tells_the_kernel_of_an_end() {
        let eof = Arc::new(KernelEof::default());
        assert!(eof.turn(A).await.is_none(), "nobody reads it");
        let watched = eof.watch(A, 5);
        let growing = eof.turn(A).await;
        assert!(growing.is_some() && !eof.is_quiet(A));
        let mut second = pin!(eof.turn(A));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        let mut quiet = pin!(eof.quiesce(A));
        assert!(futures_util::poll!(quiet.as_mut()).is_pending());
        drop(growing);
        let growing = second.await;
        assert!(growing.is_some());
        drop(watched);
        quiet.await;
        assert!(eof.turn(A).await.is_none(), "closed meanwhile");
    }
}
