//! An inode as the name space sees it.

use crate::context::Context;
use smallvec::SmallVec;
use types::attr::{Attr, FileType};
use types::fid::Fid;

/// What an inode record carries besides its attributes: link target, layout. The name space never
/// looks inside.
pub type Tail = SmallVec<[u8; 64]>;

/// Facts about an inode that spare a look elsewhere. The bits are part of the format of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InodeFlags(pub u32);

impl InodeFlags {
    /// The inode has at least one extended attribute, ACLs included.
    pub const HAS_XATTR: InodeFlags = InodeFlags(1);
    /// The inode has an access ACL beyond its mode.
    pub const HAS_ACL: InodeFlags = InodeFlags(2);
    /// The inode has a default ACL.
    pub const HAS_DEFAULT_ACL: InodeFlags = InodeFlags(4);
    /// The tail has a default layout for what is created in this directory.
    pub const HAS_DEFAULT_LAYOUT: InodeFlags = InodeFlags(8);
    /// The file was opened for writing (or its layout was requested for writing): objects may
    /// exist.
    pub const HAS_DATA: InodeFlags = InodeFlags(16);
    /// The file was given space that may lie beyond its end (FALLOC_FL_KEEP_SIZE): its objects may
    /// be longer than it is.
    pub const HAS_RESERVE: InodeFlags = InodeFlags(32);

    /// The layout came from the directory or was asked for; it is not the file system's default.
    pub const OWN_LAYOUT: InodeFlags = InodeFlags(64);
    /// The inode was made without a name (O_TMPFILE), and a link may give it its first one.
    pub const LINKABLE: InodeFlags = InodeFlags(128);
    /// Nothing of the inode may change ([`crate::flags`]).
    pub const IMMUTABLE: InodeFlags = InodeFlags(256);
    /// A file takes bytes only at its end, a directory only new names.
    pub const APPEND_ONLY: InodeFlags = InodeFlags(512);
    /// Backup programs pass over it.
    pub const NODUMP: InodeFlags = InodeFlags(1024);
    /// Reading does not change the access time.
    pub const NOATIME: InodeFlags = InodeFlags(2048);
    /// The layout was asked for (`lfs setstripe`): it cannot be asked for again.
    pub const CHOSEN_LAYOUT: InodeFlags = InodeFlags(4096);

    /// True if the bit is set.
    pub const fn has(self, bit: InodeFlags) -> bool {
        self.0 & bit.0 != 0
    }

    /// The flags with the bit set or cleared.
    #[must_use]
    pub const fn with(self, bit: InodeFlags, on: bool) -> InodeFlags {
        if on { InodeFlags(self.0 | bit.0) } else { InodeFlags(self.0 & !bit.0) }
    }
}

/// An inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// The attributes that `stat` shows.
    pub attr: Attr,
    /// Directories: the directory above (of the root: itself). Others: `Fid::NONE`.
    pub parent: Fid,
    /// Short cuts.
    pub flags: InodeFlags,
    /// The rest of the record.
    pub tail: Tail,
}

impl Inode {
    /// Identity.
    pub const fn fid(&self) -> Fid {
        self.attr.fid
    }

    /// Type of the inode.
    pub const fn file_type(&self) -> FileType {
        self.attr.file_type()
    }

    /// True if it is a directory.
    pub const fn is_dir(&self) -> bool {
        self.attr.is_dir()
    }

    /// Notes that its attributes changed.
    pub(crate) fn changed(&mut self, ctx: &Context<'_>) {
        self.attr.ctime = ctx.now;
        self.attr.version = ctx.version;
    }

    /// Notes that its content (entries, data) changed.
    pub(crate) fn modified(&mut self, ctx: &Context<'_>) {
        self.attr.mtime = ctx.now;
        self.changed(ctx);
    }
}

/// The inode that a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirent {
    /// The inode.
    pub fid: Fid,
    /// Type of that inode.
    pub file_type: FileType,
}
