//! `lfs getstripe`: layouts of files and directories.

use crate::cli::GetstripeArgs;
use crate::dir_scan;
use crate::find::words::targets;
use crate::lov_fields::Fields;
use crate::lov_text::Subject;
use ask::{mounts, xattr};
use layout::lov_ea::encode;
use layout::stripe_spec::plain;
use report::Report;
use rustix::fs::{Dir, FileType, Stat};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::DirEntry;

/// Prints the layouts that were asked for. Those that cannot be read are reported and skipped.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &GetstripeArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let fields = Fields::of(args);
    // A single value, or -d, is about the path itself, which then need not be named.
    let depth = match (args.recursive, args.directory || fields.chosen || args.yaml) {
        (true, _) => usize::MAX,
        (false, true) => 0,
        (false, false) => 1,
    };
    let on = match args.obd.as_deref().map(|words| targets(words, "OST")).transpose() {
        Ok(on) => on,
        Err(sentence) => {
            report.sentence(&sentence, Errno::EINVAL);
            return Ok(());
        }
    };
    let wanted = Wanted { fields, depth, raw: args.raw, on };
    for path in &args.paths {
        if args.no_follow && fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) {
            writeln!(out, "{} has no stripe info", path.display())?;
            continue;
        }
        match mounts::mount_of(path) {
            Ok(_) => walk(path, &wanted, out, report)?,
            Err(error) => {
                report.failed(&format!("can't get layout of '{}'", path.display()), &error)
            }
        }
    }
    Ok(())
}

/// What to show, and of which files.
struct Wanted {
    fields: Fields,
    /// Levels below the path.
    depth: usize,
    /// -R
    raw: bool,
    /// -O: only files with an object on one of these.
    on: Option<Vec<u16>>,
}

/// `path`, then what is in it, down to `depth` levels. Symbolic links in directories are not
/// followed.
fn walk(
    path: &Path,
    wanted: &Wanted,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Wanted { fields, depth, raw, on } = wanted;
    let depth = *depth;
    let root = match path.canonicalize() {
        Ok(root) => root,
        Err(error) => {
            report.failed(&format!("can't get layout of '{}'", path.display()), &error);
            return Ok(());
        }
    };
    let named = depth > 0;
    let mut waiting =
        vec![Waiting { shown: path.to_owned(), real: root, level: 0, kind: None, lov: None }];
    while let Some(Waiting { shown, real, level, kind, lov }) = waiting.pop() {
        let kind = match kind
            .map_or_else(|| stat(&real).map(|stat| FileType::from_raw_mode(stat.st_mode)), Ok)
        {
            Ok(kind) => kind,
            Err(error) => {
                report.failed(&format!("can't get layout of '{}'", shown.display()), &error);
                continue;
            }
        };
        let is_dir = kind == FileType::Directory;
        if !is_dir && kind != FileType::RegularFile {
            if on.is_none() {
                writeln!(out, "{} has no stripe info", shown.display())?;
            }
            continue;
        }
        match subject(&real, is_dir, *raw, lov) {
            Ok(Some(subject)) if on.as_ref().is_some_and(|osts| !subject.is_on(osts)) => {}
            Ok(None) if on.is_some() => {}
            Ok(Some(subject)) => {
                if named && !fields.quiet {
                    writeln!(out, "{}", shown.display())?;
                }
                out.write_all(subject.text(fields).as_bytes())?;
            }
            Ok(None) => writeln!(out, "{} has no stripe info", shown.display())?,
            Err(error) => {
                report.failed(&format!("can't get layout of '{}'", shown.display()), &error)
            }
        }
        if is_dir && level < depth {
            match children(&shown, &real, level + 1) {
                Ok(inside) => waiting.extend(inside),
                Err(error) => {
                    report.failed(&format!("can't read directory '{}'", shown.display()), &error)
                }
            }
        }
    }
    Ok(())
}

/// A file that is to be looked at.
struct Waiting {
    /// The path as it was given.
    shown: PathBuf,
    /// The path without symbolic links.
    real: PathBuf,
    level: usize,
    /// Type from the listing, which saves a request.
    kind: Option<FileType>,
    /// Value of `lustre.lov`, if a directory scan returned it.
    lov: Option<Vec<u8>>,
}

fn stat(path: &Path) -> io::Result<Stat> {
    Ok(rustix::fs::lstat(path)?)
}

/// Entries of a directory, last first.
fn children(shown: &Path, real: &Path, level: usize) -> io::Result<Vec<Waiting>> {
    let mut entries: Vec<(OsString, FileType, Option<Vec<u8>>)> = Vec::new();
    let open = dir_scan::Directory::open(real)?;
    let told = |entry: DirEntry| {
        let lov = entry.layout.map(|layout| encode(&layout, entry.fid));
        let kind = FileType::from_raw_mode(entry.file_type.mode_bits());
        entries.push((OsStr::from_bytes(&entry.name).to_owned(), kind, lov));
    };
    let scanned = match open.dir_scan(true, told) {
        // Without permission to search it, each file gives a failure of its own.
        Err(error) if error.raw_os_error() == Some(Errno::EACCES.0) => false,
        scanned => scanned?,
    };
    if !scanned {
        for entry in Dir::new(open.into_fd())? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                entries.push((OsStr::from_bytes(name).to_owned(), entry.file_type(), None));
            }
        }
    }
    entries.sort_unstable_by(|(a, ..), (b, ..)| b.cmp(a));
    let waiting = |(name, kind, lov)| {
        let kind = Some(kind).filter(|kind| *kind != FileType::Unknown);
        Waiting { shown: shown.join(&name), real: real.join(&name), level, kind, lov }
    };
    Ok(entries.into_iter().map(waiting).collect())
}

/// `None`: it has no layout. A directory without default layout shows the file system's.
/// `raw`: nothing instead.
fn subject(
    path: &Path,
    directory: bool,
    raw: bool,
    told: Option<Vec<u8>>,
) -> io::Result<Option<Subject>> {
    let bytes = match told.map_or_else(|| xattr::get(path, xattr::LOV), Ok) {
        Err(error) if error.raw_os_error() == Some(Errno::ENODATA.0) => match directory {
            true if raw => encode(&plain(0, 0, None), Fid::NONE),
            true => xattr::get(path, xattr::LOV_DEFAULT)?,
            false => return Ok(None),
        },
        got => got?,
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    let bad =
        |e: Box<dyn std::error::Error + Send + Sync>| io::Error::new(io::ErrorKind::InvalidData, e);
    let subject = Subject::read(bytes, directory).map_err(|e| bad(e.into()))?;
    if !directory {
        return Ok(Some(subject));
    }
    let fid = xattr::get_text(path, types::about::FID)?;
    Ok(Some(subject.of(fid.parse().map_err(|e: types::fid::BadFid| bad(e.into()))?)))
}
