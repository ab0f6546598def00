//! Versions of files, and the exchange of their data.

use crate::xattr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use types::about::{DATA_VERSION, FID, SWAP_LAYOUTS, SwapLine};
use types::errno::Errno;

/// Version of a file, as far as it was stored.
///
/// # Errors
/// EINVAL: no regular file.
pub fn version(path: &Path) -> io::Result<u64> {
    parsed(&xattr::get_text(path, DATA_VERSION)?)
}

/// As [`version`], of an open file.
///
/// # Errors
/// As [`version`].
pub fn version_of_open(file: impl AsFd) -> io::Result<u64> {
    parsed(&xattr::get_text_of_open(file, DATA_VERSION)?)
}

fn parsed(text: &str) -> io::Result<u64> {
    text.trim_end().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Version of a file, after what this mount has written is stored.
///
/// # Errors
/// Those of open(2), fsync(2); EINVAL: no regular file.
pub fn stored_version(path: &Path) -> io::Result<u64> {
    File::open(path)?.sync_all()?;
    version(path)
}

/// Asks the MDT once; both are on one mount. Versions of 0 are not compared.
///
/// # Errors
/// EAGAIN: versions or (of `same` contents) sizes differ; EBUSY: one is open to be written; EPERM;
/// EXDEV.
pub fn exchange(a: &Path, b: &Path, versions: (u64, u64), same: bool) -> io::Result<()> {
    let line = line(&xattr::get_text(b, FID)?, versions, same)?;
    xattr::set(a, SWAP_LAYOUTS, line.as_bytes()).map_err(changed)
}

/// As [`exchange`], of open files.
///
/// # Errors
/// As [`exchange`].
pub fn exchange_open(
    a: impl AsFd,
    b: impl AsFd,
    versions: (u64, u64),
    same: bool,
) -> io::Result<()> {
    let line = line(&xattr::get_text_of_open(b, FID)?, versions, same)?;
    xattr::set_of_open(a, SWAP_LAYOUTS, line.as_bytes()).map_err(changed)
}

fn line(other: &str, versions: (u64, u64), same: bool) -> io::Result<String> {
    let other = other.parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    Ok(SwapLine { other, versions, same }.to_string())
}

/// The mount's error for EAGAIN, which setxattr(2) cannot return.
fn changed(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) if errno == Errno::ECANCELED.0 => io::Error::from_raw_os_error(Errno::EAGAIN.0),
        _ => error,
    }
}
