//! Flushing without a waiting program: data that is old, that is enough for a request, or whose
//! file is closed. And giving idle grants back.

use super::DIRTY_AGE;
use crate::file::File;
use crate::path::DataPath;
use env::watch;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Interval at which the task looks.
const INTERVAL: Duration = Duration::from_millis(500);

impl DataPath {
    /// Begins to flush a file, unless a task does so already; beyond a number of files it is left
    /// to the next look.
    pub fn flush_later(&self, file: &Arc<File>) {
        if let Ok(permit) = self.writeback.flushes.clone().try_acquire_owned() {
            self.begin_flush(file, permit);
        }
    }

    fn begin_flush(&self, file: &Arc<File>, permit: OwnedSemaphorePermit) {
        let Some(me) = self.strong() else { return };
        if file.flush_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        let file = file.clone();
        let flush = async move {
            // From here on a new write is not covered by this attempt.
            file.flush_pending.store(false, Ordering::Release);
            me.give_time_to_record(&file).await;
            if let Err(error) = me.flush_some(&file).await {
                tracing::debug!(fid = %file.fid, %error, "flush a file");
            }
            drop(permit);
        };
        self.session.env.tasks.spawn("flush a file", Box::pin(flush));
    }

    /// Begins to flush all data that waits for long, as many files at once as allowed.
    async fn flush_old(&self) {
        let now = self.session.env.clock.now();
        for file in self.writeback.dirty_files() {
            let since = file.dirty.lock().since;
            // Stored and unreported data has no age: it is reported now.
            if since.is_none_or(|since| since + DIRTY_AGE <= now) {
                // The semaphore is never closed.
                let Ok(permit) = self.writeback.flushes.clone().acquire_owned().await else {
                    return;
                };
                self.begin_flush(&file, permit);
            }
        }
    }

    async fn give_back_grants(&self) {
        for (target, bytes) in self.writeback.grants.take_idle(self.session.env.clock.now()) {
            let Ok(import) = self.import_of(target) else { continue };
            self.writeback.given_back.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = self.ask_grant(target, bytes, 0).await {
                // Its session is lost, and the grant with it.
                tracing::debug!(target = %import.target(), %error, "give back a grant of space");
            }
        }
    }
}

/// Flushes what waits for long, until `stop` changes or the mount is gone.
pub async fn flush_in_background(path: Weak<DataPath>, mut stop: watch::Receiver<bool>) {
    loop {
        let Some(strong) = path.upgrade() else { return };
        let clock = strong.session.env.clock.clone();
        let all = tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = strong.flush_old() => true,
            () = clock.sleep(INTERVAL) => false,
        };
        strong.give_back_grants().await;
        drop(strong);
        if !all {
            continue;
        }
        tokio::select! {
            biased;
            () = clock.sleep(INTERVAL) => {}
            _ = stop.changed() => return,
        }
    }
}
