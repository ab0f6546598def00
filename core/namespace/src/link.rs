//! A second name for an inode.

use crate::access::{READ, WRITE, may_create, permission};
use crate::context::Context;
use crate::flags::check_unprotected;
use crate::inode::{Dirent, Inode, InodeFlags};
use crate::project;
use crate::rename::Place;
use crate::view::{Change, View, directory_of, home, names_changed};
use libc::{S_ISGID, S_ISUID, S_IXGRP};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::LINKS_MAX;
use types::lock::InodeBits;

/// Succeeds if the caller may give the inode another name by the rule that Linux has with
/// `fs.protected_hardlinks` set: it owns the inode, or the inode is a regular file that it may read
/// and write, and whose set-id bits lend no identity.
///
/// # Errors
/// EPERM if not; EIO: a record is damaged.
fn may_name(view: &impl View, ctx: &Context<'_>, inode: &Inode) -> Result<(), Errno> {
    if ctx.owns(inode.attr.uid) {
        return Ok(());
    }
    let lends = |bits: u32| inode.attr.mode & bits == bits;
    let lends = lends(S_ISUID) || lends(S_ISGID | S_IXGRP);
    if lends || inode.file_type() != FileType::Regular {
        return Err(Errno::EPERM);
    }
    match permission(view, ctx, inode, READ | WRITE) {
        Err(Errno::EACCES) => Err(Errno::EPERM),
        result => result,
    }
}

/// Gives `fid` the name `name` in `parent`; returns the inode. `protected`: other users' inodes get
/// names only by the rule of `fs.protected_hardlinks`, which the kernel of a host sees to for its
/// own users.
///
/// # Errors
/// ENOENT: there is no such inode or directory, or the inode has no name. An inode that was made
/// without a name is excepted: it gets its first one here. ENOTDIR; EEXIST; EACCES; EPERM: the
/// inode is a directory, immutable, append-only or `protected`; EMLINK at [`LINKS_MAX`]; EREMCHG:
/// another stripe of the directory has the name; EXDEV: the directory hands on another project, or
/// the inode would get a name outside of its realm.
pub fn link(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    parent: Fid,
    name: &[u8],
    protected: bool,
) -> Result<Inode, Errno> {
    let mut inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    let mut dir = directory_of(view, parent, name)?;
    if view.dirent(parent, name)?.is_some() {
        return Err(Errno::EEXIST);
    }
    if protected {
        may_name(view, ctx, &inode)?;
    }
    may_create(view, ctx, &dir)?;
    if inode.is_dir() {
        return Err(Errno::EPERM);
    }
    check_unprotected(&inode)?;
    let first = inode.flags.contains(InodeFlags::LINKABLE);
    if inode.attr.nlink == 0 && !first {
        return Err(Errno::ENOENT);
    }
    if inode.attr.nlink >= LINKS_MAX {
        return Err(Errno::EMLINK);
    }
    project::may_enter(view, &inode, None, &dir)?;
    let above = home(view, &dir, name)?;
    view.before(&[Change::name(parent, name), Change::of(fid, InodeBits::UPDATE)])?;

    add_link(view, ctx, &mut inode, Place { parent: above, name });
    view.put_dirent(parent, name, Dirent { fid, file_type: inode.file_type() });
    names_changed(view, ctx, &mut dir, 0);
    Ok(inode)
}

/// An inode that is no directory, and is there, has got this name, too. Its directory is the one
/// that the inode records ([`home`]).
pub fn add_link(view: &mut impl View, ctx: &Context<'_>, inode: &mut Inode, got: Place<'_>) {
    inode.attr.nlink += 1;
    inode.changed(ctx);
    if inode.flags.contains(InodeFlags::LINKABLE) {
        inode.flags.remove(InodeFlags::LINKABLE);
        view.first_name(inode.fid());
    }
    view.named(inode, got.parent, got.name);
    view.put_inode(inode);
}
