//! Which changes are durable, and what clients may be told of that.
//!
//! Every change gets the next transno once it is in the page cache. An object with changes that may
//! not be on disk is *dirty* since the first of them. *Durable* is everything before the first
//! change of any dirty object. So syncing objects in any order never reports too much. A sync that
//! fails is never ended here, so the number stays where it was for ever (and the object files
//! refuse every later sync).
//!
//! Clients forget changes that they are told are committed, and bring the others back after a power
//! cut. If a client forgot a change that the target's own record does not have, an older change of
//! another client would come back over it. So clients are told only what is *recorded*. An object
//! that changed since then is *touched*, by one client or by several (*shared*). A shared object
//! that is synced, or an object that is destroyed, needs a record of its own (*settled*); otherwise
//! a replay undoes it.
//!
//! Invariant: `recorded <= durable <= last_assigned`, all only grow. Bound: [`OBJECTS_MAX`]; beyond
//! it a change is preceded by a sync.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use types::object::ObjectId;
use types::session::{ClientUuid, Transno};

/// Transnos of one start of the target: more than it can use up. The next start continues above.
const TRANSNOS_PER_BOOT_BITS: u32 = 40;
/// Objects noted here beyond which changes wait for a sync of everything.
pub(crate) const OBJECTS_MAX: usize = 1 << 16;

/// What keeping a change costs a client beside its data, bytes: many small ones are as good a
/// reason for a sync.
const CHANGE_BYTES: u64 = 256;

/// The author of a change.
#[derive(Clone, Copy)]
pub(crate) struct Author {
    pub(crate) client: ClientUuid,
    /// True if it keeps answered changes for a replay. A client in this process does not: it ends
    /// with the process.
    pub(crate) keeps: bool,
}

/// An object that was changed after what is recorded.
struct Touched {
    last: u64,
    client: ClientUuid,
    /// By another one, too.
    shared: bool,
}

#[derive(Default)]
struct State {
    last_assigned: u64,
    dirty: HashMap<ObjectId, u64, foldhash::fast::RandomState>,
    /// First unsynced transno of everything dirty or being synced.
    firsts: BTreeSet<u64>,
    touched: HashMap<ObjectId, Touched, foldhash::fast::RandomState>,
    /// Objects with a record of their own, and the transno in it.
    settled: BTreeMap<ObjectId, u64>,
    recorded: u64,
    /// Bytes that clients keep since the last sync of everything began.
    bytes: u64,
}

/// What must be settled by a sync of an object that several clients changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ToSettle {
    /// Last change of the object.
    pub(crate) last: Transno,
    /// There is such a record, but it may not be committed yet.
    pub(crate) noted: bool,
}

/// See the module.
pub(crate) struct Ledger {
    state: Mutex<State>,
    /// Newest transno of earlier starts, at most.
    begin: u64,
}

/// A sync that was begun and must be ended.
#[must_use]
pub(crate) struct Syncing {
    first: u64,
}

impl Ledger {
    /// For start number `boot` of the target; `recorded`: the recorded transno of earlier starts.
    /// Everything that they left on the disk is durable.
    pub(crate) fn new(boot: u64, recorded: Transno) -> Ledger {
        let last_assigned = (boot << TRANSNOS_PER_BOOT_BITS).max(recorded.0);
        let state = State { last_assigned, recorded: recorded.0, ..State::default() };
        Ledger { state: Mutex::new(state), begin: last_assigned }
    }

    /// `object` was changed, with this many bytes of data; returns the change's number.
    pub(crate) fn changed(&self, object: ObjectId, author: Author, bytes: u64) -> Transno {
        let Author { client, keeps } = author;
        let state = &mut *self.state.lock();
        state.last_assigned += 1;
        if keeps {
            state.bytes += bytes + CHANGE_BYTES;
        }
        let transno = state.last_assigned;
        if let std::collections::hash_map::Entry::Vacant(vacant) = state.dirty.entry(object) {
            vacant.insert(transno);
            state.firsts.insert(transno);
        }
        let touched =
            state.touched.entry(object).or_insert(Touched { last: transno, client, shared: false });
        touched.last = transno;
        touched.shared |= touched.client != client;
        Transno(transno)
    }

    /// A change that is durable already: its number.
    pub(crate) fn changed_durably(&self) -> Transno {
        let mut state = self.state.lock();
        state.last_assigned += 1;
        Transno(state.last_assigned)
    }

    /// `object` was destroyed, so it needs no sync. Returns its last change, if that must be
    /// settled.
    pub(crate) fn forget(&self, object: ObjectId) -> Option<Transno> {
        let mut state = self.state.lock();
        if let Some(first) = state.dirty.remove(&object) {
            state.firsts.remove(&first);
        }
        state.touched.get(&object).map(|touched| Transno(touched.last))
    }

    /// To be asked before a sync of `object`: what that sync settles, if anything.
    pub(crate) fn to_settle(&self, object: ObjectId) -> Option<ToSettle> {
        let state = self.state.lock();
        let touched = state.touched.get(&object).filter(|touched| touched.shared)?;
        let noted = state.settled.get(&object).is_some_and(|settled| *settled >= touched.last);
        Some(ToSettle { last: Transno(touched.last), noted })
    }

    /// True while it is not recorded that this start found everything that earlier ones had. Until
    /// then, a sync or destroy counts only once the store has committed.
    pub(crate) fn is_beginning(&self) -> bool {
        self.state.lock().recorded < self.begin
    }

    /// The object has a record of its own.
    pub(crate) fn settled(&self, object: ObjectId, transno: Transno) {
        self.state.lock().settled.insert(object, transno.0);
    }

    /// Objects whose own records are obsolete once everything up to `transno` is recorded,
    /// ascending.
    pub(crate) fn settled_up_to(&self, transno: Transno) -> Vec<ObjectId> {
        let state = self.state.lock();
        state
            .settled
            .iter()
            .filter(|(_, last)| **last <= transno.0)
            .map(|(object, _)| *object)
            .collect()
    }

    /// Starts a sync of `object`; `None` if it is clean. Changes from now on count as new.
    pub(crate) fn begin_sync(&self, object: ObjectId) -> Option<Syncing> {
        self.state.lock().dirty.remove(&object).map(|first| Syncing { first })
    }

    /// Changes before [`Ledger::begin_sync`] are durable.
    pub(crate) fn end_sync(&self, syncing: Syncing) {
        self.state.lock().firsts.remove(&syncing.first);
    }

    /// Starts a sync of everything that is dirty now.
    pub(crate) fn begin_sync_all(&self) -> Vec<Syncing> {
        let mut state = self.state.lock();
        state.bytes = 0;
        state.dirty.drain().map(|(_, first)| Syncing { first }).collect()
    }

    /// Bytes that clients keep since the last sync of everything began.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// True if more objects are noted than intended.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.dirty.len().max(state.touched.len() + state.settled.len()) > OBJECTS_MAX
    }

    /// Newest transno so far.
    pub(crate) fn last_assigned(&self) -> Transno {
        Transno(self.state.lock().last_assigned)
    }

    /// Newest transno up to which all is on the disk.
    pub(crate) fn durable(&self) -> Transno {
        let state = self.state.lock();
        Transno(state.firsts.first().map_or(state.last_assigned, |first| first - 1))
    }

    /// The target's record durably says that everything up to `transno` is durable.
    pub(crate) fn recorded(&self, transno: Transno) {
        let mut state = self.state.lock();
        if transno.0 > state.recorded {
            state.recorded = transno.0;
            state.touched.retain(|_, touched| touched.last > transno.0);
            state.settled.retain(|_, last| *last > transno.0);
        }
    }

    /// Newest transno that clients may be told is committed.
    pub(crate) fn last_committed(&self) -> Transno {
        Transno(self.state.lock().recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;

    const A: Author = Author { client: ClientUuid(1), keeps: true };
    const B: Author = Author { client: ClientUuid(2), keeps: false };

    fn object(stripe: u32) -> ObjectId {
        ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 }, instance: 1, stripe }
    }

    const BOOT: u64 = 3 << 40;

    #[test]
    fn durable_is_the_change_before_the_oldest_unsynced_one() {
        let ledger = Ledger::new(3, Transno(7));
        assert_eq!((ledger.durable(), ledger.last_committed()), (Transno(BOOT), Transno(7)));
        assert!(ledger.is_beginning());
        assert_eq!(ledger.changed(object(0), A, 5), Transno(BOOT + 1));
        assert_eq!(ledger.changed(object(1), A, 6), Transno(BOOT + 2));
        assert_eq!(ledger.changed(object(0), A, 7), Transno(BOOT + 3));
        assert_eq!(
            (ledger.last_assigned(), ledger.bytes()),
            (Transno(BOOT + 3), 18 + 3 * CHANGE_BYTES)
        );
        let one = ledger.begin_sync(object(1)).unwrap();
        ledger.end_sync(one);
        assert_eq!(ledger.durable(), Transno(BOOT), "object 0 is older");
        let zero = ledger.begin_sync(object(0)).unwrap();
        assert!(ledger.begin_sync(object(0)).is_none());
        assert_eq!(ledger.changed(object(0), A, 0), Transno(BOOT + 4));
        assert_eq!(ledger.durable(), Transno(BOOT), "under way is not done");
        ledger.end_sync(zero);
        assert_eq!(ledger.durable(), Transno(BOOT + 3), "the change during the sync is new");
        assert_eq!(ledger.last_committed(), Transno(7), "nobody wrote that down");
        ledger.recorded(Transno(BOOT + 3));
        ledger.recorded(Transno(BOOT + 1));
        assert_eq!(ledger.last_committed(), Transno(BOOT + 3));
        assert!(!ledger.is_beginning());
        ledger.forget(object(0));
        assert_eq!(ledger.changed_durably(), Transno(BOOT + 5));
        assert_eq!(ledger.durable(), Transno(BOOT + 5));
    }

    #[test]
    fn an_unended_sync_holds_the_number_back_for_ever() {
        let ledger = Ledger::new(1, Transno(0));
        let first = ledger.changed(object(0), A, 1);
        let syncing = ledger.begin_sync(object(0)).unwrap();
        drop(syncing);
        assert!(ledger.changed(object(1), A, 1) > first);
        ledger.begin_sync_all().into_iter().for_each(|good| ledger.end_sync(good));
        assert_eq!((ledger.bytes(), ledger.durable()), (0, Transno(first.0 - 1)));
    }

    #[test]
    fn what_several_clients_changed_is_settled_by_a_sync_and_what_is_destroyed_always() {
        let ledger = Ledger::new(3, Transno(0));
        ledger.changed(object(0), A, 1);
        let last = ledger.changed(object(0), A, 1);
        assert_eq!(
            ledger.to_settle(object(0)),
            None,
            "nobody brings back anything older than its own"
        );
        assert_eq!(ledger.forget(object(1)), None, "nobody brings back anything of it");
        let shared = ledger.changed(object(0), B, 1);
        assert!(shared > last);
        assert_eq!(ledger.to_settle(object(0)), Some(ToSettle { last: shared, noted: false }));
        ledger.settled(object(0), shared);
        assert_eq!(ledger.to_settle(object(0)), Some(ToSettle { last: shared, noted: true }));
        let again = ledger.changed(object(0), A, 1);
        assert_eq!(ledger.to_settle(object(0)), Some(ToSettle { last: again, noted: false }));
        assert_eq!(ledger.forget(object(0)), Some(again));
        assert_eq!(ledger.settled_up_to(last), []);
        assert_eq!(ledger.settled_up_to(shared), [object(0)]);
        ledger.recorded(again);
        assert_eq!((ledger.settled_up_to(again), ledger.forget(object(0))), (vec![], None));
    }
}
