//! Space that OSTs promised to this mount. Pure, but for the lock around the table.
//!
//! A write may be kept back only if its blocks were *reserved* here. What is reserved is spent by the request that stores
//! it, which asks for as much again. When an OST lost our session, its promises went with it; nothing here is believed
//! then, and an answer that was on its way does not count. What lies idle is given back, after
//! [`IDLE`] if no administrator says otherwise.

use env::clock::Monotonic;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;
use types::limits::GRANT_UNIT;
use types::target::TargetIndex;

/// What a mount wants to hold of each OST, reserved bytes beside: enough for what is dirty while requests are on their way.
pub const PROMISE_WANTED: u64 = 64 << 20;
/// A promise that was not used for so long is given back, if no administrator says otherwise.
pub const IDLE: Duration = Duration::from_secs(10);

/// What is promised by one OST.
#[derive(Default)]
struct Promise {
    /// Promised, not reserved.
    free: u64,
    /// Asked for, not answered.
    asked: u64,
    /// Counts sessions with the OST.
    session: u64,
    used: Monotonic,
    shrink: Shrink,
}

/// When a promise of an OST that is not used is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrink {
    /// Is it ever?
    pub on: bool,
    /// After this time without use.
    pub after: Duration,
}

impl Default for Shrink {
    fn default() -> Shrink {
        Shrink { on: true, after: IDLE }
    }
}

/// A question on its way to an OST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// How much more is wanted.
    pub want: u64,
    session: u64,
}

/// See the module.
#[derive(Default)]
pub struct Promises {
    /// In order, so that what is given back goes out in one.
    osts: Mutex<BTreeMap<TargetIndex, Promise>>,
}

impl Promises {
    /// Reserves `blocks` at each of these OSTs; all or nothing: who has too little.
    ///
    /// # Errors
    /// The OST that has not promised enough.
    pub fn reserve(&self, now: Monotonic, needs: &[(TargetIndex, u64)]) -> Result<(), TargetIndex> {
        let mut osts = self.osts.lock();
        for (ost, blocks) in needs {
            if *blocks > 0 && osts.get(ost).is_none_or(|promise| promise.free < blocks * GRANT_UNIT) {
                return Err(*ost);
            }
        }
        for (ost, blocks) in needs {
            let promise = osts.entry(*ost).or_default();
            promise.free -= blocks * GRANT_UNIT;
            promise.used = now;
        }
        Ok(())
    }

    /// Reserved blocks are not needed: nothing will be sent.
    pub fn unreserve(&self, ost: TargetIndex, blocks: u64) {
        self.osts.lock().entry(ost).or_default().free += blocks * GRANT_UNIT;
    }

    /// What to ask for. Every question is to be ended with [`Promises::answered`].
    pub fn ask(&self, ost: TargetIndex) -> Asked {
        let mut osts = self.osts.lock();
        let promise = osts.entry(ost).or_default();
        let want = PROMISE_WANTED.saturating_sub(promise.free + promise.asked);
        promise.asked += want;
        Asked { want, session: promise.session }
    }

    /// The OST promised `more`; 0 also if it did not answer.
    pub fn answered(&self, ost: TargetIndex, asked: Asked, more: u64) {
        let mut osts = self.osts.lock();
        let promise = osts.entry(ost).or_default();
        if promise.session == asked.session {
            promise.asked -= asked.want;
            promise.free += more;
        }
    }

    /// The OST lost our session.
    pub fn lost(&self, ost: TargetIndex) {
        let mut osts = self.osts.lock();
        let promise = osts.entry(ost).or_default();
        *promise =
            Promise { session: promise.session + 1, used: promise.used, shrink: promise.shrink, ..Promise::default() };
    }

    /// Takes what lies idle, to be given back.
    pub fn take_idle(&self, now: Monotonic) -> Vec<(TargetIndex, u64)> {
        let mut idle = Vec::new();
        for (ost, promise) in self.osts.lock().iter_mut() {
            let Shrink { on, after } = promise.shrink;
            if on && promise.free > 0 && promise.asked == 0 && now >= promise.used + after {
                idle.push((*ost, std::mem::take(&mut promise.free)));
            }
        }
        idle
    }

    /// When what this OST promised is given back.
    pub fn shrink(&self, ost: TargetIndex) -> Shrink {
        self.osts.lock().get(&ost).map_or_else(Shrink::default, |promise| promise.shrink)
    }

    /// As [`Promises::shrink`].
    pub fn set_shrink(&self, ost: TargetIndex, shrink: Shrink) {
        self.osts.lock().entry(ost).or_default().shrink = shrink;
    }

    /// Promised and not reserved, bytes.
    pub fn free(&self, ost: TargetIndex) -> u64 {
        self.osts.lock().get(&ost).map_or(0, |promise| promise.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TargetIndex = TargetIndex(0);
    const B: TargetIndex = TargetIndex(1);
    const NOW: Monotonic = Duration::from_secs(1);

    #[test]
    fn only_what_was_promised_is_reserved_and_all_or_nothing() {
        let promises = Promises::default();
        assert_eq!(promises.reserve(NOW, &[(A, 1)]), Err(A));
        assert_eq!(promises.reserve(NOW, &[(A, 0)]), Ok(()), "a block that is dirty already needs no more");
        let asked = promises.ask(A);
        assert_eq!(asked.want, PROMISE_WANTED);
        assert_eq!(promises.ask(A).want, 0, "it is on its way");
        promises.answered(A, asked, 10 * GRANT_UNIT);
        assert_eq!(promises.reserve(NOW, &[(A, 4), (B, 1)]), Err(B));
        assert_eq!(promises.free(A), 10 * GRANT_UNIT);
        assert_eq!(promises.reserve(NOW, &[(A, 4)]), Ok(()));
        promises.unreserve(A, 1);
        assert_eq!(promises.free(A), 7 * GRANT_UNIT);
        assert_eq!(promises.ask(A).want, PROMISE_WANTED - 7 * GRANT_UNIT);
    }

    #[test]
    fn a_promise_ends_with_its_session_and_when_it_lies_idle() {
        let promises = Promises::default();
        let asked = promises.ask(A);
        promises.lost(A);
        promises.answered(A, asked, GRANT_UNIT);
        assert_eq!(promises.free(A), 0, "the old session promised it");
        let asked = promises.ask(A);
        promises.answered(A, asked, GRANT_UNIT);
        promises.reserve(NOW, &[(A, 0)]).unwrap();
        assert_eq!(promises.take_idle(NOW + IDLE - Duration::from_nanos(1)), []);
        assert_eq!(promises.take_idle(NOW + IDLE), [(A, GRANT_UNIT)]);
        assert_eq!(promises.free(A), 0);
    }

    #[test]
    fn an_administrator_says_when_a_promise_is_given_back() {
        let promises = Promises::default();
        let promise = || {
            let asked = promises.ask(A);
            promises.answered(A, asked, GRANT_UNIT);
            promises.reserve(NOW, &[(A, 0)]).unwrap();
        };
        promise();
        promises.set_shrink(A, Shrink { on: false, after: IDLE });
        assert_eq!(promises.take_idle(NOW + 100 * IDLE), []);
        let after = Duration::from_secs(1);
        promises.set_shrink(A, Shrink { on: true, after });
        assert_eq!(promises.take_idle(NOW + after), [(A, GRANT_UNIT)]);
        promises.lost(A);
        assert_eq!((promises.shrink(A).after, promises.shrink(B)), (after, Shrink::default()), "it outlives a session");
    }
}
