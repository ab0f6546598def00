//! The ends of files, as the kernel believes them, whose pages programs read.
//!
//! A file that other clients extend grows in the kernel when it is told new attributes. The kernel
//! then cuts its pages at the end in these attributes, which may be older than what another thread
//! was told, and read, a moment ago. If a callback overtakes them, it ignores them altogether, and
//! reads on up to the older end. So before attributes with a new end are shown, the last byte is
//! put among the kernel's pages. That moves the end, leaves the pages alone, and comes in the order
//! of callbacks ([`KernelCache::store`](crate::locks::kernel::KernelCache::store)). The attributes
//! then say nothing new about the end.

use crate::client::Client;
use crate::locks::data_guards::DataAccess;
use crate::ops::read::Ready;
use foldhash::HashMap;
use parking_lot::Mutex;
use session::error::ClientError;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use types::credentials::Credentials;
use types::fid::Fid;

/// How long attributes wait at most for a callback that drops pages of their file. A reader that
/// comes to the file's end meanwhile would be asked to read again, and the callback would wait for
/// that.
const PAGES_GO: Duration = Duration::from_secs(1);

/// Files of which the kernel has pages for open files.
#[derive(Default)]
pub(crate) struct KernelEof {
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
    /// size.
    pub fn watch(self: &Arc<Self>, fid: Fid, size: u64) -> Watched {
        self.files.lock().entry(fid).or_insert(Eof { known: size, growing: false, watchers: 0 }).watchers += 1;
        Watched { eof: self.clone(), fid }
    }

    /// True if any program reads pages of it.
    pub fn is_watched(&self, fid: Fid) -> bool {
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
    async fn turn(&self, fid: Fid) -> Option<Growing<'_>> {
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
pub(crate) struct Watched {
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
struct Growing<'a> {
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

impl Client {
    /// True if attributes with this size may go to the kernel at once. Otherwise
    /// [`Client::pages_gone`] and [`Client::show_eof`] come before.
    pub(crate) fn may_show(&self, fid: Fid, size: u64) -> bool {
        let eof = &self.writeback.kernel_eof;
        let pages_go = self.locks.is_stopped(fid) && eof.is_watched(fid);
        !pages_go && !eof.is_behind(fid, size)
    }

    /// Waits, not for long, until no callback drops pages of this file that programs read.
    pub(crate) async fn pages_gone(&self, fid: Fid) {
        if !self.locks.is_stopped(fid) || !self.writeback.kernel_eof.is_watched(fid) {
            return;
        }
        tokio::select! {
            biased;
            () = self.locks.data_unstopped(fid) => {}
            () = self.session.env.clock.sleep(PAGES_GO) => {}
        }
    }

    /// To be awaited before attributes with this size go to the kernel.
    pub(crate) async fn show_eof(&self, fid: Fid, size: u64) {
        let eof = &self.writeback.kernel_eof;
        if !eof.is_behind(fid, size) {
            return;
        }
        let Some(_growing) = eof.turn(fid).await else { return };
        if !eof.is_behind(fid, size) {
            return;
        }
        match self.give_eof(fid, size).await {
            Ok(Some(end)) => eof.written(fid, end),
            Ok(None) => {}
            Err(error) => tracing::debug!(%fid, %error, "put the end of a file among the kernel's pages"),
        }
    }

    /// Puts the last byte of a file of at least this size among the kernel's pages. Returns the end
    /// of the file; `None`: the kernel was not told.
    async fn give_eof(&self, fid: Fid, size: u64) -> Result<Option<u64>, ClientError> {
        let me = Credentials::root();
        let file = self.files.get(fid);
        let epoch = self.session.epoch(fid);
        let ready = self.ready_to_read(&me, &file, DataAccess::PAGES, size, false).await?;
        let Ready::Locked { guard, gate, size: end } = ready else { return Ok(None) };
        if end < size {
            return Ok(None);
        }
        // The kernel takes the rest of a page that begins with this byte for zeros: under the lock
        // of the whole file that is right.
        let last = self.read_held(&me, &file, (end - 1, end), true).await?.concat();
        let (Some(kernel), Some(node)) = (self.locks.kernel.get(), self.nodes.node(fid)) else { return Ok(None) };
        self.writeback.note_pages(fid);
        let Some(stored) = kernel.store(node, end - 1, last.into()) else { return Ok(None) };
        // From here on a callback may come: its invalidation reaches the kernel afterwards.
        drop((gate, guard));
        if self.session.epoch(fid) != epoch || !self.session.has_lease(fid) {
            kernel.inval_data(node, 0, 0).await;
        }
        stored.await;
        Ok(Some(end))
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
