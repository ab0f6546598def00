//! The kernel's caches belong to the whole machine: dropping them makes cold what another test
//! needs warm.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;

/// While this lives no other test drops the caches of the machine, or needs them to stay.
pub struct Caches(#[allow(dead_code, reason = "closed when it is dropped, which unlocks it")] File);

/// Waits until no other test has the caches to itself.
pub fn mine() -> Caches {
    let file =
        File::create(std::env::temp_dir().join("sheen-e2e-caches.lock")).expect("a lock file");
    flock(&file, FlockOperation::LockExclusive).expect("the lock");
    Caches(file)
}
