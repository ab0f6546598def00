//! Names of users and groups, as the system's databases have them.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr;

/// Room for one entry's texts, bytes; a larger entry (a group of thousands) is shown by number.
const ENTRY_BYTES: usize = 64 << 10;

/// Name of a user; `None` if there is no user of this number.
pub fn user_name(uid: u32) -> Option<String> {
    let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
    let mut texts = vec![0; ENTRY_BYTES];
    // SAFETY: all pointers are to memory of ours, with its true length, that outlives the call.
    unsafe {
        libc::getpwuid_r(uid, entry.as_mut_ptr(), texts.as_mut_ptr(), texts.len(), &mut found)
    };
    if found.is_null() {
        return None;
    }
    // SAFETY: `found` is `entry`, filled in; its name ends with a NUL within `texts`, which still
    // lives.
    let name = unsafe { CStr::from_ptr((*found).pw_name) };
    Some(name.to_string_lossy().into_owned())
}

/// Name of a group; `None`: there is none with this number.
pub fn group_name(gid: u32) -> Option<String> {
    let (mut entry, mut found) = (MaybeUninit::<libc::group>::uninit(), ptr::null_mut());
    let mut texts = vec![0; ENTRY_BYTES];
    // SAFETY: as in `user_name`.
    unsafe {
        libc::getgrgid_r(gid, entry.as_mut_ptr(), texts.as_mut_ptr(), texts.len(), &mut found)
    };
    if found.is_null() {
        return None;
    }
    // SAFETY: as in `user_name`.
    let name = unsafe { CStr::from_ptr((*found).gr_name) };
    Some(name.to_string_lossy().into_owned())
}

/// Number of a user, by name or by number.
pub fn uid(name: &str) -> Option<u32> {
    let text = CString::new(name).ok()?;
    let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
    let mut texts = vec![0; ENTRY_BYTES];
    // SAFETY: as in `user_name`; the name ends with a NUL.
    unsafe {
        libc::getpwnam_r(
            text.as_ptr(),
            entry.as_mut_ptr(),
            texts.as_mut_ptr(),
            texts.len(),
            &mut found,
        )
    };
    if found.is_null() {
        return name.parse().ok();
    }
    // SAFETY: `found` is `entry`, filled in.
    Some(unsafe { (*found).pw_uid })
}

/// Number of a group, by name or by number.
pub fn gid(name: &str) -> Option<u32> {
    let text = CString::new(name).ok()?;
    let (mut entry, mut found) = (MaybeUninit::<libc::group>::uninit(), ptr::null_mut());
    let mut texts = vec![0; ENTRY_BYTES];
    // SAFETY: as in `uid`.
    unsafe {
        libc::getgrnam_r(
            text.as_ptr(),
            entry.as_mut_ptr(),
            texts.as_mut_ptr(),
            texts.len(),
            &mut found,
        )
    };
    if found.is_null() {
        return name.parse().ok();
    }
    // SAFETY: `found` is `entry`, filled in.
    Some(unsafe { (*found).gr_gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_name_and_number() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(
            (uid("root"), uid("0"), uid("4000000000")),
            (Some(0), Some(0), Some(4_000_000_000))
        );
        assert_eq!((gid("root"), group_name(0).as_deref()), (Some(0), Some("root")));
        assert_eq!(user_name(4_000_000_123), None);
        assert_eq!((uid("no such user"), gid("a\0b")), (None, None));
    }
}
