//! Numbers of requests, and which of them are still unanswered.
//!
//! `xid_known` of a request tells the target that every request below it was answered and seen, so
//! that it may forget those replies. Bound: as many entries as requests are unanswered. Requests
//! that may wait for ever (locks) take a number but do not hold `xid_known` back: they are harmless
//! to repeat.
//!
//! A change also takes a *slot*, the lowest free one: the target writes its reply there, over the
//! reply of the change that had the slot before and was answered. So a target keeps as many replies
//! as this client has changes in flight.

use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use types::session::Xid;
use types::time::Timestamp;

/// Numbers of one import.
pub(crate) struct Xids {
    state: Mutex<State>,
}

struct State {
    next: u64,
    /// Unanswered ones, ascending.
    open: VecDeque<u64>,
    /// Slots below `slots_used` that are free.
    slots_free: BTreeSet<u16>,
    slots_used: u16,
}

/// More changes are unanswered than there are slots: the target keeps no reply for this one.
pub(crate) const NO_SLOT: u16 = u16::MAX;

/// Requests of one life of a server: 100,000 a second for five years.
const LIFE_BITS: u32 = 44;
/// Lives of a server whose requests have numbers of their own.
const LIVES_MAX: u64 = (1 << (64 - LIFE_BITS)) - 1;

impl State {
    fn take_slot(&mut self) -> u16 {
        match self.slots_free.pop_first() {
            Some(slot) => slot,
            None if self.slots_used == NO_SLOT => NO_SLOT,
            None => {
                self.slots_used += 1;
                self.slots_used - 1
            }
        }
    }
}

impl Xids {
    /// First number from the time, as Lustre does. `above`: numbers up to this one were taken by
    /// imports of this process, of which this one may be the successor; a clock may be set back.
    pub(crate) fn new(now: Timestamp, above: Xid) -> Xids {
        Xids::from(((now.sec.max(1) as u64) << 20).max(above.0 + 1))
    }

    /// Of a server's session that outlives its process. A clock may have been set back between two
    /// lives, and a number must not be used twice; so the number of the life comes first.
    pub(crate) fn of_life(life: u64) -> Xids {
        Xids::from(life.min(LIVES_MAX) << LIFE_BITS)
    }

    fn from(first: u64) -> Xids {
        Xids {
            state: Mutex::new(State {
                next: first,
                open: VecDeque::new(),
                slots_free: BTreeSet::new(),
                slots_used: 0,
            }),
        }
    }

    /// The number that comes next.
    pub(crate) fn next(&self) -> Xid {
        Xid(self.state.lock().next)
    }

    /// A new number. It is unanswered until the ticket is dropped. `waits`: see above.
    pub(crate) fn begin(&self, waits: bool) -> Ticket<'_> {
        let mut state = self.state.lock();
        let xid = state.next;
        state.next += 1;
        if !waits {
            state.open.push_back(xid);
        }
        let known = state.open.front().copied().unwrap_or(xid);
        Ticket { xids: self, xid: Xid(xid), known: Xid(known), slot: NO_SLOT, held: !waits }
    }

    /// As [`Xids::begin`], for a change that is answered without waiting for others.
    pub(crate) fn begin_change(&self) -> Ticket<'_> {
        let mut ticket = self.begin(false);
        ticket.slot = self.state.lock().take_slot();
        ticket
    }

    /// Every number below this one is answered.
    pub(crate) fn known(&self) -> Xid {
        let state = self.state.lock();
        Xid(state.open.front().copied().unwrap_or(state.next))
    }
}

/// An unanswered request.
pub(crate) struct Ticket<'a> {
    xids: &'a Xids,
    pub(crate) xid: Xid,
    /// `xid_known` when it began.
    pub(crate) known: Xid,
    /// Slot in which the target keeps the reply.
    pub(crate) slot: u16,
    held: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.held {
            let mut state = self.xids.state.lock();
            // Requests are usually answered in order: the front is nearly always the one.
            if let Ok(at) = state.open.binary_search(&self.xid.0) {
                state.open.remove(at);
            }
            if self.slot != NO_SLOT {
                state.slots_free.insert(self.slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_belongs_to_one_unanswered_change() {
        let xids = Xids::new(Timestamp { sec: 5, nsec: 0 }, Xid(0));
        let (a, b, c) = (xids.begin_change(), xids.begin_change(), xids.begin_change());
        assert_eq!((a.slot, b.slot, c.slot, xids.begin(false).slot), (0, 1, 2, NO_SLOT));
        drop((a, b));
        let (d, e, f) = (xids.begin_change(), xids.begin_change(), xids.begin_change());
        assert_eq!((d.slot, e.slot, f.slot), (0, 1, 3), "the lowest free one");
        drop(c);
    }

    #[test]
    fn numbers_of_a_successor_are_higher_whatever_the_clock_says() {
        let (before, now) = (Timestamp { sec: 5, nsec: 0 }, Timestamp { sec: 4, nsec: 0 });
        let first = Xids::new(before, Xid(0));
        drop(first.begin(false));
        assert_eq!(Xids::new(now, first.next()).begin(false).xid, Xid(first.next().0 + 1));
        assert!(Xids::new(Timestamp { sec: 6, nsec: 0 }, first.next()).next() > first.next());
    }

    #[test]
    fn known_follows_the_oldest_unanswered_request() {
        let xids = Xids::new(Timestamp { sec: 5, nsec: 0 }, Xid(0));
        let a = xids.begin(false);
        let b = xids.begin(false);
        let lock = xids.begin(true);
        let c = xids.begin(false);
        assert!(a.xid < b.xid && b.xid < lock.xid && lock.xid < c.xid);
        assert_eq!((a.known, c.known), (a.xid, a.xid));
        drop(b);
        assert_eq!(xids.known(), a.xid);
        drop(a);
        assert_eq!(xids.known(), c.xid, "a waiting lock holds nothing back");
        let last = c.xid;
        drop(c);
        assert_eq!(xids.known(), Xid(last.0 + 1));
        drop(lock);
    }
}
