//! An inode as the name space sees it.

use crate::context::Context;
use smallvec::SmallVec;
use types::attr::{Attr, FileType};
use types::fid::Fid;

/// What an inode record carries besides its attributes: link target, layout. The name space never looks inside.
pub type Tail = SmallVec<[u8; 64]>;

/// Facts about an inode that spare a look elsewhere. The bits are part of the format of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InodeFlags(pub u32);

impl InodeFlags {
    /// It has at least one extended attribute, ACLs included.
    pub const HAS_XATTR: InodeFlags = InodeFlags(1);
    /// It has an access ACL beyond its mode.
    pub const HAS_ACL: InodeFlags = InodeFlags(2);
    /// It has a default ACL.
    pub const HAS_DEFAULT_ACL: InodeFlags = InodeFlags(4);
    /// Its tail has a default layout for what is made in this directory.
    pub const HAS_DEFAULT_LAYOUT: InodeFlags = InodeFlags(8);
    /// It was opened for writing (or its layout asked for writing): objects may exist.
    pub const HAS_DATA: InodeFlags = InodeFlags(16);
    /// It was given space that may lie beyond its end (FALLOC_FL_KEEP_SIZE): its objects may be longer than it is.
    pub const HAS_RESERVE: InodeFlags = InodeFlags(32);

    /// Its layout came from its directory or was asked for; it is not the file system's default.
    pub const OWN_LAYOUT: InodeFlags = InodeFlags(64);
    /// It was made without a name (O_TMPFILE), and a link may give it its first one.
    pub const LINKABLE: InodeFlags = InodeFlags(128);
    /// Nothing of it changes ([`crate::flags`]).
    pub const IMMUTABLE: InodeFlags = InodeFlags(256);
    /// A file takes bytes at its end only, a directory new names only.
    pub const APPEND_ONLY: InodeFlags = InodeFlags(512);
    /// Backup programs pass over it.
    pub const NODUMP: InodeFlags = InodeFlags(1024);
    /// Its access time stays when it is read.
    pub const NOATIME: InodeFlags = InodeFlags(2048);
    /// Its layout was asked for (`lfs setstripe`): it cannot be asked for again.
    pub const CHOSEN_LAYOUT: InodeFlags = InodeFlags(4096);

    /// Is the bit set?
    pub const fn has(self, bit: InodeFlags) -> bool {
        self.0 & bit.0 != 0
    }

    /// With the bit set or cleared.
    #[must_use]
    pub const fn with(self, bit: InodeFlags, on: bool) -> InodeFlags {
        if on { InodeFlags(self.0 | bit.0) } else { InodeFlags(self.0 & !bit.0) }
    }
}

/// An inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// What `stat` answers.
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

    /// What it is.
    pub const fn file_type(&self) -> FileType {
        self.attr.file_type()
    }

    /// Is it a directory?
    pub const fn is_dir(&self) -> bool {
        self.attr.is_dir()
    }

    /// Its attributes changed.
    pub(crate) fn changed(&mut self, ctx: &Context<'_>) {
        self.attr.ctime = ctx.now;
        self.attr.version = ctx.version;
    }

    /// Its content (entries, data) changed.
    pub(crate) fn modified(&mut self, ctx: &Context<'_>) {
        self.attr.mtime = ctx.now;
        self.changed(ctx);
    }
}

/// Where a name leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirent {
    /// The inode.
    pub fid: Fid,
    /// What it is.
    pub file_type: FileType,
}
