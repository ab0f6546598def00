//! `lfs fid2path` and `lfs rmfid`: files that are known by their FIDs.

use crate::cli::{Fid2pathArgs, RmfidArgs};
use ask::links;
use ask::mounts::{self, Mount};
use report::Report;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use types::errno::Errno;
use types::fid::Fid;

/// The mount that a file system's name or a path means; whether it was a path.
fn meant(word: &str) -> io::Result<(Mount, bool)> {
    match word.contains('/') || Path::new(word).exists() {
        true => Ok((mounts::mount_of(Path::new(word))?, true)),
        false => Ok((mounts::named(word)?, false)),
    }
}

fn found(word: &str, report: &mut Report<'_>) -> Option<(Mount, bool)> {
    meant(word)
        .map_err(|error| report.failed(&format!("can't find the file system '{word}'"), &error))
        .ok()
}

fn parsed(word: &str, report: &mut Report<'_>) -> Option<Fid> {
    word.parse().map_err(|_| report.errno(&format!("bad FID format '{word}'"), Errno::EINVAL)).ok()
}

/// Prints the paths of each FID.
///
/// # Errors
/// `out` cannot be written.
pub fn fid2path(
    args: &Fid2pathArgs,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some((mount, by_path)) = found(&args.root, report) else { return Ok(()) };
    for word in &args.fids {
        let Some(fid) = parsed(word, report) else { continue };
        match links::paths(&mount, fid) {
            Ok(paths) => {
                let wanted = |(n, _): &(usize, &Vec<u8>)| args.link.is_none_or(|link| link == *n);
                let mut any = false;
                for (n, path) in paths.iter().enumerate().filter(wanted) {
                    any = true;
                    out.write_all(&line(args, by_path.then_some(&mount.dir), fid, n, path))?;
                }
                if !any {
                    report.errno(
                        &format!("can't find link {} of {fid}", args.link.unwrap_or(0)),
                        Errno::ENODATA,
                    );
                }
            }
            Err(error) => report.failed(&format!("can't find path of {fid}"), &error),
        }
    }
    Ok(())
}

fn line(args: &Fid2pathArgs, dir: Option<&PathBuf>, fid: Fid, link: usize, path: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    if args.fid {
        line.extend_from_slice(format!("{fid} ").as_bytes());
    }
    if args.cur {
        line.extend_from_slice(format!("{link} ").as_bytes());
    }
    // The root has no name: a slash stands for it.
    let path = if path.is_empty() { b"/" } else { path };
    match dir {
        _ if args.name => {
            line.extend_from_slice(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
        }
        Some(dir) => {
            line.extend_from_slice(dir.as_os_str().as_bytes());
            line.push(b'/');
            line.extend_from_slice(path);
        }
        None => line.extend_from_slice(path),
    }
    line.push(if args.null { 0 } else { b'\n' });
    line
}

/// Removes all names of files.
pub fn rmfid(args: &RmfidArgs, report: &mut Report<'_>) {
    let Some((mount, _)) = found(&args.root, report) else { return };
    for word in &args.fids {
        let Some(fid) = parsed(word, report) else { continue };
        if let Err(error) = links::remove(&mount, fid) {
            report.failed(&format!("can't remove {fid}"), &error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FID: Fid = Fid { seq: 0x2_0000_0401, oid: 2, ver: 0 };

    fn args(letters: &str) -> Fid2pathArgs {
        let has = |letter| letters.contains(letter);
        let (null, fid, cur, name) = (has('0'), has('f'), has('c'), has('n'));
        Fid2pathArgs { null, fid, cur, name, link: None, root: "sheen".into(), fids: Vec::new() }
    }

    #[test]
    fn paths_are_as_lustre_prints_them() {
        let dir = PathBuf::from("/mnt/sheen");
        let shown = |letters: &str, dir: Option<&PathBuf>, path: &str| {
            String::from_utf8(line(&args(letters), dir, FID, 1, path.as_bytes())).unwrap()
        };
        assert_eq!(shown("", None, "dir/f"), "dir/f\n");
        assert_eq!(shown("", None, ""), "/\n");
        assert_eq!(shown("", Some(&dir), "dir/f"), "/mnt/sheen/dir/f\n");
        assert_eq!(shown("", Some(&dir), ""), "/mnt/sheen//\n");
        assert_eq!(shown("f", None, "dir/f"), "[0x200000401:0x2:0x0] dir/f\n");
        assert_eq!(shown("c", None, "dir/f"), "1 dir/f\n");
        assert_eq!(shown("n0", Some(&dir), "dir/f"), "f\0");
    }
}
