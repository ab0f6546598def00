//! Operations of a metadata target.

use crate::ost::PunchKind;
use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::{Attr, FileType, SetAttr, Statfs, WrittenAt};
use types::fid::Fid;
use types::lock::{Flock, InodeBits, LeaseMode};
use types::name::Name;
use types::ranges::{ByteRange, Needs};
use types::session::OpenHandle;
use types::time::Timestamp;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlags {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Executes: other clients do not open it to write, nor change its size, and the other way round (ETXTBSY).
    pub exec: bool,
    /// Writes at the end only (O_APPEND).
    pub append: bool,
    /// The handle is the mount's own and outlives the opens of programs, of which it does not hear (`localflock`): it
    /// neither denies nor is denied anything.
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
    /// Take it. EBUSY: somebody else has the file open in a way that it excludes; ENOLCK: there are too many.
    Acquire(LeaseMode),
    /// Is it held still?
    Check,
    /// Give it back; was it held still?
    Release,
}

/// One operation. Credentials come with the request. A `Fid` may be a `Fid::result_of(n)`.
#[derive(Clone, PartialEq, Debug)]
pub enum MdsOp {
    /// Find a name. `..` and `.` are resolved by [`MdsOp::GetParent`] and the client.
    Lookup { parent: Fid, name: Name },
    /// Parent of a directory (for `..`); answers `Entry`.
    GetParent { fid: Fid },
    /// Attributes; answers `Entry`.
    Getattr { fid: Fid },
    /// Attributes of many; answers `Attrs`, in order; at most READDIR_ENTRIES_MAX.
    GetattrMany { fids: Vec<Fid> },
    /// Change attributes; answers `Entry`. A new size is the MDT's part only; the client cuts the objects.
    Setattr { fid: Fid, set: SetAttr },
    /// Make an inode and its name. `mode` is as the caller gave it; `umask` applies unless a default ACL does.
    /// Regular: with `exclusive` an existing name is EEXIST; without, it is opened (if opening was asked).
    Create { parent: Fid, name: Name, kind: CreateKind, mode: u32, umask: u32, exclusive: bool },
    /// Make a regular file without a name and open it (O_TMPFILE); answers `Opened`. With `linkable` a `Link` may give it its
    /// first name; else it goes with its last handle.
    Tmpfile { parent: Fid, mode: u32, umask: u32, flags: OpenFlags, linkable: bool },
    /// Hold an inode open; answers `Opened`.
    Open { fid: Fid, flags: OpenFlags },
    /// Let it go. The last close of an unlinked inode destroys it.
    Close { fid: Fid, handle: OpenHandle },
    /// Programs read the inode, the last time at `at`. The MDT decides by the rule of `relatime`
    /// whether that becomes the access time. `strict`: it does even if relatime would leave the
    /// access time alone.
    Accessed { fid: Fid, at: Timestamp, strict: bool },
    /// Remove a name that is no directory; answers `Removed`.
    Unlink { parent: Fid, name: Name },
    /// Remove an empty directory; answers `Removed`.
    Rmdir { parent: Fid, name: Name },
    /// Move a name; answers `Removed` (what was replaced).
    Rename { parent: Fid, name: Name, new_parent: Fid, new_name: Name, flags: RenameFlags },
    /// Second name for an inode; answers `Entry`.
    Link { fid: Fid, new_parent: Fid, new_name: Name },
    /// Entries in name order, after `after` (None = from the start); at most `limit`, and about `bytes_max` bytes.
    /// `with_attr`: with all attributes; `with_layout`: with layouts of regular files.
    Readdir { fid: Fid, after: Option<Name>, limit: u32, bytes_max: u32, with_attr: bool, with_layout: bool },
    /// Target of a symbolic link.
    Readlink { fid: Fid },
    /// One extended attribute; ENODATA if absent. `lustre.lov` and friends are answered from the layout.
    Getxattr { fid: Fid, name: Bytes },
    /// All names, each with a NUL behind it.
    Listxattr { fid: Fid },
    /// Set an extended attribute.
    Setxattr { fid: Fid, name: Bytes, value: Bytes, flags: SetxattrFlags },
    /// Remove one.
    Removexattr { fid: Fid, name: Bytes },
    /// Layout of a file, its components instantiated for `[start, end)` if `write`; answers `Layout`.
    GetLayout { fid: Fid, write: bool, start: u64, end: u64 },
    /// Two regular files exchange layout, size and space. `versions`: they must be in these (EAGAIN), 0 = in any. `same`:
    /// their contents are the same, so times stay, and their sizes must agree (EAGAIN). EBUSY: one is open to be written.
    /// Durable when answered.
    SwapLayouts { fid: Fid, other: Fid, versions: (u64, u64), same: bool },
    /// Data was written to objects: size = max(size, end), blocks += delta, mtime and ctime as `at` says.
    Wrote { fid: Fid, end: u64, blocks_delta: i64, at: WrittenAt, kill_suidgid: bool },
    /// Reserve `len` bytes at the end of the file (O_APPEND); answers `Appended`. The size grows at once.
    Append { fid: Fid, len: u64, kill_suidgid: bool },
    /// Bytes of a file that live on the MDT (docs/dom.md), at most DOM_BYTES_MAX; answers `Data`. EREMCHG: by the layout of now
    /// some of them live elsewhere.
    Read { fid: Fid, offset: u64, len: u32 },
    /// Store such bytes, with all that `Wrote` says, in one change; answers `Entry`. EREMCHG as above.
    Write { fid: Fid, offset: u64, data: Bytes, at: WrittenAt, kill_suidgid: bool },
    /// Change the allocation of such bytes (`Truncate` is EINVAL: that is `Setattr`); `grows`: the file is at least `end` long then.
    /// Answers `Entry`. EREMCHG as above.
    Punch { fid: Fid, start: u64, end: u64, kind: PunchKind, grows: bool, kill_suidgid: bool },
    /// Next data or hole at or after `offset` among such bytes; answers `Offset`, None behind the last of them.
    Seek { fid: Fid, offset: u64, hole: bool },
    /// Totals.
    Statfs,
    /// All changes so far are durable when this answers (fsync, sync).
    Sync,
    /// Test for a conflicting lock (F_GETLK); answers `Flock`.
    FlockTest { fid: Fid, lock: Flock },
    /// Take or release. `wait`: answers when granted, or EDEADLK; else EAGAIN at a conflict.
    FlockSet { fid: Fid, lock: Flock, wait: bool },
    /// Give up a waiting `FlockSet` of this owner (a signal came); the waiter answers EINTR.
    FlockCancel { fid: Fid, lock: Flock },
    /// Wait for locks (DATA, or WRITE with DATA and UPDATE), whatever others hold; answers `Entry`, and the reply grants
    /// them, if the session lives. `needs`: these bytes are enough; then it may answer `Extent`.
    Lock { fid: Fid, bits: InodeBits, needs: Option<Needs> },
    /// These locks are given up; at most REVOKES_PER_CALLBACK_MAX.
    Unlock { locks: Vec<(Fid, InodeBits)> },
    /// About the lease of one open file of this client, which names it `owner`. Other open files of the same client are its own to
    /// look after. Answers `Lease`: which is held (until now), or none, for it was broken.
    Lease { fid: Fid, owner: u64, act: LeaseAct },
    /// Records with keys in `[start, end)`, in order, up to about `bytes_max` bytes; for checkers. Answers `Records`.
    Scan { start: Bytes, end: Bytes, bytes_max: u32 },
    /// If the records of `expect` are so, makes those of `put` so, in one change; else ESTALE. For checkers.
    Mend { expect: Vec<Record>, put: Vec<Record> },
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
    /// Locks on these bytes, at most EXTENTS_PER_REPLY_MAX, what was needed with the first; the inode as the record has it: nobody cuts it
    /// while one of them is held.
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
