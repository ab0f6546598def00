//! How open files are read: onwards, backwards, in steps, or anyhow. Pure.
//!
//! Each open file (handle) is followed by itself. It has up to [`STREAMS_MAX`] places at which it
//! is being read, because several threads may share it. A read that continues a place makes it
//! longer. One that continues none is a *jump*, and begins a new place. A place counts as read in
//! sequence after two reads if the file was read from its beginning and nothing else; after three
//! if there was one jump (a header, say); else after four. So a random read, which continues
//! another one by chance, begins nothing: with 64 places to read from, four in a row come once in
//! 4,096 reads or less.
//!
//! Steps: three jumps over the same distance, between pieces of the same length.

use crate::read_ahead::pieces::Pieces;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use types::ranges::ByteRange;

/// Places of one open file that are followed.
const STREAMS_MAX: usize = 6;
/// Those of them that are not known to be read in sequence.
const UNPROVEN_MAX: usize = 2;
/// Open files of one inode that are followed; beyond it the one that read longest ago is not.
const HANDLES_MAX: usize = 64;
/// A large read, or one of a place that is read in sequence, continues it also so many bytes behind
/// its end: the kernel sends the parts of a large read at once, and they come in any order.
const SLACK: u64 = 4 << 20;
/// Bytes of a large read.
const LARGE: u64 = 256 << 10;
/// Equal steps before pieces are fetched.
const STEPS_MIN: u32 = 3;
/// Pieces of a file that is read in steps that are fetched at first, and at most.
const STEPS_AHEAD: [u64; 2] = [4, 64];
/// While a mount is careful, so much of what was read in sequence is fetched.
const CAREFUL: u64 = 8;
/// While a mount is careful, requests of this size are sent, bytes.
const CAREFUL_UNIT: u64 = 64 << 10;

/// What may be fetched ahead of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Where the file ends, bytes.
    pub size: u64,
    /// Bytes that may lie ahead of the reader.
    pub reach: u64,
    /// A file of up to so many bytes is fetched to its end.
    pub whole: u64,
    /// Requests end at multiples of this many bytes.
    pub unit: u64,
    /// Too much was fetched in vain: only a share of what was read in sequence is fetched.
    pub careful: bool,
}

/// Ranges to fetch, the nearest first.
pub(crate) type Wanted = SmallVec<[ByteRange; 4]>;

/// How an open file is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// Nothing can be foreseen.
    Anyhow,
    /// It goes on at `at`, after so many bytes in sequence.
    Onwards { at: u64, bytes: u64 },
    /// What ends at `at` comes next.
    Backwards { at: u64, bytes: u64 },
    /// In pieces of `len` bytes, `step` apart; the present one begins at `start`, and is read up to
    /// `at`.
    Steps { start: u64, at: u64, len: u64, step: i64, equal: u32 },
    /// A small file that others like it make probable to be read to its end.
    Begun { at: u64 },
}

/// Whether a read is the first one of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begins {
    /// It is not.
    Not,
    /// It is, and begins where the file does.
    AtStart,
    /// It is, and begins elsewhere: the file is not read from its beginning to its end.
    Elsewhere,
}

/// A place at which an open file is read.
#[derive(Clone, Copy, Debug)]
struct Place {
    lo: u64,
    hi: u64,
    /// Reads that continued it, onwards or backwards; the first one included.
    onwards: u32,
    backwards: u32,
    bytes: u64,
    proven: bool,
    last_use: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Steps {
    len: u64,
    step: i64,
    equal: u32,
}

#[derive(Default, Debug)]
struct Reader {
    jumps: u32,
    from_start: bool,
    /// Size of the file at the first read, and the end of that read.
    first: Option<(u64, u64)>,
    places: SmallVec<[Place; STREAMS_MAX]>,
    steps: Steps,
    last_use: u64,
}

/// See the module.
#[derive(Default, Debug)]
pub(crate) struct Readers {
    by_handle: BTreeMap<u64, Reader>,
    uses: u64,
}

/// Bytes of a range that is not empty.
fn len_of(range: ByteRange) -> u64 {
    range.end - range.start
}

impl Readers {
    /// A read of `range`, which is not empty, of a file of `size` bytes. `habit`: small files are
    /// read to their ends, as a rule. `eager`: any read begins a sequence at the start of the file.
    pub(crate) fn read(
        &mut self,
        handle: u64,
        range: ByteRange,
        size: u64,
        (habit, eager): (bool, bool),
    ) -> (Course, Begins) {
        self.uses += 1;
        if !self.by_handle.contains_key(&handle) && self.by_handle.len() >= HANDLES_MAX {
            let oldest = self.by_handle.iter().min_by_key(|(_, reader)| reader.last_use);
            if let Some(oldest) = oldest.map(|(handle, _)| *handle) {
                self.by_handle.remove(&oldest);
            }
        }
        let reader = self.by_handle.entry(handle).or_default();
        reader.last_use = self.uses;
        let first = reader.first.is_none();
        if first {
            reader.first = Some((size, range.end));
            reader.from_start = range.start == 0;
        }
        let course = match reader.read(range, self.uses) {
            _ if eager => Course::Onwards { at: 0, bytes: size },
            Course::Anyhow if first && habit && range.start == 0 => Course::Begun { at: range.end },
            course => course,
        };
        let begins = match (first, range.start) {
            (false, _) => Begins::Not,
            (true, 0) => Begins::AtStart,
            (true, _) => Begins::Elsewhere,
        };
        (course, begins)
    }

    /// An open file is closed. Whether it was read from its beginning to its end; `None`: that
    /// shows nothing.
    pub(crate) fn closed(&mut self, handle: u64) -> Option<bool> {
        let reader = self.by_handle.remove(&handle)?;
        let (size, first_end) = reader.first.filter(|_| reader.from_start)?;
        let read_to = reader.places.iter().map(|place| place.hi).max().unwrap_or(0);
        (first_end < size).then_some(reader.jumps == 0 && read_to >= size)
    }

    /// True if no open file is followed.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_handle.is_empty()
    }
}

impl Reader {
    fn read(&mut self, range: ByteRange, now: u64) -> Course {
        let needed = match self.jumps {
            0 if self.from_start => 2,
            0 | 1 => 3,
            _ => 4,
        };
        let continued = self.places.iter_mut().find_map(|place| {
            let at = place.follow(range)?;
            place.proven |= place.onwards.max(place.backwards) >= needed;
            place.last_use = now;
            Some((at, *place))
        });
        let Some((course, place)) = continued else { return self.jump(range, now) };
        let Steps { len, step, equal } = self.steps;
        if equal >= STEPS_MIN && place.hi - place.lo <= len {
            // Within a piece: the next one is elsewhere.
            return Course::Steps { start: place.lo, at: place.hi, len, step, equal };
        }
        if place.proven { course } else { Course::Anyhow }
    }

    fn jump(&mut self, range: ByteRange, now: u64) -> Course {
        let before = self.places.iter().max_by_key(|place| place.last_use).copied();
        if let Some(before) = before {
            self.jumps = self.jumps.saturating_add(1);
            let (len, step) = (before.hi - before.lo, range.start as i64 - before.lo as i64);
            let equal = if (len, step) == (self.steps.len, self.steps.step) {
                self.steps.equal.saturating_add(1)
            } else {
                1
            };
            self.steps = Steps { len, step, equal };
        }
        let unproven = self.places.iter().filter(|place| !place.proven).count();
        if unproven >= UNPROVEN_MAX || self.places.len() >= STREAMS_MAX {
            let goes = |place: &Place| !place.proven || unproven < UNPROVEN_MAX;
            let oldest = self.places.iter().enumerate().filter(|(_, place)| goes(place));
            if let Some((oldest, _)) = oldest.min_by_key(|(_, place)| place.last_use) {
                self.places.remove(oldest);
            }
        }
        self.places.push(Place {
            lo: range.start,
            hi: range.end,
            onwards: 1,
            backwards: 1,
            bytes: len_of(range),
            proven: false,
            last_use: now,
        });
        let Steps { len, step, equal } = self.steps;
        match equal >= STEPS_MIN && len_of(range) <= len {
            true => Course::Steps { start: range.start, at: range.end, len, step, equal },
            false => Course::Anyhow,
        }
    }
}

impl Place {
    /// The read continues it, or repeats some of it.
    fn follow(&mut self, range: ByteRange) -> Option<Course> {
        let slack = if self.proven || len_of(range) >= LARGE { SLACK } else { 0 };
        if range.start >= self.lo && range.start <= self.hi.saturating_add(slack) {
            if range.end > self.hi {
                self.bytes += range.end - self.hi.max(range.start);
                self.hi = range.end;
                (self.onwards, self.backwards) = (self.onwards.saturating_add(1), 1);
            }
        } else if range.end >= self.lo && range.end <= self.hi {
            self.bytes += self.lo - range.start;
            self.lo = range.start;
            (self.onwards, self.backwards) = (1, self.backwards.saturating_add(1));
        } else {
            return None;
        }
        Some(match self.backwards > self.onwards {
            true => Course::Backwards { at: self.lo, bytes: self.bytes },
            false => Course::Onwards { at: self.hi, bytes: self.bytes },
        })
    }
}

impl Course {
    /// Where the reader is; `None`: nothing can be foreseen.
    pub(crate) fn at(self) -> Option<u64> {
        match self {
            Course::Anyhow => None,
            Course::Onwards { at, .. }
            | Course::Backwards { at, .. }
            | Course::Steps { at, .. }
            | Course::Begun { at } => Some(at),
        }
    }

    /// What to fetch now, besides what is there or on its way.
    pub(crate) fn plan(self, window: Window, pieces: &Pieces) -> Wanted {
        let window = match self {
            Course::Onwards { bytes, .. } | Course::Backwards { bytes, .. } => window.after(bytes),
            Course::Anyhow | Course::Steps { .. } | Course::Begun { .. } => window,
        };
        match self {
            Course::Anyhow => Wanted::new(),
            Course::Begun { at } => match window.size <= window.whole && !window.careful {
                true => window.onwards(at, pieces),
                false => Wanted::new(),
            },
            Course::Onwards { at, .. } => window.onwards(at, pieces),
            Course::Backwards { at, .. } => window.backwards(at, pieces),
            Course::Steps { start, at, len, step, equal } => {
                window.steps(start, at, (len, step, equal), pieces)
            }
        }
    }
}

impl Window {
    /// After so many bytes in sequence.
    fn after(self, bytes: u64) -> Window {
        match self.careful {
            false => self,
            true => Window {
                reach: self.reach.min(bytes / CAREFUL),
                whole: 0,
                unit: self.unit.min(CAREFUL_UNIT),
                ..self
            },
        }
    }

    fn onwards(self, at: u64, pieces: &Pieces) -> Wanted {
        let from = pieces.covered_to(at);
        let mut until = match self.size <= self.whole {
            true => self.size,
            false => self.size.min(at.saturating_add(self.reach)),
        };
        if until < self.size {
            until -= until % self.unit;
        }
        let mut wanted = Wanted::new();
        let mut start = from;
        while start < until {
            let end = until.min((start / self.unit + 1) * self.unit);
            wanted.push(ByteRange::new(start, end));
            start = end;
        }
        wanted
    }

    fn backwards(self, at: u64, pieces: &Pieces) -> Wanted {
        let from = pieces.covered_from(at);
        let until = match self.size <= self.whole {
            true => 0,
            false => at.saturating_sub(self.reach).next_multiple_of(self.unit),
        };
        let mut wanted = Wanted::new();
        let mut end = from;
        while end > until {
            let start = until.max((end - 1) / self.unit * self.unit);
            wanted.push(ByteRange::new(start, end));
            end = start;
        }
        wanted
    }

    fn steps(
        self,
        start: u64,
        at: u64,
        (len, step, equal): (u64, i64, u32),
        pieces: &Pieces,
    ) -> Wanted {
        let mut count = self
            .reach
            .checked_div(len)
            .unwrap_or(0)
            .min((STEPS_AHEAD[0] << (equal - STEPS_MIN).min(4)).min(STEPS_AHEAD[1]));
        if self.careful {
            count = count.min(u64::from(equal) / CAREFUL);
        }
        let mut wanted = Wanted::new();
        let mut add = |from: u64, until: u64| {
            let until = until.min(self.size);
            if from < until && !pieces.overlaps(from, until) {
                wanted.push(ByteRange::new(from, until));
            }
        };
        if count > 0 {
            add(at, start.saturating_add(len));
        }
        for n in 1..=count as i64 {
            let Some(from) = step.checked_mul(n).and_then(|by| start.checked_add_signed(by)) else {
                break;
            };
            add(from, from.saturating_add(len));
        }
        wanted
    }
}

#[cfg(test)]
#[path = "readers_tests.rs"]
mod tests;
