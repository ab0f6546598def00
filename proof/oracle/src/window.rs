//! The few operations that already show a violation.
//!
//! Read-only operations may be left out of a history: if the rest has no order, the whole has none.
//! So may a value that was set and never seen. The remaining part is small enough for a person to
//! follow.

use crate::linear::{Timed, Verdict, check};
use judge::Model;

/// Operations that all attempts together may walk over: bounds the time to some seconds.
const WORK_MAX: usize = 20_000_000;

/// A smallest part of `ops` (whose answer at `failing` fits nothing) that has no order either.
/// `idle` names operations, beside the read-only ones, that may go if the rest (given) does not
/// miss them.
pub fn shrink<M: Model>(
    model: &M,
    initial: &M::State,
    ops: &[Timed<M::Op>],
    failing: usize,
    idle: impl Fn(&M::Op, &[Timed<M::Op>]) -> bool,
) -> Vec<Timed<M::Op>>
where
    M::Op: Clone,
{
    // It must go on failing there: a part may fail later only because something was left out.
    let (until, record) = (ops[failing].end, ops[failing].record);
    let mut kept: Vec<Timed<M::Op>> = ops.iter().filter(|op| op.begin <= until).cloned().collect();
    let mut work = 0;
    let mut fails = |ops: &[Timed<M::Op>]| {
        work += ops.len();
        work <= WORK_MAX
            && matches!(check(model, initial, ops), Verdict::Violation(at) if ops[at].record == record)
    };
    thin(&mut kept, &mut fails, |op, _| model.looks(op));
    thin(&mut kept, &mut fails, idle);
    kept.sort_by_key(|op| op.begin);
    kept
}

/// Takes out what may go and is not needed to fail: half of all first, then ever smaller pieces.
fn thin<O: Clone>(
    kept: &mut Vec<Timed<O>>,
    fails: &mut impl FnMut(&[Timed<O>]) -> bool,
    may_go: impl Fn(&O, &[Timed<O>]) -> bool,
) {
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < kept.len() {
            let piece = at..(at + chunk).min(kept.len());
            let stays = kept
                .iter()
                .enumerate()
                .filter(|(n, op)| !piece.contains(n) || !may_go(&op.op, kept));
            let fewer: Vec<_> = stays.map(|(_, op)| op.clone()).collect();
            if fewer.len() < kept.len() && fails(&fewer) {
                *kept = fewer;
            } else {
                at = piece.end;
            }
        }
        chunk /= 2;
    }
}
