//! Data persists: over an orderly stop, and over kill -9 of everything at a random moment.

use e2e::cluster::everywhere;
use e2e::process::{detach, is_mounted};
use e2e::programs::{assert_same, manifest, sh};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn fill(dir: &Path) {
    sh(
        dir,
        "for d in $(seq 20); do mkdir -p d$d/sub; for f in $(seq 30); do seq $f $((f * d * 7)) > d$d/sub/f$f; done; done
         ln d1/sub/f1 hard; ln -s d1/sub/f2 soft; truncate -s 50M sparse; head -c 5000000 /dev/urandom > random
         setfattr -n user.a -v b random; chmod 751 d3; chown 5:6 d4; touch -d '1999-01-01 00:00:00.123456789' d5; mkfifo fifo; mv d6 d7/moved; rm -r d8",
    );
}

#[test]
fn everything_is_there_after_down_and_up() {
    everywhere(|cluster| {
        fill(&cluster.mount());
        let before = manifest(&cluster.mount());
        cluster.stop();
        assert!(fs::read_dir(cluster.mount()).expect("the empty mount point").next().is_none());
        cluster.start();
        assert_same("the trees before and after", &before, &manifest(&cluster.mount()));
    });
}

#[test]
fn everything_synced_is_there_after_kill() {
    everywhere(|cluster| {
        fill(&cluster.mount());
        // sync(2) is no promise here (Linux does not report it to FUSE). fsync of one directory
        // commits all names; the bytes are each file's.
        sh(&cluster.mount(), "find . -type f -exec sync {} +");
        File::open(cluster.mount()).and_then(|d| d.sync_all()).expect("fsync of the root");
        let before = manifest(&cluster.mount());
        cluster.kill();
        cluster.start();
        assert_same("the trees before and after", &before, &manifest(&cluster.mount()));
    });
}

/// Without any fsync, and killed at once.
#[test]
fn what_was_written_with_o_sync_is_there_after_kill() {
    everywhere(|cluster| {
        let files = [
            ("sync", libc::O_SYNC),
            ("dsync", libc::O_DSYNC),
            ("append", libc::O_SYNC | libc::O_APPEND),
        ];
        let whole = pattern(1, 2, 100_000);
        for (name, flags) in files {
            let mut options = File::options();
            let file = options
                .write(true)
                .create_new(true)
                .custom_flags(flags)
                .open(cluster.mount().join(name));
            let mut file = file.expect("a new file");
            for part in whole.chunks(30_000) {
                file.write_all(part).expect("write");
            }
        }
        cluster.kill();
        if is_mounted(&cluster.mount()) {
            detach(&cluster.mount());
        }
        cluster.start();
        for (name, _) in files {
            assert!(
                fs::read(cluster.mount().join(name)).expect("a synced file") == whole,
                "{name}"
            );
        }
    });
}

/// Byte `i` of version `version` of file `name`: tells one file and version from all others.
fn pattern(name: usize, version: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| {
            ((i as u64).wrapping_mul(31) ^ (name as u64) << 3 ^ version.wrapping_mul(0x9e37)) as u8
        })
        .collect()
}

/// Writers create, append, rename and fsync while everything is killed. Everything synced must be
/// there; the rest must be a state that the writer passed through.
#[test]
fn fsynced_data_survives_kill_at_random_moments() {
    everywhere(|cluster| {
        for round in 0..5_u64 {
            let dir = cluster.mount().join(format!("round{round}"));
            fs::create_dir(&dir).expect("make a folder");
            File::open(cluster.mount()).and_then(|d| d.sync_all()).expect("fsync of the root");
            let stop = Arc::new(AtomicBool::new(false));
            // file -> (bytes that fsync answered for, bytes written at most)
            let ledger: Arc<Mutex<BTreeMap<usize, (usize, usize)>>> = Arc::default();
            let writers: Vec<_> = (0..3)
                .map(|w| {
                    let (dir, stop, ledger) = (dir.clone(), stop.clone(), ledger.clone());
                    std::thread::spawn(move || write_until_killed(&dir, w, round, &stop, &ledger))
                })
                .collect();
            wait_for_some_synced(&ledger);
            std::thread::sleep(Duration::from_millis(137 * round));
            cluster.kill();
            stop.store(true, Ordering::Relaxed);
            if is_mounted(&cluster.mount()) {
                detach(&cluster.mount());
            }
            for writer in writers {
                writer.join().expect("a writer ends with an error of the dead mount, not a panic");
            }
            cluster.start();
            let ledger = ledger.lock().expect("no writer panicked");
            for (&name, &(synced, written)) in ledger.iter() {
                let path = dir.join(format!("f{name}"));
                match fs::read(&path) {
                    Err(error) => assert_eq!(
                        synced,
                        0,
                        "{}: {error}, but {synced} bytes were synced",
                        path.display()
                    ),
                    Ok(bytes) => {
                        assert!(
                            bytes.len() >= synced,
                            "{}: {} of {synced} synced bytes",
                            path.display(),
                            bytes.len()
                        );
                        assert!(
                            bytes.len() <= written,
                            "{}: more bytes than were written",
                            path.display()
                        );
                        let expected = pattern(name, round, bytes.len());
                        assert!(
                            bytes[..synced] == expected[..synced],
                            "{}: synced bytes changed",
                            path.display()
                        );
                    }
                }
            }
            drop(ledger);
            sh(
                &cluster.mount(),
                "find . -ls > /dev/null && find . -type f -print0 | xargs -0 cat > /dev/null",
            );
            sh(&cluster.mount(), &format!("rm -r round{round}"));
        }
    });
}

/// Until fsync has answered a few times: a kill before that tests nothing.
fn wait_for_some_synced(ledger: &Mutex<BTreeMap<usize, (usize, usize)>>) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while ledger.lock().expect("ledger").values().filter(|(synced, _)| *synced > 0).count() < 4 {
        assert!(Instant::now() < deadline, "no fsync answers");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn write_until_killed(
    dir: &Path,
    writer: usize,
    round: u64,
    stop: &AtomicBool,
    ledger: &Mutex<BTreeMap<usize, (usize, usize)>>,
) {
    for n in 0.. {
        let name = writer * 1_000_000 + n;
        let whole = pattern(name, round, 40_000);
        let write_one = || -> std::io::Result<()> {
            let temporary = dir.join(format!("t{name}"));
            let mut file = File::create(&temporary)?;
            ledger.lock().expect("ledger").insert(name, (0, 0));
            let mut at = 0;
            for step in [1_000, 10_000, 39_000] {
                ledger.lock().expect("ledger").insert(name, (0, step));
                file.write_all(&whole[at..step])?;
                at = step;
            }
            fs::rename(&temporary, dir.join(format!("f{name}")))?;
            if n % 3 != 2 {
                file.sync_all()?;
                File::open(dir)?.sync_all()?;
                ledger.lock().expect("ledger").insert(name, (at, at));
            }
            ledger.lock().expect("ledger").entry(name).and_modify(|e| e.1 = whole.len());
            file.write_all_at(&whole[at..], at as u64)
        };
        if stop.load(Ordering::Relaxed) || write_one().is_err() {
            return;
        }
    }
}
