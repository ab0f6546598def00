//! A model of replay: whichever clients come back after a crash at whatever moment, making their
//! changes again gives the records that these changes alone would have given, in their order.

use super::do_again;
use crate::acks::kept_replies::Origin;
use crate::bundles::Bundles;
use crate::locks::context::{AuthorData, LockContext};
use crate::records::Records;
use crate::records::fids::Fids;
use crate::records::part::Part;
use crate::state::State;
use bytes::Bytes;
use disk::redo::with_data;
use env::real::{RealConfig, RealEnv};
use layout::layout::{Component, Layout, Pattern};
use namespace::accessed::accessed;
use namespace::context::Context;
use namespace::create::{New, create, root};
use namespace::dom;
use namespace::inode::{InodeFlags, Tail};
use namespace::link::link;
use namespace::rename::{Flags, Place, rename};
use namespace::rmdir::rmdir;
use namespace::setattr::setattr;
use namespace::unlink::unlink;
use namespace::view::View;
use proptest::prelude::*;
use replay::recovery::Gathered;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use store::memory::Memory;
use store::store::{Store, StoreOptions};
use types::attr::{AccessTimes, FileType, SetAttr, SetTime};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::DOM_BYTES_MAX;
use types::session::{ClientUuid, Transno, Xid};
use types::target::{TargetIndex, TargetName};
use types::time::Timestamp;

const CLIENTS: u128 = 3;
const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
/// Transno of the root.
const FIRST: u64 = 1;
/// Access times lie behind all others, and behind each other, so each access counts in every
/// history: whether one counts else depends on times that other clients set.
const ACCESSED: i64 = 10_000;

#[derive(Clone, Copy, Debug)]
enum What {
    Create,
    Mkdir,
    Unlink,
    Rmdir,
    Rename { exchange: bool },
    Link,
    Chmod(u32),
    SetTimes(i64),
    Accessed,
    Store { at: u64, len: usize },
}

/// One operation. Directories are places: the root, `a`, `b` and `a/b`.
#[derive(Clone, Copy, Debug)]
struct Op {
    client: u128,
    what: What,
    at: (usize, usize),
    to: (usize, usize),
    /// The clock goes on by this, or back.
    tick: i64,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let what = prop_oneof![
        4 => Just(What::Create),
        4 => Just(What::Mkdir),
        3 => Just(What::Unlink),
        3 => Just(What::Rmdir),
        3 => any::<bool>().prop_map(|exchange| What::Rename { exchange }),
        1 => Just(What::Link),
        1 => (0o700..0o770u32).prop_map(What::Chmod),
        1 => (0..2000i64).prop_map(What::SetTimes),
        1 => Just(What::Accessed),
        3 => (0..40_000u64, 1..20_000usize).prop_map(|(at, len)| What::Store { at, len }),
    ];
    let place =
        || (prop_oneof![3 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(3)], 0..NAMES.len());
    let op = (1..=CLIENTS, what, place(), place(), -2..4i64);
    let op = op.prop_map(|(client, what, at, to, tick)| Op { client, what, at, to, tick });
    prop::collection::vec(op, 1..60)
}

/// An operation as it was made: what its request named.
struct Made {
    op: Op,
    transno: u64,
    now: i64,
    dir: Fid,
    to_dir: Fid,
    /// The inode that the request named by its FID.
    named: Fid,
    redo: Bytes,
}

/// All of a file lives on the MDT.
fn on_mdt() -> Layout {
    let component = Component {
        id: 1,
        start: 0,
        end: DOM_BYTES_MAX,
        pattern: Pattern::Mdt,
        stripe_size: 65536,
        stripe_count: 0,
        overstriped: false,
        pool: None,
        stripes: Vec::new(),
        wanted: Vec::new(),
    };
    Layout { components: vec![component], ..Layout::default() }
}

type Snapshot = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    store: Arc<Store>,
    state: State,
}

impl World {
    fn new(env: &env::Env, records: &Snapshot, last: u64) -> World {
        let store =
            Store::open(Memory::new(1 << 22), env.clone(), StoreOptions::default()).unwrap();
        let mut tx = store.begin();
        tx.raise(Transno(last));
        records.iter().for_each(|(key, value)| tx.put(key, value));
        tx.finish();
        World {
            store,
            state: State::new(
                Fids::new(1),
                (Duration::ZERO, Duration::ZERO),
                Arc::default(),
                Bundles::new(TargetIndex(0), 1),
            ),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot::new();
        let tx = self.store.begin();
        tx.scan(&[0], &[255], |key, value| {
            all.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        all
    }

    /// Runs this in a transaction of this number; the redo, if it changed anything.
    fn apply<R>(
        &mut self,
        transno: u64,
        now: i64,
        f: impl FnOnce(&mut Records<'_>, &Context<'_>) -> Result<R, Errno>,
    ) -> (Result<R, Errno>, Option<Bytes>) {
        let mut tx = self.store.begin();
        tx.raise(Transno(transno));
        tx.keep_log();
        let credentials = Credentials::root();
        let now = Timestamp { sec: now, nsec: 0 };
        let ctx = Context { credentials: &credentials, now, version: tx.transno().0 };
        let mut lock_context = LockContext::own();
        lock_context.durability.origin = Some(Origin { xid: Xid(transno), slot: 0 });
        let mut records = Records::new(tx, &mut self.state, 1, &mut lock_context);
        let result = f(&mut records, &ctx);
        let log = records.tx.take_log().filter(|_| records.tx.has_changed());
        records.finish();
        let LockContext { durability, .. } = lock_context;
        let redo = log.map(|log| match durability.data.filter(|_| log.names_data()) {
            None => log.encode(&durability.found.take()).into(),
            // As its author brings it back.
            Some(AuthorData { pieces, .. }) => {
                let data = pieces.iter().map(|data| &data[..]);
                with_data(&log.encode(&durability.found.take()), data).into()
            }
        });
        (result, redo)
    }

    /// The directory at a place, and the inode of a name in it.
    fn resolve(&mut self, (place, name): (usize, usize)) -> (Fid, Fid) {
        let walk: &[&[u8]] = [&[][..], &[NAMES[0]], &[NAMES[1]], &[NAMES[0], NAMES[1]]][place];
        let read = |records: &mut Records<'_>, _: &Context<'_>| {
            let step = |dir: Fid, name: &[u8]| {
                records.dirent(dir, name).unwrap().map_or(Fid::NONE, |to| to.fid)
            };
            let dir = walk.iter().fold(Fid::ROOT, |dir, name| step(dir, name));
            Ok((dir, step(dir, NAMES[name])))
        };
        self.apply(0, 0, read).0.unwrap()
    }

    /// Makes a change; its redo, if it is one.
    fn make(&mut self, made: &Made) -> Option<Bytes> {
        let Made { op, transno, now, dir, to_dir, named, .. } = *made;
        let (name, to_name) = (NAMES[op.at.1], NAMES[op.to.1]);
        let (_, redo) = self.apply(transno, now, |records, ctx| match op.what {
            What::Create | What::Mkdir => {
                let file_type = match op.what {
                    What::Mkdir => FileType::Directory,
                    _ => FileType::Regular,
                };
                let fid = Fid { seq: Fid::SEQ_NORMAL, oid: transno as u32, ver: 0 };
                let new = New { fid, file_type, mode: 0o755, umask: 0, rdev: 0, size: 0 };
                create(records, ctx, dir, name, new, |_| Ok((Tail::new(), InodeFlags::default())))
                    .map(drop)
            }
            What::Unlink => unlink(records, ctx, dir, name).map(drop),
            What::Rmdir => rmdir(records, ctx, dir, name).map(drop),
            What::Rename { exchange } => {
                let (from, to) =
                    (Place { parent: dir, name }, Place { parent: to_dir, name: to_name });
                rename(records, ctx, from, to, Flags { exchange, no_replace: false }).map(drop)
            }
            What::Link => link(records, ctx, named, to_dir, to_name, false).map(drop),
            What::Chmod(mode) => {
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                setattr(records, ctx, named, &set).map(drop)
            }
            What::SetTimes(sec) => {
                let time = Some(SetTime::At(Timestamp { sec, nsec: 0 }));
                setattr(records, ctx, named, &SetAttr { mtime: time, ..SetAttr::default() })
                    .map(drop)
            }
            What::Accessed => {
                let at = Timestamp { sec: ACCESSED + transno as i64, nsec: 0 };
                accessed(records, named, at, AccessTimes::Strict, true).map(drop)
            }
            What::Store { at, len } => {
                let inode = records.inode(named)?.ok_or(Errno::ENOENT)?;
                if inode.file_type() != FileType::Regular {
                    return Err(Errno::EINVAL);
                }
                let time = Some(SetTime::At(ctx.now));
                setattr(records, ctx, named, &SetAttr { mtime: time, ..SetAttr::default() })?;
                let data = Bytes::from(vec![transno as u8; len]);
                let (part, pieces) = (Part::of(&on_mdt(), named), [(at, &data[..])]);
                let plan = dom::write_all(&part.chunks(&records.tx), &pieces)?;
                records.put_written(part, &plan, &pieces);
                let pieces = [data].into_iter().collect();
                records.lock_context.durability.data = Some(AuthorData { op: 1, pieces });
                Ok(())
            }
        });
        redo
    }
}

/// The records, but for access times: a change of an inode brings along that other clients read
/// it, and does not rest on it.
fn accessed_never(records: &Snapshot) -> Snapshot {
    let without = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let Some(fid) = disk::key::inode_of(key) else { return (key.clone(), value.clone()) };
        let mut record = disk::inode::decode(fid, value).unwrap();
        record.attr.atime = Timestamp::default();
        let mut bytes = Vec::new();
        disk::inode::encode(&record, &mut bytes);
        (key.clone(), bytes)
    };
    records.iter().map(without).collect()
}

/// Every name leads to an inode, every inode has its names, and directories count theirs.
fn assert_whole(records: &Snapshot) {
    let mut names: BTreeMap<Fid, u32> = BTreeMap::new();
    let mut subs: BTreeMap<Fid, u32> = BTreeMap::new();
    for (key, value) in records {
        if let Some((dir, _)) = disk::key::entry_of(key) {
            let (fid, file_type) = disk::dirent::decode(value).unwrap();
            assert!(
                records.contains_key(&disk::key::inode(fid)[..]),
                "a name leads to {fid}, which is not there"
            );
            assert!(
                records.contains_key(&disk::key::inode(dir)[..]),
                "{dir} has a name and is not there"
            );
            *names.entry(fid).or_default() += 1;
            *subs.entry(dir).or_default() += u32::from(file_type == FileType::Directory);
        }
    }
    for (key, value) in records {
        if let Some(fid) = disk::key::inode_of(key) {
            let attr = disk::inode::decode(fid, value).unwrap().attr;
            let expected = match attr.is_dir() {
                true => 2 + subs.get(&fid).copied().unwrap_or(0),
                false => names.get(&fid).copied().unwrap_or(0),
            };
            assert_eq!(attr.nlink, expected, "{fid}");
            assert!(fid == Fid::ROOT || names.contains_key(&fid), "{fid} has no name");
        }
    }
}

/// Replay of what the clients in `come` bring gives what their changes give alone. `durable`: how
/// much was, in hundredths of all.
fn replay(ops: &[Op], durable: usize, come: &BTreeSet<u128>) -> Result<(), TestCaseError> {
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    let mut world = World::new(&env, &Snapshot::new(), 0);
    world
        .apply(FIRST, 0, |records, ctx| {
            records.put_inode(&root(ctx));
            Ok(())
        })
        .0
        .unwrap();
    // The life before the crash.
    let mut last = FIRST;
    let mut states = vec![(last, world.snapshot())];
    let mut all: Vec<Made> = Vec::new();
    let mut now = 1000;
    for &op in ops {
        now += op.tick;
        let ((dir, named), (to_dir, _)) = (world.resolve(op.at), world.resolve(op.to));
        let mut made = Made { op, transno: last + 1, now, dir, to_dir, named, redo: Bytes::new() };
        if let Some(redo) = world.make(&made) {
            last += 1;
            made.redo = redo;
            all.push(made);
            states.push((last, world.snapshot()));
        }
    }
    // The crash, and those that come. Each brings what it made, also if it is durable.
    let (committed, before) = states[states.len() * durable / 100].clone();
    let restarted = World::new(&env, &before, committed);
    let brought: Vec<Gathered<Bytes>> = all
        .iter()
        .filter(|made| come.contains(&ClientUuid(made.op.client).0))
        .map(|made| Gathered {
            transno: Transno(made.transno),
            client: ClientUuid(made.op.client),
            change: made.redo.clone(),
        })
        .collect();
    let mut tx = restarted.store.begin();
    let refused = do_again(&mut tx, TargetName::mdt(Default::default(), 0), &brought).unwrap();
    tx.finish();
    let got = restarted.snapshot();
    assert_whole(&got);
    if come.len() == CLIENTS as usize {
        prop_assert!(refused.is_empty());
        prop_assert!(got == states[states.len() - 1].1, "all came, and something is different");
    }
    // The same operations alone, in their order: a client's until the first that was refused.
    let mut alone = World::new(&env, &before, committed);
    let mut over: BTreeSet<u128> = BTreeSet::new();
    for made in all.iter().filter(|made| made.transno > committed && come.contains(&made.op.client))
    {
        if over.contains(&made.op.client) {
            continue;
        }
        let found = |redo: &Bytes| disk::redo::decode(redo).unwrap().found;
        let unlike = alone.make(made).is_none_or(|redo| found(&redo) != found(&made.redo));
        if unlike {
            over.insert(made.op.client);
            break;
        }
    }
    if over.is_empty() {
        prop_assert!(refused.is_empty());
        prop_assert!(
            accessed_never(&got) == accessed_never(&alone.snapshot()),
            "these changes alone give something else"
        );
    } else {
        let first = over.first().copied().map(ClientUuid);
        prop_assert!(
            first.is_some_and(|first| refused.contains(&first)),
            "a change does not fit, and was made"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn replay_gives_what_the_changes_of_those_that_come_give(
        ops in ops(),
        durable in 0..100usize,
        come in prop::collection::btree_set(1..=CLIENTS, 1..=CLIENTS as usize),
    ) {
        replay(&ops, durable, &come)?;
    }
}

#[test]
fn a_time_of_modification_that_was_set_to_what_it_was_is_kept() {
    let op = |client, what, at, tick| Op { client, what, at, to: (0, 0), tick };
    // The name that came at 1500 does not come back.
    let ops = [
        op(1, What::Mkdir, (0, 0), 0),
        op(2, What::Create, (1, 0), 500),
        op(1, What::SetTimes(1500), (0, 0), 1),
    ];
    replay(&ops, 25, &BTreeSet::from([1])).unwrap();
}
