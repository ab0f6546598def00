//! Finding a name.

use crate::inode::Inode;
use crate::view::{View, directory, target};
use types::errno::Errno;
use types::fid::Fid;

/// The inode behind a name.
///
/// # Errors
/// ENOENT if there is no such name or directory, ENOTDIR if `parent` is no directory.
pub fn lookup(view: &impl View, parent: Fid, name: &[u8]) -> Result<Inode, Errno> {
    // The entry first: if it exists, its directory need not be read.
    match view.dirent(parent, name)? {
        Some(dirent) => target(view, dirent),
        None => directory(view, parent).and(Err(Errno::ENOENT)),
    }
}

/// The directory above a directory; the root's is itself.
///
/// # Errors
/// ENOENT, ENOTDIR.
pub fn parent(view: &impl View, fid: Fid) -> Result<Inode, Errno> {
    let dir = directory(view, fid)?;
    view.inode(dir.parent)?.ok_or(Errno::EIO)
}
