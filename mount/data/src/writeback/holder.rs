//! The data path's part in callbacks: flush, report, let the kernel drop its pages.

use crate::file::File;
use crate::kernel_view::kernel_cache::KernelCache;
use crate::kernel_view::timers::{GIVES_WAY, PAUSE_MAX, PAUSE_MIN, ROUNDS_MAX};
use crate::locks::data_guards::{DataHolder, Loss};
use crate::locks::held_pages::{between, bytes_of};
use crate::node::NodeId;
use crate::path::DataPath;
use env::BoxFuture;
use futures_util::future::join_all;
use observe::mutant::{Mutant, is_mutant};
use std::sync::{Arc, Weak};
use types::attr::Attr;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::time::Timestamp;
use wire::client::{Glimpse, Glimpsed};

/// A time that is never the newest.
const NO_TIME: Timestamp = Timestamp { sec: i64::MIN, nsec: 0 };

/// The data path, as its locks see it.
pub struct ClientData(pub Weak<DataPath>);

impl DataHolder for ClientData {
    fn revoke(&self, fid: Fid, bits: InodeBits) -> BoxFuture<'static, ()> {
        let path = self.0.upgrade();
        Box::pin(async move {
            if let Some(path) = path {
                path.give_data(fid, bits).await;
            }
        })
    }

    fn given_back(&self, fid: Fid) {
        if let Some(path) = self.0.upgrade() {
            path.writeback.forget_contended(fid);
        }
    }

    fn store(&self, fid: Fid) -> BoxFuture<'static, ()> {
        let path = self.0.upgrade();
        Box::pin(async move {
            if let Some(path) = path
                && let Some(file) = path.writeback.dirty_file(fid)
            {
                path.store_for_others(&file).await;
            }
        })
    }

    fn glimpse(&self, fid: Fid) -> Glimpsed {
        let Some(client) = self.0.upgrade() else { return Glimpsed::Reported };
        if let Some(file) = client.writeback.dirty_file(fid) {
            let mut dirty = file.dirty.lock();
            if let Some(size) = dirty.size() {
                return Glimpsed::Dirty(Glimpse {
                    size,
                    mtime: dirty.show_mtime().unwrap_or(NO_TIME),
                });
            }
            return Glimpsed::Reported;
        }
        if client.locks.is_used(fid) {
            return Glimpsed::Reported;
        }
        let open = client.files.get_used(fid).filter(|file| file.is_open_to_write());
        // Of pages that are mapped for writing it is not known when they were changed.
        let needed = |file: Arc<File>| {
            client.writeback.has_cached_pages(fid)
                || !file.quiet.lock().gives_up(client.session.env.clock.now())
        };
        match open.is_some_and(needed) {
            true => Glimpsed::Reported,
            false => Glimpsed::Idle,
        }
    }

    fn newest(&self, mut attr: Attr) -> Attr {
        let Some(path) = self.0.upgrade() else { return attr };
        // The unreported state is read first: a report in between is then noted as an earlier one.
        let dirty = path.writeback.dirty_file(attr.fid);
        let (size, mtime) = dirty.map_or((None, None), |file| {
            let dirty = file.dirty.lock();
            (dirty.size(), dirty.mtime())
        });
        if let Some((mut reported, shared)) = path.writeback.reported_since(&attr) {
            if shared {
                // Other clients' writes are in the shown attributes, not in this mount's answers.
                (reported.size, reported.mtime) =
                    (reported.size.max(attr.size), reported.mtime.max(attr.mtime));
            }
            (attr.size, attr.blocks, attr.mtime) = (reported.size, reported.blocks, reported.mtime);
            attr.ctime = attr.ctime.max(reported.ctime);
        }
        let (mut least, mut oldest) = (0, NO_TIME);
        if size.is_some() && path.locks.is_shared(attr.fid) {
            (least, oldest) = (attr.size, attr.mtime);
        }
        attr.size = size.unwrap_or(attr.size).max(least);
        if let Some(mtime) = mtime.map(|mtime| mtime.max(oldest)) {
            (attr.mtime, attr.ctime) = (mtime, attr.ctime.max(mtime));
        }
        path.accesses.shown(attr)
    }

    fn dirty_files(&self, mdt: u16) -> Vec<Fid> {
        let Some(path) = self.0.upgrade() else { return Vec::new() };
        path.dirty_files_of(mdt).iter().map(|file| file.fid).collect()
    }

    fn is_dirty(&self, fid: Fid) -> bool {
        self.0.upgrade().is_some_and(|path| path.writeback.is_dirty(fid))
    }

    fn forget_layout(&self, fid: Fid) {
        if let Some(file) = self.0.upgrade().and_then(|path| path.files.get_used(fid)) {
            file.forget_layout();
        }
    }

    fn lost(&self, mdt: u16, how: Loss) {
        if let Some(path) = self.0.upgrade() {
            path.lose_data(mdt, how);
        }
    }
}

impl DataPath {
    fn dirty_files_of(&self, mdt: u16) -> Vec<Arc<File>> {
        let mut files = self.writeback.dirty_files();
        files.retain(|file| file.fid.mdt() == mdt);
        files
    }

    /// A client reads the file without a lock (docs/locks/kernel.md, R37). What this mount wrote
    /// before this call is in the objects afterwards, unless a target does not answer within
    /// [`GIVES_WAY`]: this client must answer in time.
    async fn store_for_others(&self, file: &Arc<File>) {
        if !self.holds_write(file) {
            return;
        }
        tokio::select! {
            biased;
            stored = self.flush_locked(file) => {
                if let Err(error) = stored {
                    tracing::debug!(fid = %file.fid, %error, "not stored for a reader");
                }
            }
            () = self.session.env.clock.sleep(GIVES_WAY) => {}
        }
    }

    /// No guard of the file's data is out.
    async fn give_data(&self, fid: Fid, bits: InodeBits) {
        self.writeback.note_contended(fid, self.session.env.clock.now());
        if let Some(file) = self
            .files
            .get_used(fid)
            .filter(|_| bits.contains(InodeBits::DATA) && !is_mutant(Mutant::AheadUnlocked))
        {
            file.ahead.forget();
        }
        if let Some(file) = self.writeback.dirty_file(fid) {
            self.flush_until_clean(&file).await;
        }
        // With WRITE go pages that a mapping may have made dirty, though DATA stays.
        let mapped = || self.files.get_used(fid).is_some_and(|file| file.is_open_to_write());
        if !self.writeback.has_pages(fid) || !bits.contains(InodeBits::DATA) && !mapped() {
            return;
        }
        if let (Some(kernel), Some(node)) = (self.locks.kernel.get(), self.locks.nodes.node(fid)) {
            // It waits for pages that are being read: so these reads are answered, under the lock
            // that is still held.
            self.locks.data_admit(fid);
            let mut pause = PAUSE_MIN;
            for round in 1..=ROUNDS_MAX {
                let before = self.locks.data_admissions(fid);
                self.drop_pages(kernel, node, fid).await;
                if self.locks.data_shut(fid, before, false) {
                    break;
                }
                if round == ROUNDS_MAX {
                    self.locks.data_shut(fid, before, true);
                    // What was read meanwhile goes soon. The callback does not wait for that: a
                    // read may hold its pages until another client has the lock.
                    let dropped = kernel.inval_apart(node, 0, 0);
                    self.session.env.tasks.spawn("drop what was read last", dropped);
                    break;
                }
                self.session.env.clock.sleep(pause).await;
                pause = (2 * pause).min(PAUSE_MAX);
            }
            // Another callback may still let the kernel read; its last round finds these pages.
            self.locks.data_unadmitted(fid).await;
            self.locks.data_quiet(fid).await;
        }
        self.writeback.forget_pages(fid);
        // Pages that programs changed through mappings came to light.
        if let Some(file) = self.writeback.dirty_file(fid) {
            self.flush_until_clean(&file).await;
        }
    }

    /// A write of this mount past the page cache is done. The kernel dropped its pages of these
    /// bytes before it sent the write; a read into pages may have come in between, and its answer
    /// may be what was there before. So they go once more, from a thread apart: the kernel waits
    /// for pages that are being read, and such a read may wait for another client. If DATA goes
    /// meanwhile, these pages go with it.
    pub async fn drop_written(
        &self,
        kernel: &Arc<dyn KernelCache>,
        node: NodeId,
        fid: Fid,
        (offset, len): (u64, u64),
    ) {
        if self.locks.no_open() || len == 0 || !self.writeback.has_cached_pages(fid) {
            return;
        }
        let tenure = self.locks.table.lock().data_tenure(fid);
        let dropped = kernel.inval_apart(node, offset, len);
        tokio::select! {
            biased;
            () = dropped => {}
            () = self.locks.tenure_over(fid, tenure) => {}
        }
    }

    /// The kernel drops its pages of a file. A page that a write of this mount holds while it waits
    /// for its lock goes when that write has ended; nothing can be read from it
    /// (docs/locks/kernel.md, R39).
    pub async fn drop_pages(&self, kernel: &Arc<dyn KernelCache>, node: NodeId, fid: Fid) {
        let held = &self.locks.held_pages;
        loop {
            let pages = held.of(fid);
            let rest = between(&pages)
                .into_iter()
                .map(|(offset, len)| kernel.inval_data(node, offset, len));
            tokio::select! {
                biased;
                _ = join_all(rest) => {}
                // The kernel may be waiting for that page, and has not come to those behind it.
                () = held.other_than(fid, &pages) => continue,
            }
            for page in pages {
                if held.is_going(fid, page) {
                    continue;
                }
                let (offset, len) = bytes_of(page);
                if let Some(gone) = kernel.inval_held(node, offset, len).await {
                    held.set_going(fid, page, true);
                    let held = held.clone();
                    let settle = async move {
                        gone.await;
                        held.set_going(fid, page, false);
                    };
                    self.session.env.tasks.spawn("wait for a page to go", Box::pin(settle));
                }
            }
            return;
        }
    }

    /// All locks of an MDT are lost.
    fn lose_data(&self, mdt: u16, how: Loss) {
        let pages = self.writeback.take_pages(mdt);
        if let Some(me) = self.strong().filter(|_| !pages.is_empty()) {
            let forget = async move {
                let Some(kernel) = me.locks.kernel.get() else { return };
                for fid in pages {
                    if let Some(node) = me.locks.nodes.node(fid) {
                        kernel.inval_data(node, 0, 0).await;
                    }
                }
            };
            self.session.env.tasks.spawn("let the kernel forget", Box::pin(forget));
        }
        if how == Loss::Eviction {
            for file in self.dirty_files_of(mdt).iter().filter(|file| !file.dirty.lock().is_clean())
            {
                tracing::error!(fid = %file.fid, "evicted: what was written and not stored is lost");
                file.dirty.lock().fail(Errno::EIO);
                self.discard(file);
            }
        }
    }
}
