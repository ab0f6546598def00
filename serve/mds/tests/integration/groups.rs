//! Group locks: files whose data belongs to a group, and the clients that wait.

use crate::rig::*;
use std::thread::sleep;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor, FlockKind, InodeBits};
use wire::mds::{FlockSet, Lock, MdsOp, MdsReply, Open, OpenFlags};

const DATA: InodeBits = InodeBits::DATA;
const WRITE: InodeBits = InodeBits::WRITE;

fn group(fid: Fid, owner: u64, kind: FlockKind) -> MdsOp {
    let lock = Flock { flavor: FlockFlavor::Group, kind, owner, pid: 1, start: 0, end: u64::MAX };
    MdsOp::FlockSet(FlockSet { fid, lock, wait: false })
}

fn open(fid: Fid) -> MdsOp {
    MdsOp::Open(Open {
        fid,
        flags: OpenFlags { read: true, write: false, exec: false, append: false, lasting: false },
    })
}

fn bits_of(granted: &[(Fid, InodeBits)], fid: Fid) -> InodeBits {
    granted.iter().find(|(of, _)| *of == fid).map_or(InodeBits::NONE, |(_, bits)| *bits)
}

#[test]
fn who_is_not_of_the_group_gets_no_data_and_waits_for_it() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    assert!(bits_of(&rig.warm(&c, open(file)), file).contains(DATA), "nobody is in the way");
    assert_eq!(rig.by(&a, group(file, 7, FlockKind::Write)).0, Ok(MdsReply::Done));
    assert_eq!(rig.by(&b, group(file, 8, FlockKind::Write)).0, Err(Errno::EAGAIN));
    assert_eq!(rig.by(&b, group(file, 7, FlockKind::Write)).0, Ok(MdsReply::Done));

    // The first of the group calls earlier grants back, and they do not come again.
    assert!(rig.by(&a, MdsOp::Lock(Lock { fid: file, bits: WRITE, needs: None })).0.is_ok());
    assert!(bits_of(&c.revoked(), file).contains(DATA));
    assert!(!bits_of(&rig.warm(&c, open(file)), file).contains(DATA));
    let waits = rig.start(&c, MdsOp::Lock(Lock { fid: file, bits: DATA, needs: None }));
    // Members go on, taking turns.
    assert!(rig.by(&b, MdsOp::Lock(Lock { fid: file, bits: WRITE, needs: None })).0.is_ok());
    assert!(rig.by(&a, MdsOp::Lock(Lock { fid: file, bits: WRITE, needs: None })).0.is_ok());
    sleep(Duration::from_millis(20));
    assert!(!waits.is_finished());

    assert!(rig.by(&a, group(file, 7, FlockKind::Unlock)).0.is_ok());
    sleep(Duration::from_millis(20));
    assert!(!waits.is_finished(), "one of the group is left");
    rig.gone(b.client);
    assert!(waits.join().unwrap().results[0].is_ok());
    assert!(bits_of(&rig.warm(&c, open(file)), file).contains(DATA));
}

#[test]
fn who_waits_may_join_and_who_goes_waits_no_more() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    assert!(rig.by(&a, group(file, 7, FlockKind::Write)).0.is_ok());
    let of_b = rig.start(&b, MdsOp::Lock(Lock { fid: file, bits: DATA, needs: None }));
    let of_c = rig.start(&c, MdsOp::Lock(Lock { fid: file, bits: DATA, needs: None }));
    assert!(rig.by(&b, group(file, 7, FlockKind::Write)).0.is_ok());
    assert!(of_b.join().unwrap().results[0].is_ok());
    c.export.evict();
    rig.gone(c.client);
    assert_eq!(of_c.join().unwrap().results[0].clone().err(), Some(Errno::ENOTCONN));
}
