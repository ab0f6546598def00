//! What an administrator reads and sets while the MDT runs.

use crate::mds::Mds;
use crate::object_targets::Pools;
use crate::settings::dom_limits::HALF;
use layout::layout::ALL_OSTS;
use layout::placement::OstSpace;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use types::errno::Errno;
use types::limits::{DOM_BYTES_MAX, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, STRIPES_MAX};
use types::target::TargetIndex;

impl Mds {
    /// Stripes of a new file whose directory has no default layout; -1: one on each OST.
    pub fn stripe_count(&self) -> i32 {
        match self.tunables.stripe_count.load(Relaxed) {
            ALL_OSTS => -1,
            count => i32::from(count),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// ERANGE: neither -1 nor 1..=2000.
    pub fn set_stripe_count(&self, count: i32) -> Result<(), Errno> {
        let count = match u16::try_from(count) {
            _ if count == -1 => ALL_OSTS,
            Ok(count @ 1..) if usize::from(count) <= STRIPES_MAX => count,
            _ => return Err(Errno(libc::ERANGE)),
        };
        self.tunables.stripe_count.store(count, Relaxed);
        Ok(())
    }

    /// Stripe size of such a file, bytes.
    pub fn stripe_size(&self) -> u32 {
        self.tunables.stripe_size.load(Relaxed)
    }

    /// Sets it.
    ///
    /// # Errors
    /// ERANGE: no multiple of 64 KiB, or too large.
    pub fn set_stripe_size(&self, bytes: u64) -> Result<(), Errno> {
        match u32::try_from(bytes) {
            Ok(size)
                if bytes.is_multiple_of(STRIPE_BYTES_MIN)
                    && (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&bytes) =>
            {
                self.tunables.stripe_size.store(size, Relaxed);
                Ok(())
            }
            _ => Err(Errno(libc::ERANGE)),
        }
    }

    /// First bytes of such a file that live on the MDT.
    pub fn default_dom_bytes(&self) -> u64 {
        self.tunables.dom_bytes.load(Relaxed)
    }

    /// Sets it; 0: none.
    ///
    /// # Errors
    /// ERANGE: no multiple of 64 KiB, or more than DOM_BYTES_MAX.
    pub fn set_default_dom_bytes(&self, bytes: u64) -> Result<(), Errno> {
        self.tunables.dom_bytes.store(on_mdt(bytes)?, Relaxed);
        Ok(())
    }

    /// True if this OST gets new objects, as far as the administrator decides.
    pub fn ost_active(&self, ost: TargetIndex) -> bool {
        !self.tunables.aside.read().contains(&ost)
    }

    /// Sets an OST aside, or takes it back.
    ///
    /// # Errors
    /// ENODEV: there is no such OST.
    pub fn set_ost_active(&self, ost: TargetIndex, active: bool) -> Result<(), Errno> {
        if !self.targets.list().contains(&ost) {
            return Err(Errno(libc::ENODEV));
        }
        let mut aside = self.tunables.aside.write();
        if active {
            aside.remove(&ost)
        } else {
            aside.insert(ost)
        };
        tracing::info!(target = %self.name, ?ost, active, "OST set aside or taken back");
        Ok(())
    }

    /// OSTs by index, and whether each gets new objects.
    pub fn osts(&self) -> Vec<(TargetIndex, bool)> {
        let known = self.placement_spaces();
        let mut list = self.targets.list();
        list.sort_unstable();
        list.into_iter()
            .map(|ost| (ost, known.iter().any(|k| k.index == ost && k.active)))
            .collect()
    }

    /// Pools of OSTs, by name.
    pub fn pools(&self) -> Arc<Pools> {
        self.targets.pools()
    }

    /// True if it was set aside, to get no new objects.
    pub(crate) fn is_aside(&self, ost: TargetIndex) -> bool {
        self.tunables.aside.read().contains(&ost)
    }

    /// The spaces that placement may use: OSTs that were set aside are not active.
    pub(crate) fn placement_spaces(&self) -> Arc<Vec<OstSpace>> {
        let mut spaces = self.spaces.get();
        let aside = self.tunables.aside.read();
        if !aside.is_empty() {
            let there = Arc::make_mut(&mut spaces);
            there
                .iter_mut()
                .filter(|ost| aside.contains(&ost.index))
                .for_each(|ost| ost.active = false);
        }
        spaces
    }
}

/// Bytes of a file that may end on the MDT.
fn on_mdt(bytes: u64) -> Result<u64, Errno> {
    let fits = bytes <= DOM_BYTES_MAX && bytes.is_multiple_of(STRIPE_BYTES_MIN);
    if fits { Ok(bytes) } else { Err(Errno(libc::ERANGE)) }
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
        self.tunables.dom.most.store(on_mdt(bytes)?, Relaxed);
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
        let short =
            self.totals().and_then(|totals| Ok(totals.bytes_free >> 20 < self.dom_threshold()?));
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
