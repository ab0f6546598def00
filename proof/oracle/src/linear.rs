//! Searches one order of all operations on an object that respects real time and explains every
//! answer.
//!
//! The search of Wing and Gong, breadth first and just in time: events are walked in the order of
//! time with the set of all *situations* the object may be in. A situation is a state and which of
//! the operations under way have taken effect. An operation takes effect at the latest when it
//! returns; situations that cannot explain an answer go. If none is left, there is no such order.
//!
//! A read-only operation takes effect as soon as the state fits what it saw: that loses nothing,
//! because it changes nothing. Equal situations are one. A situation in which fewer reads have
//! taken effect is worth nothing beside an otherwise equal one, so the set stays small: its size is
//! bounded by the operations under way at one moment, not by the length of the history.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use std::hash::Hash;

/// Progress of an operation of several steps. [`START`] before the first; the rest is up to the
/// model.
pub type Phase = u64;
/// Nothing has taken effect.
pub const START: Phase = 0;
/// All of it has taken effect.
pub const DONE: Phase = u64::MAX;

/// Operations of one object under way at one moment (each looks at one thing: a listing counts once
/// for each name).
const UNDER_WAY_MAX: usize = 128;
/// Situations at one moment; beyond it the search gives up, and says so.
const SITUATIONS_MAX: usize = 1 << 17;

/// An object that operations act on.
pub trait Model {
    type State: Clone + Eq + Hash;
    type Op;

    /// The next step of `op`, now at `phase`, from `state`: every way it may go, as the new state
    /// and phase. None: it cannot take effect here.
    fn steps(&self, op: &Self::Op, phase: Phase, state: &Self::State, out: &mut Vec<(Self::State, Phase)>);

    /// True if `op` is read-only: it takes the state to no other, and may be left out of a history,
    /// which has no order with it if it has none without it.
    fn looks(&self, op: &Self::Op) -> bool;

    /// True if `op` is read-only and `state` fits what it saw, without any change.
    fn holds(&self, op: &Self::Op, state: &Self::State) -> bool;
}

/// An operation on one object, with the times of its record (ns) and the record's number.
#[derive(Clone, Debug)]
pub struct Timed<O> {
    pub begin: u64,
    pub end: u64,
    pub record: usize,
    pub op: O,
}

/// Outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Fits,
    /// There is none: the answer of this operation (by position) fits nothing.
    Violation(usize),
    /// Too much was under way at once when this operation (by position) returned.
    Undecided(usize),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Situation<S> {
    state: S,
    /// Bit of each operation under way that is done.
    done: u128,
    /// Those between two steps.
    between: Vec<(u8, Phase)>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    ops: &'a [Timed<M::Op>],
    /// Operations under way: position, by bit.
    under_way: Vec<Option<usize>>,
    situations: Vec<Situation<M::State>>,
}

/// Searches from `initial`; `ops` in any order.
pub fn check<M: Model>(model: &M, initial: &M::State, ops: &[Timed<M::Op>]) -> Verdict {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(ops.len() * 2);
    for (at, op) in ops.iter().enumerate() {
        events.push((op.begin, false, at));
        events.push((op.end, true, at));
    }
    // An operation that returns at the very moment another begins may be after it.
    events.sort_unstable();
    let first = Situation { state: initial.clone(), done: 0, between: Vec::new() };
    let mut search = Search { model, ops, under_way: vec![None; UNDER_WAY_MAX], situations: vec![first] };
    let mut bits = vec![0_u8; ops.len()];
    for (_, returns, at) in events {
        if returns {
            if !search.returns(bits[at]) {
                return Verdict::Undecided(at);
            }
            if search.situations.is_empty() {
                return Verdict::Violation(at);
            }
        } else {
            let Some(bit) = search.under_way.iter().position(Option::is_none) else {
                return Verdict::Undecided(at);
            };
            bits[at] = bit as u8;
            search.begins(bit, at);
        }
    }
    Verdict::Fits
}

impl<M: Model> Search<'_, M> {
    fn begins(&mut self, bit: usize, at: usize) {
        self.under_way[bit] = Some(at);
        for situation in &mut self.situations {
            if self.model.holds(&self.ops[at].op, &situation.state) {
                situation.done |= 1 << bit;
            }
        }
    }

    /// Lets all that wait look.
    fn look(&self, situation: &mut Situation<M::State>) {
        for (bit, at) in self.under_way.iter().enumerate() {
            if let Some(at) = at
                && situation.done & 1 << bit == 0
                && self.model.holds(&self.ops[*at].op, &situation.state)
            {
                situation.done |= 1 << bit;
            }
        }
    }

    /// Keeps the situations in which this operation is done, and those that others under way lead
    /// to. False: too many.
    fn returns(&mut self, bit: u8) -> bool {
        let mask = 1_u128 << bit;
        let mut seen: HashSet<Situation<M::State>> = HashSet::new();
        let mut kept: HashSet<Situation<M::State>> = HashSet::new();
        let mut work = std::mem::take(&mut self.situations);
        let mut steps = Vec::new();
        while let Some(situation) = work.pop() {
            if situation.done & mask != 0 {
                kept.insert(situation);
                continue;
            }
            for (other, at) in self.under_way.iter().enumerate() {
                let Some(at) = at else { continue };
                if situation.done & 1 << other != 0 {
                    continue;
                }
                let phase = situation.between.iter().find(|(b, _)| usize::from(*b) == other).map_or(START, |(_, p)| *p);
                self.model.steps(&self.ops[*at].op, phase, &situation.state, &mut steps);
                for (state, phase) in steps.drain(..) {
                    let mut next = Situation { state, done: situation.done, between: situation.between.clone() };
                    next.between.retain(|(b, _)| usize::from(*b) != other);
                    if phase == DONE {
                        next.done |= 1 << other;
                    } else {
                        next.between.push((other as u8, phase));
                        next.between.sort_unstable();
                    }
                    self.look(&mut next);
                    if seen.insert(next.clone()) {
                        work.push(next);
                    }
                }
            }
            if seen.len() + kept.len() > SITUATIONS_MAX {
                return false;
            }
        }
        self.under_way[usize::from(bit)] = None;
        let looking = self.under_way.iter().enumerate().fold(0, |all, (bit, at)| match at {
            Some(at) if self.model.looks(&self.ops[*at].op) => all | 1 << bit,
            _ => all,
        });
        self.situations = best(looking, kept.into_iter().map(|s| Situation { done: s.done & !mask, ..s }));
        true
    }
}

/// Removes situations that another one exceeds and that differ from it only in the reads that have
/// taken effect (`looking`: bits of the read-only operations).
fn best<S: Clone + Eq + Hash>(looking: u128, all: impl Iterator<Item = Situation<S>>) -> Vec<Situation<S>> {
    let mut groups: HashMap<Situation<S>, Vec<u128>> = HashMap::new();
    for situation in all {
        let looked = situation.done & looking;
        let group = groups.entry(Situation { done: situation.done & !looking, ..situation }).or_default();
        if group.iter().any(|other| looked & !other == 0) {
            continue;
        }
        group.retain(|other| other & !looked != 0);
        group.push(looked);
    }
    let mut situations = Vec::new();
    for (common, group) in groups {
        situations.extend(group.into_iter().map(|looked| Situation { done: common.done | looked, ..common.clone() }));
    }
    situations
}
