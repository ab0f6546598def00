//! mount(2), umount(2), and what must be set around them.
//!
//! Everything here works from outside the mount: the kernel is asked through /proc and /sys, never
//! through the mount point.

use crate::device::Device;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use types::attr::AccessTimes;

/// How to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// Source that `df` and `/proc/mounts` show: `127.0.0.1@tcp:/sheen`, or a directory.
    pub source: String,
    /// No changes.
    pub read_only: bool,
    /// Ignore set-id bits.
    pub nosuid: bool,
    /// Device files are inert.
    pub nodev: bool,
    /// No program on it can be executed.
    pub noexec: bool,
    /// What `/proc/mounts` says of access times; the kernel leaves them to the file system.
    pub access_times: AccessTimes,
    /// The same, of directories.
    pub nodiratime: bool,
    /// POSIX ACLs.
    pub posix_acl: bool,
    /// flock and fcntl locks come to the daemon; else the kernel keeps them, for this host only.
    pub locks: bool,
    /// Read-ahead window of the kernel, KiB. (20 ms per request: 128 KiB give 12 MB/s, 4 MiB 169.)
    pub read_ahead_kb: u32,
    /// FUSE threads; `None`: one per core, at least 2.
    pub threads: Option<usize>,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            source: "sheen".to_owned(),
            read_only: false,
            nosuid: false,
            nodev: false,
            noexec: false,
            access_times: AccessTimes::default(),
            nodiratime: false,
            posix_acl: true,
            locks: true,
            read_ahead_kb: 4096,
            threads: None,
        }
    }
}

/// Mounting, or ending a mount, went wrong.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// /dev/fuse cannot be opened.
    #[error("open /dev/fuse: {0}; is the fuse module loaded (modprobe fuse) and are we root?")]
    Device(#[source] Errno),
    /// The mount point cannot be used.
    #[error("mount point {path}: {reason}")]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// mount(2) refused.
    #[error("mount {path}: {errno}")]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The kernel's protocol is too old.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.31 (Linux 5.4) is the oldest that will do")]
    KernelTooOld {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// The first conversation failed.
    #[error("first message from the kernel: {0}")]
    Init(String),
    /// A live mount is there already.
    #[error("{path} is mounted and its file system is alive; unmount it first (umount {path})")]
    Alive {
        /// The mount point.
        path: PathBuf,
    },
    /// A mount is there that does not answer.
    #[error("{path} is mounted and its file system does not answer; umount -l {path} removes it")]
    Silent {
        /// The mount point.
        path: PathBuf,
    },
    /// umount(2) refused.
    #[error("unmount {path}: {errno}")]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Threads that should have ended go on.
    #[error("unmounted {path}, but {threads} of its threads do not end")]
    ThreadsRemain {
        /// The mount point.
        path: PathBuf,
        /// Threads that go on.
        threads: usize,
    },
    /// /proc could not be read.
    #[error("read /proc/self/mountinfo: {0}")]
    MountInfo(#[source] std::io::Error),
}

/// The absolute path of a mount point, resolved without looking at the mount point itself: what is
/// mounted there may be dead.
///
/// # Errors
/// The path has no last component, or its parent does not exist.
pub fn resolve(path: &Path) -> Result<PathBuf, MountError> {
    let wrong = |reason: String| MountError::MountPoint { path: path.to_owned(), reason };
    let name = path.file_name().ok_or_else(|| wrong("has no name of its own".to_owned()))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent =
        parent.canonicalize().map_err(|error| wrong(format!("{}: {error}", parent.display())))?;
    Ok(parent.join(name))
}

/// Mounts an open device at `path` (resolved).
pub(crate) fn mount(
    device: &Device,
    path: &Path,
    options: &MountOptions,
) -> Result<(), MountError> {
    let mut flags = MountFlags::empty();
    for (wanted, flag) in [
        (options.read_only, MountFlags::RDONLY),
        (options.nosuid, MountFlags::NOSUID),
        (options.nodev, MountFlags::NODEV),
        (options.noexec, MountFlags::NOEXEC),
        (options.access_times == AccessTimes::Off, MountFlags::NOATIME),
        (options.access_times == AccessTimes::Strict, MountFlags::STRICTATIME),
        (options.nodiratime, MountFlags::NODIRATIME),
    ] {
        flags.set(flag, wanted);
    }
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read={}",
        device.number(),
        crate::init::MAX_WRITE
    );
    let data = CString::new(data)
        .map_err(|_| MountError::Mount { path: path.to_owned(), errno: Errno::INVAL })?;
    rustix::mount::mount(options.source.as_str(), path, mountinfo::TYPE, flags, data.as_c_str())
        .map_err(|errno| MountError::Mount { path: path.to_owned(), errno })
}

/// True if a mount of SheenFS is at `path`. It is not touched.
///
/// # Errors
/// /proc cannot be read.
pub fn is_mounted(path: &Path) -> std::io::Result<bool> {
    Ok(!mountinfo::ours_at(path)?.is_empty())
}

/// Device number of the newest SheenFS mount at `path`.
pub(crate) fn device_number(path: &Path) -> Result<(u32, u32), MountError> {
    let mounts = mountinfo::ours_at(path).map_err(MountError::MountInfo)?;
    let top = mounts
        .last()
        .ok_or_else(|| MountError::Mount { path: path.to_owned(), errno: Errno::NOENT })?;
    Ok(top.device)
}

fn read_ahead_file((major, minor): (u32, u32)) -> String {
    format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")
}

/// Most that the kernel reads ahead of one open file of a mount, KiB.
///
/// # Errors
/// The kernel has no such mount any more.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel, on no disk")]
pub(crate) fn read_ahead(device: (u32, u32)) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(read_ahead_file(device))?;
    text.trim().parse().map_err(|_| std::io::Error::from_raw_os_error(libc::EIO))
}

/// Sets it, for files that are opened from then on.
///
/// # Errors
/// The kernel refuses, or has no such mount any more.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel, on no disk")]
pub(crate) fn set_read_ahead(device: (u32, u32), kb: u64) -> std::io::Result<()> {
    std::fs::write(read_ahead_file(device), kb.to_string())
}

/// Takes the mount away. A busy one is detached: new paths do not reach it, its users go on. True:
/// it was detached.
pub(crate) fn unmount(path: &Path) -> Result<bool, MountError> {
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(false),
        // Not a mount point any more: another process was faster.
        Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
        Err(Errno::BUSY) => {}
        Err(errno) => return Err(MountError::Unmount { path: path.to_owned(), errno }),
    }
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(true),
        Err(errno) => Err(MountError::Unmount { path: path.to_owned(), errno }),
    }
}

/// Cuts a connection: every request in it fails with ECONNABORTED, its users get ENOTCONN.
///
/// Uses a private instance of fusectl, so that it works where /sys/fs/fuse/connections is not
/// mounted.
///
/// # Errors
/// ENOENT: no such connection (any more); EPERM: not root.
pub(crate) fn abort((_, minor): (u32, u32)) -> Result<(), Errno> {
    let context = rustix::mount::fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let root =
        rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    // Connections are named by the device number of their mount, whose major number is 0.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&root, format!("{minor}/abort"), flags, Mode::empty())?;
    rustix::io::write(&file, b"1").map(|_| ())
}

/// Succeeds if the file system at `path` answers. Blocks for as long as it does not.
pub(crate) fn probe(path: &Path) -> Result<(), Errno> {
    let root = rustix::fs::openat(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )?;
    rustix::fs::fstatfs(&root).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_resolved_by_their_parent() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(resolve(&dir.path().join("absent")).unwrap(), real.join("absent"));
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        assert_eq!(resolve(&real.join("link/m")).unwrap(), real.join("m"));
        assert!(matches!(resolve(Path::new("/")), Err(MountError::MountPoint { .. })));
        assert!(matches!(resolve(Path::new("/no/such/dir")), Err(MountError::MountPoint { .. })));
    }
}
