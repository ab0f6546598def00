//! How long the kernel may trust an answer. Under a lock: until it is called back, but not beyond
//! the time for which the MDT surely keeps the lock for this mount. Otherwise not at all, and the
//! kernel asks each time.
//!
//! The MDT may evict a mount that it has not heard of for its lease. The mount knows when its
//! newest answered request was sent; for two thirds of the lease from then on none of its locks is
//! given to others. Pings renew that every few seconds, and the table answers what the kernel asks
//! again meanwhile. So a mount whose daemon stands still stops showing its cache in time. An MDT in
//! the same process keeps no lease.

use std::time::Duration;
use types::limits::LEASE;

/// "Without end" in seconds: the kernel's clock never gets there.
pub const WITHOUT_END: Duration = Duration::from_secs(1 << 40);

/// Time from the sending of a request that an MDT answered, for which what it granted may be
/// trusted.
pub fn trust() -> Duration {
    LEASE * 2 / 3
}
