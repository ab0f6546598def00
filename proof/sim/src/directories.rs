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
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Locks of the directories of one mount.
#[derive(Clone, Default)]
pub struct Directories(Arc<Mutex<BTreeMap<Ino, Arc<RwLock<()>>>>>);

/// Directories that are being changed.
pub struct Changing {
    _guards: Vec<OwnedRwLockWriteGuard<()>>,
}

impl Directories {
    /// Waits until none of them is being changed or listed. Those of a rename are taken in one
    /// order.
    pub async fn change(&self, mut dirs: Vec<Ino>) -> Changing {
        dirs.sort_unstable();
        dirs.dedup();
        let mut guards = Vec::with_capacity(dirs.len());
        for dir in dirs {
            guards.push(self.of(dir).write_owned().await);
        }
        Changing { _guards: guards }
    }

    /// Waits until it is not being changed, and keeps it so.
    pub async fn list(&self, dir: Ino) -> OwnedRwLockReadGuard<()> {
        self.of(dir).read_owned().await
    }

    fn of(&self, dir: Ino) -> Arc<RwLock<()>> {
        self.0.lock().entry(dir).or_default().clone()
    }
}
