//! flock and fcntl locks, appends and names between clients on hosts of their own.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::programs::try_sh;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A client that is not heard of for this long loses its locks (`types::limits::LEASE`), and the
/// server's own rhythm.
const LEASE_AND_MORE: Duration = Duration::from_secs(30 + 10);

fn clients(options: &[&str]) -> Option<Cluster> {
    can_mount().then(|| Cluster::with_clients("1", options)).flatten()
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug)]
enum Flavour {
    Flock,
    Fcntl,
}

/// Locks a byte range (the whole file with flock), waiting; the error number if that fails.
fn lock(file: &File, flavour: Flavour, start: i64, lock: bool) -> Result<(), i32> {
    let result = match flavour {
        // SAFETY: the descriptor is open for as long as `file` is borrowed.
        Flavour::Flock => unsafe {
            libc::flock(file.as_raw_fd(), if lock { libc::LOCK_EX } else { libc::LOCK_UN })
        },
        Flavour::Fcntl => {
            let kind = if lock { libc::F_WRLCK } else { libc::F_UNLCK };
            let range = libc::flock {
                l_type: kind as i16,
                l_whence: libc::SEEK_SET as i16,
                l_start: start,
                l_len: 1,
                l_pid: 0,
            };
            // SAFETY: the descriptor is open and `range` lives through the call.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &range) }
        }
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("open")
}

/// A number in a file, read and written back by every holder of the lock. A lost update is a lock
/// that did not exclude.
fn count_under_lock(cluster: &Cluster, flavour: Flavour) {
    const ROUNDS: u64 = 150;
    let mounts = cluster.mounts();
    let name = format!("counter-{flavour:?}");
    fs::write(mounts[0].join(&name), 0_u64.to_le_bytes()).expect("write");
    // fcntl locks belong to processes: each counter is a process of its own. In pairs, two on each
    // mount.
    let children: Vec<Child> = (0..mounts.len() * 2)
        .map(|n| {
            let program = std::env::current_exe().expect("path of this test");
            let mut command = Command::new(program);
            command.args(["--exact", "helper_counts", "--nocapture"]);
            command.env("LOCKS_FILE", mounts[n % mounts.len()].join(&name));
            command
                .env("LOCKS_ROUNDS", ROUNDS.to_string())
                .env("LOCKS_FLAVOUR", format!("{flavour:?}"));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
        })
        .collect();
    let counters = children.len() as u64;
    for child in children {
        let output = child.wait_with_output().expect("wait");
        assert!(output.status.success(), "{}", text(&output));
    }
    for mount in &mounts {
        let bytes = fs::read(mount.join(&name)).expect("read");
        let count = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        assert_eq!(
            count,
            counters * ROUNDS,
            "{flavour:?}: updates were lost, seen at {}",
            mount.display()
        );
    }
}

/// Not a test of its own: one process of [`count_under_lock`].
#[test]
fn helper_counts() {
    let Some(path) = std::env::var_os("LOCKS_FILE") else { return };
    let rounds: u64 = std::env::var("LOCKS_ROUNDS").expect("rounds").parse().expect("a number");
    let flavour = match std::env::var("LOCKS_FLAVOUR").as_deref() {
        Ok("Flock") => Flavour::Flock,
        _ => Flavour::Fcntl,
    };
    let file = open(Path::new(&path));
    for _ in 0..rounds {
        lock(&file, flavour, 0, true).expect("lock");
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).expect("read");
        file.write_all_at(&(u64::from_le_bytes(bytes) + 1).to_le_bytes(), 0).expect("write");
        lock(&file, flavour, 0, false).expect("unlock");
    }
}

#[test]
fn flock_excludes_between_clients() {
    let Some(cluster) = clients(&["", ""]) else { return };
    count_under_lock(&cluster, Flavour::Flock);
}

#[test]
fn fcntl_locks_exclude_between_clients() {
    let Some(cluster) = clients(&["", ""]) else { return };
    count_under_lock(&cluster, Flavour::Fcntl);
}

/// Not a test of its own: takes byte `LOCKS_FIRST`, says so, and then wants the other one.
#[test]
fn helper_locks_two() {
    let Some(path) = std::env::var_os("LOCKS_PATH") else { return };
    let first: i64 = std::env::var("LOCKS_FIRST").expect("first").parse().expect("a number");
    let file = open(Path::new(&path));
    lock(&file, Flavour::Fcntl, first, true).expect("the first lock is free");
    println!("HOLDS");
    std::io::stdout().flush().expect("flush");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    let result = lock(&file, Flavour::Fcntl, 1 - first, true);
    println!("RESULT {}", result.err().unwrap_or(0));
}

#[test]
fn a_deadlock_between_clients_is_told_to_one_of_them() {
    let Some(cluster) = clients(&["", ""]) else { return };
    let mounts = cluster.mounts();
    fs::write(mounts[0].join("two"), "ab").expect("write");
    let mut children: Vec<Child> = (0..2)
        .map(|n| {
            let mut command = Command::new(std::env::current_exe().expect("path of this test"));
            command.args(["--exact", "helper_locks_two", "--nocapture"]);
            command.env("LOCKS_PATH", mounts[n].join("two")).env("LOCKS_FIRST", n.to_string());
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("starts")
        })
        .collect();
    let mut seen: Vec<String> = Vec::new();
    for child in &mut children {
        let mut text = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        while !text.contains("HOLDS") {
            let mut byte = [0];
            assert_eq!(
                stdout.read(&mut byte).expect("read"),
                1,
                "it ended before it held its lock: {text}"
            );
            text.push(char::from(byte[0]));
        }
    }
    for child in &mut children {
        child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("write");
    }
    for child in children {
        let output = child.wait_with_output().expect("wait");
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let result = all
            .lines()
            .find_map(|line| line.split_once("RESULT ").map(|(_, number)| number.to_owned()));
        seen.push(result.unwrap_or_else(|| panic!("no result: {all}")));
    }
    seen.sort();
    assert_eq!(
        seen,
        ["0".to_owned(), libc::EDEADLK.to_string()],
        "one is told, the other gets its lock"
    );
}

#[test]
fn locks_of_a_killed_client_are_freed() {
    let Some(cluster) = clients(&["", ""]) else { return };
    let mounts = cluster.mounts();
    fs::write(mounts[0].join("held"), "x").expect("write");
    let held = open(&mounts[0].join("held"));
    // A client that dies takes along what it did not sync.
    held.sync_all().expect("fsync");
    lock(&held, Flavour::Flock, 0, true).expect("free");
    let other = open(&mounts[1].join("held"));
    // SAFETY: the descriptor is open.
    let now = unsafe { libc::flock(other.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    assert_eq!(now, -1, "two clients hold it");
    cluster.many().kill_client(0);
    let began = Instant::now();
    lock(&other, Flavour::Flock, 0, true).expect("freed");
    assert!(began.elapsed() < LEASE_AND_MORE, "{:?}", began.elapsed());
    eprintln!("a killed client's lock was free after {:?}", began.elapsed());
    // The holder through the dead mount gets an error, and does not hang.
    assert!(fs::metadata(mounts[0].join("held")).is_err(), "a dead mount answers");
    drop(held);
    cluster.many().detach_client(0);
    cluster.many().mount_client(0);
    assert_eq!(fs::read(mounts[0].join("held")).expect("read"), b"x");
}

/// One file is written, cut and read by two clients in turns. A model gives the expected bytes.
#[test]
fn two_clients_work_on_one_file_as_a_model_says() {
    const BYTES: usize = 200_000;
    const STEPS: usize = 1500;
    let Some(cluster) = clients(&["", ""]) else { return };
    let files: Vec<File> = {
        let mounts = cluster.mounts();
        fs::write(mounts[0].join("shared"), "").expect("create");
        mounts.iter().map(|mount| open(&mount.join("shared"))).collect()
    };
    let seed = std::env::var("FSX_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut model: Vec<u8> = Vec::new();
    for step in 0..STEPS {
        let (who, at, len) = (rng.usize(0..2), rng.usize(0..BYTES), rng.usize(1..20_000));
        let (file, what) = (&files[who], format!("seed {seed}, step {step}, client {who}"));
        match rng.u8(0..10) {
            0..4 => {
                let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
                file.write_all_at(&bytes, at as u64)
                    .unwrap_or_else(|e| panic!("{what}: write: {e}"));
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes);
            }
            4 => {
                file.set_len(at as u64).unwrap_or_else(|e| panic!("{what}: truncate: {e}"));
                model.resize(at, 0);
            }
            5 => {
                let length = file.metadata().unwrap_or_else(|e| panic!("{what}: fstat: {e}")).len();
                assert_eq!(length, model.len() as u64, "{what}: length");
            }
            6 => file.sync_data().unwrap_or_else(|e| panic!("{what}: fdatasync: {e}")),
            _ => {
                let mut bytes = vec![0; len];
                let mut read = 0;
                while read < len {
                    let more = file.read_at(&mut bytes[read..], (at + read) as u64);
                    match more.unwrap_or_else(|e| panic!("{what}: read: {e}")) {
                        0 => break,
                        more => read += more,
                    }
                }
                let expected = &model[at.min(model.len())..(at + len).min(model.len())];
                assert_eq!(
                    read,
                    expected.len(),
                    "{what}: read at {at}, the file has {}",
                    model.len()
                );
                let wrong = bytes.iter().zip(expected).position(|(a, b)| a != b);
                assert_eq!(wrong, None, "{what}: a wrong byte in the read at {at}");
            }
        }
    }
}

/// A mount on a directory stays, however the kernel is told to forget names around it.
#[test]
fn mounts_on_directories_stay_while_another_client_looks() {
    let Some(cluster) = clients(&["", ""]) else { return };
    let mounts = cluster.mounts();
    let place = cluster.outside().join("place");
    fs::create_dir(&place).expect("mkdir");
    fs::write(place.join("inside"), "here").expect("write");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut looks = 0;
            while !ended.load(Ordering::Relaxed) {
                let output =
                    try_sh(&mounts[1], "timeout 60 find . -ls > /dev/null 2>&1 || test $? != 124");
                assert!(output.status.success(), "find hangs: {}", text(&output));
                looks += 1;
            }
            looks
        });
        let mount_and_umount = |round: usize| {
            let dir = mounts[0].join(format!("d{round}"));
            let script = format!(
                "mkdir {dir} && mount --bind {place} {dir} && cat {dir}/inside && (! rmdir {dir}) && sleep 0.{pause} && \
                 cat {dir}/inside && umount {dir} && rmdir {dir}",
                dir = dir.display(),
                place = place.display(),
                pause = round % 3
            );
            let output = try_sh(Path::new("/"), &script);
            (!output.status.success()).then(|| format!("round {round}: {}", text(&output)))
        };
        let failed = (0..60).find_map(mount_and_umount);
        ended.store(true, Ordering::Relaxed);
        let looks = looker.join().expect("the looker panicked");
        assert_eq!(failed, None);
        assert!(looks > 3, "the other client looked {looks} times");
    });
}

/// Conformance tests on one mount, while another lists and stats all that they make.
#[test]
fn pjdfstest_passes_while_another_client_looks() {
    let Some(program) = e2e::need_program("pjdfstest") else { return };
    let Some(cluster) = clients(&["", ""]) else { return };
    let mounts = cluster.mounts();
    let config = cluster.outside().join("pjdfstest.toml");
    let entries = r#"[["nobody", "nogroup"], ["daemon", "daemon"]]"#;
    let settings = "[settings]\nnaptime = 0.02\nallow_remount = false\n";
    fs::write(&config, format!("{settings}[dummy_auth]\nentries = {entries}\n")).expect("write");
    let (at, ended) = (mounts[0].join("pjd"), AtomicBool::new(false));
    fs::create_dir(&at).expect("mkdir");
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut looks = 0;
            while !ended.load(Ordering::Relaxed) {
                // Names come and go while find walks: its complaints are of no interest, that it
                // ends is.
                let output = try_sh(
                    &mounts[1].join("pjd"),
                    "timeout 60 find . -ls > /dev/null 2>&1 || test $? != 124",
                );
                assert!(output.status.success(), "find hangs: {}", text(&output));
                looks += 1;
            }
            looks
        });
        let script = format!("{} -c {} -p {}", program.display(), config.display(), at.display());
        let output = try_sh(Path::new("/"), &script);
        ended.store(true, Ordering::Relaxed);
        let looks = looker.join().expect("the looker panicked");
        let all = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let count =
            |end: &str| all.lines().filter(|l| l.contains("::") && l.ends_with(end)).count();
        let failed: Vec<&str> = all
            .lines()
            .filter(|l| l.starts_with('\t') || l.to_lowercase().ends_with("failed"))
            .collect();
        assert!(count(" ok") > 250, "only {} cases passed:\n{}", count(" ok"), failed.join("\n"));
        assert_eq!(count("FAILED") + count("failed"), 0, "{}", failed.join("\n"));
        assert!(looks > 10, "the other client looked {looks} times");
    });
}
