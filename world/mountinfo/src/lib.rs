//! `/proc/self/mountinfo`: the mounts, read without touching any of them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File system type of SheenFS mounts.
pub const TYPE: &str = "fuse.sheen";

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// Device number, major and minor, as in `/sys/class/bdi`.
    pub device: (u32, u32),
    /// Directory that it is mounted on.
    pub mount_point: PathBuf,
    /// File system type with sub-type.
    pub fs_type: String,
    /// Source of the mount.
    pub source: OsString,
}

/// All mounts of this mount name space, oldest first. Of several on one directory, the last is on
/// top.
///
/// # Errors
/// `/proc` is not to be read.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel, on no disk")]
pub fn read() -> std::io::Result<Vec<MountInfo>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// SheenFS mounts at exactly `mount_point`, the one on top last.
///
/// # Errors
/// As [`read`].
pub fn ours_at(mount_point: &Path) -> std::io::Result<Vec<MountInfo>> {
    let mut mounts = read()?;
    mounts.retain(|mount| mount.fs_type == TYPE && mount.mount_point == mount_point);
    Ok(mounts)
}

/// Lines that cannot be understood are passed over.
fn parse(text: &[u8]) -> Vec<MountInfo> {
    text.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext3 /dev/root rw`; optional fields end with `-`.
fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|b| *b == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let mount_point = unescape(fields.nth(1)?);
    fields.find(|field| *field == b"-")?;
    let fs_type = String::from_utf8(unescape(fields.next()?)).ok()?;
    let source = OsString::from_vec(unescape(fields.next()?));
    Some(MountInfo {
        device: (major.parse().ok()?, minor.parse().ok()?),
        mount_point: PathBuf::from(OsString::from_vec(mount_point)),
        fs_type,
        source,
    })
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = |b: &u8| (b'0'..=b'7').contains(b);
        match (first, tail) {
            (b'\\', [a, b, c, after @ ..]) if [a, b, c].into_iter().all(octal) => {
                let value =
                    u32::from(a - b'0') * 64 + u32::from(b - b'0') * 8 + u32::from(c - b'0');
                out.push(value as u8);
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = b"29 1 0:27 / / rw - ext4 /dev/vda rw\n\
            45 29 0:52 / /mnt/my\\040dir rw,nosuid shared:7 master:2 - fuse.sheen 127.0.0.1@tcp:/sheen rw,user_id=0\n\
            garbage\n46 29 x:y / /a rw - t s rw\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].device, (0, 52));
        assert_eq!(mounts[1].mount_point, Path::new("/mnt/my dir"));
        assert_eq!(
            (mounts[1].fs_type.as_str(), mounts[1].source.to_str()),
            (TYPE, Some("127.0.0.1@tcp:/sheen"))
        );
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape(b"a\\134b\\9\\04"), b"a\\b\\9\\04");
    }

    #[test]
    fn this_machine_has_proc() {
        assert!(read().unwrap().iter().any(|mount| mount.mount_point == Path::new("/proc")));
    }
}
