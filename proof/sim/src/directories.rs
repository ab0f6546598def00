//! What the kernel does between programs and a mount: one change of a directory at a time, whoever of its mount asks; a directory
//! that is being removed counts as changed.
//!
//! So no program sees the answer to a change of a directory while another change of it, through the same mount, is under way. The
//! kernel finds names that it knows without that lock; so do programs here.

use crate::history::Ino;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Locks of the directories of one mount.
#[derive(Clone, Default)]
pub struct Directories(Arc<Mutex<BTreeMap<Ino, Arc<tokio::sync::Mutex<()>>>>>);

/// Directories that are being changed.
pub struct Changing {
    _guards: Vec<OwnedMutexGuard<()>>,
}

impl Directories {
    /// Waits until nobody changes them. Those of a rename are taken in one order.
    pub async fn change(&self, mut dirs: Vec<Ino>) -> Changing {
        dirs.sort_unstable();
        dirs.dedup();
        let mut guards = Vec::with_capacity(dirs.len());
        for dir in dirs {
            let lock = self.0.lock().entry(dir).or_default().clone();
            guards.push(lock.lock_owned().await);
        }
        Changing { _guards: guards }
    }
}
