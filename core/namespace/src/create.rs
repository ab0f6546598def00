//! Creating an inode and its first name: creat, mkdir, symlink, mknod.

use crate::access::may_create;
use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::context::Context;
use crate::inode::{Dirent, Inode, InodeFlags, Tail};
use crate::project;
use crate::view::{
    Change, View, directory, directory_of, home, is_elsewhere, names_changed, target,
};
use libc::{S_ISGID, S_ISVTX, S_IXGRP};
use types::attr::{Attr, FileType};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::SYMLINK_BYTES_MAX;

/// `st_size` of every directory, bytes. Its entries are records of the store; there is no better
/// number.
pub const DIRECTORY_SIZE: u64 = 4096;
/// `st_blocks` of every directory.
pub const DIRECTORY_BLOCKS: u64 = 8;

/// The inode that shall be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New {
    /// Its identity, never used before.
    pub fid: Fid,
    /// Its type.
    pub file_type: FileType,
    /// Permission, set-id and sticky bits as the caller gave them.
    pub mode: u32,
    /// The caller's umask; a default ACL of the directory takes its place.
    pub umask: u32,
    /// Device number of device files.
    pub rdev: u32,
    /// Bytes: the length of a link target, else 0.
    pub size: u64,
}

/// Result of a create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Made {
    /// A new inode.
    Created(Inode),
    /// The name exists already.
    Found(Inode),
    /// The name exists already, and another MDT has the inode.
    Elsewhere(Dirent),
}

/// Creates `new` under `name`, or finds the existing inode. `tail` gives the rest of the record and
/// its flags, from the directory's inode; it is asked after all checks, and may still refuse.
///
/// # Errors
/// ENOENT, ENOTDIR: no live directory; EACCES; EMLINK: too many sub-directories; ENAMETOOLONG,
/// ENOENT: a bad link target; EREMCHG: another stripe of the directory has the name; errors of
/// `tail`.
pub fn create(
    view: &mut impl View,
    ctx: &Context<'_>,
    parent: Fid,
    name: &[u8],
    new: New,
    tail: impl FnOnce(&Inode) -> Result<(Tail, InodeFlags), Errno>,
) -> Result<Made, Errno> {
    if let Some(dirent) = view.dirent(parent, name)? {
        return match is_elsewhere(parent, dirent.fid) {
            true => Ok(Made::Elsewhere(dirent)),
            false => Ok(Made::Found(target(view, parent, dirent)?)),
        };
    }
    let mut dir = directory_of(view, parent, name)?;
    may_create(view, ctx, &dir)?;
    let is_dir = new.file_type == FileType::Directory;
    if is_dir && dir.attr.nlink == u32::MAX {
        return Err(Errno::EMLINK);
    }
    if new.file_type == FileType::Symlink {
        check_link_target(new.size)?;
    }
    let inherited = inherit(view, ctx, &dir, &new)?;
    let above = home(view, &dir, name)?;
    view.before(&[Change::name(parent, name)])?;
    let (tail, flags) = tail(&dir)?;

    let mut inode = inode(ctx, (&dir, above), &new, inherited.mode, tail, flags);
    project::inherit(view, &dir, &mut inode)?;
    put_acls(view, &mut inode, &inherited);
    view.named(&mut inode, above, name);
    view.put_inode(&inode);
    view.put_dirent(parent, name, Dirent { fid: new.fid, file_type: new.file_type });
    names_changed(view, ctx, &mut dir, i32::from(is_dir));
    Ok(Made::Created(inode))
}

/// A directory that is going to be made on another MDT than its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The inode.
    pub inode: Inode,
    /// Its extended attributes.
    pub xattrs: Vec<(&'static [u8], Vec<u8>)>,
}

/// Checks, as [`create`] does, that the directory `new`, whose inode another MDT gets, can be made
/// under `name`, and says what it is going to be. Nothing is changed.
///
/// # Errors
/// EEXIST; those of [`create`].
pub fn plan_elsewhere(
    view: &mut impl View,
    ctx: &Context<'_>,
    parent: Fid,
    name: &[u8],
    new: New,
    tail: impl FnOnce(&Inode) -> Result<(Tail, InodeFlags), Errno>,
) -> Result<Planned, Errno> {
    if view.dirent(parent, name)?.is_some() {
        return Err(Errno::EEXIST);
    }
    let dir = directory_of(view, parent, name)?;
    may_create(view, ctx, &dir)?;
    if dir.attr.nlink == u32::MAX {
        return Err(Errno::EMLINK);
    }
    let inherited = inherit(view, ctx, &dir, &new)?;
    let above = home(view, &dir, name)?;
    view.before(&[Change::name(parent, name)])?;
    let (tail, flags) = tail(&dir)?;
    let mut inode = inode(ctx, (&dir, above), &new, inherited.mode, tail, flags);
    project::inherit(view, &dir, &mut inode)?;
    inode.flags |= inherited.flags();
    view.named(&mut inode, above, name);
    let xattrs = [(ACL_ACCESS, inherited.access), (ACL_DEFAULT, inherited.default)];
    let xattrs = xattrs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(Planned { inode, xattrs: xattrs.collect() })
}

/// A name, which was not there, leads to this inode.
///
/// # Errors
/// EIO; ENOENT, ENOTDIR: the directory is not there.
pub fn enter(
    view: &mut impl View,
    ctx: &Context<'_>,
    dir: Fid,
    name: &[u8],
    to: Dirent,
) -> Result<(), Errno> {
    let mut dir = directory(view, dir)?;
    view.put_dirent(dir.fid(), name, to);
    names_changed(view, ctx, &mut dir, i32::from(to.file_type == FileType::Directory));
    Ok(())
}

/// Creates a regular file without a name in `parent`, from which it inherits what a named one would
/// (O_TMPFILE). It has no link, so the view must keep it while it is open. `linkable`:
/// [`crate::link::link`] may name it. `tail` as [`create`].
///
/// # Errors
/// ENOENT, ENOTDIR: no live directory; EACCES; errors of `tail`.
pub fn create_unnamed(
    view: &mut impl View,
    ctx: &Context<'_>,
    parent: Fid,
    new: New,
    linkable: bool,
    tail: impl FnOnce(&Inode) -> Result<(Tail, InodeFlags), Errno>,
) -> Result<Inode, Errno> {
    let dir = directory(view, parent)?;
    may_create(view, ctx, &dir)?;
    let inherited = inherit(view, ctx, &dir, &new)?;
    let (tail, flags) = tail(&dir)?;
    let mut inode = inode(ctx, (&dir, dir.fid()), &new, inherited.mode, tail, flags);
    project::inherit(view, &dir, &mut inode)?;
    inode.flags.set(InodeFlags::LINKABLE, linkable);
    inode.attr.nlink = 0;
    put_acls(view, &mut inode, &inherited);
    view.put_inode(&inode);
    Ok(inode)
}

fn put_acls(view: &mut impl View, inode: &mut Inode, inherited: &Inherited) {
    if let Some(acl) = &inherited.access {
        view.put_xattr(inode.fid(), ACL_ACCESS, acl);
    }
    if let Some(acl) = &inherited.default {
        view.put_xattr(inode.fid(), ACL_DEFAULT, acl);
    }
    inode.flags |= inherited.flags();
}

fn check_link_target(len: u64) -> Result<(), Errno> {
    match len {
        0 => Err(Errno::ENOENT),
        n if n > SYMLINK_BYTES_MAX as u64 => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

/// Mode bits and ACLs that a new inode starts with.
struct Inherited {
    mode: u32,
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl Inherited {
    /// Facts about the ACLs.
    fn flags(&self) -> InodeFlags {
        let mut flags = InodeFlags::empty();
        flags.set(InodeFlags::HAS_ACL, self.access.is_some());
        flags.set(InodeFlags::HAS_DEFAULT_ACL, self.default.is_some());
        flags.set(InodeFlags::HAS_XATTR, self.access.is_some() || self.default.is_some());
        flags
    }
}

fn inherit(
    view: &impl View,
    ctx: &Context<'_>,
    dir: &Inode,
    new: &New,
) -> Result<Inherited, Errno> {
    let mode = match new.file_type {
        FileType::Symlink => return Ok(Inherited { mode: 0o777, access: None, default: None }),
        // mkdir(2) knows permissions and the sticky bit only.
        FileType::Directory => new.mode & (0o777 | S_ISVTX),
        _ => strip_setgid(ctx, dir, new.mode & 0o7777),
    };
    if !dir.flags.contains(InodeFlags::HAS_DEFAULT_ACL) {
        return Ok(Inherited { mode: mode & !(new.umask & 0o777), access: None, default: None });
    }
    let default = view.xattr(dir.fid(), ACL_DEFAULT)?.ok_or(Errno::EIO)?;
    let mut acl = Acl::parse(&default).map_err(|_| Errno::EIO)?;
    let mode = acl.inherit(mode);
    Ok(Inherited {
        mode,
        access: (!acl.is_minimal()).then(|| acl.encode()),
        default: (new.file_type == FileType::Directory).then_some(default),
    })
}

/// A caller outside the group must not plant a set-group-id program in a set-group-id directory.
fn strip_setgid(ctx: &Context<'_>, dir: &Inode, mode: u32) -> u32 {
    let program = mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP;
    let inherits = dir.attr.mode & S_ISGID != 0;
    if program && inherits && !ctx.in_group_or_root(dir.attr.gid) { mode & !S_ISGID } else { mode }
}

/// The new inode. Its directory is `dir`; `above`: as the inode records it ([`home`]).
fn inode(
    ctx: &Context<'_>,
    (dir, above): (&Inode, Fid),
    new: &New,
    mode: u32,
    tail: Tail,
    flags: InodeFlags,
) -> Inode {
    let is_dir = new.file_type == FileType::Directory;
    let setgid = dir.attr.mode & S_ISGID != 0;
    let inherited_bit = if setgid && is_dir { S_ISGID } else { 0 };
    Inode {
        attr: Attr {
            fid: new.fid,
            mode: new.file_type.mode_bits() | mode | inherited_bit,
            uid: ctx.credentials.uid,
            gid: if setgid { dir.attr.gid } else { ctx.credentials.gid },
            nlink: if is_dir { 2 } else { 1 },
            rdev: if matches!(new.file_type, FileType::CharDevice | FileType::BlockDevice) {
                new.rdev
            } else {
                0
            },
            size: if is_dir { DIRECTORY_SIZE } else { new.size },
            blocks: if is_dir { DIRECTORY_BLOCKS } else { 0 },
            atime: ctx.now,
            mtime: ctx.now,
            ctime: ctx.now,
            btime: ctx.now,
            version: ctx.version,
        },
        parent: if is_dir { above } else { Fid::NONE },
        flags,
        tail,
    }
}

/// The root directory of a new file system: owned by root, mode 0755.
pub fn root(ctx: &Context<'_>) -> Inode {
    let attr = Attr {
        fid: Fid::ROOT,
        mode: FileType::Directory.mode_bits() | 0o755,
        uid: 0,
        gid: 0,
        nlink: 2,
        rdev: 0,
        size: DIRECTORY_SIZE,
        blocks: DIRECTORY_BLOCKS,
        atime: ctx.now,
        mtime: ctx.now,
        ctime: ctx.now,
        btime: ctx.now,
        version: ctx.version,
    };
    Inode { attr, parent: Fid::ROOT, flags: InodeFlags::empty(), tail: Tail::new() }
}
