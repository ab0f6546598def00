//! `lfs ladvise`, `flushctx`, `getsom`: hints, and what servers know of sizes.

use crate::chosen;
use crate::cli::{Advice, FlushctxArgs, GetsomArgs, LadviseArgs};
use ask::mounts;
use report::Report;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use types::errno::Errno;

/// Tells the kernel (and through it the mount) what will be read, or not again.
pub fn ladvise(args: &LadviseArgs, report: &mut Report<'_>) {
    let advice = match args.advice {
        Advice::Willread => rustix::fs::Advice::WillNeed,
        Advice::Dontneed => rustix::fs::Advice::DontNeed,
        Advice::Lockahead | Advice::Noexpand | Advice::Ahead => {
            let sentence = "only -a willread and -a dontneed have an effect here";
            return report.sentence(sentence, Errno::EOPNOTSUPP);
        }
    };
    let start = args.start.map_or(0, |at| at.0);
    let end = match (args.end, args.length) {
        (Some(_), Some(_)) => return report.sentence("give -e or -l, not both", Errno::EINVAL),
        (Some(end), None) => Some(end.0),
        (None, Some(length)) => Some(start.saturating_add(length.0)),
        (None, None) => None,
    };
    if end.is_some_and(|end| end <= start) {
        return report
            .sentence("the range is empty: the end must be behind the start", Errno::EINVAL);
    }
    for path in &args.paths {
        let done = mounts::mount_of(path).and_then(|_| {
            let file = File::open(path)?;
            Ok(rustix::fs::fadvise(
                &file,
                start,
                end.and_then(|end| NonZeroU64::new(end - start)),
                advice,
            )?)
        });
        if let Err(error) = done {
            report.failed(&format!("cannot give advice on '{}'", path.display()), &error);
        }
    }
}

/// Forgets keys of the user: there are none, so only the mounts are looked at.
pub fn flushctx(args: &FlushctxArgs, report: &mut Report<'_>) {
    chosen::mounts(&args.paths, report);
}

/// Prints the size that the MDT keeps. It is always exact: flag 1.
///
/// # Errors
/// `out` cannot be written.
pub fn getsom(args: &GetsomArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    for path in &args.paths {
        let found = mounts::mount_of(path).and_then(|_| std::fs::symlink_metadata(path));
        match found {
            Ok(m) if !m.is_file() => {
                report.errno(&format!("'{}' is no regular file", path.display()), Errno::EINVAL)
            }
            Ok(m) if args.size => writeln!(out, "{}", m.size())?,
            Ok(m) if args.blocks => writeln!(out, "{}", m.blocks())?,
            Ok(_) if args.flags => writeln!(out, "1")?,
            Ok(m) => writeln!(
                out,
                "file: {} size: {} blocks: {} flags: 1",
                path.display(),
                m.size(),
                m.blocks()
            )?,
            Err(error) => report.failed(&format!("can't get size of '{}'", path.display()), &error),
        }
    }
    Ok(())
}
