//! Files that several clients write at once: which client gets which bytes, and which is called
//! back (docs/locks/protocol.md, "Shared-write files").

use crate::rig::holder::*;
use crate::rig::*;
use types::attr::{SetAttr, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{InodeBits, LeaseMode};
use types::ranges::{ByteRange, Extent, Needs};
use types::time::Timestamp;
use wire::client::{ClientOp, Glimpse};
use wire::mds::{
    Getattr, Lease, LeaseAct, Lock, Lookup, MdsOp, MdsReply, Setattr, Unlink, Unlock, Wrote,
};

const TO_WRITE: InodeBits = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
const ALL: ByteRange = ByteRange::ALL;

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

fn lock(fid: Fid, start: u64, end: u64) -> MdsOp {
    MdsOp::Lock(Lock {
        fid,
        bits: TO_WRITE,
        needs: Some(Needs { range: range(start, end), again: false }),
    })
}

fn whole(fid: Fid) -> MdsOp {
    MdsOp::Lock(Lock { fid, bits: TO_WRITE, needs: None })
}

fn wrote(fid: Fid, end: u64) -> MdsOp {
    MdsOp::Wrote(Wrote { fid, end, blocks_delta: 1, at: WrittenAt::Now, kill_suidgid: false })
}

/// The grant of a request: an extent, or the whole.
fn granted(answer: (Result<MdsReply, Errno>, Vec<(Fid, InodeBits)>)) -> Option<Extent> {
    match answer {
        (Ok(MdsReply::Extents { ranges, write, .. }), grants) => {
            assert_eq!(grants, []);
            Some(Extent { range: ranges[0], write })
        }
        (Ok(MdsReply::Entry(entry)), grants) => {
            assert_eq!(grants, [(entry.attr.fid, TO_WRITE)]);
            None
        }
        other => panic!("{other:?}"),
    }
}

fn revokes(fid: Fid, range: ByteRange) -> ClientOp {
    ClientOp::RevokeExtents { extents: vec![(fid, range)] }
}

/// Two that write by turns until the file is shared: `a` has the first ten bytes, `b` what is
/// behind.
fn share(rig: &Rig, a: &Holder, b: &Holder, fid: Fid) {
    assert_eq!(granted(rig.by(a, lock(fid, 0, 10))), None, "alone");
    for (client, other) in [(b, a), (a, b), (b, a)] {
        assert_eq!(granted(rig.by(client, lock(fid, 10, 20))), None, "not hot yet");
        assert_eq!(other.revoked(), [(fid, TO_WRITE)]);
    }
    assert_eq!(granted(rig.by(a, lock(fid, 0, 10))), Some(Extent { range: ALL, write: true }));
    assert_eq!(b.revoked(), [(fid, TO_WRITE)]);
    let got = granted(rig.by(b, lock(fid, 10, 20))).expect("an extent");
    assert_eq!(a.asked(), revokes(fid, ALL));
    assert_eq!(got.range, range(0, 20 + (4 << 20)));
    assert_eq!(granted(rig.by(a, lock(fid, 0, 10))).expect("an extent").range, range(0, 10));
    assert_eq!(b.asked(), revokes(fid, got.range));
    assert_eq!(granted(rig.by(b, lock(fid, 10, 20))).expect("an extent").range, range(10, 20));
    a.at_rest();
    b.at_rest();
}

#[test]
fn a_file_that_changes_hands_becomes_shared_and_then_no_client_is_asked() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    for turn in 1..50 {
        let at = 20 * turn;
        assert!(granted(rig.by(&a, lock(file, at, at + 10))).is_some());
        assert!(granted(rig.by(&b, lock(file, at + 10, at + 20))).is_some());
        assert!(
            rig.by(&a, wrote(file, at + 10)).0.is_ok()
                && rig.by(&b, wrote(file, at + 20)).0.is_ok()
        );
    }
    a.at_rest();
    b.at_rest();
    assert_eq!(rig.getattr(file).unwrap().size, 20 * 50);
}

#[test]
fn size_and_times_are_the_largest_that_members_know() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    let size = |size, sec| Answer::Size(Glimpse { size, mtime: Timestamp { sec, nsec: 0 } });
    a.answers(size(10, 1 << 40));
    b.answers(size(20, 1 << 39));
    let (Ok(MdsReply::Entry(entry)), grants) = rig.by(&c, MdsOp::Getattr(Getattr::of(file))) else {
        panic!("an entry")
    };
    assert_eq!((entry.attr.size, entry.attr.mtime.sec), (20, 1 << 40));
    assert_eq!(grants, [(file, InodeBits::LOOKUP)], "attributes are not covered");
    let glimpse = ClientOp::Glimpse { fids: vec![file], store: false };
    for member in [&a, &b] {
        assert_eq!(
            (member.asked(), member.asked()),
            (glimpse.clone(), glimpse.clone()),
            "until two rounds agree"
        );
        member.at_rest();
    }
    // A member asks for what the others know.
    assert!(rig.by(&a, MdsOp::Getattr(Getattr::of(file))).0.is_ok());
    assert_eq!(b.asked(), glimpse);
    a.at_rest();
    // A read without a lock: what they wrote is stored first.
    let stored = MdsOp::Getattr(Getattr { fid: file, stored: true });
    assert!(rig.by(&a, stored).0.is_ok());
    assert_eq!(b.asked(), ClientOp::Glimpse { fids: vec![file], store: true });
}

#[test]
fn a_file_that_goes_while_its_writer_is_asked_is_not_shown_with_an_old_size() {
    for (by_name, expected) in [(false, Errno::ESTALE), (true, Errno::EAGAIN)] {
        let rig = Rig::new();
        let (a, b) = (rig.holder(10), rig.holder(11));
        let file = rig.file("f");
        assert_eq!(granted(rig.by(&a, whole(file))), None);
        a.answers(Answer::Later);
        let look = match by_name {
            true => MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: n("f") }),
            false => MdsOp::Getattr(Getattr::of(file)),
        };
        let looks = rig.start(&b, look);
        assert_eq!(a.asked(), ClientOp::Glimpse { fids: vec![file], store: false });
        let unlink = Unlink { parent: Fid::ROOT, name: n("f") };
        assert!(rig.by(&a, MdsOp::Unlink(unlink)).0.is_ok());
        a.answers(Answer::Size(Glimpse { size: 10, mtime: Timestamp::default() }));
        assert_eq!(looks.join().unwrap().results, [Err(expected)]);
    }
}

#[test]
fn who_needs_the_whole_gets_it_when_all_is_back() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    a.answers(Answer::Later);
    let waits = rig.start(&c, whole(file));
    assert_eq!((a.asked(), b.asked()), (revokes(file, range(0, 10)), revokes(file, range(10, 20))));
    // Behind it.
    let later = rig.start(&b, lock(file, 10, 20));
    a.answers(Answer::Done);
    assert_eq!(waits.join().unwrap().grants[0].bits, TO_WRITE);
    assert_eq!(c.revoked(), [(file, TO_WRITE)]);
    assert!(later.join().unwrap().results[0].is_ok());
}

#[test]
fn a_change_of_attributes_calls_all_back_and_the_members_own_wrote_does_not() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    assert!(rig.by(&a, wrote(file, 10)).0.is_ok());
    a.at_rest();
    b.at_rest();
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert!(rig.by(&a, MdsOp::Setattr(Setattr { fid: file, set })).0.is_ok());
    assert_eq!((a.asked(), b.asked()), (revokes(file, range(0, 10)), revokes(file, range(10, 20))));
    assert_eq!(granted(rig.by(&a, lock(file, 0, 10))), None, "nobody is there any more");
}

#[test]
fn what_a_client_had_is_free_when_it_is_gone_or_gives_it_up() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    assert!(rig.by(&b, MdsOp::Unlock(Unlock { locks: vec![(file, TO_WRITE)] })).0.is_ok());
    assert!(granted(rig.by(&a, lock(file, 10, 20))).is_some());
    b.at_rest();
    assert!(rig.by(&a, MdsOp::Unlock(Unlock { locks: vec![(file, TO_WRITE)] })).0.is_ok());
    assert_eq!(rig.mds.lock_count(), 0, "the file is no longer shared");
    assert_eq!(
        rig.by(&a, lock(file, 5, 5)).0,
        Ok(rig.by(&a, MdsOp::Getattr(Getattr::of(file))).0.unwrap())
    );
}

#[test]
fn a_removed_file_is_not_shared() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    assert!(rig.by(&a, MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: n("f") })).0.is_ok());
    assert_eq!((a.asked(), b.asked()), (revokes(file, range(0, 10)), revokes(file, range(10, 20))));
    assert_eq!(rig.by(&a, lock(file, 0, 10)).0, Err(Errno::ESTALE));
}

/// Answer to a holder about the lease of its only open file.
fn lease(rig: &Rig, holder: &Holder, fid: Fid, act: LeaseAct) -> Option<LeaseMode> {
    match rig.by(holder, MdsOp::Lease(Lease { fid, owner: 5, act })).0 {
        Ok(MdsReply::Lease(mode)) => mode,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extent_breaks_the_leases_that_a_lock_would() {
    let rig = Rig::new();
    let (mut a, mut b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    share(&rig, &a, &b, file);
    for (mode, write) in [
        (LeaseMode::Read, false),
        (LeaseMode::Read, true),
        (LeaseMode::Write, false),
        (LeaseMode::Write, true),
    ] {
        // All extents are called back for it.
        assert_eq!(lease(&rig, &a, file, LeaseAct::Acquire(mode)), Some(mode));
        assert_eq!(granted(rig.by(&a, whole(file))), None, "its own locks are no use of others");
        assert_eq!(lease(&rig, &a, file, LeaseAct::Check), Some(mode));
        let bits = if write { TO_WRITE } else { InodeBits::DATA };
        let needs = Some(Needs { range: range(10, 20), again: false });
        let got =
            granted(rig.by(&b, MdsOp::Lock(Lock { fid: file, bits, needs }))).expect("an extent");
        assert_eq!(got.write, write);
        let stands = !mode.is_broken(write);
        assert_eq!(
            lease(&rig, &a, file, LeaseAct::Check),
            stands.then_some(mode),
            "{mode:?} {write}"
        );
        // Clients that take turns keep the file hot.
        std::mem::swap(&mut a, &mut b);
    }
}
