//! Flags of inodes that chattr(1) sets, in the numbers of `linux/fs.h` (`FS_*_FL`).
//!
//! An immutable inode keeps its bytes, attributes and names. An append-only file takes bytes only
//! at its end, an append-only directory only new names. Both flags bind root, too, but only root
//! may set and clear them (as with CAP_LINUX_IMMUTABLE). A handle that was open for writing before
//! goes on writing.

use crate::context::Context;
use crate::inode::{Inode, InodeFlags};
use crate::view::{Change, View};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;

/// `FS_IMMUTABLE_FL`
pub const IMMUTABLE: u32 = 0x10;
/// `FS_APPEND_FL`
pub const APPEND: u32 = 0x20;
/// `FS_NODUMP_FL`: backup programs pass over it.
pub const NODUMP: u32 = 0x40;
/// `FS_NOATIME_FL`: reading does not change its access time.
pub const NOATIME: u32 = 0x80;

const ALL: [(u32, InodeFlags); 4] = [
    (IMMUTABLE, InodeFlags::IMMUTABLE),
    (APPEND, InodeFlags::APPEND_ONLY),
    (NODUMP, InodeFlags::NODUMP),
    (NOATIME, InodeFlags::NOATIME),
];

/// The flags of an inode.
pub fn flags(inode: &Inode) -> u32 {
    ALL.iter().filter(|(_, bit)| inode.flags.contains(*bit)).fold(0, |all, (flag, _)| all | flag)
}

/// Replaces all flags; returns the changed inode.
///
/// # Errors
/// ENOENT; EOPNOTSUPP: a flag that is not one of these; EPERM: the caller is not the owner, or
/// changes the immutable or append-only flag and is not root.
pub fn set_flags(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    wanted: u32,
) -> Result<Inode, Errno> {
    let mut inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    if ALL.iter().fold(wanted, |rest, (flag, _)| rest & !flag) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let changed = wanted ^ flags(&inode);
    if !ctx.owns(inode.attr.uid) || changed & (IMMUTABLE | APPEND) != 0 && !ctx.is_root() {
        return Err(Errno::EPERM);
    }
    if changed == 0 {
        return Ok(inode);
    }
    view.before(&[Change::of(fid, InodeBits::UPDATE)])?;
    ALL.iter().for_each(|(flag, bit)| inode.flags.set(*bit, wanted & flag != 0));
    inode.changed(ctx);
    view.put_inode(&inode);
    Ok(inode)
}

/// Succeeds if anything besides names and bytes at the end may change.
///
/// # Errors
/// EPERM: it is immutable or append-only.
pub(crate) fn check_unprotected(inode: &Inode) -> Result<(), Errno> {
    let protected = inode.flags.contains(InodeFlags::IMMUTABLE)
        || inode.flags.contains(InodeFlags::APPEND_ONLY);
    if protected { Err(Errno::EPERM) } else { Ok(()) }
}

/// Succeeds if the inode may change at all.
///
/// # Errors
/// EPERM: it is immutable.
pub(crate) fn check_mutable(inode: &Inode) -> Result<(), Errno> {
    if inode.flags.contains(InodeFlags::IMMUTABLE) { Err(Errno::EPERM) } else { Ok(()) }
}
