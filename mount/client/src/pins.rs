//! Files that are held between the kernel's LOOKUP of a name and its next request for the inode.
//!
//! The kernel works on a path in two steps: LOOKUP of the name, then OPEN, GETATTR or SETATTR of
//! the inode. If another client removes or replaces the file in between, the second step meets
//! ESTALE, and the kernel takes both steps once more. A second ESTALE reaches the program, which
//! never did anything wrong. So after one ESTALE a mount opens the files that names lead to before
//! it answers for these names: an open file lives on without a name, and the second try works.

use data::kernel_view::timers::CAREFUL;
use env::clock::Monotonic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Files held at a time. Beyond it files are not held, and a program may see ESTALE.
const PINS_MAX: usize = 256;

/// See the module.
pub(crate) struct Pins {
    /// Nanoseconds of the monotonic clock; 0: never.
    careful_until: AtomicU64,
    room: Arc<Semaphore>,
}

impl Default for Pins {
    fn default() -> Pins {
        Pins { careful_until: AtomicU64::new(0), room: Arc::new(Semaphore::new(PINS_MAX)) }
    }
}

impl Pins {
    /// The kernel is told ESTALE.
    pub(crate) fn note_stale(&self, now: Monotonic) {
        self.careful_until.store((now + CAREFUL).as_nanos() as u64, Ordering::Relaxed);
    }

    /// True if files are to be held now.
    pub(crate) fn is_careful(&self, now: Monotonic) -> bool {
        (now.as_nanos() as u64) < self.careful_until.load(Ordering::Relaxed)
    }

    /// Room to hold one file more; `None`: there is none.
    pub(crate) fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_owned().ok()
    }
}
