//! The mounts of this process' name space. Reading them touches no mounted file system.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Directory that it is mounted on.
    pub at: PathBuf,
    /// Type, for example `fuse.sheen`.
    pub fs_type: String,
    /// Source of the mount.
    pub source: OsString,
}

/// The uppermost mount at exactly this path (absolute, without symbolic links), if any.
///
/// # Errors
/// `/proc` is not there.
pub fn mounted_at(path: &Path) -> io::Result<Option<Mount>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?).into_iter().rev().find(|m| m.at == path))
}

/// The mount that this path (absolute, without symbolic links) lies on.
///
/// # Errors
/// `/proc` is not there.
pub fn mount_of(path: &Path) -> io::Result<Option<Mount>> {
    let mounts = parse(&fs::read("/proc/self/mountinfo")?);
    // Of those with the longest path the uppermost, which stands last.
    Ok(mounts
        .into_iter()
        .filter(|m| path.starts_with(&m.at))
        .max_by_key(|m| m.at.as_os_str().len()))
}

/// Absolute path without symbolic links up to the last component, which is not looked at: it may be
/// a dead mount.
///
/// # Errors
/// The parent directory does not exist or cannot be searched.
pub fn resolve_parent(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => path.canonicalize(),
    }
}

fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|b| *b == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /root /at options [tags...] - type source options`
fn line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|b| *b == b' ');
    let at = unescape(words.nth(4)?);
    words.find(|w| *w == b"-")?;
    let fs_type = String::from_utf8_lossy(words.next()?).into_owned();
    let source = unescape(words.next()?);
    Some(Mount { at: at.into(), fs_type, source })
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescape(word: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let octal =
            tail.get(..3).filter(|_| *first == b'\\').and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// True if `path` lies at or below `mount`. Texts are compared; nothing is looked up.
pub fn is_below(path: &OsStr, mount: &Path) -> bool {
    let (path, mount) = (path.as_bytes(), mount.as_os_str().as_bytes());
    path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let table =
            b"36 35 98:0 / /mnt/a\\040b rw,noatime shared:1 master:2 - fuse.sheen 0@lo:/sheen rw\n\
                      37 35 98:0 / /mnt rw - ext4 /dev/x rw\nnonsense\n\n1 2 3 4 /x rw - \n";
        let mounts = parse(table);
        assert_eq!(mounts.len(), 2, "{mounts:?}");
        assert_eq!(mounts[0].at, Path::new("/mnt/a b"));
        assert_eq!(mounts[0].fs_type, "fuse.sheen");
        assert_eq!(mounts[0].source, "0@lo:/sheen");
    }

    #[test]
    fn the_root_is_mounted_and_a_fresh_directory_is_not() {
        assert!(mounted_at(Path::new("/proc")).unwrap().is_some_and(|m| m.fs_type == "proc"));
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mounted_at(&dir.path().canonicalize().unwrap()).unwrap(), None);
    }

    #[test]
    fn below_means_whole_components() {
        let below = |p: &str| is_below(OsStr::new(p), Path::new("/mnt/x"));
        assert!(below("/mnt/x") && below("/mnt/x/y"));
        assert!(!below("/mnt/xy") && !below("/mnt") && !below("/"));
    }

    #[test]
    fn the_last_component_is_not_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/nowhere", base.join("l")).unwrap();
        std::os::unix::fs::symlink(&base, base.join("d")).unwrap();
        assert_eq!(resolve_parent(&base.join("d/l")).unwrap(), base.join("l"));
        assert!(resolve_parent(&base.join("absent/l")).is_err());
    }
}
