//! The kernel is told where a file ends before it is shown attributes with a new size
//! ([`crate::kernel_view::kernel_eof`]).

use crate::kernel_view::timers::PAGES_GO;
use crate::locks::data_guards::DataAccess;
use crate::path::DataPath;
use crate::read::Ready;
use session::error::ClientError;
use types::credentials::Credentials;
use types::fid::Fid;

impl DataPath {
    /// True if attributes with this size may go to the kernel at once. Otherwise
    /// [`DataPath::pages_gone`] and [`DataPath::show_eof`] come before.
    pub fn may_show(&self, fid: Fid, size: u64) -> bool {
        let eof = &self.writeback.kernel_eof;
        let pages_go = self.locks.is_stopped(fid) && eof.is_watched(fid);
        !pages_go && !eof.is_behind(fid, size)
    }

    /// Waits, not for long, until no callback drops pages of this file that programs read.
    pub async fn pages_gone(&self, fid: Fid) {
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
    pub async fn show_eof(&self, fid: Fid, size: u64) {
        let eof = &self.writeback.kernel_eof;
        if !eof.is_behind(fid, size) {
            return;
        }
        if self.locks.no_open() {
            // A program may have written into that page already, unknown to the mount, and the byte
            // would take the place of one of its own. So attributes move the end.
            return eof.written(fid, size);
        }
        let Some(_growing) = eof.turn(fid).await else { return };
        if !eof.is_behind(fid, size) {
            return;
        }
        match self.give_eof(fid, size).await {
            Ok(Some(end)) => eof.written(fid, end),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%fid, %error, "put the end of a file among the kernel's pages");
            }
        }
    }

    /// Puts the last byte of a file of at least this size among the kernel's pages. Returns the end
    /// that the kernel knows; `None`: it was not told.
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
        let last = self.read_held(&me, &file, (end - 1, end), true, None).await?.concat();
        let (Some(kernel), Some(node)) = (self.locks.kernel.get(), self.locks.nodes.node(fid))
        else {
            return Ok(None);
        };
        self.writeback.note_pages(fid, true);
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
