//! Making changes durable, and recording how far they are.
//!
//! A sync brings changes to the disk. [`Ost::record`] then notes that in the target's own record,
//! and clients are told only what that record durably says (`ledger`).

use crate::ledger::ToSettle;
use crate::ost::Ost;
use disk::key;
use disk::object::{OstState, STATE_KEY, encode_settled, settled_key};
use observe::mutant::{Mutant, is_mutant};
use std::sync::Arc;
use types::errno::Errno;
use types::object::ObjectId;
use types::session::{ClientUuid, Transno};

impl Ost {
    /// The changes of `object` are durable when this returns. If it returns true, they are once the
    /// store commits.
    pub(crate) fn sync_object(&self, object: ObjectId) -> Result<bool, Errno> {
        if is_mutant(Mutant::WriteBeforeKept) {
            return Ok(false);
        }
        let to_settle = self.ledger.to_settle(object);
        let syncing = self.ledger.begin_sync(object);
        self.objects().sync(object)?;
        if let Some(syncing) = syncing {
            self.ledger.end_sync(syncing);
        }
        if let Some(ToSettle { last, noted: false }) = to_settle {
            self.settle(object, last);
        }
        // Another sync's record may not be committed yet, nor what this start notes about earlier
        // ones.
        Ok(to_settle.is_some() || self.ledger.is_beginning() || self.objects().needs_commit())
    }

    /// Changes of `object` up to `last` are not redone after a power cut, once the store commits.
    pub(crate) fn settle(&self, object: ObjectId, last: Transno) {
        let _turn = self.recording.lock();
        let mut tx = self.target().store().begin();
        tx.put(&settled_key(object), &encode_settled(last));
        tx.finish();
        self.ledger.settled(object, last);
    }

    /// Everything changed before the call is on the disk when this returns.
    pub(crate) fn sync_all(&self) -> Result<(), Errno> {
        let syncing = self.ledger.begin_sync_all();
        self.objects().sync_all()?;
        syncing.into_iter().for_each(|s| self.ledger.end_sync(s));
        Ok(())
    }

    /// Content of the record.
    pub(crate) fn state(&self, durable: Transno, clean: bool) -> OstState {
        let (kernel_run, lost_boot) = (self.kernel_run, self.lost_boot);
        OstState { last_committed: durable, kernel_run, lost_boot, clean }
    }

    /// Records how far changes are durable; clients may be told that when this returns. `clean`: no
    /// further change will come.
    pub(crate) async fn record(&self, clean: bool) -> Result<(), Errno> {
        let durable = {
            let _turn = self.recording.lock();
            let durable = self.ledger.durable();
            let state = self.state(durable, clean && durable == self.ledger.last_assigned());
            let gone: Vec<ClientUuid> = {
                let mut leavers = self.leavers.lock();
                let (gone, left) = std::mem::take(&mut *leavers)
                    .into_iter()
                    .partition(|(_, last)| *last <= durable);
                *leavers = left;
                let gone: Vec<(ClientUuid, Transno)> = gone;
                gone.into_iter().map(|(client, _)| client).collect()
            };
            let mut known = self.known.lock();
            let mut tx = self.target().store().begin();
            tx.put(STATE_KEY, &state.encode());
            self.ledger
                .settled_up_to(durable)
                .into_iter()
                .for_each(|object| tx.delete(&settled_key(object)));
            for client in gone {
                known.remove(&client);
                tx.delete(&key::client(client));
            }
            tx.finish();
            durable
        };
        self.target().store().commit().await?;
        self.ledger.recorded(durable);
        Ok(())
    }

    /// Everything changed before the call is durable and recorded when this returns. Returns the
    /// change up to which checksums may be recorded then.
    async fn flush(self: &Arc<Self>) -> Result<Option<u64>, Errno> {
        let (theirs, changes) = (self.clone(), self.sums.number());
        self.blocking("ost flush", move || theirs.sync_all()).await.ok_or(Errno::ESHUTDOWN)??;
        self.record(false).await?;
        Ok(changes)
    }

    /// As the flush task does, and waits. When this returns, everything changed before the call is
    /// durable and recorded. So are the checksums of everything that did not change meanwhile.
    ///
    /// # Errors
    /// Something is not durable; ESHUTDOWN: the process ends.
    pub async fn flush_all(self: &Arc<Self>) -> Result<(), Errno> {
        let Some(changes) = self.flush().await? else { return Ok(()) };
        let theirs = self.clone();
        let record =
            move || theirs.sums.record(theirs.target().store(), theirs.objects(), changes, true);
        self.blocking("ost checksums", record).await.ok_or(Errno::ESHUTDOWN)
    }

    /// Starts the flush task.
    pub(crate) fn start_flushing(self: &Arc<Self>) {
        let (weak, clock, interval) =
            (Arc::downgrade(self), self.env().clock.clone(), self.settings.flush_interval);
        let much = self.flush.clone();
        let task = async move {
            loop {
                tokio::select! {
                    biased;
                    () = much.notified() => {}
                    () = clock.sleep(interval) => {}
                }
                let Some(ost) = weak.upgrade().filter(|ost| !ost.is_stopped()) else { return };
                let recorded = ost.ledger.last_assigned() == ost.last_committed()
                    && ost.leavers.lock().is_empty();
                if recorded && ost.sums.is_idle() || !ost.window.is_open() {
                    continue;
                }
                match ost.flush().await {
                    // Flushes do not wait for it: after a crash it reads whole objects.
                    Ok(Some(changes)) if !ost.sums.is_idle() => {
                        let theirs = ost.clone();
                        let record = move || {
                            theirs.sums.record(
                                theirs.target().store(),
                                theirs.objects(),
                                changes,
                                false,
                            )
                        };
                        ost.env().tasks.spawn_blocking("ost checksums", Box::new(record));
                    }
                    Ok(_) => {}
                    Err(errno) => {
                        tracing::error!(target = %ost.name(), %errno, "changes cannot be made durable");
                        return;
                    }
                }
            }
        };
        self.env().tasks.spawn("ost flush", Box::pin(task));
    }
}
