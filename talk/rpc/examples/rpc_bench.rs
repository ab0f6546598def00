//! Measures the cost of a request: within a process, and over loopback TCP at several depths.
//!
//! `cargo run --release -p rpc --example rpc_bench [SECONDS_PER_ROW]`. Client and server have one
//! reactor each in this process, so their CPU times can be told apart. The request asks for
//! attributes of an object (about 100 bytes).

use bytes::Bytes;
use env::real::{RealConfig, RealEnv};
use env::{BoxFuture, Env};
use futures_util::FutureExt;
use rpc::import::Import;
use rpc::service::{Export, Gone, Service};
use rpc::{Rpc, RpcConfig};
use rustix::time::{ClockId, clock_gettime};
use std::future::ready;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::nid::Nid;
use types::object::{ObjectId, ObjectOffset};
use types::session::{ClientUuid, ClusterId, Transno};
use types::target::{FsName, TargetName};
use wire::message::{ConnectReply, ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX};
use wire::ost::{ObjectGetattr, ObjectRead, ObjectWrite, OstOp, OstReply};

const CLUSTER: ClusterId = ClusterId(1);
const BULK: usize = 1 << 20;

struct Instantly {
    data: Bytes,
}

impl Service for Instantly {
    fn target(&self) -> TargetName {
        TargetName::ost(FsName::default(), 0)
    }

    fn cluster(&self) -> ClusterId {
        CLUSTER
    }

    fn connect(&self, _: &Arc<Export>, _: &ConnectRequest) -> Result<ConnectReply, Errno> {
        Ok(ConnectReply {
            version: VERSION_MAX,
            cluster: CLUSTER,
            boot: 1,
            session: 0,
            last_committed: Transno(0),
            standing: Default::default(),
            squash: types::credentials::SquashNews::silent(1),
        })
    }

    fn handle(self: Arc<Self>, _: Arc<Export>, request: Request) -> BoxFuture<'static, Reply> {
        let answer = |op: &Op| match op {
            Op::Ost(OstOp::Getattr(_)) => {
                Ok(OpReply::Ost(OstReply::Attr { size: 4096, blocks: 8 }))
            }
            Op::Ost(OstOp::Read(_)) => Ok(OpReply::Ost(OstReply::Data(self.data.clone()))),
            Op::Ost(OstOp::Write(_)) => Ok(OpReply::Ost(OstReply::Changed { blocks_delta: 0 })),
            _ => Err(Errno::EOPNOTSUPP),
        };
        let results = request.ops.iter().map(answer).collect();
        Box::pin(ready(Reply::new(request.xid, Transno(0), Transno(0), results)))
    }

    fn gone(&self, _: &Arc<Export>, _: Gone) {}
}

#[derive(Clone, Copy)]
enum What {
    Getattr,
    Read,
    Write,
}

impl What {
    fn op(self, data: &Bytes) -> Op {
        let object = ObjectId { fid: Fid::ROOT, instance: 1, stripe: 0 };
        let offset = ObjectOffset(0);
        Op::Ost(match self {
            What::Getattr => OstOp::Getattr(ObjectGetattr { object }),
            What::Read => OstOp::Read(ObjectRead { object, offset, len: BULK as u32 }),
            What::Write => {
                OstOp::Write(ObjectWrite { object, offset, data: data.clone(), sync: false })
            }
        })
    }
}

fn main() {
    let seconds =
        std::env::args().nth(1).map_or(2.0, |text| text.parse().expect("seconds per row"));
    let time = Duration::from_secs_f64(seconds);
    let config = RpcConfig { cluster: CLUSTER, checksums: true };
    let one = RealConfig { reactors: 1, blocking_threads: 1 };
    let (server_env, _server_guard) = RealEnv::start(one).expect("reactors");
    let (client_env, _client_guard) = RealEnv::start(one).expect("reactors");
    let data = Bytes::from(vec![7; BULK]);
    let server = Rpc::new(server_env.clone(), config.clone());
    let client = Rpc::new(client_env.clone(), config);
    server.add_service(Arc::new(Instantly { data: data.clone() }));
    let target = TargetName::ost(FsName::default(), 0);

    println!("{:<28}{:>12}{:>16}{:>16}", "", "requests/s", "client us CPU", "server us CPU");
    let local = server.import(target, vec![], ClientUuid(1), "bench".into(), None);
    let (count, wall, cpu) = in_process(&local, &data, time);
    println!(
        "{:<28}{:>12.0}{:>16.2}{:>16}",
        "in process, getattr",
        per(count, wall),
        us(cpu, count),
        "(the same)"
    );

    let listening = server.clone();
    let addr =
        on(
            &server_env,
            async move { listening.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await },
        )
        .expect("listen");
    let import = client.import(target, vec![Nid::Tcp(addr)], ClientUuid(2), "bench".into(), None);
    for (name, what, depths) in [
        ("getattr", What::Getattr, &[1, 8, 64][..]),
        ("read 1 MiB", What::Read, &[1, 8]),
        ("write 1 MiB", What::Write, &[1, 8]),
    ] {
        for depth in depths {
            let before = (cpu_of(&client_env), cpu_of(&server_env));
            let (count, wall) = over_tcp(&client_env, &import, what, &data, *depth, time);
            let (client_cpu, server_cpu) =
                (cpu_of(&client_env) - before.0, cpu_of(&server_env) - before.1);
            println!(
                "{:<28}{:>12.0}{:>16.2}{:>16.2}",
                format!("TCP, {name}, depth {depth}"),
                per(count, wall),
                us(client_cpu, count),
                us(server_cpu, count)
            );
        }
    }
    for (env, rpc) in [(&client_env, client), (&server_env, server)] {
        on(env, async move { rpc.shutdown().await });
    }
}

fn in_process(import: &Import, data: &Bytes, time: Duration) -> (u64, Duration, Duration) {
    let (begin, cpu) = (Instant::now(), thread_cpu());
    let (mut count, root) = (0, Credentials::root());
    while begin.elapsed() < time {
        for _ in 0..1000 {
            let call = import.one(&root, What::Getattr.op(data));
            call.now_or_never().expect("answered at once").expect("an answer");
        }
        count += 1000;
    }
    (count, begin.elapsed(), thread_cpu() - cpu)
}

fn over_tcp(
    env: &Env,
    import: &Arc<Import>,
    what: What,
    data: &Bytes,
    depth: usize,
    time: Duration,
) -> (u64, Duration) {
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (send, receive) = mpsc::channel();
    let begin = Instant::now();
    for _ in 0..depth {
        let (import, data, stop, count, send) =
            (import.clone(), data.clone(), stop.clone(), count.clone(), send.clone());
        let work = async move {
            while !stop.load(Ordering::Relaxed) {
                import.one(&Credentials::root(), what.op(&data)).await.expect("an answer");
                count.fetch_add(1, Ordering::Relaxed);
            }
            send.send(()).expect("somebody waits");
        };
        env.tasks.spawn("bench", Box::pin(work));
    }
    std::thread::sleep(time);
    stop.store(true, Ordering::Relaxed);
    (0..depth).for_each(|_| receive.recv().expect("every worker ends"));
    (count.load(Ordering::Relaxed), begin.elapsed())
}

/// Runs a future on a reactor and waits.
fn on<T: Send + 'static>(env: &Env, future: impl Future<Output = T> + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    env.tasks
        .spawn("bench", Box::pin(async move { send.send(future.await).expect("somebody waits") }));
    receive.recv().expect("an answer")
}

/// CPU time of the (one) reactor of `env`.
fn cpu_of(env: &Env) -> Duration {
    on(env, async { thread_cpu() })
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn per(count: u64, wall: Duration) -> f64 {
    count as f64 / wall.as_secs_f64()
}

fn us(cpu: Duration, count: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / count as f64
}
