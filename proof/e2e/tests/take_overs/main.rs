//! Three hosts may serve the MGS and an MDT, whose logs are in three etcd. Owners are killed, some
//! with their folders; cut off, with a client beside them or not; stopped for longer than their
//! lease. The leader of etcd is killed, and a majority of etcd stopped. Two clients on hosts of
//! their own work all the while: no program sees an error, nothing that was answered is missing,
//! and the checker finds nothing (docs/ownership.md).
//!
//! `TAKE_OVERS` sets the number of faults (1: a kill, and the folder is lost),
//! `TAKE_OVERS_SEED` repeats an order, `TAKE_OVERS_REPORT` names a file for the figures, which are
//! printed as well:
//! `TAKE_OVERS=100 cargo test -p e2e --test take_overs -- --nocapture`.
//!
//! Skips, and says so, where etcd is not installed or network namespaces cannot be made.

#[path = "../kill_servers/load.rs"]
mod load;
#[path = "../../../../tools/etcd/tests/members/mod.rs"]
mod members;
mod site;
#[path = "../kill_servers/stalls.rs"]
#[allow(dead_code, reason = "the figures of kill_servers need more")]
mod stalls;

use load::{Expected, LOADS, Work};
use site::{Fault, SERVERS, Site, until};
use stalls::{Kill, Spans, histogram, longest_operations};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Faults of a short run, which are those of every build.
const USUAL: u64 = 1;
/// How many of the longest operations are printed.
const LONGEST: usize = 20;
/// Pause between a fault that is over and the next one, milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 300..1500;

struct Caller {
    name: String,
    mount: PathBuf,
    spans: Arc<Mutex<Spans>>,
    worker: JoinHandle<Expected>,
}

impl Caller {
    /// It ended an operation that it began after this moment; or failed, or times none.
    fn went_on(&self, mark: Instant) -> bool {
        let spans = self.spans.lock().expect("no caller panicked");
        self.worker.is_finished() || spans.last().is_none_or(|(began, _)| *began > mark)
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Callers on the two clients; in a short run only those that need no other program.
fn callers(
    site: &Site,
    count: u64,
    rng: &mut fastrand::Rng,
    stop: &Arc<AtomicBool>,
) -> Vec<Caller> {
    let loads = LOADS.iter().filter(|(kind, _)| count > USUAL || !["build", "fsx"].contains(kind));
    let mut callers = Vec::new();
    for (kind, load) in loads {
        for n in 0..2 {
            let (name, spans) = (format!("{kind}{n}"), Arc::<Mutex<Spans>>::default());
            let outside = site.path("outside").join(&name);
            fs::create_dir_all(&outside).expect("make a folder");
            let mount = site.mount(n);
            let work = Work {
                dir: mount.join(&name),
                other: site.mount(1 - n).join(&name),
                outside,
                stop: stop.clone(),
                spans: spans.clone(),
                rng: rng.fork(),
            };
            let load = *load;
            callers.push(Caller { name, mount, spans, worker: thread::spawn(move || load(work)) });
        }
    }
    callers
}

/// What a caller was answered on the mount `from` is there through both clients.
fn check(mounts: &[PathBuf; 2], expected: &Expected, from: &Path) {
    for (path, text) in expected {
        for to in mounts {
            let path = to.join(path.strip_prefix(from).expect("a path of the mount"));
            let read = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(read == *text, "{} is not what was answered", path.display());
        }
    }
}

/// What happens in a run.
fn plan(count: u64, rng: &mut fastrand::Rng) -> Vec<Fault> {
    match count {
        USUAL => vec![Fault::KillWithFolder],
        count => (0..count).map(|_| Fault::any(rng)).collect(),
    }
}

/// The longest operations of all, for comparison with the faults.
fn longest(all: &[(String, Spans)], began: Instant) -> String {
    let named = |(name, spans): &(String, Spans)| {
        spans.iter().map(|(from, to)| (*to - *from, *from, name.clone())).collect::<Vec<_>>()
    };
    let mut operations: Vec<_> = all.iter().flat_map(named).collect();
    operations.sort_unstable_by(|a, b| b.cmp(a));
    let line = |(took, from, name): &(Duration, Instant, String)| {
        let at = from.saturating_duration_since(began).as_secs_f64();
        format!("  {name} at {at:>7.1} s: {} ms\n", took.as_millis())
    };
    operations.iter().take(LONGEST).map(line).collect()
}

#[test]
fn owners_are_lost_and_no_program_sees_it() {
    if !e2e::can_mount() {
        return;
    }
    let (count, seed) = (number("TAKE_OVERS", USUAL), number("TAKE_OVERS_SEED", fastrand::u64(..)));
    println!("TAKE_OVERS_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let started = Instant::now();
    let Some(mut site) = Site::up() else { return };
    println!("all hosts are there after {:.1?}", started.elapsed());
    let stop = Arc::new(AtomicBool::new(false));
    let callers = callers(&site, count, &mut rng, &stop);
    thread::sleep(Duration::from_millis(500));
    let mut faults: Vec<Kill> = Vec::new();
    let began = Instant::now();
    for (n, fault) in plan(count, &mut rng).into_iter().enumerate() {
        if callers.iter().any(|caller| caller.worker.is_finished()) {
            println!("a caller has ended after {n} faults");
            break;
        }
        let at = Instant::now();
        let about = site.inflict(fault, &mut rng);
        println!("{n:>4} at {:>7.1} s: {} ({about})", (at - began).as_secs_f64(), fault.name());
        faults.push(Kill { at, restart: at.elapsed(), server: fault.name() });
        site.is_whole();
        let mark = Instant::now();
        // So that no caller's wait is counted for the next fault.
        until("all callers go on", || site.logs(), || callers.iter().all(|c| c.went_on(mark)));
        thread::sleep(Duration::from_millis(rng.u64(PAUSE_MS)));
    }
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for Caller { name, mount, spans, worker } in callers {
        match worker.join() {
            Ok(expected) => found.push((mount, expected)),
            Err(failure) => {
                eprintln!("{}", site.logs());
                std::panic::resume_unwind(failure);
            }
        }
        all.push((name, std::mem::take(&mut *spans.lock().expect("no caller panicked"))));
    }
    let of_all = all.iter().flat_map(|(_, spans)| longest_operations(&faults, spans));
    let stalls: Vec<_> = of_all.collect();
    let mut names: Vec<&str> = faults.iter().map(|fault| fault.server).collect();
    names.sort_unstable();
    names.dedup();
    let mut figures = histogram("a caller's longest operation after a fault", &stalls, &names);
    figures += &format!("{} faults in {took:.0?} with {SERVERS} hosts\n", faults.len());
    figures += &longest(&all, began);
    println!("{figures}");
    if let Some(path) = std::env::var_os("TAKE_OVERS_REPORT") {
        fs::write(path, &figures).expect("write the figures");
    }
    println!("callers have ended after {:.1?}", started.elapsed());
    let mounts = [0, 1].map(|n| site.mount(n));
    thread::scope(|scope| {
        for (mount, expected) in &found {
            scope.spawn(|| check(&mounts, expected, mount));
        }
    });
    println!("what was answered is there after {:.1?}", started.elapsed());
    site.fsck();
    site.unmount();
    println!("all is unmounted after {:.1?}", started.elapsed());
}
