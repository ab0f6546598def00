//! Objects never run ahead of the MDT's durable records.
//!
//! A killed MDT loses the last changes that it had not committed. Living clients bring those back.
//! If the client dies in the same instant, they are gone, and nothing leads to the objects that
//! were written meanwhile: a new file is not there, and an older one has no writer mark that would
//! let the MDT ask for its size. So nothing is sent to an object before the MDT has recorded what
//! makes the change known: the file, its layout, its writer mark, its new size if it was cut.
//!
//! Each answer of an MDT names the newest change that it can show. A file remembers the newest one
//! named when it was opened, cut or given a layout ([`File::rest_on`]). Once that is durable, the
//! file is free. That is once per open: later writes wait for nothing.

use crate::file::File;
use crate::path::DataPath;
use session::error::ClientError;
use std::time::Duration;
use types::credentials::Credentials;
use types::limits::COMMIT_INTERVAL;

/// Interval at which an MDT commits by itself, with time for the answer.
const COMMITTED_BY_ITSELF: Duration = COMMIT_INTERVAL.saturating_add(Duration::from_millis(10));

impl DataPath {
    /// The MDT has just answered something about this file that its objects must not run ahead of.
    pub fn rest_on_answers(&self, file: &File) {
        if let Ok(mdc) = self.session.mdc(file.fid) {
            file.rest_on(mdc.import().newest());
        }
    }

    fn is_recorded(&self, file: &File) -> bool {
        let Some(newest) = file.rests_on() else { return true };
        let recorded =
            self.session.mdc(file.fid).is_ok_and(|mdc| mdc.import().last_committed() >= newest);
        if recorded {
            file.is_recorded_up_to(newest);
        }
        recorded
    }

    /// Ready when objects of the file may be changed: at once, except for the first change after it
    /// was opened, cut or given a layout, which may take 1 round trip and a commit of the MDT.
    ///
    /// # Errors
    /// The MDT does not answer, or cannot commit.
    pub async fn until_recorded(&self, file: &File) -> Result<(), ClientError> {
        while let Some(newest) = file.rests_on().filter(|_| !self.is_recorded(file)) {
            // Everything answered before this is durable with it, in whatever life of the MDT that
            // was.
            self.session.mdc(file.fid)?.sync(&Credentials::root()).await?;
            file.is_recorded_up_to(newest);
        }
        Ok(())
    }

    /// No caller waits for this file to be stored: lets its MDT commit in its own time, so that
    /// storing need not ask for it.
    pub async fn give_time_to_record(&self, file: &File) {
        if self.is_recorded(file) {
            return;
        }
        self.session.env.clock.sleep(COMMITTED_BY_ITSELF).await;
        if self.is_recorded(file) {
            return;
        }
        let Ok(mdc) = self.session.mdc(file.fid) else { return };
        // The first answer may be of a moment before: another file asked for it.
        for _ in 0..2 {
            if let Err(error) = mdc.import().ask_durable().await {
                tracing::debug!(fid = %file.fid, %error, "ask what is durable");
                return;
            }
            if self.is_recorded(file) {
                return;
            }
        }
    }
}
