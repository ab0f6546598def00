//! The layout value.

use types::target::TargetIndex;

/// End of a component that reaches to the end of the file.
pub const EOF: u64 = u64::MAX;

/// How a component spreads its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Pattern {
    /// Round robin over objects, `stripe_size` bytes at a time.
    Raid0 = 1,
    /// On the MDT, with the inode (DoM).
    Mdt = 2,
}

/// Name of an OST pool: 1..=15 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct PoolName(pub String);

/// One component.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Component {
    /// Instance number, unique in the life of the file, from 1; part of every object's name (`ObjectId::instance`).
    pub id: u32,
    /// First byte covered.
    pub start: u64,
    /// End, exclusive; [`EOF`] for the rest of the file.
    pub end: u64,
    /// Where the bytes go.
    pub pattern: Pattern,
    /// Bytes of one stripe; a multiple of 64 KiB.
    pub stripe_size: u32,
    /// Stripes wanted; 0 = file system default, u16::MAX = all OSTs. Equal to `stripes.len()` once instantiated.
    pub stripe_count: u16,
    /// Overstriped: several objects may share one OST.
    pub overstriped: bool,
    /// Pool the OSTs come from.
    pub pool: Option<PoolName>,
    /// OST of each stripe; empty = not instantiated yet. Always empty for [`Pattern::Mdt`].
    pub stripes: Vec<TargetIndex>,
}

/// Layout of one file, or the default layout of a directory (then without stripes).
#[derive(Clone, PartialEq, Eq, Debug, Hash, Default)]
pub struct Layout {
    /// Grows with every change.
    pub generation: u32,
    /// Ordered by `start`, without gap or overlap, first at 0, last to [`EOF`] (unless the user left the end open).
    pub components: Vec<Component>,
}
