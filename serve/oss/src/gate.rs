//! One change of an object at a time; reads see changes whole.
//!
//! A fixed array of locks, chosen by the object's hash: nothing to make, find or drop per object.
//! Two objects may share a lock. That costs a little waiting, never a deadlock, because no thread
//! holds two. Locks are held during the disk's work, by threads that may block, never across an
//! await.
//!
//! Each lock remembers the object that changed last under it, and its blocks after that change. So
//! a stream of writes to one object asks the disk once per write, not twice. Blocks that the file
//! system allocates late are counted at the next change.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::hash::BuildHasher;
use types::object::ObjectId;

/// Locks: many times the threads that may block, so that two seldom meet by chance.
const GATES: usize = 1024;

/// The object that changed last, with its 512-byte blocks.
pub(crate) type LastChange = Option<(ObjectId, u64)>;

/// See the module.
pub(crate) struct Gates {
    gates: Vec<RwLock<LastChange>>,
    hasher: foldhash::fast::FixedState,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates {
            gates: (0..GATES).map(|_| RwLock::new(None)).collect(),
            hasher: foldhash::fast::FixedState::default(),
        }
    }
}

impl Gates {
    /// Lock for changing `object`.
    pub(crate) fn change(&self, object: ObjectId) -> RwLockWriteGuard<'_, LastChange> {
        self.of(object).write()
    }

    /// Lock for reading `object`.
    pub(crate) fn read(&self, object: ObjectId) -> RwLockReadGuard<'_, LastChange> {
        self.of(object).read()
    }

    /// True if the object is not being changed and changed lately: most likely its file is open and
    /// its pages are in memory.
    pub(crate) fn is_warm(&self, object: ObjectId) -> bool {
        self.of(object)
            .try_read()
            .is_some_and(|known| known.is_some_and(|(last, _)| last == object))
    }

    /// Returns when every change that is under way now is done.
    pub(crate) fn pass(&self) {
        self.gates.iter().for_each(|gate| drop(gate.write()));
    }

    fn of(&self, object: ObjectId) -> &RwLock<LastChange> {
        &self.gates[self.hasher.hash_one(object) as usize % GATES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;

    #[test]
    fn an_object_is_warm_when_it_changed_last_and_is_free() {
        let gates = Gates::default();
        let object = ObjectId { fid: Fid::ROOT, instance: 1, stripe: 0 };
        assert!(!gates.is_warm(object));
        let mut gate = gates.change(object);
        *gate = Some((object, 8));
        assert!(!gates.is_warm(object), "being changed");
        drop(gate);
        assert!(gates.is_warm(object));
        let _reading = gates.read(object);
        assert!(gates.is_warm(object));
    }
}
