//! `lfs path2fid`: identities of files.

use crate::cli::Path2fidArgs;
use crate::xattr;
use report::Report;
use std::io::{self, Write};
use types::about;

/// Prints the FID of each path; with several, `PATH: FID`.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &Path2fidArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    for path in &args.paths {
        match xattr::get_text(path, about::FID) {
            Ok(fid) if args.paths.len() > 1 => writeln!(out, "{}: {fid}", path.display())?,
            Ok(fid) => writeln!(out, "{fid}")?,
            Err(error) => report.failed(&format!("can't get FID of '{}'", path.display()), &error),
        }
    }
    Ok(())
}
