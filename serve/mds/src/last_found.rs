//! Which change found an inode last: it changed that, or read it on its way. A client that brings
//! the change back after a crash can do so only if the inode is as it was then. An operation over
//! several MDTs that changes the inode is done again before what clients bring, so all that found
//! the inode before it must be durable first (docs/dne.md, section 3, rule 1).
//!
//! The version of an inode does not tell: to open a file for writing, say, changes its record and
//! not its version.
//!
//! Bound: inodes of changes that are not durable. What is durable is dropped whenever the table has
//! doubled.

use foldhash::HashMap;
use types::fid::Fid;
use types::session::Transno;

/// What is durable is not looked for in a smaller table.
const SMALL: usize = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct LastFound {
    by: HashMap<Fid, Transno>,
    dropped_at: usize,
}

impl LastFound {
    /// A change found these inodes; everything up to `committed` is durable.
    pub(crate) fn note(
        &mut self,
        fids: impl Iterator<Item = Fid>,
        transno: Transno,
        committed: Transno,
    ) {
        self.by.extend(fids.map(|fid| (fid, transno)));
        if self.by.len() >= SMALL.max(2 * self.dropped_at) {
            self.by.retain(|_, transno| *transno > committed);
            self.dropped_at = self.by.len();
        }
    }

    /// The newest change that found an inode; 0: none that is not durable.
    pub(crate) fn newest(&self, fid: Fid) -> Transno {
        self.by.get(&fid).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_durable_is_known_and_the_rest_is_dropped() {
        let fid = |oid| Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 };
        let mut found = LastFound::default();
        found.note([fid(1), fid(2)].into_iter(), Transno(1), Transno(0));
        found.note([fid(1)].into_iter(), Transno(2), Transno(0));
        let newest = |found: &LastFound, oid| found.newest(fid(oid)).0;
        assert_eq!([1, 2, 3].map(|oid| newest(&found, oid)), [2, 1, 0]);
        for n in 3..5 * SMALL as u64 {
            found.note([fid(n as u32)].into_iter(), Transno(n), Transno(n.saturating_sub(10)));
            assert!(found.by.len() <= SMALL, "{n}");
            assert_eq!(newest(&found, n as u32), n);
        }
        // Nothing becomes durable: all of it stays.
        for n in 0..3 * SMALL as u32 {
            found.note([fid(1 << 20 | n)].into_iter(), Transno(1 << 20), Transno(0));
        }
        assert!((0..3 * SMALL as u32).all(|n| newest(&found, 1 << 20 | n) == 1 << 20));
    }
}
