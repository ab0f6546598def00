//! A full OST refuses, loses nothing, and can always be emptied.

use crate::rig::{Rig, object};
use oss::settings::OstSettings;
use std::sync::atomic::Ordering::SeqCst;
use types::errno::Errno;
use types::object::ObjectOffset;
use wire::ost::{GrantSpace, ObjectDestroy, ObjectPunch, ObjectWrite, OstOp, OstReply, PunchKind};

const MAX: u64 = 1 << 20;
const CHUNK: usize = 65536;

fn statfs(rig: &Rig) -> types::attr::Statfs {
    match rig.one(OstOp::Statfs).unwrap() {
        OstReply::Statfs(s) => s,
        other => panic!("{other:?}"),
    }
}

/// Writes chunks to two objects in turn until one is refused; how many each has.
fn fill(rig: &Rig) -> [usize; 2] {
    let mut chunks = [0; 2];
    for n in 0.. {
        let which = n % 2;
        match rig.write(
            object(which as u32),
            (chunks[which] * CHUNK) as u64,
            vec![n as u8 + 1; CHUNK],
        ) {
            Ok(_) => chunks[which] += 1,
            Err(errno) => {
                assert_eq!(errno, Errno::ENOSPC);
                break;
            }
        }
        assert!(n < 100, "the limit holds");
    }
    chunks
}

fn check(rig: &Rig, chunks: [usize; 2]) {
    for (which, count) in chunks.into_iter().enumerate() {
        let object = object(which as u32);
        assert_eq!(rig.attr(object).0, (count * CHUNK) as u64);
        for chunk in 0..count {
            let data = rig.read(object, (chunk * CHUNK) as u64, CHUNK as u32);
            assert!(
                data.len() == CHUNK && data.iter().all(|b| *b == (2 * chunk + which) as u8 + 1)
            );
        }
    }
}

#[test]
fn what_was_acknowledged_stays_and_space_comes_back() {
    let mut rig = Rig::with(Some(MAX), OstSettings::default());
    assert_eq!(statfs(&rig).bytes_total, MAX);
    let chunks = fill(&rig);
    assert!(chunks[0] + chunks[1] >= 14, "{chunks:?}");
    check(&rig, chunks);
    assert!(statfs(&rig).bytes_free < CHUNK as u64 * 2);
    // Overwriting needs no space.
    rig.write(object(0), 0, vec![1; CHUNK]).unwrap();
    rig.restart();
    check(&rig, chunks);
    // The refusal outlives the restart, and so does the way out.
    let more = OstOp::Punch(ObjectPunch {
        object: object(3),
        start: ObjectOffset(0),
        end: ObjectOffset(MAX),
        kind: PunchKind::Allocate,
    });
    assert_eq!(rig.one(more.clone()), Err(Errno::ENOSPC));
    let hole = OstOp::Punch(ObjectPunch {
        object: object(0),
        start: ObjectOffset(0),
        end: ObjectOffset(2 * CHUNK as u64),
        kind: PunchKind::Hole,
    });
    let OstReply::Changed { blocks_delta } = rig.one(hole).unwrap() else { panic!() };
    assert!(blocks_delta <= -200, "{blocks_delta}");
    rig.write(object(2), 0, vec![9; CHUNK]).unwrap();
    assert_eq!(
        rig.one(OstOp::Destroy(ObjectDestroy { objects: vec![object(0), object(1), object(2)] })),
        Ok(OstReply::Done)
    );
    assert_eq!(statfs(&rig).bytes_free, MAX);
    assert!(rig.write(object(4), 0, vec![3; 10 * CHUNK]).is_ok());
}

#[test]
fn sharers_of_a_volume_report_equal_parts() {
    let alone = Rig::new();
    let rig = Rig::with(None, OstSettings { volume_sharers: 4, ..OstSettings::default() });
    [&alone, &rig].iter().for_each(|rig| rig.watch.volume_free.store(8 << 30, SeqCst));
    let one = statfs(&alone);
    assert_eq!((one.bytes_total, statfs(&rig).bytes_total), (8 << 30, 2 << 30));
    assert!(
        statfs(&rig).bytes_available <= statfs(&rig).bytes_free
            && statfs(&rig).files_total <= one.files_total
    );
}

#[test]
fn totals_are_what_objects_take_and_may_take() {
    let mut rig = Rig::new();
    rig.watch.volume_free.store(8 << 30, SeqCst);
    // Objects that exist at the start are counted in the background, and changed ones when their
    // turn comes.
    let used = |rig: &Rig, chunks: u64, objects: u64| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let space = statfs(rig);
            let found =
                (space.bytes_total - space.bytes_free, space.files_total - space.files_free);
            if found == (chunks * CHUNK as u64, objects) {
                return;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{found:?} is shown for {chunks} chunks in {objects} objects"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    used(&rig, 0, 0);
    for n in 0..3 {
        rig.write(object(n), 0, vec![1; CHUNK]).unwrap();
    }
    used(&rig, 3, 3);
    rig.one(OstOp::Destroy(ObjectDestroy { objects: vec![object(0)] })).unwrap();
    used(&rig, 2, 2);
    rig.restart();
    rig.watch.volume_free.store(8 << 30, SeqCst);
    used(&rig, 2, 2);
    rig.write(object(1), CHUNK as u64, vec![1; CHUNK]).unwrap();
    used(&rig, 3, 2);
}

#[test]
fn a_part_of_the_volume_is_left_for_what_makes_room() {
    let reserve = 64 << 20;
    let rig = Rig::new();
    rig.watch.volume_free.store(reserve + 2 * CHUNK as u64, SeqCst);
    rig.write(object(0), 0, vec![1; CHUNK]).unwrap();
    rig.write(object(0), CHUNK as u64, vec![2; CHUNK]).unwrap();
    rig.watch.volume_free.store(reserve + 10, SeqCst);
    assert_eq!(statfs(&rig).bytes_available, 10);
    assert_eq!(rig.write(object(0), 2 * CHUNK as u64, vec![3; CHUNK]), Err(Errno::ENOSPC));
    assert_eq!(rig.write(object(0), CHUNK as u64 + 9, vec![3; CHUNK]), Err(Errno::ENOSPC));
    assert_eq!(rig.attr(object(0)).0, 2 * CHUNK as u64, "a refusal changes nothing");
    rig.write(object(0), 9, vec![4; CHUNK]).expect("overwriting takes nothing");
    assert_eq!(rig.read(object(0), 0, 3 * CHUNK as u32)[8..11], [1, 4, 4]);
    let cut = |kind| {
        OstOp::Punch(ObjectPunch {
            object: object(0),
            start: ObjectOffset(5),
            end: ObjectOffset(9),
            kind,
        })
    };
    assert!(rig.one(cut(PunchKind::Hole)).is_ok() && rig.one(cut(PunchKind::Truncate)).is_ok());
    assert_eq!(
        rig.one(OstOp::Destroy(ObjectDestroy { objects: vec![object(0)] })),
        Ok(OstReply::Done)
    );
    rig.watch.volume_free.store(reserve * 2, SeqCst);
    rig.write(object(1), 0, vec![5; CHUNK]).expect("there is room again");
}

fn grant(spend: u64, want: u64) -> OstOp {
    OstOp::Grant(GrantSpace { spend, back: 0, want })
}

fn granted(rig: &Rig, want: u64) -> u64 {
    match rig.one(grant(0, want)).unwrap() {
        OstReply::Granted { more, .. } => more,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_granted_is_there_when_the_ost_is_full() {
    let rig = Rig::with(Some(16 << 20), OstSettings::default());
    let bytes = granted(&rig, 1 << 20);
    assert_eq!((bytes, rig.ost.granted()), (1 << 20, 1 << 20));
    for n in 0.. {
        if rig.write(object(0), n * CHUNK as u64, vec![1; CHUNK]) == Err(Errno::ENOSPC) {
            break;
        }
        assert!(n < 300, "the limit holds");
    }
    assert!(statfs(&rig).bytes_free >= bytes, "{:?}", statfs(&rig));
    assert_eq!(granted(&rig, 1 << 20), 0, "nothing is left to grant");
    let writes = (0..bytes / CHUNK as u64).map(|n| {
        OstOp::Write(ObjectWrite {
            object: object(1),
            offset: ObjectOffset(n * CHUNK as u64),
            data: vec![7; CHUNK].into(),
            sync: false,
        })
    });
    let reply = rig.call([grant(bytes, 0)].into_iter().chain(writes).collect());
    assert!(reply.results.iter().all(Result::is_ok), "{:?}", reply.results);
    assert_eq!(rig.ost.granted(), 0);
    assert_eq!(rig.attr(object(1)).0, bytes);
    assert_eq!(
        rig.write(object(2), 0, vec![1; 2 * CHUNK]),
        Err(Errno::ENOSPC),
        "and not more than that"
    );
}

#[test]
fn what_is_being_written_is_not_available() {
    let rig = Rig::with(Some(16 << 20), OstSettings::default());
    let before = statfs(&rig).bytes_available;
    let bytes = granted(&rig, 1 << 20);
    let left = statfs(&rig).bytes_available;
    assert_eq!(left, before - bytes);
    // Between the payment and the write the space is neither free nor granted.
    let looks = rig.call(vec![grant(bytes, 0), OstOp::Statfs]);
    let Ok(wire::message::OpReply::Ost(OstReply::Statfs(paid))) = &looks.results[1] else {
        panic!("{:?}", looks.results)
    };
    assert_eq!(paid.bytes_available, left);
    assert!(statfs(&rig).bytes_available > left, "what was not used is free again");
}

#[test]
fn a_grant_ends_when_it_is_given_back_or_its_client_is_gone() {
    use rpc::service::{Gone, Service};
    let rig = Rig::with(Some(64 << 20), OstSettings::default());
    let bytes = granted(&rig, 4 << 20);
    assert_eq!(bytes, 4 << 20);
    assert_eq!(
        rig.one(OstOp::Grant(GrantSpace { spend: 0, back: 1 << 20, want: 0 })),
        Ok(OstReply::Granted { more: 0, paid: 0 })
    );
    assert_eq!(rig.ost.granted(), 3 << 20);
    // Paid and not used: free for all.
    assert_eq!(rig.one(grant(1 << 20, 0)), Ok(OstReply::Granted { more: 0, paid: 1 << 20 }));
    assert_eq!(rig.ost.granted(), 2 << 20);
    rig.ost.gone(rig.export(), Gone::Evicted);
    assert_eq!(rig.ost.granted(), 0);
    assert_eq!(
        rig.one(grant(1 << 20, 0)),
        Ok(OstReply::Granted { more: 0, paid: 0 }),
        "a new session has none"
    );
}
