//! Extended attributes by name space: user, trusted, security, and the two ACLs of system.
//!
//! The rules are those of Linux' VFS and ext4. `user.`: on regular files and directories, with
//! permission. `trusted.`: for root, invisible to other users. `security.`: readable by all,
//! writable by root. ACLs: changed by the owner.

use crate::access::{READ, WRITE, permission};
use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::context::Context;
use crate::flags::check_unprotected;
use crate::inode::{Inode, InodeFlags};
use crate::view::{Change, View};
use libc::{S_ISGID, S_ISVTX};
use std::ops::ControlFlow;
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{XATTR_LIST_BYTES_MAX, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use types::lock::InodeBits;

/// setxattr(2) flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetFlags {
    /// XATTR_CREATE: an existing one is EEXIST.
    pub create: bool,
    /// XATTR_REPLACE: an absent one is ENODATA.
    pub replace: bool,
    /// An access ACL takes the set-group-id bit away.
    pub kill_sgid: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    AclAccess,
    AclDefault,
}

fn space(name: &[u8]) -> Result<Space, Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Errno::ERANGE);
    }
    if name.contains(&0) {
        return Err(Errno::EINVAL);
    }
    match name {
        ACL_ACCESS => return Ok(Space::AclAccess),
        ACL_DEFAULT => return Ok(Space::AclDefault),
        _ => {}
    }
    for (prefix, space) in [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return if rest.is_empty() { Err(Errno::EINVAL) } else { Ok(space) };
        }
    }
    Err(Errno::EOPNOTSUPP)
}

fn may_read(view: &impl View, ctx: &Context<'_>, inode: &Inode, space: Space) -> Result<(), Errno> {
    match space {
        Space::Security | Space::AclAccess | Space::AclDefault => Ok(()),
        Space::Trusted if ctx.is_root() => Ok(()),
        Space::Trusted => Err(Errno::ENODATA),
        Space::User if takes_user_xattrs(inode) => permission(view, ctx, inode, READ),
        Space::User => Err(Errno::ENODATA),
    }
}

fn may_write(
    view: &impl View,
    ctx: &Context<'_>,
    inode: &Inode,
    space: Space,
) -> Result<(), Errno> {
    check_unprotected(inode)?;
    match space {
        Space::Trusted | Space::Security if ctx.is_root() => Ok(()),
        Space::Trusted | Space::Security => Err(Errno::EPERM),
        Space::AclAccess | Space::AclDefault if inode.file_type() == FileType::Symlink => {
            Err(Errno::EOPNOTSUPP)
        }
        Space::AclAccess | Space::AclDefault if ctx.owns(inode.attr.uid) => Ok(()),
        Space::AclAccess | Space::AclDefault => Err(Errno::EPERM),
        Space::User if !takes_user_xattrs(inode) => Err(Errno::EPERM),
        Space::User
            if inode.is_dir() && inode.attr.mode & S_ISVTX != 0 && !ctx.owns(inode.attr.uid) =>
        {
            Err(Errno::EPERM)
        }
        Space::User => permission(view, ctx, inode, WRITE),
    }
}

fn takes_user_xattrs(inode: &Inode) -> bool {
    matches!(inode.file_type(), FileType::Regular | FileType::Directory)
}

/// Value of an extended attribute.
///
/// # Errors
/// ENOENT: no inode; ENODATA: it has no such attribute, or not for this caller; EACCES; EOPNOTSUPP:
/// no such name space.
pub fn get(view: &impl View, ctx: &Context<'_>, fid: Fid, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let space = space(name)?;
    let inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    may_read(view, ctx, &inode, space)?;
    if !inode.flags.contains(InodeFlags::HAS_XATTR) {
        return Err(Errno::ENODATA);
    }
    view.xattr(fid, name)?.ok_or(Errno::ENODATA)
}

/// Names that the caller may see, each with a NUL after it.
///
/// # Errors
/// ENOENT: no inode.
pub fn list(view: &impl View, ctx: &Context<'_>, fid: Fid) -> Result<Vec<u8>, Errno> {
    let inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    let mut names = Vec::new();
    if inode.flags.contains(InodeFlags::HAS_XATTR) {
        view.xattr_names(fid, &mut |name| {
            if ctx.is_root() || !name.starts_with(b"trusted.") {
                names.extend_from_slice(name);
                names.push(0);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(names)
}

/// Sets an extended attribute; returns the changed inode.
///
/// # Errors
/// ENOENT; EEXIST, ENODATA as the flags say; E2BIG: value too large; ENOSPC: names too many; EPERM,
/// EACCES; EINVAL: a bad ACL, or both flags; EOPNOTSUPP.
pub fn set(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    name: &[u8],
    value: &[u8],
    flags: SetFlags,
) -> Result<Inode, Errno> {
    let space = space(name)?;
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Errno::E2BIG);
    }
    if flags.create && flags.replace {
        return Err(Errno::EINVAL);
    }
    let inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    may_write(view, ctx, &inode, space)?;
    match space {
        Space::AclAccess => set_access_acl(view, ctx, inode, value, flags.kill_sgid),
        Space::AclDefault => set_default_acl(view, ctx, inode, value),
        Space::User | Space::Trusted | Space::Security => {
            set_plain(view, ctx, inode, name, value, flags)
        }
    }
}

fn set_plain(
    view: &mut impl View,
    ctx: &Context<'_>,
    mut inode: Inode,
    name: &[u8],
    value: &[u8],
    flags: SetFlags,
) -> Result<Inode, Errno> {
    let names = if inode.flags.contains(InodeFlags::HAS_XATTR) {
        Names::read(view, inode.fid(), name)?
    } else {
        Names::default()
    };
    if names.present && flags.create {
        return Err(Errno::EEXIST);
    }
    if !names.present && flags.replace {
        return Err(Errno::ENODATA);
    }
    names.room_for(name)?;
    view.before(&[changes(&inode)])?;

    view.put_xattr(inode.fid(), name, value);
    inode.flags.insert(InodeFlags::HAS_XATTR);
    inode.changed(ctx);
    view.put_inode(&inode);
    Ok(inode)
}

/// The access ACL and the mode say the same: setting one sets the other. Permissions that a mode
/// can express are not stored as an ACL.
fn set_access_acl(
    view: &mut impl View,
    ctx: &Context<'_>,
    mut inode: Inode,
    value: &[u8],
    kill_sgid: bool,
) -> Result<Inode, Errno> {
    let Some(acl) = parse_or_none(value)? else { return drop_acl(view, ctx, inode, ACL_ACCESS) };
    let names = Names::read(view, inode.fid(), ACL_ACCESS)?;

    let stored = !acl.is_minimal();
    if stored {
        names.room_for(ACL_ACCESS)?;
    }
    view.before(&[changes(&inode)])?;

    let mut mode = inode.attr.mode & !0o777 | acl.mode();
    if kill_sgid || !ctx.in_group_or_root(inode.attr.gid) {
        mode &= !S_ISGID;
    }
    inode.attr.mode = mode;
    if stored {
        view.put_xattr(inode.fid(), ACL_ACCESS, &acl.encode());
    } else if names.present {
        view.delete_xattr(inode.fid(), ACL_ACCESS);
    }
    inode.flags.set(InodeFlags::HAS_ACL, stored);
    inode.flags.set(InodeFlags::HAS_XATTR, stored || names.others > 0);
    inode.changed(ctx);
    view.put_inode(&inode);
    Ok(inode)
}

fn set_default_acl(
    view: &mut impl View,
    ctx: &Context<'_>,
    mut inode: Inode,
    value: &[u8],
) -> Result<Inode, Errno> {
    let acl = parse_or_none(value)?;
    if !inode.is_dir() {
        return if acl.is_some() { Err(Errno::EACCES) } else { Ok(inode) };
    }
    let Some(acl) = acl else { return drop_acl(view, ctx, inode, ACL_DEFAULT) };
    Names::read(view, inode.fid(), ACL_DEFAULT)?.room_for(ACL_DEFAULT)?;
    view.before(&[changes(&inode)])?;

    view.put_xattr(inode.fid(), ACL_DEFAULT, &acl.encode());
    inode.flags.insert(InodeFlags::HAS_DEFAULT_ACL | InodeFlags::HAS_XATTR);
    inode.changed(ctx);
    view.put_inode(&inode);
    Ok(inode)
}

/// An empty value, or an ACL without entries, removes.
fn parse_or_none(value: &[u8]) -> Result<Option<Acl>, Errno> {
    if value.is_empty() || value == 2u32.to_le_bytes() {
        Ok(None)
    } else {
        Acl::parse(value).map(Some)
    }
}

/// Removes an extended attribute; returns the changed inode.
///
/// # Errors
/// ENOENT; ENODATA: it has no such attribute (ACLs: no error, as in ext4); EPERM, EACCES,
/// EOPNOTSUPP.
pub fn remove(
    view: &mut impl View,
    ctx: &Context<'_>,
    fid: Fid,
    name: &[u8],
) -> Result<Inode, Errno> {
    let space = space(name)?;
    let inode = view.inode(fid)?.ok_or(Errno::ENOENT)?;
    may_write(view, ctx, &inode, space)?;
    if matches!(space, Space::AclAccess | Space::AclDefault) {
        return drop_acl(view, ctx, inode, name);
    }
    let names = Names::read(view, fid, name)?;
    if !names.present {
        return Err(Errno::ENODATA);
    }
    delete(view, ctx, inode, name, &names)
}

fn drop_acl(
    view: &mut impl View,
    ctx: &Context<'_>,
    mut inode: Inode,
    name: &[u8],
) -> Result<Inode, Errno> {
    let names = Names::read(view, inode.fid(), name)?;
    if !names.present {
        return Ok(inode);
    }
    let bit = if name == ACL_ACCESS { InodeFlags::HAS_ACL } else { InodeFlags::HAS_DEFAULT_ACL };
    inode.flags.remove(bit);
    delete(view, ctx, inode, name, &names)
}

fn changes(inode: &Inode) -> Change<'static> {
    Change::of(inode.fid(), InodeBits::XATTR.union(InodeBits::UPDATE).union(InodeBits::PERM))
}

fn delete(
    view: &mut impl View,
    ctx: &Context<'_>,
    mut inode: Inode,
    name: &[u8],
    names: &Names,
) -> Result<Inode, Errno> {
    view.before(&[changes(&inode)])?;
    view.delete_xattr(inode.fid(), name);
    inode.flags.set(InodeFlags::HAS_XATTR, names.others > 0);
    inode.changed(ctx);
    view.put_inode(&inode);
    Ok(inode)
}

/// The names of an inode's attributes, apart from the one in question.
#[derive(Default)]
struct Names {
    present: bool,
    others: usize,
    bytes: usize,
}

impl Names {
    fn read(view: &impl View, fid: Fid, question: &[u8]) -> Result<Names, Errno> {
        let mut names = Names::default();
        view.xattr_names(fid, &mut |name| {
            names.bytes += name.len() + 1;
            if name == question {
                names.present = true
            } else {
                names.others += 1
            }
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// Succeeds if there is room for the name in question. All names must fit into one listing.
    fn room_for(&self, question: &[u8]) -> Result<(), Errno> {
        let full = !self.present && self.bytes + question.len() + 1 > XATTR_LIST_BYTES_MAX;
        if full { Err(Errno::ENOSPC) } else { Ok(()) }
    }
}
