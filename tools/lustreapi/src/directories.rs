//! Directories on MDTs.

use crate::abi::StripeParam;
use crate::door::{Answer, EOPNOTSUPP, Failure, Place, Text, negative};
use crate::whereabouts;
use ask::mkdir_at::mkdir_at;
use rustix::fs::Mode;
use std::ffi::c_int;
use types::dir_stripes::{DirHash, DirSpec};
use types::errno::Errno;
use types::limits::{DIR_STRIPES_MAX, TARGETS_MAX};
use types::target::TargetIndex;

/// Makes a directory.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_dir_create(
    name: Text,
    mode: libc::mode_t,
    param: Place<StripeParam>,
) -> c_int {
    negative(|| {
        let param = param.get()?;
        // A list of MDTs with one entry is its first.
        let specific = param.is_specific != 0 && param.stripe_count > 1;
        if specific || param.max_inherit != 0 || param.max_inherit_rr != 0 {
            return Err(EOPNOTSUPP);
        }
        make(name, mode, (param.stripe_offset, param.stripe_count), param.stripe_pattern)
    })
}

/// As [`llapi_dir_create`]; a pool of MDTs is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_dir_create_pool(
    name: Text,
    mode: c_int,
    stripe_offset: c_int,
    stripe_count: c_int,
    stripe_pattern: c_int,
    poolname: Text,
) -> c_int {
    negative(|| {
        if poolname.bytes().is_some_and(|pool| !pool.is_empty()) {
            return Err(EOPNOTSUPP);
        }
        make(name, mode as u32, (stripe_offset, stripe_count), stripe_pattern)
    })
}

/// `hash`: 0 is the default.
fn make(name: Text, mode: u32, (offset, count): (c_int, c_int), hash: c_int) -> Answer<c_int> {
    let path = name.path()?;
    let bad = || Failure(Errno::EINVAL);
    let mdts = match offset {
        -1 => Vec::new(),
        mdt => {
            let index = u16::try_from(mdt).ok().filter(|mdt| usize::from(*mdt) < TARGETS_MAX);
            vec![TargetIndex(index.ok_or_else(bad)?)]
        }
    };
    let count = match count {
        -1 => 1,
        count => u16::try_from(count)
            .ok()
            .filter(|n| usize::from(*n) <= DIR_STRIPES_MAX)
            .ok_or_else(bad)?,
    };
    let hash = match hash {
        0 => DirHash::default(),
        hash => u8::try_from(hash).ok().and_then(DirHash::of).ok_or_else(bad)?,
    };
    whereabouts::of_path(whereabouts::parent(path))?;
    match mdts[..] {
        // That of the directory above.
        [] if count <= 1 => rustix::fs::mkdir(path, Mode::from_raw_mode(mode & 0o7777))?,
        _ => mkdir_at(path, mode, DirSpec { count, hash, mdts, any: false })?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, null_text, text};

    #[test]
    fn what_no_directory_has_is_refused() {
        let make =
            |offset, count, pool| llapi_dir_create_pool(text(c"/x"), 0o755, offset, count, 0, pool);
        assert_eq!(make(-2, 1, null_text()), -libc::EINVAL);
        assert_eq!(make(4096, 1, null_text()), -libc::EINVAL);
        assert_eq!(make(-1, 129, null_text()), -libc::EINVAL);
        assert_eq!(make(0, 1, text(c"pool")), -libc::EOPNOTSUPP);
        assert_eq!(make(0, 1, text(c"")), -libc::ENOTTY);
        assert_eq!(llapi_dir_create(text(c"/x"), 0o755, null()), -libc::EINVAL);
    }
}
