//! Callbacks of MDTs: forget, let the kernel forget, answer. The answer is a promise.
//!
//! Nothing here waits for a request that could wait for a lock. The order is that of
//! docs/locks/protocol.md, "Order within a callback":
//!
//! 1. the gate notes it, so that replies under way no longer grant it;
//! 2. data is stored, if its holder has dirty data;
//! 3. the table forgets;
//! 4. answers that were decided before reach the kernel;
//! 5. the kernel forgets, also what an earlier callback took and is not done yet;
//! 6. the answer is sent.

use crate::locks::Locks;
use crate::locks::data_guards::TO_WRITE;
use env::BoxFuture;
use futures_util::future::join_all;
use observe::metric::{Metric, Unit};
use observe::mutant::{Mutant, is_mutant};
use rpc::callbacks::Callbacks;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::ranges::ByteRange;
use wire::client::{ClientOp, ClientReply, Glimpsed};

/// Cost of callbacks at a mount.
pub const CALLBACK_ANSWER: Metric = Metric {
    name: "callback_answer",
    unit: Unit::Microseconds,
    help: "Time from a server's question to the mount's answer, its kernel's caches included.",
};

/// Bits of which the data path decides.
const OF_DATA: InodeBits = InodeBits::DATA.union(InodeBits::WRITE);

/// Bits that cover names and attributes.
const OF_ENTRIES: InodeBits = InodeBits::LOOKUP.union(InodeBits::UPDATE);

/// Answers callbacks of this mount's targets.
pub struct CallbackHandler {
    /// Locks of the mount.
    pub locks: Arc<Locks>,
}

impl Callbacks for CallbackHandler {
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>> {
        self.locks.callbacks.fetch_add(1, Ordering::Relaxed);
        if is_mutant(Mutant::AckEarly)
            && let Some(answer) = self.clone().too_early(&op)
        {
            return answer;
        }
        Box::pin(async move {
            let begun = self.locks.env.clock.now();
            let answer = self.answer(op).await;
            let took = self.locks.env.clock.now().saturating_sub(begun);
            self.locks.answers.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            Ok(answer)
        })
    }
}

impl CallbackHandler {
    async fn answer(&self, op: ClientOp) -> ClientReply {
        match op {
            ClientOp::Revoke { locks } => self.revoke(locks).await,
            ClientOp::Changing { dir, names } => self.changing(dir, &names).await,
            ClientOp::RevokeExtents { extents } => self.revoke_extents(extents).await,
            ClientOp::Glimpse { fids, store } => {
                let data = self.locks.data.get();
                if let (true, Some(data)) = (store, data) {
                    join_all(fids.iter().map(|fid| data.store(*fid))).await;
                }
                let glimpse =
                    |fid: &Fid| data.map_or(Glimpsed::Reported, |data| data.glimpse(*fid));
                let glimpsed: Vec<Glimpsed> = fids.iter().map(glimpse).collect();
                let dirty = fids
                    .iter()
                    .zip(&glimpsed)
                    .filter(|(_, glimpsed)| matches!(glimpsed, Glimpsed::Dirty(_)));
                self.sizes_told(dirty.map(|(fid, _)| *fid)).await;
                ClientReply::Glimpses(glimpsed)
            }
            // The session hears of it itself.
            ClientOp::Squash(_) => ClientReply::Done,
        }
    }

    /// Attributes of files are called back that a program may be about to look at: it has a moment
    /// for that. Then all that came with these files is given back.
    async fn let_programs_look(&self, locks: &[(Fid, InodeBits)]) {
        let me = &self.locks;
        if me.paused.lock().is_idle() {
            return;
        }
        let of_entries = locks.iter().filter(|(_, bits)| bits.intersects(OF_ENTRIES));
        let fids: Vec<Fid> = of_entries.map(|(fid, _)| *fid).collect();
        let answers_at = me.paused.lock().answers_at(&fids);
        let Some(at) = answers_at else { return };
        me.env.clock.sleep(at.saturating_sub(me.env.clock.now())).await;
        if me.paused.lock().called_back(&fids) {
            me.wake_upkeep.notify_one();
        }
    }

    async fn revoke(&self, locks: Vec<(Fid, InodeBits)>) -> ClientReply {
        let me = &self.locks;
        self.let_programs_look(&locks).await;
        let mut of_data = Vec::new();
        {
            let mut table = me.table.lock();
            for (fid, bits) in &locks {
                // WRITE is given back with DATA or UPDATE, so dirty data is stored first.
                let bits = match !bits.intersects(TO_WRITE) {
                    true => *bits,
                    false => bits.union(table.bits(*fid).intersection(InodeBits::WRITE)),
                };
                // Also a WRITE that is on its way: the MDT counts it as given back, too.
                let on_its_way =
                    if bits.intersects(TO_WRITE) { InodeBits::WRITE } else { InodeBits::NONE };
                table.gate(fid.mdt()).note(*fid, bits.union(on_its_way));
                if bits.intersects(OF_DATA) {
                    of_data.push((*fid, bits.intersection(OF_DATA)));
                }
            }
        }
        join_all(of_data.into_iter().map(|(fid, bits)| me.revoke_data(fid, bits))).await;
        let (kept, pending) = me.take(|table, invalidations| {
            let mut opens = me.opens.lock();
            let mut kept = Vec::new();
            for (fid, bits) in &locks {
                if is_mutant(Mutant::EntryUnlocked) {
                    table.distrust_attr(*fid, invalidations);
                    table.take(*fid, bits.difference(OF_ENTRIES), invalidations);
                } else {
                    table.take(*fid, *bits, invalidations);
                }
                if bits.contains(InodeBits::OPEN) && me.keeps_open(&mut opens, *fid) {
                    kept.push((*fid, InodeBits::OPEN));
                }
            }
            kept
        });
        for (fid, _) in locks.iter().filter(|(_, bits)| bits.contains(InodeBits::LAYOUT)) {
            if let Some(data) = me.data.get() {
                data.forget_layout(*fid);
            }
        }
        me.all_forgotten(pending).await;
        if kept.is_empty() { ClientReply::Done } else { ClientReply::Kept(kept) }
    }

    async fn revoke_extents(&self, extents: Vec<(Fid, ByteRange)>) -> ClientReply {
        let me = &self.locks;
        let mut files: BTreeMap<Fid, Vec<ByteRange>> = BTreeMap::new();
        {
            let mut table = me.table.lock();
            for (fid, range) in extents {
                table.calls_range(fid, range);
                files.entry(fid).or_default().push(range);
            }
        }
        join_all(files.iter().map(|(fid, ranges)| me.revoke_extents(*fid, ranges))).await;
        ClientReply::Done
    }

    /// Another client will see what programs of this mount wrote. The kernel notes the new size in
    /// the thread that wrote, some time after the answer (R40); so it must ask until then.
    async fn sizes_told(&self, fids: impl Iterator<Item = Fid>) {
        let ((), pending) = self.locks.take(|table, invalidations| {
            fids.for_each(|fid| table.distrust_attr(fid, invalidations));
        });
        if !pending.invalidations.is_empty() {
            self.locks.reply_barrier.quiesce().await;
            self.locks.send(pending).await;
        }
    }

    async fn changing(&self, dir: Fid, names: &[Name]) -> ClientReply {
        let me = &self.locks;
        let (kept, pending) = me.take(|table, invalidations| {
            table.gate(dir.mdt()).note(dir, InodeBits::UPDATE);
            table.changing(dir, names, invalidations)
        });
        me.all_forgotten(pending).await;
        if kept { ClientReply::Done } else { ClientReply::Dropped }
    }

    /// Deliberately wrong ([`Mutant::AckEarly`]): a checker must notice that the answer comes
    /// before the deed.
    fn too_early(
        self: Arc<Self>,
        op: &ClientOp,
    ) -> Option<BoxFuture<'static, Result<ClientReply, Errno>>> {
        let (reply, op) = match op {
            ClientOp::Revoke { .. } | ClientOp::RevokeExtents { .. } => {
                (ClientReply::Done, op.clone())
            }
            ClientOp::Changing { .. } => (ClientReply::Dropped, op.clone()),
            ClientOp::Glimpse { .. } | ClientOp::Squash(_) => return None,
        };
        let (tasks, clock) = (self.locks.env.tasks.clone(), self.locks.env.clock.clone());
        let late = async move {
            clock.sleep(std::time::Duration::from_millis(5)).await;
            self.answer(op).await;
        };
        tasks.spawn("invalidate too late", Box::pin(late));
        Some(Box::pin(std::future::ready(Ok(reply))))
    }
}
