//! Ranges of bytes, and sets of them.

/// Bytes `[start, end)` of a file; `end` [`u64::MAX`]: to the end of all files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Every byte there can be.
    pub const ALL: ByteRange = ByteRange { start: 0, end: u64::MAX };

    /// `[start, end)`.
    pub const fn new(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    /// True if the range has no byte.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// True if the ranges share a byte.
    pub const fn overlaps(self, other: ByteRange) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// True if all bytes of `other` are in this range.
    pub const fn contains(self, other: ByteRange) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Bytes that one of the shared writers of a file may keep to itself, to read or to write
/// (docs/locks/protocol.md, "Shared-write files").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// The bytes.
    pub range: ByteRange,
    /// For writing: no other client has them then.
    pub write: bool,
}

/// Bytes for which a lock is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Needs {
    /// The bytes; not empty.
    pub range: ByteRange,
    /// The client held them as an extent before the server restarted.
    pub again: bool,
}

/// A set of bytes, as few ranges as it takes, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<ByteRange>);

impl Ranges {
    /// True if it has no byte.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The ranges, in order; no two touch.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = ByteRange> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// Of the first range that ends behind this byte.
    fn at(&self, byte: u64) -> usize {
        self.0.partition_point(|range| range.end <= byte)
    }

    /// The ranges that have a byte of this one.
    pub fn overlapping(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let from = if range.is_empty() { self.0.len() } else { self.at(range.start) };
        self.0[from..].iter().copied().take_while(move |held| held.start < range.end)
    }

    /// True if a byte of the range is here.
    pub fn overlaps(&self, range: ByteRange) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// True if all bytes of the range are here.
    pub fn covers(&self, range: ByteRange) -> bool {
        range.is_empty()
            || self.0.get(self.at(range.start)).is_some_and(|held| held.contains(range))
    }

    /// The range that `range` grows to if it takes in all free bytes on both sides: from the last
    /// byte here before it to the first one here after it. Nothing of `range` itself is here.
    pub fn room_around(&self, range: ByteRange) -> ByteRange {
        let at = self.at(range.start);
        let before = at.checked_sub(1).map_or(0, |before| self.0[before].end);
        let behind = self.0.get(at).map_or(u64::MAX, |behind| behind.start);
        ByteRange::new(before, behind)
    }

    /// Takes bytes in.
    pub fn insert(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        // Also those that it touches.
        let from = self.0.partition_point(|held| held.end < range.start);
        let to = from + self.0[from..].partition_point(|held| held.start <= range.end);
        let start =
            self.0[from..to].first().map_or(range.start, |first| first.start.min(range.start));
        let end = self.0[from..to].last().map_or(range.end, |last| last.end.max(range.end));
        self.0.splice(from..to, [ByteRange::new(start, end)]);
    }

    /// Takes bytes out.
    pub fn remove(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let from = self.at(range.start);
        let to = from + self.0[from..].partition_point(|held| held.start < range.end);
        let Some(last) = self.0[from..to].last().copied() else { return };
        let left = ByteRange::new(self.0[from].start, range.start);
        let right = ByteRange::new(range.end, last.end);
        self.0.splice(from..to, [left, right].into_iter().filter(|rest| !rest.is_empty()));
    }
}

impl FromIterator<ByteRange> for Ranges {
    fn from_iter<T: IntoIterator<Item = ByteRange>>(iter: T) -> Ranges {
        let mut ranges = Ranges::default();
        iter.into_iter().for_each(|range| ranges.insert(range));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end)
    }

    #[test]
    fn what_touches_is_one_range() {
        let mut ranges: Ranges = [range(10, 20), range(30, 40)].into_iter().collect();
        ranges.insert(range(20, 30));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [range(10, 40)]);
        ranges.remove(range(15, 16));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [range(10, 15), range(16, 40)]);
        assert!(ranges.covers(range(16, 40)) && !ranges.covers(range(14, 17)));
        assert_eq!(ranges.room_around(range(15, 16)), range(15, 16));
        assert_eq!(ranges.room_around(range(50, 60)), range(40, u64::MAX));
        assert_eq!(ranges.room_around(range(0, 3)), range(0, 10));
    }

    /// Against a set of single bytes, for every sequence of a few steps drawn by a small generator.
    #[test]
    fn it_is_a_set_of_bytes() {
        let mut seed = 1u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..300 {
            let (mut ranges, mut bytes) = (Ranges::default(), BTreeSet::new());
            for _ in 0..12 {
                let (start, len, takes) = (draw(20), draw(8), draw(2) == 0);
                let changed = range(start, start + len);
                if takes {
                    ranges.insert(changed);
                    bytes.extend(start..start + len);
                } else {
                    ranges.remove(changed);
                    bytes.retain(|byte| !(start..start + len).contains(byte));
                }
                let listed: BTreeSet<u64> =
                    ranges.iter().flat_map(|held| held.start..held.end).collect();
                assert_eq!(listed, bytes);
                assert!(ranges.0.windows(2).all(|two| two[0].end < two[1].start));
                let asked = range(draw(20), draw(28));
                let all = |byte| bytes.contains(&byte);
                assert_eq!(
                    ranges.covers(asked),
                    (asked.start..asked.end).all(all),
                    "{ranges:?} {asked:?}"
                );
                assert_eq!(
                    ranges.overlaps(asked),
                    (asked.start..asked.end).any(all),
                    "{ranges:?} {asked:?}"
                );
            }
        }
    }
}
