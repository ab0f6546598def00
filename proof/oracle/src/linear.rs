//! Asks the [search](judge) for one order of all operations on one object that explains every
//! answer. Every operation has returned.

use judge::{Model, Search};

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
    /// Too much was under way at once when this operation (by position) began or returned.
    Undecided(usize),
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
    let mut search = Search::new(model, [initial.clone()]);
    let mut under_way = vec![None; ops.len()];
    for (_, returns, at) in events {
        match under_way[at].filter(|_| returns) {
            None => match search.begins(&ops[at].op) {
                Ok(begun) => under_way[at] = Some(begun),
                Err(judge::TooTangled) => return Verdict::Undecided(at),
            },
            Some(begun) => match search.returns(begun) {
                Ok(true) => {}
                Ok(false) => return Verdict::Violation(at),
                Err(judge::TooTangled) => return Verdict::Undecided(at),
            },
        }
    }
    Verdict::Fits
}
