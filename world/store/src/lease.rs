//! The lease of an owner, on its own monotonic clock.
//!
//! The store of keys counts the time of a lease from the moment at which it handled the renewal,
//! which is later than the moment at which the owner asked for it. So the owner counts from that
//! earlier moment, and stops a margin before the end: clocks need not show the same time, but their
//! rates must not differ by more than the margin covers.

use env::clock::Monotonic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Part of the time that is left as a margin.
const MARGIN_SHARE: u32 = 10;
/// The least margin.
const MARGIN_MIN: Duration = Duration::from_millis(100);

/// A lease.
#[derive(Debug)]
pub struct Lease {
    time: Duration,
    /// Nanoseconds on the own clock.
    until: AtomicU64,
    ended: AtomicBool,
}

impl Lease {
    /// A lease of this time, granted upon a request of the moment `asked`.
    pub fn new(time: Duration, asked: Monotonic) -> Lease {
        let lease = Lease { time, until: AtomicU64::new(0), ended: AtomicBool::new(false) };
        lease.renewed(asked);
        lease
    }

    /// How often it is to be renewed.
    pub fn interval(&self) -> Duration {
        self.time / 3
    }

    /// It was renewed upon a request of the moment `asked`.
    pub fn renewed(&self, asked: Monotonic) {
        let margin = (self.time / MARGIN_SHARE).max(MARGIN_MIN);
        let until = asked + self.time.saturating_sub(margin);
        self.until.fetch_max(until.as_nanos() as u64, Ordering::AcqRel);
    }

    /// It has ended, or the owner was fenced: it never holds again.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// True once it was ended.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// True if it surely lasts at this moment.
    pub fn holds(&self, now: Monotonic) -> bool {
        !self.is_ended() && now.as_nanos() < u128::from(self.until.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_request_and_ends_early() {
        let ms = Duration::from_millis;
        let lease = Lease::new(ms(2000), ms(500));
        assert!(lease.holds(ms(2299)) && !lease.holds(ms(2300)));
        lease.renewed(ms(1000));
        // An answer that comes late makes it no shorter.
        lease.renewed(ms(700));
        assert!(lease.holds(ms(2799)) && !lease.holds(ms(2800)));
        lease.end();
        assert!(!lease.holds(ms(0)));
        lease.renewed(ms(9000));
        assert!(!lease.holds(ms(9001)), "for ever");
        assert!(!Lease::new(ms(50), ms(0)).holds(ms(0)), "shorter than the margin");
    }
}
