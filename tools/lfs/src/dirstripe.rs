//! `lfs mkdir` (`setdirstripe`) and `getdirstripe`: on which MDTs directories are.
//!
//! A directory is on one MDT as a whole: it has no stripes yet, and requests for them are refused.

use crate::cli::{GetdirstripeArgs, MkdirArgs};
use ask::mkdir_at::mkdir_at;
use ask::{mounts, xattr};
use report::{Report, strerror};
use rustix::fs::Mode;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::TARGETS_MAX;
use types::target::TargetIndex;

/// Makes directories.
pub fn make(args: &MkdirArgs, report: &mut Report<'_>) {
    let several = args.mdts.as_ref().is_some_and(|mdts| mdts.len() > 1);
    if several || args.count.is_some_and(|count| count > 1) || args.default || args.delete {
        let sentence = "a directory is on one MDT, without stripes or defaults for those below it, for now; \
                        only -i INDEX and -c 1 can be had";
        return report.sentence(sentence, Errno::EOPNOTSUPP);
    }
    let mdt = match args.mdts.as_deref().and_then(<[i32]>::first).copied() {
        // Any: that of the directory above.
        None | Some(-1) => None,
        Some(mdt) => match u16::try_from(mdt).ok().filter(|mdt| usize::from(*mdt) < TARGETS_MAX) {
            Some(mdt) => Some(TargetIndex(mdt)),
            None => return report.errno(&format!("bad MDT index '{mdt}'"), Errno::EINVAL),
        },
    };
    let mode = match u32::from_str_radix(args.mode.as_deref().unwrap_or("777"), 8) {
        Ok(mode) if mode <= 0o7777 => mode,
        _ => return report.sentence("-o takes an octal mode: 755", Errno::EINVAL),
    };
    for path in &args.paths {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = mounts::mount_of(parent).and_then(|_| match mdt {
            None => Ok(rustix::fs::mkdir(path, Mode::from_raw_mode(mode))?),
            Some(mdt) => mkdir_at(path, mode, mdt),
        });
        let what = format!("can't create directory '{}'", path.display());
        match (made, mdt) {
            (Ok(()), _) => {}
            (Err(error), Some(mdt)) if error.raw_os_error() == Some(Errno::ERANGE.0) => {
                let why = strerror(Errno::ERANGE);
                let sentence = format!(
                    "{what}: {why} ({}); there is no MDT{mdt:?}; lfs mdts shows all",
                    Errno::ERANGE.0
                );
                report.sentence(&sentence, Errno::ERANGE);
            }
            (Err(error), _) => report.failed(&what, &error),
        }
    }
}

/// Shows them.
///
/// # Errors
/// `out` cannot be written.
pub fn show(
    args: &GetdirstripeArgs,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for path in &args.paths {
        show_below(args, path, out, report)?;
    }
    Ok(())
}

fn show_below(
    args: &GetdirstripeArgs,
    path: &Path,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let mdt = match mdt_of(&path) {
            Ok(mdt) => mdt,
            Err(error) => {
                report.failed(
                    &format!("can't get directory stripes of '{}'", path.display()),
                    &error,
                );
                continue;
            }
        };
        if args.recursive {
            writeln!(out, "{}", path.display())?;
        }
        writeln!(out, "{}", line(args, mdt))?;
        if args.recursive {
            match directories(&path) {
                Ok(below) => waiting.extend(below),
                Err(error) => {
                    report.failed(&format!("can't read directory '{}'", path.display()), &error)
                }
            }
        }
    }
    Ok(())
}

fn line(args: &GetdirstripeArgs, mdt: u16) -> String {
    let offset = if args.default { "-1".to_owned() } else { mdt.to_string() };
    if args.count {
        "0".to_owned()
    } else if args.index {
        offset
    } else if args.hash {
        "none".to_owned()
    } else if args.default {
        format!(
            "lmv_stripe_count: 0 lmv_stripe_offset: {offset} lmv_hash_type: none lmv_max_inherit: 0 lmv_max_inherit_rr: 0"
        )
    } else {
        format!("lmv_stripe_count: 0 lmv_stripe_offset: {offset} lmv_hash_type: none")
    }
}

fn mdt_of(path: &Path) -> io::Result<u16> {
    if !std::fs::metadata(path)?.is_dir() {
        return Err(io::Error::from_raw_os_error(Errno::ENOTDIR.0));
    }
    let text = xattr::get_text(path, types::about::FID)?;
    let fid: Fid =
        text.trim_end().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    Ok(fid.mdt())
}

/// Last first.
fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_lustre_prints_them() {
        let args = |letter: char| GetdirstripeArgs {
            count: letter == 'c',
            index: letter == 'i',
            hash: letter == 'H',
            default: letter == 'D',
            recursive: false,
            paths: Vec::new(),
        };
        assert_eq!(
            line(&args(' '), 0),
            "lmv_stripe_count: 0 lmv_stripe_offset: 0 lmv_hash_type: none"
        );
        assert_eq!(
            (line(&args('c'), 0), line(&args('i'), 2), line(&args('H'), 0)),
            ("0".into(), "2".into(), "none".into())
        );
        assert!(
            line(&args('D'), 0).starts_with(
                "lmv_stripe_count: 0 lmv_stripe_offset: -1 lmv_hash_type: none lmv_max_"
            )
        );
    }
}
