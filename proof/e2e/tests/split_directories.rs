//! A directory is split and merged while programs of two mounts use it, and MDS die meanwhile. For
//! programs that are in it, watch it or have something of it open it stays what it is, and nothing
//! of what is in it changes.
//!
//! `KILLS` sets the number of kills (6), `KILLS_SEED` repeats their order, `SPLIT_NAMES` sets how
//! many names the directory has (1,500). In full:
//! `KILLS=100 SPLIT_NAMES=100000 cargo test -p e2e --test split_directories -- --nocapture`.

use e2e::cluster::Cluster;
use e2e::kills::Kills;
use e2e::lustre::{lctl, lfs, lfs_refuses, soon, try_lfs};
use e2e::process::{is_clean, text};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One in so many of the names that stay is that of a directory.
const DIRECTORY_IN: usize = 50;
/// Longest wait of any single operation: restarts of MDS that must hear of each other.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Longest time of a split with kills.
const SPLIT_MAX: Duration = Duration::from_secs(120);

/// Names that stay.
fn stay() -> usize {
    std::env::var("SPLIT_NAMES").map_or(1500, |names| names.parse().expect("a number"))
}

/// Inode numbers by name; each name is listed once.
fn listed(dir: &Path) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("list") {
        let entry = entry.expect("list");
        let name = entry.file_name().into_string().expect("text");
        let ino = std::os::unix::fs::DirEntryExt::ino(&entry);
        assert_eq!(all.insert(name.clone(), ino), None, "{name} is listed twice");
    }
    all
}

/// Asks for so many stripes until that may begin.
fn restripe(mount: &Path, count: &str) {
    let began = Instant::now();
    loop {
        let output = try_lfs(mount, &["setdirstripe", "-c", count, "d"]);
        if output.status.success() {
            return;
        }
        assert_eq!(output.status.code(), Some(libc::EBUSY), "{}", text(&output));
        assert!(began.elapsed() < SPLIT_MAX, "its names move for {:?}", began.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until no name moves; says what `getdirstripe` shows then.
fn settled(mount: &Path) -> String {
    let began = Instant::now();
    loop {
        let shown = lfs(mount, &["getdirstripe", "d"]);
        if !shown.contains("migrating") {
            return shown.lines().next().expect("a line").to_owned();
        }
        assert!(began.elapsed() < SPLIT_MAX, "its names move for {:?}", began.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Names come, move and go. All that stay are listed each time, each once. Returns the rounds.
fn work(mount: &Path, who: &str, stop: &AtomicBool) -> u64 {
    let dir = mount.join("d");
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let at = |text: &str| dir.join(format!("{who}{rounds}{text}"));
        assert!(fs::metadata(at("")).is_err(), "{who}{rounds} is not there yet");
        fs::write(at(""), who).expect("write");
        assert!(File::create_new(at("")).is_err(), "{who}{rounds} is there");
        fs::rename(at(""), at(".moved")).expect("rename");
        fs::create_dir(at(".d")).expect("mkdir");
        fs::write(at(".d/f"), "below").expect("write");
        assert_eq!(fs::read_to_string(at(".moved")).expect("read"), who);
        if rounds % 4 == 0 {
            let names = listed(&dir);
            let staying = names.keys().filter(|name| name.starts_with("stays")).count();
            assert_eq!(staying, stay(), "{who}, round {rounds}: all that stay are listed");
        }
        fs::remove_file(at(".moved")).expect("unlink");
        fs::remove_file(at(".d/f")).expect("unlink");
        fs::remove_dir(at(".d")).expect("rmdir");
        assert!(fs::metadata(at(".moved")).is_err() && fs::metadata(at(".d")).is_err());
        assert!(began.elapsed() < STALL_MAX, "a round took {:?}", began.elapsed());
        rounds += 1;
    }
    rounds
}

/// Everything that stays is there, with the inode number that it had.
fn assert_stays(mount: &Path, before: &BTreeMap<String, u64>) {
    let dir = mount.join("d");
    assert_eq!(&listed(&dir), before, "{}", mount.display());
    for (name, ino) in before.iter().step_by(17) {
        let meta = fs::metadata(dir.join(name)).expect("stat");
        assert_eq!(meta.ino(), *ino, "{name}");
        if meta.is_file() {
            assert_eq!(&fs::read_to_string(dir.join(name)).expect("read"), name);
        }
    }
    assert_eq!(fs::metadata(&dir).expect("stat").nlink(), 2 + stay().div_ceil(DIRECTORY_IN) as u64);
}

/// What a child inode is: all that a change of its record would show. Times of access are left out.
type Inode = (u64, u32, u64, u64, (i64, i64), (i64, i64));

/// Everything that stays, as one mount shows it.
fn inodes(mount: &Path, names: &BTreeMap<String, u64>) -> BTreeMap<String, Inode> {
    let inode = |name: &String| {
        let meta = fs::symlink_metadata(mount.join("d").join(name)).expect("stat");
        let times = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        (meta.ino(), meta.mode(), meta.nlink(), meta.size(), times.0, times.1)
    };
    names.keys().map(|name| (name.clone(), inode(name))).collect()
}

/// A program that works in the directory all the time, and a watch of it.
struct Within {
    shell: Child,
    answers: BufReader<ChildStdout>,
    watch: File,
    mount: PathBuf,
    asked: u64,
}

impl Within {
    fn at(mount: &Path) -> Within {
        let mut shell = Command::new("bash");
        shell.current_dir(mount.join("d")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("bash runs");
        let answers = BufReader::new(shell.stdout.take().expect("it is piped"));
        // SAFETY: no memory is passed.
        let raw = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        assert!(raw >= 0, "inotify_init1: {}", io::Error::last_os_error());
        // SAFETY: it was just opened and has no other owner.
        let watch = unsafe { File::from_raw_fd(raw) };
        let path = CString::new(mount.join("d").as_os_str().as_bytes()).expect("a path");
        let events = libc::IN_CREATE | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
        // SAFETY: the path is a string that lives.
        let added = unsafe { libc::inotify_add_watch(raw, path.as_ptr(), events) };
        assert!(added >= 0, "inotify_add_watch: {}", io::Error::last_os_error());
        Within { shell, answers, watch, mount: mount.to_owned(), asked: 0 }
    }

    /// The shell is where it was, and the watch hears of what is made.
    fn is_there(&mut self) {
        let name = format!("watched{}", self.asked);
        self.asked += 1;
        let commands = self.shell.stdin.as_mut().expect("it is piped");
        writeln!(
            commands,
            "echo > {name} && test -e $PWD/{name} && rm {name}; \
             echo $(/bin/pwd) $(stat -c %i . .. ../d stays0000/..)"
        )
        .expect("the shell reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the shell answers");
        let mount = fs::canonicalize(&self.mount).expect("a mount");
        let ino = |path: &Path| fs::metadata(path).expect("stat").ino();
        let (dir, root) = (ino(&mount.join("d")), ino(&mount));
        assert_eq!(answer, format!("{}/d {dir} {root} {dir} {dir}\n", mount.display()));
        let mut events = [0; 65536];
        let mut heard = Vec::new();
        loop {
            match self.watch.read(&mut events) {
                Ok(len) => heard.extend_from_slice(&events[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("read events: {error}"),
            }
        }
        let (mut rest, mut seen) = (&heard[..], false);
        // struct inotify_event: wd, mask, cookie, length of the name, name.
        while let Some((head, tail)) = rest.split_at_checked(16) {
            let word =
                |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("4 bytes"));
            let (mask, len) = (word(4), word(12) as usize);
            let ends = libc::IN_IGNORED | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
            assert_eq!(mask & ends, 0, "the watch has ended: {mask:x}");
            seen |= tail[..len].starts_with(format!("{name}\0").as_bytes());
            // The queue was full: what was made is not told.
            seen |= mask & libc::IN_Q_OVERFLOW != 0;
            rest = &tail[len..];
        }
        assert!(seen, "the watch does not hear of {name}");
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn a_directory_that_becomes_large_is_split_by_itself() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--mdts", "3"]);
    let mnt = cluster.mount();
    let get = |name: &str| lctl(&cluster, &["get_param", "-n", &format!("mdt.*MDT0000.{name}")]);
    assert_eq!(
        ["enable_dir_auto_split", "dir_split_count", "dir_split_delta", "dir_restripe_nsonly"]
            .map(get),
        ["1\n", "50000\n", "4\n", "1\n"]
    );
    for (name, value) in [("dir_split_count", "0"), ("dir_split_delta", "1")] {
        let set = format!("mdt.*MDT0000.{name}={value}");
        assert!(!cluster.lctl(&["set_param", &set]).status.success(), "{set}");
    }
    let fill = |dir: &str| {
        fs::create_dir(mnt.join(dir)).expect("mkdir");
        for n in 0..400 {
            fs::write(mnt.join(format!("{dir}/f{n:03}")), "file").expect("write");
        }
    };
    lctl(&cluster, &["set_param", "mdt.*.enable_dir_auto_split=0", "mdt.*.dir_split_count=200"]);
    fill("off");
    lctl(&cluster, &["set_param", "mdt.*.enable_dir_auto_split=1"]);
    fill("d");
    soon(&"3\n".to_owned(), || lfs(&mnt, &["getdirstripe", "-c", "d"]));
    assert_eq!(settled(&mnt), "lmv_stripe_count: 3 lmv_stripe_offset: 0 lmv_hash_type: crush");
    assert_eq!(listed(&mnt.join("d")).len(), 400);
    assert!(get("dir_names_moved").trim().parse::<u32>().expect("a number") > 100);
    assert_eq!(get("dir_restriping"), "0\n");
    assert_eq!(lfs(&mnt, &["getdirstripe", "-c", "off"]), "0\n");
    cluster.stop();
}

#[test]
fn a_directory_is_split_and_merged_under_load() {
    let Some(Kills { count: kills, mut rng, mounts, dir: _dir, mut many, .. }) =
        Kills::up_with_mdts(6, 3)
    else {
        return;
    };
    let mds: Vec<usize> =
        (0..many.server_count()).filter(|at| many.server_name(*at).starts_with("mds")).collect();
    let [first, second] = &mounts;
    let dir = first.join("d");
    fs::create_dir(&dir).expect("mkdir");
    for n in 0..stay() {
        let name = format!("stays{n:04}");
        match n % DIRECTORY_IN {
            0 => fs::create_dir(dir.join(&name)).expect("mkdir"),
            _ => fs::write(dir.join(&name), &name).expect("write"),
        }
    }
    let before = listed(&dir);
    let (ino, fid) = (fs::metadata(&dir).expect("stat").ino(), lfs(first, &["path2fid", "d"]));
    let mut held =
        File::options().read(true).append(true).open(dir.join("stays0001")).expect("open");
    let opened = File::open(&dir).expect("open a directory");
    let are = inodes(first, &before);
    let mut within = [Within::at(first), Within::at(second)];
    let mut all_within = || within.iter_mut().for_each(Within::is_there);
    all_within();
    assert_eq!(settled(first), "lmv_stripe_count: 0 lmv_stripe_offset: 0 lmv_hash_type: none");

    // At rest: split, seen from both mounts, merged.
    restripe(first, "3");
    assert_eq!(settled(second), "lmv_stripe_count: 3 lmv_stripe_offset: 0 lmv_hash_type: crush");
    mounts.iter().for_each(|mount| assert_stays(mount, &before));
    all_within();
    restripe(second, "1");
    assert!(settled(first).starts_with("lmv_stripe_count: 0 "), "merged");
    mounts.iter().for_each(|mount| assert_stays(mount, &before));
    all_within();
    mounts.iter().for_each(|mount| assert_eq!(inodes(mount, &before), are, "no inode changes"));
    lfs_refuses(
        first,
        &["setdirstripe", "-c", "4", "d"],
        libc::E2BIG,
        "error: setdirstripe: can't set directory stripes of 'd': Argument list too long (7); \
         there are fewer MDTs than stripes; lfs mdts shows all\n",
    );

    // Under load, and with kills in the middle.
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for (n, mount) in mounts.iter().enumerate() {
        let (mount, stop, name) = (mount.clone(), stop.clone(), format!("c{n}."));
        workers.push(thread::spawn(move || work(&mount, &name, &stop)));
    }
    for n in 0..kills {
        restripe(&mounts[n as usize % 2], ["3", "1", "2"][n as usize % 3]);
        thread::sleep(Duration::from_millis(rng.u64(0..60)));
        let one = mds[n as usize % mds.len()];
        let both = rng.u32(0..3) == 0;
        let killed = if both { vec![one, mds[(n as usize + 1) % mds.len()]] } else { vec![one] };
        many.kill_together(&killed, &[]);
        killed.iter().for_each(|at| many.start_server_again(*at));
        println!("kill {n}: {}", settled(first));
        all_within();
    }
    restripe(first, "2");
    println!("then: {}", settled(second));
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        match worker.join() {
            Ok(rounds) => println!("{rounds} rounds"),
            Err(failure) => {
                eprintln!("{}", many.logs());
                std::panic::resume_unwind(failure);
            }
        }
    }
    mounts.iter().for_each(|mount| assert_stays(mount, &before));
    all_within();
    mounts.iter().for_each(|mount| assert_eq!(inodes(mount, &before), are, "no inode changes"));
    held.write_all(b"!").expect("append to what was open");
    let mut all = String::new();
    File::open(second.join("d/stays0001")).expect("open").read_to_string(&mut all).expect("read");
    assert_eq!(all, "stays0001!");
    assert_eq!(opened.metadata().expect("fstat").ino(), ino);
    assert_eq!(
        (fs::metadata(&dir).expect("stat").ino(), lfs(second, &["path2fid", "d"])),
        (ino, fid)
    );
    drop((held, opened, within));
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
    many.start();
    fs::write(dir.join("stays0001"), "stays0001").expect("write");
    mounts.iter().for_each(|mount| assert_stays(mount, &before));
    many.stop();
}
