//! A restarted MDT asks the others which bundles it may have lost, before it opens.
//!
//! Its clients have come before: what they brought is part of its own answers to others that have
//! restarted, too. So no MDT waits for another one's exchange, and there is no circle.
//!
//! **Rounds.** The answers come one after the other, and an MDT that has answered may die, learn of
//! a bundle, or stop one. So all are asked again until all answer, in the same lives, what they
//! answered in the round before ([`Exchange::ends`]): then there was a moment between the two
//! rounds at which all of that was so. It is as if all had been asked at that moment. An answer of
//! a life that is past does not count: what that MDT spoke of may be lost with it. From the moment
//! at which the exchange ends, this MDT brings what it takes to others that ask. So one that
//! restarts later hears of it here, and one that had restarted before has shown itself, and was
//! asked.
//!
//! Between two rounds, bundles of which this MDT prepares nothing may come and go: if it misses
//! one, it still takes the Apply of that. Of the others there are no new ones while it is not open,
//! so the rounds come to an end.
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

/// What an MDT has answered.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Answer<B> {
    /// Its life.
    pub boot: u64,
    /// What it has applied or decided, and this MDT takes part in.
    pub brought: Vec<Offered<B>>,
    /// What is stopped there.
    pub stopped: BTreeSet<BundleId>,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Exchange<B> {
    me: TargetIndex,
    /// The MDTs that are asked, and what they answered last.
    answers: BTreeMap<TargetIndex, Option<Answer<B>>>,
    /// They have not answered in this round.
    waiting: BTreeSet<TargetIndex>,
    /// An answer of this round is another one than that of the round before.
    news: bool,
    /// By clients, among their changes.
    gathered: BTreeMap<BundleId, Bundle<B>>,
}

impl<B: Clone> Exchange<B> {
    /// These MDTs are asked by `me`. `gathered`: the bundles among the changes that clients
    /// brought.
    pub fn new(
        me: TargetIndex,
        peers: impl IntoIterator<Item = TargetIndex>,
        gathered: impl IntoIterator<Item = Bundle<B>>,
    ) -> Exchange<B> {
        let gathered = gathered.into_iter().map(|bundle| (bundle.id, bundle)).collect();
        let answers: BTreeMap<_, _> = peers.into_iter().map(|mdt| (mdt, None)).collect();
        let waiting = answers.keys().copied().collect();
        Exchange { me, answers, waiting, news: false, gathered }
    }

    /// The MDTs that have not answered in this round.
    pub fn waiting(&self) -> &BTreeSet<TargetIndex> {
        &self.waiting
    }

    /// An MDT has answered.
    pub fn answered(&mut self, from: TargetIndex, answer: Answer<B>) {
        if !self.waiting.remove(&from) {
            return;
        }
        let me = self.me;
        let awaited = |offered: &&Offered<B>| {
            let bundle = &offered.bundle;
            bundle.id.coordinator == me || bundle.needs_preparation(me)
        };
        let compared = |answer: &Answer<B>| {
            let brought = answer.brought.iter().filter(awaited);
            brought.map(|offered| (offered.bundle.id, offered.applied)).collect::<BTreeSet<_>>()
        };
        let before = self.answers.insert(from, Some(answer.clone())).flatten();
        self.news |= before.is_none_or(|before| {
            (before.boot, &before.stopped) != (answer.boot, &answer.stopped)
                || compared(&before) != compared(&answer)
        });
    }

    /// An administrator says that this MDT is not waited for any longer.
    pub fn given_up(&mut self, mdt: TargetIndex) {
        self.waiting.remove(&mdt);
        self.answers.remove(&mdt);
    }

    /// All MDTs have answered. `true`: the exchange is over, and from this moment on this MDT
    /// brings what it takes ([`Exchange::to_do`]) to others that ask. `false`: another round has
    /// begun.
    pub fn ends(&mut self, records: &Participant<B>) -> bool {
        let is_past = |(mdt, answer): (&TargetIndex, &Option<Answer<B>>)| {
            answer.as_ref().is_none_or(|answer| records.is_past(*mdt, answer.boot))
        };
        let news = self.news && !is_mutant!(OneRound);
        let past = self.answers.iter().any(is_past) && !is_mutant!(PastLifeTaken);
        let again = news || past;
        if again {
            self.waiting = self.answers.keys().copied().collect();
            self.news = false;
        }
        !again
    }

    /// The bundles whose own part is to be done, beside the changes that clients brought: those
    /// that are not among these changes come first; those that are, last, as far as they are not
    /// done then.
    pub fn to_do(&self, records: &Participant<B>) -> (Vec<Bundle<B>>, Vec<Bundle<B>>) {
        let all_stopped: BTreeSet<BundleId> = self.stopped().collect();
        let mut brought: BTreeMap<BundleId, Offered<B>> = BTreeMap::new();
        for offered in self.answers.values().flatten().flat_map(|answer| &answer.brought) {
            let known = brought.entry(offered.bundle.id).or_insert_with(|| offered.clone());
            known.applied |= offered.applied;
        }
        let takes = |brought: &Offered<B>| {
            let id = brought.bundle.id;
            let stopped = records.is_stopped(id) || all_stopped.contains(&id);
            let stopped = stopped && !is_mutant!(StoppedTakenFromCoordinator);
            !records.has(id) && (brought.applied || !stopped)
        };
        let first = brought.into_values().filter(takes).map(|brought| brought.bundle);
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
    pub fn stops(&self, records: &Participant<B>) -> BTreeSet<BundleId> {
        if is_mutant!(StopForgotten) {
            return BTreeSet::new();
        }
        let unknown = |id: &BundleId| !records.has(*id) && !records.is_stopped(*id);
        self.stopped().filter(unknown).collect()
    }

    /// What is stopped at the MDTs that answered; some of it more than once.
    fn stopped(&self) -> impl Iterator<Item = BundleId> + '_ {
        self.answers.values().flatten().flat_map(|answer| answer.stopped.iter().copied())
    }
}
