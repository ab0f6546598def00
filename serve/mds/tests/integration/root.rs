//! Which directory is the root of a mount.

use crate::rig::{Rig, n};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{CreateKind, Getattr, MdsOp, MdsReply, Rmdir, Root};

fn root(rig: &Rig, path: &str, from: Fid, walked: u32) -> Result<(Fid, u32, bool), Errno> {
    let path = path.parse().unwrap();
    match rig.one(MdsOp::Root(Root { path, from, walked, fileset: 0 }))? {
        MdsReply::Root { fid, walked, fileset: 0, is_root, read_only: false } => {
            Ok((fid, walked, is_root))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_path_leads_to_the_root_of_a_mount() {
    let rig = Rig::new();
    let kind = || CreateKind::Directory { mdt: None };
    let a = rig.create(Fid::ROOT, "a", kind()).unwrap();
    let b = rig.create(a, "b", kind()).unwrap();
    rig.create(a, "file", CreateKind::Regular(None)).unwrap();
    rig.create(a, "link", CreateKind::Symlink("b".into())).unwrap();
    let whole = |path| root(&rig, path, Fid::NONE, 0);
    assert_eq!(whole(""), Ok((Fid::ROOT, 0, true)));
    assert_eq!(whole("/a"), Ok((a, 1, true)));
    assert_eq!(whole("/a/b"), Ok((b, 2, true)));
    assert_eq!(whole("/a/c"), Err(Errno::ENOENT));
    assert_eq!(whole("/a/file"), Err(Errno::ENOTDIR));
    assert_eq!(whole("/a/file/x"), Err(Errno::ENOTDIR));
    assert_eq!(whole("/a/link"), Err(Errno::ENOTDIR), "no link is followed");
    // As another MDT goes on.
    assert_eq!(root(&rig, "/far/b", a, 1), Ok((b, 2, true)));
    assert_eq!(root(&rig, "/far", a, 1), Ok((a, 1, true)));
    assert_eq!(root(&rig, "/far", a, 2), Err(Errno::ESTALE), "a shorter path than before");
    let path = "/far".parse().unwrap();
    let other = MdsOp::Root(Root { path, from: a, walked: 1, fileset: 1 });
    assert_eq!(rig.one(other), Err(Errno::ESTALE), "here there is no fileset");
    let elsewhere = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 1, ver: 0 };
    assert_eq!(root(&rig, "/far/b", elsewhere, 1), Err(Errno::EREMOTE));
    // With its attributes, in one request.
    let (path, from, walked) = ("/a/b".parse().unwrap(), Fid::NONE, 0);
    let ops = vec![
        MdsOp::Root(Root { path, from, walked, fileset: 0 }),
        MdsOp::Getattr(Getattr::of(Fid::result_of(0))),
    ];
    let results = rig.ops(ops);
    assert!(matches!(&results[1], Ok(MdsReply::Entry(entry)) if entry.attr.fid == b));
    rig.one(MdsOp::Rmdir(Rmdir { parent: a, name: n("b") })).unwrap();
    assert_eq!(whole("/a/b"), Err(Errno::ENOENT));
}
