//! Access times of what programs read.
//!
//! The kernel leaves the access times of a FUSE mount to its daemon. A read is noted in memory only
//! if the rule of the mount (`relatime` by default) says that the access time moves: once after
//! each change of the inode, and once a day. This mount shows the new time at once. A task tells
//! the MDTs, many inodes in one request; no program waits for it. The MDT applies the same rule, so
//! of several mounts that read a file after a change the first one moves its time.
//!
//! Reads that the kernel answers from its page cache do not reach the daemon. After a write through
//! the same mount that may be all of them. So opening a file to read counts as an access if the
//! kernel may have pages of it. Mounts whose kernel sends no opens (`localflock`, `noflock`) do not
//! see these.

use foldhash::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use types::attr::{AccessTimes, Attr};
use types::fid::Fid;
use types::time::Timestamp;

/// Inodes whose access an MDT was not told of. An access beyond is not recorded.
const NOTED_MAX: usize = 65_536;

#[derive(Default)]
struct Noted {
    accesses: HashMap<Fid, Timestamp>,
    /// A task will tell the MDTs.
    telling: bool,
}

/// Accesses that the MDTs were not told of.
pub struct Accesses {
    /// The rule of the mount: `relatime`, `noatime`, `strictatime`.
    pub times: AccessTimes,
    /// Reading a directory is no access.
    pub nodiratime: bool,
    noted: Mutex<Noted>,
    /// Inodes in `noted`: mostly there is none.
    count: AtomicUsize,
}

impl Accesses {
    /// By the rule of the mount.
    pub fn new(times: AccessTimes, nodiratime: bool) -> Accesses {
        Accesses { times, nodiratime, noted: Mutex::default(), count: AtomicUsize::new(0) }
    }

    /// Attributes with the access that their MDT was not told of.
    pub fn shown(&self, attr: Attr) -> Attr {
        if self.count.load(Ordering::Acquire) == 0 {
            return attr;
        }
        let noted = self.noted.lock().accesses.get(&attr.fid).copied();
        let shown = noted.filter(|at| attr.takes_access(*at, self.times));
        Attr { atime: shown.unwrap_or(attr.atime), ..attr }
    }

    /// A program set the access time: earlier reads do not count any more.
    pub fn forget(&self, fid: Fid) {
        let mut noted = self.noted.lock();
        noted.accesses.remove(&fid);
        self.count.store(noted.accesses.len(), Ordering::Release);
    }

    /// `true`: a task must be started that tells the MDTs.
    pub fn note(&self, fid: Fid, at: Timestamp) -> bool {
        let mut noted = self.noted.lock();
        if noted.accesses.len() >= NOTED_MAX && !noted.accesses.contains_key(&fid) {
            return false;
        }
        noted.accesses.insert(fid, at);
        self.count.store(noted.accesses.len(), Ordering::Release);
        !std::mem::replace(&mut noted.telling, true)
    }

    /// All that is noted, by MDT and in order. Nothing: the task that tells it ends.
    pub fn all(&self) -> BTreeMap<u16, Vec<(Fid, Timestamp)>> {
        let mut noted = self.noted.lock();
        let mut by_mdt = BTreeMap::<u16, Vec<(Fid, Timestamp)>>::new();
        for (fid, at) in &noted.accesses {
            by_mdt.entry(fid.mdt()).or_default().push((*fid, *at));
        }
        by_mdt.values_mut().for_each(|of_mdt| of_mdt.sort_unstable());
        noted.telling = !by_mdt.is_empty();
        by_mdt
    }

    /// These were told. One that was noted anew meanwhile stays.
    pub fn told(&self, some: &[(Fid, Timestamp)]) {
        let mut noted = self.noted.lock();
        for (fid, at) in some {
            if noted.accesses.get(fid) == Some(at) {
                noted.accesses.remove(fid);
            }
        }
        self.count.store(noted.accesses.len(), Ordering::Release);
    }
}
