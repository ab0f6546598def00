//! What a started OST may have lost, and how it gets it back (docs/recovery.md, section 4).
//!
//! A killed process loses nothing: the page cache belongs to the machine. After a power cut, or on
//! another machine, unsynced changes are lost, and the clients that made them bring them back.
//! `replay::merge` decides; this module waits and applies. Until then all other clients' requests
//! wait at the door. One task, `ost recovery`, ends with the recovery or the OST. There is none if
//! nothing can be lost, or if no client is known.

use crate::ledger::Author;
use crate::ost::Ost;
use crate::sums::Span;
use crate::window::Known;
use disk::key;
use disk::object::settled_key;
use disk::session::encode_client;
use env::BoxFuture;
use observe::mutant::{Mutant, is_mutant};
use replay::merge::{Brought, Step};
use rpc::service::Export;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::error::StoreError;
use types::errno::Errno;
use types::nid::Nid;
use types::principal::{Claim, Owner, Role};
use types::proof::Proof;
use types::session::{ClientUuid, Standing, Transno};
use wire::message::{ConnectRequest, Op, OpReply, Redo, Reply, Request};
use wire::ost::{ObjectPunch, ObjectWrite, OstOp, PunchKind};

/// That of a client of which nothing is known.
const NO_CLAIM: Claim = Claim { proof: Proof(0), owner: Owner::Unknown };

/// True if an MDT that settles a file cuts an object by this.
fn cuts(op: &Op) -> bool {
    matches!(op, Op::Ost(OstOp::Punch(_)))
}

impl Ost {
    /// A client connects.
    ///
    /// # Errors
    /// EAGAIN: this one is not waited for, is no server, and must wait for the others.
    pub(crate) fn admit_session(
        &self,
        export: &Arc<Export>,
        hello: &ConnectRequest,
    ) -> Result<Standing, Errno> {
        if export.nid() == Nid::Loopback {
            // The client ends with this process: it has nothing to bring back.
            return Ok(Standing::Transient);
        }
        let client = export.client();
        if !self.window.is_open() {
            let mut merge = self.window.merge.lock();
            if !self.window.is_open() {
                if hello.boot != 0 && merge.connected(client) {
                    self.window.exports.lock().insert(client, export.clone());
                    return Ok(Standing::Awaited);
                }
                // A new process begins under this name, without a session before.
                merge.gone(client);
                drop(merge);
                self.window.nudge();
                // An MDT says which clients it has evicted; whatever else it asks waits.
                if export.role() != Role::Server {
                    return Err(Errno::EAGAIN);
                }
            }
        }
        self.leavers.lock().retain(|(leaver, _)| *leaver != client);
        let had_all = self.known.lock().get(&client).map_or(0, |known| known.boot);
        match hello.boot.max(had_all) {
            0 => Ok(Standing::Transient),
            last if last < self.lost_boot => Ok(Standing::Missed),
            _ => Ok(Standing::Transient),
        }
    }

    /// What a recorded client shows when it comes back.
    pub(crate) fn recorded_claim(&self, client: ClientUuid) -> Option<Claim> {
        self.known.lock().get(&client).map(|known| known.claim.clone())
    }

    /// A client on the network was answered a change: it is waited for from now on. Returns what
    /// must be waited for before it gets the answer, if anything.
    pub(crate) fn know(&self, export: &Export) -> Option<BoxFuture<'static, Result<(), Errno>>> {
        let client = export.client();
        let transno = {
            let mut known = self.known.lock();
            match known.get(&client).filter(|known| known.boot == self.target().boot()) {
                Some(known) => known.transno,
                None => {
                    let (boot, claim) = (self.target().boot(), export.claim());
                    let mut tx = self.target().store().begin();
                    tx.put(
                        &key::client(client),
                        &encode_client(boot, &claim, &export.description()),
                    );
                    let transno = tx.finish();
                    known.insert(client, Known { boot, claim, transno });
                    transno
                }
            }
        };
        let store = self.target().store().clone();
        if store.last_committed() >= transno {
            return None;
        }
        Some(Box::pin(async move { Ok(store.commit().await.map(drop)?) }))
    }

    /// A client went in order: it brings nothing back. Or it was evicted, and may come again with
    /// the changes it kept: then it stays known until all of them are recorded.
    pub(crate) fn forget_client(&self, client: ClientUuid, evicted: bool) {
        if !self.window.is_open() {
            self.window.merge.lock().gone(client);
        }
        if evicted {
            let last = self.ledger.last_assigned();
            if self.known.lock().contains_key(&client) {
                self.leavers.lock().push((client, last));
            }
        } else if self.known.lock().remove(&client).is_some() {
            let mut tx = self.target().store().begin();
            tx.delete(&key::client(client));
            tx.finish();
        }
        self.window.nudge();
    }

    /// A request before the OST is in service, or one of recovery. `None`: now it may run.
    pub(crate) async fn at_the_door(&self, export: &Export, request: &Request) -> Option<Reply> {
        let window = &self.window;
        let result = match &request.ops[..] {
            [Op::Replay(changes), ops @ ..] => self.take_batch(export, changes, ops).await,
            [Op::Replayed] if !window.is_open() => {
                match window.merge.lock().done(export.client()) {
                    true => Ok(()),
                    false => Err(Errno::ENOTCONN),
                }
            }
            [Op::Replayed | Op::Restored] => Ok(()),
            // An MDT keeps writers away only while it waits for the answer. It asks again.
            ops if export.role() == Role::Server && ops.iter().any(cuts) => {
                return Some(self.refusal(request.xid, ops.len(), Errno::EAGAIN));
            }
            _ => {
                return match window.until(export, || window.is_open()).await {
                    Ok(()) => None,
                    Err(errno) => Some(self.refusal(request.xid, request.ops.len(), errno)),
                };
            }
        };
        let result = match (result, &request.ops[..]) {
            (Ok(()), [Op::Replayed | Op::Restored]) => {
                window.nudge();
                window.until(export, || window.is_open()).await
            }
            (result, _) => result,
        };
        let results = request.ops.iter().map(|_| result.map(|()| OpReply::Done)).collect();
        Some(Reply::new(request.xid, Transno(0), self.last_committed(), results))
    }

    /// A client brings changes; ready when they are done.
    async fn take_batch(&self, export: &Export, changes: &[Redo], ops: &[Op]) -> Result<(), Errno> {
        if changes.len() != ops.len() || self.window.is_open() {
            return Err(Errno::ENOTCONN);
        }
        let one = |(change, op): (&Redo, &Op)| match op {
            Op::Ost(op) if op.row().class.replayed => Ok((change.transno, op.clone())),
            _ => Err(Errno::EPROTO),
        };
        let batch = changes.iter().zip(ops).map(one).collect::<Result<Vec<_>, _>>()?;
        let client = export.client();
        let brought = self.window.merge.lock().bring(client, batch);
        brought.map_err(|_| {
            tracing::warn!(target = %self.name(), client = %client.brief(), "changes cannot be brought back");
            Errno::ENOTCONN
        })?;
        self.window.nudge();
        let mut taken = None;
        let window = &self.window;
        window
            .until(export, || {
                taken = window.merge.lock().is_taken(client);
                taken != Some(false)
            })
            .await?;
        taken.map(drop).ok_or(Errno::ENOTCONN)
    }

    /// Recovers with the clients of the previous life, then opens for service.
    pub(crate) async fn recover_clients(self: Arc<Ost>) {
        let (began, mut count) = (self.env().clock.now(), 0);
        while !self.is_stopped() {
            let now = self.env().clock.now();
            let (step, deadline) = {
                let mut merge = self.window.merge.lock();
                (merge.next(now), merge.deadline())
            };
            match step {
                Step::Wait => {
                    tokio::select! {
                        biased;
                        () = self.window.changed.notified() => {}
                        () = self.env().clock.sleep(deadline.saturating_sub(now)) => {}
                    }
                }
                Step::Apply(changes) => {
                    count += changes.len();
                    self.do_again(changes).await;
                    self.window.nudge();
                }
                Step::End { late } => {
                    if let Err(errno) = self.end_recovery(&late).await {
                        tracing::error!(target = %self.name(), %errno, "cannot recover; the target stays out of service");
                        return;
                    }
                    let took = self.env().clock.now().saturating_sub(began);
                    tracing::info!(target = %self.name(), changes = count, late = late.len(), ?took, "recovery is over");
                    return;
                }
            }
        }
    }

    async fn do_again(self: &Arc<Self>, mut changes: Vec<Brought<OstOp>>) {
        if is_mutant(Mutant::ReplayDisorder) {
            changes.reverse();
        }
        let spans = changes.iter().filter_map(|brought| Span::of(&brought.change)).collect();
        let changing = match self.begin_spans(spans).await {
            Ok(changing) => changing,
            Err(errno) => {
                tracing::error!(target = %self.name(), %errno, "changes that were brought back cannot be done");
                let clients: BTreeSet<ClientUuid> =
                    changes.iter().map(|brought| brought.client).collect();
                clients.into_iter().for_each(|client| self.give_up(client));
                return;
            }
        };
        let ost = self.clone();
        let work = move || {
            let _changing = changing;
            let mut failed = Vec::new();
            for Brought { transno, client, change } in changes {
                if failed.contains(&client) {
                    continue;
                }
                if let Err(errno) = ost.redo(transno, client, &change) {
                    tracing::error!(target = %ost.name(), client = %client.brief(), %errno, "a change that was brought back cannot be done");
                    failed.push(client);
                }
            }
            failed
        };
        for client in self.blocking("ost replay", work).await.unwrap_or_default() {
            self.give_up(client);
        }
    }

    /// Redoes a change as it was done before, wherever there is room.
    fn redo(&self, transno: Transno, client: ClientUuid, op: &OstOp) -> Result<(), Errno> {
        let objects = self.objects();
        let (object, longer_than, bytes) = match op {
            OstOp::Write(ObjectWrite { object, data, .. }) => (*object, None, data.len() as u64),
            OstOp::Punch(ObjectPunch {
                object,
                start,
                kind: PunchKind::Truncate | PunchKind::Hole,
                ..
            }) => (*object, Some(start.0), 0),
            OstOp::Punch(ObjectPunch { object, .. }) => (*object, None, 0),
            _ => return Err(Errno::EPROTO),
        };
        if self.window.settled.get(&object).is_some_and(|settled| *settled >= transno) {
            return Ok(());
        }
        let apply = || match op {
            OstOp::Write(ObjectWrite { object, offset, data, .. }) => {
                objects.write(*object, data, offset.0)
            }
            OstOp::Punch(ObjectPunch { object, start, end, kind }) => {
                let len = end.0.saturating_sub(start.0);
                match kind {
                    PunchKind::Truncate => objects.truncate(*object, start.0),
                    PunchKind::Hole => objects.punch(*object, start.0, len),
                    PunchKind::Zero => objects.allocate(*object, start.0, len, true),
                    PunchKind::Allocate => objects.allocate(*object, start.0, len, false),
                }
            }
            _ => Ok::<(), StoreError>(()),
        };
        self.change(object, longer_than, (Author { client, keeps: true }, bytes), apply).map(drop)
    }

    /// Stops waiting for this client. When it comes, it is told what it lost.
    pub(crate) fn give_up(&self, client: ClientUuid) {
        tracing::warn!(target = %self.name(), client = %client.brief(), "client not recovered: what it wrote and nobody synced is lost");
        self.window.merge.lock().gone(client);
        self.known.lock().remove(&client);
        let export = self.window.exports.lock().remove(&client);
        if let Some(export) = export {
            export.evict();
        }
        let mut tx = self.target().store().begin();
        tx.delete(&key::client(client));
        tx.finish();
    }

    async fn end_recovery(self: &Arc<Self>, late: &[ClientUuid]) -> Result<(), Errno> {
        late.iter().for_each(|client| self.give_up(*client));
        let ost = self.clone();
        self.blocking("ost replay", move || ost.sync_all()).await.ok_or(Errno::ESHUTDOWN)??;
        {
            // Every client that came has everything here.
            let boot = self.target().boot();
            let came: Vec<ClientUuid> = self.window.merge.lock().came().collect();
            let exports = self.window.exports.lock().clone();
            let mut known = self.known.lock();
            let mut tx = self.target().store().begin();
            for client in came {
                let description =
                    exports.get(&client).map(|export| export.description()).unwrap_or_default();
                let claim = known.get(&client).map_or(NO_CLAIM, |known| known.claim.clone());
                tx.put(&key::client(client), &encode_client(boot, &claim, &description));
                known.insert(client, Known { boot, claim, transno: tx.transno() });
            }
            self.window.settled.keys().for_each(|object| tx.delete(&settled_key(*object)));
            tx.finish();
        }
        self.record(false).await?;
        self.window.exports.lock().clear();
        {
            let _merge = self.window.merge.lock();
            self.window.open.store(true, Ordering::Release);
        }
        self.window.nudge();
        Ok(())
    }
}
