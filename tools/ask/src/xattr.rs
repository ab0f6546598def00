//! Reading and writing extended attributes whole.

use rustix::fs::XattrFlags;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use types::limits::XATTR_VALUE_BYTES_MAX;

/// Layout of a file, default layout of a directory.
pub const LOV: &str = "lustre.lov";
/// Components behind those that a file has; only to be written.
pub const LOV_ADD: &str = "lustre.lov.add";
/// Only written: the number of the first component that goes, 4 bytes, little-endian; 0: all at the
/// end that have no objects.
pub const LOV_DEL: &str = "lustre.lov.del";
/// The file system's default layout, on anything.
pub const LOV_DEFAULT: &str = "lustre.lov.default";

/// Reads one value; a symbolic link is not followed.
///
/// # Errors
/// Those of lgetxattr(2).
pub fn get(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; XATTR_VALUE_BYTES_MAX];
    let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// As [`get`], for text.
///
/// # Errors
/// As [`get`]; InvalidData: not UTF-8.
pub fn get_text(path: &Path, name: &str) -> io::Result<String> {
    String::from_utf8(get(path, name)?).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// As [`get`], of an open file.
///
/// # Errors
/// Those of fgetxattr(2).
pub fn get_of_open(file: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; XATTR_VALUE_BYTES_MAX];
    let len = rustix::fs::fgetxattr(file, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// As [`get_of_open`], for text.
///
/// # Errors
/// As [`get_of_open`]; InvalidData: not UTF-8.
pub fn get_text_of_open(file: impl AsFd, name: &str) -> io::Result<String> {
    String::from_utf8(get_of_open(file, name)?)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Sets one of an open file.
///
/// # Errors
/// Those of fsetxattr(2).
pub fn set_of_open(file: impl AsFd, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())?)
}

/// Sets one; a symbolic link is not followed.
///
/// # Errors
/// Those of lsetxattr(2).
pub fn set(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?)
}

/// Removes one; a symbolic link is not followed.
///
/// # Errors
/// Those of lremovexattr(2).
pub fn remove(path: &Path, name: &str) -> io::Result<()> {
    Ok(rustix::fs::lremovexattr(path, name)?)
}
