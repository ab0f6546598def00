//! What replies grant, which clients are called back before a change, and what waits for what.

mod writers;

use crate::rig::holder::*;
use crate::rig::*;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use types::attr::{SetAttr, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::time::Timestamp;
use wire::client::{ClientOp, Glimpse};
use wire::mds::{
    Accessed, Close, Create, CreateKind, Expect, GetLayout, GetParent, Getattr, GetattrMany,
    Getxattr, Link, Listxattr, Lock, Lookup, MdsOp, MdsReply, Open, OpenFlags, Readdir, Removed,
    Rename, RenameFlags, Rmdir, Setattr, Setxattr, SetxattrFlags, Unlink, Unlock, Wrote,
};
use wire::message::Reply;

const LOOKUP: InodeBits = InodeBits::LOOKUP;
const UPDATE: InodeBits = InodeBits::UPDATE;
const OPEN: InodeBits = InodeBits::OPEN;
const XATTR: InodeBits = InodeBits::XATTR;
const LAYOUT: InodeBits = InodeBits::LAYOUT;
const DATA: InodeBits = InodeBits::DATA;
const SHOWN: InodeBits = LOOKUP.union(UPDATE);
const MADE: InodeBits = SHOWN.union(LAYOUT);

fn lookup(parent: Fid, name: &str) -> MdsOp {
    MdsOp::Lookup(Lookup { parent, name: n(name) })
}

fn create(parent: Fid, name: &str) -> MdsOp {
    let kind = CreateKind::Regular(None);
    MdsOp::Create(Create { parent, name: n(name), kind, mode: 0o644, umask: 0, exclusive: true })
}

fn chmod(fid: Fid, mode: u32) -> MdsOp {
    MdsOp::Setattr(Setattr { fid, set: SetAttr { mode: Some(mode), ..SetAttr::default() } })
}

fn rename(a: &str, b: &str) -> MdsOp {
    let flags = RenameFlags::default();
    MdsOp::Rename(Rename {
        parent: Fid::ROOT,
        name: n(a),
        new_parent: Fid::ROOT,
        new_name: n(b),
        flags,
    })
}

fn unlink(name: &str) -> MdsOp {
    MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: n(name) })
}

fn open(fid: Fid, write: bool) -> MdsOp {
    MdsOp::Open(Open {
        fid,
        flags: OpenFlags { read: true, write, exec: false, append: false, lasting: false },
    })
}

#[test]
fn what_is_shown_is_granted() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let file = rig.create(dir, "f", CreateKind::Regular(None)).unwrap();
    assert_eq!(rig.by(&a, lookup(dir, "f")).1, [(file, SHOWN), (dir, UPDATE)]);
    assert_eq!(rig.by(&a, lookup(dir, "none")), (Err(Errno::ENOENT), vec![(dir, UPDATE)]));
    assert_eq!(rig.by(&a, MdsOp::Getattr(Getattr::of(file))).1, [(file, SHOWN)]);
    let of_directory = SHOWN.union(InodeBits::PERM);
    assert_eq!(
        rig.by(&a, MdsOp::GetattrMany(GetattrMany::of(vec![file, dir]))).1,
        [(file, SHOWN), (dir, of_directory)]
    );
    assert_eq!(
        rig.by(&a, MdsOp::GetParent(GetParent { fid: dir })).1,
        [(dir, LOOKUP), (Fid::ROOT, SHOWN)]
    );
    let getxattr = MdsOp::Getxattr(Getxattr { fid: file, name: b(b"user.none") });
    assert_eq!(rig.by(&a, getxattr), (Err(Errno::ENODATA), vec![(file, XATTR)]));
    assert_eq!(rig.by(&a, MdsOp::Listxattr(Listxattr { fid: file })).1, [(file, XATTR)]);
    let layout = MdsOp::GetLayout(GetLayout { fid: file, write: false, start: 0, end: 1 });
    assert_eq!(rig.by(&a, layout).1, [(file, LAYOUT)]);
    let readdir = |with_attr| {
        MdsOp::Readdir(Readdir {
            fid: dir,
            after: None,
            limit: 9,
            bytes_max: 1 << 20,
            with_attr,
            with_layout: false,
        })
    };
    assert_eq!(rig.by(&a, readdir(false)).1, [(dir, UPDATE)]);
    assert_eq!(rig.by(&a, readdir(true)).1, [(dir, UPDATE), (file, SHOWN)]);
    assert_eq!(rig.by(&a, open(file, false)).1, [(file, MADE.union(OPEN).union(DATA))]);
    a.at_rest();
}

#[test]
fn only_what_the_client_can_keep_is_granted() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let mut request =
        rig.request(1, &CREDENTIALS, vec![lookup(Fid::ROOT, "none"), create(Fid::ROOT, "f")]);
    request.locks = InodeBits::NONE;
    let reply = wait(rig.mds.serve(&a.export, &mut request));
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
    let link = MdsOp::Link(Link { fid, new_parent: Fid::ROOT, new_name: n("g") });
    assert_eq!(
        rig.reply(&a, vec![link]).touched.iter().map(|t| t.attr.fid).collect::<Vec<_>>(),
        [Fid::ROOT]
    );
    let touched = rig.reply(&a, vec![unlink("g")]).touched;
    let after = |fid| rig.getattr(fid).unwrap();
    assert_eq!(touched.iter().map(|t| t.attr).collect::<Vec<_>>(), [after(Fid::ROOT), after(fid)]);
    let set = MdsOp::Setxattr(Setxattr {
        fid,
        name: b(b"user.a"),
        value: b(b"1"),
        flags: SetxattrFlags::default(),
    });
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
    rig.warm(&a, MdsOp::Getattr(Getattr::of(file)));
    a.answers(Answer::Later);
    let waiting = rig.start(&b, chmod(file, 0o600));
    assert_eq!(a.revoked(), [(file, UPDATE)]);
    let (shown, grants) = rig.by(&a, MdsOp::Getattr(Getattr::of(file)));
    assert_eq!(
        (entry(shown.unwrap()).attr.mode, grants),
        (0o100755, vec![(file, LOOKUP)]),
        "not yet, and no lock"
    );
    assert!(!waiting.is_finished());
    a.answers(Answer::Done);
    let reply = waiting.join().unwrap();
    assert_eq!(entry(mds_reply(reply.results[0].clone().unwrap())).attr.mode, 0o100600);
    assert_eq!(reply.grants[0].bits, UPDATE);
    assert_eq!(rig.by(&a, MdsOp::Getattr(Getattr::of(file))).1, [(file, SHOWN)]);
    a.at_rest();
    b.at_rest();
}

#[test]
fn who_looks_at_a_change_that_its_author_may_not_know_waits_for_the_author() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, lookup(Fid::ROOT, "f"));
    rig.warm(&a, lookup(Fid::ROOT, "g"));
    rig.unheard.store(true, std::sync::atomic::Ordering::Relaxed);
    rig.warm(&a, chmod(file, 0o600));
    a.answers(Answer::Later);
    let waiting = rig.start(&b, MdsOp::Getattr(Getattr::of(file)));
    assert_eq!(a.revoked(), [(file, UPDATE)]);
    assert!(!waiting.is_finished(), "the author's kernel shows the old mode yet");
    a.answers(Answer::Done);
    let reply = waiting.join().unwrap();
    assert_eq!(entry(mds_reply(reply.results[0].clone().unwrap())).attr.mode, 0o100600);
    rig.warm(&b, MdsOp::Getattr(Getattr::of(file)));
    a.at_rest();
    // A name that comes: a client that is refused because of it has seen it, too. Another name of
    // the directory has not changed.
    rig.warm(&a, lookup(Fid::ROOT, "g"));
    rig.warm(&a, create(Fid::ROOT, "g"));
    assert_eq!(rig.by(&b, lookup(Fid::ROOT, "h")).0, Err(Errno::ENOENT));
    a.at_rest();
    assert_eq!(rig.by(&b, create(Fid::ROOT, "g")).0, Err(Errno::EEXIST));
    assert_eq!(a.revoked(), [(Fid::ROOT, UPDATE)]);
    // A name that goes: what covers it at the author is the directory, or the file.
    rig.warm(&a, lookup(Fid::ROOT, "f"));
    rig.warm(&a, rename("f", "i"));
    assert_eq!(b.revoked(), [(file, SHOWN)]);
    assert_eq!(rig.by(&b, lookup(Fid::ROOT, "f")).0, Err(Errno::ENOENT));
    assert_eq!(a.revoked(), [(Fid::ROOT, UPDATE), (file, SHOWN)]);
    a.at_rest();
    // The author says that it has all answers, and some time goes by: no client is called back any
    // more.
    rig.warm(&a, rename("i", "f"));
    rig.unheard.store(false, std::sync::atomic::Ordering::Relaxed);
    rig.warm(&b, lookup(Fid::ROOT, "f"));
    rig.warm(&b, lookup(Fid::ROOT, "f"));
    a.at_rest();
}

#[test]
fn a_refused_change_asks_nobody() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, lookup(Fid::ROOT, "f"));
    assert_eq!(rig.by(&b, create(Fid::ROOT, "f")).0, Err(Errno::EEXIST));
    assert_eq!(
        rig.by(&b, MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: n("f") })).0,
        Err(Errno::ENOTDIR)
    );
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
        rig.warm(holder, MdsOp::GetattrMany(GetattrMany::of(vec![f, g])));
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
    rig.warm(&a, MdsOp::GetattrMany(GetattrMany::of(vec![old, new])));
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
    rig.warm(&a, MdsOp::Getattr(Getattr::of(file)));
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
    assert_eq!(rig.by(&a, MdsOp::Getattr(Getattr::of(file))).1, []);
}

#[test]
fn an_author_that_goes_changes_nothing_any_more() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, MdsOp::Getattr(Getattr::of(file)));
    a.answers(Answer::Later);
    let waiting = rig.start(&b, chmod(file, 0o600));
    a.revoked();
    b.export.evict();
    rig.gone(b.client);
    a.answers(Answer::Done);
    assert_eq!(waiting.join().unwrap().results[0], Err(Errno::ENOTCONN));
    assert_eq!(rig.getattr(file).unwrap().mode, 0o100755);
    assert_eq!(rig.by(&a, MdsOp::Getattr(Getattr::of(file))).1, [(file, SHOWN)], "it has left");
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

const TO_READ: InodeBits = DATA.union(UPDATE);
const TO_WRITE: InodeBits = TO_READ.union(InodeBits::WRITE);

/// Its programs open the file without a request from now on.
fn open_under_lock(rig: &Rig, holder: &Holder, fid: Fid) {
    let handle = opened(rig.by(holder, open(fid, false)).0.unwrap()).1;
    assert_eq!(rig.by(holder, MdsOp::Close(Close { fid, handle })).0, Ok(MdsReply::Done));
}

#[test]
fn a_removed_file_lives_while_somebody_has_it_open_under_a_lock() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    open_under_lock(&rig, &a, file);
    a.answers(Answer::Kept);
    assert!(rig.by(&b, unlink("f")).0.is_ok());
    assert_eq!(a.revoked(), [(file, SHOWN.union(OPEN))]);
    assert_eq!(rig.getattr(file).map(|attr| attr.nlink), Ok(0));
    assert_eq!(
        rig.by(&a, MdsOp::Unlock(Unlock { locks: vec![(file, OPEN)] })).0,
        Ok(MdsReply::Done)
    );
    assert_eq!(rig.getattr(file), Err(Errno::ESTALE));
    rig.assert_empty();
}

#[test]
fn the_author_of_a_removal_keeps_what_it_has_open() {
    let rig = Rig::new();
    let a = rig.holder(10);
    let file = rig.file("f");
    open_under_lock(&rig, &a, file);
    assert!(rig.by(&a, unlink("f")).0.is_ok());
    assert_eq!(rig.getattr(file).map(|attr| attr.nlink), Ok(0));
    rig.gone(a.client);
    rig.assert_empty();
}

#[test]
fn a_file_without_a_name_is_opened_by_a_handle_only() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    let handle = opened(rig.by(&a, open(file, true)).0.unwrap()).1;
    assert!(rig.by(&b, unlink("f")).0.is_ok());
    // It found the name before that was removed. Nothing would ever call OPEN back from it.
    let (reply, grants) = rig.by(&b, open(file, false));
    assert!(grants.iter().all(|(_, bits)| !bits.contains(OPEN)), "{grants:?}");
    assert_eq!(rig.by(&a, MdsOp::Close(Close { fid: file, handle })).0, Ok(MdsReply::Done));
    assert_eq!(rig.getattr(file).map(|attr| attr.nlink), Ok(0));
    let handle = opened(reply.unwrap()).1;
    assert_eq!(rig.by(&b, MdsOp::Close(Close { fid: file, handle })).0, Ok(MdsReply::Done));
    assert_eq!(rig.getattr(file), Err(Errno::ESTALE));
}

#[test]
fn the_author_of_a_removal_is_told_that_it_holds_open_of_what_it_removed() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    for remove in [unlink("f"), rename_over(&rig, "f")] {
        let file = rig.file("f");
        open_under_lock(&rig, &a, file);
        let grants = rig.by(&a, remove).1;
        assert!(grants.iter().any(|(fid, bits)| *fid == file && bits.contains(OPEN)), "{grants:?}");
        assert_eq!(
            rig.by(&a, MdsOp::Unlock(Unlock { locks: vec![(file, OPEN)] })).0,
            Ok(MdsReply::Done)
        );
        assert_eq!(rig.getattr(file), Err(Errno::ESTALE));
        // A client without OPEN of it is told nothing.
        let file = rig.file("g");
        open_under_lock(&rig, &a, file);
        assert!(rig.by(&b, unlink("g")).1.iter().all(|(_, bits)| !bits.contains(OPEN)));
    }
}

#[test]
fn a_kept_file_does_not_outlive_the_mdt() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    open_under_lock(&rig, &a, file);
    a.answers(Answer::Kept);
    assert!(rig.by(&b, rename_over(&rig, "f")).0.is_ok());
    assert!(rig.getattr(file).is_ok());
    wait(rig.store.commit()).unwrap();
    let rig = rig.crash();
    assert_eq!(rig.getattr(file), Err(Errno::ESTALE));
    assert_eq!(rig.names(Fid::ROOT), ["f"]);
}

fn rename_over(rig: &Rig, name: &str) -> MdsOp {
    rig.file("other");
    rename("other", name)
}

#[test]
fn what_locks_cost_is_counted() {
    let rig = Rig::new();
    let registry = observe::registry::Registry::new(Timestamp::default());
    rig.mds.count_in(&registry);
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&a, MdsOp::Getattr(Getattr::of(file)));
    assert_eq!(rig.mds.lock_count(), 1);
    assert!(rig.by(&b, chmod(file, 0o600)).0.is_ok());
    let samples = registry.snapshot(|source| source.starts_with("ldlm.namespaces.mdt-"));
    let count = |name: &str| {
        let sample = samples.iter().find(|sample| sample.metric.name == name).unwrap();
        match &sample.value {
            observe::registry::Value::Histogram(histogram) => histogram.count(),
            observe::registry::Value::Counter(count) => *count,
        }
    };
    assert_eq!(["callback_time", "revoke_wait", "evictions"].map(count), [1, 1, 0]);
}

fn accessed(fid: Fid, at: Timestamp, strict: bool) -> MdsOp {
    MdsOp::Accessed(Accessed { fid, at, strict })
}

#[test]
fn an_access_moves_the_access_time_once_and_holders_are_asked_first() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    let made = rig.getattr(file).unwrap();
    let at = |sec: i64| Timestamp { sec: made.ctime.sec + sec, ..made.ctime };
    rig.warm(&a, MdsOp::Getattr(Getattr::of(file)));
    let reply = rig.reply(&b, vec![accessed(file, at(1), false)]);
    assert_eq!(a.revoked(), [(file, UPDATE)]);
    let moved = types::attr::Attr { atime: at(1), ..made };
    assert_eq!(rig.getattr(file).unwrap(), moved, "nothing else changes");
    assert_eq!((reply.touched[0].attr, reply.grants[0].bits), (moved, UPDATE));
    // The mount that read it has shown that all the time, so it keeps its lock.
    rig.warm(&a, MdsOp::Getattr(Getattr::of(file)));
    b.at_rest();
    // relatime says no: nothing changes, and no holder is asked.
    assert!(rig.reply(&b, vec![accessed(file, at(2), false)]).touched.is_empty());
    a.at_rest();
    assert!(rig.by(&a, accessed(file, at(3), true)).0.is_ok());
    assert_eq!(rig.getattr(file).unwrap().atime, at(3), "strictatime");
    // From before the newest change, and of an inode that is gone: no error, as others come in the
    // same request.
    let gone = Fid { oid: 0xdead, ..file };
    let early = Timestamp { sec: 1, nsec: 0 };
    let both =
        vec![accessed(file, early, true), accessed(gone, at(9), true), accessed(file, at(4), true)];
    assert!(rig.reply(&b, both).results.iter().all(Result::is_ok));
    assert_eq!(rig.getattr(file).unwrap().atime, at(4));
    // chattr +A
    let flags = MdsOp::Setxattr(Setxattr {
        fid: file,
        name: bytes::Bytes::from_static(b"lustre.flags"),
        value: bytes::Bytes::from_static(b"128"),
        flags: SetxattrFlags::default(),
    });
    rig.one(flags).unwrap();
    assert!(entry(rig.one(MdsOp::Getattr(Getattr::of(file))).unwrap()).noatime);
    let now = rig.getattr(file).unwrap();
    assert!(
        rig.by(&b, accessed(file, Timestamp { sec: now.ctime.sec + 9, nsec: 0 }, true)).0.is_ok()
    );
    assert_eq!(rig.getattr(file).unwrap(), now);
}

/// A kernel that was told ESTALE looks at the names again, and tries once more without saying what
/// it found.
#[test]
fn names_that_led_elsewhere_stay_until_the_second_try() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let (x, y, z) = (rig.file("x"), rig.file("y"), rig.file("z"));
    let at = |name: &str, inode| MdsOp::Expect(Expect { parent: Fid::ROOT, name: n(name), inode });
    let first = rig.reply(&a, vec![at("x", x), at("y", z), rename("x", "y")]);
    assert_eq!(first.results[2], Err(Errno::ESTALE));
    let (over_y, off_x) = (rig.start(&b, rename("z", "y")), rig.start(&b, unlink("x")));
    let found = |name| entry(rig.by(&a, lookup(Fid::ROOT, name)).0.unwrap()).attr.fid;
    assert_eq!((found("x"), found("y")), (x, y), "the second look");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!over_y.is_finished() && !off_x.is_finished());
    // Other names are free, also these in another directory.
    assert!(rig.by(&b, create(Fid::ROOT, "new")).0.is_ok());
    let second = rig.by(&a, rename("x", "y")).0;
    assert_eq!(second, Ok(MdsReply::Removed(Removed { fid: y, nlink: 0 })), "what it had seen");
    assert!(over_y.join().unwrap().results[0].is_ok());
    assert_eq!(off_x.join().unwrap().results[0], Err(Errno::ENOENT));
    assert_eq!(rig.names(Fid::ROOT), ["new", "y"]);
}

/// Two clients are told ESTALE for one name: the second one hears it when the first has tried.
#[test]
fn one_client_at_a_time_is_about_to_try_again() {
    let rig = Rig::new();
    let (a, b) = (rig.holder(10), rig.holder(11));
    let (x, other) = (rig.file("x"), rig.file("other"));
    let expected = MdsOp::Expect(Expect { parent: Fid::ROOT, name: n("x"), inode: other });
    let ops = vec![expected, unlink("x")];
    assert_eq!(rig.reply(&a, ops.clone()).results[1], Err(Errno::ESTALE));
    let request = rig.send(b.client, &CREDENTIALS, ops);
    let waiting = std::thread::spawn(move || wait(request));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!waiting.is_finished());
    assert_eq!(rig.by(&a, unlink("x")).0, Ok(MdsReply::Removed(Removed { fid: x, nlink: 0 })));
    assert_eq!(waiting.join().unwrap().results[1], Err(Errno::ESTALE), "it was told before");
}
