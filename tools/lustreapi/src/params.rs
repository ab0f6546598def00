//! Parameters of this host's daemons, as `lctl get_param` shows them.

use crate::door::{Answer, EINVAL, Failure, Place, Text, allocated, negative};
use ask::params::{self, ParamAnswer, ParamRequest};
use std::ffi::{c_char, c_int};
use types::errno::Errno;

/// Names of the parameters that a pattern means. -ENOENT: none.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_param_get_paths(pattern: Text, paths: Place<libc::glob_t>) -> c_int {
    negative(|| {
        let mut found = paths.get()?;
        let names: Vec<String> =
            asked(pattern.str()?, false)?.into_iter().map(|param| param.name).collect();
        (found.gl_pathc, found.gl_offs) = (names.len(), 0);
        found.gl_pathv = listed(&names)?;
        paths.put(found)?;
        Ok(0)
    })
}

/// An array of texts with a NULL behind the last, as glob(3) makes it, so that globfree(3) frees it
/// as well.
fn listed(names: &[String]) -> Answer<*mut *mut c_char> {
    // SAFETY: calloc has no preconditions.
    let list: *mut *mut c_char =
        unsafe { libc::calloc(names.len() + 1, size_of::<*mut c_char>()) }.cast();
    if list.is_null() {
        return Err(Failure(Errno::ENOMEM));
    }
    for (n, name) in names.iter().enumerate() {
        match allocated(name.as_bytes()) {
            // SAFETY: within the array that was just made.
            Ok(text) => unsafe { list.add(n).write(text) },
            Err(failure) => {
                free_list(list, n);
                return Err(failure);
            }
        }
    }
    Ok(list)
}

fn free_list(list: *mut *mut c_char, count: usize) {
    for n in 0..count {
        // SAFETY: made by `listed` with at least so many texts.
        unsafe { libc::free((*list.add(n)).cast()) };
    }
    // SAFETY: as above, and nothing uses it any more.
    unsafe { libc::free(list.cast()) };
}

/// Frees what [`llapi_param_get_paths`] made.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_param_paths_free(paths: Place<libc::glob_t>) {
    crate::door::plain((), || {
        if let Ok(mut found) = paths.get() {
            if !found.gl_pathv.is_null() {
                free_list(found.gl_pathv, found.gl_pathc);
            }
            (found.gl_pathc, found.gl_pathv) = (0, std::ptr::null_mut());
            // The place is there: it was just read.
            let _ = paths.put(found);
        }
    });
}

/// The value of one parameter. -ENOENT: there is none; -EACCES: it can only be set; -EINVAL: a
/// pattern for several.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_param_get_value(
    path: Text,
    buf: Place<*mut c_char>,
    buflen: Place<usize>,
) -> c_int {
    negative(|| {
        if buf.is_null() || buflen.is_null() {
            return Err(EINVAL);
        }
        let found = asked(path.str()?, true)?;
        let [param] = &found[..] else { return Err(EINVAL) };
        let value = match (&param.value, param.errno) {
            (Some(value), _) => value,
            (None, errno) => return Err(Failure(errno.map_or(Errno::EACCES, Errno))),
        };
        buf.put(allocated(value.as_bytes())?)?;
        buflen.put(value.len())?;
        Ok(0)
    })
}

fn asked(pattern: &str, values: bool) -> Answer<Vec<ParamAnswer>> {
    let request =
        ParamRequest::Get { patterns: vec![pattern.to_owned()], recursive: false, values };
    let (params, refused) = params::ask(&request);
    let found: Vec<ParamAnswer> = params.into_values().filter(|param| !param.level).collect();
    match (found.is_empty(), refused.first()) {
        (false, _) => Ok(found),
        (true, Some(refused)) => Err(refused.errno.into()),
        (true, None) => Err(Failure(Errno::ENOENT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, null_text, place, text};
    use std::ffi::CStr;

    #[test]
    fn names_are_an_array_as_of_glob() {
        let list = listed(&["a.b".to_owned(), "c".to_owned()]).unwrap();
        // SAFETY: two texts and NULL.
        unsafe {
            assert_eq!(
                (CStr::from_ptr(*list), CStr::from_ptr(*list.add(1)), *list.add(2)),
                (c"a.b", c"c", std::ptr::null_mut())
            );
        }
        // SAFETY: glob_t is plain old data, all zero is a good one.
        let mut glob: libc::glob_t = unsafe { std::mem::zeroed() };
        (glob.gl_pathc, glob.gl_pathv) = (2, list);
        llapi_param_paths_free(place(&mut glob));
        assert!(glob.gl_pathv.is_null() && glob.gl_pathc == 0);
        llapi_param_paths_free(place(&mut glob));
        llapi_param_paths_free(null());
    }

    #[test]
    fn null_is_refused() {
        assert_eq!(llapi_param_get_paths(text(c"version"), null()), -libc::EINVAL);
        assert_eq!(llapi_param_get_value(text(c"version"), null(), null()), -libc::EINVAL);
        let (mut buf, mut len) = (std::ptr::null_mut(), 0);
        assert_eq!(
            llapi_param_get_value(null_text(), place(&mut buf), place(&mut len)),
            -libc::EINVAL
        );
    }
}
