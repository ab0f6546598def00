use super::*;
use crate::file::{File, FileTable};
use crate::read_ahead::ledger::{Ledger, Read, ReadAheadLimits};
use crate::read_ahead::pieces::Segment;
use bytes::Bytes;
use env::clock::Monotonic;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;

const K4: u64 = 4096;
const UNIT: u64 = 1 << 20;

/// A mount whose objects answer at once.
struct Mount {
    ledger: Arc<Ledger>,
    table: Arc<FileTable>,
    line: u64,
    now: Monotonic,
    read: u64,
    asked: u64,
    ahead: u64,
}

struct Open {
    file: Arc<File>,
    size: u64,
    readers: Readers,
    pieces: Pieces,
}

impl Mount {
    fn new(line: u64) -> Mount {
        let (ledger, table) = (Arc::default(), Arc::default());
        Mount { ledger, table, line, now: Duration::from_secs(9), read: 0, asked: 0, ahead: 0 }
    }

    fn open(&self, oid: u32, size: u64) -> Open {
        let file = self.table.get(Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 });
        Open { file, size, readers: Readers::default(), pieces: Pieces::default() }
    }

    /// Reads; returns whether the program waited for an object.
    fn read(&mut self, open: &mut Open, handle: u64, start: u64, len: u64) -> bool {
        let range = ByteRange::new(start, (start + len).min(open.size));
        let share = self.ledger.share(&open.file, self.now);
        let how = (share.habit, false);
        let (course, begins) = open.readers.read(handle, range, open.size, how);
        if begins == Begins::Elsewhere {
            self.ledger.note_habit(false);
        }
        open.pieces.is_of(1);
        let missed: u64 = open
            .pieces
            .read(range)
            .iter()
            .map(|part| match part {
                Segment::Missing(range) => len_of(*range),
                Segment::Coming(..) => panic!("all is there"),
                Segment::Here(_) => 0,
            })
            .sum();
        let hit = len_of(range) - missed;
        self.ledger.note(Read { hit, missed, waited: false, anyhow: course == Course::Anyhow });
        let reach = share.reach.min(self.line);
        let unit = (1 << (reach / 4).ilog2()).clamp(32 << 10, UNIT);
        let window =
            Window { size: open.size, reach, whole: share.whole, unit, careful: share.careful };
        let wanted = course.plan(window, &open.pieces);
        for (n, range) in wanted.iter().enumerate() {
            assert!(!range.is_empty() && range.end <= open.size, "{range:?} in {window:?}");
            assert!(
                len_of(*range)
                    <= unit.max(match course {
                        Course::Steps { len, .. } => len,
                        _ => 0,
                    })
            );
            wanted[..n].iter().for_each(|other| assert!(!other.overlaps(*range), "{wanted:?}"));
            let Some(charge) = self.ledger.charge(len_of(*range)) else { break };
            let Some((number, _)) = open.pieces.ask(*range, charge) else { continue };
            let data = vec![Bytes::from(vec![0; len_of(*range) as usize])];
            open.pieces.arrived(range.start, number, Some(data));
            self.ahead += len_of(*range);
        }
        self.asked += missed;
        self.read += len_of(range);
        assert!(self.ledger.used() <= self.ledger.limits().mount);
        missed > 0
    }

    fn close(&self, mut open: Open, handle: u64) {
        if let Some(to_end) = open.readers.closed(handle) {
            self.ledger.note_habit(to_end);
        }
        self.ledger.left(&*open.file);
    }

    fn fetched(&self) -> u64 {
        self.asked + self.ahead
    }
}

/// xorshift.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_sequence_waits_twice_and_fetches_each_byte_once() {
    for (line, size) in [(4 << 20, 64 << 20), (52 << 20, 200 << 20), (4 << 20, 1 << 20)] {
        let mut mount = Mount::new(line);
        let mut open = mount.open(1, size);
        let waits = (0..size / K4).filter(|n| mount.read(&mut open, 7, n * K4, K4)).count();
        assert_eq!((waits, mount.fetched()), (2, size));
        assert_eq!(mount.ledger.used(), 0, "what was read is not kept");
    }
}

#[test]
fn the_whole_window_is_asked_for_with_the_second_read() {
    let mut mount = Mount::new(52 << 20);
    let mut open = mount.open(1, 1 << 30);
    mount.read(&mut open, 7, 0, K4);
    assert_eq!(mount.ahead, 0);
    mount.read(&mut open, 7, K4, K4);
    assert_eq!(mount.ahead, (52 << 20) - 2 * K4);
}

#[test]
fn a_file_that_is_read_backwards_waits_three_times() {
    let (mut mount, size) = (Mount::new(4 << 20), 32 << 20);
    let mut open = mount.open(1, size);
    let waits = (1..=size / K4).filter(|n| mount.read(&mut open, 7, size - n * K4, K4)).count();
    assert_eq!((waits, mount.fetched()), (3, size));
}

#[test]
fn a_file_that_is_read_in_steps_waits_four_times_and_its_gaps_are_not_fetched() {
    for step in [1i64 << 20, -(1 << 20)] {
        let mut mount = Mount::new(4 << 20);
        let mut open = mount.open(1, 512 << 20);
        let start = |n: i64| (if step > 0 { n * step } else { (511 << 20) + n * step }) as u64;
        let waits = (0..512).filter(|n| mount.read(&mut open, 7, start(*n), 64 << 10)).count();
        assert_eq!((waits, mount.fetched()), (4, 512 << 16), "{step}");
    }
}

#[test]
fn parts_of_a_large_read_may_come_in_any_order() {
    let (mut mount, size) = (Mount::new(8 << 20), 256 << 20);
    let mut open = mount.open(1, size);
    let mut waits = 0;
    for at in (0..size).step_by(4 << 20) {
        for part in [1, 0, 3, 2] {
            waits += u32::from(mount.read(&mut open, 7, at + (part << 20), 1 << 20));
        }
    }
    assert!(waits <= 8 && mount.fetched() == size, "{waits} {}", mount.fetched());
}

#[test]
fn files_that_are_read_by_turns_share_the_budget() {
    let (mut mount, size) = (Mount::new(16 << 20), 8 << 20);
    let mut open: Vec<Open> = (0..200).map(|oid| mount.open(oid + 1, size)).collect();
    let mut waits = 0;
    for n in 0..size / K4 {
        for (handle, open) in open.iter_mut().enumerate() {
            waits += u32::from(mount.read(open, handle as u64, n * K4, K4));
        }
    }
    assert_eq!((waits, mount.fetched()), (2 * 200, 200 * size));
}

#[test]
fn small_files_are_fetched_with_their_first_read_once_that_is_the_habit() {
    let (mut mount, size) = (Mount::new(4 << 20), 256 << 10);
    let waits: Vec<usize> = (0..20)
        .map(|oid| {
            let mut open = mount.open(oid + 1, size);
            let waits = (0..size / K4).filter(|n| mount.read(&mut open, 7, n * K4, K4)).count();
            mount.close(open, 7);
            waits
        })
        .collect();
    assert_eq!(waits, [vec![2; 8], vec![1; 12]].concat());
    assert_eq!(mount.fetched(), 20 * size);
    let habit = |mount: &Mount| mount.ledger.share(&mount.open(99, 1).file, mount.now).habit;
    assert!(habit(&mount));
    for oid in [30, 31] {
        let mut open = mount.open(oid, size);
        mount.read(&mut open, 7, 5 * K4, K4);
    }
    assert!(!habit(&mount), "others begin elsewhere");
}

#[test]
fn random_reads_fetch_hardly_more_than_they_read() {
    for (seed, blocks, close) in [(1, 16, 4), (2, 64, 20), (3, 64, 200), (4, 1024, 50)] {
        let (mut mount, mut state) = (Mount::new(16 << 20), 0x9e37_79b9_7f4a_7c15 >> seed);
        let mut open: Vec<Open> = (0..200).map(|oid| mount.open(oid + 1, blocks * K4)).collect();
        for _ in 0..close * 200 {
            let file = (random(&mut state) % 200) as usize;
            let at = random(&mut state) % blocks * K4;
            mount.read(&mut open[file], file as u64, at, K4);
        }
        let (fetched, read) = (mount.fetched(), mount.read);
        assert!(fetched * 100 <= read * 105, "{blocks} blocks: {fetched} for {read}");
    }
}

/// Reads four blocks in a row, anywhere, for ever: each looks like the beginning of a sequence.
#[test]
fn what_always_looks_like_a_sequence_and_never_is_wastes_an_eighth() {
    let (mut mount, mut state) = (Mount::new(16 << 20), 77);
    let mut open = mount.open(1, 1 << 30);
    for _ in 0..100_000 {
        let at = random(&mut state) % (1 << 16) * 8192;
        (0..4).for_each(|n| _ = mount.read(&mut open, 7, at + n * K4, K4));
    }
    let (fetched, read) = (mount.fetched(), mount.read);
    // A sixteenth of the budget is free, and what was on its way then is not asked back.
    assert!(fetched <= read + read / 8 + (16 << 20) + (32 << 20), "{fetched} for {read}");
}

#[test]
fn no_more_open_files_and_places_are_followed_than_the_bounds() {
    let (mut mount, mut state) = (Mount::new(4 << 20), 5);
    let mut open = mount.open(1, 1 << 30);
    for handle in 0..1000 {
        for _ in 0..20 {
            let at = random(&mut state) % (1 << 18) * K4;
            mount.read(&mut open, handle, at, K4);
        }
    }
    assert_eq!(open.readers.by_handle.len(), HANDLES_MAX);
    assert!(open.readers.by_handle.values().all(|reader| reader.places.len() <= STREAMS_MAX));
}

#[test]
fn nothing_is_fetched_if_the_budget_is_nothing() {
    let mut mount = Mount::new(4 << 20);
    mount.ledger.set_limits(ReadAheadLimits { mount: 0, ..ReadAheadLimits::default() });
    let share = mount.ledger.share(&mount.open(1, 1).file, mount.now);
    assert_eq!((share.reach, share.whole), (0, 0));
    assert!(mount.ledger.charge(1).is_none());
    mount.now += Duration::from_secs(1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is read, no byte is fetched that is there, nothing beyond the end or the budget,
    /// and what is served is what was asked for (`Mount::read` looks).
    #[test]
    fn any_reads_stay_within_the_bounds(
        size in 1u64..(64 << 20),
        line in (32u64 << 10)..(64 << 20),
        reads in prop::collection::vec((0u64..3, any::<u32>(), 1u64..(2 << 20), 0u8..4), 1..200),
    ) {
        let mut mount = Mount::new(line);
        let mut open = mount.open(1, size);
        let mut last = [(0, 0); 3];
        for (handle, place, len, how) in reads {
            let (before, before_len) = last[handle as usize];
            let start = match how {
                0 => u64::from(place) % size,
                1 => before + before_len,
                2 => u64::saturating_sub(before, len),
                _ => before + 3 * len,
            } % size;
            let ahead = mount.ahead;
            mount.read(&mut open, handle, start, len);
            last[handle as usize] = (start, len);
            prop_assert!(mount.ahead - ahead <= line.max(4 << 20) + UNIT);
        }
        drop(open);
        prop_assert_eq!(mount.ledger.used(), 0);
    }
}
