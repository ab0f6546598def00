//! `lfs data_version` and `lfs swap_layouts`: versions of files, and the exchange of their data.

use crate::cli::{DataVersionArgs, SwapLayoutsArgs};
use crate::{about, xattr};
use report::Report;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use types::about::{DATA_VERSION, FID, SWAP_LAYOUTS, SwapLine};
use types::errno::Errno;

/// Versions move under a swap when what was written is stored for it: then it is tried again, so often.
const ATTEMPTS: u32 = 5;
/// A file that was just closed counts as open to be written until its MDT has heard of it.
const CLOSING: Duration = Duration::from_millis(20);

/// Prints the version of each file.
///
/// # Errors
/// `out` cannot be written.
pub fn show_version(args: &DataVersionArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    for path in &args.paths {
        let found = about::mount_of(path).and_then(|_| match args.none {
            true => version(path),
            false => stored_version(path),
        });
        match found {
            Ok(version) => writeln!(out, "{version}")?,
            Err(error) => report.failed(&format!("can't get version of '{}'", path.display()), &error),
        }
    }
    Ok(())
}

/// Version of a file, after what this mount has written is stored.
///
/// # Errors
/// Those of open(2), fsync(2); EINVAL: no regular file.
pub fn stored_version(path: &Path) -> io::Result<u64> {
    File::open(path)?.sync_all()?;
    version(path)
}

fn version(path: &Path) -> io::Result<u64> {
    let text = xattr::get_text(path, DATA_VERSION)?;
    text.trim_end().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Two files exchange their data.
pub fn swap_layouts(args: &SwapLayoutsArgs, report: &mut Report<'_>) {
    let (a, b) = (&args.file, &args.other);
    if let Err(error) = swap(a, b) {
        report.failed(&format!("can't swap layouts of '{}' and '{}'", a.display(), b.display()), &error);
    }
}

fn swap(a: &Path, b: &Path) -> io::Result<()> {
    about::mount_of(a)?;
    about::mount_of(b)?;
    let before = xattr::get(a, xattr::LOV)?;
    let mut attempt = 1;
    loop {
        let versions = (stored_version(a)?, stored_version(b)?);
        match exchange(a, b, versions, false) {
            // The answer may have been lost, not the deed.
            Err(_) if attempt > 1 && xattr::get(a, xattr::LOV)? != before => return Ok(()),
            Err(error) if attempt < ATTEMPTS && is_passing(&error) => std::thread::sleep(CLOSING * attempt),
            result => return result,
        }
        attempt += 1;
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno) if errno == Errno::EAGAIN.0 || errno == Errno::EBUSY.0)
}

/// Asks the MDT once; both are on one mount. Versions of 0 are not compared.
///
/// # Errors
/// EAGAIN: versions or (of `same` contents) sizes differ; EBUSY: one is open to be written; EPERM; EXDEV.
pub fn exchange(a: &Path, b: &Path, versions: (u64, u64), same: bool) -> io::Result<()> {
    let other = xattr::get_text(b, FID)?.parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let line = SwapLine { other, versions, same }.to_string();
    xattr::set(a, SWAP_LAYOUTS, line.as_bytes()).map_err(|error| match error.raw_os_error() {
        // What the mount says for EAGAIN, which setxattr(2) cannot.
        Some(errno) if errno == Errno::ECANCELED.0 => io::Error::from_raw_os_error(Errno::EAGAIN.0),
        _ => error,
    })
}
