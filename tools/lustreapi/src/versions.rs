//! Versions of data, and files that exchange their data.

use crate::door::{Answer, EINVAL, EOPNOTSUPP, Failure, Place, Text, negative, open_file};
use crate::whereabouts;
use ask::{versions, xattr};
use rustix::fs::{AtFlags, StatxFlags};
use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;
use types::errno::Errno;

/// `LL_DV_RD_FLUSH`, `LL_DV_WR_FLUSH`: what was written is stored first.
const STORED: u64 = 3;
/// `SWAP_LAYOUTS_CHECK_DV1`
const CHECK_FIRST: u64 = 1;
/// `SWAP_LAYOUTS_CHECK_DV2`
const CHECK_SECOND: u64 = 2;
/// `SWAP_LAYOUTS_KEEP_MTIME`, `_ATIME`: the contents are the same, so times stay.
const KEEP_TIMES: u64 = 4 | 8;
/// A file that was just closed counts as open for writing until its MDT has the close: it is asked
/// this often.
const ATTEMPTS: u32 = 5;
const CLOSING: Duration = Duration::from_millis(20);

/// A number that grows with every change of a file.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_data_version(fd: c_int, data_version: Place<u64>, flags: u64) -> c_int {
    negative(|| {
        whereabouts::of_descriptor(fd)?;
        let file = open_file(fd)?;
        if flags & STORED != 0 {
            rustix::fs::fsync(file)?;
        }
        data_version.put(versions::version_of_open(file)?)?;
        Ok(0)
    })
}

/// Generation of a file's layout: it grows when a component gets objects, and when the layout is
/// changed or exchanged. -ENODATA: no regular file.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_ost_layout_version(fd: c_int, layout_version: Place<u32>) -> c_int {
    negative(|| {
        whereabouts::of_descriptor(fd)?;
        let file = open_file(fd)?;
        if !rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_file() {
            return Err(Failure(Errno::ENODATA));
        }
        let value = xattr::get_of_open(file, xattr::LOV)?;
        let ea = layout::lov_ea::decode(&value).map_err(|_| Failure(Errno::EIO))?;
        layout_version.put(ea.layout.generation)?;
        Ok(0)
    })
}

/// Asks the MDT for a name in a directory; what it is named for is not looked at. -ENOENT: there is
/// no such name.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_lookup(dirfd: c_int, name: Text) -> c_int {
    negative(|| {
        let name = name.path()?;
        if name.components().count() != 1 {
            return Err(EINVAL);
        }
        whereabouts::of_descriptor(dirfd)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        rustix::fs::statx(open_file(dirfd)?, name, flags, StatxFlags::INO)?;
        Ok(0)
    })
}

/// Two files exchange their data. -EAGAIN: a version is not as it was said; -EBUSY: one is open to
/// be written.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fswap_layouts(
    fd1: c_int,
    fd2: c_int,
    dv1: u64,
    dv2: u64,
    flags: u64,
) -> c_int {
    negative(|| {
        whereabouts::of_descriptor(fd1)?;
        whereabouts::of_descriptor(fd2)?;
        swap(open_file(fd1)?, open_file(fd2)?, (dv1, dv2), flags)
    })
}

/// As [`llapi_fswap_layouts`], by path.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_swap_layouts(
    path1: Text,
    path2: Text,
    dv1: u64,
    dv2: u64,
    flags: u64,
) -> c_int {
    negative(|| {
        let (a, b) = (path1.path()?, path2.path()?);
        whereabouts::of_path(a)?;
        whereabouts::of_path(b)?;
        swap(File::open(a)?, File::open(b)?, (dv1, dv2), flags)
    })
}

fn swap(a: impl AsFd, b: impl AsFd, (first, second): (u64, u64), flags: u64) -> Answer<c_int> {
    let same = match flags & KEEP_TIMES {
        0 => false,
        KEEP_TIMES => true,
        // One time of two cannot be kept.
        _ => return Err(EOPNOTSUPP),
    };
    if flags & !(CHECK_FIRST | CHECK_SECOND | KEEP_TIMES) != 0 {
        return Err(EOPNOTSUPP);
    }
    let checked = |version, flag| match (flags & flag != 0, version) {
        (false, _) => Ok(0),
        // 0 is no version: nothing could be compared.
        (true, 0) => Err(EINVAL),
        (true, version) => Ok(version),
    };
    let both = (checked(first, CHECK_FIRST)?, checked(second, CHECK_SECOND)?);
    let mut attempt = 1;
    loop {
        match versions::exchange_open(&a, &b, both, same).map_err(Failure::from) {
            Err(Failure(Errno::EBUSY)) if attempt < ATTEMPTS => {
                std::thread::sleep(CLOSING * attempt)
            }
            result => return result.map(|()| 0),
        }
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, text};

    #[test]
    fn what_cannot_be_promised_is_refused_before_anything_is_asked() {
        let file = || File::open("/dev/null").unwrap();
        for flags in [4, 8, 16, 1 << 20] {
            assert_eq!(swap(file(), file(), (1, 1), flags), Err(EOPNOTSUPP), "{flags}");
        }
        assert_eq!(swap(file(), file(), (0, 1), 3), Err(EINVAL));
        assert_eq!(llapi_get_data_version(-1, null(), 0), -libc::EBADF);
        assert_eq!(llapi_swap_layouts(text(c"/"), text(c"/"), 0, 0, 0), -libc::ENOTTY);
        assert_eq!(llapi_fswap_layouts(-1, -1, 0, 0, 0), -libc::EBADF);
    }
}
