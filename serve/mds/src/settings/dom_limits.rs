//! Bytes of a new file that may live on the MDT: the administrator's limit, and none while the MDT
//! is short of space.
//!
//! Existing files keep their layouts; only new files are bounded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use types::limits::DOM_BYTES_MAX;

/// See the module.
pub(crate) struct DomLimits {
    /// Bytes; a multiple of 64 KiB, at most DOM_BYTES_MAX; 0 = none.
    pub(super) most: AtomicU64,
    /// The MDT is short with less free space than this many MiB; [`HALF`]: less than half of its
    /// capacity.
    pub(super) threshold: AtomicU64,
    /// It was short when its space was last looked at.
    pub(super) short: AtomicBool,
}

/// No threshold was set.
pub(super) const HALF: u64 = u64::MAX;

impl Default for DomLimits {
    fn default() -> DomLimits {
        let (most, threshold) = (AtomicU64::new(DOM_BYTES_MAX), AtomicU64::new(HALF));
        DomLimits { most, threshold, short: AtomicBool::new(false) }
    }
}

impl DomLimits {
    /// The most that a user may ask for, bytes.
    pub(crate) fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// The most that a new file gets, bytes.
    pub(crate) fn now(&self) -> u64 {
        if self.short.load(Relaxed) { 0 } else { self.most() }
    }
}
