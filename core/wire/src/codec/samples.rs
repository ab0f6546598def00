//! One fixed sample of each operation and answer, for the golden bytes and as material of the
//! strategies.

use super::testing::{DIR, FID, OBJECT, flock, layout, name, ticket};
use crate::client::{ClientOp, ClientReply, Glimpse, Glimpsed};
use crate::mds::check::record;
use crate::mds::peers::{sample_facts, sample_id};
use crate::mds::{DirEntry, Entry, MdsOp, MdsReply, PeerBundle, Removed};
use crate::message::{
    ConnectReply, ConnectRequest, Gap, Grant, Op, OpReply, Redo, Reply, Request, TreePage,
};
use crate::mgs::{FsConfig, MgsOp, MgsReply, PoolChange, PoolInfo, ScopesVersion, TargetInfo};
use crate::opcode::OstOp;
use crate::ost::reply::OstReply;
use crate::report::{Counts, Holder, NodeReport, TargetReport, Wait, Waiting};
use bytes::Bytes;
use idmap::nodemap::IdKind;
use idmap::set::NodemapChange;
use types::attr::{Attr, FileType, Statfs};
use types::credentials::{Credentials, Ids, Squash, SquashNews};
use types::errno::Errno;
use types::job::JobId;
use types::lock::{InodeBits, LeaseMode};
use types::names::NameRange;
use types::object::ObjectOffset;
use types::proof::Proof;
use types::ranges::ByteRange;
use types::session::{ClientUuid, ClusterId, OpenHandle, Standing, Transno, Xid};
use types::time::Timestamp;

fn statfs() -> Statfs {
    Statfs {
        bytes_total: 1 << 40,
        bytes_free: 1 << 39,
        bytes_available: 1 << 38,
        files_total: 9,
        files_free: 8,
    }
}

fn entry() -> Entry {
    let at = |sec| Timestamp { sec, nsec: 999_999_999 };
    let attr = Attr {
        fid: FID,
        mode: 0o100_644,
        uid: 1000,
        gid: 100,
        nlink: 2,
        rdev: 0,
        size: 123_456_789,
        blocks: 241_128,
        atime: at(-1),
        mtime: at(1_700_000_000),
        ctime: at(1_700_000_001),
        btime: at(1_600_000_000),
        version: 42,
    };
    Entry { attr, has_xattr: true, noatime: false, striped: 0 }
}

fn config() -> FsConfig {
    let target = |name: &str| TargetInfo {
        name: name.into(),
        nids: vec!["10.0.0.1@tcp".into()],
        boot: 3,
        up: true,
    };
    FsConfig {
        version: 12,
        cluster: 0x1234,
        targets: vec![target("sheen-MDT0000"), target("sheen-OST0000")],
        params: vec![("osc.*.checksums".into(), "1".into())],
        pools: vec![PoolInfo { name: "flash".into(), osts: vec![0, 3] }],
    }
}

/// One of each operation, in the order of the table.
pub fn sample_ops() -> Vec<Op> {
    let ops = [
        Op::Connect(ConnectRequest {
            version_min: 1,
            version_max: 1,
            cluster: ClusterId(0x1234),
            client: ClientUuid(0x5678),
            description: "host:/mnt/sheen".into(),
            boot: 9,
            proof: Proof(0x9abc),
            server: Proof(0xdef0),
        }),
        Op::Disconnect,
        Op::Ping,
        Op::Replay(replay()),
        Op::Replayed,
        Op::Restored,
        Op::Tree(Bytes::from_static(b"the last key")),
    ];
    let mgs = [
        MgsOp::Register {
            name: "sheen-OST".into(),
            store: 0xabcd,
            nids: vec!["10.0.0.1@tcp".into()],
            boot: 3,
            shared: true,
        },
        MgsOp::Unregister { name: "sheen-OST0001".into(), store: 0xabcd },
        MgsOp::Config { fsname: "sheen".into(), known: 11, wait_ms: 5000 },
        MgsOp::SetParam {
            fsname: "sheen".into(),
            name: "osc.*.checksums".into(),
            value: Some("0".into()),
        },
        MgsOp::Clients,
        MgsOp::Pool {
            fsname: "sheen".into(),
            pool: "flash".into(),
            change: PoolChange::Add(vec![0, 3]),
        },
        MgsOp::Report(Box::new(report())),
        MgsOp::Reports,
        MgsOp::Remove { name: "sheen-OST0001".into(), force: true, dry_run: false },
        MgsOp::Nodemap(NodemapChange::AddIds(
            "physics".parse().expect("a name"),
            IdKind::Uid,
            "1000-1999:5000".parse().expect("ids"),
        )),
        MgsOp::Nodemaps { known: Some(3), wait_ms: 30_000 },
        MgsOp::SetScoped {
            scope: "nid:10.0.[1-3].*@tcp".parse().expect("a scope"),
            name: "osc.*.checksums".into(),
            value: Some("0".into()),
        },
        MgsOp::Scoped {
            host: "node7".into(),
            all: false,
            known: Some(ScopesVersion { params: 4, nodemaps: 3 }),
            wait_ms: 30_000,
        },
        MgsOp::ReplaceNids { name: "sheen-OST0001".into(), nids: vec!["10.0.0.2@tcp".into()] },
    ];
    let client = [
        ClientOp::Revoke { locks: vec![(FID, InodeBits::LOOKUP.union(InodeBits::UPDATE))] },
        ClientOp::Changing { dir: DIR, names: vec![name("a"), name("bc")] },
        ClientOp::Glimpse { fids: vec![FID], store: true },
        ClientOp::RevokeExtents { extents: vec![(FID, ByteRange::new(4096, u64::MAX))] },
        ClientOp::Squash(squash()),
    ];
    let ops = ops
        .into_iter()
        .chain(mgs.into_iter().map(Op::Mgs))
        .chain(MdsOp::samples().into_iter().map(Op::Mds));
    ops.chain(OstOp::samples().into_iter().map(Op::Ost))
        .chain(client.into_iter().map(Op::Client))
        .collect()
}

/// Root is squashed, and all others are, too.
pub fn squash() -> SquashNews {
    let (root, others) = (Some(Ids { uid: 99, gid: 98 }), Some(Ids { uid: 500, gid: 501 }));
    SquashNews::new(10, 2, Squash { root, others }.into())
}

/// One of each form of answer, in the order of the table.
pub fn sample_replies() -> Vec<OpReply> {
    let dir_entry = |text: &str, entry, layout| {
        let file_type = FileType::Regular;
        DirEntry { name: name(text), fid: FID, file_type, entry, layout }
    };
    let first = [
        OpReply::Done,
        OpReply::Connect(ConnectReply {
            version: 1,
            cluster: ClusterId(0x1234),
            boot: 10,
            session: 3,
            last_committed: Transno(99),
            standing: Standing::Awaited,
            squash: SquashNews::silent(10),
        }),
        OpReply::Tree(TreePage { records: 2, more: true, bytes: Bytes::from_static(b"records") }),
        OpReply::Mgs(MgsReply::Config(config())),
    ];
    let mds = [
        MdsReply::Done,
        MdsReply::Entry(Box::new(entry())),
        MdsReply::Opened {
            entry: Box::new(entry()),
            created: true,
            handle: OpenHandle(77),
            layout: Some(layout()),
        },
        MdsReply::Attrs(vec![
            Some(entry()),
            None,
            Some(Entry { noatime: true, striped: 1, ..entry() }),
        ]),
        MdsReply::Entries {
            entries: vec![
                dir_entry("a", Some(entry()), Some(layout())),
                dir_entry("bc", None, None),
            ],
            more: true,
        },
        MdsReply::Bytes(Bytes::from_static(b"../there")),
        MdsReply::Layout(layout()),
        MdsReply::Removed(Removed { fid: FID, nlink: 1 }),
        MdsReply::Statfs(statfs()),
        MdsReply::Flock(Some(flock())),
        MdsReply::Data {
            entry: Box::new(entry()),
            data: Bytes::from_static(b"bytes that were read"),
        },
        MdsReply::Offset(Some(65536)),
        MdsReply::Lease(Some(LeaseMode::Read)),
        MdsReply::Extents {
            entry: Box::new(entry()),
            ranges: vec![ByteRange::new(4096, 8192), ByteRange::new(16_384, 20_480)],
            write: true,
        },
        MdsReply::Remote { fid: FID, file_type: FileType::Directory },
        MdsReply::Root { fid: DIR, walked: 3, fileset: 2, is_root: true, read_only: false },
        MdsReply::Tickets { life: 1200, tickets: vec![Ok(ticket()), Err(Errno::EACCES)] },
        MdsReply::Granted { more: 1 << 20, paid: 4096 },
        MdsReply::PeerFids(0x2_4000_0400),
        MdsReply::PeerPrepared { boot: 6, facts: sample_facts() },
        MdsReply::PeerApplied { boot: 6, transno: Transno(77) },
        MdsReply::PeerRefused { boot: 6, errno: Errno::ENOSPC },
        MdsReply::PeerDone { boot: 6, committed: Transno(76) },
        MdsReply::PeerBundles {
            boot: 6,
            bundles: vec![
                PeerBundle {
                    id: sample_id(1),
                    applied: true,
                    bundle: Bytes::from_static(b"bundle"),
                },
                PeerBundle { id: sample_id(2), applied: false, bundle: Bytes::new() },
            ],
            stopped: vec![sample_id(3)],
            more: true,
        },
        MdsReply::PeerTold { boot: 6, applied: Some(Bytes::from_static(b"bundle")) },
        MdsReply::PeerMarked {
            marked: 3,
            parent: DIR,
            children: vec![DIR, FID],
            more: Some(name("n")),
        },
        MdsReply::Records { records: vec![record(b"Ia", Some(b"value"))], more: true },
    ];
    let ost = [
        OstReply::Done,
        OstReply::Data(Bytes::from_static(b"bytes that were read")),
        OstReply::Changed { blocks_delta: 8 },
        OstReply::Attr { size: 15, blocks: 8 },
        OstReply::Offset(Some(ObjectOffset(65536))),
        OstReply::Statfs(statfs()),
        OstReply::Granted { more: 1 << 20, paid: 4096 },
        OstReply::Fenced { boot: 4, clients: vec![ClientUuid(0x5678)] },
        OstReply::Objects { objects: vec![(OBJECT, 15, 8)], more: true },
    ];
    let replies = first.into_iter().chain(mds.into_iter().map(OpReply::Mds));
    let glimpse = Glimpse { size: 77, mtime: Timestamp { sec: 1_700_000_000, nsec: 5 } };
    let client = [
        ClientReply::Done,
        ClientReply::Kept(vec![(FID, InodeBits::OPEN)]),
        ClientReply::Dropped,
        ClientReply::Glimpses(vec![Glimpsed::Reported, Glimpsed::Dirty(glimpse), Glimpsed::Idle]),
    ];
    replies
        .chain(ost.into_iter().map(OpReply::Ost))
        .chain(client.into_iter().map(OpReply::Client))
        .collect()
}

/// A request around some operations.
pub fn request(ops: Vec<Op>) -> Request {
    Request {
        target: "sheen-MDT0002".parse().unwrap(),
        xid: Xid(0x0102_0304),
        xid_known: Xid(0x0102_0300),
        resent: true,
        replay: Transno(55),
        slot: 12,
        locks: InodeBits::ALL,
        credentials: Credentials { uid: 1000, gid: 100, groups: [4, 24, 27].into_iter().collect() },
        job: JobId::NONE,
        ops,
    }
}

fn redo() -> Vec<Redo> {
    vec![Redo::whole(Transno(56), Bytes::from_static(b"what changed"))]
}

/// The same, and one whose data an operation behind it has.
fn replay() -> Vec<Redo> {
    let bytes = Bytes::from_static(b"what is to come where");
    let mut changes = redo();
    changes.push(Redo { transno: Transno(57), bytes, data_of: 1 });
    changes
}

/// A reply around some results.
pub fn reply(results: Vec<Result<OpReply, Errno>>) -> Reply {
    let grants = vec![Grant { fid: DIR, bits: InodeBits::UPDATE }];
    let gap = results
        .last()
        .is_some_and(Result::is_err)
        .then(|| Gap { dir: DIR, names: NameRange::at(b"a.17", 2) });
    Reply {
        grants,
        touched: vec![entry()],
        redo: redo(),
        gap,
        ..Reply::new(Xid(0x0102_0304), Transno(56), Transno(50), results)
    }
}

/// A process that serves a target where a client waits for a lock.
pub fn report() -> NodeReport {
    let times = vec![0, 0, 3];
    let counts =
        Counts { requests: 3, micros: 9, read_bytes: 4096, written_bytes: 1, in_flight: 1, times };
    let target =
        TargetReport { name: "sheen-MDT0000".into(), counts, locks: 5, ..TargetReport::default() };
    let holder = Holder {
        client: "b".into(),
        description: "host:/mnt".into(),
        holds: "UPDATE".into(),
        ..Holder::default()
    };
    let what = Waiting::Lock {
        client: "a".into(),
        target: "sheen-MDT0000".into(),
        fid: "[0x200000007:0x1:0x0]".into(),
        bits: "UPDATE".into(),
        holders: vec![holder],
    };
    NodeReport {
        host: "host".into(),
        pid: 42,
        uptime_ms: 1000,
        targets: vec![target],
        waits: vec![Wait { id: 7, cause: 3, age_ms: 1500, what }],
        ..NodeReport::default()
    }
}
