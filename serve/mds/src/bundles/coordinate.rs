//! A request of a client that becomes an operation over several MDTs: Apply at the others, Apply
//! here, answer.
//!
//! No lock is held while it waits; the pin of the bundle keeps others off the name. If the request
//! is dropped before the bundle is decided, the bundle is given up; after that, [`super::task`]
//! ends it.

use super::pins::Pin;
use super::steps::{Occasion, do_part};
use super::{Bundle, Steps, record_of};
use crate::acks::kept_replies;
use crate::background::failing::LastSaid;
use crate::locks::context::LockContext;
use crate::mds::{Mds, RequestContext, alive};
use crate::records::Records;
use bytes::Bytes;
use disk::bundle::{Peer, Step, encode_peer};
use disk::key;
use futures_util::future::join_all;
use namespace::context::Context;
use observe::mutant::{Mutant, is_mutant};
use replay::bundle::Other;
use replay::bundle::coordinator::Answered;
use rpc::error::RpcError;
use rpc::service::Export;
use std::time::Duration;
use types::bundle::BundleId;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::session::{ClientUuid, Transno};
use types::target::TargetIndex;
use wire::mds::{MdsReply, PeerApply, PeerCancel};
use wire::message::OpReply;

/// How often an operation begins anew, because the other MDT had restarted or did not wait.
pub(super) const TRIES_MAX: u32 = 32;
/// Pause before another MDT is asked again.
pub(super) const AGAIN: Duration = Duration::from_millis(200);

/// An operation over two MDTs that is allowed here, and has pinned what it changes here. Nothing is
/// to be prepared at the other one.
pub(crate) struct Plan {
    pub(super) id: BundleId,
    other: TargetIndex,
    steps: Vec<Step>,
    reply: MdsReply,
    /// Everything that it found here is durable when this is.
    found: Transno,
}

/// A request works on a bundle until this is dropped.
pub(super) struct Working<'a> {
    mds: &'a Mds,
    id: BundleId,
}

impl<'a> Working<'a> {
    /// The request begins to.
    pub(super) fn on(mds: &'a Mds, id: BundleId) -> Working<'a> {
        mds.state.lock().bundles.worked_on.insert(id);
        Working { mds, id }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let decided = {
            let mut state = self.mds.state.lock();
            state.bundles.worked_on.remove(&self.id);
            state.bundles.coordinator.is_decided(self.id)
        };
        if !decided {
            self.mds.give_up(self.id, ClientUuid::default());
        }
        self.mds.finish.wake();
    }
}

impl Mds {
    /// Checks within one transaction, which changes no record. Other clients are called back as
    /// before a change.
    pub(super) fn plan<R>(
        &self,
        request: &mut RequestContext<'_>,
        f: impl FnOnce(&mut Records<'_>, &Context<'_>) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let export = request.export;
        self.transact_as(request.credentials, &mut request.lock_context, |records, ctx| {
            alive(export)?;
            f(records, ctx)
        })
    }

    /// Begins, after all checks, in the transaction of the plan. `None`: too many bundles are not
    /// finished.
    pub(super) fn begin(
        &self,
        records: &mut Records<'_>,
        other: TargetIndex,
        (parent, name): (Fid, &Name),
        steps: Vec<Step>,
        reply: MdsReply,
    ) -> Option<Plan> {
        let found = records.newest_of(parent, name.as_bytes());
        let bundles = &mut records.state.bundles;
        let id = bundles.coordinator.begin(vec![Other { mdt: other, prepares: false }])?;
        bundles.pins.pin(id, Pin::Name(parent, name.clone()));
        bundles.worked_on.insert(id);
        Some(Plan { id, other, steps, reply, found })
    }

    /// Carries a plan through. `None`: it was given up, and the operation begins anew.
    ///
    /// # Errors
    /// Those of the operation; ENOTCONN, ESHUTDOWN: the client or the MDT goes.
    pub(super) async fn carry_through(
        &self,
        request: &mut RequestContext<'_>,
        plan: Plan,
    ) -> Result<Option<MdsReply>, Errno> {
        let Plan { id, other, steps, reply, found } = plan;
        let _working = Working { mds: self, id };
        self.commit_up_to(found).await?;
        self.mark_under_way(other).await?;
        self.decide_and_apply(request, id, steps, reply).await
    }

    /// All that must have prepared it: decides it, and has it applied at the others, then here.
    /// `None`: it was given up, or never was, and the operation begins anew.
    ///
    /// # Errors
    /// As [`Mds::carry_through`].
    pub(super) async fn decide_and_apply(
        &self,
        request: &mut RequestContext<'_>,
        id: BundleId,
        mut steps: Vec<Step>,
        reply: MdsReply,
    ) -> Result<Option<MdsReply>, Errno> {
        if let Some(origin) = request.lock_context.durability.origin {
            let mut all = std::mem::take(&mut request.results);
            all.push(Ok(OpReply::Mds(reply.clone())));
            let (record, mut all) = kept_replies::record_of(origin, Transno(0), all);
            all.pop();
            request.results = all;
            if let Some(record) = record {
                steps.push(Step::Reply { client: request.client(), slot: origin.slot, record });
            }
        }
        let decided = {
            let bundles = &mut self.state.lock().bundles;
            let decided = bundles.coordinator.decide(id, Steps::new(steps));
            if decided.is_some() {
                bundles.pins.unsettle(id);
            }
            decided
        };
        let Some(bundle) = decided else { return Ok(None) };
        let own_first = is_mutant(Mutant::CoordinatorFirst);
        if !own_first && let Err(errno) = self.apply_at_all(Some(request.export), &bundle).await? {
            return if errno == Errno::EAGAIN { Ok(None) } else { Err(errno) };
        }
        let me = self.name.index;
        let done = self.change(request, |records, ctx| {
            for step in &*bundle.parts {
                if let Step::Enter { dir, name, .. } | Step::Leave { dir, name, .. } = step
                    && dir.mdt() == me.0
                {
                    records.change_now(*dir, name.as_bytes());
                }
            }
            // It was looked at when it was planned.
            records.anywhere(|records| do_part(records, ctx, me, &bundle, Occasion::Asked))?;
            Ok(reply)
        });
        self.unpinned.notify_waiters();
        self.finish.wake();
        if own_first {
            let _ = self.apply_at_all(Some(request.export), &bundle).await?;
        }
        done.map(Some)
    }

    /// Sends the Apply to all others until they have answered. `export`: the client that asked. The
    /// inner error: they have refused, and the bundle never was. EAGAIN: it was stopped.
    ///
    /// # Errors
    /// ENOTCONN, ESHUTDOWN: the client or this MDT goes; the bundle stays decided.
    pub(super) async fn apply_at_all(
        &self,
        export: Option<&Export>,
        bundle: &Bundle,
    ) -> Result<Result<(), Errno>, Errno> {
        let id = bundle.id;
        let record = Bytes::from(record_of(bundle));
        let mut why = Errno::EAGAIN;
        let (began, mut said) = (self.env.clock.now(), LastSaid::default());
        loop {
            let Some(waiting) = self.state.lock().bundles.coordinator.waits_for(id) else {
                return Ok(Err(why));
            };
            if waiting.is_empty() {
                return Ok(Ok(()));
            }
            let once = |mdt: TargetIndex| {
                let apply = PeerApply { id, boot: self.boot, bundle: record.clone() };
                async move {
                    let peer = self.peers.get(mdt)?;
                    Some((mdt, peer.peer_apply(apply).await))
                }
            };
            let answers = join_all(waiting.into_iter().map(once));
            let mut hindered: Vec<String> = Vec::new();
            for (mdt, answer) in self.until_stopped(answers).await?.into_iter().flatten() {
                match answer {
                    Ok((boot, result)) => {
                        if let Err(errno) = result {
                            why = errno;
                            hindered.push(format!("MDT{:04x}: {errno}", mdt.0));
                        }
                        self.applied_at(mdt, boot, id, result);
                    }
                    Err(error) => {
                        self.note_hindered(mdt, began);
                        hindered.push(format!("MDT{:04x}: {error}", mdt.0));
                    }
                }
            }
            if !hindered.is_empty() && self.state.lock().bundles.coordinator.is_decided(id) {
                let why = hindered.join(", ");
                if said.is_news(&why) {
                    tracing::warn!(bundle = %id, why, "other MDTs do not do their parts; trying again");
                }
                self.until_stopped(self.env.clock.sleep(AGAIN)).await?;
                export.map_or(Ok(()), alive)?;
            }
        }
    }

    /// Waits for another MDT.
    ///
    /// # Errors
    /// ESHUTDOWN: this MDT goes.
    pub(super) async fn until_stopped<R>(
        &self,
        answer: impl Future<Output = R>,
    ) -> Result<R, Errno> {
        let mut stop = self.stopper.ear();
        tokio::select! {
            biased;
            () = stop.stopped() => Err(Errno::ESHUTDOWN),
            answer = answer => Ok(answer),
        }
    }

    /// A pause between two attempts for a client, [`AGAIN`].
    ///
    /// # Errors
    /// ENOTCONN, ESHUTDOWN: the client or this MDT goes.
    pub(crate) async fn pause(&self, export: &Export) -> Result<(), Errno> {
        self.until_stopped(self.env.clock.sleep(AGAIN)).await?;
        alive(export)
    }

    /// Another MDT has answered to an Apply.
    pub(super) fn applied_at(
        &self,
        mdt: TargetIndex,
        boot: u64,
        id: BundleId,
        result: Result<Transno, Errno>,
    ) -> Answered<Steps> {
        let answered = {
            let bundles = &mut self.state.lock().bundles;
            if bundles.participant.is_past(mdt, boot) {
                return Answered::Wait;
            }
            let answered = match result {
                Ok(transno) => bundles.coordinator.applied(id, mdt, transno),
                Err(_) => bundles.coordinator.refused(id, mdt),
            };
            if answered == Answered::Never {
                bundles.pins.unpin(id);
            }
            answered
        };
        self.unpinned.notify_waiters();
        answered
    }

    /// Gives up a bundle that is not decided; others that may have prepared it are told. All hold
    /// the names that it had pinned for the second try of this client; [`ClientUuid::default`]:
    /// they do not.
    pub(super) fn give_up(&self, id: BundleId, held_for: ClientUuid) {
        let told = {
            let state = &mut *self.state.lock();
            state.unpin_and_hold(id, held_for, self.env.clock.now());
            state.bundles.coordinator.give_up(id)
        };
        self.unpinned.notify_waiters();
        self.cancel(id, told, held_for);
    }

    /// Tells these MDTs that a bundle is given up. One that does not hear it frees what it has
    /// pinned when its time is over.
    pub(super) fn cancel(&self, id: BundleId, told: Vec<TargetIndex>, held_for: ClientUuid) {
        for peer in told.into_iter().filter_map(|mdt| self.peers.get(mdt)) {
            let cancel = async move {
                if let Err(error) = peer.peer_cancel(PeerCancel { id, held_for }).await {
                    tracing::debug!(bundle = %id, %error, "another MDT is not told that it is given up");
                }
            };
            self.env.tasks.spawn("cancel at another mdt", Box::pin(cancel));
        }
    }

    /// Makes everything durable up to this change, if it is not.
    ///
    /// # Errors
    /// The store has failed.
    pub(super) async fn commit_up_to(&self, transno: Transno) -> Result<(), Errno> {
        if self.store.last_committed() < transno {
            self.store.commit().await?;
        }
        Ok(())
    }

    /// From now on this MDT waits for that one when it restarts. Durable when this returns.
    ///
    /// # Errors
    /// The store has failed.
    pub(super) async fn mark_under_way(&self, mdt: TargetIndex) -> Result<(), Errno> {
        let now = self.env.clock.now();
        let recorded = self.transact(&mut LockContext::own(), |records, _| {
            let transno = records.tx.transno();
            let known = records.state.bundles.peers.entry(mdt).or_default();
            known.used = now;
            if !known.peer.under_way {
                known.peer.under_way = true;
                known.recorded = transno;
                let peer: Peer = known.peer;
                records.tx.put(&key::peer(mdt), &encode_peer(&peer));
            }
            Ok(records.state.bundles.peers[&mdt].recorded)
        })?;
        self.commit_up_to(recorded).await
    }

    /// Waits until there is a FID of another MDT to hand out.
    ///
    /// # Errors
    /// ENOTCONN, ESHUTDOWN: the client or this MDT goes; ENOSPC: that MDT has none; ERANGE: it was
    /// removed from the configuration.
    pub(super) async fn sequence_of(
        &self,
        export: Option<&Export>,
        mdt: TargetIndex,
    ) -> Result<(), Errno> {
        let (began, mut said) = (self.env.clock.now(), LastSaid::default());
        loop {
            if self.state.lock().bundles.has_fid_of(mdt) {
                return Ok(());
            }
            let peer = self.peers.get(mdt).ok_or(Errno::ERANGE)?;
            match self.until_stopped(peer.peer_fids()).await? {
                Ok(seq) if (Fid { seq, oid: 1, ver: 0 }).mdt() == mdt.0 => {
                    self.state.lock().bundles.granted(mdt, seq);
                }
                Ok(seq) => {
                    tracing::error!(?mdt, seq, "another MDT grants a sequence that is not its own");
                    return Err(Errno::EIO);
                }
                Err(RpcError::Errno(errno)) if !is_of_session(errno) => return Err(errno),
                Err(error) => {
                    self.note_hindered(mdt, began);
                    if said.is_news(&error) {
                        tracing::warn!(?mdt, %error, "another MDT grants no FIDs; trying again");
                    }
                    self.until_stopped(self.env.clock.sleep(AGAIN)).await?;
                    // For no client it is tried once.
                    export.map_or(Err(Errno::EAGAIN), alive)?;
                }
            }
        }
    }
}

/// True if an answer says no more than that the session with the other MDT, or that MDT's life, has
/// ended.
pub(super) fn is_of_session(errno: Errno) -> bool {
    [Errno::ENOTCONN, Errno::ESHUTDOWN].contains(&errno)
}
