//! What was done and what was seen: one record for each operation of each thread.
//!
//! Times are nanoseconds of one monotonic clock, taken before the call and after its return. Every
//! written value is unique, so that each result names the operation it came from.

/// Bytes that one write fills with one mark. It divides a page, so that writers share pages.
pub const SLOT: u64 = 512;

/// A name in one of the fixed directories: `d0/n3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Number of the directory.
    pub dir: u8,
    /// Number of the name.
    pub name: u8,
}

/// An operation with its arguments. Files are named by inode where the call went through an open
/// descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `open(O_CREAT)`, with `O_EXCL` if exclusive.
    Create {
        at: Place,
        exclusive: bool,
    },
    /// `open(O_RDWR)`
    Open {
        at: Place,
    },
    /// `open(O_DIRECTORY)`
    OpenDir {
        at: Place,
    },
    Unlink {
        at: Place,
    },
    Mkdir {
        at: Place,
    },
    Rmdir {
        at: Place,
    },
    Rename {
        from: Place,
        to: Place,
    },
    Link {
        from: Place,
        to: Place,
    },
    /// `lstat`
    Stat {
        at: Place,
    },
    /// All entries of one directory.
    List {
        dir: u8,
    },
    /// Creates the one file `x` in an open directory.
    MakeIn {
        dir: u64,
    },
    /// Removes it.
    UnlinkIn {
        dir: u64,
    },
    Fstat {
        ino: u64,
    },
    /// `slots` slots from slot `slot`.
    Read {
        ino: u64,
        slot: u64,
        slots: u64,
    },
    Write {
        ino: u64,
        slot: u64,
        slots: u64,
        id: u64,
    },
    /// `O_APPEND`: the place is the file system's choice.
    Append {
        ino: u64,
        slots: u64,
        id: u64,
    },
    Truncate {
        ino: u64,
        slots: u64,
    },
    Chmod {
        ino: u64,
        mode: u32,
    },
    /// `fchmod` of an open directory whose name is gone.
    ChmodRemoved {
        ino: u64,
        mode: u32,
    },
    /// All entries of an open directory.
    ListIn {
        dir: u64,
    },
    Setxattr {
        ino: u64,
        which: u8,
        value: u64,
    },
    Getxattr {
        ino: u64,
        which: u8,
    },
    Removexattr {
        ino: u64,
        which: u8,
    },
    Fsync {
        ino: u64,
    },
    Close {
        ino: u64,
    },
    /// Takes the exclusive OFD lock of the whole file, without waiting. `open` tells open files
    /// apart.
    Lock {
        ino: u64,
        open: u64,
    },
    Unlock {
        ino: u64,
        open: u64,
    },
    /// A file was closed that had the lock, which goes with it: the file system hears of a close a
    /// moment later.
    LockEnds {
        ino: u64,
        open: u64,
    },
    /// A load from the mapped words ([`crate::mapped`]).
    Load {
        word: u8,
    },
    /// A store to them.
    Store {
        word: u8,
        value: u64,
    },
    /// One word read by a system call.
    ReadWord {
        word: u8,
    },
}

/// Result of `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub ino: u64,
    pub dir: bool,
    /// Permission bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    pub links: u32,
    pub times: Times,
}

/// Nanoseconds of the run's clock, before its beginning if negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// atime
    pub access: i64,
    /// ctime
    pub change: i64,
}

/// Content of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Nothing but zeros.
    Zero,
    /// Slot `part` of the write `id`.
    Written { id: u64, part: u64 },
    /// Marks of several writes (or zeros) side by side.
    Mixed(Vec<Cell>),
    /// Bytes that no write ever wrote.
    Garbage([u8; 8]),
}

/// One entry of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: u8,
    pub ino: u64,
    pub dir: bool,
}

/// The answer that the caller got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, with nothing to tell.
    Done,
    /// Success; this inode is open now.
    Inode(u64),
    Attributes(Attributes),
    Entries(Vec<Entry>),
    /// Bytes returned, and what each whole slot of them held.
    Cells {
        bytes: u64,
        cells: Vec<Cell>,
    },
    /// Value of an extended attribute; `None`: there is none.
    Value(Option<u64>),
    /// The call wrote fewer bytes than it was given.
    Short(u64),
    /// The call failed with this error number.
    Failed(i32),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub thread: u16,
    pub mount: u16,
    /// Before the call, ns.
    pub begin: u64,
    /// After its return, ns.
    pub end: u64,
    pub action: Action,
    pub answer: Answer,
}
