//! An OST starts and stops.

use crate::error::StartError;
use crate::ost::{Ost, kernel_run};
use crate::settings::OstSettings;
use crate::window::Found;
use disk::object::{STATE_KEY, settled_key};
use env::Env;
use std::sync::Arc;
use target::Target;
use target::room::Room;
use types::errno::Errno;

impl Ost {
    /// Takes a target into service. `room`: shared by the OSTs that share a volume.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        target: Arc<Target>,
        env: Env,
        settings: OstSettings,
        room: Arc<Room>,
    ) -> Result<Arc<Ost>, StartError> {
        let found = Found::read(target.store(), kernel_run(&target, &env))?;
        let ost = Ost::new(target, env, settings, room, &found)?;
        if ost.window.is_open() {
            // Opening the object files synced what was left, so nothing older has to be settled.
            // The state is put before any client's record. So no client's change is answered while
            // the state still says that the stop was orderly.
            let mut tx = ost.target().store().begin();
            tx.put(STATE_KEY, &ost.state(ost.ledger.durable(), false).encode());
            found.settled.keys().for_each(|object| tx.delete(&settled_key(*object)));
            tx.finish();
            let recording = ost.clone();
            let record = async move {
                if let Err(errno) = recording.record(false).await {
                    tracing::error!(target = %recording.name(), %errno, "what is durable cannot be recorded");
                }
            };
            ost.env().tasks.spawn("ost record", Box::pin(record));
        } else {
            let waits_for = found.clients.len();
            tracing::info!(target = %ost.name(), clients = waits_for, "changes may be lost; waiting for who made them");
            ost.env().tasks.spawn("ost recovery", Box::pin(ost.clone().recover_clients()));
        }
        ost.start_flushing();
        ost.start_counting();
        Ok(ost)
    }

    /// Syncs everything and ends the flush task. Operations after it fail.
    ///
    /// # Errors
    /// Something is not durable.
    pub async fn stop(self: &Arc<Self>) -> Result<(), Errno> {
        let ost = self.clone();
        let sync = move || {
            *ost.stopped.write() = true;
            ost.sums.end();
            ost.sync_all()?;
            // No change comes any more.
            ost.sums.record_last(ost.target().store(), ost.objects());
            Ok(())
        };
        let synced = self.blocking("ost stop", sync).await.unwrap_or(Err(Errno::ESHUTDOWN));
        self.window.nudge();
        synced?;
        match self.window.is_open() {
            true => self.record(true).await,
            // The next start recovers.
            false => Ok(self.target().store().commit().await.map(drop)?),
        }
    }
}
