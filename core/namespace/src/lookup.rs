//! Finding a name.

use crate::inode::Inode;
use crate::view::{View, directory, directory_of, is_elsewhere, target};
use types::errno::Errno;
use types::fid::Fid;

/// The inode behind a name.
///
/// # Errors
/// ENOENT if there is no such name or directory, ENOTDIR if `parent` is no directory, EREMOTE if
/// another MDT has the inode, EREMCHG if another stripe of the directory has such names.
pub fn lookup(view: &impl View, parent: Fid, name: &[u8]) -> Result<Inode, Errno> {
    // The entry first: if it exists, its directory need not be read.
    match view.dirent(parent, name)? {
        Some(dirent) => target(view, parent, dirent),
        None => directory_of(view, parent, name).and(Err(Errno::ENOENT)),
    }
}

/// A directory above another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parent {
    /// It is on the same MDT.
    Here(Box<Inode>),
    /// Another MDT has it.
    Elsewhere(Fid),
}

/// The directory above a directory; the root's is itself.
///
/// # Errors
/// ENOENT, ENOTDIR.
pub fn parent(view: &impl View, fid: Fid) -> Result<Parent, Errno> {
    let dir = directory(view, fid)?;
    if is_elsewhere(fid, dir.parent) {
        return Ok(Parent::Elsewhere(dir.parent));
    }
    Ok(Parent::Here(Box::new(view.inode(dir.parent)?.ok_or(Errno::EIO)?)))
}
