//! Pools of OSTs: their list, and their members.

use crate::door::{Answer, EINVAL, Failure, Place, Text, negative};
use crate::targets::uuid;
use crate::whereabouts;
use std::ffi::{c_char, c_int};
use types::errno::Errno;
use types::target::TargetKind;

/// Pools of a file system (by name, or a path on it), as `FSNAME.POOL`.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_poollist(
    name: Text,
    poollist: Place<*mut c_char>,
    list_size: c_int,
    buffer: Place<c_char>,
    buffer_size: c_int,
) -> c_int {
    negative(|| {
        let mount = whereabouts::of_word(name.str()?)?;
        let fsname = mount.names.fsname;
        let names: Vec<String> =
            mount.pools()?.into_iter().map(|pool| format!("{fsname}.{pool}")).collect();
        listed(&names, poollist, list_size, buffer, buffer_size)
    })
}

/// OSTs of `FSNAME.POOL`, as `FSNAME-OST0001_UUID`. -ENOENT: no such pool.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_poolmembers(
    poolname: Text,
    members: Place<*mut c_char>,
    list_size: c_int,
    buffer: Place<c_char>,
    buffer_size: c_int,
) -> c_int {
    negative(|| {
        let (word, pool) = poolname.str()?.rsplit_once('.').ok_or(EINVAL)?;
        let mount = whereabouts::of_word(word)?;
        let osts = mount.pool(pool)?.ok_or(Failure(Errno::ENOENT))?;
        let names: Vec<String> =
            osts.into_iter().map(|ost| uuid(mount.names.fsname, TargetKind::Ost, ost)).collect();
        listed(&names, members, list_size, buffer, buffer_size)
    })
}

/// Puts texts one behind the other into a buffer, and their places into a list.
fn listed(
    names: &[String],
    list: Place<*mut c_char>,
    list_size: c_int,
    buffer: Place<c_char>,
    buffer_size: c_int,
) -> Answer<c_int> {
    let room = usize::try_from(buffer_size).map_err(|_| EINVAL)?;
    let entries = usize::try_from(list_size).map_err(|_| EINVAL)?;
    if names.len() > entries {
        return Err(Failure(Errno::EOVERFLOW));
    }
    let mut used = 0;
    for (n, name) in names.iter().enumerate() {
        if buffer.is_null() {
            return Err(EINVAL);
        }
        buffer.behind::<c_char>(used).put_text(room - used, name.as_bytes(), Errno::EOVERFLOW)?;
        list.put_nth(n, buffer.at(used))?;
        used += name.len() + 1;
    }
    Ok(names.len() as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, places, text};
    use std::ffi::CStr;

    #[test]
    fn texts_lie_one_behind_the_other_within_their_bounds() {
        let names = ["a.b".to_owned(), "a.cd".to_owned()];
        let (mut list, mut room) = ([std::ptr::null_mut(); 2], [1 as c_char; 9]);
        let (places_of, buffer) = (places(&mut list), places(&mut room));
        assert_eq!(listed(&names, places_of, 2, buffer, 9), Ok(2));
        // SAFETY: just written, ended by NUL.
        assert_eq!(list.map(|at| unsafe { CStr::from_ptr(at) }), [c"a.b", c"a.cd"]);
        assert_eq!(listed(&names, places_of, 1, buffer, 9), Err(Failure(Errno::EOVERFLOW)));
        assert_eq!(listed(&names, places_of, 2, buffer, 8), Err(Failure(Errno::EOVERFLOW)));
        assert_eq!(listed(&names, places_of, 2, null(), 9), Err(EINVAL));
        assert_eq!(listed(&names, places_of, 2, buffer, -1), Err(EINVAL));
        assert_eq!(listed(&[], places_of, 0, null(), 0), Ok(0));
    }

    #[test]
    fn pools_are_named_with_their_file_system() {
        assert_eq!(llapi_get_poolmembers(text(c"flash"), null(), 0, null(), 0), -libc::EINVAL);
        assert_eq!(
            llapi_get_poolmembers(text(c"nosuchfs.flash"), null(), 0, null(), 0),
            -libc::ENODEV
        );
        assert_eq!(llapi_get_poollist(text(c"/"), null(), 0, null(), 0), -libc::ENOTTY);
    }
}
