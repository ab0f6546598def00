//! The ids as which the callers of this mount act: what its MDTs said.
//!
//! An MDT decides for itself with each request. What is said here is for answers that no MDT sees:
//! those of the mount's and of the kernel's caches. A mount acts as soon as one of its MDTs says
//! so; of several that do, the one with the lowest index counts.

use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, Ordering};
use types::credentials::{ActsAs, Callers};

/// See the module. Read with each request of the kernel.
#[derive(Debug, Default)]
pub struct Acting {
    now: RwLock<Callers>,
    /// Some callers act as others.
    on: AtomicBool,
    turn: Mutex<()>,
}

impl Acting {
    /// What becomes of a user.
    pub fn of(&self, uid: u32) -> ActsAs {
        if self.on.load(Ordering::Acquire) { self.now.read().of(uid) } else { ActsAs::Itself }
    }

    /// All of it.
    pub fn callers(&self) -> Callers {
        self.now.read().clone()
    }

    /// Takes over what `said` finds now, in the order of MDTs. `Some`: it is another than before.
    pub(crate) fn learn(&self, said: impl FnOnce() -> Vec<Callers>) -> Option<Callers> {
        let _turn = self.turn.lock();
        let callers = said().into_iter().find(|callers| !callers.are_themselves());
        let callers = callers.unwrap_or_default();
        let mut now = self.now.write();
        if *now == callers {
            return None;
        }
        now.clone_from(&callers);
        self.on.store(!callers.are_themselves(), Ordering::Release);
        Some(callers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::credentials::{Ids, Squash};

    #[test]
    fn the_first_mdt_that_squashes_counts() {
        let ids = |uid, gid| Some(Ids { uid, gid });
        let acts = |uid, gid| ActsAs::Ids(Ids { uid, gid });
        let off = Callers::default;
        let root = Callers::from(Squash { root: ids(99, 98), others: None });
        let all = Callers::from(Squash { root: ids(5, 6), others: ids(5, 6) });
        let acting = Acting::default();
        assert_eq!(acting.learn(|| vec![off(), off()]), None);
        assert_eq!(acting.learn(|| vec![off(), root.clone(), all.clone()]), Some(root.clone()));
        assert_eq!([0, 7].map(|uid| acting.of(uid)), [acts(99, 98), ActsAs::Itself]);
        assert_eq!(acting.learn(|| vec![root.clone()]), None);
        assert_eq!(acting.learn(|| vec![all.clone(), root]), Some(all.clone()));
        assert_eq!([0, 7].map(|uid| acting.of(uid)), [acts(5, 6); 2]);
        assert_eq!(acting.callers(), all);
        assert_eq!(acting.learn(Vec::new), Some(off()));
        assert_eq!([0, 7].map(|uid| acting.of(uid)), [ActsAs::Itself; 2]);
    }
}
