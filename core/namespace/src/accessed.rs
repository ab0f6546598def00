//! Access times that clients note when programs read.
//!
//! An access does not change the inode: neither its change time nor its version moves. So whatever
//! rests on a version (`lfs migrate`, replay) does not mind that programs read.

use crate::inode::InodeFlags;
use crate::view::{Change, Shown, View};
use types::attr::AccessTimes;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::time::Timestamp;

/// Programs read an inode, the last time at `at`. `tell`: other clients that hold UPDATE must give
/// it back first. `false`: the access time stays, because of `times`, because the inode is flagged
/// `noatime`, or because the inode is gone.
///
/// # Errors EIO: the record is damaged; what [`View::before`] returns.
pub fn accessed(
    view: &mut impl View,
    fid: Fid,
    at: Timestamp,
    times: AccessTimes,
    tell: bool,
) -> Result<bool, Errno> {
    let Some(mut inode) = view.inode(fid)? else { return Ok(false) };
    if inode.flags.contains(InodeFlags::NOATIME) || !inode.attr.takes_access(at, times) {
        return Ok(false);
    }
    if tell {
        // Its mount shows an access from the moment on at which it notes it.
        view.before(&[Change { shown: Shown::All, ..Change::of(fid, InodeBits::UPDATE) }])?;
    }
    inode.attr.atime = at;
    view.put_inode(&inode);
    Ok(true)
}
