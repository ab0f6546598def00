//! Directories are listed, in pieces, and others have their turns meanwhile.

use crate::rig::holder::{Answer, Holder};
use crate::rig::*;
use std::thread::JoinHandle;
use types::attr::FileType;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::session::ClientUuid;
use wire::client::ClientOp;
use wire::mds::{
    Create, CreateKind, GetParent, Getattr, GetattrMany, Lock, MdsOp, MdsReply, Readdir,
};
use wire::message::{OpReply, Reply};

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
    assert!(turns_given(&rig, MdsOp::GetattrMany(GetattrMany::of(fids))) >= 20);
}

fn list(with_attr: bool) -> MdsOp {
    let (fid, after, limit, bytes_max) = (Fid::ROOT, None, 1024, u32::MAX);
    MdsOp::Readdir(Readdir { fid, after, limit, bytes_max, with_attr, with_layout: false })
}

fn grants_of_root(reply: &Reply) -> InodeBits {
    let grants = reply.grants.iter().filter(|grant| grant.fid == Fid::ROOT);
    grants.fold(InodeBits::NONE, |bits, grant| bits.union(grant.bits))
}

/// A change of the root's names that waits for a holder of UPDATE; until that answers, no client is
/// granted it.
fn change_that_waits(rig: &Rig) -> (Holder, JoinHandle<Reply>) {
    let (holder, author) = (rig.holder(20), rig.holder(21));
    rig.warm(&holder, list(false));
    holder.answers(Answer::Later);
    let kind = CreateKind::Regular(None);
    let create =
        Create { parent: Fid::ROOT, name: n("new"), kind, mode: 0o644, umask: 0, exclusive: true };
    let change = rig.start(&author, MdsOp::Create(create));
    assert!(matches!(holder.asked(), ClientOp::Changing { .. }));
    (holder, change)
}

#[test]
fn a_listing_without_update_is_not_covered_by_what_a_later_operation_is_granted() {
    let rig = Rig::new();
    let (writer, reader) = (rig.holder(10), rig.holder(11));
    let file = rig.file("f");
    rig.warm(&writer, MdsOp::Lock(Lock { fid: file, bits: InodeBits::WRITE, needs: None }));
    writer.answers(Answer::Later);
    let (holder, change) = change_that_waits(&rig);
    // It lists the directory without UPDATE, and waits for the size of `f`.
    let parent = MdsOp::GetParent(GetParent { fid: Fid::ROOT });
    let request = rig.send(reader.client, &Credentials::root(), vec![list(true), parent]);
    let listing = std::thread::spawn(move || wait(request));
    assert!(matches!(writer.asked(), ClientOp::Glimpse { .. }));
    holder.answers(Answer::Done);
    assert!(change.join().unwrap().results[0].is_ok());
    writer.answers(Answer::Done);
    let reply = listing.join().unwrap();
    let Ok(OpReply::Mds(MdsReply::Entries { entries, .. })) = &reply.results[0] else { panic!() };
    assert_eq!(entries.len(), 1, "as it was before the change");
    assert!(!grants_of_root(&reply).contains(InodeBits::UPDATE), "{:?}", reply.grants);
    assert!(rig.warm(&reader, list(false)).contains(&(Fid::ROOT, InodeBits::UPDATE)));
}

#[test]
fn a_listing_is_covered_by_update_from_its_first_turn_or_not_at_all() {
    let rig = Rig::new();
    (0..300).for_each(|i| _ = rig.file(&format!("n{i:04}")));
    let reader = rig.holder(11);
    let (holder, change) = change_that_waits(&rig);
    let mut request = rig.send(reader.client, &Credentials::root(), vec![list(true)]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending(), "the first turn is over");
    holder.answers(Answer::Done);
    assert!(change.join().unwrap().results[0].is_ok());
    let reply = wait(request);
    assert!(!grants_of_root(&reply).contains(InodeBits::UPDATE), "{:?}", reply.grants);
}
