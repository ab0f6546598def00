//! An inode as the name space sees it.

use crate::context::Context;
use smallvec::SmallVec;
use types::attr::{Attr, FileType};
use types::fid::Fid;

/// What an inode record carries besides its attributes: link target, layout. The name space never
/// looks inside.
pub type Tail = SmallVec<[u8; 64]>;

bitflags::bitflags! {
    /// Facts about an inode that spare a look elsewhere. The bits are part of the format of a
    /// record; unknown ones stay as they are.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct InodeFlags: u32 {
        /// The inode has at least one extended attribute, ACLs included.
        const HAS_XATTR = 1;
        /// The inode has an access ACL beyond its mode.
        const HAS_ACL = 2;
        /// The inode has a default ACL.
        const HAS_DEFAULT_ACL = 4;
        /// The tail has a default layout for what is created in this directory.
        const HAS_DEFAULT_LAYOUT = 8;
        /// The file was opened for writing (or its layout was requested for writing): objects may
        /// exist.
        const HAS_DATA = 16;
        /// The file was given space that may lie beyond its end (FALLOC_FL_KEEP_SIZE): its objects
        /// may be longer than it is.
        const HAS_RESERVE = 32;
        /// The layout came from the directory or was asked for; it is not the file system's
        /// default.
        const OWN_LAYOUT = 64;
        /// The inode was made without a name (O_TMPFILE), and a link may give it its first one.
        const LINKABLE = 128;
        /// Nothing of the inode may change ([`crate::flags`]).
        const IMMUTABLE = 256;
        /// A file takes bytes only at its end, a directory only new names.
        const APPEND_ONLY = 512;
        /// Backup programs pass over it.
        const NODUMP = 1024;
        /// Reading does not change the access time.
        const NOATIME = 2048;
        /// The layout was asked for (`lfs setstripe`): it cannot be asked for again.
        const CHOSEN_LAYOUT = 4096;
        /// The directory is striped: the tail has its stripes. The inode is one of them.
        const STRIPED = 8192;
        /// The tail says where directories go that are made in this directory.
        const HAS_DEFAULT_STRIPES = 16384;
        /// The tail has a project ([`crate::project`]).
        const HAS_PROJECT = 32768;
        /// The directory hands its project on to what is made in it.
        const PROJECT_INHERIT = 65536;
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
