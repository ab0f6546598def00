//! A restarted MDT asks the others which bundles it may have lost, before it opens.
//!
//! Its clients have come before: what they brought is part of its own answers to others that have
//! restarted, too. So no MDT waits for another one's exchange, and there is no circle.
//!
//! A bundle that an MDT has applied is taken in any case. One that its coordinator has only decided
//! is not taken if it was stopped here before the restart, or is stopped at an MDT that answers: an
//! MDT that has promised to stop one, and restarts, learns of its promise again, and keeps it
//! ([`Exchange::stops`]).

use super::participant::Participant;
use super::{Bundle, is_mutant};
use std::collections::{BTreeMap, BTreeSet};
use types::bundle::BundleId;
use types::target::TargetIndex;

/// A bundle that an MDT, or a client, brings to a restarted MDT.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Offered<B> {
    /// The bundle.
    pub bundle: Bundle<B>,
    /// An MDT has applied it. Else its coordinator has decided it.
    pub applied: bool,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Exchange<B> {
    waiting: BTreeSet<TargetIndex>,
    /// By clients, among their changes.
    gathered: BTreeMap<BundleId, Bundle<B>>,
    brought: BTreeMap<BundleId, Offered<B>>,
    stopped: BTreeSet<BundleId>,
}

impl<B: Clone> Exchange<B> {
    /// These MDTs are asked. `gathered`: the bundles among the changes that clients brought.
    pub fn new(
        peers: impl IntoIterator<Item = TargetIndex>,
        gathered: impl IntoIterator<Item = Bundle<B>>,
    ) -> Exchange<B> {
        let gathered = gathered.into_iter().map(|bundle| (bundle.id, bundle)).collect();
        Exchange {
            waiting: peers.into_iter().collect(),
            gathered,
            brought: BTreeMap::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// The MDTs that have not answered.
    pub fn waiting(&self) -> &BTreeSet<TargetIndex> {
        &self.waiting
    }

    /// What this MDT has to tell another one that has restarted, beside its records: what its
    /// clients brought.
    pub fn brings(&self, mdt: TargetIndex) -> impl Iterator<Item = &Bundle<B>> {
        let known = !is_mutant!(ExchangeBeforeClients);
        self.gathered.values().filter(move |bundle| known && bundle.concerns(mdt))
    }

    /// An MDT has answered; these bundles are `stopped` there.
    pub fn answered(
        &mut self,
        from: TargetIndex,
        brought: impl IntoIterator<Item = Offered<B>>,
        stopped: impl IntoIterator<Item = BundleId>,
    ) {
        if self.waiting.remove(&from) {
            self.stopped.extend(stopped);
            for new in brought {
                let applied = new.applied;
                self.brought.entry(new.bundle.id).or_insert(new).applied |= applied;
            }
        }
    }

    /// The bundles whose own part is to be done, beside the changes that clients brought: those
    /// that are not among these changes come first; those that are, last, as far as they are not
    /// done then.
    pub fn to_do(&self, records: &Participant<B>) -> (Vec<Bundle<B>>, Vec<Bundle<B>>) {
        let takes = |brought: &&Offered<B>| {
            let id = brought.bundle.id;
            let stopped = records.is_stopped(id) || self.stopped.contains(&id);
            let stopped = stopped && !is_mutant!(StoppedTakenFromCoordinator);
            !records.has(id) && (brought.applied || !stopped)
        };
        let first = self.brought.values().filter(takes).map(|brought| brought.bundle.clone());
        let first = first.filter(|bundle| !self.gathered.contains_key(&bundle.id)).collect();
        let last =
            self.gathered.values().filter(|bundle| !records.has(bundle.id)).cloned().collect();
        (first, last)
    }

    /// The bundles that are stopped at an MDT that answered, and are applied nowhere that is known.
    /// Ask when all that is [`Exchange::to_do`] is done. This MDT may have promised the stop in its
    /// earlier life, so it promises it now: [`Participant::restore_stopped`], and a record with
    /// what it does again. Else it would take a bundle of which it prepares nothing from the
    /// coordinator.
    pub fn stops(&self, records: &Participant<B>) -> Vec<BundleId> {
        if is_mutant!(StopForgotten) {
            return Vec::new();
        }
        let unknown = |id: &&BundleId| !records.has(**id) && !records.is_stopped(**id);
        self.stopped.iter().filter(unknown).copied().collect()
    }
}
