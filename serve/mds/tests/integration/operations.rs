//! Every operation at the front door of an MDT.

use crate::rig::*;
use layout::layout::Layout;
use layout::stripe_spec::plain;
use std::sync::Arc;
use std::time::Duration;
use types::attr::{FileType, SetAttr};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::INODES_PER_REPLY_MAX;
use types::lock::{Flock, FlockFlavor, FlockKind};
use types::session::{ClientUuid, OpenHandle};
use types::target::TargetIndex;
use wire::mds::{
    Close, Create, CreateKind, DirEntry, Expect, FlockCancel, FlockSet, FlockTest, GetLayout,
    GetParent, Getattr, GetattrMany, Getxattr, Link, Listxattr, Lookup, MdsOp, MdsReply, Mend,
    Open, OpenFlags, Readdir, Readlink, Record, Removed, Removexattr, Rename, RenameFlags, Rmdir,
    Setattr, Setxattr, SetxattrFlags, Unlink, Wrote,
};

#[test]
fn a_new_mdt_has_a_root() {
    let rig = Rig::new();
    let root = rig.getattr(Fid::ROOT).unwrap();
    assert_eq!((root.mode, root.uid, root.gid, root.nlink), (0o40755, 0, 0, 2));
    assert_eq!(
        entry(rig.one(MdsOp::GetParent(GetParent { fid: Fid::ROOT })).unwrap()).attr.fid,
        Fid::ROOT
    );
}

#[test]
fn what_is_created_is_found() {
    let rig = Rig::new();
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let file = rig.create(dir, "f", CreateKind::Regular(None)).unwrap();
    let link = rig.create(dir, "l", CreateKind::Symlink(b(b"to/there"))).unwrap();
    let fifo = rig.create(dir, "p", CreateKind::Special(FileType::Fifo, 0)).unwrap();
    let device = rig.create(dir, "c", CreateKind::Special(FileType::CharDevice, 0x103)).unwrap();
    assert_eq!(rig.names(dir), ["c", "f", "l", "p"]);
    let found = entry(rig.one(MdsOp::Lookup(Lookup { parent: dir, name: n("f") })).unwrap());
    assert_eq!((found.attr.fid, found.attr.mode, found.has_xattr), (file, 0o100755, false));
    assert_eq!(
        rig.one(MdsOp::Readlink(Readlink { fid: link })),
        Ok(MdsReply::Bytes(b(b"to/there")))
    );
    assert_eq!(rig.one(MdsOp::Readlink(Readlink { fid: file })), Err(Errno::EINVAL));
    assert_eq!(rig.getattr(fifo).unwrap().file_type(), FileType::Fifo);
    assert_eq!(rig.getattr(device).unwrap().rdev, 0x103);
    assert_eq!(rig.getattr(link).unwrap().size, 8);
    assert_eq!(rig.getattr(Fid::ROOT).unwrap().nlink, 3);
    assert_eq!(
        entry(rig.one(MdsOp::GetParent(GetParent { fid: dir })).unwrap()).attr.fid,
        Fid::ROOT
    );
    assert_eq!(rig.one(MdsOp::Lookup(Lookup { parent: dir, name: n("no") })), Err(Errno::ENOENT));
    assert_eq!(rig.one(MdsOp::Lookup(Lookup { parent: file, name: n("no") })), Err(Errno::ENOTDIR));
    assert_eq!(rig.create(dir, "f", CreateKind::Directory { mdt: None }), Err(Errno::EEXIST));
}

#[test]
fn a_found_file_is_opened_unless_creation_is_exclusive() {
    let rig = Rig::new();
    let file = rig.file("f");
    let flags =
        Some(OpenFlags { read: true, write: true, exec: false, append: false, lasting: false });
    let op = |exclusive, kind| {
        MdsOp::Create(Create {
            parent: Fid::ROOT,
            name: n("f"),
            kind,
            mode: 0o600,
            umask: 0,
            exclusive,
        })
    };
    let (found, handle, created) = opened(rig.one(op(false, CreateKind::Regular(flags))).unwrap());
    assert_eq!((found.attr.fid, created), (file, false));
    assert_ne!(handle, OpenHandle(0));
    assert_eq!(rig.one(op(true, CreateKind::Regular(flags))), Err(Errno::EEXIST));
    assert_eq!(rig.one(op(false, CreateKind::Directory { mdt: None })), Err(Errno::EEXIST));
    assert_eq!(rig.one(MdsOp::Close(Close { fid: file, handle })), Ok(MdsReply::Done));
    assert_eq!(rig.one(MdsOp::Close(Close { fid: file, handle })), Err(Errno::EBADF));
    assert_eq!(rig.mds.open_count(), 0);
}

#[test]
fn creation_opens_nothing_that_is_no_file() {
    let rig = Rig::new();
    let special = |file_type| CreateKind::Special(file_type, 0);
    let flags =
        Some(OpenFlags { read: true, write: false, exec: false, append: false, lasting: false });
    for (kind, expected) in [
        (CreateKind::Directory { mdt: None }, Errno::EISDIR),
        (CreateKind::Symlink(b(b"x")), Errno::ESTALE),
        (special(FileType::Fifo), Errno::ESTALE),
    ] {
        rig.create(Fid::ROOT, "other", kind.clone()).unwrap();
        let op = MdsOp::Create(Create {
            parent: Fid::ROOT,
            name: n("other"),
            kind: CreateKind::Regular(flags),
            mode: 0o600,
            umask: 0,
            exclusive: false,
        });
        assert_eq!(rig.one(op), Err(expected));
        let remove = match kind {
            CreateKind::Directory { mdt: None } => {
                MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: n("other") })
            }
            _ => MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: n("other") }),
        };
        rig.one(remove).unwrap();
    }
    assert_eq!(rig.mds.open_count(), 0);
}

#[test]
fn directories_and_links_are_opened_as_what_they_are() {
    let rig = Rig::new();
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let link = rig.create(Fid::ROOT, "l", CreateKind::Symlink(b(b"x"))).unwrap();
    let open = |fid, write| {
        rig.one(MdsOp::Open(Open {
            fid,
            flags: OpenFlags { read: true, write, exec: false, append: false, lasting: false },
        }))
    };
    assert!(open(dir, false).is_ok());
    assert_eq!(open(dir, true), Err(Errno::EISDIR));
    assert_eq!(open(link, false), Err(Errno::ELOOP));
    assert_eq!(open(Fid { oid: 99, ..dir }, false), Err(Errno::ESTALE));
}

#[test]
fn attributes_are_changed_and_many_are_read_at_once() {
    let rig = Rig::new();
    let file = rig.file("f");
    let changed = rig
        .setattr(file, SetAttr { mode: Some(0o640), uid: Some(5), ..SetAttr::default() })
        .unwrap();
    assert_eq!((changed.mode, changed.uid), (0o100640, 5));
    let gone = Fid { oid: 99, ..file };
    match rig.one(MdsOp::GetattrMany(GetattrMany::of(vec![file, gone, Fid::ROOT]))).unwrap() {
        MdsReply::Attrs(attrs) => {
            assert_eq!(attrs[0].as_ref().unwrap().attr, changed);
            assert_eq!(attrs[1], None);
            assert!(attrs[2].is_some());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        rig.one_as(
            CLIENT,
            &user(6),
            MdsOp::Setattr(Setattr {
                fid: file,
                set: SetAttr { mode: Some(0), ..SetAttr::default() }
            })
        ),
        Err(Errno::EPERM)
    );
    let too_many = GetattrMany::of(vec![file; INODES_PER_REPLY_MAX + 1]);
    assert_eq!(rig.one(MdsOp::GetattrMany(too_many)), Err(Errno::E2BIG));
}

#[test]
fn names_that_lead_elsewhere_than_expected_stay() {
    let rig = Rig::new();
    let (file, other, dir) = (
        rig.file("f"),
        rig.file("other"),
        rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }),
    );
    let dir = dir.unwrap();
    let at = |name: &str, inode| MdsOp::Expect(Expect { parent: Fid::ROOT, name: n(name), inode });
    let unlink = |name: &str| MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: n(name) });
    let rmdir = |name: &str| MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: n(name) });
    let rename = |a: &str, b: &str, exchange| {
        let flags = RenameFlags { exchange, no_replace: false };
        MdsOp::Rename(Rename {
            parent: Fid::ROOT,
            name: n(a),
            new_parent: Fid::ROOT,
            new_name: n(b),
            flags,
        })
    };
    let last = |ops: Vec<MdsOp>| rig.ops(ops).pop().expect("a result");
    for ops in [
        vec![at("f", other), unlink("f")],
        vec![at("d", other), rmdir("d")],
        // Whatever else is wrong with it.
        vec![at("d", other), unlink("d")],
        vec![at("f", other), rename("f", "new", false)],
        vec![at("f", file), at("other", file), rename("f", "other", false)],
        vec![at("f", file), at("other", file), rename("f", "other", true)],
        // Nothing is replaced where something is expected.
        vec![at("f", file), at("new", other), rename("f", "new", false)],
    ] {
        assert_eq!(last(ops.clone()), Err(Errno::ESTALE), "{ops:?}");
        assert_eq!(rig.names(Fid::ROOT), ["d", "f", "other"], "{ops:?}");
    }
    for ops in
        [vec![at("gone", file), unlink("gone")], vec![at("gone", file), rename("gone", "f", false)]]
    {
        assert_eq!(last(ops), Err(Errno::ENOENT), "it says so by itself");
    }
    let removed = |fid| Ok(MdsReply::Removed(Removed { fid, nlink: 0 }));
    // An expectation is about its name only.
    assert_eq!(last(vec![at("f", other), rmdir("d")]), removed(dir));
    assert_eq!(
        last(vec![at("f", file), at("other", other), rename("f", "other", false)]),
        removed(other)
    );
    assert_eq!(last(vec![at("other", file), unlink("other")]), removed(file));
    rig.assert_empty();
}

#[test]
fn names_are_linked_moved_and_removed() {
    let rig = Rig::new();
    let file = rig.file("f");
    let linked =
        rig.one(MdsOp::Link(Link { fid: file, new_parent: Fid::ROOT, new_name: n("g") })).unwrap();
    assert_eq!(entry(linked).attr.nlink, 2);
    let other = rig.file("other");
    let rename = |a: &str, b: &str, flags| {
        rig.one(MdsOp::Rename(Rename {
            parent: Fid::ROOT,
            name: n(a),
            new_parent: Fid::ROOT,
            new_name: n(b),
            flags,
        }))
    };
    let exchange = RenameFlags { exchange: true, no_replace: false };
    let no_replace = RenameFlags { exchange: false, no_replace: true };
    assert_eq!(rename("g", "other", no_replace), Err(Errno::EEXIST));
    assert_eq!(
        rename("g", "other", exchange),
        Ok(MdsReply::Removed(Removed { fid: Fid::NONE, nlink: 0 }))
    );
    let plain = RenameFlags::default();
    assert_eq!(
        rename("other", "g", plain),
        Ok(MdsReply::Removed(Removed { fid: other, nlink: 0 }))
    );
    assert_eq!(rig.getattr(other), Err(Errno::ESTALE));
    assert_eq!(rig.names(Fid::ROOT), ["f", "g"]);
    assert_eq!(rig.unlink("f"), Ok(MdsReply::Removed(Removed { fid: file, nlink: 1 })));
    assert_eq!(rig.unlink("g"), Ok(MdsReply::Removed(Removed { fid: file, nlink: 0 })));
    assert_eq!(rig.unlink("g"), Err(Errno::ENOENT));
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let rmdir = || rig.one(MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: n("d") }));
    rig.create(dir, "x", CreateKind::Directory { mdt: None }).unwrap();
    assert_eq!(rmdir(), Err(Errno::ENOTEMPTY));
    rig.one(MdsOp::Rmdir(Rmdir { parent: dir, name: n("x") })).unwrap();
    assert_eq!(rmdir(), Ok(MdsReply::Removed(Removed { fid: dir, nlink: 0 })));
    rig.assert_empty();
}

#[test]
fn extended_attributes_are_kept_listed_and_removed() {
    let rig = Rig::new();
    let file = rig.file("f");
    let set = |name, value, flags| {
        rig.one(MdsOp::Setxattr(Setxattr { fid: file, name: b(name), value: b(value), flags }))
    };
    let create = SetxattrFlags { create: true, ..SetxattrFlags::default() };
    let replace = SetxattrFlags { replace: true, ..SetxattrFlags::default() };
    assert_eq!(set(b"user.a", b"1", replace), Err(Errno::ENODATA));
    assert_eq!(set(b"user.a", b"1", create), Ok(MdsReply::Done));
    assert_eq!(set(b"user.a", b"1", create), Err(Errno::EEXIST));
    assert_eq!(set(b"trusted.b", b"2", create), Ok(MdsReply::Done));
    assert_eq!(set(b"other.b", b"2", create), Err(Errno::EOPNOTSUPP));
    assert_eq!(
        rig.one(MdsOp::Getxattr(Getxattr { fid: file, name: b(b"user.a") })),
        Ok(MdsReply::Bytes(b(b"1")))
    );
    assert_eq!(
        rig.one(MdsOp::Listxattr(Listxattr { fid: file })),
        Ok(MdsReply::Bytes(b(b"trusted.b\0user.a\0")))
    );
    let theirs = rig.one_as(CLIENT, &user(9), MdsOp::Listxattr(Listxattr { fid: file }));
    assert_eq!(theirs, Ok(MdsReply::Bytes(b(b"user.a\0"))));
    assert!(entry(rig.one(MdsOp::Getattr(Getattr::of(file))).unwrap()).has_xattr);
    for name in [&b"user.a"[..], b"trusted.b"] {
        assert_eq!(
            rig.one(MdsOp::Removexattr(Removexattr { fid: file, name: b(name) })),
            Ok(MdsReply::Done)
        );
    }
    assert!(!entry(rig.one(MdsOp::Getattr(Getattr::of(file))).unwrap()).has_xattr);
    assert_eq!(
        rig.one(MdsOp::Getxattr(Getxattr { fid: file, name: b(b"user.a") })),
        Err(Errno::ENODATA)
    );
    set(b"user.last", b"x", create).unwrap();
    rig.unlink("f").unwrap();
    rig.assert_empty();
}

#[test]
fn the_size_follows_what_was_written() {
    let rig = Rig::new();
    let file = rig.file("f");
    let wrote = MdsOp::Wrote(Wrote {
        fid: file,
        end: 100,
        blocks_delta: 8,
        at: types::attr::WrittenAt::Now,
        kill_suidgid: false,
    });
    let attr = entry(rig.one(wrote).unwrap()).attr;
    assert_eq!((attr.size, attr.blocks), (100, 8));
    assert_eq!(rig.getattr(file).unwrap().size, 100);
    assert_eq!(rig.setattr(file, SetAttr { size: Some(5), ..SetAttr::default() }).unwrap().size, 5);
    assert_eq!(
        rig.one(MdsOp::Wrote(Wrote {
            fid: Fid::ROOT,
            end: 1,
            blocks_delta: 0,
            at: types::attr::WrittenAt::Now,
            kill_suidgid: false
        })),
        Err(Errno::EINVAL)
    );
}

#[test]
fn a_vector_uses_results_and_stops_at_the_first_failure() {
    let rig = Rig::new();
    let create = |parent, name: &str, kind| {
        MdsOp::Create(Create {
            parent,
            name: n(name),
            kind,
            mode: 0o755,
            umask: 0,
            exclusive: true,
        })
    };
    let results = rig.ops(vec![
        create(Fid::ROOT, "a", CreateKind::Directory { mdt: None }),
        create(Fid::result_of(0), "b", CreateKind::Directory { mdt: None }),
        MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: n("a") }),
        MdsOp::Lookup(Lookup { parent: Fid::result_of(2), name: n("b") }),
        MdsOp::Getattr(Getattr::of(Fid::result_of(3))),
        MdsOp::Lookup(Lookup { parent: Fid::result_of(2), name: n("missing") }),
        create(Fid::ROOT, "never", CreateKind::Directory { mdt: None }),
    ]);
    let b = opened(results[1].clone().unwrap()).0.attr.fid;
    assert_eq!(entry(results[4].clone().unwrap()).attr.fid, b);
    assert_eq!(results[5], Err(Errno::ENOENT));
    assert_eq!(results[6], Err(Errno::ECANCELED));
    assert_eq!(rig.names(Fid::ROOT), ["a"]);
    let results = rig.ops(vec![MdsOp::Getattr(Getattr::of(Fid::result_of(0))), MdsOp::Statfs]);
    assert_eq!(results, [Err(Errno::EINVAL), Err(Errno::ECANCELED)]);
    let results = rig.ops(vec![MdsOp::Statfs, MdsOp::Getattr(Getattr::of(Fid::result_of(0)))]);
    assert_eq!(results[1], Err(Errno::EINVAL), "an operation without an inode as its result");
}

#[test]
fn replies_carry_the_transno_of_the_newest_change() {
    let rig = Rig::new();
    let root = Credentials::root();
    let file = rig.file("f");
    let changed = wait(rig.send(
        CLIENT,
        &root,
        vec![MdsOp::Setattr(Setattr {
            fid: file,
            set: SetAttr { mode: Some(0o600), ..SetAttr::default() },
        })],
    ));
    assert_ne!(changed.transno.0, 0);
    assert_eq!(rig.getattr(file).unwrap().version, changed.transno.0);
    let read = wait(rig.send(CLIENT, &root, vec![MdsOp::Getattr(Getattr::of(file))]));
    assert_eq!(read.transno, changed.transno, "what the answer shows is durable with it");
    assert_eq!(rig.one(MdsOp::Sync), Ok(MdsReply::Done));
    let read = wait(rig.send(CLIENT, &root, vec![MdsOp::Statfs]));
    assert!(read.last_committed >= changed.transno);
}

#[test]
fn inodes_of_other_mdts_are_refused_in_so_many_words() {
    let rig = Rig::new();
    let file = rig.file("f");
    let foreign = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 1, ver: 0 };
    assert_eq!(rig.getattr(foreign), Err(Errno::EREMOTE));
    let link = MdsOp::Link(Link { fid: file, new_parent: foreign, new_name: n("g") });
    assert_eq!(rig.one(link), Err(Errno::EREMOTE), "the MDT of the new name is to be asked");
    let flags = RenameFlags::default();
    let rename = MdsOp::Rename(Rename {
        parent: Fid::ROOT,
        name: n("f"),
        new_parent: foreign,
        new_name: n("g"),
        flags,
    });
    assert_eq!(rig.one(rename), Err(Errno::EREMOTE));
    assert_eq!(rig.getattr(Fid::NONE), Err(Errno::EINVAL));
}

/// Puts a name that leads to an inode of MDT0001.
fn elsewhere(rig: &Rig, parent: Fid, name: &str) -> Fid {
    let fid = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 9, ver: 0 };
    let key = disk::key::dirent(parent, name.as_bytes()).to_vec();
    let value = disk::dirent::encode(fid, FileType::Directory).to_vec();
    let put = vec![Record { key: key.into(), value: Some(value.into()) }];
    rig.one(MdsOp::Mend(Mend { expect: Vec::new(), put })).unwrap();
    fid
}

#[test]
fn a_name_may_lead_to_another_mdt() {
    let rig = Rig::new();
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let far = elsewhere(&rig, dir, "far");
    let remote = MdsReply::Remote { fid: far, file_type: FileType::Directory };
    assert_eq!(rig.one(MdsOp::Lookup(Lookup { parent: dir, name: n("far") })), Ok(remote));
    let list = Readdir {
        fid: dir,
        after: None,
        limit: 9,
        bytes_max: 9000,
        with_attr: true,
        with_layout: true,
    };
    let entry = DirEntry {
        name: n("far"),
        fid: far,
        file_type: FileType::Directory,
        entry: None,
        layout: None,
    };
    assert_eq!(
        rig.one(MdsOp::Readdir(list)),
        Ok(MdsReply::Entries { entries: vec![entry], more: false })
    );
    assert_eq!(rig.create(dir, "far", CreateKind::Directory { mdt: None }), Err(Errno::EEXIST));
    let flags = OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
    let kind = CreateKind::Regular(Some(flags));
    let open =
        Create { parent: dir, name: n("far"), kind, mode: 0o644, umask: 0, exclusive: false };
    assert_eq!(rig.one(MdsOp::Create(open)), Err(Errno::EISDIR));
    assert_eq!(rig.one(MdsOp::Unlink(Unlink { parent: dir, name: n("far") })), Err(Errno::EISDIR));
    assert_eq!(
        rig.one(MdsOp::Rmdir(Rmdir { parent: Fid::ROOT, name: n("d") })),
        Err(Errno::ENOTEMPTY)
    );
}

#[test]
fn a_directory_is_made_at_the_mdt_that_was_asked_for_or_not_at_all() {
    let rig = Rig::new();
    let own =
        rig.create(Fid::ROOT, "own", CreateKind::Directory { mdt: Some(TargetIndex(0)) }).unwrap();
    assert_eq!(own.mdt(), 0);
    let other = CreateKind::Directory { mdt: Some(TargetIndex(1)) };
    assert_eq!(rig.create(Fid::ROOT, "other", other), Err(Errno::ERANGE));
    let lookup = rig.one(MdsOp::Lookup(Lookup { parent: Fid::ROOT, name: n("other") }));
    assert_eq!(lookup, Err(Errno::ENOENT));
}

#[test]
fn a_parent_may_be_on_another_mdt() {
    let rig = Rig::new();
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let far = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 9, ver: 0 };
    let (key, mut record) = (disk::key::inode(dir), Vec::new());
    let old = rig.value(&key).unwrap();
    let inode = disk::inode::decode(dir, &old).unwrap();
    disk::inode::encode(&disk::inode::InodeRecord { parent: far, ..inode }, &mut record);
    let put = vec![Record { key: key.to_vec().into(), value: Some(record.into()) }];
    rig.one(MdsOp::Mend(Mend { expect: Vec::new(), put })).unwrap();
    let remote = MdsReply::Remote { fid: far, file_type: FileType::Directory };
    assert_eq!(rig.one(MdsOp::GetParent(GetParent { fid: dir })), Ok(remote));
}

fn layout(rig: &Rig, fid: Fid, write: bool) -> Result<Arc<Layout>, Errno> {
    match rig.one(MdsOp::GetLayout(GetLayout { fid, write, start: 0, end: 1 }))? {
        MdsReply::Layout(layout) => Ok(layout),
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_files_take_osts_in_turn() {
    let rig = Rig::new();
    let osts: Vec<u16> = (0..4)
        .map(|i| {
            layout(&rig, rig.file(&format!("f{i}")), false).unwrap().components[0].stripes[0].0
        })
        .collect();
    assert_eq!(osts.iter().filter(|o| **o == 0).count(), 2, "{osts:?}");
    assert_eq!(layout(&rig, Fid::ROOT, false), Err(Errno::EINVAL));
}

#[test]
fn a_file_made_without_any_ost_gets_one_when_it_is_written() {
    let rig = Rig::with_osts(0);
    let file = rig.file("f");
    assert!(layout(&rig, file, false).unwrap().components[0].stripes.is_empty());
    assert_eq!(layout(&rig, file, true), Err(Errno::ENOSPC));
    *rig.osts.count.lock() = 1;
    assert_eq!(layout(&rig, file, true).unwrap().components[0].stripes, [TargetIndex(0)]);
    assert_eq!(layout(&rig, file, false).unwrap().components[0].stripes, [TargetIndex(0)]);
}

#[test]
fn a_write_waits_for_osts_that_may_come_back_and_not_for_others() {
    let rig = Rig::with_osts(1);
    rig.osts.away.lock().insert(TargetIndex(0));
    until("the MDT misses it", || rig.mds.osts().iter().all(|(_, active)| !active));
    let file = rig.file("f");
    std::thread::scope(|scope| {
        let written = scope.spawn(|| layout(&rig, file, true));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!written.is_finished(), "there is no telling that there is no space");
        rig.osts.away.lock().clear();
        assert_eq!(written.join().unwrap().unwrap().components[0].stripes, [TargetIndex(0)]);
    });
    rig.osts.away.lock().insert(TargetIndex(0));
    until("the MDT misses it", || rig.mds.osts().iter().all(|(_, active)| !active));
    let another = rig.file("g");
    assert_eq!(layout(&rig, another, true), Err(Errno::EIO), "it did not come back");
    rig.osts.out_of_use.lock().insert(TargetIndex(0));
    assert_eq!(layout(&rig, another, true), Err(Errno::ENOSPC), "nobody expects it");
}

#[test]
fn default_layouts_are_set_inherited_and_removed() {
    let rig = Rig::new();
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    let lov = |fid| rig.one(MdsOp::Getxattr(Getxattr { fid, name: b(b"lustre.lov") }));
    assert_eq!(lov(dir), Err(Errno::ENODATA));
    let wide = layout::lov_ea::encode(&plain(2, 1 << 20, None), Fid::NONE);
    let set = |fid, value: Vec<u8>| {
        let flags = SetxattrFlags::default();
        rig.one(MdsOp::Setxattr(Setxattr {
            fid,
            name: b(b"lustre.lov"),
            value: value.into(),
            flags,
        }))
    };
    assert_eq!(set(dir, wide.clone()), Ok(MdsReply::Done));
    assert!(lov(dir).is_ok());
    let sub = rig.create(dir, "sub", CreateKind::Directory { mdt: None }).unwrap();
    let file = rig.create(sub, "f", CreateKind::Regular(None)).unwrap();
    let inherited = layout(&rig, file, false).unwrap();
    assert_eq!(
        (inherited.components[0].stripes.len(), inherited.components[0].stripe_size),
        (2, 1 << 20)
    );
    assert_eq!(
        rig.one(MdsOp::Removexattr(Removexattr { fid: dir, name: b(b"lustre.lov") })),
        Ok(MdsReply::Done)
    );
    assert_eq!(lov(dir), Err(Errno::ENODATA));
    assert_eq!(set(dir, b"nonsense".to_vec()), Err(Errno::EINVAL));

    let plain_file = rig.file("plain");
    assert_eq!(set(plain_file, wide.clone()), Ok(MdsReply::Done), "it never held data");
    let now = layout(&rig, plain_file, false).unwrap();
    assert_eq!(
        (now.components[0].stripes.len(), now.components[0].id),
        (2, 2),
        "instances are never used twice"
    );
    layout(&rig, plain_file, true).unwrap();
    assert_eq!(set(plain_file, wide), Err(Errno::EEXIST));
    assert_eq!(
        rig.one(MdsOp::Listxattr(Listxattr { fid: plain_file })),
        Ok(MdsReply::Bytes(b(b"trusted.lov\0")))
    );
    let bare = rig.file("bare");
    assert_eq!(
        rig.one(MdsOp::Listxattr(Listxattr { fid: bare })),
        Ok(MdsReply::Bytes(b(b""))),
        "the default is nobody's own"
    );
    assert_eq!(
        rig.one_as(
            CLIENT,
            &user(3),
            MdsOp::Getxattr(Getxattr { fid: plain_file, name: b(b"trusted.lov") })
        ),
        Err(Errno::ENODATA)
    );
}

#[test]
fn a_waiting_lock_is_granted_cancelled_or_freed_with_its_client() {
    let rig = Rig::new();
    let file = rig.file("f");
    let root = Credentials::root();
    let other = ClientUuid(2);
    let lock = |kind| Flock {
        flavor: FlockFlavor::Posix,
        kind,
        owner: 1,
        pid: 10,
        start: 0,
        end: u64::MAX,
    };
    let set = |kind, wait| MdsOp::FlockSet(FlockSet { fid: file, lock: lock(kind), wait });
    assert_eq!(rig.one(set(FlockKind::Write, false)), Ok(MdsReply::Done));
    assert_eq!(rig.one_as(other, &root, set(FlockKind::Write, false)), Err(Errno::EAGAIN));
    let test = rig.one_as(
        other,
        &root,
        MdsOp::FlockTest(FlockTest { fid: file, lock: lock(FlockKind::Read) }),
    );
    assert!(matches!(test, Ok(MdsReply::Flock(Some(held))) if held.pid == 10));

    let waiting = rig.send(other, &root, vec![set(FlockKind::Write, true)]);
    let thread = std::thread::spawn(move || wait(waiting).results.remove(0));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!thread.is_finished());
    rig.one(set(FlockKind::Unlock, false)).unwrap();
    assert_eq!(thread.join().unwrap().map(mds_reply), Ok(MdsReply::Done));

    let waiting = rig.send(CLIENT, &root, vec![set(FlockKind::Write, true)]);
    let thread = std::thread::spawn(move || wait(waiting).results.remove(0));
    until("cancelled", || {
        rig.one(MdsOp::FlockCancel(FlockCancel { fid: file, lock: lock(FlockKind::Write) }))
            .unwrap();
        thread.is_finished()
    });
    assert_eq!(thread.join().unwrap().map(mds_reply), Err(Errno::EINTR));

    rig.gone(other);
    assert_eq!(rig.one(set(FlockKind::Write, false)), Ok(MdsReply::Done));

    // An absent inode cannot be locked: it would cost memory without a bound.
    let nothing = Fid { oid: file.oid + 1000, ..file };
    let absent = |kind| MdsOp::FlockSet(FlockSet { fid: nothing, lock: lock(kind), wait: false });
    assert_eq!(rig.one(absent(FlockKind::Write)), Err(Errno::ESTALE));
    let test = MdsOp::FlockTest(FlockTest { fid: nothing, lock: lock(FlockKind::Read) });
    assert_eq!(rig.one(test), Err(Errno::ESTALE));
    assert_eq!(rig.one(absent(FlockKind::Unlock)), Ok(MdsReply::Done));
}
