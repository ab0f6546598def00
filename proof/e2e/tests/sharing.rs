//! One directory in which several clients make, move and remove names of their own, beside a directory for each: every name is
//! there in the end, on every client, and nobody hangs. The rates are printed, not judged (`--nocapture` shows them): 0.7 of the
//! private rate is wanted; `round_trips` counts what it rests on.

use e2e::can_mount;
use e2e::cluster::Cluster;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
/// Files that each client makes, moves and removes.
const FILES: usize = 400;
/// Makes, moves and removes; each client's names are its own.
fn work(dir: &Path, client: usize) {
    for n in 0..FILES {
        let (made, moved) = (dir.join(format!("c{client}-{n}")), dir.join(format!("c{client}-{n}-moved")));
        File::create(&made).expect("create");
        fs::rename(&made, &moved).expect("rename");
        if n % 2 == 0 {
            fs::remove_file(&moved).expect("unlink");
        }
    }
}

/// Time in which all clients do their work, each in its directory.
fn timed(dirs: &[PathBuf]) -> Duration {
    let start = Barrier::new(dirs.len() + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = dirs
            .iter()
            .enumerate()
            .map(|(client, dir)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    work(dir, client);
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        workers.into_iter().for_each(|worker| worker.join().expect("a client failed"));
        began.elapsed()
    })
}

#[test]
fn clients_that_share_a_directory_lose_no_name() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &[""; CLIENTS]) else { return };
    let mounts = cluster.mounts();
    let operations = (CLIENTS * FILES * 5 / 2) as f64;
    for round in 0..3 {
        let shared = format!("shared{round}");
        fs::create_dir(mounts[0].join(&shared)).expect("mkdir");
        let private: Vec<PathBuf> =
            mounts.iter().enumerate().map(|(n, mount)| mount.join(format!("private{round}-{n}"))).collect();
        private.iter().for_each(|dir| fs::create_dir(dir).expect("mkdir"));
        let alone = timed(&private);
        let together = timed(&mounts.iter().map(|mount| mount.join(&shared)).collect::<Vec<_>>());
        let ratio = alone.as_secs_f64() / together.as_secs_f64();
        eprintln!(
            "{:.0}/s in private directories, {:.0}/s in a shared one: {ratio:.2}",
            operations / alone.as_secs_f64(),
            operations / together.as_secs_f64()
        );
        for mount in &mounts {
            assert_eq!(fs::read_dir(mount.join(&shared)).expect("list").count(), CLIENTS * FILES / 2);
        }
    }
}
