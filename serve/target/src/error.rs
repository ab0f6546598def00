//! Errors of a folder that should hold a target. One clear sentence each.

use disk::superblock::BadSuperblock;
use std::path::{Path, PathBuf};
use store::error::StoreError;
use types::errno::Errno;
use types::target::{FsName, TargetKind, TargetName};

/// A target cannot be formatted, opened or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is no superblock.
    #[error("{} holds no target; format it with mkfs.sheen", dir.display())]
    NotATarget {
        /// The folder.
        dir: PathBuf,
    },
    /// The superblock cannot be used.
    #[error("{}: {reason}", path.display())]
    Superblock {
        /// The file.
        path: PathBuf,
        /// The error in the superblock.
        reason: BadSuperblock,
    },
    /// The folder holds another kind of target than asked for.
    #[error("{} holds a target of kind {}, not {}", dir.display(), found.word(), wanted.word())]
    Kind {
        /// The folder.
        dir: PathBuf,
        /// Kind of target that was found.
        found: TargetKind,
        /// Kind that was asked for.
        wanted: TargetKind,
    },
    /// The folder belongs to another file system.
    #[error("{} belongs to the file system {found}, not {wanted}", dir.display())]
    FileSystem {
        /// The folder.
        dir: PathBuf,
        /// Its file system.
        found: FsName,
        /// File system that was asked for.
        wanted: FsName,
    },
    /// Another process (or another part of this one) serves it.
    #[error("{} is already served{}", dir.display(), by.map_or(String::new(), |pid| format!(" by process {pid}")))]
    Served {
        /// The folder.
        dir: PathBuf,
        /// Process, if it left its number.
        by: Option<u32>,
    },
    /// The folder was formatted before.
    #[error("{} already holds {}; use --replace to destroy it", dir.display(), name.map_or("a target".into(), |n| n.to_string()))]
    Exists {
        /// The folder.
        dir: PathBuf,
        /// Name of the target, if it has one.
        name: Option<TargetName>,
    },
    /// The folder holds foreign files.
    #[error("{} is not empty ({found:?} is there); a target needs a folder of its own", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
        /// One of them.
        found: String,
    },
    /// The target has another name or cluster already.
    #[error("{} is {has} already and cannot become {wanted}", dir.display())]
    Assigned {
        /// The folder.
        dir: PathBuf,
        /// Name and cluster it has.
        has: String,
        /// Name and cluster it was to get.
        wanted: String,
    },
    /// The operating system refused.
    #[error("{action} {}: {errno}", path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TargetError {
    /// The errno that a program sees.
    pub fn errno(&self) -> Errno {
        match self {
            TargetError::NotATarget { .. } => Errno::ENOENT,
            TargetError::Superblock { .. } => Errno::EIO,
            TargetError::Kind { .. } | TargetError::FileSystem { .. } => Errno::EINVAL,
            TargetError::Served { .. } => Errno::EBUSY,
            TargetError::Exists { .. } | TargetError::Assigned { .. } => Errno::EEXIST,
            TargetError::NotEmpty { .. } => Errno::ENOTEMPTY,
            TargetError::Io { errno, .. } => *errno,
            TargetError::Store(error) => error.errno(),
        }
    }

    /// For `map_err`: names what was tried on which file.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> TargetError {
        let path = path.to_owned();
        move |error| TargetError::Io { action, path, errno: Errno::from(&error) }
    }
}

impl From<TargetError> for Errno {
    fn from(error: TargetError) -> Errno {
        error.errno()
    }
}
