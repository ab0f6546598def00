//! Requests that a caller waits for, and how often it waits: its requests that are under way
//! together are one round trip.
//!
//! A caller is known by its number ([`observe::cause`]); work in the background has none. Bound:
//! the requests that exist. Owner: [`crate::Rpc`]; the lock is a leaf, held for one insertion or
//! removal.

use foldhash::HashMap;
use observe::cause;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Callers of one process that wait, and for how many requests each.
#[derive(Default)]
pub(crate) struct Callers(Mutex<HashMap<u64, u32>>);

/// Requests of one import.
#[derive(Default)]
pub(crate) struct Asked {
    all: AtomicU64,
    awaited: AtomicU64,
    round_trips: AtomicU64,
}

/// Numbers of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Requests {
    /// All requests.
    pub all: u64,
    /// Those that a caller waited for.
    pub awaited: u64,
    /// How often a caller began to wait: requests at the same time count once.
    pub round_trips: u64,
}

impl std::iter::Sum for Requests {
    fn sum<I: Iterator<Item = Requests>>(all: I) -> Requests {
        all.fold(Requests::default(), |a, b| Requests {
            all: a.all + b.all,
            awaited: a.awaited + b.awaited,
            round_trips: a.round_trips + b.round_trips,
        })
    }
}

impl Asked {
    /// Counts a request for the caller that this thread works for. Hold the result until it is
    /// answered.
    pub(crate) fn begin<'a>(&self, callers: &'a Callers) -> Option<Waiting<'a>> {
        self.all.fetch_add(1, Relaxed);
        let caller = cause::current();
        if caller == 0 {
            return None;
        }
        self.awaited.fetch_add(1, Relaxed);
        let mut waiting = callers.0.lock();
        let count = waiting.entry(caller).or_default();
        if *count == 0 {
            self.round_trips.fetch_add(1, Relaxed);
        }
        *count += 1;
        Some(Waiting { callers, caller })
    }

    /// So far.
    pub(crate) fn requests(&self) -> Requests {
        Requests {
            all: self.all.load(Relaxed),
            awaited: self.awaited.load(Relaxed),
            round_trips: self.round_trips.load(Relaxed),
        }
    }
}

/// One request that a caller waits for.
pub(crate) struct Waiting<'a> {
    callers: &'a Callers,
    caller: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.callers.0.lock();
        if let Some(count) = waiting.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_together_are_one_round_trip_and_those_of_nobody_are_none() {
        let (callers, mdt, ost) = (Callers::default(), Asked::default(), Asked::default());
        assert!(mdt.begin(&callers).is_none());
        cause::within(7, || {
            drop(mdt.begin(&callers));
            let together = (mdt.begin(&callers), ost.begin(&callers));
            // Another caller waits for its own.
            let other = cause::within(8, || ost.begin(&callers));
            drop((together, other));
            drop(ost.begin(&callers));
        });
        assert!(callers.0.lock().is_empty());
        assert_eq!(mdt.requests(), Requests { all: 3, awaited: 2, round_trips: 2 });
        assert_eq!(ost.requests(), Requests { all: 3, awaited: 3, round_trips: 2 });
        let sum: Requests = [mdt.requests(), ost.requests()].into_iter().sum();
        assert_eq!(sum, Requests { all: 6, awaited: 5, round_trips: 4 });
    }
}
