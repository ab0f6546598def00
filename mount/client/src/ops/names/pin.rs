//! Holding files between the kernel's two steps ([`crate::pins`]).

use crate::caller::Caller;
use crate::client::Client;
use crate::open::{FileHandle, OpenMode};
use data::kernel_view::timers::HELD;
use session::error::ClientError;
use tokio::sync::OwnedSemaphorePermit;
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::OpenFlags;

impl Client {
    /// The result of a request for an inode, on its way to the kernel.
    pub(crate) fn note_stale<T>(&self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        if let Err(error) = &result
            && error.errno() == Errno::ESTALE
        {
            self.pins.note_stale(self.session.env.clock.now());
        }
        result
    }

    /// True if files are to be held now.
    pub(crate) fn is_careful(&self) -> bool {
        self.pins.is_careful(self.session.env.clock.now())
    }

    /// Holds a regular file for a moment. `false`: it was removed meanwhile.
    ///
    /// # Errors
    /// Those of the MDT.
    pub(crate) async fn pin(&self, fid: Fid) -> Result<bool, ClientError> {
        let Some(permit) = self.pins.room() else { return Ok(true) };
        let mode = OpenMode {
            flags: OpenFlags { read: true, ..OpenFlags::default() },
            ..OpenMode::default()
        };
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
