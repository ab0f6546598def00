//! The recovery window of a started MDT: waits and does what `replay::recovery` decides.
//!
//! Until the window closes, requests of clients wait at its door; only requests of recovery pass.
//! One task, `mdt recovery`, ends with the window or the MDT. Without clients to wait for there is
//! no window and no task.

use crate::acks::{AckEvent, kept_replies};
use crate::background::tasks::Stop;
use crate::background::unsettled::Unsettled;
use crate::bundles::Steps;
use crate::error::StartError;
use crate::locks::context::LockContext;
use crate::locks::{Locks, When};
use crate::mds::{Mds, alive};
use crate::recovery::window::{Phase, Recorded, RecoveryReport, Window};
use crate::recovery::{Brought, Recovered, recover};
use crate::state::State;
use bytes::Bytes;
use disk::key;
use disk::session::encode_client;
use env::BoxFuture;
use observe::mutant::{Mutant, is_mutant};
use replay::bundle::exchange::Exchange;
use replay::recovery::{Gathered, RecoveryAction};
use rpc::service::{Export, Gone, Service};
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::nid::Nid;
use types::principal::{Claim, Role};
use types::session::{ClientUuid, Standing, Transno};
use wire::mds::MdsOp;
use wire::message::{Op, OpReply, Redo, Reply, Request};

/// Waits until recovery is as far as `phase`.
///
/// # Errors
/// ENOTCONN: the session ended; ESHUTDOWN: the MDT did.
async fn reached(window: &Window, phase: Phase, export: &Export) -> Result<(), Errno> {
    let mut now = window.phase.subscribe();
    // An error: the MDT itself is gone.
    now.wait_for(|now| *now >= phase || export.is_gone()).await.map_err(|_| Errno::ESHUTDOWN)?;
    alive(export)
}

impl Mds {
    /// State of recovery.
    pub fn recovery(&self) -> RecoveryReport {
        let machine = self.window.machine.lock();
        let (clients, connected) = machine.clients();
        let left = machine
            .deadline()
            .map_or(Duration::ZERO, |deadline| deadline.saturating_sub(self.env.clock.now()));
        let mdts = self.window.mdts.lock().iter().copied().collect();
        RecoveryReport { phase: machine.phase(), clients, connected, left, mdts }
    }

    /// Stops waiting for clients (`lctl abort_recovery`): those that have not come are evicted, and
    /// those that have, if all have or this is asked for again.
    pub fn abort_recovery(&self) {
        self.window.machine.lock().abort();
        self.window.changed.wake();
    }

    /// Stops waiting for other MDTs (`lctl abort_recovery_mdt`). What only they know of operations
    /// over several MDTs is not done here; those may be left half done, which `sheen fsck` finds.
    pub fn abort_recovery_mdt(&self) {
        self.window.mdts_given_up.send_replace(true);
    }

    /// A client connects.
    ///
    /// # Errors
    /// EAGAIN: this one is not waited for, and must wait for the others; or its eviction is not
    /// durable yet.
    pub(crate) fn admit_session(&self, export: &Export) -> Result<Standing, Errno> {
        if self.window.evicting.lock().contains(&export.client()) {
            return Err(Errno::EAGAIN);
        }
        if export.nid() == Nid::Loopback {
            // The client ends with this process: nothing of it is ever recovered.
            return Ok(Standing::Transient);
        }
        if export.role() == Role::Server {
            // Another MDT relies on nothing of a session, and may itself be what is waited for.
            return Ok(Standing::Settled);
        }
        let client = export.client();
        if !self.window.is_open() {
            let mut machine = self.window.machine.lock();
            if machine.phase() != Phase::Open {
                return if machine.connected(client) {
                    Ok(Standing::Awaited)
                } else {
                    Err(Errno::EAGAIN)
                };
            }
        }
        Ok(Standing::Settled)
    }

    /// What a recorded client shows when it comes back.
    pub(crate) fn recorded_claim(&self, client: ClientUuid) -> Option<Claim> {
        self.window.sessions.lock().get(&client).map(|recorded| recorded.claim.clone())
    }

    /// True if the client is recorded, so that a restarted MDT waits for it.
    pub(crate) fn is_recorded(&self, client: ClientUuid) -> bool {
        self.window.sessions.lock().contains_key(&client)
    }

    /// Records a client that is about to get something for which a restarted MDT must wait for it.
    /// Returns the transno of its record: the client may be answered once that is durable. `None`:
    /// its session has ended.
    pub(crate) fn record(&self, export: &Export) -> Option<Transno> {
        let client = export.client();
        let mut sessions = self.window.sessions.lock();
        // Checked under the lock: `forget_session`, which comes after the end, removes what was put
        // before it.
        if export.is_gone() {
            return None;
        }
        let recorded = sessions.entry(client).or_insert_with(|| {
            let (mut tx, claim) = (self.store.begin(), export.claim());
            tx.put(&key::client(client), &encode_client(self.boot, &claim, &export.description()));
            Recorded { transno: tx.finish(), claim }
        });
        Some(recorded.transno)
    }

    /// Ready when the client's record is durable, and its changes up to `changed` are; `None`: they
    /// are already.
    pub(crate) fn session_known(
        &self,
        client: ClientUuid,
        changed: Transno,
    ) -> Option<BoxFuture<'static, ()>> {
        let recorded = self.window.sessions.lock().get(&client).map(|recorded| recorded.transno);
        let transno = recorded.unwrap_or_default().max(changed);
        let store = self.store.clone();
        if store.last_committed() >= transno {
            return None;
        }
        Some(Box::pin(async move {
            if let Err(error) = store.commit().await {
                tracing::error!(client = %client.brief(), %error, "a session may be forgotten");
            }
        }))
    }

    /// A session is over for good: a restarted MDT does not wait for its client. `true`: from the
    /// next commit on.
    pub(crate) fn forget_session(&self, client: ClientUuid) -> bool {
        self.window.machine.lock().gone(client);
        let known = self.window.sessions.lock().remove(&client).is_some();
        let waits = *self.window.phase.borrow() < Phase::Restoring;
        if known && waits {
            // No transaction before the replayed ones.
            self.window.leavers.lock().push(client);
        } else if known {
            let forgotten = self.transact(&mut LockContext::own(), |records, _| {
                Ok(kept_replies::forget(&mut records.tx, client)?)
            });
            if let Err(errno) = forgotten {
                tracing::error!(client = %client.brief(), %errno, "the records of a session stay behind");
            }
        }
        self.window.nudge();
        known && !waits
    }

    /// A session ended. What its client held goes to others, once a restarted MDT would not take
    /// the client for one that still has it, and OSTs do nothing for an evicted one
    /// ([`fencing`](crate::fencing)).
    pub(crate) fn session_gone(&self, export: &Export, why: Gone) {
        let client = export.client();
        self.fencing.session(client, false);
        let later = match why {
            Gone::Disconnected | Gone::Evicted => self.forget_session(client),
            // The target goes, not the client: the next life waits for it.
            Gone::Stopped => {
                self.window.nudge();
                false
            }
        };
        let Some(me) = self.me.upgrade().filter(|_| later && why == Gone::Evicted) else {
            return self.release(client, why);
        };
        self.window.evicting.lock().insert(client);
        let until = self.fence_until(export);
        self.fencing.add(&[client]);
        let release = async move {
            let fenced = me.until_fenced(until);
            if let (Err(error), ()) = tokio::join!(me.store.commit(), fenced) {
                // The MDT stops anyway.
                tracing::error!(target = %me.name, client = %client.brief(), %error, "an eviction is not durable");
                return;
            }
            me.release(client, why);
            me.window.evicting.lock().remove(&client);
        };
        self.env.tasks.spawn("evict a client", Box::pin(release));
    }

    /// A request before the MDT is in service. `None`: now it may run.
    pub(crate) async fn at_the_door(&self, export: &Export, request: &Request) -> Option<Reply> {
        let result = match &request.ops[..] {
            [Op::Replay(changes), ops @ ..] => self.gather(export, changes, ops),
            [Op::Replayed] => self.all_gathered(export).await,
            [Op::Restored] => self.all_restored(export).await,
            [Op::Mds(MdsOp::PeerExchange(exchange))] => {
                // It is answered once this MDT's own clients have come, and before it is open.
                let phase = if exchange.announce { Phase::Gathering } else { Phase::Applying };
                match reached(&self.window, phase, export).await {
                    Ok(()) => return None,
                    Err(errno) => Err(errno),
                }
            }
            _ => {
                let passes = request.replay.0 != 0 || is_mutant(Mutant::LockInRecovery);
                match reached(
                    &self.window,
                    if passes { Phase::Restoring } else { Phase::Open },
                    export,
                )
                .await
                {
                    Ok(()) => return None,
                    Err(errno) => return Some(self.refuse(request, errno)),
                }
            }
        };
        Some(self.done(request, result))
    }

    pub(crate) fn done(&self, request: &Request, result: Result<(), Errno>) -> Reply {
        let results = request.ops.iter().map(|_| result.map(|()| OpReply::Done)).collect();
        Reply::new(request.xid, Transno(0), self.last_committed(), results)
    }

    /// A client brings changes, and the operations that have the data which they name.
    fn gather(&self, export: &Export, changes: &[Redo], ops: &[Op]) -> Result<(), Errno> {
        let client = export.client();
        for redo in changes {
            let transno = redo.transno;
            let change = match self.redo.open(redo, redo.data_in(ops)) {
                Ok(Some(change)) => change,
                Ok(None) => {
                    tracing::warn!(target = %self.name, client = %client.brief(), ?transno, "a change of an earlier life is passed over");
                    continue;
                }
                Err(why) => {
                    tracing::error!(target = %self.name, client = %client.brief(), nid = %export.nid(), ?transno, %why, "a client brought back what this MDT did not give it, and is evicted");
                    self.evict_late(client);
                    return Err(Errno::ENOTCONN);
                }
            };
            let bytes = change.len();
            self.window.machine.lock().replay(client, transno, change, bytes).map_err(|refused| {
                tracing::warn!(target = %self.name, client = %client.brief(), ?refused, "a change cannot be replayed");
                Errno::ENOTCONN
            })?;
        }
        Ok(())
    }

    async fn all_gathered(&self, export: &Export) -> Result<(), Errno> {
        let known = self.window.machine.lock().replayed(export.client());
        if !known {
            return Err(Errno::ENOTCONN);
        }
        self.window.changed.wake();
        reached(&self.window, Phase::Restoring, export).await?;
        // Whatever an interrupted attempt had restored, the client restores again.
        let mut state = self.state.lock();
        while state.opens.forget_one(export.client()).is_some() {}
        Ok(())
    }

    async fn all_restored(&self, export: &Export) -> Result<(), Errno> {
        let known = self.window.machine.lock().restored(export.client());
        if !known {
            return Err(Errno::ENOTCONN);
        }
        self.window.changed.wake();
        if is_mutant(Mutant::LockInRecovery) {
            return Ok(());
        }
        reached(&self.window, Phase::Open, export).await
    }

    /// Recovers with the clients of the previous life, then opens for service.
    pub(crate) async fn recover_clients(self: Arc<Mds>, mut stop: Stop) {
        let began = self.env.clock.now();
        loop {
            let now = self.env.clock.now();
            let (action, deadline) = {
                let mut machine = self.window.machine.lock();
                (machine.next(now), machine.deadline())
            };
            match action {
                None => {
                    let wait = deadline.map(|deadline| deadline.saturating_sub(now));
                    if !self.window.changed.wait(&self.env, wait, &mut stop).await {
                        return;
                    }
                }
                Some(RecoveryAction::Apply { changes, late }) => {
                    let Some(exchange) = self.exchange(&changes, &mut stop).await else { return };
                    if let Err(error) = self.replay(changes, late, &exchange).await {
                        tracing::error!(target = %self.name, %error, "cannot recover; the target stays out of service");
                        return;
                    }
                }
                Some(RecoveryAction::Open { late }) => {
                    self.fencing.add(&late);
                    late.iter().for_each(|client| self.evict_late(*client));
                    self.fence_late().await;
                    // Others get what these had.
                    if !late.is_empty()
                        && let Err(error) = self.store.commit().await
                    {
                        tracing::error!(target = %self.name, %error, "cannot evict; the target stays out of service");
                        return;
                    }
                    self.open_for_service();
                    let took = self.env.clock.now().saturating_sub(began);
                    tracing::info!(target = %self.name, ?took, "recovery is over");
                    return;
                }
            }
        }
    }

    async fn replay(
        &self,
        mut changes: Vec<Gathered<Bytes>>,
        mut late: Vec<ClientUuid>,
        exchange: &Exchange<Steps>,
    ) -> Result<(), StartError> {
        late.append(&mut self.window.leavers.lock());
        if is_mutant(Mutant::ReplayDisorder) {
            changes.reverse();
        }
        let count = changes.len();
        let stopped: Vec<_> = self.state.lock().bundles.participant.stopped().collect();
        let brought = Brought { changes: &changes, late: &late, exchange, stopped: &stopped };
        let recovered =
            recover(&self.store, &self.env, self.name, self.boot, &self.redo.record, brought)?;
        self.store.commit().await?;
        tracing::info!(
            target = %self.name,
            changes = count,
            late = late.len(),
            refused = recovered.refused.len(),
            "changes of the life before are done again"
        );
        let refused = recovered.refused.clone();
        self.take_over(recovered);
        self.fencing.add(&late);
        self.fencing.add(&refused);
        late.into_iter().for_each(|client| self.evict_late(client));
        refused.iter().for_each(|client| self.evict_late(*client));
        self.window.machine.lock().applied(&refused, self.env.clock.now());
        self.window.enter(Phase::Restoring);
        Ok(())
    }

    /// Takes over what the new life starts with.
    pub(crate) fn take_over(&self, recovered: Recovered) {
        let now = self.env.clock.now();
        *self.unsettled.lock() =
            Unsettled::after_start(recovered.marked, now, self.settings.clients_return);
        let State { fids, orphans, moving, acks, bundles, .. } = &mut *self.state.lock();
        bundles.restore(self.name.index, &recovered.bundles);
        bundles.to_restore.clear();
        *fids = recovered.fids;
        acks.restore(recovered.replies);
        orphans.extend(recovered.orphans);
        moving.extend(recovered.moving);
    }

    /// A client did not come, or did not bring back what it must: it is told when it comes.
    fn evict_late(&self, client: ClientUuid) {
        tracing::warn!(target = %self.name, client = %client.brief(), "client evicted: it was not recovered");
        let export = {
            let Locks { exports, .. } = &self.state.lock().locks;
            exports.get(&client).cloned()
        };
        match export {
            Some(export) if export.evict() => {}
            Some(export) => self.session_gone(&export, Gone::Evicted),
            None => {
                self.with_state(When::Later, |state| {
                    state.acknowledge(AckEvent::Gone { client, returns: false });
                });
                self.forget_session(client);
            }
        }
    }

    /// Removes orphans that no client has open any more, starts the tasks, and serves the waiting
    /// requests.
    pub(crate) fn open_for_service(self: &Arc<Mds>) {
        let orphans: Vec<_> = {
            let mut state = self.state.lock();
            state.recovering = false;
            let mut orphans: Vec<_> = state.orphans.iter().copied().collect();
            orphans.sort_unstable();
            orphans
        };
        self.end_orphans(&orphans);
        self.spawn();
        self.window.enter(Phase::Open);
    }
}
