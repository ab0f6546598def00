//! The kernel's part between programs and a mount: one change of a directory at a time, whichever
//! program of the mount asks, and no listing meanwhile. A directory that is being removed counts as
//! changed.
//!
//! So no program sees the answer to a change of a directory, nor its names, while another change of
//! it through the same mount is under way. The kernel finds names that it knows without that lock;
//! so do programs here.

use crate::history::Ino;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Locks of the directories of one mount.
#[derive(Clone, Default)]
pub struct Directories {
    of: Arc<Mutex<BTreeMap<Ino, Arc<RwLock<()>>>>>,
    /// One rename from one directory to another at a time, as in the kernel.
    renames: Arc<tokio::sync::Mutex<()>>,
}

/// Directories that are being changed.
pub struct Changing {
    _guards: Vec<OwnedRwLockWriteGuard<()>>,
    _renames: Option<OwnedMutexGuard<()>>,
}

impl Directories {
    /// Waits until none of them is being changed or listed. Those of a rename are taken in one
    /// order.
    pub async fn change(&self, mut dirs: Vec<Ino>) -> Changing {
        dirs.sort_unstable();
        dirs.dedup();
        // Of two directories, each may be the one that another rename is about to replace.
        let renames = match dirs.len() {
            0 | 1 => None,
            _ => Some(self.renames.clone().lock_owned().await),
        };
        let mut guards = Vec::with_capacity(dirs.len());
        for dir in dirs {
            guards.push(self.of(dir).write_owned().await);
        }
        Changing { _guards: guards, _renames: renames }
    }

    /// As [`Directories::change`] of one, if that is not being changed or listed.
    pub fn try_change(&self, dir: Ino) -> Option<Changing> {
        let guard = self.of(dir).try_write_owned().ok()?;
        Some(Changing { _guards: vec![guard], _renames: None })
    }

    /// Waits until it is not being changed, and keeps it so.
    pub async fn list(&self, dir: Ino) -> OwnedRwLockReadGuard<()> {
        self.of(dir).read_owned().await
    }

    fn of(&self, dir: Ino) -> Arc<RwLock<()>> {
        self.of.lock().entry(dir).or_default().clone()
    }
}
