//! The length of one file, bytes.
//!
//! Linux takes a write apart at page boundaries, and the length may be seen to grow in these steps
//! (as on its own file systems). The parts of an append are adjacent all the same: nothing gets in
//! between.

use crate::history::SLOT;
use judge::{DONE, Model, Phase, START};

const PAGE: u64 = 4096;

/// Operations on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthOp {
    /// A write of these bytes.
    Write {
        begin: u64,
        end: u64,
    },
    /// An append of `bytes`; `at`: where its bytes were seen, if they were.
    Append {
        bytes: u64,
        at: Option<u64>,
    },
    /// An append of so many bytes on a mount that tells no opens: the kernel takes it apart where a
    /// page would end if the file ended where it believes, and others may get in between.
    AppendInParts(u64),
    Truncate(u64),
    Is(u64),
    AtLeast(u64),
    AtMost(u64),
}

/// Lengths at which a write of `begin..end` may pause.
fn stops(begin: u64, end: u64) -> impl Iterator<Item = u64> {
    (begin / PAGE + 1..end.div_ceil(PAGE)).map(|page| page * PAGE).chain([end])
}

/// The model.
pub struct Length;

impl Model for Length {
    type State = u64;
    type Op = LengthOp;

    fn steps(&self, op: &LengthOp, phase: Phase, state: &u64, out: &mut Vec<(u64, Phase)>) {
        match *op {
            LengthOp::Write { begin, end } => {
                let begin = if phase == START { begin } else { phase };
                for stop in stops(begin, end) {
                    out.push((stop.max(*state), if stop == end { DONE } else { stop }));
                }
            }
            // phase = bytes that are there.
            LengthOp::Append { bytes, at } if at.is_none_or(|at| at + phase == *state) => {
                for stop in stops(*state, *state + bytes - phase) {
                    let there = phase + stop - *state;
                    out.push((stop, if there == bytes { DONE } else { there }));
                }
            }
            LengthOp::AppendInParts(bytes) => {
                for there in (phase + SLOT..=bytes).step_by(SLOT as usize) {
                    let end = state + there - phase;
                    out.push((end, if there == bytes { DONE } else { there }));
                }
            }
            LengthOp::Truncate(to) => out.push((to, DONE)),
            LengthOp::Append { .. } => {}
            LengthOp::Is(_) | LengthOp::AtLeast(_) | LengthOp::AtMost(_) => {
                if self.holds(op, state) {
                    out.push((*state, DONE));
                }
            }
        }
    }

    fn looks(&self, op: &LengthOp) -> bool {
        matches!(op, LengthOp::Is(_) | LengthOp::AtLeast(_) | LengthOp::AtMost(_))
    }

    fn holds(&self, op: &LengthOp, state: &u64) -> bool {
        match *op {
            LengthOp::Is(length) => *state == length,
            LengthOp::AtLeast(length) => *state >= length,
            LengthOp::AtMost(length) => *state <= length,
            LengthOp::Write { .. }
            | LengthOp::Append { .. }
            | LengthOp::AppendInParts(_)
            | LengthOp::Truncate(_) => false,
        }
    }
}
