//! How long the kernel may trust an answer: without end while a lock covers it (until it is called back), else not at
//! all, and then it asks each time.

use std::time::Duration;
use types::fid::Fid;
use types::lock::InodeBits;

/// What "without end" is called in seconds: the kernel's clock never gets there.
const WITHOUT_END: Duration = Duration::from_secs(1 << 40);

/// Bits that this mount can keep, and so asks for.
pub const KEEPS: InodeBits =
    InodeBits::LOOKUP.union(InodeBits::UPDATE).union(InodeBits::XATTR).union(InodeBits::LAYOUT).union(InodeBits::OPEN);

/// Time for which something may be trusted.
pub fn valid(covered: bool) -> Duration {
    if covered { WITHOUT_END } else { Duration::ZERO }
}

/// May this client use the size it knows without asking the MDT?
pub fn size_covered(_fid: Fid) -> bool {
    false
}
