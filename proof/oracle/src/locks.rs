//! The exclusive OFD lock of one file: at most one open file has it.

use judge::{DONE, Model, Phase};

/// Operations of open files, which are told apart by a number that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// It got the lock, or had it already.
    Taken(u64),
    /// Another one had it.
    Refused(u64),
    /// It gave the lock back.
    Given(u64),
}

/// The model. The state is the open file that has the lock, or 0.
pub struct Lock;

impl Model for Lock {
    type State = u64;
    type Op = LockOp;

    fn steps(&self, op: &LockOp, _: Phase, state: &u64, out: &mut Vec<(u64, Phase)>) {
        match *op {
            LockOp::Taken(open) if *state == 0 || *state == open => out.push((open, DONE)),
            LockOp::Refused(open) if *state != 0 && *state != open => out.push((*state, DONE)),
            LockOp::Given(open) if *state == open => out.push((0, DONE)),
            LockOp::Taken(_) | LockOp::Refused(_) | LockOp::Given(_) => {}
        }
    }

    fn looks(&self, op: &LockOp) -> bool {
        matches!(op, LockOp::Refused(_))
    }

    fn holds(&self, op: &LockOp, state: &u64) -> bool {
        matches!(*op, LockOp::Refused(open) if *state != 0 && *state != open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::{Timed, Verdict, check};
    use LockOp::{Given, Refused, Taken};

    fn verdict(ops: &[(u64, u64, LockOp)]) -> Verdict {
        let timed = |(record, (begin, end, op)): (usize, &(u64, u64, LockOp))| Timed {
            begin: *begin,
            end: *end,
            record,
            op: *op,
        };
        check(&Lock, &0, &ops.iter().enumerate().map(timed).collect::<Vec<_>>())
    }

    #[test]
    fn one_open_file_at_a_time_has_it() {
        assert_eq!(
            verdict(&[(0, 1, Taken(1)), (2, 3, Refused(2)), (4, 5, Given(1)), (6, 7, Taken(2))]),
            Verdict::Fits
        );
        assert_eq!(verdict(&[(0, 1, Taken(1)), (2, 3, Taken(2))]), Verdict::Violation(1));
        assert_eq!(
            verdict(&[(0, 1, Taken(1)), (2, 3, Given(1)), (4, 5, Refused(2))]),
            Verdict::Violation(2)
        );
    }

    #[test]
    fn a_close_gives_it_back_at_some_time() {
        let closed = (2, 90, Given(1));
        assert_eq!(
            verdict(&[(0, 1, Taken(1)), closed, (4, 5, Refused(2)), (6, 7, Taken(2))]),
            Verdict::Fits
        );
        assert_eq!(
            verdict(&[(0, 1, Taken(1)), closed, (4, 5, Taken(2)), (6, 7, Given(2))]),
            Verdict::Fits
        );
        assert_eq!(
            verdict(&[(0, 1, Taken(1)), closed, (91, 92, Refused(2))]),
            Verdict::Violation(2)
        );
    }
}
