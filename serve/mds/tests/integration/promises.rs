//! Space that an MDT promises for bytes of files: there when it is used, gone with the session.

use crate::dom::{file, read};
use crate::rig::{CLIENT, CREDENTIALS, Rig, b, entry, mds_reply, until, wait};
use bytes::Bytes;
use types::attr::{Statfs, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::{DOM_CHUNK_BYTES, GRANT_UNIT};
use types::session::{ClientUuid, Xid};
use types::time::Timestamp;
use wire::mds::{CreateKind, GrantSpace, MdsOp, MdsReply, Setxattr, SetxattrFlags, Store};

const OTHER: ClientUuid = ClientUuid(2);
/// Bytes that a promised block may take.
const WEIGHT: u64 = (DOM_CHUNK_BYTES as u64 + 2 * GRANT_UNIT) / GRANT_UNIT;
const SMALL: u64 = 24 << 20;

fn grant(spend: u64, back: u64, want: u64) -> MdsOp {
    MdsOp::Grant(GrantSpace { spend, back, want })
}

fn granted(rig: &Rig, client: ClientUuid, want: u64) -> u64 {
    match rig.one_as(client, &CREDENTIALS, grant(0, 0, want)).unwrap() {
        MdsReply::Granted { more, .. } => more,
        other => panic!("{other:?}"),
    }
}

fn statfs(rig: &Rig) -> Statfs {
    match rig.one(MdsOp::Statfs).unwrap() {
        MdsReply::Statfs(statfs) => statfs,
        other => panic!("{other:?}"),
    }
}

/// Stores these ranges: (first byte, bytes).
fn store(fid: Fid, pieces: &[(u64, &[u8])]) -> MdsOp {
    let pieces = pieces.iter().map(|(at, data)| (*at, Bytes::copy_from_slice(data))).collect();
    MdsOp::Store(Store { fid, pieces, at: WrittenAt::Now })
}

/// Takes all space that is not promised.
fn fill(rig: &Rig) {
    for count in 0..100_000 {
        wait(rig.store.commit()).unwrap();
        let Ok(fid) = rig.create(Fid::ROOT, &format!("f{count}"), CreateKind::Regular(None)) else {
            return;
        };
        let (value, flags) = (Bytes::from(vec![7; 16 << 10]), SetxattrFlags::default());
        match rig.one(MdsOp::Setxattr(Setxattr { fid, name: b(b"user.a"), value, flags })) {
            Err(Errno::ENOSPC) => return,
            result => drop(result.unwrap()),
        }
    }
    panic!("the limit holds");
}

#[test]
fn one_change_stores_all_ranges_with_size_and_times() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    let before = rig.getattr(fid).unwrap();
    let at = Timestamp { sec: before.mtime.sec + 1000, nsec: 7 };
    let chunk = DOM_CHUNK_BYTES as u64;
    let pieces = vec![(3, b(b"some")), (chunk - 2, b(b"edge")), (chunk + 100, b(b"more"))];
    let op = MdsOp::Store(Store { fid, pieces: pieces.clone(), at: WrittenAt::At(at) });
    let attr = entry(rig.one(op.clone()).unwrap()).attr;
    assert_eq!((attr.size, attr.blocks, attr.mtime), (chunk + 104, 33, at));
    assert_eq!(read(&rig, fid, 0, 8).0, b(b"\0\0\0some\0"));
    assert_eq!(read(&rig, fid, chunk - 3, 6).0, b(b"\0edge\0"));
    assert_eq!(read(&rig, fid, chunk + 99, 100).0, b(b"\0more"));
    // Once more it changes neither bytes nor times.
    let again = entry(rig.one(op).unwrap()).attr;
    assert_eq!((again.size, again.blocks, again.mtime), (attr.size, attr.blocks, at));
    // An older time does not take a newer one back.
    let old = WrittenAt::At(before.mtime);
    let op = MdsOp::Store(Store { fid, pieces: vec![(0, b(b"x"))], at: old });
    assert_eq!(entry(rig.one(op).unwrap()).attr.mtime, at);
    let elsewhere = Errno(libc::EREMCHG);
    let plain = rig.file("plain");
    assert_eq!(rig.one(store(fid, &[(0, b"a"), (65535, b"bc")])), Err(elsewhere));
    assert_eq!(rig.one(store(plain, &[(0, b"a")])), Err(elsewhere));
    assert_eq!(rig.one(store(fid, &[(5, b"ab"), (6, b"c")])), Err(Errno::EINVAL));
    assert_eq!(rig.one(store(Fid { oid: 99, ..fid }, &[(0, b"a")])), Err(Errno::ESTALE));
    assert_eq!(read(&rig, fid, 0, 1).0, b(b"x"), "what is refused changes nothing");
}

#[test]
fn several_files_are_stored_by_one_request_each_or_none() {
    let rig = Rig::new();
    let (a, c) = (file(&rig, "a"), file(&rig, "c"));
    let gone = Fid { oid: 99, ..a };
    let ops = vec![
        grant(3 * GRANT_UNIT, 0, 1 << 20),
        store(a, &[(0, b"first")]),
        store(gone, &[(0, b"lost")]),
        store(c, &[(0, b"second")]),
    ];
    let mut results = rig.ops(ops).into_iter();
    assert_eq!(results.next(), Some(Ok(MdsReply::Granted { more: 1 << 20, paid: 0 })));
    assert_eq!(entry(results.next().unwrap().unwrap()).attr.size, 5);
    assert_eq!(results.collect::<Vec<_>>(), [Err(Errno::ESTALE), Err(Errno::ECANCELED)]);
    assert_eq!((read(&rig, a, 0, 9).0, read(&rig, c, 0, 9).0), (b(b"first"), Bytes::new()));
}

#[test]
fn what_was_promised_is_there_when_the_mdt_is_full_and_not_more() {
    let rig = Rig::with(2, SMALL);
    let fids: Vec<Fid> = (0..8).map(|count| file(&rig, &format!("small{count}"))).collect();
    let free = statfs(&rig).bytes_available;
    // As many clients as may come want as much as they may get.
    let held: Vec<(ClientUuid, u64)> =
        (1..40).map(|n| (ClientUuid(n), granted(&rig, ClientUuid(n), 1 << 30))).collect();
    let sum: u64 = held.iter().map(|(_, bytes)| bytes).sum();
    assert!(sum > 0 && sum == rig.mds.promised());
    assert!(sum * WEIGHT <= free, "{sum} of {free}");
    assert!(statfs(&rig).bytes_available <= free - sum * WEIGHT);
    fill(&rig);
    assert_eq!(rig.create(Fid::ROOT, "no room", CreateKind::Regular(None)), Err(Errno::ENOSPC));
    assert_eq!(granted(&rig, ClientUuid(77), 1 << 20), 0, "nothing is left to promise");
    // Each block begins a chunk's last page: that takes most.
    let mut paid = 0;
    for (client, bytes) in held {
        let mut left = bytes / GRANT_UNIT;
        while left > 0 {
            let fid = fids[paid as usize % fids.len()];
            let count = left.min(4);
            let pieces: Vec<(u64, &[u8])> = (0..count)
                .map(|n| ((n + 1) * DOM_CHUNK_BYTES as u64 - GRANT_UNIT, &[7; 4096][..]))
                .collect();
            let ops = vec![grant(count * GRANT_UNIT, 0, 0), store(fid, &pieces)];
            let reply = wait(rig.send(client, &CREDENTIALS, ops));
            assert!(reply.results.iter().all(Result::is_ok), "{:?}", reply.results);
            (left, paid) = (left - count, paid + 1);
        }
    }
    wait(rig.store.commit()).unwrap();
    assert_eq!(rig.mds.promised(), 0);
}

#[test]
fn what_no_promise_covers_meets_a_full_mdt() {
    let rig = Rig::with(2, SMALL);
    let fid = file(&rig, "f");
    let bytes = granted(&rig, OTHER, 1 << 20);
    fill(&rig);
    let unpaid = rig.ops(vec![grant(GRANT_UNIT, 0, 0), store(fid, &[(0, &[7; 4096])])]);
    assert_eq!(
        unpaid,
        [Ok(MdsReply::Granted { more: 0, paid: 0 }), Err(Errno::ENOSPC)],
        "{bytes} bytes are another client's"
    );
    let ops = vec![grant(GRANT_UNIT, 0, 0), store(fid, &[(0, &[7; 4096])])];
    let reply = wait(rig.send(OTHER, &CREDENTIALS, ops));
    assert!(reply.results.iter().all(Result::is_ok), "{:?}", reply.results);
}

#[test]
fn a_promise_ends_when_it_is_given_back_or_its_session_is_lost() {
    let rig = Rig::new();
    let bytes = granted(&rig, CLIENT, 4 << 20);
    assert_eq!(bytes, 4 << 20);
    let before = statfs(&rig).bytes_available;
    let ended = |more, paid| Ok(MdsReply::Granted { more, paid });
    assert_eq!(rig.one(grant(0, 1 << 20, 0)), ended(0, 0));
    assert_eq!(rig.mds.promised(), 3 << 20);
    assert!(statfs(&rig).bytes_available >= before + (WEIGHT << 20));
    // Paid and not used: free for all.
    assert_eq!(rig.one(grant(1 << 20, 0, 0)), ended(0, 1 << 20));
    assert_eq!(rig.mds.promised(), 2 << 20);
    rig.gone(CLIENT);
    assert_eq!(rig.mds.promised(), 0);
    assert_eq!(rig.one(grant(1 << 20, 0, 0)), ended(0, 0), "a new session has none");
    // A restarted MDT promised nothing.
    granted(&rig, CLIENT, 4 << 20);
    let rig = rig.restart();
    assert_eq!(rig.mds.promised(), 0);
}

#[test]
fn a_store_that_comes_twice_is_done_once() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    let request = |xid, data: &[u8]| {
        let ops = vec![grant(GRANT_UNIT, 0, 4 * GRANT_UNIT), store(fid, &[(0, data)])];
        rig.request(xid, &CREDENTIALS, ops)
    };
    let export = rig.export(OTHER);
    let serve = |mut request| wait(rig.mds.serve_once(&export, &mut request));
    let version = |reply: &wire::message::Reply| {
        entry(mds_reply(reply.results[1].clone().unwrap())).attr.version
    };
    let first = serve(request(7, b"first"));
    let promised = rig.mds.promised();
    // It has not heard of the first yet.
    let mut second = request(8, b"second");
    (second.xid_known, second.slot) = (Xid(7), 1);
    serve(second);
    assert_eq!(version(&serve(request(7, b"first"))), version(&first));
    assert_eq!(read(&rig, fid, 0, 9).0, b(b"second"), "an older one comes late");
    assert!(promised > 0 && rig.mds.promised() <= 2 * promised);
}

#[test]
fn what_was_stored_survives_with_its_size_or_not_at_all() {
    let rig = Rig::new();
    let fid = file(&rig, "f");
    rig.open(CLIENT, fid, true);
    let synced = rig.ops(vec![store(fid, &[(0, b"durable")]), MdsOp::Sync]);
    assert!(synced.iter().all(Result::is_ok));
    rig.one(store(fid, &[(7, &[1; 20_000]), (40_000, &[2; 10_000])])).unwrap();
    let rig = rig.crash();
    until("settled", || {
        wait(rig.store.commit()).unwrap();
        !rig.engine.snapshot().iter().any(|(key, _)| key[0] == b'W')
    });
    let (data, size, _) = read(&rig, fid, 0, 65536);
    match size {
        7 => assert_eq!(&data[..], b"durable"),
        50_000 => {
            assert_eq!((&data[7..20_007], &data[40_000..]), (&[1; 20_000][..], &[2; 10_000][..]));
        }
        other => panic!("{other} bytes"),
    }
}
