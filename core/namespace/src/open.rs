//! Opening: only the inode's type and flags decide here. The caller's kernel has checked
//! permission, which stays with the open file whatever happens to the mode afterwards.

use crate::inode::{Inode, InodeFlags};
use types::attr::FileType;
use types::errno::Errno;

/// Succeeds if an inode of this type may be opened in this way.
///
/// # Errors
/// EPERM: to write an immutable inode, or to write an append-only one elsewhere than at its end
/// (`append`); EISDIR: a directory for writing; EACCES: a directory for executing; ELOOP: a
/// symbolic link.
pub fn open(inode: &Inode, write: bool, append: bool, exec: bool) -> Result<(), Errno> {
    let flags = inode.flags;
    if write
        && (flags.contains(InodeFlags::IMMUTABLE)
            || flags.contains(InodeFlags::APPEND_ONLY) && !append)
    {
        return Err(Errno::EPERM);
    }
    match inode.file_type() {
        FileType::Directory if write => Err(Errno::EISDIR),
        FileType::Directory if exec => Err(Errno::EACCES),
        FileType::Symlink => Err(Errno::ELOOP),
        _ => Ok(()),
    }
}
