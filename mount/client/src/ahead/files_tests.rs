use super::*;
use std::collections::BTreeSet;

const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

fn name(n: usize) -> Name {
    Name::new(format!("f{n:06}").as_bytes()).unwrap()
}

/// Numbers say nothing about names: 7,919 is prime to the counts.
fn fid(n: usize, count: usize) -> Fid {
    Fid { oid: 10 + (n * 7_919 % count) as u32, ..DIR }
}

fn listing(count: usize) -> Arc<[DirEntry]> {
    let entry = |n| DirEntry {
        name: name(n),
        fid: fid(n, count),
        file_type: FileType::Regular,
        entry: None,
        layout: None,
    };
    (0..count).map(entry).collect()
}

fn at(seconds: u64) -> Monotonic {
    Monotonic::default() + Duration::from_secs(seconds)
}

/// A program that opens and reads files, over a line with a delay. Files are numbers of names.
struct Program {
    ahead: FilesAhead<()>,
    listing: Arc<[DirEntry]>,
    /// Opens need no request; bytes are here.
    known: BTreeSet<Fid>,
    here: BTreeSet<Fid>,
    /// What is on its way, with the round trip in which it comes.
    asked: Vec<(usize, Fid, Vec<Fid>)>,
    fetched: Vec<(usize, Fid)>,
    now: usize,
    most_held: usize,
    all_fetched: usize,
}

impl Program {
    fn new(count: usize) -> Program {
        Program {
            ahead: FilesAhead::default(),
            listing: listing(count),
            known: BTreeSet::new(),
            here: BTreeSet::new(),
            asked: Vec::new(),
            fetched: Vec::new(),
            now: 0,
            most_held: 0,
            all_fetched: 0,
        }
    }

    fn fetch(&mut self, files: Vec<Fid>) {
        for file in files {
            _ = self.ahead.hold(file, (), at(0));
            self.fetched.push((self.now + 1, file));
            self.all_fetched += 1;
        }
        self.most_held = self.most_held.max(self.ahead.held.len());
    }

    /// A round trip goes by.
    fn wait(&mut self) {
        self.now += 1;
        let now = self.now;
        self.here.extend(self.fetched.extract_if(.., |(when, _)| *when <= now).map(|(_, f)| f));
        let answers: Vec<_> = self.asked.extract_if(.., |(when, ..)| *when <= now).collect();
        for (_, dir, files) in answers {
            self.known.extend(&files);
            let fetch = self.ahead.answered(dir, &files);
            self.fetch(fetch);
        }
    }

    fn open_and_read(&mut self, n: usize) {
        let file = fid(n, self.listing.len());
        let coming = self.ahead.coming(file).is_some();
        let missed = !coming && !self.known.contains(&file);
        while self.ahead.coming(file).is_some() {
            self.wait();
        }
        if missed {
            self.wait();
            self.known.insert(file);
        }
        let known = &self.known;
        let listing = Some(self.listing.clone());
        let is_known = |file| known.contains(&file);
        let steps = self.ahead.opened((DIR, file), missed, listing, is_known);
        if let Some(batch) = steps.ask {
            self.asked.push((self.now + 1, batch.dir, batch.files));
        }
        self.fetch(steps.fetch);
        if self.fetched.iter().any(|(_, fetched)| *fetched == file) {
            while !self.here.contains(&file) {
                self.wait();
            }
        }
        if !self.here.remove(&file) {
            self.wait();
        }
    }
}

#[test]
fn files_in_order_cost_few_waits() {
    let count = 400;
    let mut by_number: Vec<usize> = (0..count).collect();
    by_number.sort_unstable_by_key(|n| fid(*n, count).ino());
    for order in [(0..count).collect(), by_number] {
        let mut program = Program::new(count);
        order.into_iter().for_each(|n| program.open_and_read(n));
        assert!(program.now <= 15, "{} waits", program.now);
        assert!(program.most_held <= HELD_MAX, "{} held", program.most_held);
    }
}

#[test]
fn files_in_no_order_are_not_fetched() {
    let mut program = Program::new(401);
    (0..401).for_each(|n| program.open_and_read(n * 150 % 401));
    assert_eq!((program.now, program.all_fetched), (2 * 401, 0));
}

#[test]
fn a_program_that_stops_wastes_little() {
    for (opens, most) in [(1, 0), (2, HELD_FIRST), (3, 2 * HELD_FIRST), (9, HELD_MAX)] {
        let mut program = Program::new(400);
        (0..opens).for_each(|n| program.open_and_read(n));
        (0..4).for_each(|_| program.wait());
        let held = program.ahead.held.len();
        assert!(held <= most, "{opens} opens: {held} held");
        assert_eq!(program.ahead.expire(at(4)).is_last, held == 0);
        assert!(program.ahead.expire(at(5)).is_last);
    }
}

#[test]
fn what_needs_no_request_begins_nothing() {
    let mut ahead = FilesAhead::<()>::default();
    for n in 0..10 {
        let of = (DIR, fid(n, 10));
        let steps = ahead.opened(of, false, Some(listing(10)), |_| true);
        assert!(steps.ask.is_none() && steps.fetch.is_empty() && ahead.is_idle());
    }
}

#[test]
fn neighbours_are_asked_for_together() {
    let mut ahead = FilesAhead::<()>::default();
    let listing = listing(100);
    let is_known = |file| file == fid(5, 100);
    let mut open = |n| ahead.opened((DIR, fid(n, 100)), true, Some(listing.clone()), is_known).ask;
    assert!(open(0).is_none());
    let batch = open(1).expect("the second in order");
    let run = |after, count| Run { after: Some(name(after)), count };
    assert_eq!(batch.runs, [run(1, 3), run(5, 60)]);
    assert_eq!(batch.files.len(), 63);
    let batch = open(2).expect("one that was asked for is opened");
    assert_eq!(batch.runs, [run(65, 34)]);
    assert!(open(3).is_none(), "all are on their way");
}

#[test]
fn few_directories_are_followed() {
    let mut ahead = FilesAhead::<()>::default();
    for n in 0..2 * DIRECTORIES_MAX {
        let dir = Fid { oid: 1000 + n as u32, ..DIR };
        ahead.opened((dir, fid(0, 10)), true, Some(listing(10)), |_| false);
    }
    assert_eq!(ahead.walks.len(), DIRECTORIES_MAX);
}

#[test]
fn a_lookup_of_the_second_file_asks_for_it_and_those_behind_it() {
    let mut ahead = FilesAhead::<()>::default();
    let listing = listing(100);
    let known = |_| false;
    let steps = ahead.opened((DIR, fid(0, 100)), true, None, known);
    assert!(steps.ask.is_none(), "the directory is not known yet");
    let OnLookup::Fetch(batch) = ahead.looked(DIR, &name(1), Some(listing.clone()), known) else {
        panic!("the second in order")
    };
    assert_eq!(batch.runs, [Run { after: Some(name(0)), count: 64 }]);
    let other = ahead.looked(DIR, &name(2), Some(listing.clone()), known);
    assert!(matches!(other, OnLookup::Wait(_)), "it is on its way");
    let fetch = ahead.answered(DIR, &batch.files);
    assert!(fetch.is_empty(), "it may only be looked at");
    for n in [2, 66] {
        let looked = ahead.looked(DIR, &name(n), Some(listing.clone()), known);
        assert!(matches!(looked, OnLookup::Ask), "no file was opened since: {n}");
    }
    let steps = ahead.opened((DIR, fid(1, 100)), false, Some(listing.clone()), known);
    let next: Vec<Fid> = (2..2 + HELD_FIRST).map(|n| fid(n, 100)).collect();
    assert!(steps.ask.is_none() && steps.fetch_own && steps.fetch == next);
    next.into_iter().for_each(|file| _ = ahead.hold(file, (), at(0)));
    // One of those is opened: more are worth it.
    let steps = ahead.opened((DIR, fid(2, 100)), false, Some(listing), known);
    assert_eq!(steps.ask.expect("the rest").runs, [Run { after: Some(name(64)), count: 35 }]);
}

#[test]
fn lookups_begin_nothing_that_goes_on_in_no_order() {
    let (mut ahead, listing) = (FilesAhead::<()>::default(), listing(100));
    let asks = |ahead: &mut FilesAhead<()>, n| {
        matches!(ahead.looked(DIR, &name(n), Some(listing.clone()), |_| false), OnLookup::Ask)
    };
    assert!(asks(&mut ahead, 0) && asks(&mut ahead, 1), "no file was opened");
    ahead.opened((DIR, fid(10, 100)), true, Some(listing.clone()), |_| false);
    assert!(asks(&mut ahead, 10) && asks(&mut ahead, 50) && asks(&mut ahead, 3));
    assert!(!asks(&mut ahead, 11));
}

#[test]
fn files_that_need_no_request_are_fetched_once_the_kernel_reads_two_of_them() {
    let (mut ahead, listing) = (FilesAhead::<()>::default(), listing(100));
    let known = |_| true;
    let next = |from: usize, until: usize| (from..until).map(|n| fid(n, 100)).collect::<Vec<_>>();
    for n in 0..2 {
        let of = (DIR, fid(n, 100));
        assert!(ahead.opened(of, false, Some(listing.clone()), known).fetch.is_empty());
        let steps = ahead.read(of, Some(listing.clone()), known);
        let expected = if n == 0 { Vec::new() } else { next(2, 2 + HELD_FIRST) };
        assert!(steps.ask.is_none() && steps.fetch == expected, "{n}");
        steps.fetch.into_iter().for_each(|file| _ = ahead.hold(file, (), at(0)));
    }
    // It was fetched ahead: so more are, and its read changes nothing.
    let of = (DIR, fid(2, 100));
    let steps = ahead.opened(of, false, Some(listing.clone()), known);
    assert_eq!(steps.fetch, next(2 + HELD_FIRST, 2 + HELD_FIRST + 5));
    let steps = ahead.read(of, Some(listing), known);
    assert!(steps.ask.is_none() && steps.fetch.is_empty());
}
