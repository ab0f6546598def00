//! Words about locks that client, wire and servers share. Decisions are in `dlm`.

bitflags::bitflags! {
    /// Inode bits: what a metadata lock covers (numbers as in Lustre; `DATA` is SheenFS's own).
    /// Unknown bits, as a newer peer may send them, stay as they are.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
    pub struct InodeBits: u32 {
        /// The inode's identity, type, and that its name still leads to it.
        const LOOKUP = 0x01;
        /// Attributes; for a directory also its entries, and so all negative answers.
        const UPDATE = 0x02;
        /// Open handles.
        const OPEN = 0x04;
        /// The layout.
        const LAYOUT = 0x08;
        /// Of a directory: owner, group, mode, ACL, and whether there are extended attributes. It
        /// is what remains of UPDATE while several clients change names in the directory.
        const PERM = 0x10;
        /// Extended attributes, present and absent.
        const XATTR = 0x20;
        /// Data on the MDT.
        const DOM = 0x40;
        /// All data of the file, wherever it lives, for reading: it may be cached.
        const DATA = 0x80;
        /// All data of the file, for writing (SheenFS's own bit). The holder may cache what it
        /// writes, and answers for size and times. It excludes DATA, UPDATE and WRITE of other
        /// clients, and is granted only together with DATA and UPDATE.
        const WRITE = 0x100;
        /// Of a directory: some ranges of absent names (SheenFS's own bit). They come with
        /// `Reply::gap` and with nothing else.
        const GAP = 0x200;
    }
}

impl InodeBits {
    /// No bits.
    pub const NONE: InodeBits = InodeBits::empty();
    /// Every bit there is.
    pub const ALL: InodeBits = InodeBits::all();
}

/// The mode that a byte-range or whole-file lock of flock(2)/fcntl(2) asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FlockKind {
    /// Shared.
    Read = 0,
    /// Exclusive.
    Write = 1,
    /// Release.
    Unlock = 2,
}

/// The interface that a lock was taken through. Locks of the two do not see each other (Linux,
/// Lustre).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum FlockFlavor {
    /// fcntl(F_SETLK): byte ranges owned by a process.
    Posix = 0,
    /// flock(2): whole file, owned by an open file description.
    Bsd = 1,
    /// Group lock (Lustre): whole file, owned by a group of any number of clients. Its members
    /// share it; other clients wait for the data of the file.
    Group = 2,
}

/// What a lease excludes for all open files but its holder (numbers as Lustre's `LL_LEASE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum LeaseMode {
    /// No other open file may write.
    Read = 1,
    /// There is no other open file.
    Write = 2,
}

impl LeaseMode {
    /// By its number.
    pub const fn from_number(number: u8) -> Option<LeaseMode> {
        match number {
            1 => Some(LeaseMode::Read),
            2 => Some(LeaseMode::Write),
            _ => None,
        }
    }

    /// True if another use of the file breaks the lease. `writes`: that use changes the file.
    pub const fn is_broken(self, writes: bool) -> bool {
        writes || matches!(self, LeaseMode::Write)
    }
}

/// A flock or fcntl lock, wanted or held. `end` is inclusive, u64::MAX = to the end of all files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flock {
    /// Interface.
    pub flavor: FlockFlavor,
    /// Shared, exclusive, release.
    pub kind: FlockKind,
    /// Owner within its client, as the kernel names it.
    pub owner: u64,
    /// Process that asked, for F_GETLK.
    pub pid: u32,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive.
    pub end: u64,
}
