//! FIDs of files, and FIDs as text.

use crate::abi::LuFid;
use crate::door::{Answer, EINVAL, ENOTTY, Failure, Place, Text, negative, open_file};
use ask::xattr;
use std::ffi::{c_char, c_int};
use std::os::fd::AsFd;
use std::path::Path;
use types::about::FID;
use types::errno::Errno;
use types::fid::Fid;

/// FID of a file; of a symbolic link, its own.
///
/// # Errors
/// ENOTTY: the path is not on a SheenFS; other errors are those of the path.
pub fn of_path(path: &Path) -> Answer<Fid> {
    parsed(xattr::get_text(path, FID).map_err(Failure::from))
}

/// FID of an open file.
///
/// # Errors
/// As [`of_path`].
pub fn of_open(file: impl AsFd) -> Answer<Fid> {
    parsed(xattr::get_text_of_open(file, FID).map_err(Failure::from))
}

fn parsed(told: Answer<String>) -> Answer<Fid> {
    match told {
        Ok(text) => text.trim_end().parse().map_err(|_| Failure(Errno::EIO)),
        // Every file of SheenFS has one.
        Err(Failure(Errno::EOPNOTSUPP | Errno::ENODATA | Errno::EPERM)) => Err(ENOTTY),
        Err(failure) => Err(failure),
    }
}

/// FID of a path.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_path2fid(path: Text, fid: Place<LuFid>) -> c_int {
    negative(|| {
        fid.put(of_path(path.path()?)?.into())?;
        Ok(0)
    })
}

/// FID of a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fd2fid(fd: c_int, fid: Place<LuFid>) -> c_int {
    negative(|| {
        fid.put(of_open(open_file(fd)?)?.into())?;
        Ok(0)
    })
}

/// The FID at the start of a text, in brackets or not; `*endptr`: what follows it.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fid_parse(
    fidstr: Text,
    fid: Place<LuFid>,
    endptr: Place<*mut c_char>,
) -> c_int {
    negative(|| {
        endptr.put_if_wanted(fidstr.at(0));
        let (found, used) = first_fid(fidstr.bytes().ok_or(EINVAL)?).ok_or(EINVAL)?;
        fid.put(found.into())?;
        endptr.put_if_wanted(fidstr.at(used));
        Ok(0)
    })
}

/// The FID that a text begins with, and how many bytes it takes.
fn first_fid(text: &[u8]) -> Option<(Fid, usize)> {
    let part = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b'x' | b'X' | b':');
    let used = match text.first()? {
        b'[' => text.iter().position(|b| *b == b']')? + 1,
        _ => text.iter().position(|b| !part(b)).unwrap_or(text.len()),
    };
    let fid = std::str::from_utf8(&text[..used]).ok()?.parse().ok()?;
    Some((fid, used))
}

/// MDT that a FID belongs to.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_mdt_index_by_fid(
    fd: c_int,
    fid: Place<LuFid>,
    mdt_index: Place<c_int>,
) -> c_int {
    negative(|| {
        crate::whereabouts::of_descriptor(fd)?;
        mdt_index.put(c_int::from(Fid::from(fid.get()?).mdt()))?;
        Ok(0)
    })
}

/// MDT that an open file is on.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_fget_mdtidx(fd: c_int, mdtidx: Place<c_int>) -> c_int {
    negative(|| {
        mdtidx.put(c_int::from(of_open(open_file(fd)?)?.mdt()))?;
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{errno, null, null_text, place, text};

    #[test]
    fn texts_begin_with_fids_or_do_not() {
        let fid = Fid { seq: 0x2_0000_0401, oid: 2, ver: 0 };
        for (words, used) in [
            ("[0x200000401:0x2:0x0]", 21),
            ("[0x200000401:0x2:0x0]/name", 21),
            ("0x200000401:0x2:0x0", 19),
            ("0x200000401:0x2:0x0 rest", 19),
        ] {
            assert_eq!(first_fid(words.as_bytes()), Some((fid, used)), "{words}");
        }
        for words in
            ["", "[", "[]", "x", "[0x1:0x2]", "0x1:0x2", "[0x1:0x100000000:0x0]", "0x1:0x2:0x3:0x4"]
        {
            assert_eq!(first_fid(words.as_bytes()), None, "{words}");
        }
    }

    #[test]
    fn c_gets_the_fid_and_what_follows() {
        let (mut fid, mut end) = (LuFid::default(), std::ptr::null_mut());
        let words = c"[0x200000401:0x2:0x0] x";
        assert_eq!(llapi_fid_parse(text(words), place(&mut fid), place(&mut end)), 0);
        assert_eq!((Fid::from(fid).oid, end as usize - words.as_ptr() as usize), (2, 21));
        assert_eq!(llapi_fid_parse(text(words), place(&mut fid), null()), 0);
        assert_eq!(llapi_fid_parse(text(c"none"), place(&mut fid), place(&mut end)), -libc::EINVAL);
        assert_eq!(llapi_fid_parse(null_text(), place(&mut fid), null()), -libc::EINVAL);
        assert_eq!(llapi_fid_parse(text(words), null(), null()), -libc::EINVAL);
    }

    #[test]
    fn files_elsewhere_have_none() {
        let mut fid = LuFid::default();
        let dir = tempfile::tempdir().unwrap();
        let path = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
        assert_eq!(
            (llapi_path2fid(text(&path), place(&mut fid)), errno()),
            (-libc::ENOTTY, libc::ENOTTY)
        );
        assert_eq!(llapi_path2fid(text(c"/nonexistent"), place(&mut fid)), -libc::ENOENT);
        assert_eq!(llapi_fd2fid(-1, place(&mut fid)), -libc::EBADF);
        assert_eq!(llapi_fd2fid(9999, place(&mut fid)), -libc::EBADF);
    }
}
