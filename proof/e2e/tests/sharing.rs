//! One directory in which several clients make, move and remove names of their own, beside a
//! directory for each. Every name is there at the end, on every client, and nothing hangs. The
//! rates are printed, not judged (`--nocapture` shows them): 0.7 of the private rate is the goal;
//! `round_trips` counts what it rests on. What a mount knows of the permissions there ends with
//! another client's chmod, and times are those of the last change, whichever client made it.

use e2e::can_mount;
use e2e::cluster::Cluster;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
/// Files that each client makes, moves and removes.
fn files() -> usize {
    e2e::sized(300, 400)
}

/// Makes, moves and removes; each client's names are its own.
fn work(dir: &Path, client: usize) {
    for n in 0..files() {
        let (made, moved) =
            (dir.join(format!("c{client}-{n}")), dir.join(format!("c{client}-{n}-moved")));
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
    let operations = (CLIENTS * files() * 5 / 2) as f64;
    for round in 0..e2e::sized(1, 3) {
        let shared = format!("shared{round}");
        fs::create_dir(mounts[0].join(&shared)).expect("mkdir");
        let private: Vec<PathBuf> = mounts
            .iter()
            .enumerate()
            .map(|(n, mount)| mount.join(format!("private{round}-{n}")))
            .collect();
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
            assert_eq!(
                fs::read_dir(mount.join(&shared)).expect("list").count(),
                CLIENTS * files() / 2
            );
        }
    }
}

const READERS: usize = 100;

/// Lines that the two writers append while the readers follow.
fn lines() -> usize {
    e2e::sized(200, 600)
}

fn line(number: usize) -> Vec<u8> {
    format!("{number:06} by client {}\n", number % 2).into_bytes()
}

/// Reads what comes, as tail -f does, until all is there. Every byte must be right when it is first
/// read.
fn tail(path: &Path, whole: &[u8]) {
    let mut file = File::open(path).expect("open");
    let (mut at, mut bytes) = (0, [0; 4096]);
    while at < whole.len() {
        let len = file.read(&mut bytes).expect("read");
        assert!(
            whole[at..].starts_with(&bytes[..len]),
            "{len} bytes at {at} are not what was appended"
        );
        at += len;
        if len == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn append(logs: &mut [File; 2], number: usize) {
    logs[number % 2].write_all(&line(number)).expect("append");
}

/// Two clients append to one log by turns; readers on two others follow it: some opened it before,
/// others come later. `still`: it was closed meanwhile, long enough that the former have its pages.
/// Then every reader's next read has each answered append.
fn follow(still: bool) {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &[""; CLIENTS]) else { return };
    let paths: Vec<PathBuf> = cluster.mounts().iter().map(|mount| mount.join("log")).collect();
    let open =
        |path| fs::OpenOptions::new().create(true).append(true).open(path).expect("open to append");
    let mut logs = [open(&paths[0]), open(&paths[1])];
    let whole: Vec<u8> = (0..lines()).flat_map(line).collect();
    (0..lines() / 10).for_each(|number| append(&mut logs, number));
    let logs = (!still).then_some(logs);
    // Long enough that readers get its pages, unless it is open to write (docs/locks/kernel.md,
    // R16).
    std::thread::sleep(Duration::from_secs(3));
    let mut logs = std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (path, whole) = (&paths[2 + reader % 2], &whole);
            scope.spawn(move || {
                let second_half = reader >= READERS / 2;
                std::thread::sleep(Duration::from_millis(if second_half {
                    500 + 5 * reader as u64
                } else {
                    0
                }));
                tail(path, whole);
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut logs = logs.unwrap_or_else(|| [open(&paths[0]), open(&paths[1])]);
        let began = Instant::now();
        (lines() / 10..lines()).for_each(|number| append(&mut logs, number));
        let rate = (lines() * 9 / 10) as f64 / began.elapsed().as_secs_f64();
        eprintln!("{rate:.0} appends a second by turns, with {READERS} readers");
        logs
    });
    for number in lines()..lines() + e2e::sized(30, 100) {
        append(&mut logs, number);
        let written = (0..=number).map(|number| line(number).len() as u64).sum::<u64>();
        for path in &paths {
            assert_eq!(fs::metadata(path).expect("stat").len(), written);
            assert!(
                fs::read(path).expect("read").ends_with(&line(number)),
                "line {number} is not at the end"
            );
        }
    }
}

#[test]
fn a_log_that_two_clients_append_to_is_followed_by_a_hundred_readers() {
    follow(false);
}

#[test]
fn a_log_is_followed_by_readers_who_opened_it_while_it_lay_still() {
    follow(true);
}

/// True if a user other than the owner can make a name in here.
fn may_make(dir: &Path, name: &str) -> bool {
    let made = std::process::Command::new("setpriv")
        .args(["--reuid=4711", "--regid=4711", "--clear-groups", "mkdir", "--"])
        .arg(dir.join(name))
        .stderr(std::process::Stdio::null())
        .status();
    made.expect("setpriv").success()
}

#[test]
fn a_busy_directory_shows_each_chmod_and_each_time() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let dirs: Vec<PathBuf> = cluster.mounts().iter().map(|mount| mount.join("busy")).collect();
    fs::create_dir(&dirs[0]).expect("mkdir");
    let chmod = |dir: &Path, mode| {
        fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .expect("chmod");
    };
    for n in 0..40 {
        for (client, dir) in dirs.iter().enumerate() {
            File::create(dir.join(format!("c{client}-{n}"))).expect("create");
            let times: Vec<_> = dirs
                .iter()
                .map(|dir| fs::metadata(dir).expect("stat").modified().expect("mtime"))
                .collect();
            assert_eq!(times[0], times[1], "after name {n} of client {client}");
        }
        let (here, there) = (&dirs[n % 2], &dirs[1 - n % 2]);
        chmod(there, 0o777);
        assert!(may_make(here, &format!("by-user-{n}")), "round {n}");
        chmod(there, 0o755);
        assert!(!may_make(here, &format!("by-nobody-{n}")), "round {n}");
    }
}

/// Longer than any turn of a few clients, and well below the lease (30 s) after which a client that
/// does not answer is evicted.
const TURN: Duration = Duration::from_secs(15);

/// Appends, writes, reads and fsyncs one file until it is time; returns the bytes that it appended.
fn write_and_read(path: &Path, number: usize, until: Instant) -> usize {
    let mut file =
        fs::OpenOptions::new().read(true).append(true).open(path).expect("open to append");
    let inside = fs::OpenOptions::new().write(true).open(path).expect("open to write");
    let (mut appended, mut turn, mut bytes) = (0, number, [0; 16 << 10]);
    while Instant::now() < until {
        turn += 1;
        let began = Instant::now();
        match turn % 4 {
            0 => {
                let line = vec![b'a' + number as u8; 300 + 97 * (turn % 13)];
                file.write_all(&line).expect("append");
                appended += line.len();
            }
            1 => inside
                .write_all_at(&[b'A' + number as u8; 700], 512 * (turn as u64 % 14))
                .expect("write"),
            2 => {
                let end = file.metadata().expect("fstat").len();
                file.read_at(&mut bytes, end.saturating_sub(9000)).expect("read");
            }
            _ if turn % 5 == 0 => file.sync_all().expect("fsync"),
            _ => _ = file.read_at(&mut bytes, 0).expect("read"),
        }
        assert!(
            began.elapsed() < TURN,
            "step {turn} of program {number} took {:?}",
            began.elapsed()
        );
    }
    appended
}

#[test]
fn each_program_has_its_own_place_in_a_listing() {
    if !can_mount() {
        return;
    }
    let (files, removed) = e2e::sized((2000, 300), (5000, 700));
    let Some(cluster) = Cluster::with_clients("1", &["flock", "localflock"]) else { return };
    let mounts = cluster.mounts();
    let name = |number: usize| format!("f{number:05}");
    (0..files).for_each(|number| fs::write(mounts[0].join(name(number)), b"").expect("create"));
    for mount in &mounts {
        let list = || {
            fs::read_dir(mount)
                .expect("it can be listed")
                .map(|entry| entry.expect("an entry").file_name())
        };
        let mut slow = list();
        // The kernel asks for some hundred entries at a time; the rest is listed below.
        let first: Vec<_> = slow.by_ref().take(1).collect();
        (0..removed)
            .for_each(|number| fs::remove_file(mounts[0].join(name(number))).expect("unlink"));
        assert_eq!(list().count(), files - removed, "{}", mount.display());
        let all: Vec<_> = first.into_iter().chain(slow).collect();
        for number in removed..files {
            let shown = all.iter().filter(|shown| **shown == *name(number)).count();
            assert_eq!(shown, 1, "{} shows {} so many times", mount.display(), name(number));
        }
        (0..removed)
            .for_each(|number| fs::write(mounts[0].join(name(number)), b"").expect("create"));
    }
}

#[test]
fn writers_whose_kernel_holds_pages_hold_up_no_callback() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["localflock"; 3]) else { return };
    let paths: Vec<PathBuf> = cluster.mounts().iter().map(|mount| mount.join("log")).collect();
    const BEGIN: usize = 8192;
    fs::write(&paths[0], [b'.'; BEGIN]).expect("write");
    let until = Instant::now() + Duration::from_secs(e2e::sized(3, 8));
    let appended: usize = std::thread::scope(|scope| {
        let programs: Vec<_> = (0..6)
            .map(|number| {
                let path = &paths[number % paths.len()];
                scope.spawn(move || write_and_read(path, number, until))
            })
            .collect();
        programs.into_iter().map(|program| program.join().expect("a program failed")).sum()
    });
    for path in &paths {
        assert_eq!(
            fs::metadata(path).expect("stat").len() as usize,
            BEGIN + appended,
            "each append has its place"
        );
    }
}
