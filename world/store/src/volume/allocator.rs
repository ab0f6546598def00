//! The map of free units: a bit for each in memory (64 TiB: 128 MiB), and a count for each 4,096.
//!
//! Next fit: a search begins behind what was given last, so that what is written one after the
//! other lies together.

use std::ops::Range;

/// Units of a group that is passed over at once if none is free.
const GROUP: u32 = 4096;
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
        (extent.start..extent.start + extent.len).for_each(|unit| self.release(unit));
    }

    /// Takes the next run of up to `want` units; `None`: none is free.
    pub(super) fn allocate(&mut self, want: u32) -> Option<Extent> {
        if self.free == 0 || want == 0 {
            return None;
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
