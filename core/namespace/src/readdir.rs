//! Listing a directory in byte order of names, resumed by name.

use crate::inode::Dirent;
use crate::view::View;
use std::ops::ControlFlow;
use types::errno::Errno;
use types::fid::Fid;

/// Gives the entries after `after`; `each` returns `Break` at the first entry that it does not
/// take. Returns whether the directory goes on.
///
/// # Errors
/// ENOENT, ENOTDIR. A removed directory that is still held open is empty, no error.
pub fn readdir(
    view: &impl View,
    dir: Fid,
    after: Option<&[u8]>,
    mut each: impl FnMut(&[u8], Dirent) -> ControlFlow<()>,
) -> Result<bool, Errno> {
    let inode = view.inode(dir)?.ok_or(Errno::ENOENT)?;
    if !inode.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    let mut more = false;
    view.entries(dir, after, &mut |name, dirent| {
        let flow = each(name, dirent);
        more = flow.is_break();
        flow
    })?;
    Ok(more)
}
