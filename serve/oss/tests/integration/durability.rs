//! Changes that are reported durable are durable; an error is reported for those that cannot be.

use crate::rig::{Rig, object, only, wait};
use oss::settings::OstSettings;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use types::errno::Errno;
use types::object::ObjectOffset;
use types::session::Transno;
use wire::ost::{ObjectDestroy, ObjectGetattr, ObjectSync, ObjectWrite, OstOp, OstReply};

fn write(stripe: u32, sync: bool) -> OstOp {
    OstOp::Write(ObjectWrite {
        object: object(stripe),
        offset: ObjectOffset(0),
        data: vec![7; 5000].into(),
        sync,
    })
}

#[test]
fn a_sync_write_is_on_disk_with_its_name_before_the_reply() {
    let rig = Rig::new();
    let files = rig.watch.file_syncs.load(SeqCst);
    let folders = rig.watch.folder_syncs.load(SeqCst);
    let reply = rig.call(vec![write(0, true)]);
    assert!(
        rig.watch.file_syncs.load(SeqCst) > files && rig.watch.folder_syncs.load(SeqCst) > folders
    );
    assert!(reply.transno.0 > 0);
}

#[test]
fn last_committed_moves_with_syncs_and_never_too_far() {
    let rig = Rig::new();
    let first = rig.call(vec![write(0, false)]);
    assert!(first.last_committed < first.transno);
    let second = rig.call(vec![write(1, true)]);
    assert!(second.last_committed < first.transno, "object 0 is older and not synced");
    let reply = rig.call(vec![OstOp::Sync(ObjectSync { objects: vec![object(0)] })]);
    assert!(reply.last_committed < first.transno, "it is not recorded");
    let third = rig.call(vec![write(2, false)]);
    let reply = rig.call(vec![OstOp::Sync(ObjectSync { objects: vec![] })]);
    assert_eq!((reply.last_committed, reply.transno.0), (third.transno, 0));
    // A removal is durable at once.
    let folders = rig.watch.folder_syncs.load(SeqCst);
    let reply =
        rig.call(vec![OstOp::Destroy(ObjectDestroy { objects: vec![object(0), object(5)] })]);
    assert!(reply.transno > third.transno && reply.redo.is_empty());
    assert!(rig.watch.folder_syncs.load(SeqCst) > folders);
    let last = rig.call(vec![OstOp::Sync(ObjectSync { objects: vec![] })]);
    assert_eq!(last.last_committed, reply.transno);
}

#[test]
fn changes_are_flushed_though_nobody_asks() {
    let rig = Rig::with(
        None,
        OstSettings { flush_interval: Duration::from_millis(20), ..OstSettings::default() },
    );
    let reply = rig.call(vec![write(0, false)]);
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while rig.ost.last_committed() < reply.transno {
        assert!(std::time::Instant::now() < end, "not flushed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(rig.watch.file_syncs.load(SeqCst) + rig.watch.volume_syncs.load(SeqCst) > 0);
}

#[test]
fn after_a_failed_sync_nothing_is_believed() {
    let rig = Rig::new();
    let before = rig.call(vec![write(0, false)]).last_committed;
    rig.watch.fail_syncs.store(true, SeqCst);
    assert_eq!(only(rig.call(vec![write(0, true)])), Err(Errno::EIO));
    rig.watch.fail_syncs.store(false, SeqCst);
    assert_eq!(rig.one(OstOp::Sync(ObjectSync { objects: vec![object(0)] })), Err(Errno::EIO));
    assert_eq!(rig.one(OstOp::Sync(ObjectSync { objects: vec![] })), Err(Errno::EIO));
    assert_eq!(only(rig.call(vec![write(1, false)])), Err(Errno::EIO));
    assert!(
        rig.ost.last_committed() <= before.max(Transno(1 << 40)),
        "what this start wrote is not there"
    );
    assert_eq!(rig.read(object(0), 0, 9).len(), 9, "what memory has can still be read");
    assert_eq!(wait(rig.ost.stop()), Err(Errno::EIO));
}

#[test]
fn a_restart_keeps_data_and_goes_on_counting() {
    let mut rig = Rig::new();
    let last = rig.call(vec![write(0, false)]).transno;
    rig.restart();
    assert!(rig.ost.last_committed() >= last, "an orderly stop leaves nothing open");
    assert_eq!(rig.read(object(0), 0, 10_000)[..], [7; 5000]);
    assert!(rig.call(vec![write(0, false)]).transno > last);
}

#[test]
fn a_stopped_ost_answers_so() {
    let rig = Rig::new();
    rig.call(vec![write(0, false)]);
    wait(rig.ost.stop()).unwrap();
    assert_eq!(rig.one(OstOp::Getattr(ObjectGetattr { object: object(0) })), Err(Errno::ESHUTDOWN));
}

#[test]
fn a_late_write_does_not_bring_an_object_back() {
    let rig = Rig::new();
    rig.call(vec![write(0, false)]);
    for reactor in [false, true] {
        let call =
            |op| only(if reactor { rig.call_on_reactor(vec![op]) } else { rig.call(vec![op]) });
        assert_eq!(
            call(OstOp::Destroy(ObjectDestroy { objects: vec![object(0)] })),
            Ok(OstReply::Done)
        );
        assert_eq!(call(write(0, false)), Err(Errno::ESTALE));
        assert_eq!(call(write(0, true)), Err(Errno::ESTALE));
        assert_eq!(
            call(OstOp::Getattr(ObjectGetattr { object: object(0) })),
            Ok(OstReply::Attr { size: 0, blocks: 0 })
        );
    }
    assert_eq!(rig.target.objects().unwrap().size_and_blocks(object(0)), Ok(None));
    assert_eq!(rig.read(object(0), 0, 10).len(), 0);
}

#[test]
fn a_long_write_goes_to_the_disk_meanwhile_and_is_durable_only_after_its_sync() {
    const MIB: u64 = 1 << 20;
    let rig = Rig::new();
    let block: bytes::Bytes = (0..MIB).map(|n| (n % 253) as u8).collect::<Vec<_>>().into();
    for n in 0..20 {
        rig.write(object(0), n * MIB, block.clone()).unwrap();
    }
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while rig.watch.write_backs.lock().unwrap().len() < 2 {
        assert!(std::time::Instant::now() < end, "nothing is written back");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut ranges = rig.watch.write_backs.lock().unwrap().clone();
    ranges.sort_unstable();
    assert_eq!(ranges, [(0, 8 * MIB), (8 * MIB, 8 * MIB)]);
    let written = rig.call(vec![write(1, false)]);
    assert!(written.last_committed < written.transno, "writing back is no sync");
    assert_eq!(
        rig.call(vec![OstOp::Sync(ObjectSync { objects: vec![] })]).last_committed,
        written.transno
    );
    (0..20).for_each(|n| assert_eq!(rig.read(object(0), n * MIB, MIB as u32), block));
}
