//! `lfs check`: does each target answer?

use crate::chosen;
use crate::cli::{CheckArgs, Kinds};
use ask::mounts::Mount;
use report::{Report, strerror};
use std::io::{self, Write};
use types::about::SpaceLine;
use types::errno::Errno;
use types::target::{TargetKind, TargetName};

/// Prints a line for each target; one that does not answer is told and counts as a failure.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &CheckArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let kinds: &[TargetKind] = match args.kinds {
        Kinds::Osts => &[TargetKind::Ost],
        Kinds::Mdts => &[TargetKind::Mdt],
        Kinds::All => &[TargetKind::Mdt, TargetKind::Ost],
    };
    for mount in chosen::mounts(&args.path.iter().cloned().collect::<Vec<_>>(), report) {
        for kind in kinds {
            // Space is what every target answers.
            match mount.space(*kind) {
                Ok(lines) => lines.iter().try_for_each(|line| told(&mount, *kind, line, out, report))?,
                Err(error) => report.failed(&format!("can't check targets of '{}'", mount.dir.display()), &error),
            }
        }
    }
    Ok(())
}

fn told(
    mount: &Mount,
    kind: TargetKind,
    line: &SpaceLine,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let target = TargetName { fsname: mount.names.fsname, kind, index: line.index };
    let role = if kind == TargetKind::Mdt { "mdc" } else { "osc" };
    let name = format!("{target}-{role}-{:016x}", mount.names.instance);
    match line.space {
        Ok(_) => writeln!(out, "{name} active."),
        Err(Errno::ESHUTDOWN) => writeln!(out, "{name} inactive."),
        Err(errno) => {
            report.say(&format!("{name}: check error: {}", strerror(errno)));
            report.count(errno);
            Ok(())
        }
    }
}
