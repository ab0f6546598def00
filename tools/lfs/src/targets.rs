//! `lfs osts`, `lfs mdts`: the targets of a mount.

use crate::chosen;
use crate::cli::MountsArgs;
use report::Report;
use std::io::{self, Write};
use types::target::{TargetKind, TargetName};

/// Prints the OSTs of each mount.
///
/// # Errors
/// `out` cannot be written.
pub fn osts(args: &MountsArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    list(args, TargetKind::Ost, "OBDS:", out, report)
}

/// Prints the MDTs of each mount.
///
/// # Errors
/// `out` cannot be written.
pub fn mdts(args: &MountsArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    list(args, TargetKind::Mdt, "MDTS:", out, report)
}

fn list(
    args: &MountsArgs,
    kind: TargetKind,
    title: &str,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for mount in chosen::mounts(&args.path.iter().cloned().collect::<Vec<_>>(), report) {
        match mount.targets(kind) {
            Ok(indexes) => {
                writeln!(out, "{title}")?;
                for (index, active) in indexes {
                    let name = TargetName { fsname: mount.names.fsname, kind, index };
                    writeln!(
                        out,
                        "{}: {name}_UUID {}",
                        index.0,
                        if active { "ACTIVE" } else { "INACTIVE" }
                    )?;
                }
            }
            Err(error) => {
                report.failed(&format!("can't list targets of '{}'", mount.dir.display()), &error)
            }
        }
    }
    Ok(())
}
