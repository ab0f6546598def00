//! The mounts, and the one that a path or descriptor is on.

use crate::abi::{FSNAME_BYTES, PATH_BYTES};
use crate::door::{Answer, ENOTTY, Failure, Place, Text, negative, open_file, plain};
use ask::mounts::{self, Mount};
use std::ffi::{c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use types::errno::Errno;

/// The mount that a path is on.
///
/// # Errors
/// ENOTTY: on none; other errors are those of the path.
pub fn of_path(path: &Path) -> Answer<Mount> {
    mounts::mount_of(path).map_err(not_ours)
}

/// As [`of_path`]; for a path that does not exist, the mount of its folder.
///
/// # Errors
/// As [`of_path`].
pub fn of_future_path(path: &Path) -> Answer<Mount> {
    match of_path(path) {
        Err(Failure(Errno::ENOENT)) => of_path(parent(path)),
        found => found,
    }
}

/// The folder that a path is in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The mount that a descriptor is on.
///
/// # Errors
/// ENOTTY: on none; EBADF.
pub fn of_descriptor(fd: c_int) -> Answer<Mount> {
    mounts::mount_of_open(open_file(fd)?).map_err(not_ours)
}

/// The mount that a path or the name of a file system means.
///
/// # Errors
/// ENODEV: there is no such file system; as [`of_path`].
pub fn of_word(word: &str) -> Answer<Mount> {
    let path = Path::new(word);
    if word.contains('/') || path.exists() { of_path(path) } else { Ok(mounts::named(word)?) }
}

fn not_ours(error: io::Error) -> Failure {
    match Failure::from(error) {
        Failure(Errno::EOPNOTSUPP) => ENOTTY,
        failure => failure,
    }
}

/// The file system of a path that need not exist yet.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_search_fsname(pathname: Text, fsname: Place<c_char>) -> c_int {
    negative(|| {
        let mount = of_future_path(pathname.path()?)?;
        fsname.put_text(FSNAME_BYTES, mount.names.fsname.as_str().as_bytes(), Errno::EOVERFLOW)?;
        Ok(0)
    })
}

/// Mount `index` of those that a path is on (at most one), or of all. -ENOENT: there are no more.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_search_mounts(
    pathname: Text,
    index: c_int,
    mntdir: Place<c_char>,
    fsname: Place<c_char>,
) -> c_int {
    negative(|| {
        let n = usize::try_from(index).map_err(|_| Failure(Errno::EINVAL))?;
        let none = Failure(Errno::ENOENT);
        let (dir, name) = match pathname.bytes() {
            None | Some([]) => mounts::listed()?.into_iter().nth(n).ok_or(none)?,
            Some(_) if n > 0 => return Err(none),
            Some(_) => {
                let mount = of_future_path(pathname.path()?)
                    .map_err(|e| if e == ENOTTY { none } else { e })?;
                (mount.dir, mount.names.fsname.to_string())
            }
        };
        if !mntdir.is_null() {
            mntdir.put_text(PATH_BYTES, dir.as_os_str().as_bytes(), Errno::ENAMETOOLONG)?;
        }
        if !fsname.is_null() {
            fsname.put_text(FSNAME_BYTES, name.as_bytes(), Errno::EOVERFLOW)?;
        }
        Ok(0)
    })
}

/// Directory that a file system is mounted on. -ENODEV: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_search_rootpath(pathname: Place<c_char>, fsname: Text) -> c_int {
    negative(|| {
        let mount = mounts::named(fsname.str()?)?;
        pathname.put_text(PATH_BYTES, mount.dir.as_os_str().as_bytes(), Errno::ENAMETOOLONG)?;
        Ok(0)
    })
}

/// File system and number of the mount: `sheen-00007f0000000001`.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_getname(path: Text, buf: Place<c_char>, size: usize) -> c_int {
    negative(|| {
        let names = of_path(path.path()?)?.names;
        let text = format!("{}-{:016x}", names.fsname, names.instance);
        buf.put_text(size, text.as_bytes(), Errno::ENAMETOOLONG)?;
        Ok(0)
    })
}

/// The file system that a path is on.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_fsname(path: Text, fsname: Place<c_char>, fsname_len: usize) -> c_int {
    negative(|| {
        let names = of_path(path.path()?)?.names;
        fsname.put_text(fsname_len, names.fsname.as_str().as_bytes(), Errno::ENAMETOOLONG)?;
        Ok(0)
    })
}

/// The number of the mount that a path is on, 16 hexadecimal digits.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_instance(
    path: Text,
    instance: Place<c_char>,
    instance_len: usize,
) -> c_int {
    negative(|| {
        let names = of_path(path.path()?)?.names;
        let text = format!("{:016x}", names.instance);
        instance.put_text(instance_len, text.as_bytes(), Errno::ENAMETOOLONG)?;
        Ok(0)
    })
}

/// Both of them.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_fsname_instance(
    path: Text,
    fsname: Place<c_char>,
    fsname_len: usize,
    instance: Place<c_char>,
    instance_len: usize,
) -> c_int {
    match llapi_get_fsname(path, fsname, fsname_len) {
        0 => llapi_get_instance(path, instance, instance_len),
        error => error,
    }
}

/// 1: mounts of this type are SheenFS's.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_is_lustre_mnttype(mount_type: Text) -> c_int {
    plain(0, || c_int::from(mount_type.bytes() == Some(mountinfo::TYPE.as_bytes())))
}

/// The fields of getmntent(3) that are needed here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MountEntry {
    source: Text,
    dir: Text,
    mount_type: Text,
}

/// 1: this mount is a SheenFS.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_is_lustre_mnt(mnt: Place<MountEntry>) -> c_int {
    plain(0, || mnt.get().map_or(0, |entry| llapi_is_lustre_mnttype(entry.mount_type)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, null_text, text};

    #[test]
    fn what_is_elsewhere_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(of_path(dir.path()).unwrap_err(), ENOTTY);
        assert_eq!(of_future_path(&dir.path().join("new")).unwrap_err(), ENOTTY);
        assert_eq!(of_future_path(&dir.path().join("no/new")).unwrap_err(), Failure(Errno::ENOENT));
        assert_eq!(of_descriptor(-1).unwrap_err(), Failure(Errno::EBADF));
        assert_eq!(of_word("nosuchfs").unwrap_err(), Failure(Errno::ENODEV));
        assert_eq!(parent(Path::new("a")), Path::new("."));
        assert_eq!(llapi_search_mounts(text(c"/"), 0, null(), null()), -libc::ENOENT);
        assert_eq!(llapi_search_mounts(null_text(), -1, null(), null()), -libc::EINVAL);
        assert_eq!(llapi_getname(null_text(), null(), 0), -libc::EINVAL);
    }

    #[test]
    fn mounts_are_known_by_their_type() {
        let known = |name| llapi_is_lustre_mnttype(text(name));
        assert_eq!((known(c"fuse.sheen"), known(c"ext4"), known(c"")), (1, 0, 0));
        assert_eq!(llapi_is_lustre_mnttype(null_text()), 0);
        assert_eq!(llapi_is_lustre_mnt(null()), 0);
    }
}
