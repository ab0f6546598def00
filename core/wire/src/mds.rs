//! Operations of a metadata target.

mod attributes;
mod check;
mod data;
mod layouts;
mod locks;
mod names;
mod opens;

pub use self::attributes::*;
pub use self::check::*;
pub use self::data::*;
pub use self::layouts::*;
pub use self::locks::*;
pub use self::names::*;
pub use self::opens::*;
pub use crate::opcode::MdsOp;

use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::{Attr, FileType, Statfs};
use types::fid::Fid;
use types::lock::{Flock, LeaseMode};
use types::name::Name;
use types::ranges::ByteRange;
use types::session::OpenHandle;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlags {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Executes: other clients can neither open it to write nor change its size, and the other way
    /// round (ETXTBSY).
    pub exec: bool,
    /// Writes at the end only (O_APPEND).
    pub append: bool,
    /// The handle is the mount's own and outlives the opens of programs, of which it does not hear
    /// (`localflock`): it neither denies nor is denied anything.
    pub lasting: bool,
}

/// What to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreateKind {
    /// Regular file; opened at once if flags are given.
    Regular(Option<OpenFlags>),
    /// Directory.
    Directory,
    /// Symbolic link to these bytes (1..=4095).
    Symlink(Bytes),
    /// FIFO, socket or device with this `rdev`.
    Special(FileType, u32),
}

/// rename(2) flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RenameFlags {
    /// RENAME_NOREPLACE
    pub no_replace: bool,
    /// RENAME_EXCHANGE
    pub exchange: bool,
}

/// setxattr(2) flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetxattrFlags {
    /// XATTR_CREATE
    pub create: bool,
    /// XATTR_REPLACE
    pub replace: bool,
    /// FUSE_SETXATTR_ACL_KILL_SGID: clear S_ISGID if the ACL change demands it.
    pub kill_sgid: bool,
}

/// What is asked of the lease of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseAct {
    /// Take it. EBUSY: another open excludes it; ENOLCK: there are too many leases.
    Acquire(LeaseMode),
    /// Is it held still?
    Check,
    /// Give it back; was it held still?
    Release,
}

/// An inode as a client needs it.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Attributes.
    pub attr: Attr,
    /// Has it any extended attribute (ACLs included)? `false` spares the client the question.
    pub has_xattr: bool,
    /// Is its access time never changed by reading it (`chattr +A`)?
    pub noatime: bool,
}

/// One name of a directory.
#[derive(Clone, PartialEq, Debug)]
pub struct DirEntry {
    /// The name.
    pub name: Name,
    /// Where it leads.
    pub fid: Fid,
    /// What is there.
    pub file_type: FileType,
    /// Attributes, if asked for and the inode is on this MDT.
    pub entry: Option<Entry>,
    /// Layout of a regular file, if asked for, the inode is on this MDT, and there was room for it.
    pub layout: Option<Arc<Layout>>,
}

/// An inode whose last name went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The inode that lost a name (NONE if rename replaced nothing).
    pub fid: Fid,
    /// Links left; 0 = gone or an orphan until its last close.
    pub nlink: u32,
}

/// A record of an MDT's store as it is, or is to be; without a value there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Key, 1 to 511 bytes.
    pub key: Bytes,
    /// Value.
    pub value: Option<Bytes>,
}

/// What an operation answered.
#[derive(Clone, PartialEq, Debug)]
pub enum MdsReply {
    /// Done.
    Done,
    /// An inode.
    Entry(Box<Entry>),
    /// An inode, made (`created`) or found; opened if `handle` is not 0, then with its layout.
    Opened { entry: Box<Entry>, created: bool, handle: OpenHandle, layout: Option<Arc<Layout>> },
    /// Attributes of many; `None` where there is no such inode.
    Attrs(Vec<Option<Entry>>),
    /// Entries; `more` if the directory goes on.
    Entries { entries: Vec<DirEntry>, more: bool },
    /// Bytes: link target, xattr value or list.
    Bytes(Bytes),
    /// A layout.
    Layout(Arc<Layout>),
    /// Where the appended data goes.
    Appended { offset: u64 },
    /// Bytes that live on the MDT, cut at the end of the file, and the inode as it was with them.
    Data { entry: Box<Entry>, data: Bytes },
    /// Position found.
    Offset(Option<u64>),
    /// Locks on these bytes, at most EXTENTS_PER_REPLY_MAX; the first one covers what was needed.
    /// The inode is as its record has it: no client cuts the file while one of the locks is held.
    Extents { entry: Box<Entry>, ranges: Vec<ByteRange>, write: bool },
    /// A name went.
    Removed(Removed),
    /// Totals.
    Statfs(Statfs),
    /// The lock in the way; `None` = free.
    Flock(Option<Flock>),
    /// The lease, if it is not broken.
    Lease(Option<LeaseMode>),
    /// Records; `more` if there are others behind. All have values.
    Records { records: Vec<Record>, more: bool },
}
