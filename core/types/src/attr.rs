//! Inode attributes and changes to them.

use crate::fid::Fid;
use crate::time::Timestamp;

/// File type bits of `st_mode`.
pub const S_IFMT: u32 = libc::S_IFMT;

/// Type of an inode. The numbers are those of `d_type` in a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileType {
    /// FIFO
    Fifo = 1,
    /// Character device
    CharDevice = 2,
    /// Directory
    Directory = 4,
    /// Block device
    BlockDevice = 6,
    /// Regular file
    Regular = 8,
    /// Symbolic link
    Symlink = 10,
    /// Socket
    Socket = 12,
}

impl FileType {
    /// From `st_mode`; `None` if the type bits name no type.
    pub const fn from_mode(mode: u32) -> Option<FileType> {
        Self::from_dtype(((mode & S_IFMT) >> 12) as u8)
    }

    /// From `d_type`.
    pub const fn from_dtype(d_type: u8) -> Option<FileType> {
        Some(match d_type {
            1 => FileType::Fifo,
            2 => FileType::CharDevice,
            4 => FileType::Directory,
            6 => FileType::BlockDevice,
            8 => FileType::Regular,
            10 => FileType::Symlink,
            12 => FileType::Socket,
            _ => return None,
        })
    }

    /// The type bits of `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        (self as u32) << 12
    }
}

/// Everything `stat` answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Identity.
    pub fid: Fid,
    /// Type, permission, set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; directories: 2 + sub-directories.
    pub nlink: u32,
    /// Device number of device files, in the kernel's 32-bit `huge_encode_dev` form.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last data change.
    pub mtime: Timestamp,
    /// Last attribute change.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
    /// Transno of the last change: the object version that replay compares.
    pub version: u64,
}

/// Which accesses change the access time of an inode: the mount options `noatime`, `relatime`,
/// `strictatime`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessTimes {
    /// None.
    Off,
    /// The first one after a change of the inode or of its data, and one a day.
    #[default]
    Relative,
    /// Each one.
    Strict,
}

/// Age of an access time from which on `relatime` renews it, nanoseconds: a day.
const ACCESS_TIME_OLD: i128 = 24 * 60 * 60 * 1_000_000_000;

impl Attr {
    /// True if an access at this time becomes the access time. One from before the newest change
    /// does not count.
    pub fn takes_access(&self, at: Timestamp, times: AccessTimes) -> bool {
        let due = match times {
            AccessTimes::Off => false,
            AccessTimes::Strict => true,
            AccessTimes::Relative => {
                let old = at.as_nanos() - self.atime.as_nanos() >= ACCESS_TIME_OLD;
                self.atime <= self.mtime || self.atime <= self.ctime || old
            }
        };
        due && at > self.atime && at >= self.ctime
    }

    /// Type of the inode.
    pub const fn file_type(&self) -> FileType {
        match FileType::from_mode(self.mode) {
            Some(t) => t,
            None => FileType::Regular,
        }
    }

    /// True if it is a directory.
    pub const fn is_dir(&self) -> bool {
        matches!(self.file_type(), FileType::Directory)
    }
}

/// A time to set: now by the server's clock, or a given one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The server's clock.
    Now,
    /// This given time.
    At(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission, set-id and sticky bits (type bits are ignored).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes; cutting or growing with zeros.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last data change.
    pub mtime: Option<SetTime>,
    /// Clear set-id bits as a write or chown by an unprivileged caller must
    /// (FUSE_HANDLE_KILLPRIV_V2).
    pub kill_suidgid: bool,
}

/// File system totals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statfs {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Bytes that unprivileged users can have.
    pub bytes_available: u64,
    /// Inodes (MDT) or objects (OST) that could exist.
    pub files_total: u64,
    /// Inodes or objects that can still be made.
    pub files_free: u64,
}

/// The time at which data was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrittenAt {
    /// Just now, by the MDT's clock.
    Now,
    /// The MDT already has the times, from an earlier report.
    Told,
    /// Then, by the writer's clock. Never takes mtime or ctime back.
    At(Timestamp),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(atime: i64, mtime: i64, ctime: i64) -> Attr {
        let at = |sec| Timestamp { sec, nsec: 0 };
        Attr {
            fid: Fid::ROOT,
            mode: libc::S_IFREG,
            uid: 0,
            gid: 0,
            nlink: 1,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: at(atime),
            mtime: at(mtime),
            ctime: at(ctime),
            btime: at(0),
            version: 1,
        }
    }

    #[test]
    fn an_access_counts_once_after_a_change_and_once_a_day() {
        let takes =
            |attr: Attr, at, times| attr.takes_access(Timestamp { sec: at, nsec: 0 }, times);
        use AccessTimes::{Off, Relative, Strict};
        assert!(takes(attr(5, 5, 5), 6, Relative), "not read since it was made");
        assert!(takes(attr(5, 7, 7), 8, Relative) && takes(attr(5, 1, 7), 8, Relative));
        assert!(!takes(attr(8, 7, 7), 9, Relative), "read since");
        assert!(takes(attr(8, 7, 7), 9, Strict) && !takes(attr(5, 7, 7), 9, Off));
        assert!(!takes(attr(8, 7, 7), 86_407, Relative) && takes(attr(8, 7, 7), 86_408, Relative));
        assert!(!takes(attr(5, 9, 9), 8, Relative), "that was before the change");
        assert!(!takes(attr(9, 7, 7), 9, Strict), "no later than what is known");
        assert!(takes(attr(5, 1_000, 7), 8, Relative), "a program set mtime ahead");
    }
}
