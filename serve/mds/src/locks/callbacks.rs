//! Callbacks to holders of locks. Each runs in a task of its own (one per client and step, first
//! polled in place). A task ends with the client's answer, with its session, or after
//! `MdsSettings::callback_max`, when the client is evicted. So an operation waits for holders no
//! longer than that.

use crate::acks::AckEvent;
use crate::locks::shared_writers::SharedWriters;
use crate::locks::stats::micros;
use crate::locks::{Callbacks, Locks, When};
use crate::mds::Mds;
use crate::state::State;
use dlm::ibits::Modifier;
use parking_lot::MutexGuard;
use rpc::service::{Export, Gone};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use types::fid::Fid;
use types::limits::REVOKES_PER_CALLBACK_MAX;
use types::lock::InodeBits;
use types::ranges::ByteRange;
use types::session::ClientUuid;
use wire::client::{ClientOp, ClientReply};

/// Why a client no longer holds bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// It gave them back by itself.
    GivenBack,
    /// It answered a `Revoke`.
    Dropped,
    /// It answered a `Changing` with the whole directory.
    DroppedNames,
}

/// What a client leaves behind when its session ends.
pub(crate) struct LeftBehind {
    /// Removed inodes that it kept.
    pub(crate) orphans: Vec<Fid>,
    /// Files whose data it had to itself.
    pub(crate) written: Vec<Fid>,
}

impl Mds {
    /// Works with the state, then carries out the actions that this led to.
    pub(crate) fn with_state<R>(&self, when: When, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        self.carry_out(state, when);
        result
    }

    /// Carries out the actions of the tables, and gives the lock of the state back.
    fn carry_out(&self, mut state: MutexGuard<'_, State>, when: When) {
        if !state.has_work() {
            return;
        }
        let (wake, closed) = state.take_acks();
        let asked = state.locks.take();
        drop(state);
        if wake {
            self.acknowledged.notify_waiters();
        }
        self.end_orphans(&closed);
        for callbacks in asked {
            self.ask(callbacks, when);
        }
    }

    fn ask(&self, callbacks: Callbacks, when: When) {
        let Callbacks { export, revokes, changing, extents } = callbacks;
        if let Some(stats) = self.lock_stats.get() {
            stats.extents_revoked.add(extents.len() as u64);
            let gaps = revokes.iter().filter(|(_, bits)| bits.contains(InodeBits::GAP));
            stats.gaps_revoked.add(gaps.count() as u64);
        }
        let revokes = revokes.chunks(REVOKES_PER_CALLBACK_MAX).map(|locks| (None, locks.to_vec()));
        let revokes = revokes.map(|(modifier, locks)| (modifier, ClientOp::Revoke { locks }));
        let changing = changing.into_iter().map(|(modifier, dir, names)| {
            (Some(modifier), ClientOp::Changing { dir, names: names.into_vec() })
        });
        let of_bytes = !extents.is_empty();
        let extents = extents.chunks(REVOKES_PER_CALLBACK_MAX);
        let extents =
            extents.map(|extents| (None, ClientOp::RevokeExtents { extents: extents.to_vec() }));
        for (modifier, op) in revokes.chain(changing).chain(extents) {
            let Some(mds) = self.me.upgrade() else { return };
            let mut asking = Box::pin(mds.call_back(export.clone(), modifier, op));
            // The bits to call back may just have been granted: ask after that reply, if possible.
            if when == When::Now && !of_bytes {
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(()) = asking.as_mut().poll(&mut context) {
                    continue;
                }
            }
            self.env.tasks.spawn("lock callback", asking);
        }
    }

    /// Asks a client and reports its answer to the table.
    async fn call_back(
        self: Arc<Mds>,
        export: Arc<Export>,
        modifier: Option<Modifier>,
        op: ClientOp,
    ) {
        let asked = match &op {
            ClientOp::Revoke { locks } => locks.clone(),
            ClientOp::Changing { dir, .. } => vec![(*dir, InodeBits::UPDATE)],
            ClientOp::Glimpse { .. } | ClientOp::RevokeExtents { .. } | ClientOp::Squash(_) => {
                Vec::new()
            }
        };
        let of_bytes = match &op {
            ClientOp::RevokeExtents { extents } => extents.clone(),
            _ => Vec::new(),
        };
        let Some(answer) = self.answer(&export, op).await else { return };
        let client = export.client();
        let how = if modifier.is_some() { Release::DroppedNames } else { Release::Dropped };
        let kept = match (answer, modifier) {
            (ClientReply::Done, Some(modifier)) => {
                self.with_state(When::Now, |state| {
                    if !export.is_gone() {
                        let Locks { table, actions, .. } = &mut state.locks;
                        asked
                            .iter()
                            .for_each(|(dir, _)| table.forgot(modifier, client, *dir, actions));
                    }
                });
                return;
            }
            (ClientReply::Done | ClientReply::Dropped, _) => Vec::new(),
            (ClientReply::Kept(kept), _) => kept,
            (ClientReply::Glimpses(_), _) => {
                self.evict(&export, "it answers a revoke with sizes");
                return;
            }
        };
        if !of_bytes.is_empty() {
            self.extents_released(&export, &of_bytes);
        }
        let keeps =
            |fid: Fid| kept.iter().any(|(f, bits)| *f == fid && bits.contains(InodeBits::OPEN));
        self.released(&export, &asked, keeps, how);
    }

    /// A client gives up what it holds of these files by itself.
    pub(crate) fn extents_given_back(&self, export: &Export, files: impl Iterator<Item = Fid>) {
        let now = self.env.clock.now();
        self.with_state(When::Now, |state| {
            if !export.is_gone() {
                let SharedWriters { table, actions, .. } = &mut state.locks.shared_writers;
                files.for_each(|fid| {
                    table.given_back(fid, export.client(), ByteRange::ALL, now, actions)
                });
            }
        });
    }

    /// A client gave up these bytes, as it was asked.
    fn extents_released(&self, export: &Export, extents: &[(Fid, ByteRange)]) {
        let now = self.env.clock.now();
        self.with_state(When::Now, |state| {
            if !export.is_gone() {
                let SharedWriters { table, actions, .. } = &mut state.locks.shared_writers;
                for (fid, range) in extents {
                    table.released(*fid, export.client(), *range, now, actions);
                }
            }
        });
    }

    /// A client dropped these bits, except OPEN where `keeps` says so.
    pub(crate) fn released(
        &self,
        export: &Export,
        bits: &[(Fid, InodeBits)],
        keeps: impl Fn(Fid) -> bool,
        how: Release,
    ) {
        let client = export.client();
        let mut let_go: Vec<Fid> = Vec::new();
        self.with_state(When::Now, |state| {
            // The end of the session releases everything; later grants belong to the next one.
            if export.is_gone() {
                return;
            }
            let State { locks: Locks { table, actions, .. }, orphans, .. } = state;
            for (fid, bits) in bits {
                let mut bits = *bits;
                if bits.contains(InodeBits::OPEN) && keeps(*fid) {
                    bits = bits.difference(InodeBits::OPEN);
                    table.kept(*fid, client, actions);
                }
                let had = match how {
                    Release::GivenBack => table.released(*fid, client, bits, actions),
                    Release::Dropped => table.dropped(*fid, client, bits, actions),
                    Release::DroppedNames => table.dropped_names(*fid, client, actions),
                };
                if had.contains(InodeBits::OPEN) && orphans.contains(fid) {
                    let_go.push(*fid);
                }
            }
        });
        self.end_orphans(&let_go);
    }

    /// A session ended: its locks are free, and no answer to it matters any more. Returns the work
    /// that this leaves with inodes. `returns`: as [`AckEvent::Gone`] says.
    pub(crate) fn release_all(&self, client: ClientUuid, returns: bool) -> LeftBehind {
        self.with_state(When::Later, |state| {
            state.acknowledge(AckEvent::Gone { client, returns });
            let held = state.locks.gone(client, self.env.clock.now());
            let has = |bit: InodeBits| move |(_, bits): &&(Fid, InodeBits)| bits.contains(bit);
            let orphans = held.iter().filter(has(InodeBits::OPEN)).map(|(fid, _)| *fid);
            let orphans = orphans.filter(|fid| state.orphans.contains(fid)).collect();
            let written = held.iter().filter(has(InodeBits::WRITE)).map(|(fid, _)| *fid).collect();
            LeftBehind { orphans, written }
        })
    }

    /// Sends one callback to a client. `None`: there is no answer, and its session is over (now).
    pub(crate) async fn answer(&self, export: &Arc<Export>, op: ClientOp) -> Option<ClientReply> {
        let begun = self.env.clock.now();
        // Until it is answered, or the session has ended: in between every reply must say that an
        // answer is owed.
        let _open = export.question(begun);
        let silence = self.env.clock.sleep(self.settings.callback_max);
        let answer = tokio::select! {
            biased;
            answer = export.callback(op) => answer.map_err(|error| error.to_string()),
            () = silence => Err("no answer in time".to_owned()),
        };
        if let Some(stats) = self.lock_stats.get() {
            stats.callback.record(micros(begun, self.env.clock.now()));
        }
        let reason = match answer {
            Ok(answer) => return Some(answer),
            Err(reason) => reason,
        };
        if !export.is_gone() {
            self.evict(export, &reason);
        }
        None
    }

    /// Ends the session of a client that does not comply; its locks are then free.
    pub(crate) fn evict(&self, export: &Arc<Export>, reason: &str) {
        tracing::warn!(
            target = %self.name,
            client = %export.client().brief(),
            nid = %export.nid(),
            description = export.description(),
            reason,
            "client evicted: it does not answer for its locks"
        );
        if let Some(stats) = self.lock_stats.get() {
            stats.evictions.increment();
        }
        if !export.evict() {
            self.session_gone(export, Gone::Evicted);
        }
    }
}
