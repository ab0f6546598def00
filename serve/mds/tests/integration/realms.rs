//! Realms (docs/security.md): the tree of a fileset is marked, and a client of its nodemap, which
//! keeps to no rule, reaches nothing else.

use crate::dom;
use crate::rig::{CLIENT, Rig, n, until, user};
use crate::tickets::{A, far};
use bytes::Bytes;
use idmap::nodemap::NodemapName;
use idmap::property::Property;
use idmap::set::{NodemapChange, Nodemaps};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::about::PROJECT;
use types::attr::{FileType, SetAttr, SetTime, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockFlavor, FlockKind, InodeBits, LeaseMode};
use types::object_ticket::Rights;
use types::project::REALM_FIRST;
use types::proof::ServerKey;
use types::session::OpenHandle;
use types::time::Timestamp;
use wire::mds::{
    Accessed, AskTickets, Close, Create, CreateKind, Expect, FlockCancel, FlockSet, FlockTest,
    GetLayout, GetParent, Getattr, GetattrMany, Getxattr, Lease, LeaseAct, Link, Listxattr, Lock,
    Lookup, MdsOp, MdsReply, Open, OpenFlags, PeerMark, Punch, Read, Readdir, Readlink,
    Removexattr, Rename, Rmdir, Root, Seek, Setattr, Setxattr, Store, SwapLayouts, Tmpfile, Unlink,
    Unlock, Write, Wrote,
};
use wire::ost::PunchKind;

const DIR: CreateKind = CreateKind::Directory { mdt: None };

fn default() -> NodemapName {
    NodemapName::of_default()
}

/// Clients on the network may do everything within this fileset.
fn nodemaps(paths: &[&str]) -> Arc<Nodemaps> {
    let mut nodemaps = Nodemaps::default();
    let mut change = |change| nodemaps.change(&change).map(drop).unwrap();
    for property in [Property::Trusted(true), Property::Admin(true)] {
        change(NodemapChange::Modify(default(), property));
    }
    change(NodemapChange::Activate(true));
    for path in paths {
        change(NodemapChange::SetFileset(default(), (*path).to_owned()));
    }
    Arc::new(nodemaps)
}

fn set(rig: &Rig, paths: &[&str]) -> u32 {
    let nodemaps = nodemaps(paths);
    let realm = nodemaps.get("default").unwrap().realm;
    rig.mds.set_nodemaps(nodemaps);
    realm
}

fn ready(rig: &Rig) {
    until("the fileset is ready", || {
        let text = rig.mds.realms();
        !text.is_empty() && text.lines().all(|line| line.ends_with(" ready"))
    });
}

fn project(rig: &Rig, fid: Fid) -> String {
    let name = Bytes::from_static(PROJECT.as_bytes());
    match rig.one(MdsOp::Getxattr(Getxattr { fid, name })).unwrap() {
        MdsReply::Bytes(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn set_project(
    rig: &Rig,
    credentials: &Credentials,
    fid: Fid,
    value: &'static str,
) -> Result<(), Errno> {
    rig.one_as(CLIENT, credentials, as_project(fid, value)).map(drop)
}

fn as_project(fid: Fid, value: &'static str) -> MdsOp {
    let name = Bytes::from_static(PROJECT.as_bytes());
    let value = Bytes::from_static(value.as_bytes());
    MdsOp::Setxattr(Setxattr { fid, name, value, flags: Default::default() })
}

fn rename(rig: &Rig, from: (Fid, &str), to: (Fid, &str)) -> Result<(), Errno> {
    let (parent, name, new_parent, new_name) = (from.0, n(from.1), to.0, n(to.1));
    let flags = Default::default();
    rig.one(MdsOp::Rename(Rename { parent, name, new_parent, new_name, flags })).map(drop)
}

#[test]
fn root_sets_projects_and_they_are_handed_on() {
    let rig = Rig::new();
    let (a, b) =
        (rig.create(Fid::ROOT, "a", DIR).unwrap(), rig.create(Fid::ROOT, "b", DIR).unwrap());
    let root = Credentials::root();
    assert_eq!(project(&rig, a), "0");
    assert_eq!(set_project(&rig, &root, a, "7 P"), Ok(()));
    assert_eq!(set_project(&rig, &user(1000), a, "8 P"), Err(Errno::EPERM));
    assert_eq!(set_project(&rig, &root, a, "2147483648"), Err(Errno::EINVAL));
    for bad in ["", "P", "-1", "+1", "7  P", "4294967296", "7 p"] {
        assert_eq!(set_project(&rig, &root, a, bad), Err(Errno::EINVAL), "{bad:?}");
    }
    let link = CreateKind::Symlink(Bytes::from_static(b"there"));
    for (name, kind, has) in [
        ("f", CreateKind::Regular(None), "7"),
        ("d", DIR, "7 P"),
        ("l", link, "7"),
        ("p", CreateKind::Special(FileType::Fifo, 0), "7"),
    ] {
        let made = rig.create(a, name, kind).unwrap();
        assert_eq!(project(&rig, made), has, "{name}");
    }
    let f = rig.file("f");
    assert_eq!(rename(&rig, (Fid::ROOT, "f"), (a, "g")), Err(Errno::EXDEV));
    let link = Link { fid: f, new_parent: a, new_name: n("g") };
    assert_eq!(rig.one(MdsOp::Link(link)).map(drop), Err(Errno::EXDEV));
    assert_eq!(rename(&rig, (a, "f"), (b, "f")), Ok(()));
    // It is as durable as the inode.
    let rig = rig.restart();
    assert_eq!((project(&rig, a), project(&rig, b)), ("7 P".to_owned(), "0".to_owned()));
}

/// /tenants/a, with more names than a batch, and what is elsewhere.
struct Trees {
    a: Fid,
    inside: Vec<Fid>,
    outside: Vec<Fid>,
}

fn trees(rig: &Rig) -> Trees {
    let dir = |parent, name| rig.create(parent, name, DIR).unwrap();
    let file = |parent, name: &str| rig.create(parent, name, CreateKind::Regular(None)).unwrap();
    let tenants = dir(Fid::ROOT, "tenants");
    let (a, b) = (dir(tenants, "a"), dir(tenants, "b"));
    let (c, d) = (dir(a, "c"), dir(a, "d"));
    let mut inside = vec![a, c, d, dir(d, "e")];
    inside.extend((0..300).map(|n| file(c, &format!("f{n}"))));
    let two = file(d, "two");
    let link = Link { fid: two, new_parent: c, new_name: n("two") };
    rig.one(MdsOp::Link(link)).unwrap();
    inside.push(two);
    let outside = vec![tenants, b, file(b, "f"), dir(b, "d"), file(Fid::ROOT, "g")];
    Trees { a, inside, outside }
}

#[test]
fn the_tree_of_a_fileset_is_marked_also_over_a_crash() {
    let rig = Rig::new();
    let Trees { a, inside, outside } = trees(&rig);
    crate::rig::wait(rig.store.commit()).unwrap();
    let realm = set(&rig, &["/tenants/a"]);
    assert!(realm >= REALM_FIRST);
    // Some of it is durable, or all, or nothing.
    std::thread::sleep(std::time::Duration::from_millis(3));
    let rig = rig.crash();
    set(&rig, &["/tenants/a"]);
    ready(&rig);
    for fid in &inside {
        let has = project(&rig, *fid);
        assert_eq!(has.trim_end_matches(" P"), realm.to_string(), "{fid}");
        assert_eq!(has.ends_with(" P"), rig.getattr(*fid).unwrap().is_dir());
    }
    for fid in &outside {
        assert_eq!(project(&rig, *fid), "0", "{fid}");
    }
    let made = rig.create(a, "made", DIR).unwrap();
    assert_eq!(project(&rig, made), format!("{realm} P"));
    assert_eq!(rename(&rig, (a, "made"), (Fid::ROOT, "made")), Err(Errno::EXDEV));
    // It is known from then on.
    let rig = rig.restart();
    set(&rig, &["/tenants/a"]);
    ready(&rig);
    // Another fileset is another realm; what had none before is marked anew.
    let next = set(&rig, &["/tenants/a", "", "/tenants"]);
    ready(&rig);
    assert_ne!(next, realm);
    for fid in inside.iter().chain(&outside[..4]) {
        assert_eq!(project(&rig, *fid).trim_end_matches(" P"), next.to_string(), "{fid}");
    }
    assert_eq!(project(&rig, outside[4]), "0");
    // One that does not exist waits.
    set(&rig, &["/absent"]);
    until("it waits", || rig.mds.realms().ends_with("/absent waits: ENOENT\n"));
    rig.create(Fid::ROOT, "absent", DIR).unwrap();
    ready(&rig);
}

#[test]
fn what_is_of_another_realm_is_left_alone() {
    let rig = Rig::new();
    let Trees { a, inside, outside } = trees(&rig);
    let mut nodemaps = Nodemaps::clone(&nodemaps(&["/tenants/b"]));
    let other: NodemapName = "other".parse().unwrap();
    nodemaps.change(&NodemapChange::Add(other.clone())).unwrap();
    nodemaps.change(&NodemapChange::SetFileset(other, "/tenants/a".to_owned())).unwrap();
    let theirs = nodemaps.get("other").unwrap().realm;
    rig.mds.set_nodemaps(Arc::new(nodemaps.clone()));
    ready(&rig);
    let ours = nodemaps.get("default").unwrap().realm;
    let mark = |fid, parent, realm| match rig.one(MdsOp::PeerMark(PeerMark {
        fid,
        parent,
        realm,
        after: None,
    })) {
        Ok(MdsReply::PeerMarked { marked, children, more: None, .. }) => {
            Ok((marked, children.len()))
        }
        other => Err(other.map(drop)),
    };
    assert_eq!(mark(a, Fid::NONE, ours), Ok((0, 0)));
    assert!(inside.iter().all(|fid| project(&rig, *fid).starts_with(&theirs.to_string())));
    assert_eq!(mark(a, Fid::NONE, 7), Err(Err(Errno::EINVAL)));
    // What is no longer where it was found is left alone, too.
    let (tenants, d) = (outside[0], rig.create(Fid::ROOT, "d", DIR).unwrap());
    assert_eq!((mark(d, tenants, ours), project(&rig, d)), (Ok((1, 0)), "0".to_owned()));
    assert_eq!(mark(outside[4], tenants, ours), Ok((0, 0)));
    assert_eq!(project(&rig, outside[4]), "0");
    assert_eq!(
        (mark(d, Fid::ROOT, ours), mark(outside[4], Fid::ROOT, ours)),
        (Ok((1, 0)), Ok((1, 0)))
    );
}

const READ: OpenFlags =
    OpenFlags { read: true, write: false, exec: false, append: false, lasting: false };

/// Each operation that a client may send, about an inode, or the name `f` in it, if it is a
/// directory. `own`: a directory, and a file, that the client reaches.
pub fn attacks(x: Fid, (dir, file): (Fid, Fid)) -> Vec<MdsOp> {
    let (at, data) = (WrittenAt::Now, Bytes::from_static(b"attack"));
    let name = || n("f");
    let xattr = || Bytes::from_static(b"user.a");
    let write = OpenFlags { write: true, ..READ };
    let set = |set| MdsOp::Setattr(Setattr { fid: x, set });
    let time = Some(SetTime::At(Timestamp { sec: 1, nsec: 0 }));
    let create = |kind, exclusive| {
        let (mode, umask) = (0o777, 0);
        MdsOp::Create(Create { parent: x, name: name(), kind, mode, umask, exclusive })
    };
    let rename = |parent, new_parent| {
        let (name, new_name, flags) = (name(), n("f"), Default::default());
        MdsOp::Rename(Rename { parent, name, new_parent, new_name, flags })
    };
    let (flavor, kind) = (FlockFlavor::Bsd, FlockKind::Write);
    let flock = Flock { flavor, kind, owner: 5, pid: 5, start: 0, end: u64::MAX };
    let lock = |bits| MdsOp::Lock(Lock { fid: x, bits, needs: None });
    let readdir = |with_attr| {
        let (after, limit, bytes_max) = (None, 100, 65536);
        MdsOp::Readdir(Readdir { fid: x, after, limit, bytes_max, with_attr, with_layout: false })
    };
    let layout = |write| MdsOp::GetLayout(GetLayout { fid: x, write, start: 0, end: u64::MAX });
    let swap =
        |fid, other| MdsOp::SwapLayouts(SwapLayouts { fid, other, versions: (0, 0), same: false });
    let punch =
        Punch { fid: x, start: 0, end: 9, kind: PunchKind::Zero, grows: true, kill_suidgid: false };
    vec![
        MdsOp::Lookup(Lookup { parent: x, name: name() }),
        MdsOp::Lookup(Lookup { parent: x, name: n("absent") }),
        MdsOp::GetParent(GetParent { fid: x }),
        MdsOp::Getattr(Getattr::of(x)),
        set(SetAttr { mode: Some(0o777), ..SetAttr::default() }),
        set(SetAttr { uid: Some(7), ..SetAttr::default() }),
        set(SetAttr { size: Some(3), ..SetAttr::default() }),
        set(SetAttr { mtime: time, ..SetAttr::default() }),
        create(CreateKind::Regular(Some(write)), false),
        create(CreateKind::Regular(None), true),
        create(DIR, true),
        create(CreateKind::Directory { mdt: Some(types::target::TargetIndex(0)) }, true),
        create(CreateKind::Symlink(Bytes::from_static(b"l")), true),
        MdsOp::Open(Open { fid: x, flags: READ }),
        MdsOp::Open(Open { fid: x, flags: write }),
        MdsOp::Open(Open { fid: x, flags: OpenFlags { lasting: true, ..READ } }),
        MdsOp::Unlink(Unlink { parent: x, name: name() }),
        MdsOp::Rmdir(Rmdir { parent: x, name: n("d") }),
        rename(x, dir),
        rename(dir, x),
        MdsOp::Link(Link { fid: x, new_parent: dir, new_name: n("taken") }),
        MdsOp::Link(Link { fid: file, new_parent: x, new_name: n("given") }),
        readdir(false),
        readdir(true),
        MdsOp::Readlink(Readlink { fid: x }),
        MdsOp::Getxattr(Getxattr { fid: x, name: xattr() }),
        MdsOp::Getxattr(Getxattr { fid: x, name: Bytes::from_static(b"lustre.links") }),
        MdsOp::Getxattr(Getxattr { fid: x, name: Bytes::from_static(b"trusted.lov") }),
        MdsOp::Listxattr(Listxattr { fid: x }),
        MdsOp::Setxattr(Setxattr {
            fid: x,
            name: xattr(),
            value: data.clone(),
            flags: Default::default(),
        }),
        as_project(x, "9"),
        MdsOp::Removexattr(Removexattr { fid: x, name: xattr() }),
        layout(false),
        layout(true),
        MdsOp::Wrote(Wrote { fid: x, end: 9999, blocks_delta: 8, at, kill_suidgid: false }),
        MdsOp::FlockTest(FlockTest { fid: x, lock: flock }),
        MdsOp::FlockSet(FlockSet { fid: x, lock: flock, wait: false }),
        lock(InodeBits::ALL),
        lock(InodeBits::DATA),
        MdsOp::Read(Read { fid: x, offset: 0, len: 100 }),
        MdsOp::Write(Write {
            fid: x,
            offset: 0,
            data: data.clone(),
            at,
            kill_suidgid: false,
            keeps: false,
        }),
        MdsOp::Store(Store { fid: x, pieces: vec![(0, data)], at }),
        MdsOp::Punch(punch),
        MdsOp::Seek(Seek { fid: x, offset: 0, hole: true }),
        swap(x, file),
        swap(file, x),
        MdsOp::Lease(Lease { fid: x, owner: 1, act: LeaseAct::Acquire(LeaseMode::Write) }),
        MdsOp::Tmpfile(Tmpfile { parent: x, mode: 0o600, umask: 0, flags: write, linkable: true }),
        MdsOp::Accessed(Accessed { fid: x, at: Timestamp { sec: 1 << 40, nsec: 0 }, strict: true }),
        MdsOp::Expect(Expect { parent: x, name: name(), inode: x }),
    ]
}

/// These say for each inode that there is none, or give something back.
fn mild(x: Fid) -> Vec<MdsOp> {
    let (flavor, kind) = (FlockFlavor::Bsd, FlockKind::Write);
    let lock = Flock { flavor, kind, owner: 5, pid: 5, start: 0, end: u64::MAX };
    vec![
        MdsOp::GetattrMany(GetattrMany::of(vec![x])),
        MdsOp::AskTickets(AskTickets { fids: vec![x], of_objects: false, had: Vec::new() }),
        MdsOp::AskTickets(AskTickets { fids: vec![x], of_objects: true, had: Vec::new() }),
        MdsOp::Close(Close { fid: x, handle: OpenHandle(1) }),
        MdsOp::Unlock(Unlock { locks: vec![(x, InodeBits::ALL)] }),
        MdsOp::FlockCancel(FlockCancel { fid: x, lock }),
    ]
}

#[test]
fn a_client_reaches_nothing_outside_of_its_realm_whatever_it_sends() {
    let rig = Rig::new();
    rig.mds.set_server_key(ServerKey(5));
    let Trees { a, inside, outside } = trees(&rig);
    let small = dom::file(&rig, "small");
    let write = Write {
        fid: small,
        offset: 0,
        data: Bytes::from_static(b"secret"),
        at: WrittenAt::Now,
        kill_suidgid: false,
        keeps: false,
    };
    rig.one(MdsOp::Write(write)).unwrap();
    set(&rig, &["/tenants/a"]);
    ready(&rig);
    let own = (a, *inside.last().unwrap());
    let foe = far(&rig, A);
    let op = |op| foe.op(&rig, 0, op);
    let everything = || {
        let records = rig.store.begin();
        let mut all = Vec::new();
        for tag in [b'I', b'E', b'X', b'B'] {
            let each = |key: &[u8], value: &[u8]| {
                all.push((key.to_vec(), value.to_vec()));
                std::ops::ControlFlow::Continue(())
            };
            records.scan(&[tag], &[tag + 1], each).unwrap();
        }
        all
    };
    let before = everything();
    let mut asked = BTreeSet::new();
    for x in outside.iter().copied().chain([small, Fid { oid: u32::MAX, ..a }]) {
        let is_there = x.oid != u32::MAX;
        for attack in attacks(x, own) {
            asked.insert(attack.row().name);
            let text = format!("{attack:?}");
            let result = op(attack);
            if is_there {
                assert_eq!(result.map(drop), Err(Errno::ESTALE), "{text}");
            } else {
                // Some say nothing of an inode that does not exist.
                let nothing = matches!(result, Err(_) | Ok(MdsReply::Done | MdsReply::Flock(None)));
                assert!(nothing, "{text}: {result:?}");
            }
        }
        for attack in mild(x) {
            asked.insert(attack.row().name);
            match op(attack.clone()) {
                Ok(MdsReply::Attrs(all)) => assert_eq!(all, [None]),
                Ok(MdsReply::Tickets { tickets, .. }) => {
                    assert_eq!(tickets, [Err(Errno::ESTALE)], "{attack:?}");
                }
                Ok(MdsReply::Done) | Err(_) => {}
                other => panic!("{attack:?}: {other:?}"),
            }
        }
    }
    // Its way to the root of its mount leads nowhere else.
    let ask = |path: &str, from, walked| {
        let path = path.parse().unwrap();
        op(MdsOp::Root(Root { path, from, walked, fileset: 2 })).map(|reply| match reply {
            MdsReply::Root { fid, .. } => fid,
            other => panic!("{other:?}"),
        })
    };
    asked.insert("mds_root");
    assert_eq!(ask("", Fid::NONE, 0), Ok(a));
    assert_eq!(ask("/c", Fid::NONE, 0), Ok(inside[1]));
    assert_eq!(ask("", outside[0], 1), Ok(a));
    for (path, from, walked) in [
        ("/f", outside[1], 2),
        ("/d", outside[1], 2),
        ("/b", outside[0], 2),
        ("", outside[1], 2),
        ("", outside[0], 2),
        ("", Fid::ROOT, 2),
        ("/tenants", Fid::ROOT, 2),
    ] {
        assert_eq!(ask(path, from, walked), Err(Errno::ESTALE), "{path} {from} {walked}");
    }
    assert!(everything() == before, "something has changed");
    // What names no inode.
    asked.extend(["mds_statfs", "mds_sync", "mds_grant"]);
    let of_clients = wire::opcode::ROWS
        .iter()
        .filter(|row| row.name.starts_with("mds_") && row.sender == wire::opcode::Sender::Client);
    let missing: Vec<&str> =
        of_clients.map(|row| row.name).filter(|name| !asked.contains(name)).collect();
    assert_eq!(missing, [""; 0], "an operation that is not tried");
    // Within its realm it may do everything.
    let getattr = |fid| op(MdsOp::Getattr(Getattr::of(fid))).map(drop);
    assert!(inside.iter().all(|fid| getattr(*fid).is_ok()));
    let made = Create {
        parent: a,
        name: n("made"),
        kind: CreateKind::Regular(None),
        mode: 0o644,
        umask: 0,
        exclusive: true,
    };
    op(MdsOp::Create(made)).unwrap();
    let (name, new_name) = (n("made"), n("made"));
    let moves =
        Rename { parent: a, name, new_parent: inside[3], new_name, flags: Default::default() };
    op(MdsOp::Rename(moves)).unwrap();
    // It may not leave it by a project.
    assert_eq!(op(as_project(a, "0")).map(drop), Err(Errno::EPERM));
}

#[test]
fn a_name_that_leads_out_of_the_realm_leads_nowhere() {
    let rig = Rig::new();
    let Trees { a, .. } = trees(&rig);
    set(&rig, &["/tenants/a"]);
    ready(&rig);
    let f = rig.create(a, "f", CreateKind::Regular(None)).unwrap();
    // As of a file that had names in two trees before they became filesets.
    assert_eq!(set_project(&rig, &Credentials::root(), f, "0"), Ok(()));
    let foe = far(&rig, A);
    let flags = OpenFlags { write: true, ..READ };
    let kind = CreateKind::Regular(Some(flags));
    let create = Create { parent: a, name: n("f"), kind, mode: 0o644, umask: 0, exclusive: false };
    for op in [
        MdsOp::Lookup(Lookup { parent: a, name: n("f") }),
        MdsOp::Create(create),
        MdsOp::Unlink(Unlink { parent: a, name: n("f") }),
    ] {
        assert_eq!(foe.op(&rig, 0, op.clone()).map(drop), Err(Errno::ESTALE), "{op:?}");
    }
    let readdir = Readdir {
        fid: a,
        after: None,
        limit: 100,
        bytes_max: 65536,
        with_attr: true,
        with_layout: true,
    };
    let MdsReply::Entries { entries, .. } = foe.op(&rig, 0, MdsOp::Readdir(readdir)).unwrap()
    else {
        panic!("entries")
    };
    let found = entries.iter().find(|entry| entry.name == n("f")).unwrap();
    assert!(found.entry.is_none() && found.layout.is_none());
    assert!(entries.iter().any(|entry| entry.entry.is_some()));
}

#[test]
fn what_a_client_has_open_for_writing_it_stores_to_the_end() {
    let rig = Rig::new();
    let Trees { outside, .. } = trees(&rig);
    let f = outside[2];
    let foe = far(&rig, A);
    rig.mds.set_server_key(ServerKey(5));
    rig.mds.set_nodemaps(nodemaps(&[]));
    let open = Open { fid: f, flags: OpenFlags { write: true, ..READ } };
    let MdsReply::Opened { handle, .. } = foe.op(&rig, 0, MdsOp::Open(open)).unwrap() else {
        panic!("opened")
    };
    set(&rig, &["/tenants/a"]);
    ready(&rig);
    let at = WrittenAt::Now;
    let wrote = Wrote { fid: f, end: 5, blocks_delta: 0, at, kill_suidgid: false };
    let wrote = || foe.op(&rig, 0, MdsOp::Wrote(wrote.clone())).map(drop);
    assert_eq!(wrote(), Ok(()));
    let ticket = || {
        let asked = AskTickets { fids: vec![f], of_objects: false, had: Vec::new() };
        match foe.op(&rig, 0, MdsOp::AskTickets(asked)).unwrap() {
            MdsReply::Tickets { mut tickets, .. } => tickets.remove(0).map(|ticket| ticket.rights),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ticket(), Ok(Rights::WRITE));
    let getattr = MdsOp::Getattr(Getattr::of(f));
    assert_eq!(foe.op(&rig, 0, getattr).map(drop), Err(Errno::ESTALE), "no more than that");
    foe.op(&rig, 0, MdsOp::Close(Close { fid: f, handle })).unwrap();
    assert_eq!((wrote(), ticket()), (Err(Errno::ESTALE), Err(Errno::ESTALE)));
    assert_eq!(rig.getattr(f).unwrap().size, 5);
}

#[test]
fn a_client_waits_until_its_fileset_is_ready() {
    let rig = Rig::new();
    trees(&rig);
    set(&rig, &["/tenants/c"]);
    let foe = far(&rig, A);
    let ask = || {
        let root = Root { path: "".parse().unwrap(), from: Fid::NONE, walked: 0, fileset: 0 };
        foe.op(&rig, 0, MdsOp::Root(root)).map(drop)
    };
    until("it waits", || rig.mds.realms().ends_with("waits: ENOENT\n"));
    assert_eq!(ask(), Err(Errno::ENODEV), "there is no such directory");
    let tenants = Lookup { parent: Fid::ROOT, name: n("tenants") };
    let MdsReply::Entry(tenants) = rig.one(MdsOp::Lookup(tenants)).unwrap() else { panic!() };
    rig.create(tenants.attr.fid, "c", DIR).unwrap();
    assert!([Err(Errno::EAGAIN), Ok(())].contains(&ask()));
    ready(&rig);
    assert_eq!(ask(), Ok(()));
}
