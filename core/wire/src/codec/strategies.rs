//! Strategies for any message.

use super::samples::report;
use super::testing::*;
use crate::client::{ClientOp, ClientReply, Glimpse, Glimpsed};
use crate::mds::check::any_records;
use crate::mds::peers::{any_bundles, any_facts, any_id};
use crate::mds::{DirEntry, Entry, MdsOp, MdsReply, Removed};
use crate::message::{
    ConnectReply, ConnectRequest, Gap, Grant, Op, OpReply, Redo, Reply, Request, TreePage,
};
use crate::mgs::{FsConfig, MgsOp, MgsReply, PoolChange, PoolInfo, ScopesVersion, TargetInfo};
use crate::ost::{OstOp, OstReply};
use crate::report::{KeptReport, NodeReport};
use idmap::nodemap::{IdKind, Members, NodemapName};
use idmap::property::Property;
use idmap::scope::{Scope, ScopedParam};
use idmap::set::NodemapChange;
use idmap::spans::Span;
use std::sync::Arc;
use types::attr::{Attr, Statfs};
use types::credentials::{Callers, Credentials, Ids, KnownUsers, Squash, SquashNews};
use types::errno::Errno;
use types::job::JobId;
use types::limits::EXTENTS_PER_REPLY_MAX;
use types::lock::InodeBits;
use types::names::{BOUND_BYTES_MAX, NameRange};
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId, OpenHandle, Standing, Transno, Xid};
use types::target::{TargetIndex, TargetKind, TargetName};

pub fn any_redo() -> impl Strategy<Value = Vec<Redo>> {
    let one = (any::<u64>(), vec(any::<u8>(), 0..40), any::<u32>());
    let redo = |(transno, bytes, data_of): (_, Vec<u8>, _)| Redo {
        transno: Transno(transno),
        bytes: bytes.into(),
        data_of,
    };
    vec(one.prop_map(redo), 0..4)
}

pub fn any_statfs() -> impl Strategy<Value = Statfs> {
    any::<[u64; 5]>().prop_map(
        |[bytes_total, bytes_free, bytes_available, files_total, files_free]| Statfs {
            bytes_total,
            bytes_free,
            bytes_available,
            files_total,
            files_free,
        },
    )
}

pub fn any_entry() -> impl Strategy<Value = Entry> {
    (any_fid(), any::<[u32; 5]>(), any::<[u64; 3]>(), vec(any_time(), 4), any::<([bool; 2], u32)>())
        .prop_map(
            |(
                fid,
                [mode, uid, gid, nlink, rdev],
                [size, blocks, version],
                t,
                ([has_xattr, noatime], striped),
            )| {
                let (atime, mtime, ctime, btime) = (t[0], t[1], t[2], t[3]);
                let attr = Attr {
                    fid,
                    mode,
                    uid,
                    gid,
                    nlink,
                    rdev,
                    size,
                    blocks,
                    atime,
                    mtime,
                    ctime,
                    btime,
                    version,
                };
                Entry { attr, has_xattr, noatime, striped: striped >> 2 }
            },
        )
}

pub fn any_pool_change() -> impl Strategy<Value = PoolChange> {
    prop_oneof![
        Just(PoolChange::New),
        vec(any::<u16>(), 0..5).prop_map(PoolChange::Add),
        vec(any::<u16>(), 0..5).prop_map(PoolChange::Remove),
        Just(PoolChange::Destroy),
    ]
}

pub fn any_mgs_op() -> impl Strategy<Value = MgsOp> {
    prop_oneof![
        (".{0,20}", any::<u128>(), vec(".{0,20}", 0..4), any::<(u64, bool)>()).prop_map(
            |(name, store, nids, (boot, shared))| MgsOp::Register {
                name,
                store,
                nids,
                boot,
                shared
            }
        ),
        (".{0,20}", any::<u128>()).prop_map(|(name, store)| MgsOp::Unregister { name, store }),
        (".{0,20}", any::<(u64, u32)>()).prop_map(|(fsname, (known, wait_ms))| MgsOp::Config {
            fsname,
            known,
            wait_ms
        }),
        (".{0,20}", ".{0,20}", of(".{0,20}")).prop_map(|(fsname, name, value)| MgsOp::SetParam {
            fsname,
            name,
            value
        }),
        Just(MgsOp::Clients),
        (".{0,20}", ".{0,20}", any_pool_change()).prop_map(|(fsname, pool, change)| MgsOp::Pool {
            fsname,
            pool,
            change
        }),
        (".{0,20}", any::<u64>()).prop_map(|(host, uptime_ms)| {
            MgsOp::Report(Box::new(NodeReport { host, uptime_ms, ..report() }))
        }),
        Just(MgsOp::Reports),
        any_nodemap_change().prop_map(MgsOp::Nodemap),
        (of(any::<u64>()), any::<u32>())
            .prop_map(|(known, wait_ms)| MgsOp::Nodemaps { known, wait_ms }),
        (any_scope(), ".{0,20}", of(".{0,20}")).prop_map(|(scope, name, value)| MgsOp::SetScoped {
            scope,
            name,
            value
        }),
        (".{0,20}", any::<bool>(), of(any::<(u64, u64)>()), any::<u32>()).prop_map(
            |(host, all, known, wait_ms)| {
                let version = |(params, nodemaps)| ScopesVersion { params, nodemaps };
                MgsOp::Scoped { host, all, known: known.map(version), wait_ms }
            }
        ),
    ]
}

/// Any operation.
pub fn any_op() -> impl Strategy<Value = Op> {
    let connect = (any::<(u16, u16, u128, u128, u64)>(), any::<(u128, u128)>(), ".{0,300}")
        .prop_map(
            |((version_min, version_max, cluster, client, boot), (proof, server), description)| {
                let (cluster, client) = (ClusterId(cluster), ClientUuid(client));
                let (proof, server) = (Proof(proof), Proof(server));
                Op::Connect(ConnectRequest {
                    version_min,
                    version_max,
                    cluster,
                    client,
                    description,
                    boot,
                    proof,
                    server,
                })
            },
        );
    let client = prop_oneof![
        any_locks().prop_map(|locks| ClientOp::Revoke { locks }),
        (any_fid(), vec(any_name(), 0..5))
            .prop_map(|(dir, names)| ClientOp::Changing { dir, names }),
        (vec(any_fid(), 0..20), any::<bool>())
            .prop_map(|(fids, store)| ClientOp::Glimpse { fids, store }),
        vec((any_fid(), any_range()), 0..20)
            .prop_map(|extents| ClientOp::RevokeExtents { extents }),
        any_squash().prop_map(ClientOp::Squash),
    ];
    prop_oneof![
        8 => MdsOp::any().prop_map(Op::Mds),
        4 => OstOp::any().prop_map(Op::Ost),
        2 => any_mgs_op().prop_map(Op::Mgs),
        1 => client.prop_map(Op::Client),
        1 => connect,
        1 => Just(Op::Disconnect),
        1 => Just(Op::Ping),
        1 => any_redo().prop_map(Op::Replay),
        1 => Just(Op::Replayed),
        1 => Just(Op::Restored),
        1 => vec(any::<u8>(), 0..20).prop_map(|after| Op::Tree(after.into())),
    ]
}

/// Any request, with few operations.
pub fn any_request() -> impl Strategy<Value = Request> {
    let target = ("[a-zA-Z0-9_-]{1,8}", 1..=3u8, any::<u16>()).prop_map(|(fsname, kind, index)| {
        TargetName {
            fsname: fsname.parse().unwrap(),
            kind: TargetKind::from_u8(kind).unwrap(),
            index: TargetIndex(index),
        }
    });
    let credentials =
        (any::<(u32, u32)>(), vec(any::<u32>(), 0..12)).prop_map(|((uid, gid), groups)| {
            Credentials { uid, gid, groups: groups.into_iter().collect() }
        });
    let job = "[a-z.%0-9_]{0,40}".prop_map(|text| JobId::new(text.as_bytes()));
    (target, any::<(u64, u64, bool, u32, u64, u16)>(), credentials, job, vec(any_op(), 0..6))
        .prop_map(|(target, (xid, known, resent, locks, replay, slot), credentials, job, ops)| {
            Request {
                target,
                xid: Xid(xid),
                xid_known: Xid(known),
                resent,
                replay: Transno(replay),
                locks: InodeBits::from_bits_retain(locks),
                slot,
                credentials,
                job,
                ops,
            }
        })
}

pub fn any_dir_entry() -> impl Strategy<Value = DirEntry> {
    (any_name(), any_fid(), any_file_type(), of(any_entry()), of(any_layout())).prop_map(
        |(name, fid, file_type, entry, layout)| DirEntry { name, fid, file_type, layout, entry },
    )
}

pub fn any_mgs_reply() -> impl Strategy<Value = MgsReply> {
    let pair = || (".{0,20}", ".{0,20}");
    let target = (".{0,20}", vec(".{0,20}", 0..4), any::<(u64, bool)>())
        .prop_map(|(name, nids, (boot, up))| TargetInfo { name, nids, boot, up });
    let pool =
        (".{0,20}", vec(any::<u16>(), 0..4)).prop_map(|(name, osts)| PoolInfo { name, osts });
    prop_oneof![
        Just(MgsReply::Done),
        (".{0,20}", any::<(u128, u64, u128)>()).prop_map(|(name, (cluster, boot, key))| {
            MgsReply::Registered { name, cluster, boot, key }
        }),
        (any::<(u64, u128)>(), vec(target, 0..5), vec(pair(), 0..5), vec(pool, 0..3)).prop_map(
            |((version, cluster), targets, params, pools)| {
                MgsReply::Config(FsConfig { version, cluster, targets, params, pools })
            }
        ),
        vec(pair(), 0..5).prop_map(MgsReply::Clients),
        any::<u32>().prop_map(|again_ms| MgsReply::Reported { again_ms }),
        (any::<(u64, u64)>(), vec((any_scope(), ".{0,20}", ".{0,20}"), 0..4)).prop_map(
            |((params, nodemaps), all)| {
                let param = |(scope, name, value)| ScopedParam { scope, name, value };
                let version = ScopesVersion { params, nodemaps };
                MgsReply::Scoped { version, params: all.into_iter().map(param).collect() }
            }
        ),
        vec(any::<(u64, bool)>(), 0..3).prop_map(|all| {
            let kept = |(age_ms, connected)| KeptReport { age_ms, connected, report: report() };
            MgsReply::Reports(all.into_iter().map(kept).collect())
        }),
    ]
}

/// Any answer.
pub fn any_op_reply() -> impl Strategy<Value = OpReply> {
    let mds = prop_oneof![
        Just(MdsReply::Done),
        any_entry().prop_map(|e| MdsReply::Entry(Box::new(e))),
        (any_entry(), any::<(bool, u64)>(), of(any_layout())).prop_map(
            |(entry, (created, handle), layout)| {
                MdsReply::Opened {
                    entry: Box::new(entry),
                    created,
                    handle: OpenHandle(handle),
                    layout,
                }
            }
        ),
        vec(of(any_entry()), 0..20).prop_map(MdsReply::Attrs),
        (vec(any_dir_entry(), 0..20), any::<bool>())
            .prop_map(|(entries, more)| MdsReply::Entries { entries, more }),
        any_bytes(2000).prop_map(MdsReply::Bytes),
        any_layout().prop_map(MdsReply::Layout),
        (any_entry(), any_bytes(300))
            .prop_map(|(entry, data)| MdsReply::Data { entry: Box::new(entry), data }),
        (any_entry(), vec(any_range(), 0..EXTENTS_PER_REPLY_MAX), any::<bool>()).prop_map(
            |(entry, ranges, write)| {
                MdsReply::Extents { entry: Box::new(entry), ranges, write }
            }
        ),
        of(any::<u64>()).prop_map(MdsReply::Offset),
        (any_fid(), any::<u32>())
            .prop_map(|(fid, nlink)| MdsReply::Removed(Removed { fid, nlink })),
        (any_fid(), any_file_type())
            .prop_map(|(fid, file_type)| MdsReply::Remote { fid, file_type }),
        (any_fid(), any::<(u32, u32, bool, bool)>()).prop_map(
            |(fid, (walked, fileset, is_root, read_only))| {
                MdsReply::Root { fid, walked, fileset, is_root, read_only }
            }
        ),
        (any::<u32>(), vec((any_ticket(), of(1..=133)), 0..9)).prop_map(|(life, tickets)| {
            let or =
                |(ticket, errno): (_, Option<i32>)| errno.map_or(Ok(ticket), |e| Err(Errno(e)));
            MdsReply::Tickets { life, tickets: tickets.into_iter().map(or).collect() }
        }),
        any_statfs().prop_map(MdsReply::Statfs),
        of(any_flock()).prop_map(MdsReply::Flock),
        of(any_lease()).prop_map(MdsReply::Lease),
        (any_records(), any::<bool>())
            .prop_map(|(records, more)| MdsReply::Records { records, more }),
        any::<(u64, u64)>().prop_map(|(more, paid)| MdsReply::Granted { more, paid }),
        any_peer_reply(),
    ];
    let ost = prop_oneof![
        Just(OstReply::Done),
        any_bytes(300).prop_map(OstReply::Data),
        any::<(u64, u64)>().prop_map(|(more, paid)| OstReply::Granted { more, paid }),
        any::<i64>().prop_map(|blocks_delta| OstReply::Changed { blocks_delta }),
        (vec((any_object(), any::<u64>(), any::<u64>()), 0..9), any::<bool>())
            .prop_map(|(objects, more)| OstReply::Objects { objects, more }),
        any::<(u64, u64)>().prop_map(|(size, blocks)| OstReply::Attr { size, blocks }),
        (any::<u64>(), vec(any::<u128>().prop_map(ClientUuid), 0..9))
            .prop_map(|(boot, clients)| OstReply::Fenced { boot, clients }),
        of(any_offset()).prop_map(OstReply::Offset),
        any_statfs().prop_map(OstReply::Statfs),
    ];
    let glimpse = (any::<u64>(), any_time())
        .prop_map(|(size, mtime)| Glimpsed::Dirty(Glimpse { size, mtime }));
    let glimpsed = prop_oneof![Just(Glimpsed::Reported), Just(Glimpsed::Idle), glimpse];
    let client = prop_oneof![
        Just(ClientReply::Done),
        any_locks().prop_map(ClientReply::Kept),
        Just(ClientReply::Dropped),
        vec(glimpsed, 0..9).prop_map(ClientReply::Glimpses),
    ];
    let standing = prop::sample::select(vec![
        Standing::Transient,
        Standing::Settled,
        Standing::Awaited,
        Standing::Missed,
    ]);
    let connect = (any::<(u16, u128, u32, u32, u64)>(), standing, prop::option::of(any_squash()))
        .prop_map(|((version, cluster, boot, session, last), standing, squash)| {
            let (cluster, boot, last_committed) = (ClusterId(cluster), boot.into(), Transno(last));
            let squash = squash.unwrap_or(SquashNews::silent(boot));
            OpReply::Connect(ConnectReply {
                version,
                cluster,
                boot,
                session,
                last_committed,
                standing,
                squash,
            })
        });
    prop_oneof![
        8 => mds.prop_map(OpReply::Mds),
        4 => ost.prop_map(OpReply::Ost),
        2 => any_mgs_reply().prop_map(OpReply::Mgs),
        1 => connect,
        1 => client.prop_map(OpReply::Client),
        1 => Just(OpReply::Done),
        1 => (any::<(u32, bool)>(), vec(any::<u8>(), 0..20)).prop_map(|((records, more), bytes)| {
            OpReply::Tree(TreePage { records, more, bytes: bytes.into() })
        }),
    ]
}

/// Any reply, with few results.
pub fn any_reply() -> impl Strategy<Value = Reply> {
    let result = prop_oneof![
        4 => any_op_reply().prop_map(Ok),
        1 => (1..=4095i32).prop_map(|n| Err(Errno(n))),
    ];
    let bound = || vec(any::<u8>(), 0..=BOUND_BYTES_MAX);
    let gap = (any_fid(), bound(), bound())
        .prop_map(|(dir, start, end)| NameRange::new(&start, &end).map(|names| Gap { dir, names }));
    (
        any::<(u64, u64, u64)>(),
        vec(result, 0..6),
        any_locks(),
        vec(any_entry(), 0..4),
        any_redo(),
        gap,
    )
        .prop_map(|((xid, transno, last), results, locks, touched, redo, gap)| Reply {
            grants: locks.into_iter().map(|(fid, bits)| Grant { fid, bits }).collect(),
            touched,
            redo,
            gap,
            ..Reply::new(Xid(xid), Transno(transno), Transno(last), results)
        })
}

fn any_scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        "[a-z0-9_]{1,16}".prop_map(|name| format!("nodemap:{name}")),
        "[0-9]{1,2}".prop_map(|n| format!("nid:10.0.0.{n}@tcp")),
        "[a-z0-9.]{1,20}".prop_map(|name| format!("host:{name}")),
    ]
    .prop_map(|text| text.parse().expect("a scope"))
}

fn any_nodemap_change() -> impl Strategy<Value = NodemapChange> {
    let name = || "[a-z0-9_]{1,16}".prop_map(|text| text.parse::<NodemapName>().expect("a name"));
    let kind = prop::sample::select(vec![IdKind::Uid, IdKind::Gid]);
    let span = (0..1000_u32, 0..1000_u32, 1..9_u32)
        .prop_map(|(client, fs, count)| Span::new(client, fs, count).expect("few ids"));
    let members = prop_oneof![
        "[0-9]{1,2}".prop_map(|n| format!("10.0.0.{n}@tcp")),
        Just("a*@key".to_owned())
    ]
    .prop_map(|text| text.parse::<Members>().expect("clients"));
    prop_oneof![
        any::<bool>().prop_map(NodemapChange::Activate),
        name().prop_map(NodemapChange::Add),
        (name(), any::<u32>())
            .prop_map(|(name, uid)| NodemapChange::Modify(name, Property::SquashUid(uid))),
        (name(), members).prop_map(|(name, members)| NodemapChange::AddMembers(name, members)),
        (name(), kind, span).prop_map(|(name, kind, span)| NodemapChange::DelIds(name, kind, span)),
        (name(), ".{0,20}").prop_map(|(name, path)| NodemapChange::SetFileset(name, path)),
    ]
}

fn any_squash() -> impl Strategy<Value = SquashNews> {
    let ids =
        || prop::option::of((1..u32::MAX, 1..u32::MAX).prop_map(|(uid, gid)| Ids { uid, gid }));
    let known = (vec((1..1000_u32, 0..1000_u32), 0..5), 1..u32::MAX, 1..u32::MAX, any::<bool>());
    let known = known.prop_map(|(gaps, uid, gid, denies)| {
        let mut next = 0;
        let spans = gaps.into_iter().map(|(gap, more)| {
            let first = next + gap;
            next = first + more + 1;
            (first, more)
        });
        Arc::new(KnownUsers { users: spans.collect(), others: Ids { uid, gid }, denies })
    });
    (any::<u64>(), ids(), ids(), prop::option::of(known)).prop_map(
        |(change, root, others, known)| SquashNews {
            change,
            callers: Callers { squash: Squash { root, others }, known },
        },
    )
}

fn any_peer_reply() -> impl Strategy<Value = MdsReply> {
    let bundles = (any::<u64>(), any_bundles(), vec(any_id(), 0..5), any::<bool>());
    prop_oneof![
        any::<u64>().prop_map(MdsReply::PeerFids),
        (any::<u64>(), any_facts())
            .prop_map(|(boot, facts)| MdsReply::PeerPrepared { boot, facts }),
        (any::<u64>(), prop::option::of(any_bytes(200)))
            .prop_map(|(boot, applied)| MdsReply::PeerTold { boot, applied }),
        (any::<u32>(), any_fid(), vec(any_fid(), 0..5), prop::option::of(any_name())).prop_map(
            |(marked, parent, children, more)| MdsReply::PeerMarked {
                marked,
                parent,
                children,
                more
            }
        ),
        any::<(u64, u64)>()
            .prop_map(|(boot, n)| MdsReply::PeerApplied { boot, transno: Transno(n) }),
        any::<(u64, i32)>().prop_map(|(boot, n)| MdsReply::PeerRefused { boot, errno: Errno(n) }),
        any::<(u64, u64)>()
            .prop_map(|(boot, n)| MdsReply::PeerDone { boot, committed: Transno(n) }),
        bundles.prop_map(|(boot, bundles, stopped, more)| MdsReply::PeerBundles {
            boot,
            bundles,
            stopped,
            more
        }),
    ]
}
