//! Functions that SheenFS does not have: programs link, call, and get EOPNOTSUPP; nothing is
//! pretended.

use crate::door::{Answer, EOPNOTSUPP, Owned, Place, Text, minus_one, negative};
use crate::layout_value::Layout;
use crate::whereabouts;
use std::ffi::{c_int, c_uint, c_void};

/// Of a descriptor: EBADF and ENOTTY come first.
fn of_descriptor(fd: c_int) -> Answer<c_int> {
    whereabouts::of_descriptor(fd)?;
    Err(EOPNOTSUPP)
}

fn of_path(path: Text) -> Answer<c_int> {
    whereabouts::of_path(path.path()?)?;
    Err(EOPNOTSUPP)
}

/// Group locks in an exchange of layouts. The exchange is refused while one of the files is open
/// for writing.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fswap_layouts_grouplock(
    fd1: c_int,
    _fd2: c_int,
    _dv1: u64,
    _dv2: u64,
    _gid: c_int,
    _flags: u64,
) -> c_int {
    negative(|| of_descriptor(fd1))
}

/// Components of files that exist.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_file_comp_set(
    path: Text,
    _ids: Place<u32>,
    _flags: Place<u32>,
    _count: usize,
) -> c_int {
    minus_one(|| of_path(path))
}

/// Mirrors.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_merge(_dst: Place<*mut c_void>, _src: Owned<Layout>) -> c_int {
    minus_one(|| Err(EOPNOTSUPP))
}

/// Mirrors.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_mirror_set(fd: c_int, _id: c_uint) -> c_int {
    negative(|| of_descriptor(fd))
}

/// Mirrors.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_mirror_clear(fd: c_int) -> c_int {
    negative(|| of_descriptor(fd))
}

/// Archives.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_hsm_state_get_fd(fd: c_int, _hus: *mut c_void) -> c_int {
    negative(|| of_descriptor(fd))
}

/// Archives.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_hsm_state_get(path: Text, _hus: *mut c_void) -> c_int {
    negative(|| of_path(path))
}

/// Archives.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_hsm_state_set_fd(
    fd: c_int,
    _setmask: u64,
    _clearmask: u64,
    _archive_id: u32,
) -> c_int {
    negative(|| of_descriptor(fd))
}

/// Archives.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_hsm_state_set(
    path: Text,
    _setmask: u64,
    _clearmask: u64,
    _archive_id: u32,
) -> c_int {
    negative(|| of_path(path))
}

/// Foreign files.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_unlink_foreign(pathname: Text) -> c_int {
    negative(|| of_path(pathname))
}

/// Quotas.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_quotactl(mnt: Text, _qctl: *mut c_void) -> c_int {
    negative(|| of_path(mnt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null_text, text};

    #[test]
    fn what_is_asked_of_is_looked_at_first() {
        assert_eq!(llapi_mirror_clear(9999), -libc::EBADF);
        assert_eq!(llapi_quotactl(text(c"/"), std::ptr::null_mut()), -libc::ENOTTY);
        assert_eq!(llapi_unlink_foreign(null_text()), -libc::EINVAL);
    }
}
