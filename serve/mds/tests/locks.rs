//! What replies grant, who is asked before something changes, and who waits for whom.

mod rig;

use rig::holder::*;
use rig::*;
use types::attr::SetAttr;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use wire::client::ClientOp;
use wire::mds::{CreateKind, MdsOp, MdsReply, OpenFlags, RenameFlags, SetxattrFlags};

const LOOKUP: InodeBits = InodeBits::LOOKUP;
const UPDATE: InodeBits = InodeBits::UPDATE;
const OPEN: InodeBits = InodeBits::OPEN;
const XATTR: InodeBits = InodeBits::XATTR;
const LAYOUT: InodeBits = InodeBits::LAYOUT;
const DATA: InodeBits = InodeBits::DATA;
const SHOWN: InodeBits = LOOKUP.union(UPDATE);
const MADE: InodeBits = SHOWN.union(LAYOUT);

fn lookup(parent: Fid, name: &str) -> MdsOp {
    MdsOp::Lookup { parent, name: n(name) }
}

fn create(parent: Fid, name: &str) -> MdsOp {
    let kind = CreateKind::Regular(None);
    MdsOp::Create { parent, name: n(name), kind, mode: 0o644, umask: 0, exclusive: true }
}

fn chmod(fid: Fid, mode: u32) -> MdsOp {
    MdsOp::Setattr { fid, set: SetAttr { mode: Some(mode), ..SetAttr::default() } }
}

fn rename(a: &str, b: &str) -> MdsOp {
    let flags = RenameFlags::default();
    MdsOp::Rename { parent: Fid::ROOT, name: n(a), new_parent: Fid::ROOT, new_name: n(b), flags }
}

fn unlink(name: &str) -> MdsOp {
    MdsOp::Unlink { parent: Fid::ROOT, name: n(name) }
}

fn open(fid: Fid, write: bool) -> MdsOp {
    MdsOp::Open { fid, flags: OpenFlags { read: true, write, exec: false } }
}

#[test]
fn what_is_shown_is_granted() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory).unwrap();
    let file = rig.create(dir, "f", CreateKind::Regular(None)).unwrap();
    assert_eq!(rig.by(&a, lookup(dir, "f")).1, [(file, SHOWN), (dir, UPDATE)]);
    assert_eq!(rig.by(&a, lookup(dir, "none")), (Err(Errno::ENOENT), vec![(dir, UPDATE)]));
    assert_eq!(rig.by(&a, MdsOp::Getattr { fid: file }).1, [(file, SHOWN)]);
    assert_eq!(rig.by(&a, MdsOp::GetattrMany { fids: vec![file, dir] }).1, [(file, SHOWN), (dir, SHOWN)]);
    assert_eq!(rig.by(&a, MdsOp::GetParent { fid: dir }).1, [(dir, LOOKUP), (Fid::ROOT, SHOWN)]);
    let getxattr = MdsOp::Getxattr { fid: file, name: b(b"user.none") };
    assert_eq!(rig.by(&a, getxattr), (Err(Errno::ENODATA), vec![(file, XATTR)]));
    assert_eq!(rig.by(&a, MdsOp::Listxattr { fid: file }).1, [(file, XATTR)]);
    let layout = MdsOp::GetLayout { fid: file, write: false, start: 0, end: 1 };
    assert_eq!(rig.by(&a, layout).1, [(file, LAYOUT)]);
    let readdir = |with_attr| MdsOp::Readdir { fid: dir, after: None, limit: 9, bytes_max: 1 << 20, with_attr };
    assert_eq!(rig.by(&a, readdir(false)).1, [(dir, UPDATE)]);
    assert_eq!(rig.by(&a, readdir(true)).1, [(dir, UPDATE), (file, SHOWN)]);
    assert_eq!(rig.by(&a, open(file, false)).1, [(file, MADE.union(OPEN).union(DATA))]);
    a.at_rest();
}

#[test]
fn only_what_the_client_can_keep_is_granted() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let mut request = rig.request(1, &CREDENTIALS, vec![lookup(Fid::ROOT, "none"), create(Fid::ROOT, "f")]);
    request.locks = InodeBits::NONE;
    let reply = wait(rig.mds.serve(&a.export, request));
    assert_eq!((reply.grants, reply.touched), (vec![], vec![]));
}

#[test]
fn an_author_learns_what_it_changed() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let reply = rig.reply(&a, vec![create(Fid::ROOT, "f")]);
    let fid = opened(mds_reply(reply.results[0].clone().unwrap())).0.attr.fid;
    let grants: Vec<_> = reply.grants.iter().map(|grant| (grant.fid, grant.bits)).collect();
    assert_eq!(grants, [(fid, MADE), (Fid::ROOT, UPDATE)]);
    let root = rig.getattr(Fid::ROOT).unwrap();
    assert_eq!(reply.touched.iter().map(|t| t.attr).collect::<Vec<_>>(), [root]);
    let link = MdsOp::Link { fid, new_parent: Fid::ROOT, new_name: n("g") };
    assert_eq!(rig.reply(&a, vec![link]).touched.iter().map(|t| t.attr.fid).collect::<Vec<_>>(), [Fid::ROOT]);
    let touched = rig.reply(&a, vec![unlink("g")]).touched;
    let after = |fid| rig.getattr(fid).unwrap();
    assert_eq!(touched.iter().map(|t| t.attr).collect::<Vec<_>>(), [after(Fid::ROOT), after(fid)]);
    let set = MdsOp::Setxattr { fid, name: b(b"user.a"), value: b(b"1"), flags: SetxattrFlags::default() };
    let reply = rig.reply(&a, vec![set]);
    assert!(reply.touched[0].has_xattr && reply.touched[0].attr == after(fid));
    assert_eq!(reply.grants[0].bits, UPDATE.union(XATTR));
    let touched = rig.reply(&a, vec![rename("f", "h")]).touched;
    assert_eq!(touched.iter().map(|t| t.attr.fid).collect::<Vec<_>>(), [fid, Fid::ROOT]);
    assert_eq!(rig.reply(&a, vec![unlink("h")]).touched.len(), 1, "the file is no more");
    a.at_rest();
}

#[test]
fn holders_are_asked_before_something_changes() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, MdsOp::Getattr { fid: file });
    a.answers(Answer::Later);
    let waiting = rig.start(&b, chmod(file, 0o600));
    assert_eq!(a.revoked(), [(file, UPDATE)]);
    let (shown, grants) = rig.by(&a, MdsOp::Getattr { fid: file });
    assert_eq!((entry(shown.unwrap()).attr.mode, grants), (0o100755, vec![(file, LOOKUP)]), "not yet, and no lock");
    assert!(!waiting.is_finished());
    a.answers(Answer::Done);
    let reply = waiting.join().unwrap();
    assert_eq!(entry(mds_reply(reply.results[0].clone().unwrap())).attr.mode, 0o100600);
    assert_eq!(reply.grants[0].bits, UPDATE);
    assert_eq!(rig.by(&a, MdsOp::Getattr { fid: file }).1, [(file, SHOWN)]);
    a.at_rest();
    b.at_rest();
}

#[test]
fn a_refused_change_asks_nobody() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, lookup(Fid::ROOT, "f"));
    assert_eq!(rig.by(&b, create(Fid::ROOT, "f")).0, Err(Errno::EEXIST));
    assert_eq!(rig.by(&b, MdsOp::Rmdir { parent: Fid::ROOT, name: n("f") }).0, Err(Errno::ENOTDIR));
    let stranger = rig.one_as(b.client, &user(9), chmod(file, 0));
    assert_eq!(stranger, Err(Errno::EPERM));
    a.at_rest();
}

#[test]
fn many_holders_are_asked_at_once_and_each_once() {
    let rig = Rig::new();
    let holders: Vec<_> = (10..20).map(|n| rig.holder(n)).collect();
    let (f, g) = (rig.file("f"), rig.file("g"));
    for holder in &holders {
        rig.warm(holder, MdsOp::GetattrMany { fids: vec![f, g] });
        holder.answers(Answer::Later);
    }
    let author = rig.holder(20);
    let waiting = rig.start(&author, rename("f", "g"));
    holders.iter().for_each(|holder| assert_eq!(holder.revoked(), [(f, SHOWN), (g, SHOWN)]));
    holders.iter().for_each(|holder| holder.answers(Answer::Done));
    assert!(waiting.join().unwrap().results[0].is_ok());
    holders.iter().for_each(|holder| holder.at_rest());
}

#[test]
fn an_operation_finds_what_its_name_leads_to_when_it_is_applied() {
    let rig = Rig::new();
    let (a, b, c) = (rig.holder(10), rig.holder(11), rig.holder(12));
    let (old, new) = (rig.file("f"), rig.file("g"));
    rig.warm(&a, MdsOp::GetattrMany { fids: vec![old, new] });
    a.answers(Answer::Later);
    let removal = rig.start(&b, unlink("f"));
    assert_eq!(a.revoked(), [(old, SHOWN)]);
    // Meanwhile another one puts something else there.
    let moved = rig.start(&c, rename("g", "f"));
    assert_eq!(a.revoked(), [(new, SHOWN)]);
    a.answers(Answer::Done);
    assert!(moved.join().unwrap().results[0].is_ok());
    let removed = mds_reply(removal.join().unwrap().results[0].clone().unwrap());
    // Either order of the two is right; what was removed must be what was there then.
    let names = rig.names(Fid::ROOT);
    match removed {
        MdsReply::Removed(removed) if removed.fid == new => assert_eq!(names, [""; 0]),
        MdsReply::Removed(removed) if removed.fid == old => assert_eq!(names, ["f"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_goes_is_in_nobodys_way() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, MdsOp::Getattr { fid: file });
    a.answers(Answer::Later);
    let waiting = rig.start(&b, chmod(file, 0o600));
    a.revoked();
    assert!(!waiting.is_finished());
    rig.gone(a.client);
    assert!(waiting.join().unwrap().results[0].is_ok());
}

#[test]
fn a_client_that_never_answers_is_evicted() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, open(file, true));
    assert_eq!(rig.mds.open_count(), 1);
    a.answers(Answer::Later);
    let waiting = rig.start(&b, chmod(file, 0o600));
    a.revoked();
    assert!(waiting.join().unwrap().results[0].is_ok());
    assert!(a.export.is_gone());
    until("what it had open is closed", || rig.mds.open_count() == 0);
    assert_eq!(rig.by(&a, chmod(file, 0o644)).0, Err(Errno::ENOTCONN), "its session is over");
    assert_eq!(rig.by(&a, MdsOp::Getattr { fid: file }).1, []);
}

#[test]
fn an_author_that_goes_changes_nothing_any_more() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, MdsOp::Getattr { fid: file });
    a.answers(Answer::Later);
    let waiting = rig.start(&b, chmod(file, 0o600));
    a.revoked();
    b.export.evict();
    rig.gone(b.client);
    a.answers(Answer::Done);
    assert_eq!(waiting.join().unwrap().results[0], Err(Errno::ENOTCONN));
    assert_eq!(rig.getattr(file).unwrap().mode, 0o100755);
    assert_eq!(rig.by(&a, MdsOp::Getattr { fid: file }).1, [(file, SHOWN)], "it has left");
}

fn told(dir: Fid, name: &str) -> ClientOp {
    ClientOp::Changing { dir, names: vec![Name::new(name.as_bytes()).unwrap()] }
}

#[test]
fn two_holders_create_in_one_directory_at_once() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    for holder in [&a, &b] {
        rig.warm(holder, lookup(Fid::ROOT, "none"));
        holder.answers(Answer::Later);
    }
    let by_a = rig.start(&a, create(Fid::ROOT, "x"));
    assert_eq!(b.asked(), told(Fid::ROOT, "x"));
    let by_b = rig.start(&b, create(Fid::ROOT, "y"));
    // The second author within a second: the directory is busy.
    assert_eq!(a.revoked(), [(Fid::ROOT, UPDATE)]);
    assert!(!by_a.is_finished() && !by_b.is_finished());
    [&b, &a].into_iter().for_each(|holder| holder.answers(Answer::Done));
    assert!(by_a.join().unwrap().results[0].is_ok() && by_b.join().unwrap().results[0].is_ok());
    assert_eq!(rig.names(Fid::ROOT), ["x", "y"]);
    let (_, grants) = rig.by(&a, lookup(Fid::ROOT, "none"));
    assert_eq!(grants, [], "busy");
    std::thread::sleep(dlm::ibits::BUSY);
    assert_eq!(rig.by(&a, lookup(Fid::ROOT, "none")).1, [(Fid::ROOT, UPDATE)]);
}

#[test]
fn a_name_is_told_and_the_directory_is_kept() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    rig.warm(&b, lookup(Fid::ROOT, "none"));
    assert!(rig.by(&a, create(Fid::ROOT, "x")).0.is_ok());
    assert_eq!(b.asked(), told(Fid::ROOT, "x"));
    assert!(rig.by(&a, create(Fid::ROOT, "y")).0.is_ok());
    assert_eq!(b.asked(), told(Fid::ROOT, "y"));
    b.answers(Answer::Dropped);
    assert!(rig.by(&a, create(Fid::ROOT, "z")).0.is_ok());
    assert_eq!(b.asked(), told(Fid::ROOT, "z"));
    assert!(rig.by(&a, create(Fid::ROOT, "zz")).0.is_ok());
    b.at_rest();
}
