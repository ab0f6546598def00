//! Settings that an administrator may change while the MDT runs: the file system's default layout,
//! and the OSTs that are set aside.
//!
//! They are lost at a restart; the MGS keeps persistent ones, and the code that assembled the MDT
//! applies them again.

use crate::settings::MdsSettings;
use crate::settings::dom_limits::DomLimits;
use crate::settings::squash::Squashing;
use layout::layout::Layout;
use layout::stripe_spec::{Defaults, new_file, plain};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use types::target::TargetIndex;

/// Life of a ticket unless an administrator sets another one, seconds.
const TICKET_LIFE: u32 = 1200;

/// See the module.
pub(crate) struct Tunables {
    pub(super) stripe_count: AtomicU16,
    pub(super) stripe_size: AtomicU32,
    /// See `MdsSettings`.
    pub(super) dom_bytes: AtomicU64,
    /// Directories are split by themselves.
    pub(crate) auto_split: AtomicBool,
    /// See `MdsSettings`.
    pub(crate) split_count: AtomicU32,
    /// See `MdsSettings`.
    pub(crate) split_delta: AtomicU16,
    /// See `bundles::shrinking`, seconds.
    pub(crate) merge_idle: AtomicU32,
    /// For how long tickets are good, seconds.
    pub(crate) ticket_life: AtomicU32,
    /// No directory is made here by choice of MDTs.
    pub(crate) no_create: AtomicBool,
    /// See `dom_limits`.
    pub(crate) dom: DomLimits,
    /// The ids as which callers act.
    pub(super) squash: Squashing,
    /// OSTs that get no new objects. Bound: TARGETS_MAX, as only known OSTs can be set aside.
    pub(super) aside: RwLock<BTreeSet<TargetIndex>>,
}

impl Tunables {
    pub(crate) fn new(settings: &MdsSettings) -> Tunables {
        Tunables {
            stripe_count: AtomicU16::new(settings.stripe_count),
            stripe_size: AtomicU32::new(settings.stripe_size),
            dom_bytes: AtomicU64::new(settings.dom_bytes),
            auto_split: AtomicBool::new(settings.auto_split),
            split_count: AtomicU32::new(settings.split_count),
            split_delta: AtomicU16::new(settings.split_delta),
            merge_idle: AtomicU32::new(settings.merge_idle),
            ticket_life: AtomicU32::new(TICKET_LIFE),
            no_create: AtomicBool::new(false),
            dom: DomLimits::default(),
            squash: Squashing::default(),
            aside: RwLock::default(),
        }
    }

    /// Defaults for what a user may leave open in a layout, and the limit for bytes on the MDT.
    pub(crate) fn defaults(&self) -> Defaults {
        let (stripe_size, stripe_count) =
            (self.stripe_size.load(Relaxed), self.stripe_count.load(Relaxed));
        Defaults { stripe_size, stripe_count, dom_bytes_max: self.dom.most() }
    }

    /// Layout of a new file whose directory has no default layout; OSTs open.
    pub(crate) fn layout(&self) -> Layout {
        let (count, size) = (self.stripe_count.load(Relaxed), self.stripe_size.load(Relaxed));
        match self.dom_bytes.load(Relaxed).min(self.dom.most()) {
            0 => plain(count, size, None),
            bytes => new_file(bytes, count, size),
        }
    }
}
