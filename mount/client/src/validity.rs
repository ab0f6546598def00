//! How long an answer may be trusted without asking again: the seam where locks will speak.
//!
//! Without a lock another client may change anything at any time, so the answer is "not at all": the kernel asks
//! each time, and all clients see one system. With a lock on the bits that cover an answer it will be "until the lock
//! is called back", which the kernel knows as forever.

use std::time::Duration;
use types::fid::Fid;

/// Time for which a name may be trusted.
pub fn entry_valid(_parent: Fid) -> Duration {
    Duration::ZERO
}

/// Time for which attributes may be trusted.
pub fn attr_valid(_fid: Fid) -> Duration {
    Duration::ZERO
}

/// May this client use the size it knows without asking the MDT?
pub fn size_covered(_fid: Fid) -> bool {
    false
}
