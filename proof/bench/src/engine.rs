//! The metadata engine without a mount: called in place in one process, and over loopback TCP.
//!
//! Commits are durable all the while, as in service: groups every 50 ms into the journal of a store on the disk.

use crate::measure::{Took, cpu_of, cpu_of_self, median, timed};
use crate::report::Figure;
use crate::sheen::Mounted;
use env::real::{RealConfig, RealEnv};
use futures_util::FutureExt;
use node::announce::Silent;
use node::format::{FormatSpec, format};
use node::node::Node;
use node::parts::Parts;
use node::settings::{Listen, Settings};
use node::view::View;
use rpc::{Rpc, RpcConfig};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stubs::mdc::Mdc;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::{FsName, TargetKind, TargetName};
use wire::mds::CreateKind;

/// Operations of one round.
const OPERATIONS: usize = 200_000;
/// Requests in flight over TCP.
const IN_FLIGHT: usize = 64;

fn name(n: usize) -> Name {
    Name::new(format!("file.{n:07}").as_bytes()).expect("a good name")
}

fn figure(what: String, rates: Vec<f64>, cpu: Vec<f64>, goal: String, reached: impl Fn(f64, f64) -> bool) -> Figure {
    let (value, cpu_us) = (median(rates.clone()), median(cpu));
    let spread = (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
    Figure {
        name: what,
        unit: "/s",
        value,
        spread,
        cpu_us: Some(cpu_us),
        reference: None,
        goal,
        reached: reached(value, cpu_us),
    }
}

/// Waits for the answer: at once for what the MDT answers in place, else by looking again.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().now_or_never() {
            Some(value) => return value,
            // The group is full and a commit must come first: back-pressure.
            None => std::thread::yield_now(),
        }
    }
}

/// One foreground thread that calls an MDT of its own process.
pub fn in_process(dir: &Path, rounds: usize) -> Vec<Figure> {
    let fsname = FsName::default();
    let targets: Vec<_> = [(TargetKind::Mgt, "mgt"), (TargetKind::Ost, "ost"), (TargetKind::Mdt, "mdt")]
        .map(|(kind, folder)| {
            let dir = dir.join("engine").join(folder);
            format(&FormatSpec { kind, fsname, index: None, dir: dir.clone(), replace: false }).expect("format");
            dir
        })
        .into();
    let settings = Settings { listen: Listen::None, targets, ..Settings::default() };
    let (env, guard) = RealEnv::start(RealConfig::default()).expect("threads");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
    let parts = Parts::new(env, rpc, vec![Nid::Loopback], dir);
    let view = Arc::new(View::new(None, settings.clone(), parts.clone()));
    let mut node = Node::new(settings, parts.clone(), view);
    runtime.block_on(node.start(&mut Silent)).expect("the node starts");
    let mdc = Mdc::new(parts.short_session(TargetName::mdt(fsname, 0), vec![Nid::Loopback]));
    let figures = figures_in_process(&runtime, &mdc, rounds);
    drop(mdc);
    runtime.block_on(node.stop()).expect("the node stops");
    drop(guard);
    figures
}

fn figures_in_process(runtime: &tokio::runtime::Runtime, mdc: &Mdc, rounds: usize) -> Vec<Figure> {
    let root = Credentials::root();
    runtime.block_on(mdc.statfs(&root)).expect("connects");
    let mut all: Vec<[Took; 3]> = Vec::new();
    for round in 0..=rounds {
        let dir = runtime.block_on(make_dir(mdc, round));
        let mut fids = Vec::with_capacity(OPERATIONS);
        let create = timed(&[], || {
            for n in 0..OPERATIONS {
                let made = wait(mdc.create(&root, dir, name(n), CreateKind::Regular(None), 0o644, 0, true));
                fids.push(made.expect("create").entry.attr.fid);
            }
            // The CPU of making it durable belongs to it.
            runtime.block_on(mdc.sync(&root)).expect("sync");
        });
        let getattr = timed(&[], || {
            fids.iter().for_each(|fid| assert_eq!(wait(mdc.getattr(&root, *fid)).expect("getattr").attr.fid, *fid));
        });
        let unlink = timed(&[], || {
            (0..OPERATIONS).for_each(|n| assert_eq!(wait(mdc.unlink(&root, dir, name(n))).expect("unlink").nlink, 0));
            runtime.block_on(mdc.sync(&root)).expect("sync");
        });
        if round > 0 {
            all.push([create, getattr, unlink]);
        }
    }
    let row = |op: usize, what: &str, goal: &str, reached: fn(f64, f64) -> bool| {
        let rates = all.iter().map(|r| OPERATIONS as f64 / r[op].wall.as_secs_f64()).collect();
        let cpu = all.iter().map(|r| r[op].cpu.as_secs_f64() * 1e6 / OPERATIONS as f64).collect();
        figure(format!("engine, one process: {what}"), rates, cpu, goal.to_owned(), reached)
    };
    vec![
        row(0, "create, durable", ">= 100000/s, <= 20 us CPU", |rate, cpu| rate >= 100_000.0 && cpu <= 20.0),
        row(1, "getattr", "<= 2.5 us", |_, cpu| cpu <= 2.5),
        row(2, "unlink, durable", "", |_, _| true),
    ]
}

async fn make_dir(mdc: &Mdc, round: usize) -> Fid {
    let name = Name::new(format!("engine{round}.{}", std::process::id()).as_bytes()).expect("a good name");
    let made = mdc.create(&Credentials::root(), Fid::ROOT, name, CreateKind::Directory, 0o755, 0, true).await;
    made.expect("mkdir").entry.attr.fid
}

/// 64 requests in flight from this process to the MDT of another, over loopback TCP; CPU is the server's.
pub fn over_tcp(server: &Mounted, rounds: usize) -> Vec<Figure> {
    let (env, guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).expect("threads");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
    let nid: Nid = format!("{}@tcp", server.listen()).parse().expect("a NID");
    let client = ClientUuid(env.random.next_u128());
    let import = |target| rpc.import(target, vec![nid], client, "bench".to_owned(), None);
    let mgc = stubs::mgc::Mgc::new(import(TargetName::mgs()));
    let config = runtime.block_on(mgc.config("sheen".to_owned(), 0, 0)).expect("the MGS answers");
    rpc.set_cluster(ClusterId(config.cluster));
    let mdc = Mdc::new(import(TargetName::mdt(FsName::default(), 0)));

    let mut all: Vec<[(Duration, Duration); 2]> = Vec::new();
    for round in 0..=rounds {
        let dir = runtime.block_on(make_dir(&mdc, round));
        let fids: Arc<[parking_lot::Mutex<Fid>]> =
            (0..OPERATIONS).map(|_| parking_lot::Mutex::new(Fid::NONE)).collect();
        let (made, theirs) = (fids.clone(), mdc.clone());
        let create = in_flight(&env, &runtime, server.pid, move |n| {
            let (made, mdc) = (made.clone(), theirs.clone());
            async move {
                let root = Credentials::root();
                let new = mdc.create(&root, dir, name(n), CreateKind::Regular(None), 0o644, 0, true).await;
                *made[n].lock() = new.expect("create").entry.attr.fid;
            }
        });
        let theirs = mdc.clone();
        let getattr = in_flight(&env, &runtime, server.pid, move |n| {
            let (fid, mdc) = (*fids[n].lock(), theirs.clone());
            async move {
                assert_eq!(mdc.getattr(&Credentials::root(), fid).await.expect("getattr").attr.fid, fid);
            }
        });
        if round > 0 {
            all.push([create, getattr]);
        }
    }
    runtime.block_on(async {
        mdc.import().disconnect().await;
        rpc.shutdown().await;
    });
    drop(guard);
    let row = |op: usize, what: &str, limit: f64| {
        let rates = all.iter().map(|r| OPERATIONS as f64 / r[op].0.as_secs_f64()).collect();
        let cpu = all.iter().map(|r| r[op].1.as_secs_f64() * 1e6 / OPERATIONS as f64).collect();
        let goal = format!("<= {limit} us server CPU");
        figure(format!("engine, loopback TCP, 64 in flight: {what}"), rates, cpu, goal, |_, cpu| cpu <= limit)
    };
    vec![row(0, "create", 25.0), row(1, "getattr", 6.0)]
}

/// Runs all operations, 64 at a time; wall time and the server's CPU.
fn in_flight<F, T>(env: &env::Env, runtime: &tokio::runtime::Runtime, pid: i32, operation: F) -> (Duration, Duration)
where
    F: Fn(usize) -> T + Clone + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let next = Arc::new(AtomicUsize::new(0));
    let (cpu, own, start) = (cpu_of(pid), cpu_of_self(), Instant::now());
    let (sender, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    for _ in 0..IN_FLIGHT {
        let (next, operation, sender) = (next.clone(), operation.clone(), sender.clone());
        let worker = async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= OPERATIONS {
                    break drop(sender);
                }
                operation(n).await;
            }
        };
        env.tasks.spawn("bench worker", Box::pin(worker));
    }
    drop(sender);
    runtime.block_on(async { assert!(ended.recv().await.is_none(), "nobody sends") });
    let took = (start.elapsed(), cpu_of(pid) - cpu);
    assert!(next.load(Ordering::Relaxed) >= OPERATIONS && cpu_of_self() > own, "the workers did not run");
    took
}
