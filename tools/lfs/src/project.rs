//! `lfs project`: the project of inodes, a number that directories may hand on to what is made in
//! them.

use crate::cli::ProjectArgs;
use ask::{mounts, xattr};
use report::Report;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use types::about::PROJECT;
use types::errno::Errno;
use types::project::{Project, REALM_FIRST};

/// Paths that are still to be looked at.
const WALK_MAX: usize = 1 << 22;

/// What is done with each path.
enum Act {
    Show,
    Set(Option<u32>, bool),
    Clear { keeps: bool },
    Check(u32),
}

/// Shows, sets, clears or checks the projects of paths: of a directory, of what is in it, with -d
/// its own, with -r all below it.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &ProjectArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let wrong = [
        (args.directory && args.recursive, "give -d or -r, not both"),
        (args.clear && args.check, "give -C or -c, not both"),
        (
            args.clear && (args.set || args.project.is_some()),
            "-C takes a project away; it goes with neither -p nor -s",
        ),
        (args.check && args.set, "-c changes nothing: it does not go with -s"),
        (args.keep && !args.clear, "-k goes with -C only"),
        (args.null && !args.check, "-0 goes with -c only"),
        (
            !args.check && args.project.is_some_and(|id| id >= REALM_FIRST),
            "numbers from 2147483648 on are those of filesets; choose one below",
        ),
    ];
    if let Some((_, sentence)) = wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        report.sentence(sentence, Errno::EINVAL);
        return Ok(());
    }
    for path in &args.paths {
        let looked = mounts::mount_of(path).and_then(|_| {
            let own = line(path)?;
            Ok((own, std::fs::symlink_metadata(path)?.is_dir()))
        });
        let (own, is_dir) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                report.failed(&format!("cannot get project of '{}'", path.display()), &error);
                continue;
            }
        };
        let act = if args.clear {
            Act::Clear { keeps: args.keep }
        } else if args.check {
            Act::Check(args.project.unwrap_or(own.id))
        } else if args.set || args.project.is_some() {
            Act::Set(args.project, args.set)
        } else {
            Act::Show
        };
        // A list is one of what is in a directory; all else is about the path itself.
        let lists = is_dir && !args.directory && !args.recursive && matches!(act, Act::Show);
        let mut next = Vec::new();
        match lists {
            true => extend(&mut next, path, report),
            false => next.push(path.clone()),
        }
        while let Some(at) = next.pop() {
            one(&at, &act, args.null, out, report)?;
            let descends =
                args.recursive && std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_dir());
            if descends {
                extend(&mut next, &at, report);
            }
        }
    }
    Ok(())
}

/// Adds what is in a directory to what is still to be looked at.
fn extend(next: &mut Vec<PathBuf>, dir: &Path, report: &mut Report<'_>) {
    match below(dir) {
        Ok(more) if next.len() + more.len() <= WALK_MAX => next.extend(more),
        Ok(_) => report.errno(&format!("'{}'", dir.display()), Errno::E2BIG),
        Err(error) => report.failed(&format!("cannot list '{}'", dir.display()), &error),
    }
}

/// What is in a directory, the last name first.
fn below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        names.push(entry?.path());
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

/// The project of an inode; a symbolic link is not followed.
///
/// # Errors
/// Those of lgetxattr(2); InvalidData.
pub fn line(path: &Path) -> io::Result<Project> {
    let text = xattr::get_text(path, PROJECT)?;
    text.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn one(
    path: &Path,
    act: &Act,
    null: bool,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let known = match line(path) {
        Ok(known) => known,
        Err(error) => {
            report.failed(&format!("cannot get project of '{}'", path.display()), &error);
            return Ok(());
        }
    };
    let wanted = match *act {
        Act::Show => {
            let flag = if known.inherit { 'P' } else { '-' };
            write!(out, "{:5} {flag} ", known.id)?;
            out.write_all(path.as_os_str().as_bytes())?;
            return out.write_all(b"\n");
        }
        Act::Check(id) => return check(path, known, id, null, out),
        Act::Set(id, inherit) => {
            Project { id: id.unwrap_or(known.id), inherit: known.inherit || inherit }
        }
        Act::Clear { keeps } => Project { id: if keeps { known.id } else { 0 }, inherit: false },
    };
    if wanted != known
        && let Err(error) = xattr::set(path, PROJECT, wanted.to_string().as_bytes())
    {
        report.failed(&format!("cannot set project of '{}'", path.display()), &error);
    }
    Ok(())
}

/// Prints what is not of the project `id`, or a directory that does not hand it on; with `null`
/// just its path, and a NUL.
fn check(path: &Path, known: Project, id: u32, null: bool, out: &mut dyn Write) -> io::Result<()> {
    let is_dir = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let (other, stops) = (known.id != id, is_dir && !known.inherit);
    let name = path.as_os_str().as_bytes();
    if null {
        if other || stops {
            out.write_all(name)?;
            out.write_all(b"\0")?;
        }
        return Ok(());
    }
    if other {
        out.write_all(name)?;
        writeln!(out, " - project ID is {}, not {id}", known.id)?;
    }
    if stops {
        out.write_all(name)?;
        writeln!(out, " - project ID is not inherited")?;
    }
    Ok(())
}
