//! Leases: an open file has its inode to itself until another one comes.

use crate::door::{Answer, EINVAL, EOPNOTSUPP, Place, negative, open_file};
use crate::whereabouts;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::{c_int, c_uint, c_void};
use types::lock::LeaseMode;

/// `LL_LEASE_UNLCK`.
const UNLOCK: u32 = 4;

/// `struct ll_ioc_lease` without what follows it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Lease {
    mode: u32,
    flags: u32,
    count: u32,
}

/// `LL_IOC_SET_LEASE`.
struct Set(Lease);

// SAFETY: the command reads and may write one `Lease` behind the pointer, which is ours alone
// meanwhile; what it says is a number.
unsafe impl Ioctl for Set {
    type Output = c_int;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<Lease>(b'f', 243)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(said: IoctlOutput, _: *mut c_void) -> rustix::io::Result<c_int> {
        Ok(said)
    }
}

/// `LL_IOC_GET_LEASE`.
struct Get;

// SAFETY: the command has no pointer; what it says is a number.
unsafe impl Ioctl for Get {
    type Output = c_int;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::none(b'f', 244)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(said: IoctlOutput, _: *mut c_void) -> rustix::io::Result<c_int> {
        Ok(said)
    }
}

fn set(fd: c_int, mode: u32) -> Answer<c_int> {
    whereabouts::of_descriptor(fd)?;
    // SAFETY: `Set` says what the command does.
    Ok(unsafe { ioctl(open_file(fd)?, Set(Lease { mode, flags: 0, count: 0 })) }?)
}

fn acquire(fd: c_int, mode: u32) -> Answer<c_int> {
    let known = u8::try_from(mode).ok().and_then(LeaseMode::from_number);
    set(fd, known.ok_or(EINVAL)? as u32)
}

/// Takes a lease, LL_LEASE_RDLCK or LL_LEASE_WRLCK. -EBUSY: there is another open file (RDLCK: for
/// writing), or this one has a lease; -EINVAL: no such mode; -EOPNOTSUPP: the mount does not report
/// opens (`localflock`).
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lease_acquire(fd: c_int, mode: c_uint) -> c_int {
    negative(|| acquire(fd, mode))
}

/// Gives the lease back: the mode that stood until now, 0 if it was broken.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lease_release(fd: c_int) -> c_int {
    negative(|| set(fd, UNLOCK))
}

/// The mode that stands; 0: it was broken, or there is none.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lease_check(fd: c_int) -> c_int {
    negative(|| {
        whereabouts::of_descriptor(fd)?;
        // SAFETY: `Get` says what the command does.
        Ok(unsafe { ioctl(open_file(fd)?, Get) }?)
    })
}

/// Takes a lease, or with LL_LEASE_UNLCK gives it back, by the mode. -EOPNOTSUPP: it has flags,
/// which are about mirrors.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lease_set(fd: c_int, data: Place<Lease>) -> c_int {
    negative(|| {
        whereabouts::of_descriptor(fd)?;
        match data.get()? {
            Lease { flags: 0, mode: UNLOCK, .. } => set(fd, UNLOCK),
            Lease { flags: 0, mode, .. } => acquire(fd, mode),
            _ => Err(EOPNOTSUPP),
        }
    })
}

/// The older name of [`llapi_lease_acquire`].
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lease_get(fd: c_int, mode: c_int) -> c_int {
    negative(|| acquire(fd, u32::try_from(mode).map_err(|_| EINVAL)?))
}

/// The older name of [`llapi_lease_release`].
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lease_put(fd: c_int) -> c_int {
    negative(|| set(fd, UNLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_no_file_of_ours_is_told_apart() {
        assert_eq!(llapi_lease_acquire(-1, 1), -libc::EBADF);
        let elsewhere = tempfile::tempfile().unwrap();
        let fd = elsewhere.as_raw_fd();
        assert_eq!(
            (llapi_lease_acquire(fd, 2), llapi_lease_check(fd), llapi_lease_put(fd)),
            (-25, -25, -25)
        );
        assert_eq!(
            (llapi_lease_acquire(fd, 3), llapi_lease_get(fd, 4), llapi_lease_get(fd, -1)),
            (-22, -22, -22)
        );
    }

    #[test]
    fn commands_have_the_numbers_of_the_interface() {
        assert_eq!(
            (Set(Lease { mode: 1, flags: 0, count: 0 }).opcode(), Get.opcode()),
            (0xc00c_66f3, 0x66f4)
        );
    }
}
