//! The time until which a request may be begun: the fence for clients that lost their locks.
//!
//! A client may work on objects under a lock of an MDT as long as that MDT surely keeps the lock
//! for it. The time of a request on its way has no bound: it may lie in a broken connection and
//! arrive when another client has the lock. So such a request carries the moment, on the *target's*
//! clock, from which on the target refuses it ([`Refusal::Late`]); no server has to be told of an
//! eviction. Every reply shows that clock, and from it a client knows a lower bound of the target's
//! clock ([`PeerClock`]). Both clocks need only run at about the same rate, which leases require
//! anyway.
//!
//! The code that polls the future of such a piece of work gives its limit with [`within`]; requests
//! sent in that poll carry it. Nothing is passed through every call.
//!
//! [`Refusal::Late`]: wire::envelope::Refusal::Late

use env::clock::Monotonic;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

thread_local! {
    static UNTIL: Cell<Option<Monotonic>> = const { Cell::new(None) };
}

/// Runs `work`, whose requests may be begun until then, on this process' clock; `None`: at any
/// time.
pub fn within<T>(until: Option<Monotonic>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Monotonic>);
    impl Drop for Back {
        fn drop(&mut self) {
            UNTIL.set(self.0);
        }
    }
    let _back = Back(UNTIL.replace(until));
    work()
}

/// A clock as an envelope shows it, milliseconds; never 0, which means none.
pub(crate) fn shown(now: Monotonic) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// True if a request with this limit is late. 0: it has none.
pub(crate) fn is_late(limit: u64, now: Monotonic) -> bool {
    limit != 0 && shown(now) > limit
}

/// What is known of the clock of a target.
#[derive(Default)]
pub(crate) struct PeerClock {
    /// Lower bound of its lead over this process' clock, milliseconds. 0 before the first reply:
    /// only a Connect is sent by then.
    ahead: AtomicI64,
}

impl PeerClock {
    /// A reply that came now showed it. It was made before, so the clock is further on by now.
    pub(crate) fn learn(&self, clock: u64, now: Monotonic) {
        if clock != 0 {
            let ahead =
                i64::try_from(clock).unwrap_or(i64::MAX).saturating_sub_unsigned(shown(now));
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// The limit of a request that is sent in this poll, on the target's clock.
    pub(crate) fn limit(&self) -> u64 {
        UNTIL.get().map_or(0, |until| {
            shown(until).saturating_add_signed(self.ahead.load(Ordering::Relaxed)).max(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_limit_is_on_the_clock_of_the_target() {
        let at = Duration::from_secs;
        let clock = PeerClock::default();
        assert_eq!(clock.limit(), 0, "any time");
        for (theirs, ours) in [(100, 5000), (5000, 100)] {
            clock.learn(shown(at(theirs)), at(ours));
            let limit = within(Some(at(ours + 10)), || clock.limit());
            assert!(
                !is_late(limit, at(theirs + 10))
                    && is_late(limit, at(theirs + 10) + Duration::from_millis(1))
            );
            let past = within(Some(at(ours - 90)), || clock.limit());
            assert!(is_late(past, at(theirs)), "of no use any more");
        }
        assert_eq!(within(Some(at(1)), || within(None, || clock.limit())), 0);
        assert_eq!(clock.limit(), 0);
    }
}
