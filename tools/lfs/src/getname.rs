//! `lfs getname`: what mounts call themselves.

use crate::chosen;
use crate::cli::GetnameArgs;
use ask::mounts::{self, Mount};
use report::Report;
use std::io::{self, Write};

/// Prints the name of each mount and, unless only one was asked for, where it is.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &GetnameArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    if let [path] = &args.paths[..] {
        return match mounts::mount_of(path) {
            Ok(mount) => writeln!(out, "{}", name(args, &mount)),
            Err(error) => {
                report.failed(&format!("can't get name of '{}'", path.display()), &error);
                Ok(())
            }
        };
    }
    for found in chosen::mounts(&args.paths, report) {
        writeln!(out, "{} {}", name(args, &found), found.dir.display())?;
    }
    Ok(())
}

fn name(args: &GetnameArgs, mount: &Mount) -> String {
    let names = &mount.names;
    if args.instance {
        format!("{:016x}", names.instance)
    } else if args.fsname {
        names.fsname.to_string()
    } else if args.uuid {
        names.uuid.clone()
    } else {
        format!("{}-{:016x}", names.fsname, names.instance)
    }
}
