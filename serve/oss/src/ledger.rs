//! Which changes are durable.
//!
//! Every change gets the next transno once it is in the page cache. An object that has changes which may not be on disk
//! is *dirty* since the first of them; `last_committed` is the transno before the first change of any dirty object. So
//! syncing objects in any order never reports too much. A sync that fails is never ended here, so the number stays
//! where it was for ever (and the object files refuse every later sync).
//!
//! Invariant: `last_committed <= last_assigned`, both only grow. Bound: [`DIRTY_OBJECTS_MAX`], beyond which whoever
//! changes something syncs first.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use types::object::ObjectId;
use types::session::Transno;

/// Transnos of one start of the target: more than it can use up. The next start continues above.
const TRANSNOS_PER_BOOT_BITS: u32 = 40;
/// Dirty objects beyond which changes wait for a sync of everything.
pub(crate) const DIRTY_OBJECTS_MAX: usize = 1 << 16;

#[derive(Default)]
struct State {
    last_assigned: u64,
    dirty: HashMap<ObjectId, u64, foldhash::fast::RandomState>,
    /// First unsynced transno of everything dirty or being synced.
    firsts: BTreeSet<u64>,
}

/// See the module.
pub(crate) struct Ledger {
    state: Mutex<State>,
    /// All numbers of this start are above it.
    base: u64,
    /// What earlier starts wrote down as durable.
    before: Transno,
}

/// A sync that was begun and must be ended.
#[must_use]
pub(crate) struct Syncing {
    first: u64,
}

impl Ledger {
    /// For start number `boot` of the target; `before` is what earlier ones left durable.
    pub(crate) fn new(boot: u64, before: Transno) -> Ledger {
        let base = (boot << TRANSNOS_PER_BOOT_BITS).max(before.0);
        Ledger { state: Mutex::new(State { last_assigned: base, ..State::default() }), base, before }
    }

    /// `object` was changed: its number.
    pub(crate) fn changed(&self, object: ObjectId) -> Transno {
        let mut state = self.state.lock();
        state.last_assigned += 1;
        let transno = state.last_assigned;
        if let std::collections::hash_map::Entry::Vacant(vacant) = state.dirty.entry(object) {
            vacant.insert(transno);
            state.firsts.insert(transno);
        }
        Transno(transno)
    }

    /// A change that is durable already: its number.
    pub(crate) fn changed_durably(&self) -> Transno {
        let mut state = self.state.lock();
        state.last_assigned += 1;
        Transno(state.last_assigned)
    }

    /// `object` is no more, so nothing of it needs a sync.
    pub(crate) fn forget(&self, object: ObjectId) {
        let mut state = self.state.lock();
        if let Some(first) = state.dirty.remove(&object) {
            state.firsts.remove(&first);
        }
    }

    /// Starts a sync of `object`; `None` if it is clean. Changes from now on count as new.
    pub(crate) fn begin_sync(&self, object: ObjectId) -> Option<Syncing> {
        self.state.lock().dirty.remove(&object).map(|first| Syncing { first })
    }

    /// What was changed before [`Ledger::begin_sync`] is durable.
    pub(crate) fn end_sync(&self, syncing: Syncing) {
        self.state.lock().firsts.remove(&syncing.first);
    }

    /// Starts a sync of everything: what is dirty now.
    pub(crate) fn begin_sync_all(&self) -> Vec<Syncing> {
        self.state.lock().dirty.drain().map(|(_, first)| Syncing { first }).collect()
    }

    /// How many objects have unsynced changes.
    pub(crate) fn dirty_count(&self) -> usize {
        self.state.lock().dirty.len()
    }

    /// Newest transno up to which all is durable. Until a change of this start is, what earlier starts wrote down: they
    /// may have lost what came after it.
    pub(crate) fn last_committed(&self) -> Transno {
        let state = self.state.lock();
        match state.firsts.first().map_or(state.last_assigned, |first| first - 1) {
            none if none == self.base => self.before,
            here => Transno(here),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;

    fn object(stripe: u32) -> ObjectId {
        ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 }, instance: 1, stripe }
    }

    const BOOT: u64 = 3 << 40;

    #[test]
    fn committed_is_the_change_before_the_oldest_unsynced_one() {
        let ledger = Ledger::new(3, Transno(7));
        assert_eq!(ledger.last_committed(), Transno(7));
        assert_eq!(ledger.changed(object(0)), Transno(BOOT + 1));
        assert_eq!(ledger.changed(object(1)), Transno(BOOT + 2));
        assert_eq!(ledger.changed(object(0)), Transno(BOOT + 3));
        assert_eq!(ledger.dirty_count(), 2);
        let one = ledger.begin_sync(object(1)).unwrap();
        ledger.end_sync(one);
        assert_eq!(ledger.last_committed(), Transno(7), "object 0 is older");
        let zero = ledger.begin_sync(object(0)).unwrap();
        assert!(ledger.begin_sync(object(0)).is_none());
        assert_eq!(ledger.changed(object(0)), Transno(BOOT + 4));
        assert_eq!(ledger.last_committed(), Transno(7), "under way is not done");
        ledger.end_sync(zero);
        assert_eq!(ledger.last_committed(), Transno(BOOT + 3), "the change during the sync is new");
        ledger.forget(object(0));
        assert_eq!(ledger.changed_durably(), Transno(BOOT + 5));
        assert_eq!(ledger.last_committed(), Transno(BOOT + 5));
    }

    #[test]
    fn an_unended_sync_holds_the_number_back_for_ever() {
        let ledger = Ledger::new(1, Transno(0));
        let first = ledger.changed(object(0));
        let syncing = ledger.begin_sync(object(0)).unwrap();
        drop(syncing);
        assert!(ledger.changed(object(1)) > first);
        ledger.begin_sync_all().into_iter().for_each(|good| ledger.end_sync(good));
        assert_eq!(ledger.dirty_count(), 0);
        assert_eq!(ledger.last_committed(), Transno(0));
    }
}
