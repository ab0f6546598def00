//! Facts about a mount, and the list of mounts.

use crate::xattr;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use types::about::{self, MountLine, SpaceLine};
use types::errno::Errno;
use types::target::{TargetIndex, TargetKind};

/// A path is on no SheenFS mount only if this many readings of the table of mounts say so.
const READS: usize = 3;

/// One mount of SheenFS.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Directory that it is mounted on.
    pub dir: PathBuf,
    /// Names of the mount.
    pub names: MountLine,
}

/// What is on another file system.
fn elsewhere() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "it is on no SheenFS mount")
}

/// The mount that `path` is on.
///
/// # Errors
/// EOPNOTSUPP: the path is on no SheenFS mount; other errors are those of the path.
pub fn mount_of(path: &Path) -> io::Result<Mount> {
    let path = path.canonicalize()?;
    let on = |m: &mountinfo::MountInfo| path.starts_with(&m.mount_point);
    let deep = |m: &mountinfo::MountInfo| m.mount_point.components().count();
    // The table is read in pieces. If a line is missing, because another mount was just taken out,
    // it is read again.
    for _ in 0..READS {
        // Of several at one place the last one is on top: max_by_key takes the last.
        match mountinfo::read()?.into_iter().filter(on).max_by_key(deep) {
            Some(m) if m.fs_type == mountinfo::TYPE => return at(m.mount_point),
            _ => {}
        }
    }
    Err(elsewhere())
}

/// The mount that an open file is on.
///
/// # Errors
/// EOPNOTSUPP: on no SheenFS mount; EBADF.
pub fn mount_of_open(file: impl AsFd) -> io::Result<Mount> {
    let device = rustix::fs::fstat(file)?.st_dev;
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    for _ in 0..READS {
        let here = |m: &mountinfo::MountInfo| m.fs_type == mountinfo::TYPE && m.device == device;
        if let Some(m) = mountinfo::read()?.into_iter().rfind(here) {
            return at(m.mount_point);
        }
    }
    Err(elsewhere())
}

/// All directories that a SheenFS is mounted on.
///
/// # Errors
/// /proc cannot be read.
pub fn mount_points() -> io::Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for mount in mountinfo::read()?.into_iter().filter(|m| m.fs_type == mountinfo::TYPE) {
        if !dirs.contains(&mount.mount_point) {
            dirs.push(mount.mount_point);
        }
    }
    Ok(dirs)
}

/// All directories that a SheenFS is mounted on, with the name of each file system, from the table
/// of mounts. No mount is asked, so one that does not answer holds up nothing.
///
/// # Errors
/// /proc cannot be read.
pub fn listed() -> io::Result<Vec<(PathBuf, String)>> {
    let named = |m: mountinfo::MountInfo| Some((fsname(&m)?.to_owned(), m.mount_point));
    let all = mountinfo::read()?.into_iter().filter_map(named);
    Ok(all.map(|(fsname, dir)| (dir, fsname)).collect())
}

/// The file system of a SheenFS mount: the name after the first `:/` in its source.
fn fsname(mount: &mountinfo::MountInfo) -> Option<&str> {
    let source = mount.source.to_str().filter(|_| mount.fs_type == mountinfo::TYPE)?;
    source.split_once(":/")?.1.split('/').next()
}

/// The mount at this place.
///
/// # Errors
/// The mount does not answer.
pub fn at(dir: PathBuf) -> io::Result<Mount> {
    let names = parsed(&xattr::get_text(&dir, about::MOUNT)?)?;
    Ok(Mount { dir, names })
}

/// A mount of the file system of this name. If there are several, that of the current directory.
///
/// # Errors
/// ENODEV: there is none.
pub fn named(fsname: &str) -> io::Result<Mount> {
    let right = |mount: &Mount| mount.names.fsname.as_str() == fsname;
    if let Some(here) = mount_of(Path::new(".")).ok().filter(right) {
        return Ok(here);
    }
    // The table of mounts names them: one of another file system may be slow to answer, or dead.
    let all = listed()?
        .into_iter()
        .filter(|(_, named)| named == fsname)
        .filter_map(|(dir, _)| at(dir).ok());
    all.into_iter().find(right).ok_or_else(|| rustix::io::Errno::NODEV.into())
}

impl Mount {
    /// Indexes of all targets of a kind, ascending, and whether each is in use.
    ///
    /// # Errors
    /// The mount does not answer.
    pub fn targets(&self, kind: TargetKind) -> io::Result<Vec<(TargetIndex, bool)>> {
        let text = xattr::get_text(&self.dir, about::targets(kind))?;
        let target = |line: &str| {
            let (index, active) =
                line.strip_suffix(" inactive").map_or((line, true), |index| (index, false));
            Ok((TargetIndex(parsed(index)?), active))
        };
        text.lines().map(target).collect()
    }

    /// Names of all pools, ascending.
    ///
    /// # Errors
    /// The mount does not answer.
    pub fn pools(&self) -> io::Result<Vec<String>> {
        Ok(xattr::get_text(&self.dir, about::POOLS)?.lines().map(str::to_owned).collect())
    }

    /// OSTs of a pool; `None`: there is no such pool.
    ///
    /// # Errors
    /// The mount does not answer.
    pub fn pool(&self, name: &str) -> io::Result<Option<Vec<TargetIndex>>> {
        match xattr::get_text(&self.dir, &about::pool(name)) {
            Ok(text) => text
                .lines()
                .map(|line| parsed(line).map(TargetIndex))
                .collect::<Result<_, _>>()
                .map(Some),
            Err(error) if error.raw_os_error() == Some(Errno::ENODATA.0) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Space of all targets of a kind, by index. One round trip of the client for 256 targets.
    ///
    /// # Errors
    /// The mount does not answer. A target that does not has its error in its line.
    pub fn space(&self, kind: TargetKind) -> io::Result<Vec<SpaceLine>> {
        let indexes: Vec<TargetIndex> =
            self.targets(kind)?.into_iter().map(|(index, _)| index).collect();
        let mut lines: Vec<SpaceLine> = Vec::with_capacity(indexes.len());
        while let Some(next) =
            indexes.iter().find(|i| lines.last().is_none_or(|last| **i > last.index))
        {
            let before = lines.len();
            for line in xattr::get_text(&self.dir, &about::space(kind, *next))?.lines() {
                lines.push(parsed(line)?);
            }
            if lines.len() == before {
                // It left the configuration meanwhile.
                break;
            }
        }
        Ok(lines)
    }

    /// Space of one target. It is asked beside up to 255 next ones, as the mount does no less.
    ///
    /// # Errors
    /// ENODEV: there is no such target; the mount does not answer.
    pub fn space_of(&self, kind: TargetKind, index: TargetIndex) -> io::Result<SpaceLine> {
        let text = xattr::get_text(&self.dir, &about::space(kind, index))?;
        let first = text.lines().next().map(parsed::<SpaceLine>).transpose()?;
        first.filter(|line| line.index == index).ok_or_else(|| rustix::io::Errno::NODEV.into())
    }
}

fn parsed<T: FromStr>(text: &str) -> io::Result<T>
where
    T::Err: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    text.trim_end().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}
