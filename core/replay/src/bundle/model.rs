//! A model of a file system of three MDTs, to check the machines of [`super`] against every order
//! of events.
//!
//! Each MDT has a *disk*, which keeps what was committed, and *memory*, which a crash loses. Both
//! hold registers (an inode each), the records of bundles, watermarks, and what was ever done. A
//! bundle changes a register at each of its MDTs: it sets register 0, which others set too, or it
//! makes a new one. Clients set register 0, too, keep the redo of what they were told, bring it
//! back to a restarted MDT, and may die. Messages may be lost with a connection, and be late: those
//! of an earlier life of their sender still arrive.
//!
//! Judged: each bundle is done once at all of its MDTs or at none; a change that was told to a
//! living client is there; parts fit what they found.
//!
//! - `exhaustive`: every order of events of two bundles with a given number of crashes.
//! - `random`: long runs with everything.
//!
//! Both must find each mutant of [`Mutant`](super::Mutant) between them.

mod end;
mod mdt;
mod search;

use super::coordinator::{Answered, Prepared};
use super::exchange::Exchange;
use super::participant::{Apply, Ended, Told};
use super::{Bundle, Other, is_mutant};
use mdt::{Deed, Life, Mdt, Part, Parts, Planned, Record, Redo, Version};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::bundle::{BundleId, Place};
use types::session::Transno;
use types::target::TargetIndex;

const MDTS: usize = 3;
const CLIENTS: usize = 2;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Message {
    Prepare { id: BundleId, others: Vec<TargetIndex>, register: u32 },
    Prepared { id: BundleId, found: Version },
    Busy { id: BundleId },
    Cancel { id: BundleId },
    Apply(Bundle<Parts>),
    Applied { id: BundleId, transno: u64 },
    Refused { id: BundleId },
    Ask { id: BundleId },
    Told { id: BundleId, applied: Option<Bundle<Parts>> },
    Committed { last: u64 },
    Forget { below: Place },
}

/// Sender and its boot, receiver.
type Route = (TargetIndex, u64, TargetIndex);

/// One event.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Step {
    Begin {
        client: usize,
        coordinator: usize,
        parts: Vec<(usize, Kind)>,
    },
    Single {
        client: usize,
        mdt: usize,
        told: bool,
    },
    Deliver(Route),
    Commit(usize),
    Crash(usize),
    /// One step of a recovery.
    Recover(usize),
    /// A restarted MDT asks another one, which answers.
    Exchange(usize, usize),
    /// The time of a prepared bundle is over.
    Overdue(usize, BundleId),
    /// Sends again what was not answered.
    Again(usize),
    /// Tells others what is durable, and what is finished.
    Tell(usize),
    /// A connection is lost, with the messages on it.
    Cut(usize, usize),
    Die(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Set,
    New,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    mdts: Vec<Mdt>,
    wires: BTreeMap<Route, VecDeque<(u64, Message)>>,
    alive: [bool; CLIENTS],
    kept: [BTreeMap<(TargetIndex, u64), Redo>; CLIENTS],
    told: BTreeMap<Deed, (usize, Vec<TargetIndex>)>,
    bundles: BTreeMap<BundleId, Vec<TargetIndex>>,
    next_register: u32,
    next_single: u32,
}

type Judged = Result<(), String>;

fn at(mdt: TargetIndex) -> usize {
    usize::from(mdt.0)
}

fn index(mdt: usize) -> TargetIndex {
    TargetIndex(mdt as u16)
}

impl World {
    fn new() -> World {
        World {
            mdts: (0..MDTS).map(|mdt| Mdt::new(index(mdt))).collect(),
            wires: BTreeMap::new(),
            alive: [true; CLIENTS],
            kept: Default::default(),
            told: BTreeMap::new(),
            bundles: BTreeMap::new(),
            next_register: 1,
            next_single: 0,
        }
    }

    fn send(&mut self, from: usize, to: TargetIndex, message: Message) {
        let route = (index(from), self.mdts[from].boot, to);
        let boot = self.mdts[at(to)].boot;
        let wire = self.wires.entry(route).or_default();
        // A sender does not repeat what is on its way.
        if wire.back() != Some(&(boot, message.clone())) {
            wire.push_back((boot, message));
        }
    }

    fn step(&mut self, step: &Step) -> Judged {
        match step {
            Step::Begin { client, coordinator, parts } => self.begin(*client, *coordinator, parts),
            Step::Single { client, mdt, told } => self.single(*client, *mdt, *told),
            Step::Deliver(route) => return self.deliver(*route),
            Step::Commit(mdt) => {
                self.mdts[*mdt].commit();
                self.learn();
            }
            Step::Crash(mdt) => {
                self.mdts[*mdt].crash();
                // What was on its way to it is lost; what it sent may arrive.
                self.wires.retain(|(_, _, to), _| at(*to) != *mdt);
            }
            Step::Recover(mdt) => return self.recover(*mdt),
            Step::Exchange(mdt, peer) => self.exchange(*mdt, *peer),
            Step::Overdue(mdt, id) => self.stop(*mdt, *id),
            Step::Again(mdt) => self.again(*mdt),
            Step::Tell(mdt) => self.tell(*mdt),
            Step::Cut(a, b) => {
                self.wires.retain(|(from, _, to), _| {
                    ![(*a, *b), (*b, *a)].contains(&(at(*from), at(*to)))
                });
            }
            Step::Die(client) => {
                self.alive[*client] = false;
                self.kept[*client].clear();
                self.told.retain(|_, (by, _)| by != client);
            }
        }
        Ok(())
    }

    fn begin(&mut self, client: usize, coordinator: usize, parts: &[(usize, Kind)]) {
        let own_kind =
            parts.iter().find(|(mdt, _)| *mdt == coordinator).map_or(Kind::Set, |(_, kind)| *kind);
        let mdt = &mut self.mdts[coordinator];
        if mdt.life != Life::Open
            || !self.alive[client]
            || own_kind == Kind::Set && mdt.pins.contains_key(&0)
        {
            return;
        }
        let mut planned = Parts::new();
        for (to, kind) in parts {
            let register = match kind {
                Kind::Set => 0,
                Kind::New => {
                    self.next_register += 1;
                    self.next_register
                }
            };
            planned.insert(index(*to), Part { register, found: 0 });
        }
        let own = planned.entry(mdt.me).or_insert(Part { register: 0, found: 0 });
        own.found = mdt.memory.registers.get(&own.register).copied().unwrap_or_default();
        let register = own.register;
        let me = mdt.me;
        let others = planned.iter().filter(|(to, _)| **to != me);
        let others: Vec<Other> =
            others.map(|(to, part)| Other { mdt: *to, prepares: part.register == 0 }).collect();
        if !is_mutant!(NoCommitFirst) {
            mdt.commit();
        }
        // Of several that prepare, the first one tells which others take part.
        let all_prepare = others.len() > 1 && others.iter().all(|other| other.prepares);
        let (first, later) = if all_prepare { (vec![], others.clone()) } else { (others, vec![]) };
        let later: Vec<TargetIndex> = later.into_iter().map(|other| other.mdt).collect();
        let Some(id) = mdt.coordinator.begin(first.clone()) else { return };
        mdt.pins.insert(register, id);
        self.bundles.insert(id, planned.keys().copied().collect());
        let asked: Vec<TargetIndex> =
            first.iter().filter(|other| other.prepares).map(|other| other.mdt).collect();
        let all = first.iter().map(|other| other.mdt).collect();
        mdt.planned.insert(id, Planned { client, parts: planned, later: later.clone() });
        match later.split_first() {
            Some((next, rest)) => {
                if let Some(planned) = mdt.planned.get_mut(&id) {
                    planned.later = rest.to_vec();
                }
                mdt.coordinator.asks(id, [*next]);
                self.ask_to_prepare(coordinator, id, &[*next], vec![*next]);
            }
            None if asked.is_empty() => self.decide(coordinator, id),
            None => self.ask_to_prepare(coordinator, id, &asked, all),
        }
        self.learn();
    }

    fn ask_to_prepare(
        &mut self,
        coordinator: usize,
        id: BundleId,
        these: &[TargetIndex],
        others: Vec<TargetIndex>,
    ) {
        for to in these {
            let register = self.mdts[coordinator].planned[&id].parts[to].register;
            let others = others.clone();
            self.send(coordinator, *to, Message::Prepare { id, others, register });
        }
    }

    /// All that were asked have prepared it: the others are asked, and these told of them.
    fn goes_on(&mut self, coordinator: usize, id: BundleId) {
        let mdt = &mut self.mdts[coordinator];
        let Some(planned) = mdt.planned.get_mut(&id) else { return };
        let later = std::mem::take(&mut planned.later);
        if later.is_empty() {
            return self.decide(coordinator, id);
        }
        let all: Vec<TargetIndex> =
            planned.parts.keys().copied().filter(|to| *to != mdt.me).collect();
        let asked = if is_mutant!(ListNotWhole) { later } else { all.clone() };
        mdt.coordinator.asks(id, asked.iter().copied());
        self.ask_to_prepare(coordinator, id, &asked, all);
    }

    fn decide(&mut self, coordinator: usize, id: BundleId) {
        let mdt = &mut self.mdts[coordinator];
        let Some(Planned { client, parts, .. }) = mdt.planned.remove(&id) else { return };
        let Some(bundle) = mdt.coordinator.decide(id, parts) else { return };
        mdt.clients.insert(id, client);
        if is_mutant!(CoordinatorFirst) {
            self.own(coordinator, &bundle).expect("its own part fits");
        }
        for other in &bundle.others {
            self.send(coordinator, other.mdt, Message::Apply(bundle.clone()));
        }
    }

    /// The own part of the coordinator; its client is told.
    fn own(&mut self, coordinator: usize, bundle: &Bundle<Parts>) -> Judged {
        let mdt = &mut self.mdts[coordinator];
        let transno = mdt.apply(bundle, None)?;
        mdt.coordinator.applied_here(bundle.id, Transno(transno));
        if let Some(client) = mdt.clients.remove(&bundle.id)
            && self.alive[client]
        {
            self.kept[client].insert((index(coordinator), transno), Redo::Bundle(bundle.clone()));
            let all = self.bundles[&bundle.id].clone();
            self.told.insert(Deed::Bundle(bundle.id), (client, all));
        }
        Ok(())
    }

    fn give_up(&mut self, coordinator: usize, id: BundleId) {
        let mdt = &mut self.mdts[coordinator];
        if mdt.planned.remove(&id).is_none() {
            return;
        }
        mdt.unpin(id);
        for other in mdt.coordinator.give_up(id) {
            self.send(coordinator, other, Message::Cancel { id });
        }
    }

    fn single(&mut self, client: usize, to: usize, told: bool) {
        let mdt = &mut self.mdts[to];
        if mdt.life != Life::Open || !self.alive[client] || mdt.pins.contains_key(&0) {
            return;
        }
        let found = mdt.version(0);
        let kept = matches!(self.kept[client].get(&(mdt.me, found)), Some(Redo::Single { .. }));
        // An answer that shows what its reader does not keep waits for a commit.
        if found > mdt.disk.last && !kept {
            mdt.commit();
        }
        self.next_single += 1;
        let deed = Deed::Single(self.next_single);
        let transno = mdt.set(0, deed, None);
        let me = mdt.me;
        if told {
            self.kept[client].insert((me, transno), Redo::Single { register: 0, found, deed });
            self.told.insert(deed, (client, vec![me]));
        }
        self.learn();
    }

    /// Clients forget redo that is durable.
    fn learn(&mut self) {
        for kept in &mut self.kept {
            kept.retain(|(mdt, transno), _| {
                let mdt = &self.mdts[at(*mdt)];
                mdt.life != Life::Open || *transno > mdt.disk.last
            });
        }
    }

    fn deliver(&mut self, route: Route) -> Judged {
        let (from, boot, to) = route;
        let Some(wire) = self.wires.get_mut(&route) else { return Ok(()) };
        let message = wire.pop_front();
        if wire.is_empty() {
            self.wires.remove(&route);
        }
        let Some((meant, message)) = message else { return Ok(()) };
        let receiver = at(to);
        let mdt = &mut self.mdts[receiver];
        if meant != mdt.boot || mdt.life != Life::Open || mdt.participant.is_past(from, boot) {
            return Ok(());
        }
        let answer = match message {
            Message::Prepare { id, others, register } => {
                let until = Duration::MAX;
                let taken = mdt.pins.get(&register).is_some_and(|by| *by != id);
                if taken || !mdt.participant.prepare(id, others, until) {
                    Some(Message::Busy { id })
                } else {
                    mdt.pins.insert(register, id);
                    let found = mdt.version(register);
                    if !is_mutant!(NoCommitFirst) {
                        mdt.commit();
                    }
                    Some(Message::Prepared { id, found })
                }
            }
            Message::Prepared { id, found } => {
                if let Some(planned) = mdt.planned.get_mut(&id) {
                    planned.parts.get_mut(&from).expect("it takes part").found = found;
                    if mdt.coordinator.prepared(id, from) == Prepared::All {
                        self.goes_on(receiver, id);
                    }
                }
                None
            }
            Message::Busy { id } => {
                self.give_up(receiver, id);
                None
            }
            Message::Cancel { id } => {
                if mdt.participant.cancel(id) {
                    mdt.unpin(id);
                }
                None
            }
            Message::Apply(bundle) => {
                let id = bundle.id;
                match mdt.participant.apply(&bundle, boot) {
                    Apply::Do => Some(Message::Applied { id, transno: mdt.apply(&bundle, None)? }),
                    Apply::Done(transno) => Some(Message::Applied { id, transno: transno.0 }),
                    Apply::Refused => Some(Message::Refused { id }),
                }
            }
            Message::Applied { id, transno } => {
                if let Answered::Own(bundle) = mdt.coordinator.applied(id, from, Transno(transno)) {
                    self.own(receiver, &bundle)?;
                }
                None
            }
            Message::Refused { id } => {
                if mdt.coordinator.refused(id, from) == Answered::Never {
                    mdt.clients.remove(&id);
                    mdt.unpin(id);
                }
                None
            }
            Message::Ask { id } => match mdt.participant.asked(id) {
                Told::Applied(bundle) => Some(Message::Told { id, applied: Some(bundle) }),
                Told::Stopped { record } => {
                    if record {
                        mdt.record_stop(id);
                        // It asks by itself, too, if it has pinned something.
                        self.ask_others(receiver, id);
                    }
                    Some(Message::Told { id, applied: None })
                }
            },
            Message::Told { id, applied } => {
                match mdt.participant.told(id, from, applied) {
                    Ended::Wait => {}
                    Ended::Never => mdt.unpin(id),
                    Ended::Do(bundle) => {
                        mdt.apply(&bundle, None)?;
                    }
                }
                None
            }
            Message::Committed { last } => {
                mdt.coordinator.committed(from, Transno(last));
                None
            }
            Message::Forget { below } => {
                mdt.forget(from, below);
                None
            }
        };
        self.learn();
        if let Some(answer) = answer
            && self.mdts[at(from)].boot == boot
        {
            self.send(receiver, from, answer);
        }
        Ok(())
    }

    fn stop(&mut self, mdt: usize, id: BundleId) {
        self.mdts[mdt].participant.stop(id);
        self.mdts[mdt].record_stop(id);
        self.ask_others(mdt, id);
    }

    /// A bundle is stopped here: what became of it at the others? The coordinator is not asked.
    fn ask_others(&mut self, mdt: usize, id: BundleId) {
        for other in self.mdts[mdt].participant.unanswered(id) {
            self.send(mdt, other, Message::Ask { id });
        }
        if self.mdts[mdt].participant.never_was(id) {
            self.mdts[mdt].unpin(id);
        }
    }

    fn again(&mut self, from: usize) {
        let mdt = &self.mdts[from];
        let preparing: Vec<BundleId> = mdt.planned.keys().copied().collect();
        let applies: Vec<(Bundle<Parts>, Vec<TargetIndex>)> =
            mdt.coordinator.unanswered().map(|(bundle, others)| (bundle.clone(), others)).collect();
        let asks: Vec<(BundleId, TargetIndex)> = mdt
            .pins
            .values()
            .flat_map(|id| mdt.participant.unanswered(*id).into_iter().map(|other| (*id, other)))
            .collect();
        for id in preparing {
            // A Prepare is not repeated: it is given up, and the operation begins anew.
            self.give_up(from, id);
        }
        for (bundle, others) in applies {
            others.into_iter().for_each(|to| self.send(from, to, Message::Apply(bundle.clone())));
        }
        for (id, to) in asks {
            self.send(from, to, Message::Ask { id });
        }
    }

    fn tell(&mut self, from: usize) {
        let me = self.mdts[from].me;
        let below = self.mdts[from].coordinator.watermark();
        let last = self.mdts[from].disk.last;
        self.mdts[from].forget(me, below);
        for to in (0..MDTS).filter(|to| *to != from) {
            self.send(from, index(to), Message::Committed { last });
            self.send(from, index(to), Message::Forget { below });
        }
    }

    fn recover(&mut self, mdt: usize) -> Judged {
        match self.mdts[mdt].life {
            Life::Down => self.mdts[mdt].life = Life::Started,
            Life::Started => {
                let me = index(mdt);
                let brought = self.kept.iter().flatten().filter(|((of, _), _)| *of == me);
                let brought: BTreeMap<u64, Redo> =
                    brought.map(|((_, transno), redo)| (*transno, redo.clone())).collect();
                let mdt = &mut self.mdts[mdt];
                mdt.gathered =
                    brought.into_iter().filter(|(transno, _)| *transno > mdt.disk.last).collect();
                let peers = (0..MDTS).map(index).filter(|peer| *peer != me);
                let bundles = mdt.gathered_bundles().cloned();
                mdt.exchange = Some(Exchange::new(me, peers, bundles));
                mdt.life = Life::Asking;
                // Before it answers others: what is still on its way of its earlier life must not
                // arrive behind that answer.
                let boot = mdt.boot;
                for peer in self
                    .mdts
                    .iter_mut()
                    .filter(|peer| peer.life != Life::Down && !is_mutant!(NotAnnounced))
                {
                    peer.participant.lives(me, boot);
                }
            }
            Life::Asking => {
                let mdt = &mut self.mdts[mdt];
                let Some(exchange) = mdt.exchange.as_mut().filter(|e| e.waiting().is_empty())
                else {
                    return Ok(());
                };
                if exchange.ends(&mdt.participant) {
                    (mdt.takes, _) = exchange.to_do(&mdt.participant);
                    mdt.life = Life::Taking;
                }
            }
            Life::Taking => return self.take(mdt),
            Life::Open => {}
        }
        Ok(())
    }

    /// A step of the recovery of this MDT is possible.
    fn may_recover(&self, mdt: usize) -> bool {
        let Mdt { life, exchange, .. } = &self.mdts[mdt];
        match life {
            Life::Down | Life::Started | Life::Taking => true,
            Life::Asking => exchange.as_ref().is_some_and(|e| e.waiting().is_empty()),
            Life::Open => false,
        }
    }

    /// The MDTs that this one may ask now: they answer when their clients have come.
    fn may_ask(&self, mdt: usize) -> Vec<usize> {
        let from = if is_mutant!(ExchangeBeforeClients) { Life::Started } else { Life::Asking };
        let Mdt { life, exchange, .. } = &self.mdts[mdt];
        let waiting = exchange.as_ref().filter(|_| *life == Life::Asking);
        let waiting = waiting.into_iter().flat_map(|exchange| exchange.waiting());
        waiting.map(|peer| at(*peer)).filter(|peer| self.mdts[*peer].life >= from).collect()
    }

    fn exchange(&mut self, mdt: usize, peer: usize) {
        if !self.may_ask(mdt).contains(&peer) {
            return;
        }
        let me = index(mdt);
        for (id, told) in self.mdts[peer].coordinator.restarted(me) {
            self.mdts[peer].planned.remove(&id);
            self.mdts[peer].unpin(id);
            for other in told {
                self.send(peer, other, Message::Cancel { id });
            }
        }
        let boot = self.mdts[mdt].boot;
        let stopped: Vec<BundleId> = self.mdts[mdt].participant.stopped().collect();
        let peer_mdt = &mut self.mdts[peer];
        peer_mdt.participant.lives(me, boot);
        let mut asks = Vec::new();
        for id in stopped {
            let mine =
                id.coordinator == peer_mdt.me || peer_mdt.knows().any(|bundle| bundle.id == id);
            if !mine && let Told::Stopped { record: true } = peer_mdt.participant.asked(id) {
                // One that recovers itself records it with what it does again, for nothing may
                // come before that. If it restarts once more, it hears of the stop again.
                if peer_mdt.life == Life::Open {
                    peer_mdt.record_stop(id);
                }
                asks.push(id);
            }
        }
        asks.into_iter().for_each(|id| self.ask_others(peer, id));
        let answer = self.mdts[peer].tell(me);
        if let Some(exchange) = &mut self.mdts[mdt].exchange {
            exchange.answered(index(peer), answer);
        }
    }

    /// A restarted MDT does what others and its clients brought.
    fn take(&mut self, mdt: usize) -> Judged {
        let mdt = &mut self.mdts[mdt];
        let Some(exchange) = mdt.exchange.take() else { return Ok(()) };
        for bundle in std::mem::take(&mut mdt.takes) {
            mdt.apply(&bundle, None)?;
            restored(mdt, &bundle);
        }
        for (transno, redo) in std::mem::take(&mut mdt.gathered) {
            match redo {
                Redo::Bundle(bundle) => {
                    if !mdt.participant.has(bundle.id) && mdt.fits(&bundle) {
                        mdt.apply(&bundle, Some(transno))?;
                        restored(mdt, &bundle);
                    }
                }
                Redo::Single { register, found, deed } => {
                    if mdt.version(register) == found {
                        mdt.set(register, deed, Some(transno));
                    }
                }
            }
        }
        let (_, last) = exchange.to_do(&mdt.participant);
        for bundle in last {
            mdt.apply(&bundle, None)?;
            restored(mdt, &bundle);
        }
        for id in exchange.stops(&mdt.participant) {
            mdt.participant.restore_stopped(id);
        }
        let stopped: Vec<BundleId> = mdt.participant.stopped().collect();
        for id in stopped {
            mdt.memory.records.insert(id, Record::Stopped);
        }
        mdt.commit();
        mdt.life = Life::Open;
        self.learn();
        Ok(())
    }

    /// All steps that the world may take by itself.
    fn moves(&self) -> Vec<Step> {
        let mut all: Vec<Step> = self.wires.keys().map(|route| Step::Deliver(*route)).collect();
        for (n, mdt) in self.mdts.iter().enumerate() {
            match mdt.life {
                Life::Open => {
                    if mdt.memory != mdt.disk {
                        all.push(Step::Commit(n));
                    }
                    all.extend(
                        mdt.participant
                            .overdue(Duration::MAX)
                            .into_iter()
                            .map(|id| Step::Overdue(n, id)),
                    );
                }
                _ if self.may_recover(n) => all.push(Step::Recover(n)),
                _ => all.extend(self.may_ask(n).into_iter().map(|peer| Step::Exchange(n, peer))),
            }
        }
        all
    }
}

/// A bundle was done again by a restarted MDT, which may coordinate it.
fn restored(mdt: &mut Mdt, bundle: &Bundle<Parts>) {
    if bundle.id.coordinator == mdt.me {
        mdt.coordinator.restore(bundle.clone());
    }
}
