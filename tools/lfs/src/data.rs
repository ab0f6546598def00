//! `lfs data_version` and `lfs swap_layouts`: versions of files, and the exchange of their data.

use crate::cli::{DataVersionArgs, SwapLayoutsArgs};
use ask::{mounts, versions, xattr};
use report::Report;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use types::errno::Errno;

/// Versions move under a swap when dirty data is stored for it: then it is tried again, this many
/// times.
const ATTEMPTS: u32 = 5;
/// A file that was just closed counts as open for writing until its MDT has the close.
const CLOSING: Duration = Duration::from_millis(20);

/// Prints the version of each file.
///
/// # Errors
/// `out` cannot be written.
pub fn show_version(
    args: &DataVersionArgs,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for path in &args.paths {
        let found = mounts::mount_of(path).and_then(|_| match args.none {
            true => versions::version(path),
            false => versions::stored_version(path),
        });
        match found {
            Ok(version) => writeln!(out, "{version}")?,
            Err(error) => {
                report.failed(&format!("can't get version of '{}'", path.display()), &error)
            }
        }
    }
    Ok(())
}

/// Two files exchange their data.
pub fn swap_layouts(args: &SwapLayoutsArgs, report: &mut Report<'_>) {
    let (a, b) = (&args.file, &args.other);
    if let Err(error) = swap(a, b) {
        report.failed(
            &format!("can't swap layouts of '{}' and '{}'", a.display(), b.display()),
            &error,
        );
    }
}

fn swap(a: &Path, b: &Path) -> io::Result<()> {
    mounts::mount_of(a)?;
    mounts::mount_of(b)?;
    let before = xattr::get(a, xattr::LOV)?;
    let mut attempt = 1;
    loop {
        let both = (versions::stored_version(a)?, versions::stored_version(b)?);
        match versions::exchange(a, b, both, false) {
            // The answer may have been lost, not the deed.
            Err(_) if attempt > 1 && xattr::get(a, xattr::LOV)? != before => return Ok(()),
            Err(error) if attempt < ATTEMPTS && is_passing(&error) => {
                std::thread::sleep(CLOSING * attempt)
            }
            result => return result,
        }
        attempt += 1;
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno) if errno == Errno::EAGAIN.0 || errno == Errno::EBUSY.0)
}
