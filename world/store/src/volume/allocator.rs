//! The map of free units: a bit for each in memory (64 TiB: 128 MiB), and a count for each 4,096.
//!
//! What was given back last is given first, if the run is long enough: the kernel still has its
//! pages, and a thin device its space. Otherwise next fit: a search begins behind what was given
//! last, so that what is written one after the other lies together.

use std::ops::Range;

/// Units of a group that is passed over at once if none is free.
const GROUP: u32 = 4096;
/// Runs that were given back last, as far as they are noted.
const RECENT_MAX: usize = 64;
/// A run of so many units is long enough for whatever is asked: 1 MiB.
const RECENT_UNITS: u32 = 16;
/// Units of a word.
const WORD: u32 = u64::BITS;

/// A run of units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// See the module.
pub(super) struct Allocator {
    /// Set: taken.
    words: Vec<u64>,
    /// Free units of each group.
    groups: Vec<u16>,
    units: u32,
    free: u64,
    next: u32,
    /// Runs that were given back, the newest last. Of some, units may be taken again.
    recent: Vec<Extent>,
}

impl Allocator {
    /// All units of the range are free, those before it are never given.
    pub(super) fn new(units: Range<u32>) -> Allocator {
        let groups = units.end.div_ceil(GROUP);
        let mut allocator = Allocator {
            words: vec![u64::MAX; (groups * (GROUP / WORD)) as usize],
            groups: vec![0; groups as usize],
            units: units.end,
            free: 0,
            next: units.start,
            recent: Vec::new(),
        };
        units.for_each(|unit| allocator.release(unit));
        allocator
    }

    /// Free units.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Units up to which it reaches.
    pub(super) fn units(&self) -> u32 {
        self.units
    }

    fn is_taken(&self, unit: u32) -> bool {
        self.words[(unit / WORD) as usize] & 1 << (unit % WORD) != 0
    }

    /// Takes one certain unit; `false`: it is taken, or there is none.
    #[must_use]
    pub(super) fn take(&mut self, unit: u32) -> bool {
        if unit >= self.units || self.is_taken(unit) {
            return false;
        }
        self.words[(unit / WORD) as usize] |= 1 << (unit % WORD);
        self.groups[(unit / GROUP) as usize] -= 1;
        self.free -= 1;
        true
    }

    /// Gives one back.
    fn release(&mut self, unit: u32) {
        debug_assert!(unit < self.units && self.is_taken(unit), "unit {unit} was not taken");
        self.words[(unit / WORD) as usize] &= !(1 << (unit % WORD));
        self.groups[(unit / GROUP) as usize] += 1;
        self.free += 1;
    }

    /// Gives some back.
    pub(super) fn release_all(&mut self, extent: Extent) {
        let Extent { start, len } = extent;
        (start..start + len).for_each(|unit| self.release(unit));
        match self.recent.last_mut() {
            Some(last) if last.start + last.len == start => last.len += len,
            Some(last) if start + len == last.start => {
                (last.start, last.len) = (start, last.len + len)
            }
            _ => {
                if self.recent.len() == RECENT_MAX {
                    self.recent.remove(0);
                }
                self.recent.push(extent);
            }
        }
    }

    /// Takes up to `want` units of a run that was given back, if one is long enough.
    fn reuse(&mut self, want: u32) -> Option<Extent> {
        for at in (0..self.recent.len()).rev() {
            let run = self.recent[at];
            if run.len < want.min(RECENT_UNITS) {
                continue;
            }
            let mut len = 0;
            while len < want.min(run.len) && self.take(run.start + len) {
                len += 1;
            }
            if len == 0 || len == run.len {
                // Its first unit was taken meanwhile, or all are now.
                self.recent.remove(at);
            } else {
                self.recent[at] = Extent { start: run.start + len, len: run.len - len };
            }
            if len > 0 {
                return Some(Extent { start: run.start, len });
            }
        }
        None
    }

    /// Takes the next run of up to `want` units; `None`: none is free.
    pub(super) fn allocate(&mut self, want: u32) -> Option<Extent> {
        if self.free == 0 || want == 0 {
            return None;
        }
        if let Some(extent) = self.reuse(want) {
            return Some(extent);
        }
        let start = self.find(self.next..self.units).or_else(|| self.find(0..self.next))?;
        let mut len = 0;
        while len < want && self.take(start + len) {
            len += 1;
        }
        self.next = start + len;
        Some(Extent { start, len })
    }

    fn find(&self, range: Range<u32>) -> Option<u32> {
        let mut unit = range.start;
        while unit < range.end {
            if self.groups[(unit / GROUP) as usize] == 0 {
                unit = (unit / GROUP + 1) * GROUP;
                continue;
            }
            let free = !self.words[(unit / WORD) as usize] >> (unit % WORD);
            if free != 0 {
                let found = unit + free.trailing_zeros();
                return (found < range.end).then_some(found);
            }
            unit = (unit / WORD + 1) * WORD;
        }
        None
    }
}

/// Adds a unit to extents, to the last one if it follows.
pub(super) fn push(extents: &mut Vec<Extent>, unit: u32) {
    match extents.last_mut() {
        Some(last) if last.start + last.len == unit => last.len += 1,
        _ => extents.push(Extent { start: unit, len: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn runs_lie_together_and_the_end_is_found() {
        let mut allocator = Allocator::new(16..5000);
        assert_eq!(allocator.free(), 4984);
        assert_eq!(allocator.allocate(100), Some(Extent { start: 16, len: 100 }));
        assert_eq!(allocator.allocate(5), Some(Extent { start: 116, len: 5 }));
        assert!(!allocator.take(20) && !allocator.take(5000) && !allocator.take(15));
        allocator.release_all(Extent { start: 20, len: 2 });
        assert_eq!(allocator.allocate(5000), Some(Extent { start: 121, len: 4879 }));
        assert_eq!(allocator.allocate(9), Some(Extent { start: 20, len: 2 }));
        assert_eq!((allocator.allocate(1), allocator.free()), (None, 0));
    }

    #[test]
    fn what_was_given_back_is_given_first_where_it_is_long_enough() {
        let mut allocator = Allocator::new(0..5000);
        assert_eq!(allocator.allocate(1000), Some(Extent { start: 0, len: 1000 }));
        for (start, len) in [(100, 40), (500, 3), (503, 2), (700, 1)] {
            allocator.release_all(Extent { start, len });
        }
        assert_eq!(allocator.allocate(1), Some(Extent { start: 700, len: 1 }));
        assert_eq!(allocator.allocate(2), Some(Extent { start: 500, len: 2 }));
        assert_eq!(allocator.allocate(30), Some(Extent { start: 100, len: 30 }));
        assert_eq!(
            allocator.allocate(30),
            Some(Extent { start: 1000, len: 30 }),
            "ten are too few"
        );
        // One that was taken otherwise is passed over.
        assert!(allocator.take(502) && allocator.take(130));
        assert_eq!(allocator.allocate(1), Some(Extent { start: 1030, len: 1 }));
        assert_eq!(allocator.recent, []);
        // No more than some are noted.
        (0..200).map(|n| 2 * n).filter(|n| !(100..140).contains(n)).for_each(|start| {
            allocator.release_all(Extent { start, len: 1 });
        });
        assert_eq!(allocator.recent.len(), RECENT_MAX);
    }

    proptest! {
        #[test]
        fn every_unit_is_given_once(
            units in 17u32..9000,
            steps in proptest::collection::vec((any::<bool>(), 1u32..700), 1..60),
        ) {
            let mut allocator = Allocator::new(16..units);
            let mut given = BTreeSet::new();
            for (gives, n) in steps {
                if gives {
                    if let Some(Extent { start, len }) = allocator.allocate(n) {
                        prop_assert!(len > 0 && len <= n);
                        for unit in start..start + len {
                            prop_assert!((16..units).contains(&unit) && given.insert(unit));
                        }
                    } else {
                        prop_assert_eq!(given.len() as u32, units - 16);
                    }
                } else {
                    let back: Vec<u32> = given.iter().copied().step_by(3).take(n as usize).collect();
                    let mut extents = Vec::new();
                    for unit in back {
                        given.remove(&unit);
                        push(&mut extents, unit);
                    }
                    extents.into_iter().for_each(|extent| allocator.release_all(extent));
                }
                prop_assert_eq!(allocator.free(), u64::from(units - 16) - given.len() as u64);
            }
        }
    }
}
