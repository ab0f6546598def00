//! How long the kernel may trust an answer: while a lock covers it, until it is called back, but
//! not beyond the time for which the MDT surely keeps the lock for us; else not at all, and then it
//! asks each time.
//!
//! The MDT may evict us when it has not heard of us for its lease. We know when the newest request
//! was sent that it answered; two thirds of the lease from then on nothing of ours is given to
//! others. Pings renew that every few seconds, and what the kernel asks again meanwhile is answered
//! from the table. So a mount whose daemon stands still stops showing what it knows in time. An MDT
//! in our own process keeps no lease.

use std::time::Duration;
use types::limits::LEASE;

/// What "without end" is called in seconds: the kernel's clock never gets there.
pub const WITHOUT_END: Duration = Duration::from_secs(1 << 40);

/// Time from the sending of a request that an MDT answered, for which what it granted may be
/// trusted.
pub fn trust() -> Duration {
    LEASE * 2 / 3
}
