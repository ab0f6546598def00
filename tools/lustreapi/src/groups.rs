//! Group locks: the data of a file for the members of a group, however many and wherever they are.

use crate::door::{Answer, EINVAL, Failure, negative, open_file};
use crate::whereabouts;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::ioctl::{Setter, ioctl, opcode};
use std::ffi::c_int;
use types::errno::Errno;

/// The commands of `LL_IOC_GROUP_LOCK` and `_UNLOCK` with pointers. As commands with two numbers,
/// the first does not wait.
const LOCK: rustix::ioctl::Opcode = opcode::write::<u64>(b'f', 158);
const TRY_LOCK: rustix::ioctl::Opcode = opcode::write::<[u64; 2]>(b'f', 158);
const UNLOCK: rustix::ioctl::Opcode = opcode::write::<u64>(b'f', 159);

fn failure(error: rustix::io::Errno) -> Failure {
    Failure(Errno(error.raw_os_error()))
}

fn lock(fd: c_int, group: u64) -> Answer<c_int> {
    whereabouts::of_descriptor(fd)?;
    let file = open_file(fd)?;
    let done = match fcntl_getfl(file).map_err(failure)?.contains(OFlags::NONBLOCK) {
        // SAFETY: the command reads two numbers behind the pointer, and these are two.
        true => unsafe { ioctl(file, Setter::<TRY_LOCK, [u64; 2]>::new([group, 0])) },
        // SAFETY: the command reads one number behind the pointer, and this is one.
        false => unsafe { ioctl(file, Setter::<LOCK, u64>::new(group)) },
    };
    done.map_err(failure)?;
    Ok(0)
}

fn unlock(fd: c_int, group: u64) -> Answer<c_int> {
    whereabouts::of_descriptor(fd)?;
    // SAFETY: the command reads one number behind the pointer, and this is one.
    unsafe { ioctl(open_file(fd)?, Setter::<UNLOCK, u64>::new(group)) }.map_err(failure)?;
    Ok(0)
}

fn positive(group: c_int) -> Answer<u64> {
    u64::try_from(group).map_err(|_| EINVAL)
}

/// Makes an open file a member of a group, as soon as no other group has the file. With O_NONBLOCK
/// it does not wait: -EAGAIN. -EINVAL: the group is 0, or the open file is in one already;
/// -EOPNOTSUPP: the mount does not report opens (`localflock`).
#[unsafe(no_mangle)]
pub extern "C" fn llapi_group_lock(fd: c_int, gid: c_int) -> c_int {
    negative(|| lock(fd, positive(gid)?))
}

/// The opposite; close(2) does the same. -EINVAL: it is not of this group.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_group_unlock(fd: c_int, gid: c_int) -> c_int {
    negative(|| unlock(fd, positive(gid)?))
}

/// As [`llapi_group_lock`].
#[unsafe(no_mangle)]
pub extern "C" fn llapi_group_lock64(fd: c_int, gid: u64) -> c_int {
    negative(|| lock(fd, gid))
}

/// As [`llapi_group_unlock`].
#[unsafe(no_mangle)]
pub extern "C" fn llapi_group_unlock64(fd: c_int, gid: u64) -> c_int {
    negative(|| unlock(fd, gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_no_file_of_ours_is_told_apart() {
        assert_eq!(llapi_group_lock(-1, 1), -libc::EBADF);
        let elsewhere = tempfile::tempfile().unwrap();
        assert_eq!(llapi_group_lock(elsewhere.as_raw_fd(), 1), -libc::ENOTTY);
        assert_eq!(llapi_group_unlock64(elsewhere.as_raw_fd(), 1), -libc::ENOTTY);
        assert_eq!(llapi_group_lock(elsewhere.as_raw_fd(), -1), -libc::EINVAL);
    }
}
