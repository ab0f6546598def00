//! Files that another client writes, and that it let go of so that programs here can look at them.
//!
//! `ls -l` looks at one file after the other, and the attributes of a file that is being written
//! are true for as long as its writer waits. So they are asked for together, for files that a
//! program is about to look at, and their writer gives WRITE back. With its next write it calls
//! back what came. Then two things happen:
//!
//! - The program has twice as long to look at what came as the answer took, and [`GRACE_MAX`] at
//!   most, before that callback is answered: far away much, near next to nothing, because there the
//!   writer would lose more than the program wins.
//! - All other files that came with it are given back as well. A writer of many files waits once,
//!   not once for each of them.
//!
//! Pure: the time is given.

use env::clock::Monotonic;
use foldhash::HashSet;
use std::collections::VecDeque;
use std::time::Duration;
use types::fid::Fid;

/// Longest time from the arrival of attributes in which a program can look at them.
const GRACE_MAX: Duration = Duration::from_millis(100);
/// Files that are remembered; beyond it the oldest are forgotten, and their writers wait for each.
const FILES_MAX: usize = 65_536;

/// See the module.
#[derive(Default)]
pub(crate) struct Paused {
    /// Files that came in one reply, and until when programs can look; the oldest first.
    windows: VecDeque<(Monotonic, HashSet<Fid>)>,
    files: usize,
    due: Vec<Fid>,
}

impl Paused {
    /// Attributes of these files came under locks, and no client writes them any more. `asked`:
    /// when they were asked for.
    pub(crate) fn came(
        &mut self,
        fids: impl Iterator<Item = Fid>,
        (asked, now): (Monotonic, Monotonic),
    ) {
        let window: HashSet<Fid> = fids.take(FILES_MAX).collect();
        if window.is_empty() {
            return;
        }
        self.files += window.len();
        let until = now + (2 * now.saturating_sub(asked)).min(GRACE_MAX);
        self.windows.push_back((until, window));
        while self.files > FILES_MAX {
            let oldest = self.windows.pop_front();
            self.files -= oldest.map_or(0, |(_, window)| window.len());
        }
    }

    /// True if no file is remembered, as nearly always: no callback is asked about then.
    pub(crate) fn is_idle(&self) -> bool {
        self.windows.is_empty()
    }

    /// These are called back: when that should be answered at the earliest. `None`: at once.
    pub(crate) fn answers_at(&self, fids: &[Fid]) -> Option<Monotonic> {
        let met =
            |(_, window): &&(Monotonic, HashSet<Fid>)| fids.iter().any(|fid| window.contains(fid));
        self.windows.iter().filter(met).map(|(until, _)| *until).max()
    }

    /// These are called back, and it is time to answer. True if others are due now.
    pub(crate) fn called_back(&mut self, fids: &[Fid]) -> bool {
        let due = self.due.len();
        for (_, window) in &mut self.windows {
            let before = window.len();
            fids.iter().for_each(|fid| _ = window.remove(fid));
            if window.len() < before {
                self.files -= before;
                self.due.extend(window.drain());
            }
        }
        self.windows.retain(|(_, window)| !window.is_empty());
        self.due.len() > due
    }

    /// Files to give back, so many at most.
    pub(crate) fn take_due(&mut self, most: usize) -> Vec<Fid> {
        self.due.split_off(self.due.len().saturating_sub(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fid(oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
    }

    fn at(ms: u64) -> Monotonic {
        Monotonic::default() + Duration::from_millis(ms)
    }

    fn sorted(mut fids: Vec<Fid>) -> Vec<Fid> {
        fids.sort_unstable();
        fids
    }

    #[test]
    fn a_callback_waits_a_moment_and_brings_the_others_back() {
        let mut paused = Paused::default();
        assert!(paused.is_idle());
        paused.came((0..10).map(fid), (at(0), at(1000)));
        paused.came((10..20).map(fid), (at(1998), at(2000)));
        assert_eq!(paused.answers_at(&[fid(99)]), None);
        assert!(!paused.called_back(&[fid(99)]) && paused.take_due(9).is_empty());
        assert_eq!(paused.answers_at(&[fid(99), fid(3)]), Some(at(1100)), "far away");
        assert!(paused.called_back(&[fid(99), fid(3)]));
        let due = [paused.take_due(4), paused.take_due(9)];
        assert_eq!(due.each_ref().map(Vec::len), [4, 5], "no more than are asked for");
        assert_eq!(sorted(due.concat()), [0, 1, 2, 4, 5, 6, 7, 8, 9].map(fid));
        assert_eq!(paused.answers_at(&[fid(4)]), None, "they are on their way back");
        assert_eq!(paused.answers_at(&[fid(12)]), Some(at(2004)), "near");
        assert!(!paused.called_back(&(10..20).map(fid).collect::<Vec<_>>()), "no others");
        assert_eq!((paused.files, paused.is_idle()), (0, true));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut paused = Paused::default();
        for n in 0..100 {
            let now = at(u64::from(n));
            paused.came((n * 1000..n * 1000 + 1000).map(fid), (now, now));
            assert!(paused.files <= FILES_MAX);
        }
        assert_eq!(paused.answers_at(&[fid(0)]), None);
        assert!(paused.answers_at(&[fid(99_999)]).is_some());
    }
}
