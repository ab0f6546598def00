//! One MDT of the model: its disk, its memory, and its own part of what bundles do.

use super::super::coordinator::Coordinator;
use super::super::exchange::{Answer, Exchange, Offered};
use super::super::participant::Participant;
use super::super::{Bundle, is_mutant};
use std::collections::{BTreeMap, BTreeSet};
use types::bundle::{BundleId, Place};
use types::session::Transno;
use types::target::TargetIndex;

/// The number of the change that set a register; 0: it is not there.
pub(super) type Version = u64;

/// What a bundle does at one MDT.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Part {
    pub(super) register: u32,
    pub(super) found: Version,
}

pub(super) type Parts = BTreeMap<TargetIndex, Part>;

/// What was done: by a bundle, or by a client alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Deed {
    Bundle(BundleId),
    Single(u32),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Record {
    Applied(Bundle<Parts>),
    Stopped,
}

/// What a disk holds.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Disk {
    pub(super) last: u64,
    pub(super) registers: BTreeMap<u32, Version>,
    pub(super) records: BTreeMap<BundleId, Record>,
    pub(super) watermarks: BTreeMap<TargetIndex, Place>,
    pub(super) done: BTreeMap<Deed, u8>,
}

/// Redo that a client keeps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Redo {
    Bundle(Bundle<Parts>),
    Single { register: u32, found: Version, deed: Deed },
}

/// How far this life of an MDT is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Life {
    Down,
    /// It has started; its clients have not come.
    Started,
    /// Its clients have come: it asks the others, and answers them.
    Asking,
    /// All have answered: it has not done yet what it takes.
    Taking,
    Open,
}

/// A bundle that this MDT coordinates and has not decided.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Planned {
    pub(super) client: usize,
    pub(super) parts: Parts,
    /// Others that are asked when the first ones have prepared it.
    pub(super) later: Vec<TargetIndex>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Mdt {
    pub(super) me: TargetIndex,
    pub(super) boot: u64,
    pub(super) life: Life,
    pub(super) disk: Disk,
    pub(super) memory: Disk,
    pub(super) coordinator: Coordinator<Parts>,
    pub(super) participant: Participant<Parts>,
    pub(super) planned: BTreeMap<BundleId, Planned>,
    /// The clients of decided ones.
    pub(super) clients: BTreeMap<BundleId, usize>,
    pub(super) pins: BTreeMap<u32, BundleId>,
    pub(super) gathered: BTreeMap<u64, Redo>,
    pub(super) exchange: Option<Exchange<Parts>>,
    /// What it takes from others, from the end of its exchange on.
    pub(super) takes: Vec<Bundle<Parts>>,
}

impl Mdt {
    pub(super) fn new(me: TargetIndex) -> Mdt {
        let memory = Disk { registers: BTreeMap::from([(0, 1)]), last: 1, ..Disk::default() };
        Mdt {
            me,
            boot: 1,
            life: Life::Open,
            disk: memory.clone(),
            memory,
            coordinator: Coordinator::new(me, 1),
            participant: Participant::new(me),
            planned: BTreeMap::new(),
            clients: BTreeMap::new(),
            pins: BTreeMap::new(),
            gathered: BTreeMap::new(),
            exchange: None,
            takes: Vec::new(),
        }
    }

    pub(super) fn commit(&mut self) {
        self.disk = self.memory.clone();
        self.coordinator.committed(self.me, Transno(self.disk.last));
    }

    pub(super) fn crash(&mut self) {
        self.life = Life::Down;
        self.boot += 1;
        self.memory = self.disk.clone();
        self.coordinator = Coordinator::new(self.me, self.boot);
        self.participant = Participant::new(self.me);
        self.planned.clear();
        self.clients.clear();
        self.pins.clear();
        self.gathered.clear();
        self.exchange = None;
        self.takes.clear();
        for (mdt, below) in &self.memory.watermarks {
            self.participant.restore_watermark(*mdt, *below);
        }
        for (id, record) in &self.memory.records {
            match record {
                Record::Applied(bundle) => {
                    self.participant.restore(bundle.clone());
                    if id.coordinator == self.me {
                        self.coordinator.restore(bundle.clone());
                    }
                }
                Record::Stopped => self.participant.restore_stopped(*id),
            }
        }
    }

    /// It waits for an answer: there is something to send again.
    pub(super) fn waits(&self) -> bool {
        !self.planned.is_empty()
            || self.coordinator.unanswered().any(|(_, others)| !others.is_empty())
            || self.pins.values().any(|id| !self.participant.unanswered(*id).is_empty())
    }

    /// The bundles that its clients have brought.
    pub(super) fn gathered_bundles(&self) -> impl Iterator<Item = &Bundle<Parts>> {
        self.gathered.values().filter_map(|redo| match redo {
            Redo::Bundle(bundle) => Some(bundle),
            Redo::Single { .. } => None,
        })
    }

    /// What its clients have brought, and what it takes from others.
    pub(super) fn knows(&self) -> impl Iterator<Item = &Bundle<Parts>> {
        let shown = |_: &&Bundle<Parts>| !is_mutant!(TakenNotShown);
        self.gathered_bundles().chain(self.takes.iter().filter(shown))
    }

    /// Its answer to an MDT that has restarted.
    pub(super) fn tell(&self, mdt: TargetIndex) -> Answer<Parts> {
        let knows = self.knows().filter(|bundle| bundle.concerns(mdt));
        let applied = self.participant.brings(mdt).chain(knows);
        let decided = self.coordinator.brings(mdt);
        let offered = |applied| {
            move |bundle: &Bundle<Parts>| (bundle.id, Offered { bundle: bundle.clone(), applied })
        };
        let mut brought: BTreeMap<BundleId, _> = decided.map(offered(false)).collect();
        brought.extend(applied.map(offered(true)));
        let stopped: BTreeSet<BundleId> = self.participant.stopped().collect();
        Answer { boot: self.boot, brought: brought.into_values().collect(), stopped }
    }

    pub(super) fn version(&self, register: u32) -> Version {
        self.memory.registers.get(&register).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, register: u32, deed: Deed, transno: Option<u64>) -> u64 {
        self.memory.last = (self.memory.last + 1).max(transno.unwrap_or_default());
        let transno = transno.unwrap_or(self.memory.last);
        self.memory.registers.insert(register, transno);
        *self.memory.done.entry(deed).or_default() += 1;
        transno
    }

    pub(super) fn fits(&self, bundle: &Bundle<Parts>) -> bool {
        let part = &bundle.parts[&self.me];
        self.version(part.register) == part.found
    }

    /// The own part of a bundle and its record, in one transaction.
    pub(super) fn apply(
        &mut self,
        bundle: &Bundle<Parts>,
        transno: Option<u64>,
    ) -> Result<u64, String> {
        let part = &bundle.parts[&self.me];
        if !self.fits(bundle) {
            return Err(format!("{} does not fit at {:?}", bundle.id, self.me));
        }
        let transno = self.set(part.register, Deed::Bundle(bundle.id), transno);
        if !is_mutant!(NoRecordAtParticipants) || bundle.id.coordinator == self.me {
            self.memory.records.insert(bundle.id, Record::Applied(bundle.clone()));
            self.participant.applied(bundle.clone(), Transno(transno));
        }
        self.unpin(bundle.id);
        Ok(transno)
    }

    pub(super) fn unpin(&mut self, id: BundleId) {
        self.pins.retain(|_, by| *by != id);
    }

    pub(super) fn record_stop(&mut self, id: BundleId) {
        self.memory.records.insert(id, Record::Stopped);
        self.memory.last += 1;
        if !is_mutant!(StopNotDurable) {
            self.commit();
        }
    }

    pub(super) fn forget(&mut self, coordinator: TargetIndex, below: Place) {
        for id in self.participant.forget(coordinator, below) {
            self.memory.records.remove(&id);
            self.unpin(id);
        }
        let known = self.memory.watermarks.entry(coordinator).or_default();
        if *known < below {
            *known = below;
            self.memory.last += 1;
        }
    }
}
