//! Inodes that the kernel gives back (FORGET).
//!
//! What the kernel was told of an inode goes with its last lookup. Another thread may be showing
//! the inode to the kernel once more at that moment (R47). So all of it goes under the lock of the
//! table, which an answer takes after it has counted its lookup, when it notes what it tells.

use crate::locks::Locks;
use crate::node::NodeId;
use types::fid::Fid;

/// An inode that the kernel does not know any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenBack {
    /// The inode.
    pub fid: Fid,
    /// A change of this mount took its last name.
    pub removed: bool,
}

impl Locks {
    /// The kernel gives back `count` lookups of a node. `None`: it has others. `forget` is called
    /// for what else is known of the kernel's caches of each inode that the node had; it must not
    /// wait, and must not take the lock of the table.
    pub fn given_back(
        &self,
        node: NodeId,
        count: u64,
        mut forget: impl FnMut(Fid),
    ) -> Option<GivenBack> {
        let mut table = self.table.lock();
        let (fid, left) = self.nodes.forget(node, count)?;
        for fid in left.into_iter().chain([fid]) {
            table.kernel_forgot(fid);
            forget(fid);
        }
        Some(GivenBack { fid, removed: table.is_removed(fid) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeTable;
    use env::real::{RealConfig, RealEnv};
    use layout::dir_stripes::DirStripes;
    use std::sync::Arc;
    use std::time::Duration;
    use types::dir_stripes::DirHash;

    #[test]
    fn an_inode_and_what_the_kernel_was_told_of_it_go_in_one_step() {
        let config = RealConfig { reactors: 1, blocking_threads: 1 };
        let (env, _guard) = RealEnv::start(config).expect("threads");
        let locks = Locks::new(env, Arc::new(NodeTable::new()), false, Arc::default());
        let fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
        let node = locks.nodes.remember(fid);
        // As an answer holds it that notes what it tells.
        let table = locks.table.lock();
        let theirs = locks.clone();
        let gone = std::thread::spawn(move || theirs.given_back(node, 1, |_| {}));
        for _ in 0..50 {
            assert_eq!(locks.nodes.node(fid), Some(node), "an answer would count a first lookup");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(locks.nodes.remember(fid), node, "the inode is shown once more");
        drop(table);
        assert_eq!(gone.join().expect("no panic"), None, "the kernel keeps it");
        let gone = locks.given_back(node, 1, |_| {});
        assert_eq!(gone, Some(GivenBack { fid, removed: false }));
    }
    #[test]
    fn a_directory_that_goes_to_another_mdt_stays_the_same_to_the_kernel() {
        let config = RealConfig { reactors: 1, blocking_threads: 1 };
        let (env, _guard) = RealEnv::start(config).expect("threads");
        let locks = Locks::new(env, Arc::new(NodeTable::new()), false, Arc::default());
        let [old, new] =
            [0, 1].map(|mdt| Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid: 1, ver: 0 });
        let node = locks.nodes.remember(old);
        let going = DirStripes::going(old, None, DirHash::Crush, vec![new]).expect("stripes");
        locks.learn_stripes(old, &Arc::new(going));
        assert_eq!((locks.nodes.fid(node), locks.nodes.remember(new)), (Some(new), node));
        let mut gone = Vec::new();
        let last = locks.given_back(node, 2, |fid| gone.push(fid));
        assert_eq!(last, Some(GivenBack { fid: new, removed: false }));
        assert_eq!(gone, [old, new], "nothing is known of either");
    }
}
