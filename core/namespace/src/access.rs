//! Permissions: mode bits, POSIX ACLs, the sticky bit, and root above all.
//!
//! The caller's kernel has checked the path already, but on attributes that may be out of date by
//! now. So the checks that guard changes of names are repeated here: permission on the directories,
//! and the sticky bit.

use crate::acl::{ACL_ACCESS, Acl};
use crate::context::Context;
use crate::flags::{check_mutable, check_unprotected};
use crate::inode::{Inode, InodeFlags};
use crate::view::View;
use libc::S_ISVTX;
use types::errno::Errno;

/// Permission to read, in the numbers of mode bits.
pub const READ: u32 = 4;
/// Permission to write: for a directory, to change names.
pub const WRITE: u32 = 2;
/// Permission to execute: for a directory, to look names up.
pub const EXECUTE: u32 = 1;

/// Succeeds if the caller may do all of `want`.
///
/// # Errors
/// EACCES if not; EPERM: to write an immutable inode.
pub fn permission(
    view: &impl View,
    ctx: &Context<'_>,
    inode: &Inode,
    want: u32,
) -> Result<(), Errno> {
    let attr = &inode.attr;
    if want & WRITE != 0 {
        check_mutable(inode)?;
    }
    if ctx.is_root() {
        // CAP_DAC_OVERRIDE: everything but executing a file without any execute bit.
        let refused = want & EXECUTE != 0 && !inode.is_dir() && attr.mode & 0o111 == 0;
        return if refused { Err(Errno::EACCES) } else { Ok(()) };
    }
    let granted = if ctx.credentials.uid == attr.uid {
        attr.mode >> 6
    } else if inode.flags.contains(InodeFlags::HAS_ACL) {
        let stored = view.xattr(inode.fid(), ACL_ACCESS)?.ok_or(Errno::EIO)?;
        let acl = Acl::parse(&stored).map_err(|_| Errno::EIO)?;
        return if acl.permits(ctx.credentials, attr.gid, want) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        };
    } else if ctx.credentials.in_group(attr.gid) {
        attr.mode >> 3
    } else {
        attr.mode
    };
    if want & !granted & 7 == 0 { Ok(()) } else { Err(Errno::EACCES) }
}

/// Succeeds if the caller may add a name to `dir`.
///
/// # Errors
/// EACCES if not.
pub(crate) fn may_create(view: &impl View, ctx: &Context<'_>, dir: &Inode) -> Result<(), Errno> {
    permission(view, ctx, dir, WRITE | EXECUTE)
}

/// Succeeds if the caller may remove the name of `inode` from `dir`.
///
/// # Errors
/// EACCES without permission on `dir`; EPERM if the sticky bit or a flag of either forbids it.
pub(crate) fn may_delete(
    view: &impl View,
    ctx: &Context<'_>,
    dir: &Inode,
    inode: &Inode,
) -> Result<(), Errno> {
    permission(view, ctx, dir, WRITE | EXECUTE)?;
    check_unprotected(dir)?;
    check_unprotected(inode)?;
    if dir.attr.mode & S_ISVTX != 0 && !ctx.owns(inode.attr.uid) && !ctx.owns(dir.attr.uid) {
        return Err(Errno::EPERM);
    }
    Ok(())
}
