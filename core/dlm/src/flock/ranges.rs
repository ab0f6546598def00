//! How one lock request changes the ranges that its owner holds already.
//!
//! POSIX: a new lock replaces the owner's old locks where they overlap (upgrade, downgrade,
//! release), which may cut an old lock in two. Adjacent locks of one kind become one.

use std::collections::BTreeMap;
use types::lock::FlockKind;

/// One granted range of one owner. Ranges of an owner never overlap, and two of one kind never
/// touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    /// Shared or exclusive; never `Unlock`.
    pub kind: FlockKind,
    /// Process that asked, for F_GETLK.
    pub pid: u32,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive.
    pub end: u64,
}

impl Held {
    /// True if the two share a byte.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start <= end && start <= self.end
    }
}

/// The granted ranges of one owner at one inode, by first byte.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, Held>);

impl Ranges {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Ranges that share a byte with `[start, end]`.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Held> {
        self.near(start, end).filter(move |h| h.overlaps(start, end))
    }

    /// Ranges that overlap `[start, end]` or end or begin right beside it.
    pub fn touching(&self, start: u64, end: u64) -> impl Iterator<Item = &Held> {
        let (start, end) = (start.saturating_sub(1), end.saturating_add(1));
        self.near(start, end).filter(move |h| h.overlaps(start, end))
    }

    /// A superset of [`Ranges::overlapping`], with at most one range too many. Ranges are disjoint,
    /// so only the last one that begins before `start` can reach beyond it.
    fn near(&self, start: u64, end: u64) -> impl Iterator<Item = &Held> {
        let from = self.0.range(..start).next_back().map_or(start, |(first, _)| *first);
        self.0.range(from..=end).map(|(_, held)| held)
    }

    /// Carries out a change.
    pub fn apply(&mut self, change: &RangeChange) {
        for start in &change.removed {
            self.0.remove(start);
        }
        self.0.extend(change.added.iter().map(|held| (held.start, *held)));
    }
}

/// The ranges to remove and to add.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RangeChange {
    /// Starts of the ranges that go.
    pub removed: Vec<u64>,
    /// Ranges that come.
    pub added: Vec<Held>,
    /// Requests of other owners may succeed now.
    pub freed: bool,
}

/// The change that `wanted` (kind `Unlock`: release) makes to `own`, the owner's ranges that
/// overlap or touch it.
pub(super) fn replace(own: impl Iterator<Item = Held>, mut wanted: Held) -> RangeChange {
    let mut change = RangeChange::default();
    let (start, end) = (wanted.start, wanted.end);
    for held in own {
        if held.kind == wanted.kind {
            // Overlapping or touching: one range from now on.
            change.removed.push(held.start);
            wanted.start = wanted.start.min(held.start);
            wanted.end = wanted.end.max(held.end);
        } else if held.overlaps(start, end) {
            change.removed.push(held.start);
            change.freed |= held.kind == FlockKind::Write || wanted.kind == FlockKind::Unlock;
            if held.start < start {
                change.added.push(Held { end: start - 1, ..held });
            }
            if held.end > end {
                change.added.push(Held { start: end + 1, ..held });
            }
        }
    }
    if wanted.kind != FlockKind::Unlock {
        change.added.push(wanted);
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use FlockKind::{Read, Unlock, Write};

    fn held(kind: FlockKind, start: u64, end: u64) -> Held {
        Held { kind, pid: 1, start, end }
    }

    #[test]
    fn a_release_in_the_middle_cuts_in_two() {
        let change = replace([held(Write, 0, 9)].into_iter(), held(Unlock, 3, 5));
        let added = vec![held(Write, 0, 2), held(Write, 6, 9)];
        assert_eq!(change, RangeChange { removed: vec![0], added, freed: true });
    }

    #[test]
    fn touching_ranges_of_one_kind_merge_and_others_stay() {
        let change = replace([held(Read, 0, 2), held(Write, 6, 9)].into_iter(), held(Read, 3, 5));
        assert_eq!(
            change,
            RangeChange { removed: vec![0], added: vec![held(Read, 0, 5)], freed: false }
        );
    }

    #[test]
    fn an_upgrade_frees_nothing_and_a_downgrade_does() {
        assert!(!replace([held(Read, 0, 9)].into_iter(), held(Write, 0, 9)).freed);
        assert!(replace([held(Write, 0, 9)].into_iter(), held(Read, 0, 9)).freed);
    }

    #[test]
    fn the_last_byte_of_all_does_not_overflow() {
        let change = replace([held(Read, 5, u64::MAX)].into_iter(), held(Write, 7, u64::MAX));
        assert_eq!(change.added, [held(Read, 5, 6), held(Write, 7, u64::MAX)]);
    }
}
