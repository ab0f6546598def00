//! Settings that an administrator may change while the MDT runs: the file system's default layout,
//! and the OSTs that are set aside.
//!
//! They are lost at a restart; the MGS keeps persistent ones, and the code that assembled the MDT
//! applies them again.

use crate::dom_limits::DomLimits;
use crate::mds::Mds;
use crate::object_targets::Pools;
use crate::settings::MdsSettings;
use layout::layout::{ALL_OSTS, Layout};
use layout::placement::OstSpace;
use layout::stripe_spec::{Defaults, plain};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};
use types::errno::Errno;
use types::limits::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, STRIPES_MAX};
use types::target::TargetIndex;

/// See the module.
pub(crate) struct Tunables {
    stripe_count: AtomicU16,
    stripe_size: AtomicU32,
    /// See `dom_limits`.
    pub(crate) dom: DomLimits,
    /// OSTs that get no new objects. Bound: TARGETS_MAX, as only known OSTs can be set aside.
    aside: RwLock<BTreeSet<TargetIndex>>,
}

impl Tunables {
    pub(crate) fn new(settings: &MdsSettings) -> Tunables {
        Tunables {
            stripe_count: AtomicU16::new(settings.stripe_count),
            stripe_size: AtomicU32::new(settings.stripe_size),
            dom: DomLimits::default(),
            aside: RwLock::default(),
        }
    }

    /// Defaults for what a user may leave open in a layout, and the limit for bytes on the MDT.
    pub(crate) fn defaults(&self) -> Defaults {
        let (stripe_size, stripe_count) = (self.stripe_size.load(Relaxed), self.stripe_count.load(Relaxed));
        Defaults { stripe_size, stripe_count, dom_bytes_max: self.dom.most() }
    }

    /// Layout of a new file whose directory has no default layout; OSTs open.
    pub(crate) fn layout(&self) -> Layout {
        plain(self.stripe_count.load(Relaxed), self.stripe_size.load(Relaxed), None)
    }
}

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
                if bytes.is_multiple_of(STRIPE_BYTES_MIN) && (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&bytes) =>
            {
                self.tunables.stripe_size.store(size, Relaxed);
                Ok(())
            }
            _ => Err(Errno(libc::ERANGE)),
        }
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
        list.into_iter().map(|ost| (ost, known.iter().any(|k| k.index == ost && k.active))).collect()
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
            there.iter_mut().filter(|ost| aside.contains(&ost.index)).for_each(|ost| ost.active = false);
        }
        spaces
    }
}
