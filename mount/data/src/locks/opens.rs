//! Files that are open here without the MDT knowing, under OPEN.
//!
//! Each open counts. When OPEN is called back while the file is in use, the answer is `Kept`: the
//! MDT keeps the inode although its last name is gone, until the last user reports its end with
//! `Unlock`. Where the kernel does not report opens (`localflock`), every inode that it knows
//! counts as open. A lost session ends all of it; the handles are opened again at the MDT.

use foldhash::{HashMap, HashSet};
use types::fid::Fid;

/// Counts of local opens.
#[derive(Default)]
pub struct Opens {
    files: HashMap<Fid, Count>,
    /// By MDT: grows when its session is lost; opens of an older session do not count any more.
    generations: HashMap<u16, u64>,
    /// The MDT keeps these because the kernel knows them.
    kept_nodes: HashSet<Fid>,
}

#[derive(Default)]
struct Count {
    open: u32,
    /// The MDT keeps it for this mount.
    kept: bool,
}

/// Of which count an open file is part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalOpen(u64);

impl Opens {
    /// Counts one more open. The caller has seen, under the same lock, that OPEN is held.
    pub fn open(&mut self, fid: Fid) -> LocalOpen {
        self.files.entry(fid).or_default().open += 1;
        LocalOpen(self.generation(fid.mdt()))
    }

    /// Counts one open less. True if the MDT must be told.
    #[must_use]
    pub fn close(&mut self, fid: Fid, open: LocalOpen) -> bool {
        if open.0 != self.generation(fid.mdt()) {
            return false;
        }
        let Some(count) = self.files.get_mut(&fid) else { return false };
        count.open = count.open.saturating_sub(1);
        if count.open > 0 {
            return false;
        }
        let kept = count.kept;
        self.files.remove(&fid);
        kept
    }

    /// OPEN is called back. True if the file is in use.
    pub fn keep(&mut self, fid: Fid) -> bool {
        let Some(count) = self.files.get_mut(&fid) else { return false };
        count.kept = true;
        true
    }

    /// True if it is open here.
    pub fn is_open(&self, fid: Fid) -> bool {
        self.files.contains_key(&fid)
    }

    /// OPEN is called back, and the kernel knows the inode but does not report whether it is open.
    pub(crate) fn keep_node(&mut self, fid: Fid) {
        self.kept_nodes.insert(fid);
    }

    /// The kernel forgot an inode. True if the MDT must be told.
    #[must_use]
    pub fn forgotten(&mut self, fid: Fid) -> bool {
        self.kept_nodes.remove(&fid)
    }

    /// The session with an MDT is lost.
    pub fn lose(&mut self, mdt: u16) {
        *self.generations.entry(mdt).or_default() += 1;
        self.files.retain(|fid, _| fid.mdt() != mdt);
        self.kept_nodes.retain(|fid| fid.mdt() != mdt);
    }

    fn generation(&self, mdt: u16) -> u64 {
        self.generations.get(&mdt).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    #[test]
    fn the_last_close_of_a_kept_file_tells_the_mdt() {
        let mut opens = Opens::default();
        let (first, second) = (opens.open(A), opens.open(A));
        assert!(opens.keep(A));
        assert!(!opens.close(A, first), "still open");
        assert!(opens.close(A, second));
        assert!(!opens.keep(A), "nobody uses it any more");
        let third = opens.open(A);
        assert!(!opens.close(A, third), "was not kept");
    }

    #[test]
    fn a_lost_session_ends_local_opens() {
        let mut opens = Opens::default();
        let old = opens.open(A);
        assert!(opens.keep(A));
        opens.lose(A.mdt());
        assert!(!opens.is_open(A));
        let new = opens.open(A);
        assert!(!opens.close(A, old), "counted in a session that is gone");
        assert!(opens.is_open(A));
        assert!(!opens.close(A, new));
    }

    #[test]
    fn what_the_kernel_knows_is_kept_until_it_forgets() {
        let mut opens = Opens::default();
        opens.keep_node(A);
        assert!(opens.forgotten(A));
        assert!(!opens.forgotten(A), "told once");
    }
}
