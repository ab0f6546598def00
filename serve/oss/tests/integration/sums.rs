//! Checksums of data at rest: recorded when data is synced and quiet, compared when it is read, and
//! never wrong after a crash.

use crate::rig::{self, Rig, object};
use oss::scrub::{BadBlock, ScrubReport, Scrubbing};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use types::errno::Errno;
use types::object::ObjectOffset;
use types::session::Transno;
use wire::ost::{ObjectDestroy, ObjectPunch, ObjectRead, OstOp, OstReply, PunchKind};

const BLOCK: u64 = 4096;
const REGION: u64 = 1 << 20;

/// Object files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Changes a byte of the only object on the disk.
fn flip(rig: &Rig, at: u64) {
    let found = files(&rig.target.dir().join("objects"));
    let file = fs::File::options().read(true).write(true).open(&found[0]).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn read(rig: &Rig, offset: u64, len: u32) -> Result<usize, Errno> {
    match rig.one(OstOp::Read(ObjectRead {
        object: object(0),
        offset: ObjectOffset(offset),
        len,
    }))? {
        OstReply::Data(data) => Ok(data.len()),
        other => panic!("{other:?}"),
    }
}

fn scrub(rig: &Rig) -> ScrubReport {
    rig.ost.begin_scrub();
    let began = Instant::now();
    loop {
        match rig.ost.scrubbing() {
            Scrubbing::Done(report) => return report,
            Scrubbing::Running => {
                assert!(began.elapsed() < Duration::from_secs(60), "it never ends")
            }
            other => panic!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// With checksums: by default there are none.
fn on(rig: Rig) -> Rig {
    rig.ost.set_checksum_at_rest(true);
    rig
}

fn restart(rig: &mut Rig) {
    rig.restart();
    rig.ost.set_checksum_at_rest(true);
}

fn stop(rig: &Rig) {
    rig::wait(rig.ost.stop()).unwrap();
    rig::wait(rig.target.close()).unwrap();
}

#[test]
fn a_flipped_bit_is_found_by_reading_and_by_a_scrub() {
    let mut rig = on(Rig::new());
    let size = 3 * REGION + 100;
    rig.write(object(0), 0, vec![7; 2 << 20]).unwrap();
    rig.write(object(0), 2 << 20, vec![8; (size - (2 << 20)) as usize]).unwrap();
    restart(&mut rig);
    let blocks = size.div_ceil(BLOCK);
    assert_eq!(scrub(&rig), ScrubReport { objects: 1, checked: blocks, ..ScrubReport::default() });
    assert_eq!(read(&rig, 0, size as u32), Ok(size as usize));

    flip(&rig, REGION + 5 * BLOCK + 17);
    assert_eq!(
        read(&rig, REGION + 5 * BLOCK + 100, 10),
        Err(Errno::EIO),
        "the bit is elsewhere in the block"
    );
    assert_eq!(read(&rig, 10, 2 << 20), Err(Errno::EIO));
    assert_eq!(read(&rig, REGION + 6 * BLOCK, 1 << 20), Ok(1 << 20), "other blocks are good");
    assert_eq!(read(&rig, size - 50, 1000), Ok(50), "the end is in no whole block");
    let bad = vec![BadBlock { object: object(0), offset: REGION + 5 * BLOCK }];
    assert_eq!(scrub(&rig).bad, bad);

    rig.ost.set_checksum_at_rest(false);
    assert_eq!(read(&rig, 10, 2 << 20), Ok(2 << 20), "switched off");
    rig.ost.set_checksum_at_rest(true);
    rig.write(object(0), REGION + 5 * BLOCK, vec![9; BLOCK as usize]).unwrap();
    assert_eq!(read(&rig, 10, 2 << 20), Ok(2 << 20), "it was written anew");
    restart(&mut rig);
    assert_eq!(scrub(&rig), ScrubReport { objects: 1, checked: blocks, ..ScrubReport::default() });
    stop(&rig);
}

#[test]
fn an_object_that_became_shorter_on_the_disk_is_found() {
    let mut rig = on(Rig::new());
    rig.write(object(0), 0, vec![7; 10_000]).unwrap();
    restart(&mut rig);
    let found = files(&rig.target.dir().join("objects"));
    fs::File::options().write(true).open(&found[0]).unwrap().set_len(5000).unwrap();
    assert_eq!(read(&rig, 0, 4096), Ok(4096));
    assert_eq!(read(&rig, 8192, 100), Err(Errno::EIO), "not: beyond the end");
    assert_eq!(scrub(&rig).bad.len(), 2);
    stop(&rig);
}

#[test]
fn every_way_to_change_an_object_is_followed() {
    let mut rig = on(Rig::new());
    let punch = |rig: &Rig, start: u64, end: u64, kind| {
        let (start, end) = (ObjectOffset(start), ObjectOffset(end));
        assert!(rig.one(OstOp::Punch(ObjectPunch { object: object(0), start, end, kind })).is_ok());
    };
    let clean = |rig: &mut Rig, what: &str| {
        for _ in 0..2 {
            let report = scrub(rig);
            assert!(report.bad.is_empty(), "{what}: {report:?}");
            restart(rig);
        }
        let (size, _) = rig.attr(object(0));
        assert_eq!(scrub(rig).checked, size.div_ceil(BLOCK), "{what}: all of it is known again");
        assert_eq!(read(rig, 0, size as u32), Ok(size as usize), "{what}");
    };
    rig.write(object(0), 0, vec![7; 3 << 20]).unwrap();
    clean(&mut rig, "written");
    punch(&rig, 1_500_000, 1_500_000, PunchKind::Truncate);
    clean(&mut rig, "cut");
    punch(&rig, 2_600_001, 2_600_001, PunchKind::Truncate);
    clean(&mut rig, "grown");
    punch(&rig, 8192, 1_100_000, PunchKind::Hole);
    clean(&mut rig, "punched");
    punch(&rig, 5, 70_000, PunchKind::Zero);
    clean(&mut rig, "zeroed");
    punch(&rig, 0, 4 << 20, PunchKind::Allocate);
    clean(&mut rig, "allocated");
    rig.write(object(0), (6 << 20) + 5, vec![1; 10]).unwrap();
    clean(&mut rig, "written behind a hole");
    rig.one(OstOp::Destroy(ObjectDestroy { objects: vec![object(0)] })).unwrap();
    restart(&mut rig);
    assert_eq!(scrub(&rig), ScrubReport::default());
    stop(&rig);
}

/// The OST ends without a stop, and part of what was written since its last flush is lost. No
/// recorded checksum may contradict what is left.
#[test]
fn no_crash_makes_a_false_alarm() {
    let mut rng = fastrand::Rng::with_seed(17);
    let mut rig = on(Rig::new());
    let write = |rig: &Rig, rng: &mut fastrand::Rng| {
        let (at, len) = (rng.u64(0..3 * REGION), rng.usize(1..200_000));
        rig.write(object(0), at, vec![rng.u8(1..=255); len]).unwrap();
        (at, len)
    };
    let mut checked = 0;
    for round in 0..60 {
        for _ in 0..rng.usize(1..12) {
            write(&rig, &mut rng);
            if rng.u32(0..4) == 0 {
                rig::wait(rig.ost.flush_all()).unwrap();
            }
        }
        if rng.bool() {
            rig::wait(rig.ost.flush_all()).unwrap();
        }
        // From here on nothing is synced, so any part of what is written may be lost.
        for _ in 0..rng.usize(0..3) {
            let (at, len) = write(&rig, &mut rng);
            let file = fs::File::options()
                .write(true)
                .open(&files(&rig.target.dir().join("objects"))[0])
                .unwrap();
            file.write_all_at(&vec![0; len / 2], at).unwrap();
        }
        rig.watch.kernel_run.fetch_add(1, Ordering::SeqCst);
        rig.start_again();
        rig.ost.set_checksum_at_rest(true);
        let (size, _) = rig.attr(object(0));
        assert_eq!(read(&rig, 0, size as u32), Ok(size as usize), "round {round}");
        let report = scrub(&rig);
        assert!(report.bad.is_empty(), "round {round}: {report:?}");
        checked += report.checked;
        if rng.bool() {
            rig::wait(rig.ost.flush_all()).unwrap();
        }
    }
    assert!(checked > 0, "never was anything compared");
    let (size, _) = rig.attr(object(0));
    (0..2).for_each(|_| {
        scrub(&rig);
        rig::wait(rig.ost.flush_all()).unwrap();
    });
    assert_eq!(
        scrub(&rig).checked,
        size.div_ceil(BLOCK),
        "what a crash left uncertain is known again"
    );
    stop(&rig);
}

/// An object that was first changed while checksums were off has no marker, so it may get no sums
/// when they are switched on.
#[test]
fn switching_on_and_off_while_objects_change_makes_no_false_alarm() {
    let mut rig = Rig::new();
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..40 {
        for _ in 0..rng.usize(1..6) {
            rig.ost.set_checksum_at_rest(rng.bool());
            let (at, len) = (rng.u64(0..2 * REGION), rng.usize(1..200_000));
            rig.write(object(0), at, vec![rng.u8(1..=255); len]).unwrap();
            if rng.bool() {
                rig.ost.set_checksum_at_rest(rng.bool());
                rig::wait(rig.ost.flush_all()).unwrap();
            }
        }
        let (at, len) = (rng.u64(0..REGION), rng.usize(1..200_000));
        rig.write(object(0), at, vec![rng.u8(1..=255); len]).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(&files(&rig.target.dir().join("objects"))[0])
            .unwrap();
        file.write_all_at(&vec![0; len / 2], at).unwrap();
        rig.watch.kernel_run.fetch_add(1, Ordering::SeqCst);
        rig.start_again();
        rig.ost.set_checksum_at_rest(true);
        let report = scrub(&rig);
        assert!(report.bad.is_empty(), "round {round}: {report:?}");
    }
    stop(&rig);
}

#[test]
fn without_them_the_store_is_left_alone() {
    let mut rig = Rig::new();
    // The start puts a state, and a task of its own then puts the first record.
    for _ in 0..10_000 {
        if rig.target.store().last_assigned() >= Transno(2) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = rig.target.store().last_assigned();
    assert_eq!(before, Transno(2), "the first record of this start");
    rig.write(object(0), 0, vec![7; 10_000]).unwrap();
    rig.write(object(0), 5_000, vec![8; 10_000]).unwrap();
    assert_eq!(rig.target.store().last_assigned(), before, "a record was put");
    rig.restart();
    assert_eq!(read(&rig, 0, 20_000), Ok(15_000));
    assert_eq!(scrub(&rig), ScrubReport { objects: 1, unchecked: 4, ..ScrubReport::default() });
    stop(&rig);
}
