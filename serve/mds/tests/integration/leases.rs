//! Leases: which client gets one, what is called back for it, and what breaks it.

use crate::rig::holder::{Answer, Holder};
use crate::rig::*;
use std::thread::sleep;
use std::time::Duration;
use types::attr::SetAttr;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{InodeBits, LeaseMode};
use types::session::OpenHandle;
use wire::mds::{
    Close, Create, CreateKind, Getattr, Lease, LeaseAct, Lock, MdsOp, MdsReply, Open, OpenFlags,
    Readdir, Setattr, SwapLayouts,
};

const READ: LeaseMode = LeaseMode::Read;
const WRITE: LeaseMode = LeaseMode::Write;
/// The open file that has the lease, as its client calls it.
const OWNER: u64 = 5;

fn ask(rig: &Rig, holder: &Holder, fid: Fid, act: LeaseAct) -> Result<Option<LeaseMode>, Errno> {
    match rig.by(holder, MdsOp::Lease(Lease { fid, owner: OWNER, act })).0? {
        MdsReply::Lease(mode) => Ok(mode),
        other => panic!("{other:?}"),
    }
}

fn acquire(rig: &Rig, holder: &Holder, fid: Fid, mode: LeaseMode) -> Result<(), Errno> {
    ask(rig, holder, fid, LeaseAct::Acquire(mode)).map(|held| assert_eq!(held, Some(mode)))
}

fn check(rig: &Rig, holder: &Holder, fid: Fid) -> Option<LeaseMode> {
    ask(rig, holder, fid, LeaseAct::Check).unwrap()
}

fn open(rig: &Rig, holder: &Holder, fid: Fid, write: bool) -> OpenHandle {
    let flags = OpenFlags { read: true, write, exec: false, append: false, lasting: false };
    opened(rig.by(holder, MdsOp::Open(Open { fid, flags })).0.unwrap()).1
}

fn close(rig: &Rig, holder: &Holder, fid: Fid, handle: OpenHandle) {
    assert_eq!(rig.by(holder, MdsOp::Close(Close { fid, handle })).0, Ok(MdsReply::Done));
}

fn bits_of(granted: &[(Fid, InodeBits)], fid: Fid) -> InodeBits {
    granted.iter().find(|(of, _)| *of == fid).map_or(InodeBits::NONE, |(_, bits)| *bits)
}

/// A client that reads files ahead asks for what an open would bring. That is no open.
#[test]
fn a_listing_with_layouts_grants_what_an_open_would_unless_there_are_leases() {
    let rig = Rig::new();
    let b = rig.holder(11);
    let file = rig.file("f");
    let list = |holder: &Holder| {
        let (fid, limit, bytes_max) = (Fid::ROOT, 9, 1 << 20);
        let op = Readdir { fid, after: None, limit, bytes_max, with_attr: true, with_layout: true };
        let (answer, granted) = rig.by(holder, MdsOp::Readdir(op));
        let Ok(MdsReply::Entries { entries, .. }) = answer else { panic!("{answer:?}") };
        assert!(entries.iter().all(|entry| entry.layout.is_some()));
        bits_of(&granted, file)
    };
    let shown = InodeBits::LOOKUP.union(InodeBits::UPDATE).union(InodeBits::LAYOUT);
    let to_read = shown.union(InodeBits::DATA).union(InodeBits::OPEN);
    assert_eq!(list(&rig.holder(10)), to_read);
    let leased = rig.file("h");
    open(&rig, &b, leased, false);
    assert_eq!(acquire(&rig, &b, leased, READ), Ok(()));
    assert_eq!(list(&rig.holder(12)), shown);
    assert_eq!(check(&rig, &b, leased), Some(READ), "a listing breaks none");
}

#[test]
fn who_has_it_open_elsewhere_is_in_the_way() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    open(&rig, &a, file, true);
    assert_eq!(acquire(&rig, &a, file, WRITE), Ok(()), "its own handle is its own to look after");
    let reads = open(&rig, &b, file, false);
    assert_eq!(check(&rig, &a, file), None);
    assert_eq!(acquire(&rig, &a, file, WRITE), Err(Errno::EBUSY));
    assert_eq!(acquire(&rig, &a, file, READ), Ok(()));
    assert_eq!(acquire(&rig, &b, file, READ), Err(Errno::EBUSY), "the first has it open to write");
    let writes = open(&rig, &b, file, true);
    assert_eq!(check(&rig, &a, file), None);
    assert_eq!(acquire(&rig, &a, file, READ), Err(Errno::EBUSY));
    close(&rig, &b, file, writes);
    assert_eq!(acquire(&rig, &a, file, READ), Ok(()));
    close(&rig, &b, file, reads);
    assert_eq!(ask(&rig, &a, file, LeaseAct::Release), Ok(Some(READ)));
    assert_eq!((ask(&rig, &a, file, LeaseAct::Release), check(&rig, &a, file)), (Ok(None), None));

    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    assert_eq!(acquire(&rig, &a, dir, READ), Err(Errno::EINVAL));
    assert_eq!(acquire(&rig, &a, Fid { oid: 999, ..file }, READ), Err(Errno::ESTALE));
}

#[test]
fn what_lets_others_go_on_without_telling_is_called_back() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    let granted = rig.warm(
        &b,
        MdsOp::Open(Open {
            fid: file,
            flags: OpenFlags {
                read: true,
                write: false,
                exec: false,
                append: false,
                lasting: false,
            },
        }),
    );
    assert!(bits_of(&granted, file).contains(InodeBits::OPEN.union(InodeBits::DATA)));
    rig.gone(b.client);
    // The same, closed in order: only the locks are left.
    let b = rig.holder(12);
    let reads = open(&rig, &b, file, false);
    close(&rig, &b, file, reads);

    open(&rig, &a, file, false);
    assert_eq!(acquire(&rig, &a, file, READ), Ok(()));
    b.at_rest();
    b.answers(Answer::Kept);
    assert_eq!(acquire(&rig, &a, file, WRITE), Err(Errno::EBUSY), "open there without a handle");
    assert_eq!(bits_of(&b.revoked(), file), InodeBits::OPEN.union(InodeBits::DATA));
    assert_eq!(check(&rig, &a, file), Some(READ), "a lease that was refused changes nothing");
    b.answers(Answer::Done);
    assert_eq!(acquire(&rig, &a, file, WRITE), Ok(()));
    assert_eq!(bits_of(&b.revoked(), file), InodeBits::OPEN);
    // From now on its mount must ask, and that breaks it.
    assert_eq!(check(&rig, &a, file), Some(WRITE));
    assert!(rig.by(&b, MdsOp::Getattr(Getattr::of(file))).0.is_ok());
    assert_eq!(check(&rig, &a, file), Some(WRITE), "looking is no use");
    open(&rig, &b, file, false);
    assert_eq!(check(&rig, &a, file), None);

    // A writer that has closed: what it wrote is stored first.
    let c = rig.holder(13);
    let writes = open(&rig, &c, file, true);
    assert!(
        rig.by(&c, MdsOp::Lock(Lock { fid: file, bits: InodeBits::WRITE, needs: None })).0.is_ok()
    );
    close(&rig, &c, file, writes);
    assert_eq!(acquire(&rig, &a, file, READ), Ok(()));
    assert!(bits_of(&c.revoked(), file).contains(InodeBits::WRITE));
}

#[test]
fn whoever_comes_while_others_are_asked_is_in_the_way() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let file = rig.file("f");
    let reads = open(&rig, &b, file, false);
    close(&rig, &b, file, reads);
    open(&rig, &a, file, false);
    b.answers(Answer::Later);
    let asks = rig
        .start(&a, MdsOp::Lease(Lease { fid: file, owner: OWNER, act: LeaseAct::Acquire(WRITE) }));
    b.revoked();
    let flags = OpenFlags { read: true, write: false, exec: false, append: false, lasting: false };
    let (opened, granted) = rig.by(&c, MdsOp::Open(Open { fid: file, flags }));
    assert!(opened.is_ok() && !bits_of(&granted, file).contains(InodeBits::OPEN));
    sleep(Duration::from_millis(20));
    assert!(!asks.is_finished());
    b.answers(Answer::Done);
    assert_eq!(asks.join().unwrap().results[0].clone().err(), Some(Errno::EBUSY));
    assert_eq!(check(&rig, &a, file), None);
}

/// An operation of another client, on a file that `a` has a lease of.
fn broken_by(mode: LeaseMode, op: impl Fn(Fid) -> MdsOp) -> bool {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    open(&rig, &a, file, false);
    acquire(&rig, &a, file, mode).unwrap();
    let done = rig.by(&b, op(file)).0;
    assert!(done.is_ok(), "{done:?}");
    check(&rig, &a, file).is_none()
}

#[test]
fn what_breaks_a_lease() {
    let flags = |write| OpenFlags { read: true, write, exec: false, append: false, lasting: false };
    let create = |write| {
        let kind = CreateKind::Regular(Some(flags(write)));
        MdsOp::Create(Create {
            parent: Fid::ROOT,
            name: n("f"),
            kind,
            mode: 0o644,
            umask: 0,
            exclusive: false,
        })
    };
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    let both = |op: &dyn Fn(Fid) -> MdsOp| (broken_by(READ, op), broken_by(WRITE, op));
    assert_eq!(both(&|fid| MdsOp::Open(Open { fid, flags: flags(true) })), (true, true));
    assert_eq!(both(&|fid| MdsOp::Open(Open { fid, flags: flags(false) })), (false, true));
    assert_eq!(both(&|_| create(true)), (true, true));
    assert_eq!(both(&|_| create(false)), (false, true));
    assert_eq!(
        both(&|fid| MdsOp::Lock(Lock { fid, bits: InodeBits::WRITE, needs: None })),
        (true, true)
    );
    assert_eq!(
        both(&|fid| MdsOp::Lock(Lock { fid, bits: InodeBits::DATA, needs: None })),
        (false, true)
    );
    assert_eq!(both(&|fid| MdsOp::Setattr(Setattr { fid, set: size(7) })), (true, true));
    let chmod = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(both(&|fid| MdsOp::Setattr(Setattr { fid, set: chmod })), (false, false));
    assert_eq!(both(&|fid| MdsOp::Getattr(Getattr::of(fid))), (false, false));
}

#[test]
fn an_exchange_of_layouts_leaves_the_lease_of_whoever_asks_for_it() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let (file, other) = (rig.file("f"), rig.file("g"));
    let swap =
        || MdsOp::SwapLayouts(SwapLayouts { fid: file, other, versions: (0, 0), same: false });
    for fid in [file, other] {
        open(&rig, &a, fid, false);
        acquire(&rig, &a, fid, WRITE).unwrap();
    }
    assert_eq!(rig.by(&a, swap()).0, Ok(MdsReply::Done));
    assert_eq!((check(&rig, &a, file), check(&rig, &a, other)), (Some(WRITE), Some(WRITE)));
    assert_eq!(rig.by(&b, swap()).0, Ok(MdsReply::Done));
    assert_eq!((check(&rig, &a, file), check(&rig, &a, other)), (None, None));
}

#[test]
fn a_lease_ends_with_its_session_and_with_the_mdt() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    open(&rig, &a, file, true);
    acquire(&rig, &a, file, READ).unwrap();
    open(&rig, &b, file, false);
    assert_eq!(acquire(&rig, &b, file, READ), Err(Errno::EBUSY));
    rig.gone(a.client);
    assert_eq!(acquire(&rig, &b, file, WRITE), Ok(()));
    let a = rig.holder(10);
    assert_eq!(check(&rig, &a, file), None);

    let rig = rig.restart();
    let b = rig.holder(11);
    assert_eq!((check(&rig, &b, file), ask(&rig, &b, file, LeaseAct::Release)), (None, Ok(None)));
}
