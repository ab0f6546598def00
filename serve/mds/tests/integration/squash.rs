//! What the MDT checks itself of callers that it squashes (docs/security.md, "Squash").

use crate::rig::n;
use crate::tickets::{A, OTHER, OWNER, activate, chmod, far, rig};
use types::errno::Errno;
use types::fid::Fid;
use wire::mds::{CreateKind, Link, MdsOp};

#[test]
fn a_squashed_caller_names_files_of_others_if_it_may_read_and_write_them() {
    let (rig, fid) = rig(0o644);
    let dir = rig.create(Fid::ROOT, "d", CreateKind::Directory { mdt: None }).unwrap();
    chmod(&rig, dir, 0o777);
    let a = far(&rig, A);
    let link = |uid, name| {
        let link = Link { fid, new_parent: dir, new_name: n(name) };
        a.op(&rig, uid, MdsOp::Link(link)).map(drop)
    };
    // The kernels of these have seen to it, as far as they are told to.
    assert_eq!(link(OTHER, "free"), Ok(()));
    activate(&rig, &[("trusted", "1")]);
    assert_eq!(link(OTHER, "trusted"), Ok(()));
    assert_eq!(link(0, "root"), Err(Errno::EPERM), "the kernel let root");
    activate(&rig, &[]);
    assert_eq!(link(OTHER, "squashed"), Err(Errno::EPERM));
    assert_eq!(link(OTHER, "free"), Err(Errno::EEXIST));
    chmod(&rig, fid, 0o666);
    assert_eq!(link(OTHER, "squashed"), Ok(()));
    chmod(&rig, fid, 0o4666);
    assert_eq!(link(OTHER, "more"), Err(Errno::EPERM), "it lends its owner");
    chmod(&rig, fid, 0o600);
    activate(&rig, &[("squash_uid", &OWNER.to_string())]);
    assert_eq!(link(0, "own"), Ok(()));
}
