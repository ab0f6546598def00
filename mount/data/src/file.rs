//! What the client knows of an inode while something uses it: a handle, or an operation under way.
//!
//! The *gate* orders operations that move the end of a file or remove bytes (truncate, fallocate)
//! against writes of this client: reads and writes pass it shared, those exclusively. Between
//! clients that order comes from locks.
//!
//! A *suspect tail*: an operation of this client ended between the MDT and the OSTs, so that
//! objects may hold bytes beyond the end of the file. Growing the file would show them; so they are
//! cut before the next change. The mark outlives the `File` (in the table), because an inode may be
//! closed and opened again.

use crate::asking::Asking;
use crate::handle::FileHandle;
use crate::open_prefetch::Prefetched;
use crate::read_ahead::FileAhead;
use crate::writeback::dirty_file::DirtyFile;
use crate::writeback::failures::Failures;
use crate::writeback::quiet::Quiet;
use bytes::Bytes;
use env::clock::Monotonic;
use env::watch;
use foldhash::{HashMap, HashSet};
use layout::layout::Layout;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::{RwLock, RwLockWriteGuard};
use types::attr::Attr;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::session::Transno;

/// Inodes not in use that are remembered for a suspect tail, or for a loss that no program was told
/// of. Each needs a failed target; beyond this one is forgotten, with a warning.
const SUSPECTS_MAX: usize = 65_536;

/// An inode in use.
pub struct File {
    /// FID of the inode.
    pub fid: Fid,
    /// See the module. To have it alone: [`File::alone`].
    pub gate: RwLock<()>,
    /// Its locks that this mount asks for.
    pub(crate) asking: Asking,
    /// What was fetched ahead of its readers.
    pub(crate) ahead: FileAhead,
    /// Written data that is not stored, or not reported to the MDT.
    pub dirty: Mutex<DirtyFile>,
    /// Whether it lies still though it is open for writing.
    pub(crate) quiet: Mutex<Quiet>,
    /// Held by the task that decides what is sent, and not until it is answered.
    pub flushing: tokio::sync::Mutex<()>,
    /// Counts requests of `dirty.under_way` that ended.
    pub answered: watch::Sender<u64>,
    /// Held by the task that reports to the MDT.
    pub reporting: tokio::sync::Mutex<()>,
    /// A task will flush it.
    pub flush_pending: AtomicBool,
    known: Mutex<Known>,
    lockers: Mutex<Lockers>,
    /// Held exclusively while the locks of a closed file are dropped, shared by operations that are
    /// about to take some.
    pub dropping: RwLock<()>,
    /// Open files of this mount that may write it, and so map it for writing.
    open_to_write: AtomicUsize,
    /// Open files of this mount that may read it.
    open_to_read: AtomicUsize,
    /// Groups that have, or want, its data.
    groups: Mutex<BTreeMap<u64, Arc<GroupTurn>>>,
    suspect: AtomicBool,
    /// The reported growth of its objects may be wrong (`recount`).
    miscounted: AtomicBool,
    /// Change of the MDT that must be durable before objects are changed; 0 = none (`recorded`).
    rests_on: AtomicU64,
    table: Weak<FileTable>,
}

/// The owners that took locks through each open file. An owner with fcntl locks is a process, or an
/// open file (OFD locks): the kernel does not say which. It reports a process's close with FLUSH,
/// but the end of an open file only with RELEASE, which does not name the owner.
type Lockers = HashMap<(FlockFlavor, u64), BTreeSet<FileHandle>>;

/// An open file: counted while it lives, by what it may do.
pub struct Counted {
    file: Arc<File>,
    reads: bool,
    writes: bool,
}

impl Counted {
    /// Counts one that may read, or write.
    pub fn new(file: &Arc<File>, reads: bool, writes: bool) -> Counted {
        file.open_to_read.fetch_add(usize::from(reads), Ordering::SeqCst);
        file.open_to_write.fetch_add(usize::from(writes), Ordering::SeqCst);
        Counted { file: file.clone(), reads, writes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.file.open_to_read.fetch_sub(usize::from(self.reads), Ordering::SeqCst);
        self.file.open_to_write.fetch_sub(usize::from(self.writes), Ordering::SeqCst);
    }
}

/// Number of open files of this mount in a group. A task that joins or leaves holds the lock, so
/// the MDT hears of joining and leaving in the order in which they happened.
pub(crate) type GroupTurn = tokio::sync::Mutex<usize>;

#[derive(Default)]
struct Known {
    size: Option<u64>,
    layout: Option<Arc<Layout>>,
    prefetched: Option<Prefetched>,
}

impl File {
    /// Size by the last answer of the MDT, bytes.
    pub fn size(&self) -> Option<u64> {
        self.known.lock().size
    }

    /// The MDT sent attributes.
    pub fn learn(&self, attr: &Attr) {
        self.known.lock().size = Some(attr.size);
    }

    /// The newest layout that was seen.
    pub fn layout(&self) -> Option<Arc<Layout>> {
        self.known.lock().layout.clone()
    }

    /// The MDT sent a layout; one older than the known one is ignored.
    pub fn learn_layout(&self, layout: Arc<Layout>) -> Arc<Layout> {
        let slot = &mut self.known.lock().layout;
        match slot {
            Some(known) if known.generation > layout.generation => known.clone(),
            _ => slot.insert(layout).clone(),
        }
    }

    /// The layout is called back.
    pub(crate) fn forget_layout(&self) {
        self.known.lock().layout = None;
        self.ahead.forget();
    }

    /// The gate, for an operation that changes bytes of objects or moves the end of the file. What
    /// was fetched ahead of readers goes, and nothing is fetched meanwhile.
    pub async fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        let alone = self.gate.write().await;
        self.ahead.forget();
        alone
    }

    /// All its bytes came with an open.
    pub(crate) fn keep_prefetched(&self, prefetched: Prefetched) {
        self.known.lock().prefetched = Some(prefetched);
    }

    /// `[offset, end)` of the bytes that came with an open, if the file still has this version;
    /// otherwise they are dropped.
    pub(crate) fn prefetched(&self, version: u64, offset: u64, end: u64) -> Option<Bytes> {
        let known = &mut self.known.lock().prefetched;
        let found = known.as_ref()?.read(version, offset, end);
        if found.is_none() {
            *known = None;
        }
        found
    }

    /// Forgets what came from an MDT that has restarted since.
    pub fn distrust(&self) {
        *self.known.lock() = Known::default();
    }

    /// True if objects may hold bytes beyond the end of the file.
    pub(crate) fn tail_is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// Sets or clears the mark; returns its previous value.
    pub fn mark_tail(&self, suspect: bool) -> bool {
        self.suspect.swap(suspect, Ordering::AcqRel)
    }

    /// Sets or clears the mark that the reported growth of its objects may be wrong; returns its
    /// previous value.
    pub(crate) fn mark_miscounted(&self, miscounted: bool) -> bool {
        self.miscounted.swap(miscounted, Ordering::AcqRel)
    }

    /// True if the reported growth of its objects may be wrong.
    pub fn is_miscounted(&self) -> bool {
        self.miscounted.load(Ordering::Acquire)
    }

    /// Objects must not be changed before this change of the MDT is durable.
    pub fn rest_on(&self, newest: Transno) {
        self.rests_on.fetch_max(newest.0, Ordering::AcqRel);
    }

    /// The change that must be durable before objects are changed, if any.
    pub fn rests_on(&self) -> Option<Transno> {
        let newest = self.rests_on.load(Ordering::Acquire);
        (newest != 0).then_some(Transno(newest))
    }

    /// It is durable, unless the file rests on a newer change by now.
    pub(crate) fn is_recorded_up_to(&self, newest: Transno) {
        // The error means that the file rests on a newer change, which is waited for in its turn.
        let _newer =
            self.rests_on.compare_exchange(newest.0, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The owner of this lock took it, or tries to, through this open file.
    pub fn note_locker(&self, handle: FileHandle, lock: &Flock) {
        if lock.kind != FlockKind::Unlock {
            self.lockers.lock().entry((lock.flavor, lock.owner)).or_default().insert(handle);
        }
    }

    /// True if a program of this mount may have it mapped for writing.
    pub fn is_open_to_write(&self) -> bool {
        self.open_to_write.load(Ordering::SeqCst) > 0
    }

    /// A program opens it for writing.
    pub fn opened_to_write(&self, now: Monotonic) {
        self.quiet.lock().opened(now);
    }

    /// True if a program of this mount may read it at any moment.
    pub fn is_open_to_read(&self) -> bool {
        self.open_to_read.load(Ordering::SeqCst) > 0
    }

    /// The turn of a group.
    pub fn group(&self, group: u64) -> Arc<GroupTurn> {
        self.groups.lock().entry(group).or_default().clone()
    }

    /// Forgets groups without a member here.
    pub fn forget_groups(&self) {
        // A task with a clone of the lock is about to count there.
        self.groups.lock().retain(|_, turn| {
            Arc::strong_count(turn) > 1 || turn.try_lock().is_ok_and(|count| *count > 0)
        });
    }

    /// True if this owner ever took a lock here. Asked once: the answer is forgotten.
    pub fn take_locker(&self, flavor: FlockFlavor, owner: u64) -> bool {
        self.lockers.lock().remove(&(flavor, owner)).is_some()
    }

    /// True if locks were taken through this open file that may still be held.
    pub fn has_lockers(&self, handle: FileHandle) -> bool {
        self.lockers.lock().values().any(|through| through.contains(&handle))
    }

    /// This open file is closed: returns the owners whose locks end with it, in order. Asked once,
    /// as [`File::take_locker`].
    ///
    /// A process that locked through it has closed it before, and its locks went then. So the
    /// remaining ones are OFD and flock locks, which belong to the open file. The kernel names
    /// their owner by the place of the open file in its memory, and reuses that place: an owner
    /// that has taken a lock through another open file since is that other one.
    pub fn take_lockers(&self, handle: FileHandle) -> Vec<(FlockFlavor, u64)> {
        let mut ended = Vec::new();
        self.lockers.lock().retain(|owner, through| {
            if through.remove(&handle) && through.is_empty() {
                ended.push(*owner);
            }
            !through.is_empty()
        });
        ended.sort_unstable();
        ended
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            let unreported = self.dirty.get_mut().failures.unreported();
            table.dropped(self.fid, self.tail_is_suspect(), unreported);
        }
    }
}

/// All inodes in use.
#[derive(Default)]
pub struct FileTable {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    files: HashMap<Fid, Weak<File>>,
    suspects: HashSet<Fid>,
    /// Losses of files not in use that no open file was told of.
    lost: BTreeMap<Fid, Errno>,
}

impl FileTable {
    /// What is known of an inode; shared by all its users.
    pub fn get(self: &Arc<Self>, fid: Fid) -> Arc<File> {
        let inner = &mut *self.inner.lock();
        if let Some(file) = inner.files.get(&fid).and_then(Weak::upgrade) {
            return file;
        }
        let failures = inner.lost.remove(&fid).map(Failures::remembered).unwrap_or_default();
        let file = Arc::new(File {
            fid,
            gate: RwLock::new(()),
            asking: Asking::default(),
            ahead: FileAhead::default(),
            dirty: Mutex::new(DirtyFile::with(failures)),
            quiet: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
            reporting: tokio::sync::Mutex::default(),
            answered: watch::Sender::new(0),
            flush_pending: AtomicBool::new(false),
            known: Mutex::default(),
            lockers: Mutex::default(),
            dropping: RwLock::new(()),
            open_to_write: AtomicUsize::new(0),
            open_to_read: AtomicUsize::new(0),
            groups: Mutex::default(),
            suspect: AtomicBool::new(inner.suspects.remove(&fid)),
            rests_on: AtomicU64::new(0),
            miscounted: AtomicBool::new(false),
            table: Arc::downgrade(self),
        });
        inner.files.insert(fid, Arc::downgrade(&file));
        file
    }

    /// The inode, if it is in use.
    pub fn get_used(&self, fid: Fid) -> Option<Arc<File>> {
        self.inner.lock().files.get(&fid).and_then(Weak::upgrade)
    }

    /// All inodes in use: open here, dirty, or of an operation under way.
    pub fn all_used(&self) -> Vec<Arc<File>> {
        self.inner.lock().files.values().filter_map(Weak::upgrade).collect()
    }

    /// Inodes in use.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.inner.lock().files.len()
    }

    fn dropped(&self, fid: Fid, suspect: bool, unreported: Option<Errno>) {
        let inner = &mut *self.inner.lock();
        // Another task may have begun to use the inode again.
        let successor = inner.files.get(&fid).and_then(Weak::upgrade);
        if successor.is_none() {
            inner.files.remove(&fid);
        }
        match (unreported, &successor) {
            (None, _) => {}
            (Some(errno), Some(file)) => file.dirty.lock().failures.fail(errno),
            (Some(errno), None) => {
                if inner.lost.len() >= SUSPECTS_MAX
                    && let Some((fid, errno)) = inner.lost.pop_first()
                {
                    tracing::warn!(%fid, %errno, "a loss that no program was told of is forgotten");
                }
                inner.lost.insert(fid, errno);
            }
        }
        if suspect {
            match &successor {
                Some(file) => {
                    file.mark_tail(true);
                }
                None => {
                    if inner.suspects.len() >= SUSPECTS_MAX
                        && let Some(oldest) = inner.suspects.iter().next().copied()
                    {
                        tracing::warn!(fid = %oldest, "objects may hold bytes beyond the end of this file");
                        inner.suspects.remove(&oldest);
                    }
                    inner.suspects.insert(fid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    #[test]
    fn users_share_and_the_last_one_frees() {
        let table = Arc::new(FileTable::default());
        let (a, b) = (table.get(FID), table.get(FID));
        assert!(Arc::ptr_eq(&a, &b));
        drop((a, b));
        assert_eq!(table.count(), 0);
        assert!(table.get_used(FID).is_none());
    }

    #[test]
    fn a_suspect_tail_is_remembered_after_the_last_close() {
        let table = Arc::new(FileTable::default());
        table.get(FID).mark_tail(true);
        let again = table.get(FID);
        assert!(again.tail_is_suspect());
        again.mark_tail(false);
        drop(again);
        assert!(!table.get(FID).tail_is_suspect());
    }

    #[test]
    fn a_file_rests_on_the_newest_answer_until_that_is_durable() {
        let file = Arc::new(FileTable::default()).get(FID);
        assert_eq!(file.rests_on(), None);
        file.rest_on(Transno(7));
        file.rest_on(Transno(5));
        assert_eq!(file.rests_on(), Some(Transno(7)));
        file.rest_on(Transno(9));
        file.is_recorded_up_to(Transno(7));
        assert_eq!(file.rests_on(), Some(Transno(9)), "a newer answer came meanwhile");
        file.is_recorded_up_to(Transno(9));
        assert_eq!(file.rests_on(), None);
    }

    #[test]
    fn a_closed_file_ends_the_locks_of_its_owners_and_no_others() {
        use FlockFlavor::{Bsd, Posix};
        let table = Arc::new(FileTable::default());
        let file = table.get(FID);
        let lock = |flavor, owner| Flock {
            flavor,
            kind: FlockKind::Write,
            owner,
            pid: 1,
            start: 0,
            end: 9,
        };
        let (first, second) = (FileHandle(1), FileHandle(2));
        file.note_locker(first, &Flock { kind: FlockKind::Unlock, ..lock(Posix, 7) });
        assert!(!file.has_lockers(first));
        file.note_locker(first, &lock(Posix, 7));
        file.note_locker(first, &lock(Bsd, 8));
        file.note_locker(first, &lock(Posix, 9));
        file.note_locker(second, &lock(Posix, 9));
        file.note_locker(first, &lock(Posix, 10));
        assert!(file.take_locker(Posix, 10), "a process closed it");
        assert!(file.has_lockers(first));
        assert_eq!(
            file.take_lockers(first),
            [(Posix, 7), (Bsd, 8)],
            "the owner 9 is another open file by now"
        );
        assert!(!file.has_lockers(first));
        assert_eq!(file.take_lockers(second), [(Posix, 9)]);
    }

    #[test]
    fn open_files_are_counted_by_what_they_may_do() {
        let table = Arc::new(FileTable::default());
        let file = table.get(FID);
        let open = || (file.is_open_to_read(), file.is_open_to_write());
        let (reader, writer) = (Counted::new(&file, true, false), Counted::new(&file, false, true));
        assert_eq!(open(), (true, true));
        drop(reader);
        assert_eq!(open(), (false, true));
        drop(writer);
        assert_eq!(open(), (false, false));
    }

    #[test]
    fn an_old_layout_does_not_replace_a_new_one() {
        let table = Arc::new(FileTable::default());
        let file = table.get(FID);
        let layout = |generation| Arc::new(Layout { generation, ..Layout::default() });
        file.learn_layout(layout(2));
        assert_eq!(file.learn_layout(layout(1)).generation, 2);
        assert_eq!(file.learn_layout(layout(3)).generation, 3);
    }
}
