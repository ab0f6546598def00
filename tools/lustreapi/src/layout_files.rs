//! Layouts of files: read, and given to new ones.

use crate::abi::LuFid;
use crate::door::{
    Answer, EINVAL, EOPNOTSUPP, Failure, Owned, Place, Text, boxed, minus_one, open_file,
};
use crate::files::{open, serves};
use crate::layout_value::Layout;
use crate::whereabouts;
use ask::xattr;
use layout::lov_ea::{LovEa, decode, encode_spec};
use std::ffi::{c_int, c_uint};
use std::os::fd::IntoRawFd;
use std::path::Path;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::XATTR_VALUE_BYTES_MAX;

/// `LLAPI_LAYOUT_GET_EXPECTED`
const EXPECTED: c_uint = 1;
/// `LLAPI_LAYOUT_GET_COPY`
const COPY: c_uint = 2;
/// All flags.
const FLAGS: c_uint = 7;

/// Value of an attribute. With `expected`, the default of the file system is used if there is none.
fn read(
    value: std::io::Result<Vec<u8>>,
    flags: c_uint,
    expected: impl FnOnce() -> std::io::Result<Vec<u8>>,
) -> Answer<Layout> {
    if flags & !FLAGS != 0 {
        return Err(EINVAL);
    }
    let (bytes, own) = match value.map_err(Failure::from) {
        Ok(bytes) => (bytes, true),
        Err(Failure(Errno::ENODATA)) if flags & EXPECTED != 0 => (expected()?, false),
        Err(Failure(Errno::ENODATA)) => (Vec::new(), false),
        Err(failure) => return Err(failure),
    };
    let ea = decode(&bytes).map_err(|_| Failure(Errno::EIO))?;
    Ok(shaped(ea, flags, own))
}

fn shaped(ea: LovEa, flags: c_uint, own: bool) -> Layout {
    if flags & COPY != 0 { Layout::of(&ea.shape(), false) } else { Layout::of(&ea, own) }
}

fn of_path(path: &Path, flags: c_uint) -> Answer<Layout> {
    let path = match path.canonicalize() {
        // The layout that a file would get here; it does not exist yet.
        Err(error) if flags & EXPECTED != 0 && error.kind() == std::io::ErrorKind::NotFound => {
            whereabouts::parent(path).canonicalize()?
        }
        path => path?,
    };
    whereabouts::of_path(&path)?;
    read(xattr::get(&path, xattr::LOV), flags, || xattr::get(&path, xattr::LOV_DEFAULT))
}

/// Layout of a file, or default layout of a directory, by path.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_get_by_path(path: Text, flags: c_uint) -> Owned<Layout> {
    boxed(|| of_path(path.path()?, flags))
}

/// The same by descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_get_by_fd(fd: c_int, flags: c_uint) -> Owned<Layout> {
    boxed(|| {
        whereabouts::of_descriptor(fd)?;
        let file = open_file(fd)?;
        read(xattr::get_of_open(file, xattr::LOV), flags, || {
            xattr::get_of_open(file, xattr::LOV_DEFAULT)
        })
    })
}

/// The same by FID; `path`: anything on the mount. For root.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_get_by_fid(
    path: Text,
    fid: Place<LuFid>,
    flags: c_uint,
) -> Owned<Layout> {
    boxed(|| {
        let mount = whereabouts::of_path(path.path()?)?;
        let file = mount.dir.join(".lustre/fid").join(Fid::from(fid.get()?).to_string());
        read(xattr::get(&file, xattr::LOV), flags, || xattr::get(&mount.dir, xattr::LOV_DEFAULT))
    })
}

/// From the bytes of `lustre.lov`. EINVAL: they are no layout.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_get_by_xattr(
    lov_xattr: Place<u8>,
    size: libc::ssize_t,
    flags: c_uint,
) -> Owned<Layout> {
    boxed(|| {
        let size =
            usize::try_from(size).ok().filter(|n| *n <= XATTR_VALUE_BYTES_MAX).ok_or(EINVAL)?;
        if flags & !FLAGS != 0 {
            return Err(EINVAL);
        }
        let ea = decode(&lov_xattr.get_all(size)?).map_err(|_| EINVAL)?;
        let instantiated = ea.layout.components.iter().any(|c| !c.stripes.is_empty());
        Ok(shaped(ea, flags, instantiated))
    })
}

fn opened(path: Text, flags: c_int, mode: u32, layout: Owned<Layout>) -> Answer<c_int> {
    let path = path.path()?;
    let wish = layout.get_if_any().map(Layout::wish).transpose()?;
    open(path, flags, mode, wish.as_ref()).map(IntoRawFd::into_raw_fd)
}

/// Opens a file that has, or gets, this layout.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_file_open(
    path: Text,
    open_flags: c_int,
    mode: libc::mode_t,
    layout: Owned<Layout>,
) -> c_int {
    minus_one(|| opened(path, open_flags, mode, layout))
}

/// Makes a file with this layout. EEXIST: there is one.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_file_create(
    path: Text,
    open_flags: c_int,
    mode: c_int,
    layout: Owned<Layout>,
) -> c_int {
    minus_one(|| opened(path, open_flags | libc::O_CREAT | libc::O_EXCL, mode as u32, layout))
}

/// Gives an empty file a layout, or a directory a default one.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_set_by_fd(fd: c_int, layout: Owned<Layout>) -> c_int {
    minus_one(|| {
        let mount = whereabouts::of_descriptor(fd)?;
        let file = open_file(fd)?;
        let wish = layout.get()?.wish()?;
        serves(&mount, &wish)?;
        let directory =
            rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_dir();
        if !wish.is_default() {
            xattr::set_of_open(file, xattr::LOV, &encode_spec(&wish))?;
        } else if directory {
            xattr::set_of_open(file, xattr::LOV, &[])?;
        }
        Ok(0)
    })
}

/// Adds components behind those that a file has; the first begins where the file's last ends.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_file_comp_add(path: Text, layout: Owned<Layout>) -> c_int {
    minus_one(|| {
        let (wish, path) = (layout.get()?.wish_behind()?, path.path()?);
        serves(&whereabouts::of_path(path)?, &wish)?;
        xattr::set(&path.canonicalize()?, xattr::LOV_ADD, &encode_spec(&wish))?;
        Ok(0)
    })
}

/// Removes components from the end of a file, with their bytes: from number `id` on, or with
/// `flags` LCME_FL_NEG | LCME_FL_INIT all that have no objects. EINVAL: neither or both, no such
/// component, or nothing would be left; EBUSY: one has objects, and the file is open for writing;
/// EOPNOTSUPP: other flags.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_layout_file_comp_del(path: Text, id: u32, flags: u32) -> c_int {
    minus_one(|| {
        let path = path.path()?;
        whereabouts::of_path(path)?;
        match (id, flags) {
            (0, 0) => return Err(EINVAL),
            (0, WITHOUT_OBJECTS) | (_, 0) => {}
            (0, _) => return Err(EOPNOTSUPP),
            _ => return Err(EINVAL),
        }
        xattr::set(&path.canonicalize()?, xattr::LOV_DEL, &id.to_le_bytes())?;
        Ok(0)
    })
}

/// `LCME_FL_NEG | LCME_FL_INIT`.
const WITHOUT_OBJECTS: u32 = 0x8000_0010;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{errno, nothing, null, null_text, places, text};
    use crate::layout_attributes::{llapi_layout_alloc, llapi_layout_free};
    use layout::lov_ea::encode;
    use layout::stripe_spec::default_layout;

    #[test]
    fn attributes_are_read_and_bad_ones_refused() {
        let mut bytes = encode(&default_layout(0), Fid::ROOT);
        let size = bytes.len() as libc::ssize_t;
        let layout = llapi_layout_get_by_xattr(places(&mut bytes), size, 0);
        assert_eq!(layout.get().unwrap().parts.len(), 2);
        llapi_layout_free(layout);
        for (bytes, size, flags) in [
            (places(&mut bytes), size - 1, 0),
            (places(&mut bytes), -1, 0),
            (places(&mut bytes), 65_537, 0),
            (places(&mut bytes), size, 8),
            (null(), size, 0),
        ] {
            assert!(llapi_layout_get_by_xattr(bytes, size, flags).get().is_err());
            assert_eq!(errno(), libc::EINVAL);
        }
    }

    #[test]
    fn a_directory_without_a_default_is_open_or_has_the_file_systems() {
        let none = || Err(std::io::Error::from_raw_os_error(libc::ENODATA));
        let expected = || Ok(encode(&default_layout(0), Fid::NONE));
        assert_eq!(read(none(), 0, expected), Ok(Layout::default()));
        assert_eq!(read(none(), EXPECTED, expected).unwrap().parts.len(), 2);
        assert_eq!(read(Ok(vec![1, 2, 3]), 0, expected), Err(Failure(Errno::EIO)));
        assert_eq!(read(none(), 8, expected), Err(EINVAL));
    }

    #[test]
    fn what_is_not_on_a_mount_of_ours_is_refused() {
        let refused = |layout: Owned<Layout>| layout.get().is_err().then(errno);
        assert_eq!(refused(llapi_layout_get_by_path(text(c"/"), 0)), Some(libc::ENOTTY));
        assert_eq!(refused(llapi_layout_get_by_path(text(c"/nonexistent"), 0)), Some(libc::ENOENT));
        assert_eq!(refused(llapi_layout_get_by_path(null_text(), 0)), Some(libc::EINVAL));
        assert_eq!(refused(llapi_layout_get_by_fd(-1, 0)), Some(libc::EBADF));
        assert_eq!(refused(llapi_layout_get_by_fid(text(c"/"), null(), 0)), Some(libc::ENOTTY));
        assert_eq!(
            (llapi_layout_file_open(text(c"/x"), 0, 0, nothing()), errno()),
            (-1, libc::ENOTTY)
        );
        let layout = llapi_layout_alloc();
        assert_eq!(
            (llapi_layout_file_create(text(c"/x"), 0, 0, layout), errno()),
            (-1, libc::ENOTTY)
        );
        assert_eq!((llapi_layout_set_by_fd(-1, layout), errno()), (-1, libc::EBADF));
        llapi_layout_free(layout);
    }
}
