//! `engine`: the metadata engine without a mount, called in place in this process, and over
//! loopback TCP.
//!
//! Commits are durable all the while, as in service: groups every 50 ms into the journal of a store
//! on the disk, in the given folder. The references of the other items do not apply; the goals of
//! the project stand beside it.

mod etcds;
pub mod logs;
mod targets;

use crate::failure::BenchError;
use crate::measure::cpu_of_self;
use crate::stop::Stop;
use bench_args::EngineArgs;
use bench_report::figure::Role;
use bench_report::figure::{Figure, Outcome, Unit};
use bench_report::statistics::{Summary, median};
use env::Env;
use futures_util::FutureExt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stubs::mdc::Mdc;
use targets::Targets;
use tokio::runtime::Runtime;
use types::credentials::Credentials;
use types::fid::Fid;
use types::name::Name;
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
        let runtime = runtime()?;
        let targets = Targets::start(&runtime, dir, None)?;
        let mdc = targets.in_place();
        let figures = self.in_process(&runtime, &mdc).and_then(|mut figures| {
            figures.extend(self.over_tcp(&runtime, &targets)?);
            Ok(figures)
        });
        drop(mdc);
        targets.stop(&runtime)?;
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
    fn over_tcp(&self, runtime: &Runtime, targets: &Targets) -> Result<Vec<Figure>, BenchError> {
        let far = targets.far_client()?;
        let (env, mdc) = (far.env(), far.mdc());
        let operations = self.args.operations;
        let mut all: Vec<[Took; 2]> = Vec::new();
        for round in 0..=self.repeats {
            let dir = runtime.block_on(make_dir(mdc, self.repeats + 1 + round))?;
            let fids: Arc<[Mutex<Fid>]> = (0..operations).map(|_| Mutex::new(Fid::NONE)).collect();
            let (made, theirs) = (fids.clone(), mdc.clone());
            let create = timed(|| {
                in_flight((env, runtime, self.stop), operations, move |n| {
                    let (made, mdc) = (made.clone(), theirs.clone());
                    async move {
                        *made[n].lock() = make_file(&mdc, dir, n).await?;
                        Ok(())
                    }
                })
            })?;
            let theirs = mdc.clone();
            let getattr = timed(|| {
                in_flight((env, runtime, self.stop), operations, move |n| {
                    let (fid, mdc) = (*fids[n].lock(), theirs.clone());
                    async move {
                        let found = mdc.getattr(&Credentials::root(), fid).await;
                        found.map(drop).map_err(BenchError::of("getattr"))
                    }
                })
            })?;
            if round > 0 {
                all.push([create, getattr]);
            }
        }
        far.end(runtime);
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
}

/// Runs all operations, 64 at a time.
fn in_flight<F, T>(
    (env, runtime, stop): (&Env, &Runtime, &Stop),
    operations: usize,
    operation: F,
) -> Result<(), BenchError>
where
    F: Fn(usize) -> T + Clone + Send + 'static,
    T: Future<Output = Result<(), BenchError>> + Send + 'static,
{
    let next = Arc::new(AtomicUsize::new(0));
    let (sender, mut errors) = tokio::sync::mpsc::channel::<BenchError>(1);
    for _ in 0..IN_FLIGHT {
        let (next, operation, sender) = (next.clone(), operation.clone(), sender.clone());
        let stop = stop.clone();
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
        None => stop.check(),
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

async fn make_file(mdc: &Mdc, dir: Fid, number: usize) -> Result<Fid, BenchError> {
    let file = new(dir, name(number), CreateKind::Regular(None), 0o644);
    let made = mdc.create(&Credentials::root(), file).await;
    Ok(made.map_err(BenchError::of("create"))?.entry.attr.fid)
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
