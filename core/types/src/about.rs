//! Facts about a mount that `lfs` asks for: extended attributes that the client answers itself, on
//! any file of the mount.
//!
//! They can be read but are never listed, and need no privilege unless stated. All values are lines
//! of text:
//!
//! | name                     | value                                                                            |
//! |--------------------------|----------------------------------------------------------------------------------|
//! | `lustre.mount`           | `FSNAME INSTANCE UUID`, see [`MountLine`]                                        |
//! | `lustre.fid`             | FID of the file                                                                  |
//! | `lustre.stats`           | a count and its name per line: requests, awaited, round_trips, locks, callbacks, then each operation |
//! | `lustre.mdts`, `lustre.osts` | index of each target, ascending                                              |
//! | `lustre.pools`         | name of each pool of OSTs                                                        |
//! | `lustre.pool.NAME`     | index of each OST of the pool; ENODATA: there is no such pool                    |
//! | `lustre.data_version`    | version of the file: grows with every change, what other clients have not stored included |
//! | `lustre.links.FID`       | names of the inode FID, whatever file is asked, as `[FID of directory]/NAME` with a NUL behind each; root only |
//! | `lustre.swap_layouts`    | only to be set: [`SwapLine`]                                                     |
//! | `lustre.flags`           | flags of the inode that chattr(1) sets, as a decimal number (`FS_*_FL`); may be set |
//! | `lustre.project`         | [`Project`](crate::project::Project); root may set it                            |
//! | `lustre.space.mdt.N`, `lustre.space.ost.N` | [`SpaceLine`] of up to [`SPACE_LINES_MAX`] targets, N and the next ones |

use crate::attr::Statfs;
use crate::errno::Errno;
use crate::fid;
use crate::target::{FsName, TargetIndex, TargetKind};
use std::fmt;
use std::str::FromStr;

/// Attribute with the mount's names.
pub const MOUNT: &str = "lustre.mount";
/// Attribute with the file's FID.
pub const FID: &str = "lustre.fid";
/// Attribute with the mount's counters.
pub const STATS: &str = "lustre.stats";
/// Attribute that lists the pools.
pub const POOLS: &str = "lustre.pools";
/// Attribute with the version of the file.
pub const DATA_VERSION: &str = "lustre.data_version";
/// Attribute with the flags of the inode (chattr): the MDT answers it, and sets them.
pub const FLAGS: &str = "lustre.flags";
/// Attribute with the project of the inode: the MDT answers it, and sets it.
pub const PROJECT: &str = "lustre.project";
/// Attribute by which two files exchange their data.
pub const SWAP_LAYOUTS: &str = "lustre.swap_layouts";
/// Targets in one value of space, so that it stays below 64 KiB (XATTR_SIZE_MAX).
pub const SPACE_LINES_MAX: usize = 256;

/// Attribute that lists the targets of a kind. The MGS is none of them.
pub const fn targets(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Mdt => "lustre.mdts",
        TargetKind::Ost => "lustre.osts",
        TargetKind::Mgt => "lustre.mgts",
    }
}

/// Attribute with the space of targets from `first` on.
pub fn space(kind: TargetKind, first: TargetIndex) -> String {
    format!("lustre.space.{}.{}", kind.word().to_ascii_lowercase(), first.0)
}

/// Attribute with the OSTs of a pool.
pub fn pool(name: &str) -> String {
    format!("lustre.pool.{name}")
}

/// Attribute of an inode that holds its names. A mount answers it for any inode, see [`links`].
pub const LINKS: &str = "lustre.links";

/// Attribute with the names of an inode.
pub fn links(of: fid::Fid) -> String {
    format!("{LINKS}.{of}")
}

/// The attribute that is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// [`MOUNT`].
    Mount,
    /// [`FID`].
    Fid,
    /// [`STATS`].
    Stats,
    /// [`targets`].
    Targets(TargetKind),
    /// [`POOLS`].
    Pools,
    /// [`pool`].
    Pool(String),
    /// [`DATA_VERSION`].
    DataVersion,
    /// [`links`].
    Links(fid::Fid),
    /// [`space`].
    Space(TargetKind, TargetIndex),
}

impl About {
    /// `None`: the attribute is none of these.
    pub fn of(name: &[u8]) -> Option<About> {
        match std::str::from_utf8(name).ok()?.strip_prefix("lustre.")? {
            "mount" => Some(About::Mount),
            "fid" => Some(About::Fid),
            "stats" => Some(About::Stats),
            "pools" => Some(About::Pools),
            "data_version" => Some(About::DataVersion),
            "mdts" => Some(About::Targets(TargetKind::Mdt)),
            "osts" => Some(About::Targets(TargetKind::Ost)),
            other => {
                if let Some(pool) = other.strip_prefix("pool.") {
                    return Some(About::Pool(pool.to_owned()));
                }
                if let Some(fid) = other.strip_prefix("links.") {
                    return fid.parse().ok().map(About::Links);
                }
                let (kind, first) = other.strip_prefix("space.")?.split_once('.')?;
                let kind = match kind {
                    "mdt" => TargetKind::Mdt,
                    "ost" => TargetKind::Ost,
                    _ => return None,
                };
                Some(About::Space(kind, TargetIndex(first.parse().ok()?)))
            }
        }
    }
}

/// The line is not as this module writes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no line that a mount tells")]
pub struct BadLine(pub String);

/// Names of one mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountLine {
    /// File system.
    pub fsname: FsName,
    /// Tells this mount from all others; shown with 16 hexadecimal digits.
    pub instance: u64,
    /// The client, as servers know it.
    pub uuid: String,
}

impl fmt::Display for MountLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {:016x} {}", self.fsname, self.instance, self.uuid)
    }
}

impl FromStr for MountLine {
    type Err = BadLine;

    fn from_str(s: &str) -> Result<MountLine, BadLine> {
        let bad = || BadLine(s.to_owned());
        let words: Vec<&str> = s.split_whitespace().collect();
        let [fsname, instance, uuid] = words[..] else { return Err(bad()) };
        let instance = u64::from_str_radix(instance, 16).map_err(|_| bad())?;
        Ok(MountLine {
            fsname: fsname.parse().map_err(|_| bad())?,
            instance,
            uuid: uuid.to_owned(),
        })
    }
}

/// The file with which a file exchanges its data, and the conditions for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapLine {
    /// The other file.
    pub other: fid::Fid,
    /// Versions of this file and the other one; 0: any.
    pub versions: (u64, u64),
    /// Their contents are the same: times stay.
    pub same: bool,
}

impl fmt::Display for SwapLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SwapLine { other, versions: (version, other_version), same } = self;
        write!(f, "{other} {version} {other_version} {}", if *same { "same" } else { "any" })
    }
}

impl FromStr for SwapLine {
    type Err = BadLine;

    fn from_str(s: &str) -> Result<SwapLine, BadLine> {
        let bad = || BadLine(s.to_owned());
        let words: Vec<&str> = s.split_whitespace().collect();
        let [other, version, other_version, same] = words[..] else { return Err(bad()) };
        let number = |word: &str| word.parse().map_err(|_| bad());
        let same = match same {
            "same" => true,
            "any" => false,
            _ => return Err(bad()),
        };
        let other = other.parse().map_err(|_| bad())?;
        Ok(SwapLine { other, versions: (number(version)?, number(other_version)?), same })
    }
}

/// Space of one target, or why it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLine {
    /// Index of the target.
    pub index: TargetIndex,
    /// The target's answer.
    pub space: Result<Statfs, Errno>,
}

impl fmt::Display for SpaceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index.0;
        match self.space {
            Err(errno) => writeln!(f, "{index} error {}", errno.0),
            Ok(s) => writeln!(
                f,
                "{index} {} {} {} {} {}",
                s.bytes_total, s.bytes_free, s.bytes_available, s.files_total, s.files_free
            ),
        }
    }
}

impl FromStr for SpaceLine {
    type Err = BadLine;

    fn from_str(s: &str) -> Result<SpaceLine, BadLine> {
        let bad = || BadLine(s.to_owned());
        let mut words = s.split_whitespace();
        let index = words.next().and_then(|w| w.parse().ok()).map(TargetIndex).ok_or_else(bad)?;
        let rest: Vec<&str> = words.collect();
        if let ["error", errno] = rest[..] {
            let errno = errno.parse().ok().filter(|n| *n > 0).ok_or_else(bad)?;
            return Ok(SpaceLine { index, space: Err(Errno(errno)) });
        }
        let numbers: Vec<u64> =
            rest.iter().map(|w| w.parse()).collect::<Result<_, _>>().map_err(|_| bad())?;
        let [bytes_total, bytes_free, bytes_available, files_total, files_free] = numbers[..]
        else {
            return Err(bad());
        };
        let space = Statfs { bytes_total, bytes_free, bytes_available, files_total, files_free };
        Ok(SpaceLine { index, space: Ok(space) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_those_who_ask_and_those_who_answer() {
        for kind in [TargetKind::Mdt, TargetKind::Ost] {
            assert_eq!(About::of(targets(kind).as_bytes()), Some(About::Targets(kind)));
            let first = TargetIndex(300);
            assert_eq!(About::of(space(kind, first).as_bytes()), Some(About::Space(kind, first)));
        }
        assert_eq!(About::of(MOUNT.as_bytes()), Some(About::Mount));
        assert_eq!(About::of(POOLS.as_bytes()), Some(About::Pools));
        assert_eq!(About::of(pool("flash").as_bytes()), Some(About::Pool("flash".into())));
        assert_eq!(About::of(FID.as_bytes()), Some(About::Fid));
        assert_eq!(About::of(STATS.as_bytes()), Some(About::Stats));
        assert_eq!(About::of(DATA_VERSION.as_bytes()), Some(About::DataVersion));
        assert_eq!(About::of(links(fid::Fid::ROOT).as_bytes()), Some(About::Links(fid::Fid::ROOT)));
        for other in [
            "lustre.lov",
            "lustre.links",
            "lustre.links.[0x1]",
            "lustre.mgts",
            "lustre.space.ost.x",
            "lustre.space.ost.70000",
            "user.fid",
            "",
        ] {
            assert_eq!(About::of(other.as_bytes()), None, "{other}");
        }
        assert_eq!(About::of(b"lustre.\xff"), None);
    }

    #[test]
    fn lines_come_back() {
        let mount = MountLine { fsname: FsName::default(), instance: 0xabc, uuid: "1-2".into() };
        assert_eq!(mount.to_string(), "sheen 0000000000000abc 1-2\n");
        assert_eq!(mount.to_string().parse(), Ok(mount));
        let full = Statfs {
            bytes_total: u64::MAX,
            bytes_free: u64::MAX,
            bytes_available: u64::MAX,
            files_total: u64::MAX,
            files_free: u64::MAX,
        };
        for space in [Ok(full), Ok(Statfs::default()), Err(Errno::ETIMEDOUT)] {
            let line = SpaceLine { index: TargetIndex(u16::MAX), space };
            assert!(
                line.to_string().len() * SPACE_LINES_MAX <= crate::limits::XATTR_VALUE_BYTES_MAX
            );
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        for bad in [
            "",
            "1",
            "1 2 3",
            "1 error",
            "1 error 0",
            "x 1 2 3 4 5",
            "1 2 3 4 5 6 7",
            "1 2 3 4 5 -6",
        ] {
            assert!(bad.parse::<SpaceLine>().is_err(), "{bad}");
        }
        let swap = SwapLine { other: fid::Fid::ROOT, versions: (7, 0), same: true };
        assert_eq!(swap.to_string().parse(), Ok(swap));
        assert!("[0x1:0x2:0x0] 1 2 maybe".parse::<SwapLine>().is_err());
        assert!("sheen xyz u".parse::<MountLine>().is_err());
    }
}
