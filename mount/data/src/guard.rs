//! The lock under which data is worked with: asked for if it is not held, waited for if it is
//! called back.

use crate::file::File;
use crate::locks::data_guards::{Admission, Admitted, DataAccess, DataGuard};
use crate::path::DataPath;
use session::epoch::UNANSWERED_PAUSE;
use session::error::ClientError;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::fid::Fid;

/// Pause before a lock is asked for a second time because it was gone before it could be used; each
/// further one is longer by this.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest of these pauses.
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl DataPath {
    /// Hold it while data of a file is read or written under its lock. Asks the MDT for the lock if
    /// it is not held, and waits for its turn. Dropping the future is harmless.
    ///
    /// # Errors
    /// The MDT does not answer, or the file is gone.
    pub async fn data_guard(
        &self,
        file: &Arc<File>,
        access: DataAccess,
    ) -> Result<DataGuard, ClientError> {
        loop {
            match self.admit_data(file, access).await? {
                Admitted::Locked(guard) => return Ok(guard),
                // The kernel does not wait for this one.
                Admitted::Bypass(bypass) => {
                    drop(bypass);
                    self.locks.data_unadmitted(file.fid).await;
                }
            }
        }
    }

    /// As [`DataPath::data_guard`], for work during which the kernel may hold pages of the file.
    ///
    /// # Errors
    /// The MDT does not answer, or the file is gone.
    pub(crate) async fn admit_data(
        &self,
        file: &Arc<File>,
        access: DataAccess,
    ) -> Result<Admitted, ClientError> {
        let fid = file.fid;
        let mut pause = Duration::ZERO;
        loop {
            let mut changed = pin!(self.locks.data_guards.changed.notified());
            changed.as_mut().enable();
            match self.locks.begin_access(fid, access, self.session.has_lease(fid)) {
                Admission::Begun(guard) => return Ok(Admitted::Locked(guard)),
                Admission::Bypass(bypass) => return Ok(Admitted::Bypass(Some(bypass))),
                Admission::Wait => changed.await,
                Admission::Ask => {
                    // Called back at the moment it came, or lost with a session: rare, and rarer
                    // still twice in a row. There is no end to it: whenever it happens the MDT has
                    // answered, and another client has had its turn.
                    self.session.env.clock.sleep(pause).await;
                    let Some(_ask) = file.asking.begin(access, &self.locks.data_guards.changed)
                    else {
                        changed.await;
                        continue;
                    };
                    pause = (pause + PAUSE).min(PAUSE_MAX);
                    if pause > PAUSE && !self.session.has_lease(fid) {
                        // A callback has been waiting for long: until it is answered, or this
                        // client is evicted, no grant of the MDT is trusted.
                        self.session.env.clock.sleep(UNANSWERED_PAUSE).await;
                        pause = PAUSE;
                    }
                    let (mdc, me) = (self.session.mdc(fid)?, Credentials::root());
                    tokio::select! {
                        biased;
                        locked = mdc.lock(&me, fid, access.bits, access.range) => if let Some(entry) = locked? {
                            file.learn(&entry.attr);
                        },
                        // Other requests came before, and wait for the kernel, which may wait for
                        // this one.
                        () = self.locks.data_admitted(fid) => {}
                    }
                }
            }
        }
    }

    /// A use, if it may begin at once.
    pub(crate) fn try_data_guard(&self, fid: Fid, access: DataAccess) -> Option<DataGuard> {
        match self.locks.begin_access(fid, access, self.session.has_lease(fid)) {
            Admission::Begun(guard) => Some(guard),
            _ => None,
        }
    }
}
