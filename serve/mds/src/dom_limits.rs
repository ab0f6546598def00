//! Bytes of a new file that may live on the MDT: the administrator's limit, and none while the MDT
//! is short of space.
//!
//! Existing files keep their layouts; only new files are bounded.

use crate::mds::Mds;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use types::errno::Errno;
use types::limits::{DOM_BYTES_MAX, STRIPE_BYTES_MIN};

/// See the module.
pub(crate) struct DomLimits {
    /// Bytes; a multiple of 64 KiB, at most DOM_BYTES_MAX; 0 = none.
    most: AtomicU64,
    /// The MDT is short with less free space than this many MiB; [`HALF`]: less than half of its
    /// capacity.
    threshold: AtomicU64,
    /// It was short when its space was last looked at.
    short: AtomicBool,
}

/// No threshold was set.
const HALF: u64 = u64::MAX;

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

impl Mds {
    /// Bytes of a file that may live on this MDT, at most: the limit for a requested layout, and
    /// that for new files now.
    pub fn dom_bytes(&self) -> (u64, u64) {
        (self.tunables.dom.most(), self.tunables.dom.now())
    }

    /// Sets the limit for a requested layout; 0: nothing.
    ///
    /// # Errors
    /// ERANGE: no multiple of 64 KiB, or more than DOM_BYTES_MAX.
    pub fn set_dom_bytes(&self, bytes: u64) -> Result<(), Errno> {
        if bytes > DOM_BYTES_MAX || !bytes.is_multiple_of(STRIPE_BYTES_MIN) {
            return Err(Errno(libc::ERANGE));
        }
        self.tunables.dom.most.store(bytes, Relaxed);
        Ok(())
    }

    /// With less free space than this many MiB, new files get nothing on this MDT.
    ///
    /// # Errors
    /// The store does not tell its capacity.
    pub fn dom_threshold(&self) -> Result<u64, Errno> {
        match self.tunables.dom.threshold.load(Relaxed) {
            HALF => Ok((self.totals()?.bytes_total >> 20) / 2),
            mib => Ok(mib),
        }
    }

    /// Sets it, MiB; acts at once.
    ///
    /// # Errors
    /// ERANGE: no store is so large.
    pub fn set_dom_threshold(&self, mib: u64) -> Result<(), Errno> {
        if mib > u64::MAX >> 20 {
            return Err(Errno(libc::ERANGE));
        }
        self.tunables.dom.threshold.store(mib, Relaxed);
        self.look_at_own_space();
        Ok(())
    }

    /// Looks whether the MDT is short of space now.
    pub(crate) fn look_at_own_space(&self) {
        let short = self.totals().and_then(|totals| Ok(totals.bytes_free >> 20 < self.dom_threshold()?));
        match short {
            Ok(short) => {
                if self.tunables.dom.short.swap(short, Relaxed) != short {
                    tracing::info!(target = %self.name, short, "space for data of files on the MDT");
                }
            }
            Err(errno) => tracing::warn!(target = %self.name, %errno, "its space is not known"),
        }
    }
}
