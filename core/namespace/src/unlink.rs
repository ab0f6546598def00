//! Removing a name that is no directory.

use crate::access::{EXECUTE, WRITE, may_delete, permission};
use crate::context::Context;
use crate::inode::Inode;
use crate::rename::Place;
use crate::view::{Change, View, directory_of, home, names_changed, target};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;

/// Removes a name; returns the changed inode (`nlink` 0: gone, or kept while open).
///
/// # Errors
/// ENOENT, ENOTDIR: no such name or directory; EISDIR: it is a directory; EACCES, EPERM (sticky
/// bit); EREMOTE: another MDT has the file, which the view does not reach; EREMCHG: another stripe
/// of the directory has the name.
pub fn unlink(
    view: &mut impl View,
    ctx: &Context<'_>,
    parent: Fid,
    name: &[u8],
) -> Result<Inode, Errno> {
    let mut dir = directory_of(view, parent, name)?;
    let dirent = view.dirent(parent, name)?.ok_or(Errno::ENOENT)?;
    if !view.reaches(parent, dirent.fid) {
        permission(view, ctx, &dir, WRITE | EXECUTE)?;
        let is_dir = dirent.file_type == FileType::Directory;
        return Err(if is_dir { Errno::EISDIR } else { Errno::EREMOTE });
    }
    let mut inode = target(view, parent, dirent)?;
    may_delete(view, ctx, &dir, &inode)?;
    if inode.is_dir() {
        return Err(Errno::EISDIR);
    }
    let above = home(view, &dir, name)?;
    view.before(&[Change::name(parent, name), Change::named(inode.fid(), inode.attr.nlink <= 1)])?;

    view.delete_dirent(parent, name);
    names_changed(view, ctx, &mut dir, 0);
    drop_link(view, ctx, &mut inode, Place { parent: above, name });
    Ok(inode)
}

/// An inode that is no directory, and is there, has lost this name. Its directory is the one that
/// the inode records ([`home`]).
pub fn drop_link(view: &mut impl View, ctx: &Context<'_>, inode: &mut Inode, lost: Place<'_>) {
    lose_name(view, ctx, inode, lost);
    if inode.attr.nlink == 0 { view.last_name_gone(inode) } else { view.put_inode(inode) }
}

/// As [`drop_link`], for a caller that puts the inode itself.
pub fn lose_name(view: &mut impl View, ctx: &Context<'_>, inode: &mut Inode, lost: Place<'_>) {
    inode.attr.nlink = inode.attr.nlink.saturating_sub(1);
    view.unnamed(inode, lost.parent, lost.name);
    inode.changed(ctx);
}

/// An empty directory lost its name.
pub(crate) fn drop_directory(view: &mut impl View, ctx: &Context<'_>, inode: &mut Inode) {
    inode.attr.nlink = 0;
    inode.changed(ctx);
    view.last_name_gone(inode);
}
