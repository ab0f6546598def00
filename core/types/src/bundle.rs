//! Names of operations over several MDTs ("bundles", docs/dne.md).

use crate::target::TargetIndex;
use std::fmt;

/// The name of a bundle. Bundles of one coordinator are ordered: first by its life, then by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BundleId {
    /// The MDT that coordinates it.
    pub coordinator: TargetIndex,
    /// Boot number of that MDT.
    pub boot: u64,
    /// Number within that life, from 1.
    pub number: u64,
}

impl BundleId {
    /// The place among the bundles of its coordinator.
    pub const fn place(self) -> Place {
        Place { boot: self.boot, number: self.number }
    }
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}-{}-{}", self.coordinator.0, self.boot, self.number)
    }
}

impl fmt::Debug for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place among the bundles of one coordinator. As a watermark: every bundle before it is durable
/// at all of its participants, or never was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// Boot number of the coordinator.
    pub boot: u64,
    /// Number within that life.
    pub number: u64,
}
