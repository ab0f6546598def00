//! A machine's disk, in memory.
//!
//! A write is in the page cache at once and durable after a sync of its file; a name is durable
//! after a sync of its directory. After a power cut each file has its synced bytes, and of each
//! page changed since then the old or the new state. Of the changes of names in a directory a
//! prefix remains. A killed process loses nothing.

pub(crate) mod inode;
pub(crate) mod usage;

use crate::rng::Rng;
use inode::Inode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use usage::{PAGE, Usage};

#[derive(Clone)]
pub(crate) enum Entry {
    File(Arc<Inode>),
    Dir,
}

/// A change of names that no sync of the directory covers yet. `None` removes.
pub(crate) type Change = Vec<(String, Option<Entry>)>;

#[derive(Default)]
pub(crate) struct Dir {
    pub(crate) names: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
    changes: Vec<Change>,
}

impl Dir {
    pub(crate) fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }

    pub(crate) fn sync(&mut self) {
        self.durable = self.names.clone();
        self.changes.clear();
    }
}

fn apply(names: &mut BTreeMap<String, Entry>, change: &Change) {
    for (name, entry) in change {
        match entry {
            Some(entry) => names.insert(name.clone(), entry.clone()),
            None => names.remove(name),
        };
    }
}

pub(crate) struct Names {
    pub(crate) dirs: BTreeMap<PathBuf, Dir>,
    /// Path and process of each lock.
    pub(crate) locks: BTreeMap<PathBuf, u64>,
    pub(crate) next_inode: u64,
}

/// A disk.
pub struct Volume {
    pub(crate) names: Mutex<Names>,
    pub(crate) usage: Arc<Usage>,
    /// Times that the power came.
    pub(crate) kernel_runs: AtomicU64,
}

impl Volume {
    pub(crate) fn new(bytes: u64) -> Volume {
        let usage = Arc::new(Usage { pages: AtomicI64::new(0), capacity: AtomicU64::new(bytes) });
        let dirs = BTreeMap::from([(PathBuf::from("/"), Dir::default())]);
        let names = Mutex::new(Names { dirs, locks: BTreeMap::new(), next_inode: 1 });
        Volume { names, usage, kernel_runs: AtomicU64::new(1) }
    }

    /// Size from now on, bytes: smaller than what is used is a full disk.
    pub fn set_capacity(&self, bytes: u64) {
        self.usage.capacity.store(bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.usage.pages.load(Ordering::Relaxed).max(0) as u64 * PAGE
    }

    /// Paths of all files below a directory, sorted.
    pub fn files_below(&self, path: &Path) -> Vec<PathBuf> {
        let names = self.names.lock();
        let below = names.dirs.iter().filter(|(dir, _)| dir.starts_with(path));
        let files = below.flat_map(|(dir, content)| {
            let is_file = |entry: &Entry| matches!(entry, Entry::File(_));
            content
                .names
                .iter()
                .filter(move |(_, entry)| is_file(entry))
                .map(move |(name, _)| dir.join(name))
        });
        files.collect()
    }

    pub(crate) fn unlock(&self, process: u64) {
        self.names.lock().locks.retain(|_, holder| *holder != process);
    }

    /// The power went: only what is durable, and some of what is not, is left.
    pub(crate) fn crash(&self, rng: &mut Rng) {
        self.kernel_runs.fetch_add(1, Ordering::Relaxed);
        let mut names = self.names.lock();
        let mut lost_dirs = Vec::new();
        for (path, dir) in &mut names.dirs {
            let kept = rng.between(0, dir.changes.len() as u64) as usize;
            let mut after = std::mem::take(&mut dir.durable);
            for change in dir.changes.drain(..).take(kept) {
                apply(&mut after, &change);
            }
            let gone = dir.names.iter().filter(|(_, entry)| matches!(entry, Entry::Dir));
            let gone = gone
                .filter(|(name, _)| !after.contains_key(*name))
                .map(|(name, _)| path.join(name));
            lost_dirs.extend(gone);
            dir.names = after.clone();
            dir.durable = after;
        }
        names.dirs.retain(|path, _| !lost_dirs.iter().any(|lost| path.starts_with(lost)));
        for dir in names.dirs.values() {
            for entry in dir.names.values() {
                if let Entry::File(inode) = entry {
                    inode.crash(rng);
                }
            }
        }
    }
}
