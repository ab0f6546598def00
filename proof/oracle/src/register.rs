//! One value: a slot of a file, the mode of an inode, an extended attribute.

use judge::{DONE, Model, Phase};

/// The value of what is not there (a removed attribute); a slot of zeros is 0.
pub const ABSENT: u64 = u64::MAX;

/// Operations on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOp {
    Set(u64),
    /// It was there and became absent.
    Remove,
    Is(u64),
}

/// The model.
pub struct Register;

impl Model for Register {
    type State = u64;
    type Op = RegisterOp;

    fn steps(&self, op: &RegisterOp, _: Phase, state: &u64, out: &mut Vec<(u64, Phase)>) {
        match *op {
            RegisterOp::Set(value) => out.push((value, DONE)),
            RegisterOp::Remove if *state != ABSENT => out.push((ABSENT, DONE)),
            RegisterOp::Is(value) if *state == value => out.push((value, DONE)),
            RegisterOp::Remove | RegisterOp::Is(_) => {}
        }
    }

    fn looks(&self, op: &RegisterOp) -> bool {
        matches!(op, RegisterOp::Is(_))
    }

    fn holds(&self, op: &RegisterOp, state: &u64) -> bool {
        *op == RegisterOp::Is(*state)
    }
}
