//! Space that targets granted to this mount. Pure, except for the lock around the table.
//!
//! A write may stay dirty only if its blocks were *reserved* here. Reserved space is spent by the
//! request that stores the write, which asks for as much again. When a target lost this mount's
//! session, its grants went with it: the table is cleared, and an answer that was on its way does
//! not count. An idle grant is given back, after [`IDLE`] unless an administrator sets another
//! time.

use crate::cache::DataTarget;
use env::clock::Monotonic;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;
use types::limits::{GRANT_PER_CLIENT_MAX, GRANT_UNIT};

/// A grant that was not used for this long is given back, unless an administrator sets another
/// time.
pub const IDLE: Duration = Duration::from_secs(10);

/// Grant that a mount wants to hold of an MDT at least: many small files. A promised block may take
/// several in its store.
const WANTED_OF_MDT_MIN: u64 = 16 << 20;

/// Grant that a mount wants to hold of each OST at least, beside reserved bytes: enough for dirty
/// data while requests are on their way over a short line.
const WANTED_MIN: u64 = 64 << 20;

/// Grant that a mount wants to hold of a target whose line carries so many bytes at once: enough
/// for data that is sent, for data that waits behind it, and for answers that come late.
pub(crate) fn wanted(target: DataTarget, in_flight: u64) -> u64 {
    let least = match target {
        DataTarget::Mdt(_) => WANTED_OF_MDT_MIN,
        DataTarget::Ost(_) => WANTED_MIN,
    };
    in_flight.saturating_mul(4).clamp(least, GRANT_PER_CLIENT_MAX)
}

/// Grant of one target.
#[derive(Default)]
struct Grant {
    /// Granted, not reserved.
    free: u64,
    /// Asked for, not answered.
    asked: u64,
    /// Counts sessions with the target.
    session: u64,
    used: Monotonic,
    shrink: Shrink,
}

/// When an unused grant of a target is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrink {
    /// True if it is given back at all.
    pub on: bool,
    /// After this time without use.
    pub after: Duration,
}

impl Default for Shrink {
    fn default() -> Shrink {
        Shrink { on: true, after: IDLE }
    }
}

/// A question on its way to a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantRequest {
    /// How much more is wanted.
    pub want: u64,
    session: u64,
}

/// See the module.
#[derive(Default)]
pub struct Grants {
    /// In order, so that grants that are given back go out in one request.
    targets: Mutex<BTreeMap<DataTarget, Grant>>,
}

impl Grants {
    /// Reserves `blocks` at each of these targets, all or nothing. The error is a target that
    /// granted too little.
    ///
    /// # Errors
    /// The target that has not granted enough.
    pub fn reserve(&self, now: Monotonic, needs: &[(DataTarget, u64)]) -> Result<(), DataTarget> {
        let mut targets = self.targets.lock();
        for (target, blocks) in needs {
            if *blocks > 0
                && targets.get(target).is_none_or(|grant| grant.free < blocks * GRANT_UNIT)
            {
                return Err(*target);
            }
        }
        for (target, blocks) in needs {
            let grant = targets.entry(*target).or_default();
            grant.free -= blocks * GRANT_UNIT;
            grant.used = now;
        }
        Ok(())
    }

    /// Reserved blocks are not needed: nothing will be sent.
    pub(crate) fn unreserve(&self, target: DataTarget, blocks: u64) {
        self.targets.lock().entry(target).or_default().free += blocks * GRANT_UNIT;
    }

    /// The grant to ask for, to hold `wanted` bytes beside reserved ones. Every request must be
    /// ended with [`Grants::answered`].
    pub fn ask(&self, target: DataTarget, wanted: u64) -> GrantRequest {
        let mut targets = self.targets.lock();
        let grant = targets.entry(target).or_default();
        let want = wanted.saturating_sub(grant.free + grant.asked);
        grant.asked += want;
        GrantRequest { want, session: grant.session }
    }

    /// The target granted `more`; 0 also if it did not answer.
    pub fn answered(&self, target: DataTarget, asked: GrantRequest, more: u64) {
        let mut targets = self.targets.lock();
        let grant = targets.entry(target).or_default();
        if grant.session == asked.session {
            grant.asked -= asked.want;
            grant.free += more;
        }
    }

    /// True if a question is on its way to the target.
    pub(crate) fn is_asked(&self, target: DataTarget) -> bool {
        self.targets.lock().get(&target).is_some_and(|grant| grant.asked > 0)
    }

    /// The target lost this mount's session.
    pub fn lost(&self, target: DataTarget) {
        let mut targets = self.targets.lock();
        let grant = targets.entry(target).or_default();
        *grant = Grant {
            session: grant.session + 1,
            used: grant.used,
            shrink: grant.shrink,
            ..Grant::default()
        };
    }

    /// Takes what lies idle, to be given back.
    pub(crate) fn take_idle(&self, now: Monotonic) -> Vec<(DataTarget, u64)> {
        let mut idle = Vec::new();
        for (target, grant) in self.targets.lock().iter_mut() {
            let Shrink { on, after } = grant.shrink;
            if on && grant.free > 0 && grant.asked == 0 && now >= grant.used + after {
                idle.push((*target, std::mem::take(&mut grant.free)));
            }
        }
        idle
    }

    /// When the grant of this target is given back.
    pub fn shrink(&self, target: DataTarget) -> Shrink {
        self.targets.lock().get(&target).map_or_else(Shrink::default, |grant| grant.shrink)
    }

    /// As [`Grants::shrink`].
    pub fn set_shrink(&self, target: DataTarget, shrink: Shrink) {
        self.targets.lock().entry(target).or_default().shrink = shrink;
    }

    /// Granted and not reserved, bytes.
    pub fn free(&self, target: DataTarget) -> u64 {
        self.targets.lock().get(&target).map_or(0, |grant| grant.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::target::TargetIndex;

    const GRANT_WANTED: u64 = WANTED_MIN;

    const A: DataTarget = DataTarget::Ost(TargetIndex(0));
    const B: DataTarget = DataTarget::Mdt(TargetIndex(0));
    const NOW: Monotonic = Duration::from_secs(1);

    #[test]
    fn only_what_was_granted_is_reserved_and_all_or_nothing() {
        let grants = Grants::default();
        assert_eq!(grants.reserve(NOW, &[(A, 1)]), Err(A));
        assert_eq!(
            grants.reserve(NOW, &[(A, 0)]),
            Ok(()),
            "a block that is dirty already needs no more"
        );
        let asked = grants.ask(A, GRANT_WANTED);
        assert_eq!(asked.want, GRANT_WANTED);
        assert_eq!(grants.ask(A, GRANT_WANTED).want, 0, "it is on its way");
        assert!(grants.is_asked(A) && !grants.is_asked(B));
        grants.answered(A, asked, 10 * GRANT_UNIT);
        assert_eq!(grants.reserve(NOW, &[(A, 4), (B, 1)]), Err(B));
        assert_eq!(grants.free(A), 10 * GRANT_UNIT);
        assert_eq!(grants.reserve(NOW, &[(A, 4)]), Ok(()));
        grants.unreserve(A, 1);
        assert_eq!(grants.free(A), 7 * GRANT_UNIT);
        assert_eq!(grants.ask(A, GRANT_WANTED).want, GRANT_WANTED - 7 * GRANT_UNIT);
    }

    #[test]
    fn a_longer_line_wants_more_within_bounds() {
        assert_eq!(
            [0, 1 << 20, 26 << 20, 1 << 40].map(|carries| wanted(A, carries)),
            [64 << 20, 64 << 20, 104 << 20, 256 << 20]
        );
        assert_eq!(
            [0, 1 << 20, 26 << 20, 1 << 40].map(|carries| wanted(B, carries)),
            [16 << 20, 16 << 20, 104 << 20, 256 << 20]
        );
    }

    #[test]
    fn a_grant_ends_with_its_session_and_when_it_lies_idle() {
        let grants = Grants::default();
        let asked = grants.ask(A, GRANT_WANTED);
        grants.lost(A);
        grants.answered(A, asked, GRANT_UNIT);
        assert_eq!(grants.free(A), 0, "the old session granted it");
        let asked = grants.ask(A, GRANT_WANTED);
        grants.answered(A, asked, GRANT_UNIT);
        grants.reserve(NOW, &[(A, 0)]).unwrap();
        assert_eq!(grants.take_idle(NOW + IDLE - Duration::from_nanos(1)), []);
        assert_eq!(grants.take_idle(NOW + IDLE), [(A, GRANT_UNIT)]);
        assert_eq!(grants.free(A), 0);
    }

    #[test]
    fn an_administrator_says_when_a_grant_is_given_back() {
        let grants = Grants::default();
        let grant = || {
            let asked = grants.ask(A, GRANT_WANTED);
            grants.answered(A, asked, GRANT_UNIT);
            grants.reserve(NOW, &[(A, 0)]).unwrap();
        };
        grant();
        grants.set_shrink(A, Shrink { on: false, after: IDLE });
        assert_eq!(grants.take_idle(NOW + 100 * IDLE), []);
        let after = Duration::from_secs(1);
        grants.set_shrink(A, Shrink { on: true, after });
        assert_eq!(grants.take_idle(NOW + after), [(A, GRANT_UNIT)]);
        grants.lost(A);
        assert_eq!(
            (grants.shrink(A).after, grants.shrink(B)),
            (after, Shrink::default()),
            "it outlives a session"
        );
    }
}
