//! A small object target, processes that talk to it, and a cable that can be cut.

#![allow(dead_code, reason = "each test uses its part")]

use bytes::Bytes;
use env::clock::Monotonic;
use env::real::{RealConfig, RealEnv, RealGuard};
use env::{BoxFuture, Env};
use parking_lot::Mutex;
use rpc::callbacks::Callbacks;
use rpc::error::RpcError;
use rpc::import::Import;
use rpc::service::{Export, Gone, Service};
use rpc::{Rpc, RpcConfig, Timings};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::nid::Nid;
use types::object::{ObjectId, ObjectOffset};
use types::principal::Claim;
use types::session::{ClientUuid, ClusterId, Transno, Xid};
use types::target::{FsName, TargetName};
use wire::checksum::crc32c;
use wire::client::{ClientOp, ClientReply};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::HELLO_REPLY_BYTES;
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Redo, Reply, Request, VERSION_MAX};
use wire::ost::{ObjectRead, ObjectWrite, OstOp, OstReply};

pub const CLUSTER: ClusterId = ClusterId(0xc1);
/// Longer than anything here takes.
pub const SOON: Duration = Duration::from_secs(30);

/// The header of a frame with this body.
pub fn header(kind: FrameKind, body: &[u8]) -> Header {
    Header {
        version: VERSION_MAX,
        kind,
        tag: 1,
        body_bytes: body.len() as u32,
        bulk_bytes: 0,
        body_crc: Some(crc32c(body)),
        bulk_crc: None,
        cluster: CLUSTER,
        source: Nid::Loopback,
        target: Nid::Loopback,
    }
}

/// A whole frame.
pub fn frame(kind: FrameKind, body: &[u8]) -> Vec<u8> {
    [&header(kind, body).encode()[..], body].concat()
}

pub fn machine() -> (Env, RealGuard) {
    RealEnv::start(RealConfig { reactors: 2, blocking_threads: 2 }).unwrap()
}

/// Runs a future on a reactor and waits for it.
pub fn run<T: Send + 'static>(env: &Env, future: impl Future<Output = T> + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    env.tasks.spawn("test", Box::pin(async move { send.send(future.await).unwrap() }));
    receive.recv_timeout(SOON).expect("it ends")
}

pub fn ost(index: u16) -> TargetName {
    TargetName::ost(FsName::default(), index)
}

pub fn object(n: u32) -> ObjectId {
    ObjectId { fid: Fid { seq: 1, oid: n, ver: 0 }, instance: 1, stripe: 0 }
}

/// An object target in memory. `Sync` waits until the gate opens; `Getattr` asks the client back
/// first.
pub struct Ost {
    pub target: TargetName,
    pub cluster: ClusterId,
    pub boot: u64,
    pub objects: Mutex<HashMap<ObjectId, Vec<u8>>>,
    pub gate: watch::Sender<bool>,
    pub writes: AtomicU64,
    /// Locks that were asked for.
    pub locks: AtomicU64,
    pub resent: AtomicU64,
    pub at_work: AtomicUsize,
    pub at_work_max: AtomicUsize,
    pub gone: Mutex<Vec<(ClientUuid, Gone)>>,
    pub connects: AtomicUsize,
    /// What the clients of an earlier life showed.
    pub recorded: Mutex<HashMap<ClientUuid, Claim>>,
    /// Nothing is done for any client.
    pub fenced: AtomicBool,
    /// Requests that were refused for that.
    pub refused: AtomicUsize,
    /// Bytes of redo in each answer. While there are any, no change is durable.
    pub redo_bytes: AtomicUsize,
    pub pings: AtomicUsize,
    transno: AtomicU64,
}

impl Ost {
    pub fn new(target: TargetName, boot: u64) -> Arc<Ost> {
        Ost::of_cluster(target, boot, CLUSTER)
    }

    pub fn of_cluster(target: TargetName, boot: u64, cluster: ClusterId) -> Arc<Ost> {
        Arc::new(Ost {
            target,
            cluster,
            boot,
            objects: Mutex::default(),
            gate: watch::Sender::new(false),
            writes: AtomicU64::new(0),
            locks: AtomicU64::new(0),
            resent: AtomicU64::new(0),
            at_work: AtomicUsize::new(0),
            at_work_max: AtomicUsize::new(0),
            gone: Mutex::default(),
            connects: AtomicUsize::new(0),
            recorded: Mutex::default(),
            fenced: AtomicBool::new(false),
            refused: AtomicUsize::new(0),
            redo_bytes: AtomicUsize::new(0),
            pings: AtomicUsize::new(0),
            transno: AtomicU64::new(0),
        })
    }

    async fn one(&self, export: &Export, op: &Op) -> Result<OpReply, Errno> {
        let Op::Ost(op) = op else { return self.other(op).await };
        Ok(OpReply::Ost(match op {
            OstOp::Read(ObjectRead { object, offset, len }) => {
                let objects = self.objects.lock();
                let bytes = objects.get(object).ok_or(Errno::ENOENT)?;
                let start = (offset.0 as usize).min(bytes.len());
                OstReply::Data(Bytes::copy_from_slice(
                    &bytes[start..(start + *len as usize).min(bytes.len())],
                ))
            }
            OstOp::Write(ObjectWrite { object, offset, data, .. }) => {
                self.writes.fetch_add(1, Ordering::SeqCst);
                let mut objects = self.objects.lock();
                let bytes = objects.entry(*object).or_default();
                let end = offset.0 as usize + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[offset.0 as usize..end].copy_from_slice(data);
                OstReply::Changed { blocks_delta: data.len() as i64 }
            }
            OstOp::Sync(_) => {
                self.wait().await;
                OstReply::Done
            }
            OstOp::Getattr(_) => {
                let revoke = ClientOp::Revoke { locks: vec![(Fid::ROOT, InodeBits::LOOKUP)] };
                // As if it had been open since the clock began.
                let _open = export.question(Monotonic::ZERO);
                match export.callback(revoke).await {
                    Ok(ClientReply::Done) => OstReply::Done,
                    Ok(_) => return Err(Errno::EPROTO),
                    Err(RpcError::Errno(errno)) => return Err(errno),
                    Err(_) => return Err(Errno::EIO),
                }
            }
            OstOp::Statfs => OstReply::Done,
            _ => return Err(Errno::EOPNOTSUPP),
        }))
    }

    /// A lock wait stands for all that may wait for others.
    async fn other(&self, op: &Op) -> Result<OpReply, Errno> {
        match op {
            Op::Mds(wire::mds::MdsOp::FlockSet(wire::mds::FlockSet { wait: true, .. })) => {
                self.locks.fetch_add(1, Ordering::SeqCst);
                self.wait().await;
                Ok(OpReply::Mds(wire::mds::MdsReply::Done))
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    async fn wait(&self) {
        let now = self.at_work.fetch_add(1, Ordering::SeqCst) + 1;
        self.at_work_max.fetch_max(now, Ordering::SeqCst);
        self.gate.subscribe().wait_for(|open| *open).await.expect("the gate stays");
        self.at_work.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Ost {
    fn target(&self) -> TargetName {
        self.target
    }

    fn cluster(&self) -> ClusterId {
        self.cluster
    }

    fn claim_of(&self, client: ClientUuid) -> Option<Claim> {
        self.recorded.lock().get(&client).cloned()
    }

    fn connect(&self, _: &Arc<Export>, _: &ConnectRequest) -> Result<ConnectReply, Errno> {
        self.connects.fetch_add(1, Ordering::SeqCst);
        Ok(ConnectReply {
            version: VERSION_MAX,
            cluster: self.cluster,
            boot: self.boot,
            session: 0,
            last_committed: Transno(self.transno.load(Ordering::SeqCst)),
            standing: Default::default(),
            squash: types::credentials::SquashNews::silent(self.boot),
        })
    }

    fn handle(self: Arc<Self>, export: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        self.resent.fetch_add(u64::from(request.resent), Ordering::SeqCst);
        Box::pin(async move {
            let mut results = Vec::with_capacity(request.ops.len());
            for op in &request.ops {
                results.push(self.one(&export, op).await);
            }
            let transno = Transno(self.transno.fetch_add(1, Ordering::SeqCst) + 1);
            let mut reply = Reply::new(request.xid, transno, self.last_committed(), results);
            let bytes = self.redo_bytes.load(Ordering::SeqCst);
            if bytes > 0 {
                reply.redo.push(Redo::whole(transno, vec![0; bytes].into()));
            }
            reply
        })
    }

    fn last_committed(&self) -> Transno {
        let is_durable = self.redo_bytes.load(Ordering::SeqCst) == 0;
        Transno(if is_durable { self.transno.load(Ordering::SeqCst) } else { 0 })
    }

    fn pinged(&self, _: &Arc<Export>, _: Xid) {
        self.pings.fetch_add(1, Ordering::SeqCst);
    }

    fn is_fenced(&self, _: &Export, _: &Request) -> bool {
        let fenced = self.fenced.load(Ordering::SeqCst);
        self.refused.fetch_add(usize::from(fenced), Ordering::SeqCst);
        fenced
    }

    fn gone(&self, export: &Arc<Export>, why: Gone) {
        self.gone.lock().push((export.client(), why));
    }
}

/// Counts callbacks.
#[derive(Default)]
pub struct Answers {
    pub count: AtomicUsize,
}

impl Callbacks for Answers {
    fn callback(self: Arc<Self>, op: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>> {
        Box::pin(async move {
            let ClientOp::Revoke { locks } = op else { return Err(Errno::EPROTO) };
            assert_eq!(locks.len(), 1);
            self.count.fetch_add(1, Ordering::SeqCst);
            Ok(ClientReply::Done)
        })
    }
}

/// Answers callbacks when it is told to.
pub struct Late {
    pub asked: AtomicUsize,
    pub answer: watch::Sender<bool>,
}

impl Callbacks for Late {
    fn callback(self: Arc<Self>, _: ClientOp) -> BoxFuture<'static, Result<ClientReply, Errno>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            self.answer.subscribe().wait_for(|may| *may).await.expect("the sender stays");
            Ok(ClientReply::Done)
        })
    }
}

pub fn process(env: &Env) -> Arc<Rpc> {
    Rpc::new(env.clone(), RpcConfig { cluster: CLUSTER, checksums: true })
}

/// A process with short pings and leases.
pub fn hasty(env: &Env, ping_interval: Duration, lease: Duration) -> Arc<Rpc> {
    let timings = Timings { ping_interval, lease, request_timeout: Duration::from_secs(20) };
    Rpc::with_timings(env.clone(), RpcConfig { cluster: CLUSTER, checksums: true }, timings)
}

pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub fn listen(env: &Env, rpc: &Arc<Rpc>) -> SocketAddr {
    let rpc = rpc.clone();
    run(env, async move { rpc.listen(any_port()).await.unwrap() })
}

pub fn shutdown(env: &Env, rpc: &Arc<Rpc>) {
    let rpc = rpc.clone();
    run(env, async move { rpc.shutdown().await });
}

static NEXT_CLIENT: AtomicU64 = AtomicU64::new(1);

pub fn client_of(
    rpc: &Arc<Rpc>,
    target: TargetName,
    nids: Vec<Nid>,
    callbacks: Option<Arc<dyn Callbacks>>,
) -> Arc<Import> {
    let client = ClientUuid(NEXT_CLIENT.fetch_add(1, Ordering::SeqCst).into());
    rpc.import(target, nids, client, "test".to_owned(), callbacks)
}

pub async fn write(import: &Import, n: u32, offset: u64, data: Bytes) -> Result<OpReply, RpcError> {
    let op = OstOp::Write(ObjectWrite {
        object: object(n),
        offset: ObjectOffset(offset),
        data,
        sync: false,
    });
    import.one(&Credentials::root(), Op::Ost(op)).await
}

pub async fn read(import: &Import, n: u32, offset: u64, len: u32) -> Result<Bytes, RpcError> {
    let op = OstOp::Read(ObjectRead { object: object(n), offset: ObjectOffset(offset), len });
    match import.one(&Credentials::root(), Op::Ost(op)).await? {
        OpReply::Ost(OstReply::Data(data)) => Ok(data),
        other => panic!("a read answers {other:?}"),
    }
}

pub async fn simple(import: &Import, op: OstOp) -> Result<OpReply, RpcError> {
    import.one(&Credentials::root(), Op::Ost(op)).await
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, len: usize) -> Bytes {
    (0..len)
        .map(|i| (seed.wrapping_mul(31).wrapping_add(i as u64 * 7 + i as u64 / 251)) as u8)
        .collect()
}

/// Waits for something to become true.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < SOON, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Forwards connections to a server, and can be cut or made to swallow what the server says after
/// its greeting, or to keep what the client says until it is told to let it go: also after a cut.
pub struct Cable {
    pub addr: SocketAddr,
    cuts: watch::Sender<u64>,
    swallow: Arc<AtomicBool>,
    late: Arc<Kept>,
}

/// What a cable keeps.
struct Kept {
    keep: AtomicBool,
    /// Frames that are kept, of all connections.
    kept: AtomicUsize,
    go: watch::Sender<bool>,
    /// Frames that came back after they went.
    answers: AtomicUsize,
}

/// Whole frames at the beginning of these bytes.
fn frames(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(header).expect("a frame");
        let Some(next) = rest.get((header.body_bytes + header.bulk_bytes) as usize..) else {
            break;
        };
        (bytes, count) = (next, count + 1);
    }
    count
}

impl Cable {
    pub fn new(env: &Env, to: SocketAddr) -> Cable {
        let (cuts, _) = watch::channel(0);
        let swallow = Arc::new(AtomicBool::new(false));
        let late = Arc::new(Kept {
            keep: AtomicBool::new(false),
            kept: AtomicUsize::new(0),
            go: watch::Sender::new(false),
            answers: AtomicUsize::new(0),
        });
        let (inner, cuts2) = (env.clone(), cuts.clone());
        let (swallow2, late2) = (swallow.clone(), late.clone());
        let listening = env.net.listen(any_port());
        let listener = run(env, async move { listening.await.unwrap() });
        let addr = listener.local_addr().unwrap();
        let accept = async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = inner.net.connect(to).await else { continue };
                let (mut near_read, mut near_write) = near.split();
                let (mut far_read, mut far_write) = far.split();
                let mut cut = cuts2.subscribe();
                let (swallow, late) = (swallow2.clone(), late2.clone());
                let forward = async move {
                    let mut kept = Vec::new();
                    let there = async {
                        let mut buffer = vec![0; 64 << 10];
                        while let Ok(n @ 1..) = near_read.read(&mut buffer).await {
                            if late.keep.load(Ordering::SeqCst) {
                                let before = frames(&kept);
                                kept.extend_from_slice(&buffer[..n]);
                                late.kept.fetch_add(frames(&kept) - before, Ordering::SeqCst);
                                continue;
                            }
                            if far_write.write_all(&buffer[..n]).await.is_err() {
                                return;
                            }
                        }
                    };
                    let back = async {
                        let (mut buffer, mut greeting) =
                            (vec![0; 64 << 10], HEADER_BYTES + HELLO_REPLY_BYTES);
                        while let Ok(n @ 1..) = far_read.read(&mut buffer).await {
                            let passes =
                                if swallow.load(Ordering::SeqCst) { n.min(greeting) } else { n };
                            greeting = greeting.saturating_sub(n);
                            if near_write.write_all(&buffer[..passes]).await.is_err() {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        biased;
                        () = there => {}
                        () = back => {}
                        _ = cut.changed() => {}
                    }
                    drop((near_read, near_write));
                    if kept.is_empty() {
                        return;
                    }
                    late.go.subscribe().wait_for(|go| *go).await.expect("the sender stays");
                    far_write.write_all(&kept).await.expect("the server is there still");
                    let (mut buffer, mut answers) = (vec![0; 64 << 10], Vec::new());
                    while let Ok(n @ 1..) = far_read.read(&mut buffer).await {
                        let before = frames(&answers);
                        answers.extend_from_slice(&buffer[..n]);
                        late.answers.fetch_add(frames(&answers) - before, Ordering::SeqCst);
                    }
                };
                inner.tasks.spawn("cable", Box::pin(forward));
            }
        };
        env.tasks.spawn("cable", Box::pin(accept));
        Cable { addr, cuts, swallow, late }
    }

    /// Keeps what the client says from now on, or nothing more.
    pub fn keep(&self, on: bool) {
        self.late.keep.store(on, Ordering::SeqCst);
    }

    /// Requests of the client that it kept.
    pub fn kept(&self) -> usize {
        self.late.kept.load(Ordering::SeqCst)
    }

    /// What was kept reaches the server, over the connections that the client gave up, and all of
    /// it is answered.
    pub fn deliver(&self) {
        self.late.go.send_replace(true);
        let answers = || self.late.answers.load(Ordering::SeqCst);
        eventually("all is answered", || answers() == self.kept());
    }

    pub fn cut(&self) {
        self.cuts.send_modify(|n| *n += 1);
    }

    pub fn swallow(&self, on: bool) {
        self.swallow.store(on, Ordering::SeqCst);
    }
}
