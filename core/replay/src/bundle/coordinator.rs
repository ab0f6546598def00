//! The side of the MDT that coordinates.
//!
//! A bundle is *preparing* until all that must have prepared it. It may be given up until then.
//! Then it is *decided*: its Apply is sent, and from there on it is over only when all
//! participants have applied it, or all have refused. When all have applied it, the coordinator
//! applies its own part. When all parts are durable, it is *finished*.
//!
//! **Invariant:** the own part is applied last. Bound: [`BUNDLES_OPEN_MAX`].

use super::{Bundle, Other, is_mutant};
use std::collections::{BTreeMap, BTreeSet};
use types::bundle::{BundleId, Place};
use types::limits::BUNDLES_OPEN_MAX;
use types::session::Transno;
use types::target::TargetIndex;

/// What an answer to a Prepare means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepared {
    /// The bundle was given up.
    Gone,
    /// Others have not answered.
    Wait,
    /// All have prepared it: plan it, then [`Coordinator::decide`], or [`Coordinator::give_up`].
    All,
}

/// What an answer to an Apply means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answered<B> {
    /// Nothing is to be done.
    Wait,
    /// All others have applied it: apply the own part, then [`Coordinator::applied_here`].
    Own(Bundle<B>),
    /// All have refused it: it never was.
    Never,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Stage<B> {
    /// These have not answered. It can be given up.
    Preparing { others: Vec<Other>, waiting: BTreeSet<TargetIndex> },
    /// These have applied it, under these numbers of their changes, or have refused it.
    Decided {
        bundle: Bundle<B>,
        applied: BTreeMap<TargetIndex, Transno>,
        refused: BTreeSet<TargetIndex>,
    },
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinator<B> {
    me: TargetIndex,
    /// The next bundle of this life.
    next: Place,
    open: BTreeMap<BundleId, Stage<B>>,
    /// Everything up to here is durable.
    committed: BTreeMap<TargetIndex, Transno>,
}

impl<B: Clone> Coordinator<B> {
    /// Of this MDT in this life.
    pub fn new(me: TargetIndex, boot: u64) -> Coordinator<B> {
        Coordinator {
            me,
            next: Place { boot, number: 1 },
            open: BTreeMap::new(),
            committed: BTreeMap::new(),
        }
    }

    /// A bundle of an earlier life whose own part is done: the others are told again, until it is
    /// finished.
    pub fn restore(&mut self, bundle: Bundle<B>) {
        let applied = BTreeMap::from([(self.me, Transno(0))]);
        self.open.insert(bundle.id, Stage::Decided { bundle, applied, refused: BTreeSet::new() });
    }

    /// A bundle with these others begins. `None`: there are too many already.
    pub fn begin(&mut self, others: Vec<Other>) -> Option<BundleId> {
        if self.open.len() >= BUNDLES_OPEN_MAX {
            return None;
        }
        let id = BundleId { coordinator: self.me, boot: self.next.boot, number: self.next.number };
        self.next.number += 1;
        let waiting = others.iter().filter(|other| other.prepares).map(|other| other.mdt).collect();
        self.open.insert(id, Stage::Preparing { others, waiting });
        Some(id)
    }

    /// These MDTs are about to be asked to prepare it, some of them perhaps once more: only then is
    /// it known which MDTs take part. `false`: it was given up, or is decided.
    ///
    /// Each of them must have prepared it with the list of all of them before it is decided.
    pub fn asks(&mut self, id: BundleId, these: impl IntoIterator<Item = TargetIndex>) -> bool {
        let Some(Stage::Preparing { others, waiting }) = self.open.get_mut(&id) else {
            return false;
        };
        for mdt in these {
            waiting.insert(mdt);
            if let Err(at) = others.binary_search_by_key(&mdt, |other| other.mdt) {
                others.insert(at, Other { mdt, prepares: true });
            }
        }
        true
    }

    /// An MDT has prepared it.
    pub fn prepared(&mut self, id: BundleId, from: TargetIndex) -> Prepared {
        match self.open.get_mut(&id) {
            Some(Stage::Preparing { waiting, .. }) => {
                waiting.remove(&from);
                if waiting.is_empty() { Prepared::All } else { Prepared::Wait }
            }
            _ => Prepared::Gone,
        }
    }

    /// Gives it up, if it is not decided. Returns the MDTs that may have prepared it, to be told
    /// Cancel.
    pub fn give_up(&mut self, id: BundleId) -> Vec<TargetIndex> {
        match self.open.get(&id) {
            Some(Stage::Preparing { others, .. }) => {
                let asked =
                    others.iter().filter(|other| other.prepares).map(|other| other.mdt).collect();
                self.open.remove(&id);
                asked
            }
            _ => Vec::new(),
        }
    }

    /// It is planned, and these are its parts: it is decided. Returns the bundle, whose Apply goes
    /// to all others. `None`: it was given up.
    pub fn decide(&mut self, id: BundleId, parts: B) -> Option<Bundle<B>> {
        let Some(Stage::Preparing { others, waiting }) = self.open.get(&id) else { return None };
        debug_assert!(waiting.is_empty(), "{id} is decided before all have prepared it");
        let bundle = Bundle { id, others: others.clone(), parts };
        let (applied, refused) = (BTreeMap::new(), BTreeSet::new());
        self.open.insert(id, Stage::Decided { bundle: bundle.clone(), applied, refused });
        Some(bundle)
    }

    /// A participant has applied it, with this number of its change (0: in an earlier life, so it
    /// is durable).
    pub fn applied(&mut self, id: BundleId, from: TargetIndex, transno: Transno) -> Answered<B> {
        let Some(Stage::Decided { bundle, applied, refused }) = self.open.get_mut(&id) else {
            return Answered::Wait;
        };
        refused.remove(&from);
        let first = applied.insert(from, transno).is_none();
        let all = bundle.others.iter().all(|other| applied.contains_key(&other.mdt));
        let own = first && all && !applied.contains_key(&self.me);
        let answered = if own { Answered::Own(bundle.clone()) } else { Answered::Wait };
        self.sweep();
        answered
    }

    /// The own part is applied.
    pub fn applied_here(&mut self, id: BundleId, transno: Transno) {
        if let Some(Stage::Decided { applied, .. }) = self.open.get_mut(&id) {
            applied.insert(self.me, transno);
        }
        self.sweep();
    }

    /// A participant has refused it: it was stopped there.
    pub fn refused(&mut self, id: BundleId, from: TargetIndex) -> Answered<B> {
        let Some(Stage::Decided { bundle, applied, refused }) = self.open.get_mut(&id) else {
            return Answered::Wait;
        };
        if !applied.contains_key(&from) {
            refused.insert(from);
        }
        if applied.is_empty() && refused.len() == bundle.others.len() {
            self.open.remove(&id);
            return Answered::Never;
        }
        Answered::Wait
    }

    /// The bundles that are decided, and the participants that have not applied them, to which the
    /// Apply goes again.
    pub fn unanswered(&self) -> impl Iterator<Item = (&Bundle<B>, Vec<TargetIndex>)> {
        self.open.values().filter_map(|stage| match stage {
            Stage::Decided { bundle, .. } => Some((bundle, self.waits_for(bundle.id)?)),
            Stage::Preparing { .. } => None,
        })
    }

    /// The participants that have not applied a decided bundle; `None`: it was given up, or it
    /// never was, or it is finished.
    pub fn waits_for(&self, id: BundleId) -> Option<Vec<TargetIndex>> {
        match self.open.get(&id) {
            Some(Stage::Decided { bundle, applied, .. }) => {
                let others = bundle.others.iter().map(|other| other.mdt);
                Some(others.filter(|other| !applied.contains_key(other)).collect())
            }
            _ => None,
        }
    }

    /// The MDTs that have not answered what was asked of them last, for people: to prepare a
    /// bundle, or to apply it. None: it is finished, was given up, or only its own part is due.
    pub fn awaited(&self, id: BundleId) -> Vec<TargetIndex> {
        match self.open.get(&id) {
            Some(Stage::Preparing { waiting, .. }) => waiting.iter().copied().collect(),
            _ => self.waits_for(id).unwrap_or_default(),
        }
    }

    /// The bundles that all others have applied, and this MDT has not: its own part is due.
    pub fn due(&self) -> impl Iterator<Item = &Bundle<B>> {
        self.open.values().filter_map(|stage| match stage {
            Stage::Decided { bundle, applied, .. } => {
                let all = bundle.others.iter().all(|other| applied.contains_key(&other.mdt));
                (all && !applied.contains_key(&self.me)).then_some(bundle)
            }
            Stage::Preparing { .. } => None,
        })
    }

    /// True if it is decided, and not finished.
    pub fn is_decided(&self, id: BundleId) -> bool {
        matches!(self.open.get(&id), Some(Stage::Decided { .. }))
    }

    /// True if every bundle is finished or given up.
    pub fn is_at_rest(&self) -> bool {
        self.open.is_empty()
    }

    /// A restarted MDT asks what is under way with it. Whatever it had applied, it may have
    /// lost: it takes that again, under another number, or refuses it. So the Apply goes to it
    /// again, and the number of its earlier life does not count, which it may never reach.
    /// Returns the bundles that are given up: what it had prepared died with its earlier life,
    /// and a "Prepared" of that life may still be on its way. Each comes with the other MDTs
    /// that are to be told Cancel.
    pub fn restarted(&mut self, mdt: TargetIndex) -> Vec<(BundleId, Vec<TargetIndex>)> {
        for stage in self.open.values_mut() {
            if let Stage::Decided { applied, refused, .. } = stage {
                applied.remove(&mdt);
                refused.remove(&mdt);
            }
        }
        if is_mutant!(RestartDoesNotCancel) {
            return Vec::new();
        }
        let with = |(id, stage): (&BundleId, &Stage<B>)| match stage {
            Stage::Preparing { others, .. } => {
                others.iter().any(|other| other.mdt == mdt).then_some(*id)
            }
            Stage::Decided { .. } => None,
        };
        let ids: Vec<BundleId> = self.open.iter().filter_map(with).collect();
        let told = |id| (id, self.give_up(id).into_iter().filter(|other| *other != mdt).collect());
        ids.into_iter().map(told).collect()
    }

    /// What a restarted MDT must be told: bundles that are decided and not applied here. Those that
    /// are applied here, the [`Participant`](super::participant::Participant) side brings.
    pub fn brings(&self, mdt: TargetIndex) -> impl Iterator<Item = &Bundle<B>> {
        self.open.values().filter_map(move |stage| match stage {
            Stage::Decided { bundle, applied, .. } => {
                (bundle.concerns(mdt) && !applied.contains_key(&self.me)).then_some(bundle)
            }
            Stage::Preparing { .. } => None,
        })
    }

    /// An MDT, perhaps this one, says that everything up to here is durable there.
    pub fn committed(&mut self, mdt: TargetIndex, last: Transno) {
        let known = self.committed.entry(mdt).or_default();
        if *known < last {
            *known = last;
            self.sweep();
        }
    }

    /// Forgets what is durable everywhere.
    fn sweep(&mut self) {
        let committed = &self.committed;
        self.open.retain(|_, stage| match stage {
            Stage::Preparing { .. } => true,
            Stage::Decided { bundle, applied, .. } => {
                let durable = |(mdt, transno): (&TargetIndex, &Transno)| {
                    committed.get(mdt).copied().unwrap_or_default() >= *transno
                };
                applied.len() <= bundle.others.len() || !applied.iter().all(durable)
            }
        });
    }

    /// The watermark: all bundles before it are durable everywhere, or never were.
    pub fn watermark(&self) -> Place {
        self.open.keys().next().map_or(self.next, |first| first.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A participant restarts behind its "Applied", loses the change, and does it again under a
    /// lower number. The bundle is finished when that one is durable.
    #[test]
    fn a_number_of_an_earlier_life_does_not_count() {
        let (me, other) = (TargetIndex(0), TargetIndex(1));
        let mut coordinator = Coordinator::new(me, 1);
        let id = coordinator
            .begin(vec![Other { mdt: other, prepares: false }])
            .expect("it is the first");
        coordinator.decide(id, ()).expect("all have prepared it");
        assert!(coordinator.is_decided(id) && coordinator.due().next().is_none());
        assert!(matches!(coordinator.applied(id, other, Transno(50)), Answered::Own(_)));
        assert_eq!(coordinator.due().map(|bundle| bundle.id).collect::<Vec<_>>(), [id]);
        coordinator.applied_here(id, Transno(7));
        assert!(coordinator.due().next().is_none() && !coordinator.is_at_rest());
        coordinator.committed(me, Transno(7));

        assert!(coordinator.restarted(other).is_empty(), "it is decided");
        coordinator.committed(other, Transno(49));
        assert_eq!(coordinator.watermark(), id.place(), "it may be lost there again");
        let unanswered: Vec<_> =
            coordinator.unanswered().map(|(bundle, others)| (bundle.id, others)).collect();
        assert_eq!(unanswered, [(id, vec![other])], "the Apply goes again");
        assert_eq!(
            coordinator.applied(id, other, Transno(40)),
            Answered::Wait,
            "the own part is done"
        );
        assert_eq!(coordinator.watermark(), Place { boot: 1, number: 2 }, "it is finished");
    }
}
