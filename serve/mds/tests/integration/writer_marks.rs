//! Writer marks of files whose writer dies together with the MDT (docs/recovery.md).

use crate::brought_back::session;
use crate::rig::{CREDENTIALS, Rig, n, opened, wait};
use disk::key;
use rpc::service::{Export, Service};
use std::sync::Arc;
use types::attr::WrittenAt;
use types::fid::Fid;
use types::session::{ClientUuid, Xid};
use wire::mds::{Close, Create, CreateKind, Lookup, MdsOp, Open, OpenFlags, Wrote};
use wire::message::{Op, OpReply, Redo, Reply, Request};

const WRITER: ClientUuid = ClientUuid(11);
const OTHER: ClientUuid = ClientUuid(12);
const SIZE: u64 = 9685;

/// Sends one operation; the client has the answers of all requests below `xid_known`.
fn asks(rig: &Rig, export: &Arc<Export>, (xid, xid_known): (u64, u64), op: Op) -> Reply {
    let request = rig.request(xid, &CREDENTIALS, Vec::new());
    let request = Request { ops: vec![op], xid_known: Xid(xid_known), ..request };
    let reply = wait(rig.mds.clone().handle(export.clone(), request));
    assert!(reply.results[0].is_ok(), "{reply:?}");
    reply
}

fn create(name: &str) -> Op {
    let kind = CreateKind::Regular(None);
    let (name, mode, umask) = (n(name), 0o644, 0o022);
    Op::Mds(MdsOp::Create(Create { parent: Fid::ROOT, name, kind, mode, umask, exclusive: true }))
}

/// A file that is durable and has its mark. Its writer then tells its size, closes it and creates
/// another file; only of the size it says that it has the answer. Nothing of that is durable.
/// Returns the file, and what a client that looks the other file up is given to keep.
fn closed_and_seen(rig: &Rig) -> (Fid, Vec<Redo>) {
    let fid = rig.file("f");
    let (writer, other) = (session(rig, WRITER), session(rig, OTHER));
    asks(rig, &other, (1, 1), create("recorded"));
    let flags = OpenFlags { read: true, write: true, exec: false, append: false, lasting: false };
    let mut reply = asks(rig, &writer, (1, 1), Op::Mds(MdsOp::Open(Open { fid, flags })));
    let Ok(OpReply::Mds(open)) = reply.results.remove(0) else { panic!("{reply:?}") };
    let handle = opened(open).1;
    wait(rig.store.commit()).unwrap();
    rig.store.discard_from_now_on();

    let wrote = Wrote { fid, end: SIZE, blocks_delta: 24, at: WrittenAt::Now, kill_suidgid: false };
    asks(rig, &writer, (2, 2), Op::Mds(MdsOp::Wrote(wrote)));
    asks(rig, &writer, (3, 3), Op::Mds(MdsOp::Close(Close { fid, handle })));
    assert!(!is_marked(rig, fid), "closed in order");
    asks(rig, &writer, (4, 3), create("g"));
    let lookup = Lookup { parent: Fid::ROOT, name: n("g") };
    let shown = asks(rig, &other, (2, 2), Op::Mds(MdsOp::Lookup(lookup)));
    (fid, shown.redo)
}

fn is_marked(rig: &Rig, fid: Fid) -> bool {
    rig.value(&key::writer(fid)).is_some()
}

/// The MDT dies, and the writer has nothing to bring; the other client brings this back.
fn recovered(rig: Rig, redo: Vec<Redo>) -> Rig {
    let rig = rig.crash();
    let (writer, other) = (session(&rig, WRITER), session(&rig, OTHER));
    asks(&rig, &other, (20, 20), Op::Replay(redo));
    let ends = async |export: &Arc<Export>| {
        for (xid, op) in [(21, Op::Replayed), (22, Op::Restored)] {
            let request = rig.request(xid, &CREDENTIALS, Vec::new());
            let request = Request { ops: vec![op], ..request };
            let reply = rig.mds.clone().handle(export.clone(), request).await;
            assert!(reply.results[0].is_ok(), "{reply:?}");
        }
    };
    wait(async { tokio::join!(ends(&writer), ends(&other)) });
    rig
}

#[test]
fn what_took_a_mark_away_comes_back_with_the_size() {
    let rig = Rig::new();
    let (fid, redo) = closed_and_seen(&rig);
    let rig = recovered(rig, redo);
    assert_eq!(rig.getattr(fid).unwrap().size, SIZE);
}
