//! What a request asks of the network: how much data comes back, whether it may wait for others, whether it changes
//! anything.

use std::time::Duration;
use wire::mds::MdsOp;
use wire::message::Op;
use wire::mgs::MgsOp;
use wire::ost::OstOp;

/// Bytes of data to expect with the reply.
pub(crate) fn reply_bulk(ops: &[Op]) -> usize {
    ops.iter()
        .map(|op| match op {
            Op::Ost(OstOp::Read { len, .. }) => *len as usize,
            _ => 0,
        })
        .fold(0, usize::saturating_add)
}

/// May it wait until another client lets go? It is harmless to repeat, and counts in no window.
pub(crate) fn waits(ops: &[Op]) -> bool {
    let waits = |op: &Op| {
        let waits = matches!(op, Op::Mds(MdsOp::FlockSet { wait: true, .. } | MdsOp::Lock { .. }));
        waits || matches!(op, Op::Mgs(MgsOp::Config { .. }))
    };
    ops.iter().any(waits)
}

/// How long the target may take to answer on purpose, beyond the usual limit; `None`: without limit.
pub(crate) fn patience(ops: &[Op]) -> Option<Duration> {
    ops.iter().try_fold(Duration::ZERO, |sum, op| match op {
        Op::Mds(MdsOp::FlockSet { wait: true, .. } | MdsOp::Lock { .. }) => None,
        Op::Mgs(MgsOp::Config { wait_ms, .. }) => Some(sum + Duration::from_millis(u64::from(*wait_ms))),
        _ => Some(sum),
    })
}

/// Does it change what the target keeps? Its reply must then be kept for a repetition.
pub(crate) fn changes(ops: &[Op]) -> bool {
    ops.iter().any(|op| wire::opcode::of(op).changes)
}

/// May it be asked again in a new session, after the target evicted the client that asked it in the one before? An OST
/// keeps nothing of a session that a request relies on: who may write is the MDT's to say. At an MDT only what the
/// session itself held is gone, so what asks and what belongs to the session may; of a change it is not known whether
/// it was done, and a sync answers for changes that may be lost.
pub(crate) fn survives_eviction(ops: &[Op]) -> bool {
    ops.iter().all(|op| match op {
        Op::Ost(_) | Op::Mds(MdsOp::Open { .. } | MdsOp::Lock { .. } | MdsOp::GetLayout { .. }) => true,
        Op::Mds(MdsOp::Sync) => false,
        other => !wire::opcode::of(other).changes,
    })
}
