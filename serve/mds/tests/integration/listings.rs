//! Directories are listed, in pieces, and others have their turns meanwhile.

use crate::rig::*;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::session::ClientUuid;
use wire::mds::{Getattr, GetattrMany, MdsOp, MdsReply, Readdir};

#[test]
fn a_directory_is_read_in_pieces_by_name() {
    let rig = Rig::new();
    let names: Vec<String> = (0..50).map(|i| format!("n{i:02}")).collect();
    let fids: Vec<Fid> = names.iter().map(|name| rig.file(name)).collect();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let op = MdsOp::Readdir(Readdir {
            fid: Fid::ROOT,
            after,
            limit: 7,
            bytes_max: u32::MAX,
            with_attr: true,
            with_layout: false,
        });
        let MdsReply::Entries { entries, more } = rig.one(op).unwrap() else { panic!() };
        assert!(entries.len() <= 7);
        after = entries.last().map(|e| e.name.clone());
        seen.extend(entries);
        if !more {
            break;
        }
    }
    assert_eq!(seen.iter().map(|e| e.name.to_string()).collect::<Vec<_>>(), names);
    assert_eq!(seen.iter().map(|e| e.fid).collect::<Vec<_>>(), fids);
    assert!(
        seen.iter().all(
            |e| e.entry.as_ref().unwrap().attr.fid == e.fid && e.file_type == FileType::Regular
        )
    );
    let op = MdsOp::Readdir(Readdir {
        fid: Fid::ROOT,
        after: None,
        limit: 100,
        bytes_max: 1,
        with_attr: false,
        with_layout: false,
    });
    assert!(
        matches!(rig.one(op).unwrap(), MdsReply::Entries { entries, more: true } if entries.len() == 1)
    );
    let op = MdsOp::Readdir(Readdir {
        fid: fids[0],
        after: None,
        limit: 100,
        bytes_max: 1,
        with_attr: false,
        with_layout: false,
    });
    assert_eq!(rig.one(op), Err(Errno::ENOTDIR));
}

/// How often a request gives others a turn before it is answered.
fn turns_given(rig: &Rig, op: MdsOp) -> usize {
    let mut request = rig.send(CLIENT, &Credentials::root(), vec![op]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut turns = 0;
    while request.as_mut().poll(&mut context).is_pending() {
        turns += 1;
        // Others change the directory and look meanwhile.
        let file = rig.file("meanwhile");
        let look = MdsOp::Getattr(Getattr::of(file));
        assert!(rig.one_as(ClientUuid(2), &Credentials::root(), look).is_ok());
        assert!(rig.unlink("meanwhile").is_ok());
    }
    turns
}

#[test]
fn others_have_their_turns_while_a_large_directory_is_listed() {
    let rig = Rig::new();
    let fids: Vec<Fid> = (0..3000).map(|i| rig.file(&format!("n{i:04}"))).collect();
    let readdir = |limit, with_attr| {
        let (bytes_max, with_layout) = (u32::MAX, false);
        MdsOp::Readdir(Readdir {
            fid: Fid::ROOT,
            after: None,
            limit,
            bytes_max,
            with_attr,
            with_layout,
        })
    };
    assert_eq!(turns_given(&rig, readdir(100, true)), 0, "a small one is answered at once");
    assert!(turns_given(&rig, readdir(3000, true)) >= 20);
    assert!(turns_given(&rig, readdir(3000, false)) >= 2);
    assert!(turns_given(&rig, MdsOp::GetattrMany(GetattrMany { fids })) >= 20);
}
