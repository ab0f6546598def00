//! Removing an empty directory.

use crate::access::may_delete;
use crate::context::Context;
use crate::inode::Inode;
use crate::unlink::drop_directory;
use crate::view::{Change, View, directory, directory_of, is_empty, names_changed, target};
use types::attr::FileType;
use types::errno::Errno;
use types::fid::Fid;

/// Removes an empty directory; returns its inode, `nlink` 0.
///
/// # Errors
/// ENOENT, ENOTDIR: no such name, or no directory; ENOTEMPTY; EACCES, EPERM (sticky bit); EBUSY:
/// the root; EREMOTE: another MDT has the inode, or a stripe of it; EREMCHG: another stripe of the
/// directory has the name.
pub fn rmdir(
    view: &mut impl View,
    ctx: &Context<'_>,
    parent: Fid,
    name: &[u8],
) -> Result<Inode, Errno> {
    let mut dir = directory_of(view, parent, name)?;
    let mut inode = target(view, parent, view.dirent(parent, name)?.ok_or(Errno::ENOENT)?)?;
    may_delete(view, ctx, &dir, &inode)?;
    if !inode.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if inode.fid() == Fid::ROOT {
        return Err(Errno::EBUSY);
    }
    if !is_empty(view, &inode)? {
        return Err(Errno::ENOTEMPTY);
    }
    view.before(&[Change::name(parent, name), Change::named(inode.fid(), true)])?;

    view.delete_dirent(parent, name);
    names_changed(view, ctx, &mut dir, -1);
    drop_directory(view, ctx, &mut inode);
    Ok(inode)
}

/// The name of an inode, which another MDT may have, goes.
///
/// # Errors
/// EIO; ENOENT, ENOTDIR: `parent` is not there.
pub fn leave(
    view: &mut impl View,
    ctx: &Context<'_>,
    parent: Fid,
    name: &[u8],
    file_type: FileType,
) -> Result<(), Errno> {
    let mut dir = directory(view, parent)?;
    view.delete_dirent(parent, name);
    names_changed(view, ctx, &mut dir, -i32::from(file_type == FileType::Directory));
    Ok(())
}

/// An empty directory, whose name another MDT had, has lost it. Returns its inode, `nlink` 0, for
/// [`View::last_name_gone`].
///
/// # Errors
/// EIO; ENOENT, ENOTDIR: it is not there.
pub fn nameless(view: &impl View, ctx: &Context<'_>, fid: Fid) -> Result<Inode, Errno> {
    let mut inode = directory(view, fid)?;
    inode.attr.nlink = 0;
    inode.changed(ctx);
    Ok(inode)
}
