//! `lfs getstripe`: layouts of files and directories.

use crate::cli::GetstripeArgs;
use crate::lov_fields::Fields;
use crate::lov_text::Subject;
use ask::{mounts, xattr};
use report::Report;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use types::errno::Errno;

/// Prints the layouts that were asked for. What cannot be read is reported and passed over.
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
    for path in &args.paths {
        match mounts::mount_of(path) {
            Ok(_) => walk(path, depth, &fields, out, report)?,
            Err(error) => report.failed(&format!("can't get layout of '{}'", path.display()), &error),
        }
    }
    Ok(())
}

/// `path`, then what is in it, down to `depth` levels. Symbolic links in directories are passed over.
fn walk(path: &Path, depth: usize, fields: &Fields, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let root = match path.canonicalize() {
        Ok(root) => root,
        Err(error) => {
            report.failed(&format!("can't get layout of '{}'", path.display()), &error);
            return Ok(());
        }
    };
    let named = depth > 0;
    let mut waiting = vec![Waiting { shown: path.to_owned(), real: root, level: 0, kind: None }];
    while let Some(Waiting { shown, real, level, kind }) = waiting.pop() {
        let kind = match kind.map_or_else(|| fs::symlink_metadata(&real).map(|m| m.file_type()), Ok) {
            Ok(kind) => kind,
            Err(error) => {
                report.failed(&format!("can't get layout of '{}'", shown.display()), &error);
                continue;
            }
        };
        if !kind.is_dir() && !kind.is_file() {
            if level == 0 {
                writeln!(out, "{} has no stripe info", shown.display())?;
            }
            continue;
        }
        match subject(&real, kind.is_dir()) {
            Ok(Some(subject)) => {
                if named && !fields.quiet {
                    writeln!(out, "{}", shown.display())?;
                }
                out.write_all(subject.text(fields).as_bytes())?;
            }
            Ok(None) => writeln!(out, "{} has no stripe info", shown.display())?,
            Err(error) => report.failed(&format!("can't get layout of '{}'", shown.display()), &error),
        }
        if kind.is_dir() && level < depth {
            match children(&shown, &real, level + 1) {
                Ok(inside) => waiting.extend(inside),
                Err(error) => report.failed(&format!("can't read directory '{}'", shown.display()), &error),
            }
        }
    }
    Ok(())
}

/// A file that is to be looked at.
struct Waiting {
    /// As it was named.
    shown: PathBuf,
    /// Without symbolic links.
    real: PathBuf,
    level: usize,
    /// As the listing told it, which saves a question.
    kind: Option<fs::FileType>,
}

/// What is in a directory, last first.
fn children(shown: &Path, real: &Path, level: usize) -> io::Result<Vec<Waiting>> {
    let mut entries = fs::read_dir(real)?
        .map(|entry| entry.map(|entry| (entry.file_name(), entry.file_type().ok())))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    let waiting = |(name, kind)| Waiting { shown: shown.join(&name), real: real.join(&name), level, kind };
    Ok(entries.into_iter().map(waiting).collect())
}

/// `None`: it has no layout. A directory without default layout shows the file system's.
fn subject(path: &Path, directory: bool) -> io::Result<Option<Subject>> {
    let bytes = match xattr::get(path, xattr::LOV) {
        Err(error) if error.raw_os_error() == Some(Errno::ENODATA.0) => match directory {
            true => xattr::get(path, xattr::LOV_DEFAULT)?,
            false => return Ok(None),
        },
        got => got?,
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    let bad = |e: Box<dyn std::error::Error + Send + Sync>| io::Error::new(io::ErrorKind::InvalidData, e);
    let subject = Subject::read(bytes, directory).map_err(|e| bad(e.into()))?;
    if !directory {
        return Ok(Some(subject));
    }
    let fid = xattr::get_text(path, types::about::FID)?;
    Ok(Some(subject.of(fid.parse().map_err(|e: types::fid::BadFid| bad(e.into()))?)))
}
