//! Random operations on several mounts at once: every answer must fit one order that respects real
//! time.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::lustre::lfs;
use e2e::restripe::Restriper;
use oracle::run::{Kind, Plan, run};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Another time than a minute, for example 1,200 for twenty minutes.
const SECONDS: &str = "ORACLE_SECONDS";

/// Threads, spread over the mounts.
const THREADS: u64 = 8;

/// Set: the program under test makes this mistake, and that must be found (`./run mutant`).
const MUTANT: &str = "SHEEN_MUTANT";

/// Mount options of all three clients, for example `localflock`.
const OPTIONS: &str = "ORACLE_OPTIONS";

/// Kinds of operation that are left out, separated by commas: `lock,load,store,readword` with
/// `localflock`.
const WITHOUT: &str = "ORACLE_WITHOUT";

/// File that gets the whole history of a round with a violation.
const HISTORY: &str = "ORACLE_HISTORY";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: no number")))
}

fn options() -> String {
    std::env::var(OPTIONS).unwrap_or_default()
}

fn plan(mounts: Vec<PathBuf>) -> Plan {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let seed = number("ORACLE_SEED").unwrap_or(now.as_millis() as u64);
    let time = Duration::from_secs(number(SECONDS).unwrap_or(e2e::sized(30, 60)));
    let round = Duration::from_secs(10);
    let threads = number("ORACLE_THREADS").unwrap_or(THREADS) as usize;
    let without = std::env::var(WITHOUT).unwrap_or_default();
    let without = without.split(',').filter(|word| !word.is_empty());
    let without = without
        .map(|word| Kind::named(word).unwrap_or_else(|| panic!("{WITHOUT}: no kind {word}")));
    let folder = format!("oracle-{seed}");
    let opens_told = !["localflock", "noflock"].iter().any(|option| options().contains(option));
    Plan { mounts, folder, seed, time, round, threads, without: without.collect(), opens_told }
}

/// Arguments of `lfs setstripe`: all bytes in objects.
const ON_OSTS: &[&str] = &["-E", "-1", "-c", "1"];
/// The first 64 KiB on the MDT.
const ON_THE_MDT: &[&str] = &["-E", "64K", "-L", "mdt", "-E", "-1", "-c", "2", "-S", "64K"];

/// Runs have the machine to themselves.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_answer_fits_one_order() {
    fits_one_order(ON_OSTS);
}

#[test]
fn every_answer_fits_one_order_with_bytes_on_the_mdt() {
    fits_one_order(ON_THE_MDT);
}

/// New directories have two stripes, on MDTs that are chosen, and are split and merged all the
/// time.
#[test]
fn every_answer_fits_one_order_in_directories_that_are_split_and_merged() {
    let Some((_alone, cluster)) = cluster(4) else { return };
    let root = &cluster.mounts()[0];
    lfs(root, &["setdirstripe", "-D", "-c", "2", "-i", "-1", "."]);
    let plan = plan(cluster.mounts());
    let restriper = Restriper::begin(&root.join(&plan.folder), 4, plan.seed);
    judge(&plan);
    let begun = restriper.end();
    eprintln!("{begun} splits and merges");
    assert!(begun > 20, "{begun} splits and merges");
}

fn cluster(mdts: usize) -> Option<(MutexGuard<'static, ()>, Cluster)> {
    if !can_mount() || std::env::var_os(MUTANT).is_some() {
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = options();
    Some((alone, Cluster::with_clients_and_mdts("1", &[options.as_str(); 3], mdts)?))
}

fn fits_one_order(layout: &[&str]) {
    let Some((_alone, cluster)) = cluster(1) else { return };
    lfs(&cluster.mounts()[0], &[&["setstripe"], layout, &["."]].concat());
    judge(&plan(cluster.mounts()));
}

fn judge(plan: &Plan) {
    let report =
        run(plan, |sentence| eprintln!("{sentence}")).unwrap_or_else(|why| panic!("{why}"));
    if let (Some(path), false) = (std::env::var_os(HISTORY), report.history.is_empty()) {
        let lines: Vec<String> =
            report.history.iter().map(|record| format!("{record}\n")).collect();
        std::fs::write(path, lines.concat()).expect("write the history");
    }
    let first: Vec<_> = report.violations.iter().take(12).map(String::as_str).collect();
    assert!(
        first.is_empty(),
        "seed {}: {} violations:\n{}",
        plan.seed,
        report.violations.len(),
        first.join("\n")
    );
    assert_eq!(report.undecided, [""; 0], "seed {}", plan.seed);
    assert!(report.operations > 1000, "only {} operations", report.operations);
}

#[test]
fn a_client_that_is_wrong_on_purpose_is_found() {
    if !can_mount() || std::env::var_os(MUTANT).is_none() {
        return eprintln!("skipped: ./run mutant builds the client that is wrong on purpose");
    }
    let Some(cluster) = Cluster::with_clients("1", &["", "", ""]) else { return };
    let plan = plan(cluster.mounts());
    let report =
        run(&plan, |sentence| eprintln!("{sentence}")).unwrap_or_else(|why| panic!("{why}"));
    eprintln!(
        "found: {}",
        report.violations.first().expect("the oracle finds nothing wrong with the mutant")
    );
}
