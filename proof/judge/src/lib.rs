//! Searches one order of all operations on an object that respects real time and explains every
//! answer.
//!
//! The search of Wing and Gong, breadth first and just in time: the caller walks through the events
//! in the order of time and tells the search which operation begins and which returns. The search
//! keeps the set of all *situations* the object may be in. A situation is a state and which of the
//! operations under way have taken effect. An operation takes effect at the latest when it returns;
//! situations that cannot explain an answer go. If none is left, there is no such order. An
//! operation that never returns may take effect at any time after its beginning, once, or never.
//!
//! A read-only operation takes effect as soon as the state fits what it saw: that loses nothing,
//! because it changes nothing. Equal situations are one. A situation in which fewer reads have
//! taken effect is worth nothing beside an otherwise equal one, so the set stays small: its size is
//! bounded by the operations under way at one moment, not by the length of the history.
//!
//! The oracle asks one question for each file, name space and lock: is there an order? The
//! simulation asks it for one name space, and also which states the end, or a power cut, may have
//! left. What an operation may answer is in their models.

use foldhash::fast::FixedState;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Progress of an operation of several steps. [`START`] before the first; the rest is up to the
/// model.
pub type Phase = u64;
/// Nothing has taken effect.
pub const START: Phase = 0;
/// All of it has taken effect.
pub const DONE: Phase = u64::MAX;

/// Operations of one object under way at one moment (each looks at one thing: a listing counts once
/// for each name), those that never return among them.
pub const UNDER_WAY_MAX: usize = 128;
/// Situations at one moment; beyond it the search gives up, and says so.
pub const SITUATIONS_MAX: usize = 200_000;
/// Steps that a whole search may try: as many as this, and [`SEARCHED_EACH`] for each return. So a
/// long history is judged, and one that is tangled all the time ends. A step makes a state and
/// compares it: that is what takes the time.
pub const SEARCHED_MAX: u64 = 2_000_000;
/// See [`SEARCHED_MAX`].
pub const SEARCHED_EACH: u64 = 1_000;

type Set<T> = HashSet<T, FixedState>;

/// An object that operations act on.
pub trait Model {
    /// State of the object.
    type State: Clone + Eq + Hash;
    /// An operation, with what it was answered.
    type Op;

    /// The next step of `op`, now at `phase`, from `state`: every way it may go, as the new state
    /// and phase. None: it cannot take effect here.
    fn steps(
        &self,
        op: &Self::Op,
        phase: Phase,
        state: &Self::State,
        out: &mut Vec<(Self::State, Phase)>,
    );

    /// True if `op` is read-only: it takes the state to no other, and may be left out of a history,
    /// which has no order with it if it has none without it.
    fn looks(&self, op: &Self::Op) -> bool;

    /// True if `op` is read-only and `state` fits what it saw, without any change.
    fn holds(&self, op: &Self::Op, state: &Self::State) -> bool;
}

/// Too much is under way: at once ([`UNDER_WAY_MAX`], [`SITUATIONS_MAX`]), or all the time
/// ([`SEARCHED_MAX`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooTangled;

/// An operation under way, until it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnderWay(u8);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Situation<S> {
    state: S,
    /// Bit of each operation under way that is done.
    done: u128,
    /// Those between two steps.
    between: Vec<(u8, Phase)>,
}

/// See the crate.
pub struct Search<'a, M: Model> {
    model: &'a M,
    /// Operations under way, by bit.
    under_way: Vec<Option<&'a M::Op>>,
    situations: Vec<Situation<M::State>>,
    /// Steps that may still be tried.
    left: Cell<u64>,
}

impl<'a, M: Model> Search<'a, M> {
    /// Nothing is under way, and the object is in one of these states.
    pub fn new(model: &'a M, states: impl IntoIterator<Item = M::State>) -> Search<'a, M> {
        let first = |state| Situation { state, done: 0, between: Vec::new() };
        Search {
            model,
            under_way: vec![None; UNDER_WAY_MAX],
            situations: states.into_iter().map(first).collect(),
            left: Cell::new(SEARCHED_MAX),
        }
    }

    /// An operation begins.
    ///
    /// # Errors
    /// [`UNDER_WAY_MAX`] are under way.
    pub fn begins(&mut self, op: &'a M::Op) -> Result<UnderWay, TooTangled> {
        let bit = self.under_way.iter().position(Option::is_none).ok_or(TooTangled)?;
        self.under_way[bit] = Some(op);
        for situation in &mut self.situations {
            if self.model.holds(op, &situation.state) {
                situation.done |= 1 << bit;
            }
        }
        Ok(UnderWay(bit as u8))
    }

    /// An operation returns: keeps the situations in which it is done, and those that others under
    /// way lead to. `false`: there is none, so nothing explains its answer.
    ///
    /// # Errors
    /// There are more than [`SITUATIONS_MAX`], or too many steps were tried ([`SEARCHED_MAX`]).
    pub fn returns(&mut self, UnderWay(bit): UnderWay) -> Result<bool, TooTangled> {
        self.left.set(self.left.get() + SEARCHED_EACH);
        let mask = 1_u128 << bit;
        let work = std::mem::take(&mut self.situations);
        let (mut kept, mut seen) = (Set::default(), Set::default());
        self.walk(work, &mut seen, |situation| {
            let is_done = situation.done & mask != 0;
            if is_done {
                kept.insert(situation.clone());
            }
            is_done
        })?;
        self.under_way[usize::from(bit)] = None;
        let looking = self.under_way.iter().enumerate().fold(0, |all, (bit, op)| match op {
            Some(op) if self.model.looks(op) => all | 1 << bit,
            _ => all,
        });
        self.situations =
            best(looking, kept.into_iter().map(|s| Situation { done: s.done & !mask, ..s }));
        Ok(!self.situations.is_empty())
    }

    /// These operations never return, and what they have not done by now they never do.
    ///
    /// # Errors
    /// As [`Search::returns`].
    pub fn end(&mut self, operations: &[UnderWay]) -> Result<(), TooTangled> {
        let mask = operations.iter().fold(0_u128, |all, UnderWay(bit)| all | 1 << bit);
        let work = std::mem::take(&mut self.situations);
        let mut seen: Set<_> = work.iter().cloned().collect();
        self.walk(work, &mut seen, |_| false)?;
        for UnderWay(bit) in operations {
            self.under_way[usize::from(*bit)] = None;
        }
        let ended = seen.into_iter().map(|mut situation| {
            situation.done &= !mask;
            situation.between.retain(|(bit, _)| mask & 1 << bit == 0);
            situation
        });
        self.situations = ended.collect::<Set<_>>().into_iter().collect();
        Ok(())
    }

    /// Every state that the object is in now, or may come to by what is under way.
    ///
    /// # Errors
    /// As [`Search::returns`].
    pub fn reachable(&self) -> Result<impl Iterator<Item = M::State>, TooTangled> {
        let mut seen: Set<_> = self.situations.iter().cloned().collect();
        self.walk(self.situations.clone(), &mut seen, |_| false)?;
        Ok(seen.into_iter().map(|situation| situation.state))
    }

    /// States that the object may be in, without further effect of what is under way. One may come
    /// several times.
    pub fn states(&self) -> impl Iterator<Item = &M::State> {
        self.situations.iter().map(|situation| &situation.state)
    }

    /// Lets operations under way take their steps in every order, from all of `work`, until
    /// `is_enough`; notes in `seen` what they lead to.
    fn walk(
        &self,
        mut work: Vec<Situation<M::State>>,
        seen: &mut Set<Situation<M::State>>,
        mut is_enough: impl FnMut(&Situation<M::State>) -> bool,
    ) -> Result<(), TooTangled> {
        let mut steps = Vec::new();
        while let Some(situation) = work.pop() {
            if is_enough(&situation) {
                continue;
            }
            for (bit, op) in self.under_way.iter().enumerate() {
                let Some(op) = op.filter(|_| situation.done & 1 << bit == 0) else { continue };
                let phase = situation
                    .between
                    .iter()
                    .find(|(b, _)| usize::from(*b) == bit)
                    .map_or(START, |(_, p)| *p);
                self.model.steps(op, phase, &situation.state, &mut steps);
                for (state, phase) in steps.drain(..) {
                    self.left.set(self.left.get().checked_sub(1).ok_or(TooTangled)?);
                    let mut next = Situation {
                        state,
                        done: situation.done,
                        between: situation.between.clone(),
                    };
                    next.between.retain(|(b, _)| usize::from(*b) != bit);
                    if phase == DONE {
                        next.done |= 1 << bit;
                    } else {
                        next.between.push((bit as u8, phase));
                        next.between.sort_unstable();
                    }
                    self.look(&mut next);
                    if seen.insert(next.clone()) {
                        work.push(next);
                    }
                }
            }
            if seen.len() > SITUATIONS_MAX {
                return Err(TooTangled);
            }
        }
        Ok(())
    }

    /// Lets all that wait look.
    fn look(&self, situation: &mut Situation<M::State>) {
        for (bit, op) in self.under_way.iter().enumerate() {
            if let Some(op) = op
                && situation.done & 1 << bit == 0
                && self.model.holds(op, &situation.state)
            {
                situation.done |= 1 << bit;
            }
        }
    }
}

/// Removes situations that another one exceeds and that differ from it only in the reads that have
/// taken effect (`looking`: bits of the read-only operations).
fn best<S: Clone + Eq + Hash>(
    looking: u128,
    all: impl Iterator<Item = Situation<S>>,
) -> Vec<Situation<S>> {
    let mut groups: HashMap<Situation<S>, Vec<u128>, FixedState> = HashMap::default();
    for situation in all {
        let looked = situation.done & looking;
        let group =
            groups.entry(Situation { done: situation.done & !looking, ..situation }).or_default();
        if group.iter().any(|other| looked & !other == 0) {
            continue;
        }
        group.retain(|other| other & !looked != 0);
        group.push(looked);
    }
    let mut situations = Vec::new();
    for (common, group) in groups {
        situations.extend(
            group
                .into_iter()
                .map(|looked| Situation { done: common.done | looked, ..common.clone() }),
        );
    }
    situations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that operations add to, and look at.
    struct Sum;

    enum Op {
        Add(u64),
        /// In two steps, each of one half.
        AddHalves(u64),
        Is(u64),
    }

    impl Model for Sum {
        type State = u64;
        type Op = Op;

        fn steps(&self, op: &Op, phase: Phase, sum: &u64, out: &mut Vec<(u64, Phase)>) {
            match op {
                Op::Add(more) => out.push((sum + more, DONE)),
                Op::AddHalves(more) => {
                    out.push((sum + more / 2, if phase == START { 1 } else { DONE }))
                }
                Op::Is(seen) if seen == sum => out.push((*sum, DONE)),
                Op::Is(_) => {}
            }
        }

        fn looks(&self, op: &Op) -> bool {
            matches!(op, Op::Is(_))
        }

        fn holds(&self, op: &Op, sum: &u64) -> bool {
            matches!(op, Op::Is(seen) if seen == sum)
        }
    }

    fn reachable(search: &Search<'_, Sum>) -> Vec<u64> {
        let mut states: Vec<u64> = search.reachable().unwrap().collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    #[test]
    fn what_never_returns_may_happen_late_or_never_but_once() {
        let (lost, ops) = (Op::Add(5), [0, 5, 0, 10].map(Op::Is));
        let mut search = Search::new(&Sum, [0]);
        search.begins(&lost).unwrap();
        let mut sees = |op| {
            let begun = search.begins(op).unwrap();
            search.returns(begun).unwrap()
        };
        assert!(sees(&ops[0]) && sees(&ops[1]));
        assert!(!sees(&ops[2]), "undone");
        let mut search = Search::new(&Sum, [0]);
        search.begins(&lost).unwrap();
        let begun = search.begins(&ops[3]).unwrap();
        assert_eq!(search.returns(begun), Ok(false), "twice");
    }

    #[test]
    fn what_is_under_way_may_have_gone_any_way_so_far() {
        let ops = [Op::Add(1), Op::AddHalves(20)];
        let mut search = Search::new(&Sum, [0, 100]);
        let begun = ops.each_ref().map(|op| search.begins(op).unwrap());
        assert_eq!(reachable(&search), [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]);
        assert_eq!(search.returns(begun[1]), Ok(true));
        assert_eq!(reachable(&search), [20, 21, 120, 121]);
        assert_eq!(search.returns(begun[0]), Ok(true));
        let mut states: Vec<u64> = search.states().copied().collect();
        states.sort_unstable();
        assert_eq!(states, [21, 121]);
    }

    #[test]
    fn a_look_between_two_steps_takes_part_of_an_operation() {
        let (halves, ops) = (Op::AddHalves(20), [10, 20, 10].map(Op::Is));
        let mut search = Search::new(&Sum, [0]);
        search.begins(&halves).unwrap();
        let mut sees = |op| {
            let begun = search.begins(op).unwrap();
            search.returns(begun).unwrap()
        };
        assert!(sees(&ops[0]) && sees(&ops[1]) && !sees(&ops[2]));
    }

    #[test]
    fn what_has_ended_was_done_by_then_or_never() {
        let (lost, ops) = (Op::Add(20), [0, 20, 0].map(Op::Is));
        fn sees<'a>(search: &mut Search<'a, Sum>, op: &'a Op) -> bool {
            let begun = search.begins(op).unwrap();
            search.returns(begun).unwrap()
        }
        let mut search = Search::new(&Sum, [0]);
        let begun = search.begins(&lost).unwrap();
        search.end(&[begun]).unwrap();
        assert_eq!(reachable(&search), [0, 20]);
        assert!(sees(&mut search, &ops[0]) && !sees(&mut search, &ops[1]), "not later");
        let mut search = Search::new(&Sum, [0]);
        let begun = search.begins(&lost).unwrap();
        search.end(&[begun]).unwrap();
        assert!(sees(&mut search, &ops[1]) && !sees(&mut search, &ops[2]), "and not taken back");
    }

    #[test]
    fn too_much_at_once_is_said() {
        let lost = Op::Add(0);
        let mut search = Search::new(&Sum, [0]);
        for _ in 0..UNDER_WAY_MAX {
            search.begins(&lost).unwrap();
        }
        assert_eq!(search.begins(&lost), Err(TooTangled));
        let powers: Vec<Op> = (0..20).map(|n| Op::Add(1 << n)).collect();
        let mut search = Search::new(&Sum, [0]);
        powers.iter().for_each(|op| _ = search.begins(op).unwrap());
        assert!(search.reachable().is_err(), "a million sums");
    }

    #[test]
    fn much_all_the_time_is_said_too_and_a_long_history_is_judged() {
        let powers: Vec<Op> = (0..10).map(|n| Op::Add(1 << n)).collect();
        let (nothing, zero) = (Op::Add(0), Op::Is(0));
        fn sees<'a>(search: &mut Search<'a, Sum>, op: &'a Op) -> Result<bool, TooTangled> {
            let begun = search.begins(op).unwrap();
            search.returns(begun)
        }
        let mut search = Search::new(&Sum, [0]);
        powers.iter().for_each(|op| _ = search.begins(op).unwrap());
        search.left.set(50_000);
        // Each time there are 1,024 sums without it, and as many with it.
        let told: Vec<_> = (0..100).map(|_| sees(&mut search, &nothing)).collect();
        let judged = told.iter().take_while(|told| **told == Ok(true)).count();
        assert!((2..90).contains(&judged) && told[judged] == Err(TooTangled), "{told:?}");

        let mut search = Search::new(&Sum, [0]);
        search.left.set(0);
        for _ in 0..100_000 {
            assert_eq!(sees(&mut search, &zero), Ok(true));
        }
    }
}
