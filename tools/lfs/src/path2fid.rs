//! `lfs path2fid`: identities of files, or the names that lead to them.

use crate::cli::Path2fidArgs;
use ask::{links, xattr};
use report::Report;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use types::about;

/// Prints the FID of each path (with -p its names, a tab between two); with several paths,
/// `PATH: FID`.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &Path2fidArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let end: &[u8] = if args.null { b"\0" } else { b"\n" };
    for path in &args.paths {
        match shown(args, path) {
            Ok(text) => {
                if args.paths.len() > 1 {
                    out.write_all(path.as_os_str().as_bytes())?;
                    out.write_all(b": ")?;
                }
                out.write_all(&text)?;
                out.write_all(end)?;
            }
            Err(error) => report.failed(&format!("can't get FID of '{}'", path.display()), &error),
        }
    }
    Ok(())
}

fn shown(args: &Path2fidArgs, path: &Path) -> io::Result<Vec<u8>> {
    let fid = xattr::get_text(path, about::FID)?;
    if !args.parents {
        return Ok(fid.into_bytes());
    }
    let fid = fid.parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let mut text = Vec::new();
    for (parent, name) in links::known(path, fid)? {
        if !text.is_empty() {
            text.push(b'\t');
        }
        text.extend_from_slice(format!("{parent}/").as_bytes());
        text.extend_from_slice(&name);
    }
    Ok(text)
}
