//! Ends the operations over several MDTs that no request works on: those of an earlier life, those
//! whose request was dropped, those whose other MDT has restarted, and those whose coordinator does
//! not come.
//!
//! Two tasks, because one of them waits for MDTs that are away: others shall not stay pinned for
//! that. Bound: each has one request at a time to each other MDT, one bundle after the other.

use super::coordinate::AGAIN;
use super::steps::{self, Occasion, do_part};
use super::{Bundle, Bundles};
use crate::background::failing::Failing;
use crate::background::tasks::Stop;
use crate::locks::context::LockContext;
use crate::mds::Mds;
use bytes::Bytes;
use disk::bundle::{self, encode_peer};
use disk::key;
use futures_util::future::join_all;
use replay::bundle::coordinator::Answered;
use replay::bundle::participant::Ended;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::bundle::BundleId;
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::{PeerApply, PeerForget};

/// How long nothing is under way with another MDT before a restart does not wait for it any more.
const REST: Duration = Duration::from_secs(30);
/// How long another MDT has for its answer, before the next round.
const ANSWER: Duration = Duration::from_secs(2);
/// Longest pause between rounds that fail.
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// Bundles that are sent again to one MDT in one round.
const BUNDLES_PER_ROUND: usize = 64;

impl Mds {
    /// The task that ends what other MDTs coordinate and do not end; it ends with the MDT.
    pub(crate) async fn stop_bundles(self: Arc<Mds>, mut stop: Stop) {
        let mut failing = Failing::new(AGAIN, AGAIN_MAX);
        loop {
            let rests = self.state.lock().bundles.participant.is_at_rest();
            let pause = if rests { None } else { Some(2 * AGAIN) };
            if !self.overdue.wait(&self.env, pause, &mut stop).await {
                return;
            }
            let round = async {
                self.stop_overdue().await?;
                self.ask_about_stopped().await
            };
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                ended = round => {
                    if let Some(why) = failing.note(ended, &self.store) {
                        tracing::warn!(target = %self.name, why, "operations that are stopped are not ended; trying again");
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = self.env.clock.sleep(failing.pause()) => {}
            }
        }
    }

    /// The task that ends what this MDT coordinates; it ends with the MDT.
    pub(crate) async fn finish_bundles(self: Arc<Mds>, mut stop: Stop) {
        let mut failing = Failing::new(AGAIN, AGAIN_MAX);
        loop {
            let rests = {
                let bundles = &self.state.lock().bundles;
                bundles.is_at_rest() && bundles.under_way_with().is_empty()
            };
            let pause = if rests { None } else { Some(2 * AGAIN) };
            if !self.finish.wait(&self.env, pause, &mut stop).await {
                return;
            }
            let ended = self.finish_round(&mut stop).await;
            if let Some(why) = failing.note(ended, &self.store) {
                tracing::warn!(target = %self.name, why, "operations over several MDTs are not finished; trying again");
            }
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = self.env.clock.sleep(failing.pause()) => {}
            }
        }
    }

    async fn finish_round(&self, stop: &mut Stop) -> Result<(), Errno> {
        let again = self.to_send_again();
        let all = join_all(again.into_iter().map(|(mdt, bundles)| self.apply_again(mdt, bundles)));
        tokio::select! {
            biased;
            () = stop.stopped() => return Ok(()),
            _ = all => {}
        }
        let due: Vec<Bundle> = {
            let bundles = &self.state.lock().bundles;
            let left =
                bundles.coordinator.due().filter(|bundle| !bundles.worked_on.contains(&bundle.id));
            left.take(BUNDLES_PER_ROUND).cloned().collect()
        };
        for bundle in due {
            self.own_part_left(&bundle)?;
        }
        self.tell_finished(stop).await?;
        self.come_to_rest()
    }

    /// Bundles that were prepared here, and whose coordinator does not come (docs/dne.md, section
    /// 4).
    async fn stop_overdue(&self) -> Result<(), Errno> {
        let now = self.env.clock.now();
        let overdue = self.state.lock().bundles.participant.overdue(now);
        if overdue.is_empty() {
            return Ok(());
        }
        self.transact(&mut LockContext::own(), |records, _| {
            for id in &overdue {
                records.state.bundles.participant.stop(*id);
                steps::record_stop(&mut records.tx, *id);
            }
            Ok(())
        })?;
        self.store.commit().await?;
        {
            let Bundles { participant, pins, .. } = &mut self.state.lock().bundles;
            let over = overdue.iter().filter(|id| participant.never_was(**id));
            over.for_each(|id| pins.unpin(*id));
        }
        self.unpinned.notify_waiters();
        Ok(())
    }

    /// Asks the other participants what became of the bundles that are stopped here, durably.
    async fn ask_about_stopped(&self) -> Result<(), Errno> {
        let questions: Vec<(BundleId, TargetIndex)> = {
            let participant = &self.state.lock().bundles.participant;
            let others = |id| participant.unanswered(id).into_iter().map(move |mdt| (id, mdt));
            participant.stopped().flat_map(others).take(BUNDLES_PER_ROUND).collect()
        };
        let ask = |(id, mdt): (BundleId, TargetIndex)| async move {
            let peer = self.peers.get(mdt)?;
            tokio::select! {
                biased;
                answer = peer.peer_ask(id) => Some((id, mdt, answer.ok()?)),
                () = self.env.clock.sleep(ANSWER) => None,
            }
        };
        let answers = join_all(questions.into_iter().map(ask)).await;
        for (id, mdt, (boot, applied)) in answers.into_iter().flatten() {
            let applied = match applied.map(|record| bundle::decode(&record)).transpose() {
                Ok(kept) => kept.and_then(|kept| super::bundle_of(id, kept)),
                Err(error) => {
                    tracing::error!(?mdt, bundle = %id, %error, "another MDT hands over a damaged bundle");
                    continue;
                }
            };
            self.told_of_stopped(id, mdt, boot, applied)?;
        }
        Ok(())
    }

    fn told_of_stopped(
        &self,
        id: BundleId,
        mdt: TargetIndex,
        boot: u64,
        applied: Option<Bundle>,
    ) -> Result<(), Errno> {
        let me = self.name.index;
        self.transact(&mut LockContext::own(), |records, ctx| {
            let bundles = &mut records.state.bundles;
            if bundles.participant.is_past(mdt, boot) {
                return Ok(());
            }
            match bundles.participant.told(id, mdt, applied) {
                Ended::Wait => Ok(()),
                Ended::Never => {
                    bundles.pins.unpin(id);
                    Ok(())
                }
                Ended::Do(bundle) => do_part(records, ctx, me, &bundle, Occasion::Left),
            }
        })?;
        self.part_done();
        Ok(())
    }

    /// This MDT has done its part of a bundle, or never does it: others may have waited for that,
    /// and names may move now.
    pub(super) fn part_done(&self) {
        self.unpinned.notify_waiters();
        if !self.state.lock().moving.is_empty() {
            self.passing.wake();
        }
    }

    /// The bundles that are decided, that no request works on, and whose Apply is not answered.
    fn to_send_again(&self) -> BTreeMap<TargetIndex, Vec<Bundle>> {
        let bundles = &self.state.lock().bundles;
        let mut again: BTreeMap<TargetIndex, Vec<Bundle>> = BTreeMap::new();
        for (bundle, others) in bundles.coordinator.unanswered() {
            if bundles.worked_on.contains(&bundle.id) {
                continue;
            }
            for other in others {
                let list = again.entry(other).or_default();
                if list.len() < BUNDLES_PER_ROUND {
                    list.push(bundle.clone());
                }
            }
        }
        again
    }

    async fn apply_again(&self, mdt: TargetIndex, bundles: Vec<Bundle>) {
        for bundle in bundles {
            let Some(peer) = self.peers.get(mdt) else { return };
            let record = Bytes::from(super::record_of(&bundle));
            let apply = PeerApply { id: bundle.id, boot: self.boot, bundle: record };
            let answer = tokio::select! {
                biased;
                answer = peer.peer_apply(apply) => answer,
                () = self.env.clock.sleep(ANSWER) => return,
            };
            match answer {
                Ok((boot, result)) => {
                    if self.applied_at(mdt, boot, bundle.id, result) == Answered::Never {
                        tracing::info!(bundle = %bundle.id, ?mdt, "the other MDT has stopped it: it never was");
                    }
                }
                Err(error) => {
                    tracing::debug!(bundle = %bundle.id, ?mdt, %error, "another MDT does not apply its part");
                    return;
                }
            }
        }
    }

    /// The own part of a bundle whose request is gone. The reply is kept for it.
    fn own_part_left(&self, bundle: &Bundle) -> Result<(), Errno> {
        let me = self.name.index;
        self.transact(&mut LockContext::own(), |records, ctx| {
            do_part(records, ctx, me, bundle, Occasion::Left)
        })?;
        self.part_done();
        Ok(())
    }

    /// Tells other MDTs, and this one, which bundles are finished; learns what is durable there.
    async fn tell_finished(&self, stop: &mut Stop) -> Result<(), Errno> {
        let last = self.store.last_committed();
        let (below, peers) = {
            let bundles = &mut self.state.lock().bundles;
            bundles.coordinator.committed(self.name.index, last);
            let below = bundles.coordinator.watermark();
            let open = !bundles.coordinator.is_at_rest();
            let others = bundles.peers.iter().filter(|(mdt, _)| **mdt != self.name.index);
            let peers =
                others.filter(|(_, known)| known.peer.under_way && (open || known.told < below));
            (below, peers.map(|(mdt, _)| *mdt).collect::<Vec<_>>())
        };
        if peers.is_empty() {
            return Ok(());
        }
        let ask = |mdt: TargetIndex| async move {
            let peer = self.peers.get(mdt)?;
            let forget = PeerForget { from: self.name.index, boot: self.boot, below };
            tokio::select! {
                biased;
                answer = peer.peer_forget(forget) => Some((mdt, answer.ok()?)),
                () = self.env.clock.sleep(ANSWER) => None,
            }
        };
        let answers = tokio::select! {
            biased;
            () = stop.stopped() => return Ok(()),
            answers = join_all(peers.into_iter().map(ask)) => answers,
        };
        {
            let bundles = &mut self.state.lock().bundles;
            for (mdt, (boot, committed)) in answers.into_iter().flatten() {
                if bundles.participant.is_past(mdt, boot) {
                    continue;
                }
                bundles.coordinator.committed(mdt, committed);
                let known = bundles.peers.entry(mdt).or_default();
                known.told = known.told.max(below);
            }
        }
        let below = self.state.lock().bundles.coordinator.watermark();
        self.transact(&mut LockContext::own(), |records, _| {
            self.forget_below(records, self.name.index, below);
            Ok(())
        })
    }

    /// A restart does not wait for MDTs with which nothing has been under way for a while.
    fn come_to_rest(&self) -> Result<(), Errno> {
        let now = self.env.clock.now();
        self.transact(&mut LockContext::own(), |records, _| {
            let bundles = &mut records.state.bundles;
            if !bundles.is_at_rest() {
                return Ok(());
            }
            let below = bundles.coordinator.watermark();
            let rest = bundles.peers.iter_mut().filter(|(mdt, known)| {
                known.peer.under_way
                    && (known.told >= below || self.peers.is_removed(**mdt))
                    && now.saturating_sub(known.used) >= REST
            });
            for (mdt, known) in rest {
                known.peer.under_way = false;
                records.tx.put(&key::peer(*mdt), &encode_peer(&known.peer));
            }
            Ok(())
        })
    }
}
