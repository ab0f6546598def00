//! What other MDTs ask: FIDs, Prepare, Apply, Cancel, Forget, and the questions of one that has
//! restarted.
//!
//! Each is harmless to repeat: what it changes is named by a bundle.

use super::pins::Pin;
use super::steps::{self, Occasion, do_part, record_of_inode};
use super::{Bundle, bundle_of, record_of};
use crate::locks;
use crate::locks::context::LockContext;
use crate::mds::Mds;
use crate::records::Records;
use bytes::Bytes;
use disk::bundle::{self, Step};
use namespace::rmdir::check_empty;
use namespace::view::{Change, View};
use replay::bundle::participant::{Apply, Told};
use std::collections::BTreeMap;
use std::time::Duration;
use types::bundle::{BundleId, Place};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{BUNDLES_OPEN_MAX, BUNDLES_PER_REPLY_BYTES};
use types::lock::InodeBits;
use types::session::Transno;
use types::target::TargetIndex;
use wire::mds::{
    MdsReply, PeerApply, PeerBundle, PeerCancel, PeerExchange, PeerForget, PeerPrepare,
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

    /// See [`PeerPrepare`]. The author's own locks stay: it is told with its reply.
    pub(crate) async fn peer_prepare(&self, op: &PeerPrepare) -> Result<MdsReply, Errno> {
        let &PeerPrepare { id, fid, author } = op;
        self.ours(fid)?;
        if fid == Fid::ROOT {
            return Err(Errno::EBUSY);
        }
        self.mark_under_way(id.coordinator).await?;
        let mut context = LockContext::new(author, InodeBits::NONE);
        let root = Credentials::root();
        let until = self.env.clock.now() + LEASE;
        let (record, found) = self
            .in_turn(&mut context, |context| {
                self.transact_as(&root, context, |records, _| {
                    let change = [Change::named(fid, true)];
                    match records.state.bundles.pins.meets(&change) {
                        Some(same) if same == id => {}
                        // The coordinator begins anew, so that no bundle waits for another one.
                        Some(_) => return Err(Errno::EAGAIN),
                        None => {
                            check_empty(records, fid)?;
                            records.before(&change)?;
                            let bundles = &mut records.state.bundles;
                            if !bundles.participant.prepare(id, vec![self.name.index], until) {
                                return Err(Errno::EAGAIN);
                            }
                            bundles.pins.pin(id, Pin::Inode(fid));
                        }
                    }
                    let inode = records.existing(fid)?;
                    Ok((record_of_inode(&inode), Transno(inode.attr.version)))
                })
            })
            .await?;
        // Every change of the directory and of its names has a version up to that of its record.
        self.commit_up_to(found).await?;
        self.finish.wake();
        Ok(MdsReply::PeerPrepared { boot: self.boot, record: record.into() })
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
        self.mark_under_way(id.coordinator).await?;
        let makes = bundle.parts.iter().any(|step| matches!(step, Step::Make { .. }));
        let room = if makes { self.store.admit().await } else { self.store.admit_release().await };
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
        self.unpinned.notify_waiters();
        self.finish.wake();
        answer
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
            let bundles = &mut self.state.lock().bundles;
            if bundles.participant.cancel(op.id) {
                bundles.pins.unpin(op.id);
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
    pub(crate) fn peer_exchange(&self, op: &PeerExchange) -> MdsReply {
        let &PeerExchange { from, boot, announce, after } = op;
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
            let gathered = bundles.gathered.iter().filter(|bundle| bundle.concerns(from));
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
            self.cancel(id, told);
        }
        self.unpinned.notify_waiters();
        self.finish.wake();
        reply
    }
}
