//! `engine`: the metadata engine without a mount, called in place in this process, and over
//! loopback TCP.
//!
//! Commits are durable all the while, as in service: groups every 50 ms into the journal of a store
//! on the disk, in the given folder. The references of the other items do not apply; the goals of
//! the project stand beside it.

use crate::failure::BenchError;
use crate::measure::cpu_of_self;
use crate::stop::Stop;
use bench_args::EngineArgs;
use bench_report::figure::Role;
use bench_report::figure::{Figure, Outcome, Unit};
use bench_report::statistics::{Summary, median};
use env::Env;
use env::real::{RealConfig, RealEnv};
use futures_util::FutureExt;
use node::config::format::{FormatSpec, format};
use node::config::settings::{Listen, Settings};
use node::host::announce::Silent;
use node::host::descriptors::{self, DescriptorUsers};
use node::host::rlimit::raise_open_files;
use node::node::Node;
use node::role::parts::Parts;
use node::watch::view::View;
use parking_lot::Mutex;
use rpc::{Rpc, RpcConfig};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stubs::mdc::Mdc;
use tokio::runtime::Runtime;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId};
use types::target::{FsName, TargetKind, TargetName};
use wire::mds::{Create, CreateKind};

/// Requests in flight over TCP.
const IN_FLIGHT: usize = 64;

/// Wall and CPU time of a piece of work.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

fn timed(work: impl FnOnce() -> Result<(), BenchError>) -> Result<Took, BenchError> {
    let (cpu, start) = (cpu_of_self(), Instant::now());
    work()?;
    Ok(Took { wall: start.elapsed(), cpu: cpu_of_self().saturating_sub(cpu) })
}

fn name(number: usize) -> Name {
    Name::new(format!("file.{number:07}").as_bytes()).expect("letters and digits are a name")
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

/// A measurement of the engine.
pub struct Engine<'a> {
    /// Its arguments.
    pub args: &'a EngineArgs,
    /// Rounds; one more comes first and does not count.
    pub repeats: usize,
    /// The flag that ends the run.
    pub stop: &'a Stop,
}

impl Engine<'_> {
    /// Both parts; the targets lie in a folder of `dir` that is removed in the end.
    ///
    /// # Errors
    /// The node does not start, or an operation fails.
    pub fn run(&self, dir: &Path) -> Result<Vec<Figure>, BenchError> {
        let dir = tempfile::Builder::new().prefix("sheen-bench-engine.").tempdir_in(dir);
        let dir = dir.map_err(BenchError::of("make a folder for the targets"))?;
        let fsname = FsName::default();
        let mut targets = Vec::new();
        for (kind, folder) in
            [(TargetKind::Mgt, "mgt"), (TargetKind::Ost, "ost"), (TargetKind::Mdt, "mdt")]
        {
            let dir = dir.path().join(folder);
            let spec = FormatSpec {
                kind,
                fsname,
                index: None,
                dir: dir.clone(),
                log: None,
                mgs: Vec::new(),
                volume: None,
                replace: false,
            };
            format(&spec).map_err(BenchError::of("make a target"))?;
            targets.push(dir);
        }
        let listen = Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let settings = Settings { listen, targets, ..Settings::default() };
        let (env, guard) =
            RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
        let runtime = runtime()?;
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
        let parts = Parts::new(env, rpc.clone(), vec![Nid::Loopback], dir.path());
        let view = Arc::new(View::new(None, settings.clone(), parts.clone()));
        let wanted = DescriptorUsers { targets: settings.targets.len(), mounts: 0 };
        let bounds = descriptors::divide(raise_open_files(), wanted)
            .map_err(|too_few| BenchError::Failed(too_few.to_string()))?;
        let mut node = Node::new(settings, bounds, parts.clone(), view, None);
        runtime.block_on(node.start(&mut Silent)).map_err(BenchError::of("start the targets"))?;
        let mdc = Mdc::new(parts.short_session(TargetName::mdt(fsname, 0), vec![Nid::Loopback]));
        let figures = self.in_process(&runtime, &mdc).and_then(|mut figures| {
            let nid = rpc.nids().into_iter().find(|nid| *nid != Nid::Loopback);
            let nid =
                nid.ok_or_else(|| BenchError::Failed("the targets listen nowhere".to_owned()))?;
            figures.extend(self.over_tcp(&runtime, nid, rpc.cluster())?);
            Ok(figures)
        });
        drop(mdc);
        runtime.block_on(node.stop()).map_err(BenchError::of("stop the targets"))?;
        drop(guard);
        figures
    }

    /// One foreground thread that calls an MDT of its own process.
    fn in_process(&self, runtime: &Runtime, mdc: &Mdc) -> Result<Vec<Figure>, BenchError> {
        let (root, operations) = (Credentials::root(), self.args.operations);
        runtime.block_on(mdc.statfs(&root)).map_err(BenchError::of("reach the MDT"))?;
        let sync = || runtime.block_on(mdc.sync(&root)).map(drop).map_err(BenchError::of("sync"));
        let mut all: Vec<[Took; 3]> = Vec::new();
        for round in 0..=self.repeats {
            let dir = runtime.block_on(make_dir(mdc, round))?;
            let mut fids = Vec::with_capacity(operations);
            let create = timed(|| {
                for n in 0..operations {
                    self.stop.check()?;
                    let made = wait(
                        mdc.create(&root, new(dir, name(n), CreateKind::Regular(None), 0o644)),
                    );
                    fids.push(made.map_err(BenchError::of("create"))?.entry.attr.fid);
                }
                // The CPU of making it durable belongs to it.
                sync()
            })?;
            let getattr = timed(|| {
                for fid in &fids {
                    self.stop.check()?;
                    wait(mdc.getattr(&root, *fid)).map_err(BenchError::of("getattr"))?;
                }
                Ok(())
            })?;
            let unlink = timed(|| {
                for n in 0..operations {
                    self.stop.check()?;
                    wait(mdc.unlink(&root, dir, name(n))).map_err(BenchError::of("unlink"))?;
                }
                sync()
            })?;
            if round > 0 {
                all.push([create, getattr, unlink]);
            }
        }
        let rows = [
            ("create, durable", 100_000.0, 20.0),
            ("getattr", 0.0, 2.5),
            ("unlink, durable", 0.0, 0.0),
        ];
        let row = |(op, (what, rate, cpu)): (usize, (&str, f64, f64))| {
            let took: Vec<Took> = all.iter().map(|round| round[op]).collect();
            figures(&format!("one process: {what}"), operations, &took, rate, cpu)
        };
        Ok(rows.into_iter().enumerate().flat_map(row).collect())
    }

    /// 64 requests in flight over loopback TCP. Both sides are in this process: the CPU is that of
    /// client and server.
    fn over_tcp(
        &self,
        runtime: &Runtime,
        nid: Nid,
        cluster: ClusterId,
    ) -> Result<Vec<Figure>, BenchError> {
        let config = RealConfig { reactors: 1, blocking_threads: 1 };
        let (env, guard) = RealEnv::start(config).map_err(BenchError::of("start threads"))?;
        let rpc = Rpc::new(env.clone(), RpcConfig { cluster, checksums: true });
        let client = ClientUuid(env.random.next_u128());
        let target = TargetName::mdt(FsName::default(), 0);
        let mdc = Mdc::new(rpc.import(target, vec![nid], client, "bench".to_owned(), None));
        let operations = self.args.operations;
        let mut all: Vec<[Took; 2]> = Vec::new();
        for round in 0..=self.repeats {
            let dir = runtime.block_on(make_dir(&mdc, self.repeats + 1 + round))?;
            let fids: Arc<[Mutex<Fid>]> = (0..operations).map(|_| Mutex::new(Fid::NONE)).collect();
            let (made, theirs) = (fids.clone(), mdc.clone());
            let create = self.in_flight(&env, runtime, move |n| {
                let (made, mdc) = (made.clone(), theirs.clone());
                async move {
                    let root = Credentials::root();
                    let made_one = mdc
                        .create(&root, new(dir, name(n), CreateKind::Regular(None), 0o644))
                        .await;
                    *made[n].lock() = made_one.map_err(BenchError::of("create"))?.entry.attr.fid;
                    Ok(())
                }
            })?;
            let theirs = mdc.clone();
            let getattr = self.in_flight(&env, runtime, move |n| {
                let (fid, mdc) = (*fids[n].lock(), theirs.clone());
                async move {
                    mdc.getattr(&Credentials::root(), fid)
                        .await
                        .map(drop)
                        .map_err(BenchError::of("getattr"))
                }
            })?;
            if round > 0 {
                all.push([create, getattr]);
            }
        }
        runtime.block_on(async {
            mdc.import().disconnect().await;
            rpc.shutdown().await;
        });
        drop(guard);
        let row = |(op, what): (usize, &str)| {
            let took: Vec<Took> = all.iter().map(|round| round[op]).collect();
            figures(
                &format!("loopback TCP, {IN_FLIGHT} in flight: {what}"),
                operations,
                &took,
                0.0,
                0.0,
            )
        };
        Ok(["create", "getattr"].into_iter().enumerate().flat_map(row).collect())
    }

    /// Runs all operations, 64 at a time.
    fn in_flight<F, T>(
        &self,
        env: &Env,
        runtime: &Runtime,
        operation: F,
    ) -> Result<Took, BenchError>
    where
        F: Fn(usize) -> T + Clone + Send + 'static,
        T: Future<Output = Result<(), BenchError>> + Send + 'static,
    {
        let (next, operations) = (Arc::new(AtomicUsize::new(0)), self.args.operations);
        let (sender, mut errors) = tokio::sync::mpsc::channel::<BenchError>(1);
        timed(|| {
            for _ in 0..IN_FLIGHT {
                let (next, operation, sender) = (next.clone(), operation.clone(), sender.clone());
                let stop = self.stop.clone();
                let worker = async move {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= operations || stop.is_asked() {
                            break;
                        }
                        if let Err(error) = operation(n).await {
                            // One reason is enough; for others there is no place.
                            let _ = sender.try_send(error);
                            break;
                        }
                    }
                };
                env.tasks.spawn("bench worker", Box::pin(worker));
            }
            drop(sender);
            // Ends when the last worker let go of its sender.
            match runtime.block_on(errors.recv()) {
                Some(error) => Err(error),
                None => self.stop.check(),
            }
        })
    }
}

fn runtime() -> Result<Runtime, BenchError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BenchError::of("start a runtime"))
}

const fn new(parent: Fid, name: Name, kind: CreateKind, mode: u32) -> Create {
    Create { parent, name, kind, mode, umask: 0, exclusive: true }
}

async fn make_dir(mdc: &Mdc, round: usize) -> Result<Fid, BenchError> {
    let name =
        Name::new(format!("engine{round}").as_bytes()).expect("letters and digits are a name");
    let made = mdc
        .create(
            &Credentials::root(),
            new(Fid::ROOT, name, CreateKind::Directory { mdt: None }, 0o755),
        )
        .await;
    Ok(made.map_err(BenchError::of("make a folder"))?.entry.attr.fid)
}

/// Rate and CPU of one kind of operation, with their goals (0: none).
fn figures(
    what: &str,
    operations: usize,
    took: &[Took],
    rate_goal: f64,
    cpu_goal: f64,
) -> Vec<Figure> {
    let rates = took.iter().map(|t| operations as f64 / t.wall.as_secs_f64()).collect();
    let cpu: Vec<f64> =
        took.iter().map(|t| t.cpu.as_secs_f64() * 1e6 / operations as f64).collect();
    let figure = |what: String, unit, samples: Vec<f64>, goal: f64| {
        let outcome = Outcome {
            place: "engine".to_owned(),
            role: Role::Target,
            value: Summary::of(samples),
            skipped: None,
            ratio: None,
            pairs: None,
            cpu_pairs: None,
            cpu_us_program: median(&cpu),
            cpu_us_daemons: BTreeMap::new(),
            resident_bytes: BTreeMap::new(),
            requests: None,
            background: None,
            others_cpu: None,
            disk_busy: None,
            limited_by: None,
            over_time: Vec::new(),
        };
        let goal = (goal > 0.0).then_some(goal);
        let (item, tags) = ("engine".to_owned(), BTreeMap::new());
        Figure { item, what, unit, goal, tags, results: vec![outcome] }
    };
    vec![
        figure(what.to_owned(), Unit::PerSecond, rates, rate_goal),
        figure(format!("{what}: CPU"), Unit::Microseconds, cpu.clone(), cpu_goal),
    ]
}
