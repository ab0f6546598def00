use super::*;
use crate::file::{File, FileTable};
use types::fid::Fid;

fn at(ms: u64) -> Monotonic {
    Duration::from_millis(ms)
}

fn file(table: &Arc<FileTable>, oid: u32) -> Arc<File> {
    table.get(Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 })
}

#[test]
fn files_that_are_read_get_equal_parts_and_idle_ones_none() {
    let (ledger, table) = (Arc::new(Ledger::default()), Arc::default());
    let files: Vec<_> = (1..=3000).map(|oid| file(&table, oid)).collect();
    assert_eq!(ledger.share(&files[0], at(0)).reach, 64 << 20, "the bound of a file");
    files[..256].iter().for_each(|file| _ = ledger.share(file, at(10)));
    assert_eq!(ledger.share(&files[0], at(20)).reach, 1 << 20);
    files.iter().for_each(|file| _ = ledger.share(file, at(30)));
    assert_eq!(ledger.share(&files[0], at(40)).reach, SHARE_MIN, "not less");
    assert_eq!(ledger.share(&files[0], at(2500)).reach, 64 << 20);
    ledger.left(&*files[1]);
    files.iter().for_each(|file| ledger.left(&**file));
    let books = ledger.books.lock();
    assert!(books.live.is_empty() && books.idle.is_empty());
}

#[test]
fn idle_files_make_room_and_busy_ones_do_not() {
    let (ledger, table) = (Arc::new(Ledger::default()), Arc::default());
    ledger.set_limits(ReadAheadLimits { mount: 8 << 20, ..ReadAheadLimits::default() });
    let [first, second] = [1, 2].map(|oid| file(&table, oid));
    let fetch = |file: &Arc<File>, start| {
        let charge = ledger.charge(4 << 20)?;
        let pieces = &mut file.ahead.state.lock().pieces;
        pieces.is_of(1);
        pieces.ask(types::ranges::ByteRange::new(start, start + (4 << 20)), charge)
    };
    ledger.share(&first, at(0));
    assert!(fetch(&first, 0).is_some() && fetch(&first, 4 << 20).is_some());
    ledger.share(&second, at(1000));
    assert!(fetch(&second, 0).is_none(), "the first was read a second ago");
    ledger.share(&second, at(2000));
    assert!(fetch(&second, 0).is_some());
    assert_eq!((ledger.used(), ledger.figures().0.hit_max), (4 << 20, 1));
    assert!(first.ahead.state.lock().pieces.is_empty());
    drop((first, second));
    assert_eq!(ledger.used(), 0, "a file that is dropped takes its pieces along");
}

#[test]
fn waste_makes_careful_until_it_is_forgotten_or_outweighed() {
    let (ledger, table) = (Arc::new(Ledger::default()), Arc::default());
    let file = file(&table, 1);
    let careful = |ms| ledger.share(&file, at(ms)).careful;
    drop(ledger.charge(16 << 20));
    assert!(!careful(0), "a sixteenth of the budget is free");
    drop(ledger.charge(1 << 20));
    assert!(careful(1));
    let read = |missed| ledger.note(Read { hit: 0, missed, waited: false, anyhow: true });
    read(8 << 20);
    assert!(!careful(2));
    drop(ledger.charge(1 << 20));
    assert!(careful(3) && !careful(10_001));
}

#[test]
fn a_habit_needs_eight_files_of_which_seven_agree() {
    let (ledger, table) = (Arc::new(Ledger::default()), Arc::default());
    let file = file(&table, 1);
    let habit = || ledger.share(&file, at(0)).habit;
    (0..7).for_each(|_| ledger.note_habit(true));
    assert!(!habit());
    ledger.note_habit(false);
    assert!(habit());
    ledger.note_habit(false);
    assert!(!habit());
    (0..7).for_each(|_| ledger.note_habit(true));
    assert!(habit());
}
