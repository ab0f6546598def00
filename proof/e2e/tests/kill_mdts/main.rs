//! One to four of four MDS are killed (SIGKILL), half the time with a client in the same instant,
//! again and again, while callers on three clients make, move, link and remove files and
//! directories over all MDTs, in directories that are split meanwhile (docs/dne.md).
//!
//! After each round every operation is there as a whole or not at all. Everything that a client
//! that lives was told is there, also what it was told of the one that died, and what that one had
//! synced. No operation over several MDTs is left under way, and the checker finds nothing.
//!
//! `KILLS` sets the number of rounds (4), `KILLS_SEED` repeats the choices, `KILLS_REPORT` names a
//! file for the figures, which are printed as well:
//! `KILLS=1000 cargo test -p e2e --test kill_mdts -- --nocapture`.

mod caller;
mod history;
mod watcher;

use caller::{Caller, Left};
use e2e::kills::Kills;
use e2e::lustre::lfs;
use e2e::many::Many;
use e2e::process::{is_clean, text};
use history::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use watcher::{Watched, Watcher, listed};

const MDTS: u16 = 4;
const CLIENTS: usize = 3;
/// Callers of each client.
const CALLERS: usize = 3;
/// How long callers work before the kill, milliseconds.
const WORK_MS: std::ops::Range<u64> = 200..1500;
/// And after it, where their client lives.
const MORE_MS: std::ops::Range<u64> = 50..400;
/// Names in a directory from which on it is split.
const SPLIT_COUNT: u32 = 20;
/// Nothing is under way so long after the last operation.
const REST: Duration = Duration::from_secs(10);
/// A restarted MDT is in service by then.
const SERVES: Duration = Duration::from_secs(60);
/// Clients that live have come to a restarted MDT by then.
const COMES: Duration = Duration::from_secs(2);

/// What all rounds came to.
#[derive(Default)]
struct Figures {
    /// Rounds by the number of MDS that died, without and with a client.
    rounds: BTreeMap<(usize, bool), u64>,
    changes: usize,
    told: usize,
    split: u64,
    /// Longest time from a kill to the end of all recoveries.
    longest: Duration,
}

#[test]
fn operations_over_mdts_are_whole_whatever_dies() {
    let Some(kills) = Kills::<CLIENTS>::up_with_clients(4, usize::from(MDTS)) else { return };
    let Kills { count: rounds, seed, mut rng, mounts, dir: _dir, mut many } = kills;
    let split_count = format!("mdt.*.dir_split_count={SPLIT_COUNT}");
    let set = many.sheen(&["lctl", "set_param", "-P", &split_count]);
    assert!(set.status.success(), "{}", text(&set));
    lfs(&mounts[0], &["mkdir", "-c", &MDTS.to_string(), "striped"]);
    (0..MDTS).for_each(|mdt| _ = lfs(&mounts[0], &["mkdir", "-i", &mdt.to_string(), &on(mdt)]));

    let (began, mut figures) = (Instant::now(), Figures::default());
    for round in 0..rounds {
        one_round(&mut many, &mounts, &mut rng, round, &mut figures);
    }
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest in the end");
    Kills::report(&report(&figures, rounds, seed, began.elapsed()));
}

fn on(mdt: u16) -> String {
    format!("on{mdt}")
}

fn report(figures: &Figures, rounds: u64, seed: u64, took: Duration) -> String {
    let mut report = format!(
        "{rounds} rounds, KILLS_SEED={seed}, in {took:.0?}; {} changes, {} answers to clients that \
         lived; {} of the new directories were split; a kill and what follows took {:.1?} at most\n",
        figures.changes, figures.told, figures.split, figures.longest
    );
    for ((mds, with_client), count) in &figures.rounds {
        let client = if *with_client { " and a client" } else { "" };
        report += &format!("  {count:>4} times {mds} MDS{client} killed\n");
    }
    report
}

/// Callers and watchers work, servers die and come back, and everything is looked at.
fn one_round(
    many: &mut Many,
    mounts: &[PathBuf; CLIENTS],
    rng: &mut fastrand::Rng,
    round: u64,
    figures: &mut Figures,
) {
    // This one is split while it is filled.
    let filled = PathBuf::from(format!("filled{round}"));
    fs::create_dir(mounts[0].join(&filled)).expect("mkdir");
    let mut dirs: Vec<PathBuf> = (0..MDTS).map(|mdt| PathBuf::from(on(mdt))).collect();
    dirs.extend([PathBuf::from("striped"), filled.clone(), filled.clone(), filled.clone()]);
    let stop = Arc::new(AtomicBool::new(false));
    let prefix = |client: usize, caller: usize| format!("r{round}-c{client}-{caller}-");

    let mut callers: Vec<(usize, String, JoinHandle<Left>)> = Vec::new();
    let mut watchers: Vec<(usize, JoinHandle<Watched>)> = Vec::new();
    for (client, mount) in mounts.iter().enumerate() {
        for caller in 0..CALLERS {
            let prefix = prefix(client, caller);
            let caller = Caller {
                mount: mount.clone(),
                prefix: prefix.clone(),
                dirs: dirs.clone(),
                mdts: MDTS,
                stop: stop.clone(),
                rng: rng.fork(),
            };
            callers.push((client, prefix, thread::spawn(move || caller.work())));
        }
        let others = (0..CLIENTS).filter(|other| *other != client);
        let watcher = Watcher {
            mount: mount.clone(),
            prefixes: others
                .flat_map(|other| (0..CALLERS).map(move |caller| prefix(other, caller)))
                .collect(),
            dirs: dirs.clone(),
            stop: stop.clone(),
            rng: rng.fork(),
        };
        watchers.push((client, thread::spawn(move || watcher.watch())));
    }
    thread::sleep(Duration::from_millis(rng.u64(WORK_MS)));

    let mut mds: Vec<usize> =
        (0..many.server_count()).filter(|at| many.server_name(*at).starts_with("mds")).collect();
    rng.shuffle(&mut mds);
    mds.truncate(rng.usize(1..=usize::from(MDTS)));
    let dead = (round % 2 == 1).then(|| rng.usize(0..CLIENTS));
    *figures.rounds.entry((mds.len(), dead.is_some())).or_default() += 1;
    let killed = Instant::now();
    many.kill_together(&mds, dead.as_slice());
    mds.iter().for_each(|at| many.start_server_again(*at));
    if let Some(dead) = dead {
        give_up(many, dead);
    }
    wait_for_recovery(many);
    figures.longest = figures.longest.max(killed.elapsed());
    dead.iter().for_each(|dead| many.mount_client(*dead));
    thread::sleep(Duration::from_millis(rng.u64(MORE_MS)));
    stop.store(true, Ordering::Relaxed);

    let (mut errors, mut told) = (Vec::new(), BTreeMap::<String, Vec<Told>>::new());
    for (client, watcher) in watchers {
        let Watched { told: seen, failed } = watcher.join().expect("a watcher does not panic");
        if Some(client) == dead {
            continue;
        }
        errors.extend(failed.map(|failed| format!("a watcher of client {client}: {failed}")));
        for (prefix, seen) in seen {
            figures.told += seen.len();
            told.entry(prefix).or_default().push(seen);
        }
    }
    let callers: Vec<(String, Left)> = callers
        .into_iter()
        .map(|(client, prefix, caller)| {
            let mut left = caller.join().expect("a caller does not panic");
            if Some(client) != dead {
                // What failed may have been done or not.
                match left.failed.take() {
                    Some(failed) => errors.push(failed),
                    None => left.history.is_certain(),
                }
            }
            figures.changes += left.history.len();
            (prefix, left)
        })
        .collect();
    nothing_is_under_way(many);
    for mount in mounts {
        for (prefix, left) in &callers {
            let found = found(mount, &dirs, prefix);
            let told = told.get(prefix).map_or(&[][..], Vec::as_slice);
            if let Err(why) = left.history.explain(&found, told) {
                panic!(
                    "round {round}, MDS {mds:?} and client {dead:?} killed, seen by {}: {why}\n{}",
                    mount.display(),
                    many.logs()
                );
            }
        }
    }
    is_clean(&many.fsck(&[]), &format!("round {round}, at work"));
    assert!(errors.is_empty(), "round {round}: {}\n{}", errors.join("\n"), many.logs());
    let stripes = lfs(&mounts[0], &["getdirstripe", "-c", &filled.to_string_lossy()]);
    figures.split += u64::from(stripes.trim() != "0");
    println!(
        "round {round}: {} MDS{}, {:.1?}",
        mds.len(),
        dead.map_or("", |_| " and a client"),
        killed.elapsed()
    );
    tidy(&mounts[rng.usize(0..CLIENTS)], &dirs, &filled);
}

/// As an administrator does when a client is lost with its host: targets that live evict it, and
/// those that were restarted do not wait for it, once the others have come.
fn give_up(many: &Many, dead: usize) {
    let nid = format!("nid:{}@tcp", many.client_address(dead));
    for target in ["mdt", "obdfilter"] {
        // Those that were restarted have no session of it.
        many.sheen(&["lctl", "set_param", &format!("{target}.*.evict_client={nid}")]);
    }
    let began = Instant::now();
    let mut aborted = Vec::new();
    while let Some(waiting) =
        statuses(many).into_iter().find(|(mdt, status)| !is_open(status) && !aborted.contains(mdt))
    {
        assert!(began.elapsed() < SERVES, "{waiting:?}\n{}", many.logs());
        let (mdt, status) = waiting;
        if began.elapsed() > COMES && has_come(&status) {
            many.abort_recovery_of(&mdt);
            aborted.push(mdt);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_open(status: &str) -> bool {
    status.contains("COMPLETE") || status.contains("INACTIVE")
}

/// All clients but one have come.
fn has_come(status: &str) -> bool {
    let counts = status.lines().find_map(|line| line.strip_prefix("connected_clients: "));
    let counts = counts.and_then(|counts| counts.split_once('/'));
    let number = |text: &str| text.parse::<u32>().expect("a number");
    counts.is_some_and(|(come, all)| number(come) + 1 >= number(all))
}

/// By MDT, what `recovery_status` says; none that does not listen yet.
fn statuses(many: &Many) -> Vec<(String, String)> {
    let shown = text(&many.sheen(&["lctl", "get_param", "mdt.*.recovery_status"]));
    shown
        .split("mdt.")
        .filter_map(|one| one.split_once(".recovery_status="))
        .map(|(mdt, status)| (mdt.to_owned(), status.to_owned()))
        .collect()
}

fn wait_for_recovery(many: &Many) {
    let began = Instant::now();
    loop {
        let all = statuses(many);
        if all.len() == usize::from(MDTS) && all.iter().all(|(_, status)| is_open(status)) {
            return;
        }
        assert!(began.elapsed() < SERVES, "{all:?}\n{}", many.logs());
        thread::sleep(Duration::from_millis(50));
    }
}

/// No operation over several MDTs waits for one of them any more.
fn nothing_is_under_way(many: &Many) {
    let began = Instant::now();
    loop {
        let shown = many.sheen(&["lctl", "get_param", "-n", "mdt.*.bundles_waiting"]);
        if shown.status.success() && shown.stdout.trim_ascii().is_empty() {
            return;
        }
        assert!(began.elapsed() < REST, "{}\n{}", text(&shown), many.logs());
        thread::sleep(Duration::from_millis(50));
    }
}

fn found(mount: &Path, dirs: &[PathBuf], prefix: &str) -> BTreeMap<PathBuf, u64> {
    let list = |dir| listed(mount, dir, prefix).expect("list");
    let dirs: BTreeSet<&PathBuf> = dirs.iter().collect();
    dirs.into_iter().flat_map(|dir| list(dir)).collect()
}

/// Removes everything of a round.
fn tidy(mount: &Path, dirs: &[PathBuf], filled: &Path) {
    for dir in dirs.iter().filter(|dir| *dir != filled) {
        for entry in fs::read_dir(mount.join(dir)).expect("list") {
            let entry = entry.expect("list");
            let is_dir = entry.file_type().expect("a kind").is_dir();
            let remove = if is_dir { fs::remove_dir } else { fs::remove_file };
            remove(entry.path()).expect("remove");
        }
    }
    fs::remove_dir_all(mount.join(filled)).expect("remove a directory that was split");
}
