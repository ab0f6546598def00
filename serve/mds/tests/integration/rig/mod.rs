//! One MDT over an engine in memory, with OSTs that are maps; requests go in at the front door.
#![allow(dead_code, reason = "each test uses its part")]

pub mod holder;

use bytes::Bytes;
use env::BoxFuture;
use env::real::{RealConfig, RealEnv, RealGuard};
use mds::mds::{Mds, Parts};
use mds::object_targets::{ObjectTargets, Pools};
use mds::peers::Peers;
use mds::settings::MdsSettings;
use parking_lot::Mutex;
use rpc::error::RpcError;
use rpc::service::{Export, Gone, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::engine::Fence;
use store::memory::Memory;
use store::store::{Store, StoreOptions};
use types::attr::{Attr, FileType, SetAttr, Statfs};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::object::{ObjectId, ObjectOffset};
use types::session::{ClientUuid, ClusterId, OpenHandle, Transno, Xid};
use types::target::{TargetIndex, TargetName};
use wire::mds::{
    Create, CreateKind, Entry, GetLayout, Getattr, MdsOp, MdsReply, Open, OpenFlags, Readdir,
    Setattr, Unlink,
};
use wire::message::{Op, OpReply, Reply, Request};
use wire::ost::FenceClients;

/// OSTs as maps of object sizes.
#[derive(Default)]
pub struct FakeOsts {
    pub objects: Mutex<BTreeMap<(TargetIndex, ObjectId), (u64, u64)>>,
    pub destroyed: Mutex<Vec<(TargetIndex, ObjectId)>>,
    pub away: Mutex<BTreeSet<TargetIndex>>,
    /// These were taken out of use.
    pub out_of_use: Mutex<BTreeSet<TargetIndex>>,
    /// These never answer.
    pub silent: Mutex<BTreeSet<TargetIndex>>,
    pub count: Mutex<u16>,
    pub pools: Mutex<Pools>,
    /// What they were told of evicted clients: boot number of the MDT, and the newest list.
    pub refused: Mutex<BTreeMap<TargetIndex, (u64, Vec<ClientUuid>)>>,
}

impl FakeOsts {
    fn there(&self, ost: TargetIndex) -> Result<(), RpcError> {
        let gone = self.away.lock().contains(&ost) || ost.0 >= *self.count.lock();
        if gone { Err(RpcError::Errno(Errno::EIO)) } else { Ok(()) }
    }

    fn answer<T: Send + 'static>(&self, ost: TargetIndex, answer: T) -> BoxFuture<'static, T> {
        let silent = self.silent.lock().contains(&ost);
        Box::pin(async move { if silent { std::future::pending().await } else { answer } })
    }
}

impl ObjectTargets for FakeOsts {
    fn pools(&self) -> Arc<Pools> {
        Arc::new(self.pools.lock().clone())
    }

    fn list(&self) -> Vec<TargetIndex> {
        (0..*self.count.lock()).map(TargetIndex).collect()
    }

    fn is_in_use(&self, ost: TargetIndex) -> bool {
        !self.out_of_use.lock().contains(&ost)
    }

    fn statfs(&self, ost: TargetIndex) -> BoxFuture<'static, Result<Statfs, RpcError>> {
        let answer = self.there(ost).map(|()| Statfs {
            bytes_total: 1 << 40,
            bytes_free: 1 << 39,
            bytes_available: 1 << 39,
            ..Statfs::default()
        });
        self.answer(ost, answer)
    }

    fn boot(&self, _: TargetIndex) -> u64 {
        1
    }

    fn fence(
        &self,
        ost: TargetIndex,
        fence: FenceClients,
    ) -> BoxFuture<'static, Result<(u64, Vec<ClientUuid>), RpcError>> {
        let answer = self.there(ost).map(|()| {
            let mut refused = self.refused.lock();
            let refused = refused.entry(ost).or_default();
            if fence.number != 0 {
                *refused = (fence.boot, fence.clients);
            }
            (1, refused.1.clone())
        });
        self.answer(ost, answer)
    }

    fn getattr(
        &self,
        ost: TargetIndex,
        object: ObjectId,
    ) -> BoxFuture<'static, Result<(u64, u64), RpcError>> {
        let size = self.objects.lock().get(&(ost, object)).copied().unwrap_or_default();
        let answer = self.there(ost).map(|()| size);
        self.answer(ost, answer)
    }

    fn cut(
        &self,
        ost: TargetIndex,
        object: ObjectId,
        at: ObjectOffset,
    ) -> BoxFuture<'static, Result<u64, RpcError>> {
        let answer = self.there(ost).map(|()| {
            let mut objects = self.objects.lock();
            let Some((size, blocks)) = objects.get_mut(&(ost, object)) else { return 0 };
            if *size > at.0 {
                (*size, *blocks) = (at.0, at.0.div_ceil(512));
            }
            *blocks
        });
        self.answer(ost, answer)
    }

    fn destroy(
        &self,
        ost: TargetIndex,
        objects: Vec<ObjectId>,
    ) -> BoxFuture<'static, Result<(), RpcError>> {
        let answer = self.there(ost);
        if answer.is_ok() && !self.silent.lock().contains(&ost) {
            for object in objects {
                self.objects.lock().remove(&(ost, object));
                self.destroyed.lock().push((ost, object));
            }
        }
        self.answer(ost, answer)
    }
}

/// A running MDT.
pub struct Rig {
    pub mds: Arc<Mds>,
    pub store: Arc<Store>,
    pub engine: Arc<Memory>,
    pub osts: Arc<FakeOsts>,
    env: env::Env,
    guard: Arc<RealGuard>,
    boot: u64,
    xid: Mutex<u64>,
    sessions: Mutex<BTreeMap<ClientUuid, Arc<Export>>>,
    /// Clients do not say that they have their answers.
    pub unheard: AtomicBool,
}

pub const CLIENT: ClientUuid = ClientUuid(1);
pub static CREDENTIALS: std::sync::LazyLock<Credentials> =
    std::sync::LazyLock::new(Credentials::root);

impl Rig {
    /// A new MDT0000 with two OSTs.
    pub fn new() -> Rig {
        Rig::with_osts(2)
    }

    pub fn with_osts(count: u16) -> Rig {
        Rig::with(count, 1 << 30)
    }

    /// A store of so many bytes.
    pub fn with(count: u16, capacity: u64) -> Rig {
        let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
        let osts = Arc::new(FakeOsts::default());
        *osts.count.lock() = count;
        Rig::over(Memory::new(capacity), osts, env, Arc::new(guard), 1)
    }

    fn over(
        engine: Arc<Memory>,
        osts: Arc<FakeOsts>,
        env: env::Env,
        guard: Arc<RealGuard>,
        boot: u64,
    ) -> Rig {
        let options = StoreOptions { at_least: Fence(boot), ..StoreOptions::default() };
        let store = Store::open(engine.clone(), env.clone(), options).unwrap();
        let parts = Parts {
            name: TargetName::mdt(Default::default(), 0),
            cluster: ClusterId(7),
            boot,
            store: store.clone(),
            env: env.clone(),
            targets: osts.clone(),
            peers: Peers::none(),
            settings: MdsSettings::for_tests(),
        };
        let mds = wait(Mds::start_with(parts)).unwrap();
        wait(mds.refresh_spaces());
        Rig {
            mds,
            store,
            engine,
            osts,
            env,
            guard,
            boot,
            xid: Mutex::new(0),
            sessions: Mutex::default(),
            unheard: AtomicBool::new(false),
        }
    }

    /// The outside of the MDT.
    pub fn env(&self) -> &env::Env {
        &self.env
    }

    /// Stops in order and starts again.
    pub fn restart(self) -> Rig {
        wait(self.mds.stop());
        wait(self.store.close()).unwrap();
        Rig::over(self.engine, self.osts, self.env, self.guard, self.boot + 1)
    }

    /// Loses everything that is not committed, and starts again. A copy of the engine plays the
    /// disk at that moment.
    pub fn crash(self) -> Rig {
        let copy = Memory::new(1 << 30);
        let mut batch = store::batch::Batch::new();
        for (key, value) in self.engine.snapshot() {
            batch.put(&key, &value);
        }
        use store::engine::Engine;
        batch.set_transno(self.engine.last_transno());
        copy.commit(&Arc::new(batch), Fence(0)).unwrap();
        wait(self.mds.stop());
        Rig::over(copy, self.osts, self.env, self.guard, self.boot + 1)
    }

    pub fn export(&self, client: ClientUuid) -> Arc<Export> {
        if let Some(export) = self.sessions.lock().get(&client) {
            return export.clone();
        }
        Export::local(self.mds.name(), client, "test".into(), None)
    }

    /// Sends a request; the future is the reply.
    pub fn send(
        &self,
        client: ClientUuid,
        credentials: &Credentials,
        ops: Vec<MdsOp>,
    ) -> BoxFuture<'static, Reply> {
        let mut xid = self.xid.lock();
        *xid += 1;
        if !self.unheard.load(Ordering::Relaxed) {
            let sessions: Vec<_> = self.sessions.lock().values().cloned().collect();
            for export in sessions {
                self.mds.pinged(&export, Xid(*xid));
            }
        }
        let request = self.request(*xid, credentials, ops);
        self.mds.clone().handle(self.export(client), request)
    }

    pub fn request(&self, xid: u64, credentials: &Credentials, ops: Vec<MdsOp>) -> Request {
        Request {
            target: self.mds.name(),
            xid: Xid(xid),
            xid_known: if self.unheard.load(Ordering::Relaxed) { Xid(0) } else { Xid(xid) },
            resent: false,
            replay: Transno(0),
            slot: 0,
            locks: if self.sessions.lock().is_empty() { InodeBits::NONE } else { InodeBits::ALL },
            credentials: credentials.clone(),
            job: types::job::JobId::NONE,
            ops: ops.into_iter().map(Op::Mds).collect(),
        }
    }

    pub fn ops(&self, ops: Vec<MdsOp>) -> Vec<Result<MdsReply, Errno>> {
        let reply = wait(self.send(CLIENT, &Credentials::root(), ops));
        reply.results.into_iter().map(|r| r.map(mds_reply)).collect()
    }

    pub fn one_as(
        &self,
        client: ClientUuid,
        credentials: &Credentials,
        op: MdsOp,
    ) -> Result<MdsReply, Errno> {
        wait(self.send(client, credentials, vec![op])).results.remove(0).map(mds_reply)
    }

    pub fn one(&self, op: MdsOp) -> Result<MdsReply, Errno> {
        self.one_as(CLIENT, &Credentials::root(), op)
    }

    pub fn gone(&self, client: ClientUuid) {
        self.mds.gone(&self.export(client), Gone::Evicted);
    }

    pub fn create(&self, parent: Fid, name: &str, kind: CreateKind) -> Result<Fid, Errno> {
        let op = MdsOp::Create(Create {
            parent,
            name: n(name),
            kind,
            mode: 0o755,
            umask: 0o022,
            exclusive: true,
        });
        self.one(op).map(|r| opened(r).0.attr.fid)
    }

    pub fn file(&self, name: &str) -> Fid {
        self.create(Fid::ROOT, name, CreateKind::Regular(None)).unwrap()
    }

    pub fn open(&self, client: ClientUuid, fid: Fid, write: bool) -> OpenHandle {
        let flags = OpenFlags { read: true, write, exec: false, append: false, lasting: false };
        opened(self.one_as(client, &Credentials::root(), MdsOp::Open(Open { fid, flags })).unwrap())
            .1
    }

    pub fn getattr(&self, fid: Fid) -> Result<Attr, Errno> {
        self.one(MdsOp::Getattr(Getattr::of(fid))).map(|r| entry(r).attr)
    }

    pub fn setattr(&self, fid: Fid, set: SetAttr) -> Result<Attr, Errno> {
        self.one(MdsOp::Setattr(Setattr { fid, set })).map(|r| entry(r).attr)
    }

    pub fn unlink(&self, name: &str) -> Result<MdsReply, Errno> {
        self.one(MdsOp::Unlink(Unlink { parent: Fid::ROOT, name: n(name) }))
    }

    pub fn names(&self, fid: Fid) -> Vec<String> {
        let op = MdsOp::Readdir(Readdir {
            fid,
            after: None,
            limit: 1000,
            bytes_max: u32::MAX,
            with_attr: false,
            with_layout: false,
        });
        match self.one(op).unwrap() {
            MdsReply::Entries { entries, more: false } => {
                entries.iter().map(|e| e.name.to_string()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn objects(&self, fid: Fid) -> Vec<(TargetIndex, ObjectId)> {
        match self
            .one(MdsOp::GetLayout(GetLayout { fid, write: true, start: 0, end: u64::MAX }))
            .unwrap()
        {
            MdsReply::Layout(layout) => layout.objects(fid).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn osts_all(&self) -> Vec<TargetIndex> {
        self.osts.list()
    }

    /// The value of a record, as it is now.
    pub fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.store.begin().get(key, <[u8]>::to_vec).unwrap()
    }

    /// Checks that only the records of a new MDT are left.
    pub fn assert_empty(&self) {
        wait(self.store.commit()).unwrap();
        let keys: Vec<Vec<u8>> = self.engine.snapshot().into_iter().map(|(key, _)| key).collect();
        let own = [disk::key::MDT_STATE, disk::key::REDO_KEYS].map(<[u8]>::to_vec);
        assert_eq!(keys, [&[disk::key::inode(Fid::ROOT).to_vec()], &own[..]].concat());
    }
}

pub fn n(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

pub fn b(bytes: &'static [u8]) -> Bytes {
    Bytes::from_static(bytes)
}

pub fn user(uid: u32) -> Credentials {
    Credentials { uid, gid: uid, groups: Default::default() }
}

pub fn mds_reply(reply: OpReply) -> MdsReply {
    match reply {
        OpReply::Mds(reply) => reply,
        other => panic!("{other:?}"),
    }
}

pub fn entry(reply: MdsReply) -> Entry {
    match reply {
        MdsReply::Entry(entry) => *entry,
        other => panic!("{other:?}"),
    }
}

pub fn opened(reply: MdsReply) -> (Entry, OpenHandle, bool) {
    match reply {
        MdsReply::Opened { entry, created, handle, .. } => (*entry, handle, created),
        other => panic!("{other:?}"),
    }
}

pub fn is(fid: Fid, file_type: FileType, name: &str) -> (String, Fid, FileType) {
    (name.to_owned(), fid, file_type)
}

pub fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Waits until it is so; background tasks need their time.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not in 20 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}
