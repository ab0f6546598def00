//! Directories that went to other inodes: clients that know the old one are told.
//!
//! In memory only: after a restart a client that did not hear of it finds the directory by its
//! name. Bound: [`WENT_MAX`], the oldest are forgotten.

use foldhash::HashMap;
use std::collections::VecDeque;
use types::fid::Fid;

/// Inodes that are remembered.
const WENT_MAX: usize = 16_384;

/// See the module.
#[derive(Default)]
pub(crate) struct Went {
    to: HashMap<Fid, Fid>,
    order: VecDeque<Fid>,
}

impl Went {
    /// A directory has left this inode, and is that one.
    pub(crate) fn note(&mut self, old: Fid, new: Fid) {
        if self.to.insert(old, new).is_some() {
            return;
        }
        self.order.push_back(old);
        if self.order.len() > WENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.to.remove(&oldest);
        }
    }

    /// The inode that a directory had after this one.
    pub(crate) fn to(&self, old: Fid) -> Option<Fid> {
        self.to.get(&old).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let fid = |oid| Fid { oid, ..Fid::ROOT };
        let mut went = Went::default();
        (0..WENT_MAX as u32 + 2).for_each(|oid| went.note(fid(oid), fid(oid + 1)));
        went.note(fid(7), fid(9));
        assert_eq!(
            [0, 1, 2, 7].map(|oid| went.to(fid(oid))),
            [None, None, Some(fid(3)), Some(fid(9))]
        );
        assert_eq!(went.to.len(), WENT_MAX);
        assert_eq!(went.order.len(), WENT_MAX);
    }
}
