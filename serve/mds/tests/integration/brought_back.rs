//! Bytes of files that are not durable when the MDT dies: their author brings them back beside its
//! redo, and another client that was shown them in it (docs/recovery.md).

use crate::dom::{file, read};
use crate::rig::{CREDENTIALS, Rig, b, wait};
use bytes::Bytes;
use rpc::service::{Export, Service};
use std::sync::Arc;
use types::attr::WrittenAt;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::GRANT_UNIT;
use types::principal::Role;
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId};
use wire::mds::{GrantSpace, MdsOp, Read, Setxattr, SetxattrFlags, Store, Write};
use wire::message::{ConnectRequest, Op, Redo, Reply, Request, VERSION_MAX, VERSION_MIN};

const AUTHOR: ClientUuid = ClientUuid(11);
const READER: ClientUuid = ClientUuid(12);
const LEN: usize = 8192;
const AT: u64 = 100;

/// A session of a client on the network.
pub fn session(rig: &Rig, client: ClientUuid) -> Arc<Export> {
    let nid = "10.0.0.3:5000@tcp".parse().unwrap();
    let export = Export::elsewhere(rig.mds.name(), client, nid, Role::Client);
    let hello = ConnectRequest {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        cluster: ClusterId(7),
        client,
        description: String::new(),
        boot: 0,
        proof: Proof(0),
        server: Proof(0),
    };
    rig.mds.connect(&export, &hello).unwrap();
    export
}

pub async fn asks(rig: &Rig, export: &Arc<Export>, xid: u64, ops: Vec<Op>) -> Reply {
    let request = Request { ops, ..rig.request(xid, &CREDENTIALS, Vec::new()) };
    rig.mds.clone().handle(export.clone(), request).await
}

fn data(byte: u8) -> Bytes {
    (0..LEN).map(|at| byte.wrapping_add((at % 251) as u8)).collect()
}

fn store(fid: Fid, data: Bytes) -> Op {
    // Two pieces, as a client has them.
    let pieces = vec![(AT, data.slice(..LEN / 2)), (AT + LEN as u64 / 2, data.slice(LEN / 2..))];
    Op::Mds(MdsOp::Store(Store { fid, pieces, at: WrittenAt::Now }))
}

/// These clients are recorded, and all so far is durable. Nothing that comes is.
fn only_so_far_durable(rig: &Rig, fid: Fid, clients: &[&Arc<Export>]) {
    for export in clients {
        let (name, value) = (b(b"user.a"), b(b"b"));
        let set = Setxattr { fid, name, value, flags: SetxattrFlags::default() };
        let reply = wait(asks(rig, export, 9, vec![Op::Mds(MdsOp::Setxattr(set))]));
        assert!(reply.results[0].is_ok(), "{reply:?}");
    }
    wait(rig.store.commit()).unwrap();
    rig.store.discard_from_now_on();
}

/// What is stored and not durable: the file, the redo that its author has, and that of a reader.
fn stored(rig: &Rig) -> (Fid, Redo, Redo) {
    let fid = file(rig, "f");
    let (author, reader) = (session(rig, AUTHOR), session(rig, READER));
    only_so_far_durable(rig, fid, &[&author, &reader]);
    let grant = GrantSpace { spend: 0, back: 0, want: 4 * GRANT_UNIT };
    let ops = vec![Op::Mds(MdsOp::Grant(grant)), store(fid, data(1))];
    let mut reply = wait(asks(rig, &author, 10, ops));
    assert!(reply.results.iter().all(Result::is_ok), "{reply:?}");
    let its = reply.redo.pop().expect("it is not durable");
    assert_eq!((reply.redo.len(), its.data_of), (0, 2), "of the second operation");
    assert!(its.bytes.len() < LEN / 4, "{} bytes come back", its.bytes.len());
    let op = MdsOp::Read(Read { fid, offset: AT, len: LEN as u32 });
    let mut reply = wait(asks(rig, &reader, 10, vec![Op::Mds(op)]));
    let shown = reply.redo.pop().expect("it is told of a change of another");
    assert_eq!((reply.redo.len(), shown.transno, shown.data_of), (0, its.transno, 0));
    assert!(shown.bytes.len() > LEN, "{} bytes are not all", shown.bytes.len());
    (fid, its, shown)
}

/// The MDT dies; these are brought back. Returns the new life.
fn recovered(rig: Rig, author: Option<(Redo, Op)>, reader: Option<Redo>, refused: bool) -> Rig {
    let rig = rig.crash();
    let sessions = [AUTHOR, READER].map(|client| session(&rig, client));
    let brings = [
        author.map(|(redo, op)| vec![Op::Replay(vec![redo]), op]),
        reader.map(|redo| vec![Op::Replay(vec![redo])]),
    ];
    let answer = if refused { Err(Errno::ENOTCONN) } else { Ok(()) };
    for (export, ops) in sessions.iter().zip(brings) {
        let Some(ops) = ops else { continue };
        let (count, reply) = (ops.len(), wait(asks(&rig, export, 20, ops)));
        let results: Vec<_> = reply.results.into_iter().map(|result| result.map(drop)).collect();
        assert_eq!(results, vec![answer; count]);
    }
    let ends = |export: &Arc<Export>| {
        let (rig, export) = (&rig, export.clone());
        async move {
            for (xid, op) in [(21, Op::Replayed), (22, Op::Restored)] {
                let reply = asks(rig, &export, xid, vec![op]).await;
                assert!(reply.results[0].is_ok() || refused, "{reply:?}");
            }
        }
    };
    wait(async { tokio::join!(ends(&sessions[0]), ends(&sessions[1])) });
    rig
}

#[test]
fn its_author_brings_the_bytes_of_a_store_back() {
    let rig = Rig::new();
    let (fid, redo, _) = stored(&rig);
    // Its operation stands first behind the redo.
    let redo = Redo { data_of: 1, ..redo };
    let rig = recovered(rig, Some((redo, store(fid, data(1)))), None, false);
    assert_eq!(read(&rig, fid, AT, LEN as u32).0, data(1));
    assert_eq!(read(&rig, fid, 0, AT as u32).0, vec![0; AT as usize]);
    assert_eq!(rig.getattr(fid).unwrap().size, AT + LEN as u64);
}

#[test]
fn a_client_that_was_shown_them_brings_them_back_in_the_redo() {
    let rig = Rig::new();
    let (fid, _, shown) = stored(&rig);
    let rig = recovered(rig, None, Some(shown), false);
    assert_eq!(read(&rig, fid, AT, LEN as u32).0, data(1));
}

#[test]
fn other_bytes_than_those_that_were_stored_are_refused() {
    for data_of in [1, 0, 2] {
        let rig = Rig::new();
        let (fid, redo, _) = stored(&rig);
        // Other data, none, and that of an operation that is not there.
        let brought = (Redo { data_of, ..redo }, store(fid, data(2)));
        let rig = recovered(rig, Some(brought), None, true);
        assert_eq!(read(&rig, fid, AT, LEN as u32), (Bytes::new(), 0, 0), "{data_of}");
    }
}

#[test]
fn a_write_of_a_client_that_keeps_nothing_has_its_bytes_in_the_redo() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    let author = session(&rig, AUTHOR);
    only_so_far_durable(&rig, fid, &[&author]);
    for keeps in [false, true] {
        let (data, at) = (data(u8::from(keeps)), WrittenAt::Now);
        let write = Write { fid, offset: 0, data, at, kill_suidgid: false, keeps };
        let xid = 10 + u64::from(keeps);
        let reply = wait(asks(&rig, &author, xid, vec![Op::Mds(MdsOp::Write(write))]));
        assert!(reply.results[0].is_ok(), "{reply:?}");
        let redo = reply.redo.last().expect("it is not durable");
        assert_eq!((redo.data_of, redo.bytes.len() > LEN), (u32::from(keeps), !keeps));
    }
}
