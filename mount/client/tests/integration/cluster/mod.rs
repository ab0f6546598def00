//! MGS, MDT and OSTs in memory, behind the real `rpc`: just enough of them to see the client's
//! requests and their order, and to let them fail or wait. The behaviour of the real servers is
//! tested with the real servers.

mod state;

use bytes::Bytes;
use client::client::{Client, ClientOptions};
use env::real::{RealConfig, RealEnv, RealGuard};
use env::{BoxFuture, Env};
use layout::dir_stripes::{DirStripes, RECORD_XATTR};
use layout::layout::{Component, EOF, Layout, Pattern};
use parking_lot::Mutex;
use rpc::service::{Export, Gone, Service};
use rpc::{Rpc, RpcConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{oneshot, watch};
use types::about::LINKS;
use types::attr::{AccessTimes, Attr, FileType, Statfs};
use types::dir_stripes::DirHash;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::{Flock, FlockKind, InodeBits, LeaseMode};
use types::name::Name;
use types::nid::Nid;
use types::object::ObjectId;
use types::session::{ClusterId, OpenHandle, Transno};
use types::target::{FsName, TargetIndex, TargetKind, TargetName};
use types::time::Timestamp;
use wire::client::{ClientOp, ClientReply};
use wire::mds::{
    Close, Create, CreateKind, DirEntry, Entry, Expect, FlockCancel, GetLayout, GetParent, Getattr,
    GetattrMany, Getxattr, Lease, LeaseAct, Link, Listxattr, Lock, Lookup, MdsOp, MdsReply, Open,
    Read, Readdir, Readlink, Removed, Rename, Rmdir, Root, Setattr, Unlink, Wrote,
};
use wire::message::{ConnectReply, ConnectRequest, Grant, Op, OpReply, Reply, Request};
use wire::mgs::{FsConfig, MgsOp, MgsReply, TargetInfo};
use wire::ost::{
    GrantSpace, ObjectGetattr, ObjectPunch, ObjectRead, ObjectSeek, ObjectWrite, OstOp, OstReply,
    PunchKind,
};

pub const STRIPE: u64 = 64 << 10;
const CLUSTER: ClusterId = ClusterId(77);

/// Everything the fake servers have.
pub struct World {
    pub state: Mutex<State>,
    /// While true, OST writes wait.
    pub hold_writes: watch::Sender<bool>,
    /// Requests of these names are served, but their answers wait.
    held: watch::Sender<BTreeSet<&'static str>>,
    /// Requests for locks are answered when this is over.
    pub hold_locks: watch::Sender<bool>,
    /// Everything that may be granted is.
    pub grants: AtomicBool,
    /// The mount's records at the MDTs, by index, for callbacks.
    pub exports: Mutex<BTreeMap<u16, Arc<Export>>>,
    /// MDTs of the file system.
    mdts: u16,
    /// While true, leases were given, but the answers wait.
    pub hold_leases: watch::Sender<bool>,
    /// While true, opens and creates have happened, but their answers wait.
    pub hold_opens: watch::Sender<bool>,
    /// While true, OSTs do not answer how large an object is.
    pub hold_counts: watch::Sender<bool>,
    pub boot: Mutex<u64>,
}

#[derive(Default)]
pub struct State {
    pub inodes: BTreeMap<Fid, Inode>,
    pub objects: BTreeMap<ObjectId, Vec<u8>>,
    pub open: BTreeMap<u64, Fid>,
    next: u32,
    /// The requests, in order.
    pub log: Vec<String>,
    /// OST that answers EIO to writes and punches.
    pub broken_ost: Option<(u16, Errno)>,
    /// Files of which the MDT was to have stored what other clients wrote.
    pub to_store: Vec<Fid>,
    /// The lock that is held, and the request that waits.
    pub lock: Option<Flock>,
    waiting: Vec<(Flock, oneshot::Sender<Result<(), Errno>>)>,
    /// Stripes of new files.
    pub stripes: u16,
    /// New components wait for the first write.
    pub lazy_layout: bool,
    /// OSTs grant no space: every write goes through.
    pub stingy: bool,
    /// The MDT commits only when it is asked to.
    pub commits_late: bool,
    /// Newest change of attributes, and up to which one all are durable.
    changes: Transno,
    durable: Transno,
    /// OSTs answer a write as if it had come a second time: it grows nothing.
    pub answers_again: bool,
    /// Another client has everything open that is removed.
    pub open_elsewhere: bool,
    /// What the operations of the request under way must find.
    expected: Vec<Expect>,
    /// The client holds OPEN of everything that it removes.
    pub holds_open_of_removed: bool,
    /// The locks that were asked for, in order.
    pub locks: Vec<Lock>,
    /// Leases by inode and open file.
    pub leases: BTreeMap<(Fid, u64), LeaseMode>,
    /// Inodes that their directory leaves, and where it goes.
    pub gone_on: BTreeMap<Fid, Fid>,
    /// Stripes of directories, by their first one, which is there as long as they have any.
    pub striped: BTreeMap<Fid, DirStripes>,
    /// Each time when these were told, the directory gets the next of these; `None`: it is removed.
    pub next_stripes: VecDeque<Option<DirStripes>>,
    /// Bytes of files that live on the MDT.
    pub small: BTreeMap<Fid, Bytes>,
    /// Of each request that read some: how many.
    pub reads: Vec<usize>,
}

pub struct Inode {
    pub attr: Attr,
    pub names: BTreeMap<Name, Fid>,
    pub layout: Arc<Layout>,
}

fn attr(fid: Fid, mode: u32) -> Attr {
    let now = Timestamp::default();
    Attr {
        fid,
        mode,
        uid: 0,
        gid: 0,
        nlink: 1,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        version: 1,
    }
}

fn layout(stripes: u16, instantiated: bool) -> Arc<Layout> {
    let osts = if instantiated { stripes } else { 0 };
    let component = Component {
        id: 1,
        start: 0,
        end: EOF,
        pattern: Pattern::Raid0,
        stripe_size: STRIPE as u32,
        stripe_count: stripes,
        overstriped: false,
        pool: None,
        stripes: (0..osts).map(TargetIndex).collect(),
        wanted: Vec::new(),
    };
    let generation = 1 + u32::from(instantiated);
    Arc::new(Layout { generation, components: vec![component], ..Layout::default() })
}

/// All of the file lives on its MDT.
pub fn layout_on_mdt() -> Arc<Layout> {
    let mut layout = Layout::clone(&layout(0, true));
    let component = &mut layout.components[0];
    (component.end, component.pattern) = (STRIPE, Pattern::Mdt);
    Arc::new(layout)
}

struct Target {
    name: TargetName,
    world: Arc<World>,
    boot: u64,
}

impl Service for Target {
    fn target(&self) -> TargetName {
        self.name
    }

    fn cluster(&self) -> ClusterId {
        CLUSTER
    }

    fn connect(&self, export: &Arc<Export>, hello: &ConnectRequest) -> Result<ConnectReply, Errno> {
        if self.name.kind == TargetKind::Mdt {
            self.world.exports.lock().insert(self.name.index.0, export.clone());
        }
        let version = hello.version_max;
        Ok(ConnectReply {
            version,
            cluster: CLUSTER,
            boot: self.boot,
            session: 0,
            last_committed: Transno(0),
            standing: Default::default(),
            squash: types::credentials::SquashNews::silent(self.boot),
        })
    }

    fn handle(self: Arc<Self>, _: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            let mut results: Vec<Result<OpReply, Errno>> = Vec::new();
            let mut reply = Reply::new(request.xid, Transno(0), Transno(0), Vec::new());
            let reads = request.ops.iter().filter(|op| matches!(op, Op::Mds(MdsOp::Read(_))));
            match reads.count() {
                0 => {}
                reads => self.world.state.lock().reads.push(reads),
            }
            for op in request.ops {
                let failed = results.last().is_some_and(Result::is_err);
                let asked = op.clone();
                let result = if failed { Err(Errno::ECANCELED) } else { self.one(op).await };
                // A lock that is asked for is always granted.
                let asks = matches!(asked, Op::Mds(MdsOp::Lock(_)));
                if asks {
                    let mut held = self.world.hold_locks.subscribe();
                    held.wait_for(|held| !held).await.expect("the world stands");
                }
                if asks || self.world.grants.load(Ordering::Relaxed) {
                    self.grant(&asked, &result, request.locks, &mut reply);
                }
                results.push(result);
                match &asked {
                    Op::Mds(op) => self.world.unheld(&word(op)).await,
                    Op::Ost(op) => self.world.unheld(&word(op)).await,
                    _ => {}
                }
            }
            if self.name.kind == TargetKind::Mdt {
                let state = self.world.state.lock();
                (reply.transno, reply.last_committed) = (state.changes, state.durable);
            }
            Reply { results, ..reply }
        })
    }

    fn gone(&self, _: &Arc<Export>, _: Gone) {}
}

impl Target {
    /// As docs/locks/protocol.md, "Grants", says where nothing is in the way.
    fn grant(&self, op: &Op, result: &Result<OpReply, Errno>, mask: InodeBits, reply: &mut Reply) {
        let Op::Mds(op) = op else { return };
        let shown = InodeBits::LOOKUP.union(InodeBits::UPDATE);
        let mdt = self.name.index.0;
        let mut give = |fid: Fid, bits: InodeBits| {
            let bits = bits.intersection(mask);
            if !bits.is_empty() && fid.mdt() == mdt {
                reply.grants.push(Grant { fid, bits });
            }
        };
        let state = self.world.state.lock();
        match (op, result) {
            (MdsOp::Lock(Lock { fid, bits, .. }), Ok(_)) => {
                return give(*fid, bits.union(InodeBits::DATA).union(InodeBits::UPDATE));
            }
            (
                MdsOp::Getxattr(Getxattr { fid, .. }) | MdsOp::Listxattr(Listxattr { fid }),
                Ok(_) | Err(Errno::ENODATA),
            ) => {
                return give(*fid, InodeBits::XATTR);
            }
            (MdsOp::GetLayout(GetLayout { fid, .. }), Ok(_)) => {
                return give(*fid, InodeBits::LAYOUT);
            }
            (MdsOp::Readlink(Readlink { fid }), Ok(_)) => return give(*fid, shown),
            (MdsOp::Lookup(Lookup { parent, .. }), Ok(_) | Err(Errno::ENOENT)) => {
                give(*parent, InodeBits::UPDATE)
            }
            (
                MdsOp::Create(Create { parent, .. })
                | MdsOp::Unlink(Unlink { parent, .. })
                | MdsOp::Link(Link { new_parent: parent, .. })
                | MdsOp::Rename(Rename { new_parent: parent, .. }),
                Ok(_),
            ) => {
                give(*parent, InodeBits::UPDATE);
                reply.touched.extend(state.entry(*parent).map(|entry| *entry));
            }
            (
                MdsOp::Readdir(Readdir { fid, with_layout, .. }),
                Ok(OpReply::Mds(MdsReply::Entries { entries, .. })),
            ) => {
                give(*fid, InodeBits::UPDATE);
                let to_read = InodeBits::LAYOUT.union(InodeBits::OPEN).union(InodeBits::DATA);
                let bits = if *with_layout { shown.union(to_read) } else { shown };
                entries.iter().for_each(|listed| give(listed.fid, bits));
            }
            (MdsOp::GetattrMany(_), Ok(OpReply::Mds(MdsReply::Attrs(entries)))) => {
                entries.iter().flatten().for_each(|entry| give(entry.attr.fid, shown));
            }
            _ => {}
        }
        match result {
            Ok(OpReply::Mds(MdsReply::Removed(removed))) if state.holds_open_of_removed => {
                give(removed.fid, InodeBits::OPEN);
            }
            Ok(OpReply::Mds(MdsReply::Entry(entry))) => {
                let perm = if entry.attr.is_dir() { InodeBits::PERM } else { InodeBits::NONE };
                give(entry.attr.fid, shown.union(perm));
            }
            Ok(OpReply::Mds(MdsReply::Opened { entry, layout, .. })) => {
                give(entry.attr.fid, shown);
                if layout.is_some() {
                    give(entry.attr.fid, InodeBits::LAYOUT.union(InodeBits::OPEN));
                }
            }
            _ => {}
        }
    }

    async fn one(&self, op: Op) -> Result<OpReply, Errno> {
        match op {
            Op::Mgs(MgsOp::Config { known, .. }) => {
                if known > 0 {
                    std::future::pending::<()>().await;
                }
                let target = |name: TargetName| TargetInfo {
                    name: name.to_string(),
                    nids: vec!["0@lo".to_owned()],
                    boot: 1,
                    up: true,
                };
                let fsname = FsName::default();
                let mdts = (0..self.world.mdts).map(|index| TargetName::mdt(fsname, index));
                let targets = mdts.chain([TargetName::ost(fsname, 0), TargetName::ost(fsname, 1)]);
                let targets = targets.map(target).collect();
                let config =
                    FsConfig { version: 1, cluster: CLUSTER.0, targets, ..FsConfig::default() };
                Ok(OpReply::Mgs(MgsReply::Config(config)))
            }
            Op::Mds(MdsOp::FlockSet(wire::mds::FlockSet { lock, wait, .. })) => {
                self.log(format!("FlockSet {:?}", lock.kind));
                let answer = self.world.state.lock().flock(lock, wait);
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(waiting) => waiting.await.map_err(|_| Errno::EIO)?,
                };
                answer.map(|()| OpReply::Mds(MdsReply::Done))
            }
            Op::Mds(op) => {
                // A part of the operation behind it.
                if !matches!(op, MdsOp::Expect(_)) {
                    match self.name.index.0 {
                        0 => self.log(word(&op)),
                        mdt => self.log(format!("{mdt} {}", word(&op))),
                    }
                }
                let of = match &op {
                    MdsOp::Rename(op) => op.new_parent,
                    MdsOp::Link(op) => op.new_parent,
                    op => op.fid(),
                };
                if of != Fid::NONE && of.mdt() != self.name.index.0 {
                    return Err(Errno::EREMOTE);
                }
                let opens = matches!(op, MdsOp::Open(_) | MdsOp::Create(_));
                let leases = matches!(op, MdsOp::Lease(_));
                let answer = self.world.state.lock().mds(op);
                if leases {
                    let mut held = self.world.hold_leases.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                if opens {
                    let mut held = self.world.hold_opens.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                answer.map(OpReply::Mds)
            }
            Op::Ost(op) => {
                if matches!(op, OstOp::Write(_)) {
                    let mut held = self.world.hold_writes.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                self.log(format!("{} {}", self.name.index.0, word(&op)));
                if matches!(op, OstOp::Getattr(_)) {
                    let mut held = self.world.hold_counts.subscribe();
                    held.wait_for(|held| !held).await.map_err(|_| Errno::EIO)?;
                }
                self.world.state.lock().ost(self.name.index.0, op).map(OpReply::Ost)
            }
            other => panic!("{other:?}"),
        }
    }

    fn log(&self, line: String) {
        self.world.state.lock().log.push(line);
    }
}

/// Name of the variant.
fn word(op: &impl std::fmt::Debug) -> String {
    format!("{op:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

impl World {
    /// From now on requests of this name are served, but their answers wait.
    pub fn hold(&self, name: &'static str) {
        self.held.send_modify(|held| {
            held.insert(name);
        });
    }

    /// The answers go out.
    pub fn release(&self, name: &'static str) {
        self.held.send_modify(|held| {
            held.remove(name);
        });
    }

    async fn unheld(&self, name: &str) {
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(name)).await.expect("the world stands");
    }
}

/// A mounted client and its fake servers.
pub struct Cluster {
    pub world: Arc<World>,
    pub client: Arc<Client>,
    pub env: Env,
    pub rpc: Arc<Rpc>,
    _guard: Option<RealGuard>,
}

impl Cluster {
    pub async fn mounted() -> Cluster {
        Cluster::mounted_as(true).await
    }

    /// `opens`: the kernel reports opens and closes.
    pub async fn mounted_as(opens: bool) -> Cluster {
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        Cluster { _guard: Some(guard), ..Cluster::mounted_in(env, opens).await }
    }

    /// With so many MDTs, which grant whatever may be granted.
    pub async fn mounted_with_mdts(mdts: u16) -> Cluster {
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let cluster = Cluster::mounted_on(env, true, mdts).await;
        cluster.world.grants.store(true, Ordering::Relaxed);
        Cluster { _guard: Some(guard), ..cluster }
    }

    /// `opens`: the kernel reports opens and closes.
    pub async fn mounted_in(env: Env, opens: bool) -> Cluster {
        Cluster::mounted_on(env, opens, 1).await
    }

    async fn mounted_on(env: Env, opens: bool, mdts: u16) -> Cluster {
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
        let state = State { stripes: 2, ..State::default() };
        let world = Arc::new(World {
            state: Mutex::new(state),
            hold_writes: watch::Sender::new(false),
            hold_opens: watch::Sender::new(false),
            held: watch::Sender::default(),
            hold_locks: watch::Sender::new(false),
            hold_leases: watch::Sender::new(false),
            hold_counts: watch::Sender::new(false),
            grants: AtomicBool::new(false),
            exports: Mutex::default(),
            mdts,
            boot: Mutex::new(1),
        });
        let root = Inode {
            attr: attr(Fid::ROOT, libc::S_IFDIR | 0o755),
            names: BTreeMap::new(),
            layout: Arc::default(),
        };
        world.state.lock().inodes.insert(Fid::ROOT, root);
        let fsname = FsName::default();
        let mdts = (0..mdts).map(|index| TargetName::mdt(fsname, index));
        let others = [TargetName::mgs(), TargetName::ost(fsname, 0), TargetName::ost(fsname, 1)];
        for name in mdts.chain(others) {
            rpc.add_service(Arc::new(Target { name, world: world.clone(), boot: 1 }));
        }
        let description = "test".to_owned();
        let options = ClientOptions {
            opens,
            access_times: AccessTimes::default(),
            nodiratime: false,
            mgs: vec![Nid::Loopback],
            fsname,
            directory: Default::default(),
            description,
            soft: false,
        };
        let client = Client::mount(env.clone(), rpc.clone(), options).await.unwrap();
        world.state.lock().log.clear();
        Cluster { world, client, env, rpc, _guard: None }
    }

    /// The MDT restarts: the same inodes, no open handles.
    pub fn restart_mdt(&self) {
        self.restart_mdt_at(0);
    }

    /// As [`Cluster::restart_mdt`], of one of several.
    pub fn restart_mdt_at(&self, index: u16) {
        let name = TargetName::mdt(FsName::default(), index);
        self.rpc.remove_service(name);
        self.world.state.lock().open.retain(|_, fid| fid.mdt() != index);
        let boot = {
            let mut boot = self.world.boot.lock();
            *boot += 1;
            *boot
        };
        self.rpc.add_service(Arc::new(Target { name, world: self.world.clone(), boot }));
    }

    /// An OST restarts: the same objects, new sessions.
    pub fn restart_ost(&self, index: u16) {
        let name = TargetName::ost(FsName::default(), index);
        self.rpc.remove_service(name);
        self.rpc.add_service(Arc::new(Target { name, world: self.world.clone(), boot: 2 }));
    }

    /// The MDT asks the mount something.
    pub async fn callback(&self, op: ClientOp) -> ClientReply {
        self.callback_of(0, op).await
    }

    /// As [`Cluster::callback`], of one of several.
    pub async fn callback_of(&self, mdt: u16, op: ClientOp) -> ClientReply {
        let export = self.world.exports.lock().get(&mdt).cloned().expect("mounted");
        export.callback(op).await.expect("the mount answers")
    }

    /// Another client takes the file's data and changes its size.
    pub async fn resize_elsewhere(&self, fid: Fid, size: u64) {
        let all = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
        self.callback(ClientOp::Revoke { locks: vec![(fid, all)] }).await;
        let mut state = self.world.state.lock();
        let attr = &mut state.inodes.get_mut(&fid).expect("a file").attr;
        attr.size = size;
        attr.version += 1;
    }

    /// The requests since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.world.state.lock().log)
    }
}
