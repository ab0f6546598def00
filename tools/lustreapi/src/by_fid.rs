//! Files that are known by their FIDs: names, opening, removing. The mount answers only root.

use crate::abi::{FidArray, LuFid};
use crate::door::{Answer, EINVAL, Failure, Place, Text, negative, open_file};
use crate::{fids, whereabouts};
use ask::links;
use ask::mounts::Mount;
use rustix::fs::{Mode, OFlags};
use std::ffi::{c_char, c_int, c_longlong, c_uint};
use std::os::fd::IntoRawFd;
use types::errno::Errno;
use types::fid::Fid;

/// FIDs of one `llapi_rmfid`, at most.
const FIDS_MAX: u32 = 65_536;

/// A path of a file below the root, by its FID.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fid2path(
    path_or_device: Text,
    fidstr: Text,
    path: Place<c_char>,
    pathlen: c_int,
    _recno: Place<c_longlong>,
    linkno: Place<c_int>,
) -> c_int {
    negative(|| {
        let mount = whereabouts::of_word(path_or_device.str()?)?;
        let fid = fidstr.str()?.trim().parse().map_err(|_| EINVAL)?;
        name_of(&mount, fid, path, pathlen, linkno)
    })
}

/// As [`llapi_fid2path`], the mount by a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fid2path_at(
    mnt_fd: c_int,
    fid: Place<LuFid>,
    path_buf: Place<c_char>,
    path_buf_size: c_int,
    _recno: Place<c_longlong>,
    linkno: Place<c_int>,
) -> c_int {
    negative(|| {
        let mount = whereabouts::of_descriptor(mnt_fd)?;
        name_of(&mount, fid.get()?.into(), path_buf, path_buf_size, linkno)
    })
}

fn name_of(
    mount: &Mount,
    fid: Fid,
    path: Place<c_char>,
    len: c_int,
    linkno: Place<c_int>,
) -> Answer<c_int> {
    let len = usize::try_from(len).map_err(|_| EINVAL)?;
    let wanted = if linkno.is_null() { 0 } else { linkno.get()? };
    let n = usize::try_from(wanted).map_err(|_| EINVAL)?;
    let paths = links::paths(mount, fid)?;
    let found = paths.get(n).ok_or(Failure(Errno::ENODATA))?;
    // The root has no name: a slash stands for it.
    let shown: &[u8] = if found.is_empty() { b"/" } else { found };
    path.put_text(len, shown, Errno::EOVERFLOW)?;
    if n + 1 < paths.len() {
        linkno.put_if_wanted(wanted + 1);
    }
    Ok(0)
}

/// Name `linkno` of a path's file, and the FID of the folder that it is in.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_path2parent(
    path: Text,
    linkno: c_uint,
    parent_fid: Place<LuFid>,
    name: Place<c_char>,
    name_size: usize,
) -> c_int {
    negative(|| {
        let path = path.path()?;
        let fid = fids::of_path(path)?;
        let mount = whereabouts::of_path(whereabouts::parent(path))?;
        parent_of(&mount, fid, linkno, parent_fid, name, name_size)
    })
}

/// As [`llapi_path2parent`], of an open file.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_fd2parent(
    fd: c_int,
    linkno: c_uint,
    parent_fid: Place<LuFid>,
    name: Place<c_char>,
    name_size: usize,
) -> c_int {
    negative(|| {
        let mount = whereabouts::of_descriptor(fd)?;
        parent_of(&mount, fids::of_open(open_file(fd)?)?, linkno, parent_fid, name, name_size)
    })
}

fn parent_of(
    mount: &Mount,
    fid: Fid,
    linkno: c_uint,
    parent_fid: Place<LuFid>,
    name: Place<c_char>,
    name_size: usize,
) -> Answer<c_int> {
    let known = links::known(&mount.dir, fid)?;
    let (parent, link) = known.get(linkno as usize).ok_or(Failure(Errno::ENODATA))?;
    if !name.is_null() {
        name.put_text(name_size, link, Errno::EOVERFLOW)?;
    }
    parent_fid.put((*parent).into())?;
    Ok(0)
}

/// Opens a file by its FID. `dir`: anything on the mount.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_open_by_fid(dir: Text, fid: Place<LuFid>, open_flags: c_int) -> c_int {
    negative(|| opened(&whereabouts::of_path(dir.path()?)?, fid.get()?.into(), open_flags))
}

/// As [`llapi_open_by_fid`]; AT_FDCWD: the current folder.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_open_by_fid_at(
    at_fd: c_int,
    fid: Place<LuFid>,
    open_flags: c_int,
) -> c_int {
    negative(|| {
        let mount = match at_fd {
            libc::AT_FDCWD => whereabouts::of_path(std::path::Path::new("."))?,
            fd => whereabouts::of_descriptor(fd)?,
        };
        opened(&mount, fid.get()?.into(), open_flags)
    })
}

fn opened(mount: &Mount, fid: Fid, flags: c_int) -> Answer<c_int> {
    // A file with a known FID exists.
    let flags = OFlags::from_bits_retain(flags as u32).difference(OFlags::CREATE | OFlags::EXCL);
    let path = mount.dir.join(".lustre/fid").join(fid.to_string());
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into_raw_fd())
}

/// Removes all names of files.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_rmfid(path: Text, fa: Place<FidArray>) -> c_int {
    negative(|| {
        let mount = whereabouts::of_path(path.path()?)?;
        let count = fa.get()?.nr;
        if count > FIDS_MAX {
            return Err(Failure(Errno::E2BIG));
        }
        let fids: Place<LuFid> = fa.behind(size_of::<FidArray>());
        let mut first = None;
        for n in 0..count as usize {
            let fid = fids.get_nth(n)?;
            let failure =
                links::remove(&mount, Fid { ver: 0, ..fid.into() }).err().map(Failure::from);
            let told = failure.map_or(0, |Failure(errno)| -errno.0);
            fids.put_nth(n, LuFid { ver: told as u32, ..fid })?;
            first = first.or(failure);
        }
        first.map_or(Ok(0), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, null_text, place, text};

    #[test]
    fn what_cannot_be_asked_is_told() {
        let mut fid = LuFid { seq: 0x2_0000_0401, oid: 2, ver: 0 };
        let mut room = [0; 8];
        let room = crate::door::testing::places(&mut room);
        assert_eq!(
            llapi_fid2path(null_text(), text(c"0x1:0x2:0x0"), room, 8, null(), null()),
            -libc::EINVAL
        );
        assert_eq!(
            llapi_fid2path(text(c"/"), text(c"0x1:0x2:0x0"), null(), 8, null(), null()),
            -libc::ENOTTY
        );
        assert_eq!(llapi_open_by_fid(text(c"/"), place(&mut fid), libc::O_RDONLY), -libc::ENOTTY);
        assert_eq!(llapi_open_by_fid_at(-5, place(&mut fid), libc::O_RDONLY), -libc::EBADF);
        assert_eq!(llapi_rmfid(text(c"/"), null()), -libc::ENOTTY);
        assert_eq!(llapi_path2parent(text(c"/"), 0, place(&mut fid), null(), 0), -libc::ENOTTY);
        assert_eq!(llapi_fd2parent(9999, 0, place(&mut fid), null(), 0), -libc::EBADF);
    }
}
