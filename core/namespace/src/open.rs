//! Opening: only what an inode is decides here; permission was the caller's kernel's affair, and stays with the
//! open file whatever happens to the mode afterwards.

use crate::inode::{Inode, InodeFlags};
use types::attr::FileType;
use types::errno::Errno;

/// May an inode of this type be opened so?
///
/// # Errors
/// EPERM: to write what is immutable, or elsewhere than at the end (`append`) of what is append-only;
/// EISDIR: a directory for writing; EACCES: a directory for executing; ELOOP: a symbolic link.
pub fn open(inode: &Inode, write: bool, append: bool, exec: bool) -> Result<(), Errno> {
    let flags = inode.flags;
    if write && (flags.has(InodeFlags::IMMUTABLE) || flags.has(InodeFlags::APPEND_ONLY) && !append) {
        return Err(Errno::EPERM);
    }
    match inode.file_type() {
        FileType::Directory if write => Err(Errno::EISDIR),
        FileType::Directory if exec => Err(Errno::EACCES),
        FileType::Symlink => Err(Errno::ELOOP),
        _ => Ok(()),
    }
}
