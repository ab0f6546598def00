//! Write-back: under WRITE a write is answered when it is in this cache (docs/locks/protocol.md,
//! "Data").
//!
//! [`dirty_file`] is the dirty data of one file, [`under_way`] what of it is being sent. [`absorb`]
//! takes a write in. [`flush`] brings it to the targets, with the requests of [`sending`], and
//! reports it to the MDT; [`holder`] does so when the lock is called back, [`background`] without a
//! caller. [`failures`] reports losses to programs, [`overlay`] lays dirty bytes over what was
//! read, [`quiet`] knows files that are open for writing and lie still. Locks are taken in this
//! order: a use of the lock (`locks::data_guards`), the file's gate, its turn to send, its turn to
//! report; the small locks inside are never held across a wait.

pub mod absorb;
pub mod background;
pub mod batcher;
pub mod dirty_file;
pub mod failures;
pub mod flags;
pub mod flush;
pub mod holder;
pub mod overlay;
pub(crate) mod quiet;
pub(crate) mod sending;
pub mod under_way;

use crate::cache::grant::Grants;
use crate::file::File;
use crate::kernel_view::kernel_eof::KernelEof;
use crate::kernel_view::timers::CONTENDED;
use crate::writeback::batcher::Batcher;
use crate::writeback::dirty_file::DirtyFile;
use env::clock::Monotonic;
use env::watch;
use foldhash::HashMap;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use types::attr::Attr;
use types::fid::Fid;
use types::limits::GRANT_UNIT;

/// A write waits at most about this long before it is sent by itself.
pub(crate) const DIRTY_AGE: Duration = Duration::from_secs(1);
/// Dirty bytes of one mount, unless an administrator sets another bound; beyond it writers store
/// first.
pub(crate) const DIRTY_BYTES_MAX: u64 = 256 << 20;
/// Stores that are under way in the background at the same time: of small files one each, of a
/// stream one for each [`BATCH_BYTES`](crate::cache::batch::BATCH_BYTES).
const FLUSHES_MAX: usize = 256;
/// Files for which it is remembered when their data was called back. Beyond it all are forgotten:
/// that costs only callbacks.
const CONTENDED_MAX: usize = 4096;
/// Remembered answers of MDTs to reports: a request that was on its way at that time shows the
/// state before.
const REPORTED_MAX: usize = 16_384;

/// Answers of MDTs to reports; of each inode the newest one.
#[derive(Default)]
struct Reported {
    /// With whether others write the file, too, and the answer lacks their writes.
    attrs: HashMap<Fid, (Attr, bool)>,
    /// All answers that may be remembered, with their versions, oldest first.
    order: VecDeque<(Fid, u64)>,
}

/// State that a mount keeps of writes.
pub struct Writeback {
    /// Space that targets granted.
    pub grants: Arc<Grants>,
    /// Files with something that is not stored or not reported.
    files: Mutex<BTreeMap<Fid, Arc<File>>>,
    /// Blocks in all of them: those that wait, and those that are on their way.
    blocks: AtomicU64,
    /// Requests with data of files that are under way, and how many have ended.
    sending: AtomicU64,
    answers: watch::Sender<u64>,
    /// Inodes of which the kernel may have pages, read under a DATA that is still held; true: it
    /// has read some into its page cache.
    pages: Mutex<BTreeMap<Fid, bool>>,
    /// Where the kernel believes files to end.
    pub kernel_eof: Arc<KernelEof>,
    reported: Mutex<Reported>,
    /// When data was last called back.
    contended: Mutex<HashMap<Fid, Monotonic>>,
    /// Bytes that may be dirty; beyond it writers store first.
    dirty_max: AtomicU64,
    flushes: Arc<Semaphore>,
    /// Requests that gave grants back.
    given_back: AtomicU64,
    /// Small requests to MDTs that go together.
    pub batcher: Arc<Batcher>,
}

impl Writeback {
    /// Nothing dirty.
    pub fn new(grants: Arc<Grants>) -> Writeback {
        Writeback {
            grants,
            files: Mutex::default(),
            blocks: AtomicU64::new(0),
            sending: AtomicU64::new(0),
            answers: watch::Sender::new(0),
            pages: Mutex::default(),
            kernel_eof: Arc::default(),
            reported: Mutex::default(),
            contended: Mutex::default(),
            dirty_max: AtomicU64::new(DIRTY_BYTES_MAX),
            flushes: Arc::new(Semaphore::new(FLUSHES_MAX)),
            given_back: AtomicU64::new(0),
            batcher: Arc::default(),
        }
    }

    /// Bytes that are not stored, in whole blocks.
    pub fn bytes(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * GRANT_UNIT
    }

    /// Bytes that may be dirty.
    pub fn dirty_max(&self) -> u64 {
        self.dirty_max.load(Ordering::Relaxed)
    }

    /// As [`Writeback::dirty_max`], from the next write on.
    pub fn set_dirty_max(&self, bytes: u64) {
        self.dirty_max.store(bytes, Ordering::Relaxed);
    }

    /// Requests that gave grants back: their time is not decided by programs.
    pub fn given_back(&self) -> u64 {
        self.given_back.load(Ordering::Relaxed)
    }

    /// Something of this file may be dirty from now on: the file is found until
    /// [`Writeback::forget_if_clean`] sees that nothing is.
    fn begin<'a>(&self, file: &'a Arc<File>) -> MutexGuard<'a, DirtyFile> {
        let mut files = self.files.lock();
        files.entry(file.fid).or_insert_with(|| file.clone());
        // Before the table is free again: otherwise the file could be forgotten in between.
        let dirty = file.dirty.lock();
        file.ahead.forget();
        dirty
    }

    /// Forgets the file if nothing of it is left.
    fn forget_if_clean(&self, file: &File) {
        let mut files = self.files.lock();
        if file.dirty.lock().is_clean() {
            files.remove(&file.fid);
        }
    }

    /// The file, if it is dirty.
    pub fn dirty_file(&self, fid: Fid) -> Option<Arc<File>> {
        self.files.lock().get(&fid).cloned()
    }

    /// True if it is dirty.
    pub(crate) fn is_dirty(&self, fid: Fid) -> bool {
        self.files.lock().contains_key(&fid)
    }

    /// All dirty files.
    fn dirty_files(&self) -> Vec<Arc<File>> {
        self.files.lock().values().cloned().collect()
    }

    /// An MDT knows what was written now.
    fn note_reported(&self, attr: &Attr, shared: bool) {
        let Reported { attrs, order } = &mut *self.reported.lock();
        attrs.insert(attr.fid, (*attr, shared));
        order.push_back((attr.fid, attr.version));
        if order.len() > REPORTED_MAX
            && let Some((fid, version)) = order.pop_front()
            && attrs.get(&fid).is_some_and(|(reported, _)| reported.version == version)
        {
            attrs.remove(&fid);
        }
    }

    /// The MDT's answer to reports since it showed these attributes, and whether that is complete.
    fn reported_since(&self, attr: &Attr) -> Option<(Attr, bool)> {
        self.reported
            .lock()
            .attrs
            .get(&attr.fid)
            .filter(|(reported, _)| reported.version > attr.version)
            .copied()
    }

    /// A read of this inode begins; `cached`: into the kernel's page cache.
    pub(crate) fn note_pages(&self, fid: Fid, cached: bool) {
        *self.pages.lock().entry(fid).or_default() |= cached;
    }

    /// The kernel forgot the inode, and its pages.
    pub fn forget_pages(&self, fid: Fid) {
        self.pages.lock().remove(&fid);
    }

    /// True if the kernel may have pages of the file.
    pub fn has_pages(&self, fid: Fid) -> bool {
        self.pages.lock().contains_key(&fid)
    }

    /// True if the kernel may have pages of the file in its page cache.
    pub(crate) fn has_cached_pages(&self, fid: Fid) -> bool {
        self.pages.lock().get(&fid).is_some_and(|cached| *cached)
    }

    /// Takes those of one MDT.
    fn take_pages(&self, mdt: u16) -> Vec<Fid> {
        let mut pages = self.pages.lock();
        let mut gone = Vec::new();
        pages.retain(|fid, _| {
            let goes = fid.mdt() == mdt;
            gone.extend(goes.then_some(*fid));
            !goes
        });
        gone
    }

    fn note_contended(&self, fid: Fid, now: Monotonic) {
        let mut contended = self.contended.lock();
        if contended.len() >= CONTENDED_MAX {
            contended.clear();
        }
        contended.insert(fid, now);
    }

    fn forget_contended(&self, fid: Fid) {
        self.contended.lock().remove(&fid);
    }

    /// True if data of the file was called back within `CONTENDED`.
    pub fn is_contended(&self, fid: Fid, now: Monotonic) -> bool {
        self.contended.lock().get(&fid).is_some_and(|at| now.saturating_sub(*at) < CONTENDED)
    }
}
