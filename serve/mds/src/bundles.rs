//! Operations over several MDTs ("bundles", docs/dne.md): what an MDT knows of them in memory.
//!
//! `replay::bundle` decides. [`gather`] finds out what an operation on names is about ([`find`])
//! and plans it ([`operation`], over [`facts`]), [`mkdir`] plans a new directory, [`stripes`] a
//! striped one, [`change`] a change of one, [`restripe`] begins to split or merge a directory,
//! [`migrate`] to take it to other MDTs, [`migrate_inode`] takes what is no directory there,
//! [`passing`] has its names pass, [`growing`] begins that by itself, and [`shrinking`] takes it
//! back. [`coordinate`] carries a bundle through for a client, [`steps`] does this MDT's part,
//! [`serve`] answers other MDTs, [`restart`] asks them after a restart, [`task`] ends what no
//! request works on. Bounds: `BUNDLES_OPEN_MAX` bundles of each coordinator, `BUNDLE_PINS_MAX` pins
//! of each, one record per other MDT.

pub(crate) mod change;
pub(crate) mod coordinate;
mod facts;
mod find;
pub(crate) mod gather;
mod growing;
pub(crate) mod migrate;
mod migrate_inode;
pub(crate) mod mkdir;
pub(crate) mod operation;
mod passing;
pub(crate) mod pins;
pub(crate) mod restart;
pub(crate) mod restripe;
pub(crate) mod serve;
mod shrinking;
pub(crate) mod steps;
pub(crate) mod stripes;
pub(crate) mod task;
pub mod waits;

use crate::records::fids::OIDS_PER_SEQ;
use disk::bundle::{self, Kept, Peer, Step};
use pins::Pins;
use replay::bundle::coordinator::Coordinator;
use replay::bundle::participant::Participant;
use replay::bundle::{self as machine, Other};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::bundle::{BundleId, Place};
use types::fid::Fid;
use types::session::Transno;
use types::target::TargetIndex;
use waits::noted::Waits;

/// The steps of all MDTs.
pub(crate) type Steps = Arc<Vec<Step>>;
/// A bundle that is decided.
pub(crate) type Bundle = machine::Bundle<Steps>;

/// Its record.
pub(crate) fn record_of(bundle: &Bundle) -> Vec<u8> {
    let others = bundle.others.iter().map(|other| (other.mdt, other.prepares)).collect();
    bundle::encode(&Kept::Applied { others, steps: bundle.parts.to_vec() })
}

/// The bundle of a record; `None`: it was stopped.
pub(crate) fn bundle_of(id: BundleId, kept: Kept) -> Option<Bundle> {
    match kept {
        Kept::Applied { others, steps } => {
            let others =
                others.into_iter().map(|(mdt, prepares)| Other { mdt, prepares }).collect();
            Some(Bundle { id, others, parts: Arc::new(steps) })
        }
        Kept::Stopped => None,
    }
}

/// What is known of another MDT; of this one, the watermark only.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    /// As it is recorded.
    pub(crate) peer: Peer,
    /// The transaction that recorded it.
    pub(crate) recorded: Transno,
    /// Time of the monotonic clock at which something was under way.
    pub(crate) used: Duration,
    /// It knows that the bundles of this MDT before this are finished.
    pub(crate) told: Place,
}

/// FIDs of another MDT that this one hands out.
#[derive(Clone, Copy)]
struct Sequence {
    seq: u64,
    oid: u32,
}

/// See the module.
pub(crate) struct Bundles {
    /// Of the bundles that this MDT coordinates.
    pub(crate) coordinator: Coordinator<Steps>,
    /// Of all that is applied, prepared or stopped here.
    pub(crate) participant: Participant<Steps>,
    /// What they are about to change.
    pub(crate) pins: Pins,
    /// A request works on them.
    pub(crate) worked_on: BTreeSet<BundleId>,
    /// The other MDTs.
    pub(crate) peers: BTreeMap<TargetIndex, Known>,
    /// While this MDT recovers: the bundles that its clients brought, and those that it takes from
    /// other MDTs.
    pub(crate) to_restore: Vec<Bundle>,
    /// What waits for other MDTs.
    pub(crate) waits: Waits,
    fids: BTreeMap<TargetIndex, Sequence>,
}

/// All records of bundles of one MDT.
#[derive(Clone, Default)]
pub(crate) struct RecordedBundles {
    pub(crate) bundles: Vec<(BundleId, Kept)>,
    pub(crate) peers: BTreeMap<TargetIndex, Peer>,
}

impl Bundles {
    /// Of this MDT in this life, with nothing under way.
    pub(crate) fn new(me: TargetIndex, boot: u64) -> Bundles {
        Bundles {
            coordinator: Coordinator::new(me, boot),
            participant: Participant::new(me),
            pins: Pins::default(),
            worked_on: BTreeSet::new(),
            peers: BTreeMap::new(),
            to_restore: Vec::new(),
            waits: Waits::default(),
            fids: BTreeMap::new(),
        }
    }

    /// Takes over the records of an earlier life. What was taken over before stays.
    pub(crate) fn restore(&mut self, me: TargetIndex, recorded: &RecordedBundles) {
        for (mdt, peer) in &recorded.peers {
            self.participant.restore_watermark(*mdt, peer.below);
            self.peers.entry(*mdt).or_default().peer = *peer;
        }
        for (id, kept) in &recorded.bundles {
            match bundle_of(*id, kept.clone()) {
                None => self.participant.restore_stopped(*id),
                Some(bundle) => {
                    if id.coordinator == me {
                        self.coordinator.restore(bundle.clone());
                    }
                    self.participant.restore(bundle);
                }
            }
        }
    }

    /// The MDTs with which something may be under way.
    pub(crate) fn under_way_with(&self) -> Vec<TargetIndex> {
        self.peers.iter().filter(|(_, known)| known.peer.under_way).map(|(mdt, _)| *mdt).collect()
    }

    /// A FID of another MDT; `None`: a sequence must be asked for.
    pub(crate) fn fid_of(&mut self, mdt: TargetIndex) -> Option<Fid> {
        let sequence = self.fids.get_mut(&mdt).filter(|sequence| sequence.oid < OIDS_PER_SEQ)?;
        sequence.oid += 1;
        Some(Fid { seq: sequence.seq, oid: sequence.oid, ver: 0 })
    }

    /// True if there is a FID of this MDT.
    fn has_fid_of(&self, mdt: TargetIndex) -> bool {
        self.fids.get(&mdt).is_some_and(|sequence| sequence.oid < OIDS_PER_SEQ)
    }

    /// Another MDT granted a sequence.
    fn granted(&mut self, mdt: TargetIndex, seq: u64) {
        self.fids.insert(mdt, Sequence { seq, oid: 0 });
    }

    /// True if nothing is under way with any MDT.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.coordinator.is_at_rest() && self.participant.is_at_rest() && self.pins.is_empty()
    }
}
