//! Types that several operations and answers of an MDT share.

use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::{Attr, FileType};
use types::bundle::BundleId;
use types::dir_stripes::DirSpec;
use types::fid::Fid;
use types::lock::LeaseMode;
use types::name::Name;
use types::target::TargetIndex;

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
    Directory {
        /// The MDT that gets its inode; `None`: that of its parent.
        mdt: Option<TargetIndex>,
    },
    /// Directory for which MDTs are chosen, perhaps with stripes on several.
    Placed(DirSpec),
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
    /// Is it a stripe of a directory over several MDTs? Its attributes are part of those of the
    /// directory. 0: no; else the generation of its record of stripes.
    pub striped: u32,
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

/// What a bundle is about to change at an MDT, or rests on there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerFind {
    /// Directories are moved to other parents one after the other.
    Token,
    /// A name, and the inode that it leads to, if the same MDT has it.
    Name {
        /// Directory of the name.
        dir: Fid,
        /// The name.
        name: Name,
        /// The inode loses it, and gets no other.
        loses: bool,
    },
    /// An inode.
    Inode {
        /// The inode.
        fid: Fid,
        /// It loses a name, and gets no other.
        loses: bool,
    },
    /// A stripe of a directory, all but whose names changes.
    Stripe(Fid),
    /// A stripe of a directory, or a directory that gets stripes, and its names behind this one
    /// that belong to another stripe, so many of them.
    Names {
        /// The stripe.
        dir: Fid,
        /// Where it begins; `None`: at its first name.
        after: Option<Name>,
        /// The most names.
        limit: u32,
    },
    /// A directory, and those above it at the same MDT: none of them gets another parent.
    Above(Fid),
}

/// An inode as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerInode {
    /// The inode.
    pub fid: Fid,
    /// Its record; of the variable part only the stripes of a directory. Empty: there is none.
    pub record: Bytes,
    /// Its access ACL; empty: it has none.
    pub acl: Bytes,
    /// It is a directory without names.
    pub is_empty: bool,
}

/// A name as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerName {
    /// Its directory.
    pub dir: Fid,
    /// The name.
    pub name: Name,
    /// Where it leads.
    pub to: Option<(Fid, FileType)>,
}

/// What was found, and stays so while the bundle is under way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerFacts {
    /// Inodes.
    pub inodes: Vec<PeerInode>,
    /// Names.
    pub names: Vec<PeerName>,
    /// Directories, each with the one above it.
    pub above: Vec<(Fid, Fid)>,
    /// Stripes whose names were looked through, each up to this name; `None`: to its end.
    pub looked: Vec<(Fid, Option<Name>)>,
}

/// An operation over several MDTs, as one of them tells it to a restarted one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerBundle {
    /// Its name.
    pub id: BundleId,
    /// The sender has applied it; else it has decided it as its coordinator.
    pub applied: bool,
    /// Its record.
    pub bundle: Bytes,
}

/// A record of an MDT's store as it is, or is to be; without a value there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Key, 1 to 511 bytes.
    pub key: Bytes,
    /// Value.
    pub value: Option<Bytes>,
}
