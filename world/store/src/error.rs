//! Errors of a store. The errno of each is chosen in one exhaustive match.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::errno::Errno;

/// A store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A write or sync failed earlier: memory and disk may differ. Only closing and opening again
    /// clears it.
    #[error("the store stopped after an earlier error: {cause}")]
    Poisoned {
        /// The error that stopped it.
        cause: Arc<str>,
    },
    /// Another owner took the target over.
    #[error("another server owns this target now (fence {current}, ours {ours})")]
    Fenced {
        /// Our epoch.
        ours: u64,
        /// The newest epoch.
        current: u64,
    },
    /// The log did not say whether it has a group: it is asked again.
    #[error("{log} does not answer: {reason}")]
    NoAnswer {
        /// Name of the log.
        log: Arc<str>,
        /// Why not.
        reason: Arc<str>,
    },
    /// Another process owns the target.
    #[error("the target is owned by {owner}")]
    Owned {
        /// Host and NIDs of the owner.
        owner: Arc<str>,
    },
    /// The tree lacks entries that the log no longer has.
    #[error("{log} no longer has entry {missing}, which the tree of this host lacks")]
    Behind {
        /// Name of the log.
        log: Arc<str>,
        /// Number of the entry.
        missing: u64,
    },
    /// The tree is being copied from another host.
    #[error("{} is an unfinished copy", tree.display())]
    Unfinished {
        /// Folder of the tree.
        tree: PathBuf,
    },
    /// The store or its volume is full. Nothing was changed.
    #[error(
        "no space left: {used} of {capacity} bytes used, {reserved} of them reserved for deleting"
    )]
    NoSpace {
        /// Bytes used.
        used: u64,
        /// Bytes that could be used, with the reserve.
        capacity: u64,
        /// Bytes of `capacity` that only releasing operations may use.
        reserved: u64,
    },
    /// Bytes on the disk differ from what was written.
    #[error("{} is damaged at byte {offset}: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Byte position in it.
        offset: u64,
        /// Description of the damage.
        reason: String,
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
    /// LMDB refused for a reason of its own (not an error of the operating system).
    #[error("{action} {}: {reason}", path.display())]
    Tree {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The tree's folder.
        path: PathBuf,
        /// LMDB's words.
        reason: String,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// The errno that a program sees.
    pub fn errno(&self) -> Errno {
        match self {
            StoreError::Poisoned { .. } => Errno::EIO,
            StoreError::Fenced { .. } => Errno::ESTALE,
            StoreError::NoAnswer { .. } => Errno::ETIMEDOUT,
            StoreError::Owned { .. } => Errno::EBUSY,
            StoreError::Behind { .. } | StoreError::Unfinished { .. } => Errno::EIO,
            StoreError::NoSpace { .. } => Errno::ENOSPC,
            StoreError::Damaged { .. } => Errno::EIO,
            StoreError::Io { errno, .. } => *errno,
            StoreError::Tree { .. } => Errno::EIO,
            StoreError::Closed => Errno::ESHUTDOWN,
        }
    }

    /// For `map_err`: names what was tried on which file.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.to_owned();
        move |error| StoreError::Io { action, path, errno: Errno::from(&error) }
    }
}

impl From<StoreError> for Errno {
    fn from(error: StoreError) -> Errno {
        error.errno()
    }
}
