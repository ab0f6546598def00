//! The side of every MDT that takes part: the bundles that it has prepared, applied, or stopped.
//!
//! A *prepared* bundle is in memory only: a restart loses it, and the coordinator gives it up (see
//! [`Coordinator::restarted`](super::coordinator::Coordinator::restarted)). An *applied* one has a
//! record, until the watermark of its coordinator passes it.
//!
//! **Termination.** A bundle that is prepared and whose coordinator does not go on is stopped: when
//! its time is over, or the coordinator shows itself in a new life. From then on this MDT does not
//! take it from its coordinator; that is recorded, durably, before any other MDT hears of it. Then
//! this MDT asks the other participants, and each that has not applied it stops it in the same way.
//! If one has applied it, that one hands it over. If none has, it never was, for the coordinator
//! applies only what all have applied.
//!
//! Bound: [`BUNDLES_OPEN_MAX`](types::limits::BUNDLES_OPEN_MAX) per coordinator, which begins no
//! more.

use super::{Bundle, is_mutant};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::bundle::{BundleId, Place};
use types::session::Transno;
use types::target::TargetIndex;

/// Answer to an Apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apply {
    /// Do the part, then [`Participant::applied`].
    Do,
    /// It is done, with this number; 0: it is durable.
    Done(Transno),
    /// It was stopped, or it is of an earlier life of its coordinator: it is not taken from the
    /// coordinator.
    Refused,
}

/// Answer to another participant, which has stopped a bundle and asks what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told<B> {
    /// It is applied here.
    Applied(Bundle<B>),
    /// It is not, and will not be taken from its coordinator. `record`: that must be recorded,
    /// durably, before this answer goes out.
    Stopped {
        /// It is news.
        record: bool,
    },
}

/// What the answers of the other participants mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended<B> {
    /// Not all have answered.
    Wait,
    /// It never was: what it had pinned here is free.
    Never,
    /// Another MDT has applied it: do the part, then [`Participant::applied`].
    Do(Bundle<B>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Held<B> {
    /// Until then it may be applied without asking others.
    Prepared {
        others: Vec<TargetIndex>,
        until: Duration,
    },
    /// It is not taken from its coordinator. These others have not answered.
    Stopped {
        waiting: BTreeSet<TargetIndex>,
    },
    Applied {
        bundle: Bundle<B>,
        transno: Transno,
    },
}

/// What is known of another MDT, or of this one as a coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Known {
    /// Its newest life.
    boot: u64,
    /// All bundles before this that it coordinates are finished.
    below: Place,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant<B> {
    me: TargetIndex,
    held: BTreeMap<BundleId, Held<B>>,
    coordinators: BTreeMap<TargetIndex, Known>,
}

impl<B: Clone> Participant<B> {
    /// Of this MDT, without any bundle.
    pub fn new(me: TargetIndex) -> Participant<B> {
        Participant { me, held: BTreeMap::new(), coordinators: BTreeMap::new() }
    }

    /// A record of an earlier life: it is applied.
    pub fn restore(&mut self, bundle: Bundle<B>) {
        self.held.insert(bundle.id, Held::Applied { bundle, transno: Transno(0) });
    }

    /// A record of an earlier life: it is stopped. The exchange asks the other MDTs about it, as a
    /// participant that lives does.
    pub fn restore_stopped(&mut self, id: BundleId) {
        self.held.insert(id, Held::Stopped { waiting: BTreeSet::new() });
    }

    /// A record of an earlier life: the watermark of a coordinator.
    pub fn restore_watermark(&mut self, coordinator: TargetIndex, below: Place) {
        self.coordinators.entry(coordinator).or_default().below = below;
    }

    /// True if it is finished: durable at all of its MDTs, or it never was.
    fn is_finished(&self, id: BundleId) -> bool {
        !is_mutant!(NoWatermark)
            && self.coordinators.get(&id.coordinator).is_some_and(|known| id.place() < known.below)
    }

    /// True if its coordinator has shown itself in a later life.
    fn is_late(&self, id: BundleId) -> bool {
        self.coordinators.get(&id.coordinator).is_some_and(|known| id.boot < known.boot)
    }

    /// True if it is applied here, or finished.
    pub fn has(&self, id: BundleId) -> bool {
        self.is_finished(id) || matches!(self.held.get(&id), Some(Held::Applied { .. }))
    }

    /// True if it was stopped here.
    pub fn is_stopped(&self, id: BundleId) -> bool {
        matches!(self.held.get(&id), Some(Held::Stopped { .. }))
    }

    /// The bundles that are stopped here: a restarted MDT names them in its exchange, and each
    /// other MDT but the coordinator does with them as [`Participant::asked`] says, before it
    /// answers.
    pub fn stopped(&self) -> impl Iterator<Item = BundleId> + '_ {
        self.held.iter().filter(|(_, held)| matches!(held, Held::Stopped { .. })).map(|(id, _)| *id)
    }

    /// A coordinator asks to prepare a bundle in which these take part, too. If it is allowed, it
    /// is prepared until `until`. It may ask again, when it knows of more that take part. `false`:
    /// the coordinator has shown itself in a later life, or it was stopped or cancelled.
    pub fn prepare(&mut self, id: BundleId, others: Vec<TargetIndex>, until: Duration) -> bool {
        self.lives(id.coordinator, id.boot);
        let again = matches!(self.held.get(&id), None | Some(Held::Prepared { .. }));
        if self.is_late(id) || self.is_finished(id) || !again {
            return false;
        }
        self.held.insert(id, Held::Prepared { others, until });
        true
    }

    /// The coordinator gives it up. `true`: it was prepared, and what it had pinned is free.
    pub fn cancel(&mut self, id: BundleId) -> bool {
        let prepared = matches!(self.held.get(&id), Some(Held::Prepared { .. }));
        if prepared {
            self.held.remove(&id);
        }
        prepared
    }

    /// The coordinator sends a bundle, in its life `boot`. That is later than the one of the bundle
    /// if it has restarted since, and has done its own part again.
    pub fn apply(&mut self, bundle: &Bundle<B>, boot: u64) -> Apply {
        let id = bundle.id;
        self.lives(id.coordinator, boot);
        if self.is_finished(id) {
            return Apply::Done(Transno(0));
        }
        match self.held.get(&id) {
            Some(Held::Applied { transno, .. }) => Apply::Done(*transno),
            _ if is_mutant!(LateApplyTaken) => Apply::Do,
            Some(Held::Stopped { .. }) => Apply::Refused,
            _ if self.is_past(id.coordinator, boot) => Apply::Refused,
            Some(Held::Prepared { .. }) => Apply::Do,
            // A restart lost what was prepared, and the exchange after it brought what was decided.
            None if bundle.needs_preparation(self.me) => Apply::Refused,
            None => Apply::Do,
        }
    }

    /// The part is done, in this change.
    pub fn applied(&mut self, bundle: Bundle<B>, transno: Transno) {
        if !self.is_finished(bundle.id) {
            self.held.insert(bundle.id, Held::Applied { bundle, transno });
        }
    }

    /// An MDT is in this life: it asks after a restart, or coordinates. Bundles of an earlier life
    /// that are only prepared are overdue, and messages of an earlier life do not count any more
    /// ([`Participant::is_past`]).
    pub fn lives(&mut self, mdt: TargetIndex, boot: u64) {
        let known = self.coordinators.entry(mdt).or_default();
        known.boot = known.boot.max(boot);
    }

    /// True if the MDT has shown itself in a later life than this. What it said in this one, also
    /// in answers that are still on their way, does not count. It may have lost what it spoke of.
    pub fn is_past(&self, mdt: TargetIndex, boot: u64) -> bool {
        !is_mutant!(LateAnswerTaken)
            && self.coordinators.get(&mdt).is_some_and(|known| boot < known.boot)
    }

    /// Bundles that are prepared and to be stopped now: their time is over, or their coordinator
    /// has a new life.
    pub fn overdue(&self, now: Duration) -> Vec<BundleId> {
        let overdue = |(id, held): (&BundleId, &Held<B>)| match held {
            Held::Prepared { until, .. } => (*until <= now || self.is_late(*id)).then_some(*id),
            _ => None,
        };
        self.held.iter().filter_map(overdue).collect()
    }

    /// Stops a prepared bundle. Record that durably, then ask these others.
    pub fn stop(&mut self, id: BundleId) -> Vec<TargetIndex> {
        let Some(Held::Prepared { others, .. }) = self.held.get(&id) else { return Vec::new() };
        let ask: BTreeSet<TargetIndex> =
            others.iter().copied().filter(|other| *other != self.me).collect();
        self.held.insert(id, Held::Stopped { waiting: ask.clone() });
        ask.into_iter().collect()
    }

    /// Another participant has stopped this bundle, and asks.
    pub fn asked(&mut self, id: BundleId) -> Told<B> {
        match self.held.get(&id) {
            Some(Held::Applied { bundle, .. }) => Told::Applied(bundle.clone()),
            Some(Held::Stopped { .. }) => Told::Stopped { record: false },
            // The asker has not applied it, so it was given up.
            _ if self.is_finished(id) => Told::Stopped { record: false },
            _ if is_mutant!(TerminationWithoutStop) => Told::Stopped { record: false },
            Some(Held::Prepared { .. }) => {
                self.stop(id);
                Told::Stopped { record: true }
            }
            None => {
                self.restore_stopped(id);
                Told::Stopped { record: true }
            }
        }
    }

    /// Another participant has answered: it has stopped the bundle, or it hands it over.
    pub fn told(
        &mut self,
        id: BundleId,
        from: TargetIndex,
        applied: Option<Bundle<B>>,
    ) -> Ended<B> {
        let Some(Held::Stopped { waiting }) = self.held.get_mut(&id) else { return Ended::Wait };
        if let Some(bundle) = applied {
            return Ended::Do(bundle);
        }
        waiting.remove(&from);
        if waiting.is_empty() { Ended::Never } else { Ended::Wait }
    }

    /// True if it is stopped here, and no other is left to be asked about it: it never was, and
    /// what it had pinned here is free. So it is at once if the coordinator had not named others:
    /// then it has not decided it.
    pub fn never_was(&self, id: BundleId) -> bool {
        matches!(self.held.get(&id), Some(Held::Stopped { waiting }) if waiting.is_empty())
    }

    /// The others whose answer about a stopped bundle is missing.
    pub fn unanswered(&self, id: BundleId) -> Vec<TargetIndex> {
        match self.held.get(&id) {
            Some(Held::Stopped { waiting }) => waiting.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// A coordinator says that its bundles before `below` are finished. Returns those of them that
    /// are known here: their records go, in one transaction with the new watermark, and what they
    /// had pinned is free.
    pub fn forget(&mut self, coordinator: TargetIndex, below: Place) -> Vec<BundleId> {
        let known = self.coordinators.entry(coordinator).or_default();
        known.below = known.below.max(below);
        let first = BundleId { coordinator, ..BundleId::default() };
        let end = BundleId { coordinator, boot: below.boot, number: below.number };
        let gone: Vec<BundleId> =
            self.held.range(first..end.max(first)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| drop(self.held.remove(id)));
        gone
    }

    /// True if no bundle is known here that is not finished.
    pub fn is_at_rest(&self) -> bool {
        self.held.is_empty()
    }

    /// What a restarted MDT must be told: bundles that are applied here, and in which it takes
    /// part.
    pub fn brings(&self, mdt: TargetIndex) -> impl Iterator<Item = &Bundle<B>> {
        self.held.values().filter_map(move |held| match held {
            Held::Applied { bundle, .. } => bundle.concerns(mdt).then_some(bundle),
            _ => None,
        })
    }
}
