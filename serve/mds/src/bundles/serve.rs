//! What other MDTs ask: FIDs, Prepare, Apply, Cancel, Forget, and the questions of one that has
//! restarted.
//!
//! Each is harmless to repeat: what it changes is named by a bundle.

use super::steps::{self, Occasion, do_part};
use super::{Bundle, Bundles, bundle_of, find, record_of};
use crate::locks;
use crate::locks::context::{LockContext, Obstacle};
use crate::mds::Mds;
use crate::records::Records;
use bytes::Bytes;
use disk::bundle::{self, Step};
use replay::bundle::Other;
use replay::bundle::participant::{Apply, Told};
use std::collections::BTreeMap;
use std::time::Duration;
use types::bundle::{BundleId, Place};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{BUNDLES_OPEN_MAX, BUNDLES_PER_REPLY_BYTES};
use types::name::Name;
use types::session::{ClientUuid, Transno};
use types::target::TargetIndex;
use wire::mds::{
    MdsReply, PeerApply, PeerAsk, PeerBundle, PeerCancel, PeerExchange, PeerForget, PeerPrepare,
};

/// How long a prepared bundle waits for its coordinator.
const LEASE: Duration = Duration::from_secs(5);

impl Mds {
    fn peer_done(&self) -> MdsReply {
        MdsReply::PeerDone { boot: self.boot, committed: self.store.last_committed() }
    }

    /// Another MDT wants FIDs of this one. The sequence is below a durable end, so no later life
    /// takes it.
    pub(crate) async fn peer_fids(&self) -> Result<MdsReply, Errno> {
        let grant = || {
            let last = self.store.last_committed();
            self.transact(&mut LockContext::own(), |records, _| {
                let Records { tx, state, .. } = &mut *records;
                state.fids.grant(tx, last)
            })
        };
        let seq = match grant() {
            Err(Errno::ENOSPC) => {
                // The next range is not durable yet.
                self.store.commit().await?;
                grant()?
            }
            granted => granted?,
        };
        Ok(MdsReply::PeerFids(seq))
    }

    /// See [`PeerPrepare`]. The locks of the client that asks for it are called back, too: another
    /// client may learn from here what it changes before that client is answered.
    pub(crate) async fn peer_prepare(&self, op: &PeerPrepare) -> Result<MdsReply, Errno> {
        let PeerPrepare { id, space, pass_held, client, others, finds } = op;
        if let Some(find) = finds.iter().find(|find| find::mdt_of(find) != self.name.index) {
            tracing::error!(bundle = %id, ?find, "another MDT asks for what is not here");
            return Err(Errno::EREMOTE);
        }
        let room = if *space { self.store.admit().await } else { self.store.admit_release().await };
        room?;
        self.mark_all_under_way(id.coordinator, others.iter().copied()).await?;
        let now = self.env.clock.now();
        let mut context = LockContext::own();
        context.asked.bundle = Some(*id);
        (context.asked.on_behalf_of, context.asked.pass_held) = (*client, *pass_held);
        let until = now + LEASE;
        let (facts, newest) = self
            .in_turn(&mut context, |context| {
                let found = self.transact(context, |records, _| {
                    let again = records.state.bundles.pins.has(*id);
                    let found = find::find(records, *id, finds)?;
                    let bundles = &mut records.state.bundles;
                    if bundles.participant.prepare(*id, others.clone(), until) {
                        bundles.pins.unsettle(*id);
                        return Ok(found);
                    }
                    // What one that is stopped has pinned stays until that is decided.
                    if !again {
                        bundles.pins.unpin(*id);
                    }
                    Err(Errno::EAGAIN)
                });
                let outcome = &mut context.outcome;
                // The coordinator begins anew, so that no bundle waits for another one.
                outcome.obstacle.take_if(|obstacle| matches!(obstacle, Obstacle::Pinned(_)));
                found
            })
            .await?;
        self.commit_up_to(newest).await?;
        let seen = std::mem::take(&mut context.outcome.seen);
        if !seen.is_empty() {
            self.call_authors_back(seen, false).await;
        }
        self.overdue.wake();
        self.finish.wake();
        Ok(MdsReply::PeerPrepared { boot: self.boot, facts })
    }

    /// See [`PeerAsk`].
    pub(crate) async fn peer_ask(&self, op: &PeerAsk) -> Result<MdsReply, Errno> {
        let applied = self.transact(&mut LockContext::own(), |records, _| {
            Ok(Mds::asked(records, op.id).map(|bundle| Bytes::from(record_of(&bundle))))
        })?;
        if applied.is_none() {
            // The stop is durable before any other MDT hears of it.
            self.store.commit().await?;
        }
        self.unpinned.notify_waiters();
        self.overdue.wake();
        Ok(MdsReply::PeerTold { boot: self.boot, applied })
    }

    /// Another participant has stopped a bundle: returns it if it is applied here; else it is
    /// stopped here, too.
    fn asked(records: &mut Records<'_>, id: BundleId) -> Option<Bundle> {
        match records.state.bundles.participant.asked(id) {
            Told::Applied(bundle) => Some(bundle),
            Told::Stopped { record } => {
                if record {
                    steps::record_stop(&mut records.tx, id);
                }
                let bundles = &mut records.state.bundles;
                if bundles.participant.never_was(id) {
                    bundles.pins.unpin(id);
                }
                None
            }
        }
    }

    /// A bundle of this coordinator and these others is under way: after a restart, any of them may
    /// be the only one that knows of it.
    async fn mark_all_under_way(
        &self,
        coordinator: TargetIndex,
        others: impl Iterator<Item = TargetIndex>,
    ) -> Result<(), Errno> {
        for mdt in others.chain([coordinator]).filter(|mdt| *mdt != self.name.index) {
            self.mark_under_way(mdt).await?;
        }
        Ok(())
    }

    /// See [`PeerApply`].
    pub(crate) async fn peer_apply(&self, op: &PeerApply) -> Result<MdsReply, Errno> {
        let &PeerApply { id, boot, ref bundle } = op;
        let bundle = bundle::decode(bundle).map_err(|error| {
            tracing::error!(bundle = %id, %error, "another MDT sent no bundle");
            Errno::EINVAL
        })?;
        let bundle = bundle_of(id, bundle)
            .filter(|bundle| bundle.concerns(self.name.index))
            .ok_or(Errno::EINVAL)?;
        let others = bundle.others.iter().map(|other| other.mdt);
        self.mark_all_under_way(id.coordinator, others).await?;
        let makes = bundle.parts.iter().any(|step| matches!(step, Step::Make { .. }));
        // What it has prepared it takes in any case: others may have applied it.
        let free = |other: &Other| other.mdt == self.name.index && !other.prepares;
        let may_refuse = makes && bundle.others.iter().any(free);
        let room =
            if may_refuse { self.store.admit().await } else { self.store.admit_release().await };
        match room.map_err(Errno::from) {
            Ok(()) => {}
            Err(Errno::ENOSPC) => return self.refuse_bundle(id, Errno::ENOSPC).await,
            Err(errno) => return Err(errno),
        }
        let answer = self.transact(&mut LockContext::own(), |records, ctx| {
            match records.state.bundles.participant.apply(&bundle, boot) {
                Apply::Do => {
                    do_part(records, ctx, self.name.index, &bundle, Occasion::Asked)?;
                    Ok(MdsReply::PeerApplied { boot: self.boot, transno: records.tx.transno() })
                }
                Apply::Done(transno) => Ok(MdsReply::PeerApplied { boot: self.boot, transno }),
                Apply::Refused => {
                    Ok(MdsReply::PeerRefused { boot: self.boot, errno: Errno::EAGAIN })
                }
            }
        });
        if answer.is_ok() {
            self.names_changed(&bundle);
        }
        self.part_done();
        self.finish.wake();
        answer
    }

    /// Names of this MDT changed as a bundle says: none of them is held for that any more.
    fn names_changed(&self, bundle: &Bundle) {
        let names: Vec<(Fid, &Name)> = bundle
            .parts
            .iter()
            .filter_map(|step| match step {
                Step::Enter { dir, name, .. } | Step::Leave { dir, name, .. } => Some((*dir, name)),
                _ => None,
            })
            .collect();
        let released = {
            let held = &mut self.state.lock().held_names;
            !held.is_empty() && held.changed(&names)
        };
        if released {
            self.names_free.notify_waiters();
        }
    }

    /// There is no room for a bundle: it is stopped, so that no later Apply of it is taken.
    async fn refuse_bundle(&self, id: BundleId, errno: Errno) -> Result<MdsReply, Errno> {
        let reply = self.transact(&mut LockContext::own(), |records, _| {
            match records.state.bundles.participant.asked(id) {
                Told::Applied(_) => {
                    Ok(MdsReply::PeerApplied { boot: self.boot, transno: Transno(0) })
                }
                Told::Stopped { record } => {
                    if record {
                        records.state.bundles.pins.unpin(id);
                        steps::record_stop(&mut records.tx, id);
                    }
                    Ok(MdsReply::PeerRefused { boot: self.boot, errno })
                }
            }
        })?;
        // The stop, or the part, is durable before any other MDT hears of it.
        self.store.commit().await?;
        self.unpinned.notify_waiters();
        Ok(reply)
    }

    /// See [`PeerCancel`].
    pub(crate) fn peer_cancel(&self, op: &PeerCancel) -> MdsReply {
        {
            let state = &mut *self.state.lock();
            if state.bundles.participant.cancel(op.id) {
                state.unpin_and_hold(op.id, op.held_for, self.env.clock.now());
            }
        }
        self.unpinned.notify_waiters();
        self.peer_done()
    }

    /// See [`PeerForget`].
    ///
    /// # Errors
    /// ESTALE: it is of an earlier life of the sender.
    pub(crate) fn peer_forget(&self, op: &PeerForget) -> Result<MdsReply, Errno> {
        let &PeerForget { from, boot, below } = op;
        self.transact(&mut LockContext::own(), |records, _| {
            if records.state.bundles.participant.is_past(from, boot) {
                return Err(Errno::ESTALE);
            }
            self.forget_below(records, from, below);
            Ok(())
        })?;
        self.unpinned.notify_waiters();
        Ok(self.peer_done())
    }

    /// The bundles of this coordinator before `below` are finished.
    pub(super) fn forget_below(
        &self,
        records: &mut Records<'_>,
        coordinator: TargetIndex,
        below: Place,
    ) {
        let bundles = &mut records.state.bundles;
        let finished = bundles.participant.forget(coordinator, below);
        finished.iter().for_each(|id| bundles.pins.unpin(*id));
        let known = bundles.peers.entry(coordinator).or_default();
        if known.peer.below < below {
            known.peer.below = below;
            let peer = known.peer;
            steps::forget(&mut records.tx, &finished, coordinator, &peer);
        }
    }

    /// See [`PeerExchange`].
    ///
    /// # Errors
    /// The store has failed.
    pub(crate) async fn peer_exchange(&self, op: &PeerExchange) -> Result<MdsReply, Errno> {
        if !op.announce && op.after.is_none() && !op.stopped.is_empty() {
            self.stop_as_told(&op.stopped).await?;
        }
        Ok(self.tell_restarted(op))
    }

    /// A restarted MDT has stopped these. One that recovers itself records that with what it does
    /// again, for nothing may come before that.
    async fn stop_as_told(&self, stopped: &[BundleId]) -> Result<(), Errno> {
        let mine = |bundles: &Bundles, id: BundleId| {
            id.coordinator == self.name.index || bundles.to_restore.iter().any(|b| b.id == id)
        };
        if self.window.is_open() {
            self.transact(&mut LockContext::own(), |records, _| {
                for id in stopped {
                    if !mine(&records.state.bundles, *id) {
                        Mds::asked(records, *id);
                    }
                }
                Ok(())
            })?;
            self.store.commit().await?;
            self.unpinned.notify_waiters();
            self.overdue.wake();
        } else {
            let bundles = &mut self.state.lock().bundles;
            for id in stopped {
                if !mine(bundles, *id) {
                    bundles.participant.asked(*id);
                }
            }
        }
        Ok(())
    }

    fn tell_restarted(&self, op: &PeerExchange) -> MdsReply {
        let &PeerExchange { from, boot, announce, after, .. } = op;
        let mut cancelled = Vec::new();
        let reply = self.with_state(locks::When::Later, |state| {
            let bundles = &mut state.bundles;
            bundles.participant.lives(from, boot);
            if announce {
                return MdsReply::PeerBundles {
                    boot: self.boot,
                    bundles: vec![],
                    stopped: vec![],
                    more: false,
                };
            }
            if after.is_none() {
                cancelled = bundles.coordinator.restarted(from);
                cancelled.iter().for_each(|(id, _)| bundles.pins.unpin(*id));
            }
            let mut all: BTreeMap<BundleId, (bool, &Bundle)> = BTreeMap::new();
            all.extend(bundles.coordinator.brings(from).map(|bundle| (bundle.id, (false, bundle))));
            let gathered = bundles.to_restore.iter().filter(|bundle| bundle.concerns(from));
            let applied = bundles.participant.brings(from).chain(gathered);
            all.extend(applied.map(|bundle| (bundle.id, (true, bundle))));
            let mut told = Vec::new();
            let (mut bytes, mut more) = (0, false);
            for (id, (applied, bundle)) in
                all.into_iter().filter(|(id, _)| after.is_none_or(|after| *id > after))
            {
                let bundle = Bytes::from(record_of(bundle));
                if !told.is_empty() && bytes + bundle.len() > BUNDLES_PER_REPLY_BYTES {
                    more = true;
                    break;
                }
                bytes += bundle.len();
                told.push(PeerBundle { id, applied, bundle });
            }
            let stopped = bundles.participant.stopped().take(BUNDLES_OPEN_MAX).collect();
            MdsReply::PeerBundles { boot: self.boot, bundles: told, stopped, more }
        });
        for (id, told) in cancelled {
            self.cancel(id, told, ClientUuid::default());
        }
        self.unpinned.notify_waiters();
        self.finish.wake();
        // What that one had begun in its earlier life is stopped.
        self.overdue.wake();
        reply
    }
}
