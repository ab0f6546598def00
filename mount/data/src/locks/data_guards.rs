//! Guards of work with the data of a file under its lock, so that a callback can wait for it.
//!
//! A callback first *stops* a file: no new guard is given out, and those under way are waited for.
//! Then the data path stores dirty data and lets the kernel drop its pages. While the kernel does
//! so, it may wait for reads and writes of this very mount. So these are *admitted* again, under
//! the old lock, which is still held. That lasts until the kernel has dropped its pages in a round
//! without such uses ([`Locks::data_shut`]). At the end the lock is *gone*, and waiting operations
//! ask for it again.

use crate::locks::Locks;
use crate::locks::table::Table;
use env::BoxFuture;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use types::attr::Attr;
use types::fid::Fid;
use types::lock::InodeBits;
use types::ranges::{ByteRange, Extent};
use wire::client::Glimpsed;

/// For reading.
const TO_READ: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE);
/// For writing.
pub const TO_WRITE: InodeBits = TO_READ.union(InodeBits::WRITE);

/// What work with data asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataAccess {
    /// Bits that must be held.
    pub bits: InodeBits,
    /// These bytes are enough; `None`: the whole file.
    pub range: Option<ByteRange>,
}

impl DataAccess {
    /// All of a file, for reading.
    pub const READ_ALL: DataAccess = DataAccess { bits: TO_READ, range: None };
    /// For filling the kernel's pages. It must be able to wait: a callback that drops pages lets a
    /// waiting read bypass the lock, and the read then misses what others have not stored yet.
    /// Callbacks of the whole file find it stored; those of extents leave pages alone
    /// (`localflock`, `noflock`: docs/locks/protocol.md, "Shared-write files").
    pub(crate) const PAGES: DataAccess = DataAccess::READ_ALL;
    /// All of a file, for writing, including changes of its size.
    pub const WRITE_ALL: DataAccess = DataAccess { bits: TO_WRITE, range: None };

    /// For reading `[start, end)`.
    pub fn read(start: u64, end: u64) -> DataAccess {
        let range = ByteRange::new(start, end);
        DataAccess { bits: TO_READ, range: (!range.is_empty()).then_some(range) }
    }

    /// For writing `[start, end)`.
    pub fn write(start: u64, end: u64) -> DataAccess {
        DataAccess { bits: TO_WRITE, range: Some(ByteRange::new(start, end)) }
    }

    fn writes(self) -> bool {
        self.bits.contains(InodeBits::WRITE)
    }

    fn extent(self) -> Option<Extent> {
        self.range.map(|range| Extent { range, write: self.writes() })
    }
}

/// The data path's part in callbacks.
pub trait DataHolder: Send + Sync + 'static {
    /// DATA or WRITE is called back (or given up). Stores dirty data and reports size and times to
    /// the MDT, forgets what was read, and lets the kernel drop its pages. No use is under way when
    /// it is called; afterwards the lock is gone. May wait for OSTs and for `Wrote`, but for
    /// nothing that could wait for a lock.
    fn revoke(&self, fid: Fid, bits: InodeBits) -> BoxFuture<'static, ()>;
    /// This mount gave DATA or WRITE back by itself: no other client wanted it.
    fn given_back(&self, fid: Fid) {
        let _ = fid;
    }
    /// Stores what this mount has written, and tells the MDT, as far as the lock is held and
    /// targets answer in time. May wait for OSTs and for `Wrote`, but for nothing that could wait
    /// for a lock.
    fn store(&self, fid: Fid) -> BoxFuture<'static, ()> {
        let _ = fid;
        Box::pin(std::future::ready(()))
    }
    /// Size and times, if this mount wrote something that the MDT does not know, and whether it
    /// may write more.
    fn glimpse(&self, fid: Fid) -> Glimpsed;
    /// Attributes that an MDT showed, with this mount's writes that it did not know at that time.
    fn newest(&self, attr: Attr) -> Attr {
        attr
    }
    /// Files of an MDT with dirty data: the MDT restarted, and WRITE of these is asked for again
    /// before another client may have it.
    fn dirty_files(&self, mdt: u16) -> Vec<Fid> {
        let _ = mdt;
        Vec::new()
    }
    /// True if something of the file is not stored, or the MDT was not told of it.
    fn is_dirty(&self, fid: Fid) -> bool {
        let _ = fid;
        false
    }
    /// LAYOUT is called back: what is known of it goes.
    fn forget_layout(&self, fid: Fid) {
        let _ = fid;
    }
    /// All locks of an MDT are lost.
    fn lost(&self, mdt: u16, how: Loss);
}

/// How locks were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The MDT was not heard of for so long that it may have given them to others. Dirty data may
    /// be stored later, under a new lock, if the session turns out to live.
    Silence,
    /// The MDT restarted: dirty data can be stored under a new lock.
    Restart,
    /// The MDT evicted this client: dirty data is lost.
    Eviction,
}

/// Guards, by file.
#[derive(Default)]
pub struct DataGuards {
    files: Mutex<HashMap<Fid, Guards>>,
    /// A guard went, or a callback ended: those that wait look again.
    pub changed: Notify,
}

#[derive(Default)]
struct Guards {
    /// Under way.
    now: usize,
    /// Those of them that may change it.
    writing: usize,
    /// Bypassing, under way.
    bypassing: usize,
    /// Begun since the file was stopped, bypassing or not.
    admissions: u64,
    /// Callbacks under way.
    stops: usize,
    /// Admitted although stopped, because the kernel waits for them.
    admitted: usize,
}

impl Guards {
    fn is_idle(&self) -> bool {
        self.now == 0 && self.bypassing == 0 && self.stops == 0
    }
}

/// Data of a file is worked with under its lock.
pub struct DataGuard {
    locks: Arc<Locks>,
    fid: Fid,
    writes: bool,
    shared: Option<u64>,
    tenure: u64,
}

impl DataGuard {
    /// Under an extent: the number of the time that the file is shared. `None`: under the lock of
    /// the whole file.
    pub fn shared(&self) -> Option<u64> {
        self.shared
    }

    /// Number of the time for which DATA of the whole file is held; 0: under an extent.
    pub fn tenure(&self) -> u64 {
        self.tenure
    }
}

impl Drop for DataGuard {
    fn drop(&mut self) {
        let mut files = self.locks.data_guards.files.lock();
        if let Some(guards) = files.get_mut(&self.fid) {
            guards.now -= 1;
            guards.writing -= usize::from(self.writes);
            if guards.is_idle() {
                files.remove(&self.fid);
            }
        }
        drop(files);
        self.locks.data_guards.changed.notify_waiters();
    }
}

/// Data is read or written past the lock: the kernel fills pages with it that no lock covers. So
/// the callback that is under way lets the kernel drop its pages once more.
pub struct BypassGuard {
    locks: Arc<Locks>,
    fid: Fid,
}

impl Drop for BypassGuard {
    fn drop(&mut self) {
        let mut files = self.locks.data_guards.files.lock();
        if let Some(guards) = files.get_mut(&self.fid) {
            guards.bypassing -= 1;
            if guards.is_idle() {
                files.remove(&self.fid);
            }
        }
        drop(files);
        self.locks.data_guards.changed.notify_waiters();
    }
}

/// Whether work may begin.
pub(crate) enum Admission {
    Begun(DataGuard),
    /// The lock is not held.
    Ask,
    /// It is being called back.
    Wait,
    /// It is being called back, the kernel drops its pages and may wait for this work, and the held
    /// bits are not enough.
    Bypass(BypassGuard),
}

/// How work with data may go on.
pub(crate) enum Admitted {
    /// Under its lock.
    Locked(DataGuard),
    /// At once, under whatever lock there is, because a callback waits for it: nothing may be kept,
    /// everything goes through. `None`: a write of pages.
    Bypass(Option<BypassGuard>),
}

impl Locks {
    pub(crate) fn begin_access(
        self: &Arc<Self>,
        fid: Fid,
        access: DataAccess,
        has_lease: bool,
    ) -> Admission {
        let table = self.table.lock();
        let mut files = self.data_guards.files.lock();
        let stopped =
            files.get(&fid).filter(|guards| guards.stops > 0).map(|guards| guards.admitted > 0);
        let whole = table.bits(fid).contains(access.bits);
        let shared =
            if whole { None } else { access.extent().and_then(|extent| table.shares(fid, extent)) };
        match (stopped, has_lease && (whole || shared.is_some())) {
            (None | Some(true), true) => {}
            (None, false) => return Admission::Ask,
            (Some(false), _) => return Admission::Wait,
            (Some(true), false) => {
                let guards = files.entry(fid).or_default();
                (guards.bypassing, guards.admissions) =
                    (guards.bypassing + 1, guards.admissions + 1);
                return Admission::Bypass(BypassGuard { locks: self.clone(), fid });
            }
        }
        let tenure = if whole { table.data_tenure(fid) } else { 0 };
        let guards = files.entry(fid).or_default();
        let writes = access.writes();
        guards.now += 1;
        guards.writing += usize::from(writes);
        guards.admissions += u64::from(guards.stops > 0);
        Admission::Begun(DataGuard { locks: self.clone(), fid, writes, shared, tenure })
    }

    /// Files of an MDT that are being changed under WRITE: no other client was granted it, because
    /// the use was not waited for.
    pub fn writing(&self, mdt: u16) -> Vec<Fid> {
        let files = self.data_guards.files.lock();
        files
            .iter()
            .filter(|(fid, guards)| fid.mdt() == mdt && guards.writing > 0)
            .map(|(fid, _)| *fid)
            .collect()
    }

    /// Ready when the kernel is dropping pages of this file, and may wait for uses of it.
    pub(crate) async fn data_admitted(&self, fid: Fid) {
        self.guards_are(|files| {
            files.get(&fid).is_some_and(|guards| guards.stops > 0 && guards.admitted > 0)
        })
        .await;
    }

    /// Ready when it is not, or no longer.
    pub(crate) async fn data_unadmitted(&self, fid: Fid) {
        self.guards_are(|files| files.get(&fid).is_none_or(|guards| guards.admitted == 0)).await;
    }

    /// Ready when DATA of this file is not held any more for the time of this number.
    pub(crate) async fn tenure_over(&self, fid: Fid, tenure: u64) {
        // Not as a condition on the guards: the table is taken before them.
        loop {
            let mut changed = pin!(self.data_guards.changed.notified());
            changed.as_mut().enable();
            if self.table.lock().data_tenure(fid) != tenure {
                return;
            }
            changed.await;
        }
    }

    /// Ready when no use of this file is under way.
    pub(crate) async fn data_quiet(&self, fid: Fid) {
        self.guards_are(|files| files.get(&fid).is_none_or(|guards| guards.now == 0)).await;
    }

    async fn guards_are(&self, so: impl Fn(&HashMap<Fid, Guards>) -> bool) {
        loop {
            let mut changed = pin!(self.data_guards.changed.notified());
            changed.as_mut().enable();
            if so(&self.data_guards.files.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// DATA or WRITE goes, in the order of the module's story.
    pub(crate) async fn revoke_data(&self, fid: Fid, bits: InodeBits) {
        // The kernel need not forget anything for them.
        self.give_up(fid, bits, |table| table.take(fid, bits, &mut Default::default())).await;
    }

    /// Extents go, as DATA and WRITE would; other bits of the file stay.
    pub(crate) async fn revoke_extents(&self, fid: Fid, ranges: &[ByteRange]) {
        // Under extents there are pages only of what a kernel that opens without requests has
        // written or read.
        let pages = if self.no_open() { InodeBits::DATA } else { InodeBits::NONE };
        let bits = InodeBits::WRITE.union(pages);
        self.give_up(fid, bits, |table| {
            ranges.iter().for_each(|range| table.take_range(fid, *range))
        })
        .await;
    }

    /// True if data of this file is in use.
    pub fn is_used(&self, fid: Fid) -> bool {
        self.data_guards
            .files
            .lock()
            .get(&fid)
            .is_some_and(|guards| guards.now + guards.bypassing > 0)
    }

    async fn give_up(&self, fid: Fid, bits: InodeBits, take: impl FnOnce(&mut Table)) {
        self.data_guards.files.lock().entry(fid).or_default().stops += 1;
        let stopped = Stopped { locks: self, fid };
        // Reads that give way look again ([`Locks::data_wanted`]).
        self.data_guards.changed.notify_waiters();
        self.data_quiet(fid).await;
        if let Some(data) = self.data.get() {
            data.revoke(fid, bits).await;
        }
        // Gone before new uses are admitted.
        take(&mut self.table.lock());
        drop(stopped);
    }

    /// The kernel is about to drop pages of a stopped file, and may wait for uses of it.
    /// [`Locks::data_shut`] follows.
    pub(crate) fn data_admit(&self, fid: Fid) {
        if let Some(guards) = self.data_guards.files.lock().get_mut(&fid) {
            // Several callbacks may be at it at once.
            guards.admitted += 1;
        }
        self.data_guards.changed.notify_waiters();
    }

    /// Uses that were admitted since the file was stopped, bypassing or not.
    pub(crate) fn data_admissions(&self, fid: Fid) -> u64 {
        self.data_guards.files.lock().get(&fid).map_or(0, |guards| guards.admissions)
    }

    /// The kernel has dropped its pages. No use is admitted any more if none was since `before` and
    /// none is under way, or if `anyway`. Returns whether that is so.
    pub(crate) fn data_shut(&self, fid: Fid, before: u64, anyway: bool) -> bool {
        {
            let mut files = self.data_guards.files.lock();
            let Some(guards) = files.get_mut(&fid) else { return true };
            if !anyway && (guards.admissions != before || guards.now + guards.bypassing > 0) {
                return false;
            }
            guards.admitted = guards.admitted.saturating_sub(1);
        }
        self.data_guards.changed.notify_waiters();
        true
    }

    /// True if data of this file is being called back.
    pub fn is_stopped(&self, fid: Fid) -> bool {
        self.data_guards.files.lock().get(&fid).is_some_and(|guards| guards.stops > 0)
    }

    /// Ready when data of this file is being called back.
    pub(crate) async fn data_stopped(&self, fid: Fid) {
        self.guards_are(|files| files.get(&fid).is_some_and(|guards| guards.stops > 0)).await;
    }

    /// Ready when data of this file has been called back for this long without a break.
    pub(crate) async fn data_wanted(&self, fid: Fid, long: Duration) {
        loop {
            self.data_stopped(fid).await;
            tokio::select! {
                biased;
                () = self.data_unstopped(fid) => {}
                () = self.env.clock.sleep(long) => return,
            }
        }
    }

    /// Ready when it is not.
    pub(crate) async fn data_unstopped(&self, fid: Fid) {
        self.guards_are(|files| files.get(&fid).is_none_or(|guards| guards.stops == 0)).await;
    }
}

/// A file that is stopped; also if the callback is dropped.
struct Stopped<'a> {
    locks: &'a Locks,
    fid: Fid,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let mut files = self.locks.data_guards.files.lock();
        if let Some(guards) = files.get_mut(&self.fid) {
            guards.stops -= 1;
            if guards.stops == 0 {
                (guards.admissions, guards.admitted) = (0, 0);
                if guards.is_idle() {
                    files.remove(&self.fid);
                }
            }
        }
        drop(files);
        self.locks.data_guards.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeTable;
    use env::real::{RealConfig, RealEnv};
    use futures_util::FutureExt;

    #[test]
    fn the_table_is_not_waited_for_under_the_guards() {
        let config = RealConfig { reactors: 1, blocking_threads: 1 };
        let (env, _guard) = RealEnv::start(config).expect("threads");
        let locks = Locks::new(env, Arc::new(NodeTable::new()), false, Arc::default());
        let fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
        // As an access that begins holds it, before it takes the guards.
        let table = locks.table.lock();
        let theirs = locks.clone();
        let waits = std::thread::spawn(move || theirs.tenure_over(fid, 1).now_or_never());
        for _ in 0..100 {
            assert!(locks.data_guards.files.try_lock().is_some(), "an access would wait for ever");
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(table);
        assert_eq!(waits.join().expect("no panic"), Some(()), "nothing is held");
    }
}
