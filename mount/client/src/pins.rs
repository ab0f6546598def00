//! Files that are held between the kernel's LOOKUP of a name and its next request for the inode.
//!
//! The kernel works on a path in two steps: LOOKUP of the name, then OPEN, GETATTR or SETATTR of
//! the inode. If another client removes or replaces the file in between, the second step meets
//! ESTALE, and the kernel takes both steps once more. A second ESTALE reaches the program, which
//! never did anything wrong. So after one ESTALE a mount opens the files that names lead to before
//! it answers for these names: an open file lives on without a name, and the second try works.

use crate::caller::Caller;
use crate::client::Client;
use crate::open::{FileHandle, OpenMode};
use session::error::ClientError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::OpenFlags;

/// How long after an ESTALE files are held: the kernel tries again at once.
const CAREFUL: Duration = Duration::from_secs(1);
/// How long a file is held: until the kernel has surely come to its second step.
const HELD: Duration = Duration::from_secs(2);
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

impl Client {
    /// The result of a request for an inode, on its way to the kernel.
    pub(crate) fn note_stale<T>(&self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        if let Err(error) = &result
            && error.errno() == Errno::ESTALE
        {
            let until = self.session.env.clock.now() + CAREFUL;
            self.pins.careful_until.store(until.as_nanos() as u64, Ordering::Relaxed);
        }
        result
    }

    /// True if files are to be held now.
    pub(crate) fn is_careful(&self) -> bool {
        let until = self.pins.careful_until.load(Ordering::Relaxed);
        (self.session.env.clock.now().as_nanos() as u64) < until
    }

    /// Holds a regular file for a moment. `false`: it was removed meanwhile.
    ///
    /// # Errors
    /// Those of the MDT.
    pub(crate) async fn pin(&self, fid: Fid) -> Result<bool, ClientError> {
        let Ok(permit) = self.pins.room.clone().try_acquire_owned() else { return Ok(true) };
        let mode = OpenMode { flags: OpenFlags { read: true, ..OpenFlags::default() }, ..OpenMode::default() };
        let caller = Caller::root();
        match self.session.mdc(fid)?.open(&caller.credentials, fid, mode.flags).await {
            Ok(opened) => {
                self.unpin_later(self.opened(&caller, opened, mode), permit);
                Ok(true)
            }
            Err(error) if error.errno() == Errno::ESTALE => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn unpin_later(&self, handle: FileHandle, permit: OwnedSemaphorePermit) {
        let Some(me) = self.strong() else { return };
        let unpin = async move {
            me.session.env.clock.sleep(HELD).await;
            me.close(handle).await;
            drop(permit);
        };
        self.session.env.tasks.spawn("let go of a file that the kernel looked up", Box::pin(unpin));
    }
}
