//! Ranges of names of a directory, in byte order.

use crate::name::NAME_BYTES_MAX;

/// Longest end of a range, bytes: the position right after the longest name.
pub const BOUND_BYTES_MAX: usize = NAME_BYTES_MAX + 1;

/// Names from `start` on and below `end`; an empty `end`: to the last one. Both are bytes, not
/// always names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameRange {
    start: Box<[u8]>,
    end: Box<[u8]>,
}

impl NameRange {
    /// `None`: there is nothing in it, or a bound is longer than [`BOUND_BYTES_MAX`].
    pub fn new(start: &[u8], end: &[u8]) -> Option<NameRange> {
        let fits = start.len() <= BOUND_BYTES_MAX && end.len() <= BOUND_BYTES_MAX;
        (fits && (end.is_empty() || start < end))
            .then(|| NameRange { start: start.into(), end: end.into() })
    }

    /// This name and all names after it that share its first `depth` bytes. A name that is shorter
    /// is alone in its range.
    pub fn at(name: &[u8], depth: usize) -> NameRange {
        let end = match name.get(..depth) {
            Some(prefix) => behind_all(prefix),
            None => behind(name),
        };
        NameRange { start: name.into(), end }
    }

    /// First name of the range, as bytes.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Behind its last one; empty: nothing is.
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// True if the range contains the name.
    pub fn contains(&self, name: &[u8]) -> bool {
        *self.start <= *name && (self.end.is_empty() || *name < *self.end)
    }

    /// True if the range includes all of `other`.
    pub fn includes(&self, other: &NameRange) -> bool {
        let ends = self.end.is_empty() || !other.end.is_empty() && other.end <= self.end;
        self.start <= other.start && ends
    }

    /// The part before a name. `None`: there is none.
    pub fn below(self, name: &[u8]) -> Option<NameRange> {
        match self.contains(name) {
            true => NameRange::new(&self.start, name),
            false => Some(self),
        }
    }

    /// The part after `name` if the range contains it, else the whole range. `None` if nothing is
    /// left.
    pub fn behind(self, name: &[u8]) -> Option<NameRange> {
        match self.contains(name) {
            true => NameRange::new(&behind(name), &self.end),
            false => Some(self),
        }
    }
}

/// The first byte string after a name.
fn behind(name: &[u8]) -> Box<[u8]> {
    [name, &[0]].concat().into()
}

/// The first byte string after all names that begin so; empty: there is none.
fn behind_all(prefix: &[u8]) -> Box<[u8]> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    let mut end: Box<[u8]> = prefix[..kept].into();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// A few ranges, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameRanges(Vec<NameRange>);

impl NameRanges {
    /// True if one of the ranges contains the name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.around(name).is_some()
    }

    /// A range that contains the name.
    pub fn around(&self, name: &[u8]) -> Option<&NameRange> {
        self.0.iter().find(|range| range.contains(name))
    }

    /// Adds a range. Drops older ranges that are part of it whatever name is cut, which are those
    /// with the same end. An older range with a smaller end stays: it may be needed when the new
    /// one is cut at a later name.
    pub fn add(&mut self, range: NameRange) {
        self.0.retain(|older| !(range.includes(older) && range.end == older.end));
        self.0.push(range);
    }

    /// The name is created: only the part after it stays of each range that contains it.
    pub fn cut(&mut self, name: &[u8]) {
        if self.contains(name) {
            self.0 = std::mem::take(&mut self.0)
                .into_iter()
                .filter_map(|range| range.behind(name))
                .collect();
        }
    }

    /// The oldest one goes.
    pub fn drop_oldest(&mut self) {
        if !self.0.is_empty() {
            self.0.remove(0);
        }
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no range.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str) -> NameRange {
        NameRange::new(start.as_bytes(), end.as_bytes()).unwrap()
    }

    #[test]
    fn a_range_has_what_lies_between() {
        let some = range("b", "d");
        assert!(some.contains(b"b") && some.contains(b"c") && some.contains(b"bzz"));
        assert!(!some.contains(b"a") && !some.contains(b"d") && !some.contains(b"da"));
        assert!(range("b", "").contains(b"\xff\xff") && !range("b", "").contains(b"a"));
        assert_eq!((NameRange::new(b"b", b"b"), NameRange::new(b"c", b"b")), (None, None));
        assert_eq!(NameRange::new(&[b'x'; BOUND_BYTES_MAX + 1], b""), None);
        assert!(
            range("b", "").includes(&some)
                && !some.includes(&range("b", ""))
                && some.includes(&range("c", "d"))
        );
    }

    #[test]
    fn a_depth_bounds_a_range_to_names_that_begin_alike() {
        let at = |name: &[u8], depth| NameRange::at(name, depth).end().to_vec();
        assert_eq!(NameRange::at(b"c1-7", 0), range("c1-7", ""));
        assert_eq!(NameRange::at(b"c1-7", 2), range("c1-7", "c2"));
        assert!(
            NameRange::at(b"c1-7", 4).contains(b"c1-7x")
                && !NameRange::at(b"c1-7", 4).contains(b"c1-8")
        );
        assert_eq!(at(b"c1", 3), b"c1\0", "what has the name in front is another one");
        assert_eq!((at(b"a\xff\xff", 3), at(b"\xff\xff", 1)), (b"b".to_vec(), Vec::new()));
    }

    #[test]
    fn a_name_that_comes_leaves_what_is_behind_it() {
        let mut some = NameRanges::default();
        some.add(range("b", "d"));
        some.add(range("m", "p"));
        some.cut(b"bb");
        assert!(
            !some.contains(b"b")
                && !some.contains(b"bb")
                && some.contains(b"bba")
                && some.contains(b"m")
        );
        some.cut(b"z");
        some.add(range("a", "d"));
        assert_eq!(some.len(), 2, "one was a part of the new one");
        some.drop_oldest();
        assert_eq!(some, NameRanges(vec![range("a", "d")]));
        some.add(range("a", "f"));
        some.cut(b"d");
        assert_eq!(some, NameRanges(vec![range("a", "d"), NameRange::new(b"d\0", b"f").unwrap()]));
        some.drop_oldest();
        some.cut(b"e");
        assert_eq!(some, NameRanges(vec![NameRange::new(b"e\0", b"f").unwrap()]));
        assert_eq!(range("b", "d").below(b"c"), Some(range("b", "c")));
        assert_eq!(
            (range("b", "d").below(b"b"), range("b", "d").below(b"x")),
            (None, Some(range("b", "d")))
        );
        assert_eq!(NameRange::at(b"b", 9).behind(b"b"), None);
    }
}
