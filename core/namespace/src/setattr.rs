//! Changing attributes: chmod, chown, truncate, utimensat.
//!
//! Permission is checked here again, except for a new size: a file that was opened for writing may
//! be cut, and only the caller's kernel knows that. A client's own bookkeeping of access times
//! comes from root.

use crate::access::{WRITE, permission};
use crate::acl::{ACL_ACCESS, Acl};
use crate::context::Context;
use crate::flags::{check_mutable, check_unprotected};
use crate::inode::{Inode, InodeFlags};
use crate::view::{Change, View};
use libc::{S_ISGID, S_ISUID, S_IXGRP};
use types::attr::{FileType, S_IFMT, SetAttr, SetTime};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::FILE_BYTES_MAX;
use types::lock::InodeBits;

/// Changes attributes; returns the changed inode. A request without changes is `chown(-1, -1)`: it
/// touches the change time and takes the set-id bits.
///
/// # Errors
/// ENOENT; EPERM: not the owner, or a flag forbids it; EACCES: times to now without write
/// permission; EISDIR, EINVAL: a size for an inode without one; EFBIG.
pub fn setattr(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    set: &SetAttr,
) -> Result<Inode, Errno> {
    let mut inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    check_size(&inode, set)?;
    check_flags(&inode, set)?;
    check_owner(ctx, &inode, set)?;
    check_times(view, ctx, &inode, set)?;
    let mode = new_mode(ctx, &inode, set);
    if *set == SetAttr::default() && mode != inode.attr.mode && !ctx.owns(inode.attr.uid) {
        // The kernel sends the same request in two cases: for chown(-1, -1), which must not take
        // set-id bits from another user's file, and before a write to it, which must. So a caller
        // that may write may do it.
        permission(view, ctx, &inode, WRITE).map_err(|_| Errno::EPERM)?;
    }
    let acl = match set.mode {
        Some(_) => chmod_acl(view, &inode, mode)?,
        None => None,
    };
    let mut bits = InodeBits::UPDATE;
    if set.size.is_some() {
        bits = bits.union(InodeBits::DATA);
    }
    if acl.is_some() {
        bits = bits.union(InodeBits::XATTR);
    }
    if mode != inode.attr.mode || set.uid.is_some() || set.gid.is_some() {
        bits = bits.union(InodeBits::PERM);
    }
    view.before(&[Change::of(fid, bits)])?;

    if let Some(acl) = acl {
        view.put_xattr(fid, ACL_ACCESS, &acl);
    }
    inode.attr.mode = mode;
    inode.attr.uid = set.uid.unwrap_or(inode.attr.uid);
    inode.attr.gid = set.gid.unwrap_or(inode.attr.gid);
    let time = |t| match t {
        SetTime::Now => ctx.now,
        SetTime::At(t) => t,
    };
    if let Some(size) = set.size {
        inode.attr.size = size;
        inode.attr.mtime = ctx.now;
    }
    inode.attr.atime = set.atime.map_or(inode.attr.atime, time);
    inode.attr.mtime = set.mtime.map_or(inode.attr.mtime, time);
    inode.changed(ctx);
    match set.mtime {
        Some(_) => view.put_inode_with_mtime(&inode),
        None => view.put_inode(&inode),
    }
    Ok(inode)
}

fn check_size(inode: &Inode, set: &SetAttr) -> Result<(), Errno> {
    let Some(size) = set.size else { return Ok(()) };
    match inode.file_type() {
        FileType::Regular if size > FILE_BYTES_MAX => Err(Errno::EFBIG),
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

/// The times of an append-only inode may be set to now, but nothing else.
fn check_flags(inode: &Inode, set: &SetAttr) -> Result<(), Errno> {
    let given = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
    let more = set.size.is_some() || set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    match more || given(set.atime) || given(set.mtime) {
        true => check_unprotected(inode),
        false => check_mutable(inode),
    }
}

fn check_owner(ctx: &Context<'_>, inode: &Inode, set: &SetAttr) -> Result<(), Errno> {
    if ctx.is_root() {
        return Ok(());
    }
    let owner = ctx.credentials.uid == inode.attr.uid;
    let uid_allowed = set.uid.is_none_or(|uid| owner && uid == inode.attr.uid);
    let gid_allowed =
        set.gid.is_none_or(|gid| owner && (gid == inode.attr.gid || ctx.credentials.in_group(gid)));
    let mode_allowed = set.mode.is_none() || owner;
    if uid_allowed && gid_allowed && mode_allowed { Ok(()) } else { Err(Errno::EPERM) }
}

/// utimensat(2): a given time needs the owner, "now" also does with write permission.
fn check_times(
    view: &impl View,
    ctx: &Context<'_>,
    inode: &Inode,
    set: &SetAttr,
) -> Result<(), Errno> {
    if ctx.owns(inode.attr.uid) || set.size.is_some() {
        return Ok(());
    }
    match (set.atime, set.mtime) {
        (None, None) => Ok(()),
        (Some(SetTime::Now), Some(SetTime::Now)) => permission(view, ctx, inode, WRITE),
        _ => Err(Errno::EPERM),
    }
}

/// Type and mode bits after the change.
fn new_mode(ctx: &Context<'_>, inode: &Inode, set: &SetAttr) -> u32 {
    let old = inode.attr.mode;
    if let Some(mode) = set.mode {
        let mode = old & S_IFMT | mode & 0o7777;
        let gid = set.gid.unwrap_or(inode.attr.gid);
        return if ctx.in_group_or_root(gid) { mode } else { mode & !S_ISGID };
    }
    let chown = set.uid.is_some() || set.gid.is_some() || *set == SetAttr::default();
    if chown && !inode.is_dir() {
        let mode = without_setid(old);
        return if ctx.in_group_or_root(inode.attr.gid) { mode } else { mode & !S_ISGID };
    }
    if set.kill_suidgid && inode.file_type() == FileType::Regular {
        without_setid(old)
    } else {
        old
    }
}

/// The mode after a write by an unprivileged caller. Set-group-id without group-execute once meant
/// mandatory locking, and stays.
pub fn without_setid(mode: u32) -> u32 {
    let mode = mode & !S_ISUID;
    if mode & S_IXGRP != 0 { mode & !S_ISGID } else { mode }
}

/// The access ACL after a chmod, if there is one.
fn chmod_acl(view: &impl View, inode: &Inode, mode: u32) -> Result<Option<Vec<u8>>, Errno> {
    if !inode.flags.contains(InodeFlags::HAS_ACL) {
        return Ok(None);
    }
    let stored = view.xattr(inode.fid(), ACL_ACCESS)?.ok_or(Errno::EIO)?;
    let mut acl = Acl::parse(&stored).map_err(|_| Errno::EIO)?;
    acl.chmod(mode);
    Ok(Some(acl.encode()))
}
