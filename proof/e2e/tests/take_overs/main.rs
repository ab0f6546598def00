//! Three hosts may serve the MGS and an MDT, whose logs are in three etcd. Owners are killed, some
//! with their folders; cut off, with a client beside them or not; stopped for longer than their
//! lease. The leader of etcd is killed, and a majority of etcd stopped. Two clients on hosts of
//! their own work all the while, and one beside a server, which is cut off together with it: no
//! program sees an error, nothing that was answered is missing, and the checker finds nothing
//! (docs/ownership.md).
//!
//! `TAKE_OVERS` sets the number of faults (1: a kill, and the folder is lost),
//! `TAKE_OVERS_SEED` repeats an order, `TAKE_OVERS_REPORT` names a file for the figures, which are
//! printed as well:
//! `TAKE_OVERS=100 cargo test -p e2e --test take_overs -- --nocapture`.
//!
//! Skips, and says so, where etcd is not installed or network namespaces cannot be made.

#[path = "../../../../tools/etcd/tests/members/mod.rs"]
mod members;
mod site;

use e2e::callers::Callers;
use e2e::load::{LOADS, Load};
use e2e::stalls::{Kill, histogram, longest_operations};
use site::{BESIDE, Fault, SERVERS, Site, until};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Faults of a short run, which are those of every build.
const USUAL: u64 = 1;
/// How many of the longest operations are printed.
const LONGEST: usize = 20;
/// Pause between a fault that is over and the next one, milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 300..1500;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// In a short run only loads that need no other program.
fn loads(count: u64) -> Vec<(&'static str, Load)> {
    let needs_none = |kind: &str| count > USUAL || !["build", "fsx"].contains(&kind);
    LOADS.into_iter().filter(|(kind, _)| needs_none(kind)).collect()
}

/// What happens in a run.
fn plan(count: u64, rng: &mut fastrand::Rng) -> Vec<Fault> {
    match count {
        USUAL => vec![Fault::KillWithFolder],
        count => (0..count).map(|_| Fault::any(rng)).collect(),
    }
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
    let (mounts, outside) = ((0..=BESIDE).map(|n| site.mount(n)).collect(), site.path("outside"));
    let callers = Callers::begin(mounts, &outside, &loads(count), &mut rng);
    thread::sleep(Duration::from_millis(500));
    let mut faults: Vec<Kill> = Vec::new();
    let began = Instant::now();
    for (n, fault) in plan(count, &mut rng).into_iter().enumerate() {
        if callers.has_ended() {
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
        until("all callers go on", || site.logs(), || callers.went_on(mark));
        thread::sleep(Duration::from_millis(rng.u64(PAUSE_MS)));
    }
    let took = began.elapsed();
    let ended = callers.end(|| site.logs());
    let mut names: Vec<&str> = faults.iter().map(|fault| fault.server).collect();
    names.sort_unstable();
    names.dedup();
    let is_beside = |name: &str| name.ends_with(&BESIDE.to_string());
    let figures_of = |what: &str, beside: bool| {
        let of_these = ended.spans.iter().filter(|(name, _)| is_beside(name) == beside);
        let stalls = of_these.flat_map(|(_, spans)| longest_operations(&faults, spans));
        histogram(what, &stalls.collect::<Vec<_>>(), &names)
    };
    let mut figures = figures_of("a caller's longest operation after a fault", false);
    figures += &figures_of("the same of callers beside a server, which are cut off with it", true);
    figures += &format!("{} faults in {took:.0?} with {SERVERS} hosts\n", faults.len());
    figures += &ended.longest(LONGEST, began);
    println!("{figures}");
    if let Some(path) = std::env::var_os("TAKE_OVERS_REPORT") {
        fs::write(path, &figures).expect("write the figures");
    }
    println!("callers have ended after {:.1?}", started.elapsed());
    ended.check();
    println!("what was answered is there after {:.1?}", started.elapsed());
    site.fsck();
    site.unmount();
    println!("all is unmounted after {:.1?}", started.elapsed());
}
