//! Storing while nobody waits: what is old, what is enough for a request, what is closed. And giving back grants that lie
//! idle.

use super::DIRTY_AGE;
use crate::client::Client;
use crate::file::File;
use env::watch;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How often the task looks.
const INTERVAL: Duration = Duration::from_millis(500);

impl Client {
    /// Begins to store a file, unless somebody does; beyond a number of files it is left to the next look.
    pub(crate) fn store_later(&self, file: &Arc<File>) {
        if let Ok(permit) = self.writeback.stores.clone().try_acquire_owned() {
            self.begin_to_store(file, permit);
        }
    }

    fn begin_to_store(&self, file: &Arc<File>, permit: OwnedSemaphorePermit) {
        let Some(me) = self.strong() else { return };
        if file.storing_later.swap(true, Ordering::AcqRel) {
            return;
        }
        let file = file.clone();
        let store = async move {
            // From here on a new write is not covered by this attempt.
            file.storing_later.store(false, Ordering::Release);
            me.give_time_to_record(&file).await;
            if let Err(error) = me.store_kept(&file).await {
                tracing::debug!(fid = %file.fid, %error, "store what was written");
            }
            drop(permit);
        };
        self.env.tasks.spawn("store what was written", Box::pin(store));
    }

    /// Begins to store all that waits for long, so many files at once as may be.
    async fn store_old(&self) {
        let now = self.env.clock.now();
        for file in self.writeback.all_kept() {
            let since = file.unstored.lock().since;
            // What is stored and not told has no age: it is told now.
            if since.is_none_or(|since| since + DIRTY_AGE <= now) {
                // Nobody closes the semaphore.
                let Ok(permit) = self.writeback.stores.clone().acquire_owned().await else { return };
                self.begin_to_store(&file, permit);
            }
        }
    }

    async fn give_back_grants(&self) {
        for (ost, bytes) in self.writeback.grants.take_idle(self.env.clock.now()) {
            let Ok(osc) = self.targets.osc(ost) else { continue };
            self.writeback.given_back.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = osc.grant(bytes, 0).await {
                // Its session is lost, and the grant with it.
                tracing::debug!(target = %osc.import().target(), %error, "give back a grant of space");
            }
        }
    }
}

/// Stores what waits for long, until `stop` changes or the client is gone.
pub(crate) async fn keep_storing(client: Weak<Client>, mut stop: watch::Receiver<bool>) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let clock = strong.env.clock.clone();
        let all = tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = strong.store_old() => true,
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
