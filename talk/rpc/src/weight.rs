//! Demands of a request on the network: how much data comes back, whether it may wait for others,
//! whether it changes anything.

use std::time::Duration;
use wire::class::Changes;
use wire::message::Op;
use wire::mgs::MgsOp;

/// Bytes of data to expect with the reply: a large one must not hold up small ones on its way.
pub(crate) fn reply_bulk(ops: &[Op]) -> usize {
    ops.iter().map(Op::reply_bytes).fold(0, usize::saturating_add)
}

/// True if it may wait until another client lets go. It is harmless to repeat, and counts in no
/// window.
pub(crate) fn waits(ops: &[Op]) -> bool {
    ops.iter().any(|op| op.class().waits)
}

/// How long the target may take to answer on purpose, beyond the usual limit; `None`: without
/// limit.
pub(crate) fn patience(ops: &[Op]) -> Option<Duration> {
    ops.iter().try_fold(Duration::ZERO, |sum, op| match op {
        Op::Mgs(MgsOp::Config { wait_ms, .. }) => {
            Some(sum + Duration::from_millis(u64::from(*wait_ms)))
        }
        op if op.class().waits => None,
        _ => Some(sum),
    })
}

/// The most that one of the operations changes at the target.
pub(crate) fn changes(ops: &[Op]) -> Changes {
    ops.iter().map(|op| op.class().changes).max().unwrap_or(Changes::Nothing)
}

/// True if the change must be kept here until it is durable.
pub(crate) fn is_replayed(ops: &[Op]) -> bool {
    ops.iter().any(|op| op.class().replayed)
}

/// True if all of it may be sent again in a new session, after the target evicted the client that
/// sent it in the previous one.
pub(crate) fn survives_eviction(ops: &[Op]) -> bool {
    ops.iter().all(|op| op.class().survives_eviction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lnet::peer::CONTROL_DATA_MAX;
    use types::fid::Fid;
    use wire::mds::{GetattrMany, MdsOp, Readdir};

    fn large(op: MdsOp) -> bool {
        reply_bulk(&[Op::Mds(op)]) > CONTROL_DATA_MAX
    }

    #[test]
    fn large_listings_do_not_travel_with_small_answers() {
        let readdir = |limit, bytes_max, with_attr| {
            large(MdsOp::Readdir(Readdir {
                fid: Fid::ROOT,
                after: None,
                limit,
                bytes_max,
                with_attr,
                with_layout: false,
            }))
        };
        assert!(readdir(1024, 4 << 20, true) && !readdir(1024, 4 << 20, false));
        assert!(readdir(16_384, 4 << 20, false) && !readdir(16_384, 4096, true));
        let many = |count| large(MdsOp::GetattrMany(GetattrMany::of(vec![Fid::ROOT; count])));
        assert!(many(512) && !many(64));
    }
}
