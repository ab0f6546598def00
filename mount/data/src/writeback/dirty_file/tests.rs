//! Traces of writes, step by step.

use super::*;
use crate::cache::DataTarget;
use crate::cache::batch::Piece;
use types::fid::Fid;
use types::object::{ObjectId, ObjectOffset};
use types::target::TargetIndex;

const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

fn time(nanos: i128) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn base(size: u64) -> Base {
    Base { attr: attr(size), alone: Some(7) }
}

fn attr(size: u64) -> Attr {
    let at = time(1000);
    Attr {
        fid: FID,
        mode: libc::S_IFREG,
        uid: 0,
        gid: 0,
        nlink: 1,
        rdev: 0,
        size,
        blocks: 0,
        atime: at,
        mtime: at,
        ctime: at,
        btime: at,
        version: 1,
    }
}

fn write(dirty: &mut DirtyFile, start: u64, len: usize, wall: i128) {
    let blocks = dirty.bytes.new_blocks(start, start + len as u64);
    dirty.wrote(
        start,
        &Bytes::from(vec![1; len]),
        blocks,
        &base(10),
        (Monotonic::ZERO, time(wall)),
    );
}

fn send(dirty: &mut DirtyFile, start: u64, end: u64) {
    let object = ObjectId { fid: FID, instance: 1, stripe: 0 };
    let object = Some((object, ObjectOffset(start)));
    let piece = Piece { file: start, len: end - start, object };
    let batch = Batch {
        target: DataTarget::Ost(TargetIndex(0)),
        bytes: end - start,
        blocks: 1,
        pieces: vec![piece],
    };
    dirty.send(&batch);
}

/// A request that ended there is stored, and what it wrote before it.
fn stored(dirty: &mut DirtyFile, end: u64, grown: i64) {
    dirty.stored(0, end, Monotonic::ZERO);
    dirty.grew(grown);
}

#[test]
fn of_requests_that_overtake_one_another_a_prefix_is_told() {
    let mut dirty = DirtyFile::default();
    let at = |dirty: &mut DirtyFile, start, end| {
        dirty.bytes.sent(start);
        dirty.stored(start, end, Monotonic::ZERO);
    };
    write(&mut dirty, 0, 400, 2000);
    for start in [0, 100, 200, 300] {
        send(&mut dirty, start, start + 100);
    }
    at(&mut dirty, 100, 200);
    at(&mut dirty, 300, 400);
    assert_eq!(
        dirty.report(Monotonic::ZERO),
        None,
        "the record ends at 10: bytes from there on are missing"
    );
    at(&mut dirty, 0, 100);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!(report.end, 200, "what is missing now begins there");
    // What was stored once and is written again misses nothing.
    write(&mut dirty, 50, 100, 3000);
    assert_eq!(dirty.report(Monotonic::ZERO).unwrap().end, 200);
    dirty.reported(&report);
    assert_eq!(dirty.report(Monotonic::ZERO), None, "told");
    at(&mut dirty, 200, 300);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!(report.end, 400, "though bytes before it wait again");
    dirty.reported(&report);
    assert_eq!(
        (dirty.size(), dirty.is_clean()),
        (None, false),
        "all is told, and the last write waits"
    );
}

#[test]
fn what_was_written_later_holds_nothing_up() {
    let mut dirty = DirtyFile::default();
    // Backwards: each write has a byte before it that is not stored.
    for start in [300, 200, 100] {
        write(&mut dirty, start, 100, 2000);
        send(&mut dirty, start, start + 100);
        let number = dirty.under_way.begin();
        dirty.all_sent();
        if start == 100 {
            assert_eq!(dirty.report(Monotonic::ZERO), None, "the first write is not stored");
            dirty.bytes.sent(300);
            dirty.stored(300, 400, Monotonic::ZERO);
            dirty.request_ended(number - 2, None);
            assert_eq!(
                dirty.report(Monotonic::ZERO).unwrap().end,
                400,
                "the others were written later"
            );
        }
    }
    // A program that syncs what it wrote, while another one writes before that.
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 300, 100, 2000);
    let mark = dirty.mark();
    send(&mut dirty, 300, 400);
    write(&mut dirty, 0, 10, 2000);
    write(&mut dirty, 100, 50, 2000);
    dirty.bytes.sent(300);
    dirty.stored(300, 400, Monotonic::ZERO);
    assert_eq!(dirty.report(Monotonic::ZERO), None);
    dirty.is_sure_of(Mark { begins: mark.begins - 1, ..mark });
    assert_eq!(dirty.report(Monotonic::ZERO), None, "those were other writes");
    dirty.is_sure_of(mark);
    assert_eq!(dirty.report(Monotonic::ZERO).unwrap().end, 400);
}

#[test]
fn a_request_without_an_answer_makes_nothing_sure() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 0, 200, 2000);
    send(&mut dirty, 0, 100);
    send(&mut dirty, 100, 200);
    let (first, second) = (dirty.under_way.begin(), dirty.under_way.begin());
    dirty.all_sent();
    dirty.bytes.unsend(0);
    dirty.request_ended(first, Some(RpcError::Shutdown));
    dirty.bytes.sent(100);
    dirty.stored(100, 200, Monotonic::ZERO);
    dirty.request_ended(second, None);
    assert_eq!(dirty.report(Monotonic::ZERO), None, "a hole would be told");
}

#[test]
fn what_is_stored_and_not_told_has_an_age() {
    let (mut dirty, second) = (DirtyFile::default(), std::time::Duration::from_secs);
    write(&mut dirty, 0, 200, 2000);
    send(&mut dirty, 0, 100);
    send(&mut dirty, 100, 200);
    assert_eq!(dirty.stored_since(), None);
    dirty.bytes.sent(0);
    dirty.stored(0, 100, second(3));
    let report = dirty.report(second(4)).unwrap();
    dirty.bytes.sent(100);
    dirty.stored(100, 200, second(5));
    assert_eq!(dirty.stored_since(), Some(second(3)));
    dirty.reported(&report);
    assert_eq!(dirty.stored_since(), Some(second(4)), "the second part is not told");
    let report = dirty.report(second(6)).unwrap();
    dirty.reported(&report);
    assert_eq!((dirty.stored_since(), dirty.is_clean()), (None, true));
}

#[test]
fn time_goes_on_with_every_write_whatever_the_clock_says() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 0, 5, 7);
    assert_eq!(
        (dirty.size(), dirty.mtime()),
        (Some(10), Some(time(1001))),
        "the MDT's clock is ahead"
    );
    assert_eq!(dirty.show_mtime(), Some(time(1001)));
    write(&mut dirty, 0, 5, 7);
    assert_eq!(dirty.mtime(), Some(time(1002)));
    write(&mut dirty, 0, 5, 1002);
    assert_eq!(dirty.mtime(), Some(time(1002)), "nobody has seen it");
    dirty.report_time(Monotonic::ZERO);
    write(&mut dirty, 0, 5, 1002);
    assert_eq!(dirty.mtime(), Some(time(1003)));
    write(&mut dirty, 5, 15, 5000);
    assert_eq!((dirty.size(), dirty.mtime()), (Some(20), Some(time(5000))));
    assert_eq!(dirty.blocks, 1);
}

#[test]
fn the_mdt_is_told_of_what_is_stored_and_no_more() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 10, 90, 2000);
    assert_eq!(dirty.report(Monotonic::ZERO), None, "nothing is stored");
    send(&mut dirty, 10, 100);
    write(&mut dirty, 100, 5000, 3000);
    dirty.bytes.sent(10);
    stored(&mut dirty, 100, 8);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!((report.end, report.grown), (100, 8));
    dirty.reported(&report);
    assert_eq!((dirty.size(), dirty.mtime()), (Some(5100), None), "the time was the newest");
    assert!(!dirty.is_clean());
    send(&mut dirty, 100, 5100);
    dirty.bytes.sent(100);
    stored(&mut dirty, 5100, 8);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!((report.end, report.at), (5100, WrittenAt::Told));
    dirty.reported(&report);
    assert!(dirty.is_clean() && dirty.size().is_none());
}

#[test]
fn a_write_while_the_mdt_is_being_told_stays_untold() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 10, 90, 2000);
    send(&mut dirty, 10, 100);
    dirty.bytes.sent(10);
    stored(&mut dirty, 100, 8);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    write(&mut dirty, 0, 1, 3000);
    dirty.reported(&report);
    assert_eq!((dirty.size(), dirty.mtime()), (Some(100), Some(time(3000))));
}

#[test]
fn what_was_stored_within_the_file_says_nothing_of_its_end_later() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 0, 10, 2000);
    send(&mut dirty, 0, 10);
    dirty.bytes.sent(0);
    stored(&mut dirty, 10, 0);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!(report.end, 0);
    dirty.reported(&report);
    // The file was cut to 2 bytes since.
    dirty.wrote(4, &Bytes::from_static(b"x"), 1, &base(2), (Monotonic::ZERO, time(3000)));
    assert_eq!((dirty.report(Monotonic::ZERO), dirty.size()), (None, Some(5)));
}

#[test]
fn nor_does_it_if_the_time_was_told_before_it_was_stored() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 0, 10, 2000);
    let report = dirty.report_time(Monotonic::ZERO).unwrap();
    dirty.reported(&report);
    send(&mut dirty, 0, 10);
    dirty.bytes.sent(0);
    stored(&mut dirty, 10, 0);
    assert!(dirty.is_clean());
    // The file was cut to 2 bytes since.
    dirty.wrote(0, &Bytes::from_static(b"x"), 1, &base(2), (Monotonic::ZERO, time(3000)));
    send(&mut dirty, 0, 1);
    dirty.wrote(4, &Bytes::from_static(b"x"), 1, &base(2), (Monotonic::ZERO, time(3000)));
    dirty.bytes.sent(0);
    stored(&mut dirty, 1, 0);
    assert_eq!(
        dirty.report(Monotonic::ZERO),
        None,
        "the write at 4 is not stored, and the record ends at 2"
    );
}

#[test]
fn a_file_does_not_grow_by_what_is_lost() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 10, 90, 2000);
    write(&mut dirty, 100, 5000, 2000);
    send(&mut dirty, 10, 100);
    dirty.bytes.sent(10);
    stored(&mut dirty, 100, 8);
    send(&mut dirty, 100, 5100);
    dirty.bytes.sent(100);
    dirty.fail(Errno::ENOSPC);
    assert_eq!((dirty.size(), dirty.failures.unreported()), (Some(100), Some(Errno::ENOSPC)));
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!(report.end, 100);
    dirty.reported(&report);
    assert!(dirty.is_clean());
    write(&mut dirty, 0, 20, 3000);
    send(&mut dirty, 0, 20);
    dirty.bytes.sent(0);
    dirty.fail(Errno::EIO);
    assert_eq!(dirty.size(), Some(10), "what the MDT knows");
    assert_eq!(dirty.report(Monotonic::ZERO).unwrap().end, 0, "only its time");
}

#[test]
fn what_no_object_can_have_is_known_until_it_is_sent() {
    let mut dirty = DirtyFile::default();
    assert_eq!(dirty.objects_end(7), None);
    write(&mut dirty, 100, 50, 2000);
    assert_eq!(dirty.objects_end(7), Some(10), "what the MDT knows");
    send(&mut dirty, 100, 150);
    assert_eq!(dirty.objects_end(7), Some(150));
    let batch =
        Batch { target: DataTarget::Ost(TargetIndex(0)), bytes: 0, blocks: 0, pieces: Vec::new() };
    dirty.unsend(&batch, Monotonic::ZERO);
    write(&mut dirty, 300, 50, 3000);
    assert_eq!(dirty.objects_end(7), Some(150), "it may have come");
    dirty.bytes.sent(100);
    stored(&mut dirty, 0, 8);
    assert_eq!(dirty.objects_end(7), Some(150), "though it is not told");
    dirty.fail(Errno::EIO);
    write(&mut dirty, 500, 50, 4000);
    assert_eq!(dirty.objects_end(7), None, "parts of a failed request may be there");
}

#[test]
fn of_a_file_that_others_write_too_every_end_is_told() {
    let mut dirty = DirtyFile::default();
    // Another client wrote up to 5,000 and has not stored it.
    let shared = Base { attr: attr(5000), alone: None };
    let at = |wall| (Monotonic::ZERO, time(wall));
    dirty.wrote(10, &Bytes::from(vec![1; 90]), 1, &shared, at(2000));
    assert_eq!((dirty.size(), dirty.objects_end(7)), (Some(5000), None));
    send(&mut dirty, 10, 100);
    dirty.bytes.sent(10);
    stored(&mut dirty, 100, 8);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!(report.end, 100, "the other one may lose its bytes");
    dirty.wrote(20, &Bytes::from(vec![1; 30]), 1, &shared, at(3000));
    dirty.reported(&report);
    send(&mut dirty, 20, 50);
    dirty.bytes.sent(20);
    stored(&mut dirty, 50, 0);
    assert_eq!(dirty.report(Monotonic::ZERO).unwrap().end, 0, "the record has it");
    dirty.fail(Errno::EIO);
    assert_eq!(dirty.size(), Some(5000));
}

#[test]
fn what_objects_hold_is_not_known_once_a_file_was_shared() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 100, 50, 2000);
    assert_eq!(
        (dirty.objects_end(7), dirty.objects_end(8)),
        (Some(10), None),
        "one came to be shared since"
    );
    dirty.wrote(
        100,
        &Bytes::from_static(b"x"),
        0,
        &Base { alone: None, ..base(10) },
        (Monotonic::ZERO, time(1)),
    );
    write(&mut dirty, 100, 50, 3000);
    assert_eq!(dirty.objects_end(7), None);
}

#[test]
fn what_was_begun_before_a_loss_means_nothing_after_it() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 10, 90, 2000);
    send(&mut dirty, 10, 100);
    dirty.bytes.sent(10);
    stored(&mut dirty, 100, 8);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    dirty.drop_all();
    write(&mut dirty, 0, 200, 1);
    dirty.reported(&report);
    assert_eq!((dirty.size(), dirty.mtime()), (Some(200), Some(time(1001))));
}

#[test]
fn bytes_and_size_on_the_mdt_are_one_report() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 0, 100, 2000);
    send(&mut dirty, 0, 100);
    let number = dirty.under_way.begin();
    dirty.goes_to_mdt(number);
    let with = dirty.report_with(100, Monotonic::ZERO);
    assert_eq!((with.end, with.grown, with.at), (100, 0, WrittenAt::At(time(2000))));
    // Written on meanwhile.
    write(&mut dirty, 100, 50, 3000);
    assert!(dirty.is_on_mdt() && dirty.is_next_on_mdt(number) && !dirty.is_next_on_mdt(number + 1));
    dirty.bytes.sent(0);
    dirty.reported(&with);
    dirty.request_ended(number, None);
    assert!(!dirty.is_on_mdt());
    assert_eq!((dirty.size(), dirty.mtime()), (Some(150), Some(time(3000))));
    let with = dirty.report_with(150, Monotonic::ZERO);
    send(&mut dirty, 100, 150);
    dirty.bytes.sent(100);
    dirty.reported(&with);
    assert!(dirty.is_clean() && dirty.report(Monotonic::ZERO).is_none(), "nothing is left to tell");
}

#[test]
fn what_lies_in_objects_is_told_once_the_part_on_the_mdt_is_there() {
    let mut dirty = DirtyFile::default();
    write(&mut dirty, 0, 300, 2000);
    send(&mut dirty, 0, 100);
    send(&mut dirty, 100, 300);
    dirty.bytes.sent(100);
    dirty.stored(100, 300, Monotonic::ZERO);
    assert_eq!(dirty.report(Monotonic::ZERO).map_or(0, |report| report.end), 0);
    let with = dirty.report_with(100, Monotonic::ZERO);
    dirty.bytes.sent(0);
    dirty.reported(&with);
    let report = dirty.report(Monotonic::ZERO).unwrap();
    assert_eq!((report.end, report.at), (300, WrittenAt::Told));
    dirty.reported(&report);
    assert!(dirty.is_clean());
}
