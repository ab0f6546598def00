//! Opening: only what an inode is decides here; permission was the caller's kernel's affair, and stays with the
//! open file whatever happens to the mode afterwards.

use crate::inode::Inode;
use types::attr::FileType;
use types::errno::Errno;

/// May an inode of this type be opened so?
///
/// # Errors
/// EISDIR: a directory for writing; EACCES: a directory for executing; ELOOP: a symbolic link.
pub fn open(inode: &Inode, write: bool, exec: bool) -> Result<(), Errno> {
    match inode.file_type() {
        FileType::Directory if write => Err(Errno::EISDIR),
        FileType::Directory if exec => Err(Errno::EACCES),
        FileType::Symlink => Err(Errno::ELOOP),
        _ => Ok(()),
    }
}
