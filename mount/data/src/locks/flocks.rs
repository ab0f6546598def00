//! flock and fcntl locks that this mount holds, as its MDTs granted them: a restarted MDT is told
//! of them again.
//!
//! A mirror, by the same rules (`dlm::flock`) as at the MDT. Requests that wait are not here: they
//! are resent by themselves. Bound: the grants of the MDTs.
//!
//! **A lock shrinks when the request is sent, and grows when it is granted.** An owner that gives
//! up a lock, or weakens it, relies on it no longer. Another client may have been granted it, even
//! if the answer to this request is lost with the MDT. Restored locks must never stand in the way
//! of that. A refused request puts back what it took.

use dlm::flock::{FlockTable, FlockTicket, LockOwner};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::session::ClientUuid;
use wire::mds::{FlockSet, MdsOp};
use wire::message::OpReply;

/// See the module.
#[derive(Default)]
pub struct HeldFlocks {
    table: FlockTable,
    /// Grows when an MDT is told of held locks, and when they are lost.
    life: u64,
}

/// Locks that a request under way has taken from its owner, by place in the request.
pub struct Taken {
    life: u64,
    pieces: Vec<(usize, Flock)>,
}

impl HeldFlocks {
    /// The request is about to be sent.
    pub fn sent(&mut self, ops: &[MdsOp]) -> Taken {
        let mut pieces = Vec::new();
        for (place, op) in ops.iter().enumerate() {
            if let MdsOp::FlockSet(FlockSet { fid, lock, .. }) = op {
                pieces.extend(self.weaken(*fid, lock).into_iter().map(|piece| (place, piece)));
            }
        }
        Taken { life: self.life, pieces }
    }

    /// The request was answered.
    pub fn learn(&mut self, ops: &[MdsOp], results: &[Result<OpReply, Errno>], taken: &Taken) {
        for (place, (op, result)) in ops.iter().zip(results).enumerate() {
            let MdsOp::FlockSet(FlockSet { fid, lock, .. }) = op else { continue };
            match result {
                Ok(_) => self.granted(*fid, lock),
                // flock(2) gives up the old lock even if it does not get the new one.
                Err(_) if lock.flavor == FlockFlavor::Bsd && lock.kind != FlockKind::Unlock => {}
                // After a restart the MDT has what it was told, which is less.
                Err(_) if taken.life != self.life => {}
                Err(_) => {
                    let back = taken.pieces.iter().filter(|(at, _)| *at == place);
                    back.for_each(|(_, piece)| self.set(*fid, piece));
                }
            }
        }
    }

    /// Locks of one MDT, which is about to be told of them.
    pub fn restoring(&mut self, mdt: u16) -> Vec<(Fid, Flock)> {
        self.life += 1;
        self.of(mdt)
    }

    /// The session with an MDT is lost, and its locks with it.
    pub fn lose(&mut self, mdt: u16) {
        self.life += 1;
        for (fid, lock) in self.of(mdt) {
            self.set(fid, &Flock { kind: FlockKind::Unlock, ..lock });
        }
    }

    fn of(&self, mdt: u16) -> Vec<(Fid, Flock)> {
        self.table.held().filter(|(fid, _)| fid.mdt() == mdt).collect()
    }

    /// Leaves only the part of an owner's locks that it has both before and after this request;
    /// returns the locks it had.
    fn weaken(&mut self, fid: Fid, asked: &Flock) -> Vec<Flock> {
        let owner =
            LockOwner { client: ClientUuid::default(), flavor: asked.flavor, owner: asked.owner };
        let is_less = |held: &Flock| match (asked.flavor, held.kind, asked.kind) {
            (_, _, FlockKind::Unlock) | (_, FlockKind::Write, FlockKind::Read) => true,
            // flock(2) converts by giving up the old lock first; fcntl(2) keeps it until it has the
            // new one.
            (FlockFlavor::Bsd, held, asked) => held != asked,
            (FlockFlavor::Posix | FlockFlavor::Group, ..) => false,
        };
        let pieces: Vec<Flock> = self.table.owned(fid, owner, asked).filter(is_less).collect();
        let left = if asked.kind == FlockKind::Read { FlockKind::Read } else { FlockKind::Unlock };
        for piece in &pieces {
            self.set(fid, &Flock { kind: left, ..*piece });
        }
        pieces
    }

    fn granted(&mut self, fid: Fid, lock: &Flock) {
        // The MDT has released the lock that is in the way here: only that answer is still under
        // way.
        while lock.kind != FlockKind::Unlock
            && let Some(old) = self.table.test(fid, ClientUuid::default(), lock)
        {
            let (start, end) = (old.start.max(lock.start), old.end.min(lock.end));
            self.set(fid, &Flock { kind: FlockKind::Unlock, start, end, ..old });
        }
        self.set(fid, lock);
    }

    fn set(&mut self, fid: Fid, lock: &Flock) {
        self.table.set(fid, (ClientUuid::default(), lock), false, FlockTicket(0), &mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FlockFlavor::{Bsd, Posix};
    use FlockKind::{Read, Unlock, Write};
    use wire::mds::MdsReply;

    const A: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const DONE: Result<OpReply, Errno> = Ok(OpReply::Mds(MdsReply::Done));

    fn asked(flavor: FlockFlavor, owner: u64, kind: FlockKind, start: u64, end: u64) -> MdsOp {
        let lock = Flock { flavor, kind, owner, pid: 7, start, end };
        MdsOp::FlockSet(FlockSet { fid: A, lock, wait: true })
    }

    fn lock(owner: u64, kind: FlockKind, start: u64, end: u64) -> MdsOp {
        asked(Posix, owner, kind, start, end)
    }

    /// One request and its answer.
    fn ask(held: &mut HeldFlocks, op: MdsOp, answer: Result<OpReply, Errno>) {
        let ops = [op];
        let taken = held.sent(&ops);
        held.learn(&ops, &[answer], &taken);
    }

    fn ranges(held: &HeldFlocks) -> Vec<(u64, FlockKind, u64, u64)> {
        held.of(A.mdt()).into_iter().map(|(_, l)| (l.owner, l.kind, l.start, l.end)).collect()
    }

    #[test]
    fn what_was_granted_is_held_until_it_is_released_or_lost() {
        let mut held = HeldFlocks::default();
        ask(&mut held, lock(1, Write, 0, 99), DONE);
        ask(&mut held, lock(2, Write, 50, 60), Err(Errno::EAGAIN));
        ask(&mut held, lock(1, Unlock, 10, 19), DONE);
        assert_eq!(ranges(&held), [(1, Write, 0, 9), (1, Write, 20, 99)]);
        assert!(held.restoring(A.mdt() + 1).is_empty());
        held.lose(A.mdt());
        assert!(held.restoring(A.mdt()).is_empty());
    }

    #[test]
    fn a_grant_that_overtakes_the_release_before_it_counts() {
        let mut held = HeldFlocks::default();
        ask(&mut held, lock(1, Write, 0, 99), DONE);
        ask(&mut held, lock(2, Read, 50, 60), DONE);
        assert_eq!(ranges(&held), [(1, Write, 0, 49), (1, Write, 61, 99), (2, Read, 50, 60)]);
        ask(&mut held, lock(1, Unlock, 0, 99), DONE);
        assert_eq!(ranges(&held), [(2, Read, 50, 60)]);
    }

    #[test]
    fn a_release_whose_answer_is_lost_is_restored_as_released() {
        for flavor in [Posix, Bsd] {
            let mut held = HeldFlocks::default();
            ask(&mut held, asked(flavor, 1, Write, 0, u64::MAX), DONE);
            let _under_way = held.sent(&[asked(flavor, 1, Unlock, 0, u64::MAX)]);
            assert_eq!(held.restoring(A.mdt()), []);
        }
    }

    #[test]
    fn a_downgrade_whose_answer_is_lost_is_restored_as_shared() {
        let mut held = HeldFlocks::default();
        ask(&mut held, lock(1, Write, 0, 99), DONE);
        let _under_way = held.sent(&[lock(1, Read, 10, 19)]);
        assert_eq!(ranges(&held), [(1, Write, 0, 9), (1, Read, 10, 19), (1, Write, 20, 99)]);
    }

    #[test]
    fn an_upgrade_keeps_the_old_lock_with_fcntl_and_not_with_flock() {
        let mut held = HeldFlocks::default();
        ask(&mut held, lock(1, Read, 0, 9), DONE);
        ask(&mut held, asked(Bsd, 2, Read, 0, u64::MAX), DONE);
        ask(&mut held, lock(1, Write, 0, 9), Err(Errno::EAGAIN));
        ask(&mut held, asked(Bsd, 2, Write, 0, u64::MAX), Err(Errno::EAGAIN));
        assert_eq!(ranges(&held), [(1, Read, 0, 9)]);
    }

    #[test]
    fn what_is_refused_is_put_back_unless_less_was_restored() {
        let mut held = HeldFlocks::default();
        ask(&mut held, lock(1, Write, 10, 19), DONE);
        ask(&mut held, lock(1, Read, 0, 99), Err(Errno::EAGAIN));
        ask(&mut held, lock(1, Unlock, 12, 15), Err(Errno::ENOLCK));
        assert_eq!(ranges(&held), [(1, Write, 10, 19)]);
        let ops = [lock(1, Read, 0, 99)];
        let taken = held.sent(&ops);
        assert_eq!(held.restoring(A.mdt()).len(), 1);
        held.learn(&ops, &[Err(Errno::EAGAIN)], &taken);
        assert_eq!(ranges(&held), [(1, Read, 10, 19)]);
    }
}
