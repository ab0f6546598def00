//! The ids as which the callers of this mount act: what its MDTs said.
//!
//! An MDT decides for itself with each request. What is said here is for answers that no MDT sees:
//! those of the mount's and of the kernel's caches. A mount acts as squashed as soon as one of its
//! MDTs squashes it; of several the one with the lowest index counts.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use types::credentials::{Ids, Squash};

/// See the module. Read with each request of the kernel.
#[derive(Debug, Default)]
pub struct ActsAs {
    /// User and group, 32 bits each; 0: as itself.
    root: AtomicU64,
    others: AtomicU64,
    turn: Mutex<()>,
}

fn packed(ids: Option<Ids>) -> u64 {
    ids.map_or(0, |Ids { uid, gid }| u64::from(uid) << 32 | u64::from(gid))
}

fn unpacked(packed: u64) -> Option<Ids> {
    (packed != 0).then_some(Ids { uid: (packed >> 32) as u32, gid: packed as u32 })
}

impl ActsAs {
    /// The ids as which a user acts; `None`: its own.
    pub fn of(&self, uid: u32) -> Option<Ids> {
        let ids = if uid == 0 { &self.root } else { &self.others };
        unpacked(ids.load(Ordering::Acquire))
    }

    /// All of it.
    pub fn squash(&self) -> Squash {
        let [root, others] =
            [&self.root, &self.others].map(|ids| unpacked(ids.load(Ordering::Acquire)));
        Squash { root, others }
    }

    /// Takes over what `said` finds now, in the order of MDTs. `Some`: it is another than before.
    pub(crate) fn learn(&self, said: impl FnOnce() -> Vec<Squash>) -> Option<Squash> {
        let _turn = self.turn.lock();
        let now = said().into_iter().find(|squash| *squash != Squash::OFF).unwrap_or_default();
        let changed = now != self.squash();
        self.root.store(packed(now.root), Ordering::Release);
        self.others.store(packed(now.others), Ordering::Release);
        changed.then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mdt_that_squashes_counts() {
        let ids = |uid, gid| Some(Ids { uid, gid });
        let root = Squash { root: ids(99, 98), others: None };
        let all = Squash { root: ids(5, u32::MAX - 1), others: ids(5, u32::MAX - 1) };
        let acts = ActsAs::default();
        assert_eq!(acts.learn(|| vec![Squash::OFF, Squash::OFF]), None);
        assert_eq!(acts.learn(|| vec![Squash::OFF, root, all]), Some(root));
        assert_eq!([0, 7].map(|uid| acts.of(uid)), [ids(99, 98), None]);
        assert_eq!(acts.learn(|| vec![root]), None);
        assert_eq!(acts.learn(|| vec![all, root]), Some(all));
        assert_eq!([0, 7].map(|uid| acts.of(uid)), [all.root; 2]);
        assert_eq!(acts.learn(Vec::new), Some(Squash::OFF));
        assert_eq!(acts.squash(), Squash::OFF);
    }
}
