//! flock and fcntl locks that this mount holds, as its MDTs granted them: a restarted MDT is told of them again.
//!
//! A mirror, by the same rules (`dlm::flock`) as at the MDT. Locks that are waited for are not here: their requests are
//! sent again by themselves. Bound: what MDTs grant.

use dlm::flock::{FlockTable, Ticket};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockKind};
use types::session::ClientUuid;
use wire::mds::MdsOp;
use wire::message::OpReply;

/// See the module.
#[derive(Default)]
pub(crate) struct HeldFlocks(FlockTable);

impl HeldFlocks {
    /// What was answered.
    pub(crate) fn learn(&mut self, ops: &[MdsOp], results: &[Result<OpReply, Errno>]) {
        for (op, result) in ops.iter().zip(results) {
            if let (MdsOp::FlockSet { fid, lock, .. }, Ok(_)) = (op, result) {
                // What is in the way here the MDT has released: that answer is only still under way.
                while lock.kind != FlockKind::Unlock
                    && let Some(old) = self.0.test(*fid, ClientUuid::default(), lock)
                {
                    let (start, end) = (old.start.max(lock.start), old.end.min(lock.end));
                    let unlock = Flock { kind: FlockKind::Unlock, start, end, ..old };
                    self.0.set(*fid, ClientUuid::default(), &unlock, false, Ticket(0), &mut Vec::new());
                }
                self.0.set(*fid, ClientUuid::default(), lock, false, Ticket(0), &mut Vec::new());
            }
        }
    }

    /// Those of one MDT.
    pub(crate) fn of(&self, mdt: u16) -> Vec<(Fid, Flock)> {
        self.0.held().filter(|(fid, _)| fid.mdt() == mdt).collect()
    }

    /// The session with an MDT is lost, and its locks with it.
    pub(crate) fn lose(&mut self, mdt: u16) {
        for (fid, lock) in self.of(mdt) {
            let unlock = Flock { kind: FlockKind::Unlock, ..lock };
            self.0.set(fid, ClientUuid::default(), &unlock, false, Ticket(0), &mut Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::lock::FlockFlavor;
    use wire::mds::MdsReply;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    fn lock(owner: u64, kind: FlockKind, start: u64, end: u64) -> MdsOp {
        let lock = Flock { flavor: FlockFlavor::Posix, kind, owner, pid: 7, start, end };
        MdsOp::FlockSet { fid: A, lock, wait: true }
    }

    #[test]
    fn what_was_granted_is_held_until_it_is_released_or_lost() {
        let mut held = HeldFlocks::default();
        let done = Ok(OpReply::Mds(MdsReply::Done));
        held.learn(&[lock(1, FlockKind::Write, 0, 99)], std::slice::from_ref(&done));
        held.learn(&[lock(2, FlockKind::Write, 50, 60)], &[Err(Errno::EAGAIN)]);
        held.learn(&[lock(1, FlockKind::Unlock, 10, 19)], std::slice::from_ref(&done));
        let ranges: Vec<_> = held.of(A.mdt()).into_iter().map(|(_, l)| (l.owner, l.start, l.end)).collect();
        assert_eq!(ranges, [(1, 0, 9), (1, 20, 99)]);
        assert!(held.of(A.mdt() + 1).is_empty());
        held.lose(A.mdt());
        assert!(held.of(A.mdt()).is_empty());
    }

    #[test]
    fn a_grant_that_overtakes_the_release_before_it_counts() {
        let mut held = HeldFlocks::default();
        let done = Ok(OpReply::Mds(MdsReply::Done));
        let ranges = |held: &HeldFlocks| {
            let all = held.of(A.mdt()).into_iter().map(|(_, l)| (l.owner, l.start, l.end));
            all.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        held.learn(&[lock(1, FlockKind::Write, 0, 99)], std::slice::from_ref(&done));
        held.learn(&[lock(2, FlockKind::Read, 50, 60)], std::slice::from_ref(&done));
        assert_eq!(ranges(&held), [(1, 0, 49), (1, 61, 99), (2, 50, 60)]);
        held.learn(&[lock(1, FlockKind::Unlock, 0, 99)], std::slice::from_ref(&done));
        assert_eq!(ranges(&held), [(2, 50, 60)]);
    }
}
