//! Lock safety: what programs believe to hold at the same time must be compatible.
//!
//! A program counts as holding a lock from the answer to its request until it asks for the release.
//! A program whose mount was cut off from the servers or killed does not count from then on: its
//! lease may have ended.

use crate::history::{Ino, Moment};
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
struct Held {
    program: usize,
    machine: usize,
    ino: Ino,
    exclusive: bool,
    since: Moment,
    until: Moment,
}

/// All locks of a run.
#[derive(Clone, Default)]
pub struct LocksSeen(Arc<Mutex<Vec<Held>>>);

impl LocksSeen {
    /// A lock was granted; a number to release it with.
    pub fn granted(
        &self,
        program: usize,
        machine: usize,
        ino: Ino,
        exclusive: bool,
        since: Moment,
    ) -> usize {
        let mut held = self.0.lock();
        held.push(Held { program, machine, ino, exclusive, since, until: Moment::MAX });
        held.len() - 1
    }

    /// Its release is asked for.
    pub fn released(&self, number: usize, at: Moment) {
        let held = &mut self.0.lock()[number];
        held.until = held.until.min(at);
    }

    /// A machine lost contact: what is held there does not count from now on.
    pub fn lost_contact(&self, machine: usize, at: Moment) {
        for held in
            self.0.lock().iter_mut().filter(|held| held.machine == machine && held.since <= at)
        {
            held.until = held.until.min(at);
        }
    }

    /// A machine was cut off for good some time after this moment: what it was granted meanwhile
    /// does not count.
    pub fn cut_off(&self, machine: usize, after: Moment) {
        for held in
            self.0.lock().iter_mut().filter(|held| held.machine == machine && held.since > after)
        {
            held.until = held.since;
        }
    }

    /// Locks that were granted.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Every pair that must not be.
    pub fn check(&self) -> Vec<String> {
        let mut held = self.0.lock().clone();
        held.retain(|held| held.since < held.until);
        let mut found = Vec::new();
        for (number, a) in held.iter().enumerate() {
            for b in &held[number + 1..] {
                let overlap = a.since < b.until && b.since < a.until;
                if a.ino == b.ino
                    && a.program != b.program
                    && (a.exclusive || b.exclusive)
                    && overlap
                {
                    found.push(format!("two programs hold one lock: {a:?} and {b:?}"));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_lock_excludes_and_shared_ones_do_not() {
        let seen = LocksSeen::default();
        let first = seen.granted(0, 0, 7, true, 1);
        seen.released(first, 5);
        let shared = seen.granted(1, 1, 7, false, 6);
        seen.granted(2, 0, 7, false, 7);
        seen.granted(3, 0, 8, true, 7);
        assert_eq!(seen.check(), Vec::<String>::new());
        seen.released(shared, 20);
        seen.granted(3, 0, 7, true, 10);
        assert_eq!(seen.check().len(), 2);
        // The holder at machine 1 was cut off at 9, the other one at machine 0 was not.
        seen.lost_contact(1, 9);
        assert_eq!(seen.check().len(), 1);
        // Machine 0, where the holder since 10 is, was cut off for good some time after 9.
        seen.cut_off(0, 9);
        assert_eq!(seen.check(), Vec::<String>::new());
        seen.granted(4, 0, 7, true, 15);
        assert_eq!(seen.check().len(), 1, "what it is granted once it is back counts");
    }
}
