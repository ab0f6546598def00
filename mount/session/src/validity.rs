//! How long the kernel may trust an answer. Under a lock: until it is called back, but not beyond
//! the time for which the MDT surely keeps the lock for this mount. Otherwise not at all, and the
//! kernel asks each time.
//!
//! The MDT may evict a mount that it has not heard of for its lease. The mount knows when its
//! newest answered request was sent; for two thirds of the lease from then on none of its locks is
//! given to others. Pings renew that every few seconds, and the table answers what the kernel asks
//! again meanwhile. So a mount whose daemon stands still stops showing its cache in time. An MDT in
//! the same process keeps no lease.

use env::clock::Monotonic;
use std::time::Duration;
use types::limits::LEASE;

/// "Without end" in seconds: the kernel's clock never gets there.
pub const WITHOUT_END: Duration = Duration::from_secs(1 << 40);

/// Time from the sending of a request that an MDT answered, for which what it granted may be
/// trusted.
pub fn trust() -> Duration {
    LEASE * 2 / 3
}

/// Time for which what an MDT granted may still be trusted. `proved_at`: when its newest answered
/// request was sent; `None`: the MDT is in this process.
pub(crate) fn left(proved_at: Option<Monotonic>, now: Monotonic) -> Duration {
    match proved_at {
        None => WITHOUT_END,
        Some(at) => (at + trust()).saturating_sub(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R27 of docs/locks/kernel.md.
    #[test]
    fn trust_ends_before_the_mdt_may_evict() {
        let at = Duration::from_secs;
        let sent = at(100);
        for now in [100, 101, 110, 119, 120, 121, 200].map(at) {
            let left = left(Some(sent), now);
            assert!(left.is_zero() || now + left < sent + LEASE, "{now:?}: {left:?}");
        }
        assert_eq!(left(Some(sent), at(105)), at(15));
        assert_eq!(left(None, at(1 << 20)), WITHOUT_END);
    }
}
