//! Cost of operations on a real mount, counted in requests to servers. Also, two mounts that change
//! one directory at once neither hang nor show each other anything old.

use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::sheen;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Files read again and again, and as many names that are not there.
fn files() -> usize {
    e2e::sized(2_000, 10_000)
}

/// The kernel trusts a name at least this long: two thirds of a lease, less the time between two
/// pings.
const TRUST_MIN: Duration = Duration::from_secs(13);
/// An operation that still waits after this time hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Requests of a mount so far.
fn requests(mount: &Path) -> u64 {
    counted(mount, " requests")
}

fn counted(mount: &Path, what: &str) -> u64 {
    let stats = stats(mount);
    let line = stats.lines().find(|line| line.ends_with(what)).expect("it is counted");
    number_of(line)
}

/// The kernel's requests to a mount so far, except the one for this count.
fn asked(mount: &Path) -> Vec<(String, u64)> {
    let stats = stats(mount);
    let lines = stats.lines().filter_map(|line| Some((line.split_once(' ')?.1, number_of(line))));
    let others = ["requests", "awaited", "round_trips", "locks", "callbacks", "getxattr"];
    let operations = lines.filter(|(name, _)| !others.contains(name));
    operations.map(|(name, count)| (name.to_owned(), count)).collect()
}

/// The kernel's requests to a mount while this ran, except opens and closes where it sends them.
fn asked_by(mount: &Path, work: impl FnOnce(), told: bool) -> Vec<(String, u64)> {
    let (before, began) = (asked(mount), Instant::now());
    work();
    eprintln!(
        "{}: {} files and as many absent names in {:?}",
        mount.display(),
        files(),
        began.elapsed()
    );
    let more =
        asked(mount).into_iter().zip(before).map(|(after, before)| (after.0, after.1 - before.1));
    more.filter(|(name, n)| {
        *n > 0 && !(told && ["open", "flush", "close"].contains(&name.as_str()))
    })
    .collect()
}

fn number_of(line: &str) -> u64 {
    line.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

fn stats(mount: &Path) -> String {
    let mut value = vec![0u8; 65536];
    let len = rustix::fs::getxattr(mount, c"lustre.stats", &mut value).expect("getxattr");
    String::from_utf8_lossy(&value[..len]).into_owned()
}

/// A second mount of a cluster's file system, as if on another host.
struct Second(PathBuf);

impl Second {
    fn of(cluster: &Cluster, name: &str, options: &str) -> Second {
        let status = cluster.command(&["status"]);
        let shown = String::from_utf8_lossy(&status.stdout).into_owned();
        let nid = shown
            .split_whitespace()
            .find(|word| word.starts_with("127.0.0.1:"))
            .expect("it listens")
            .to_owned();
        let at = cluster.outside().join(name);
        fs::create_dir_all(&at).expect("make a mount point");
        let mut mount = Command::new(sheen());
        mount
            .arg0("mount.sheen")
            .arg(format!("{nid}:/sheen"))
            .arg(&at)
            .args(["-o", options])
            .stdin(Stdio::null());
        let output = mount.output().expect("mount.sheen runs");
        assert!(output.status.success(), "mount: {}", text(&output));
        Second(at)
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let umount = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(
            umount.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "umount {}",
            self.0.display()
        );
    }
}

/// Runs on a thread; fails if it does not end.
fn watched(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        // The receiver is gone: the watchdog has spoken.
        let _ = done.send(());
    });
    match waiting.recv_timeout(WATCHDOG) {
        Ok(()) => thread.join().expect("it ended"),
        Err(mpsc::RecvTimeoutError::Disconnected) => thread.join().expect(what),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: hangs"),
    }
}

fn visit(dir: &Path, read: bool) {
    for n in 0..files() {
        let path = dir.join(format!("h{n}"));
        fs::metadata(&path).expect("it is there");
        let mut file = fs::File::open(&path).expect("it opens");
        if read {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("it can be read");
            assert_eq!(text, format!("#define X {n}\n"));
        }
        drop(file);
        assert!(fs::metadata(dir.join(format!("no{n}"))).is_err());
    }
}

/// Requests of a mount once it sends none by itself any more: beside other work that may take some
/// seconds.
fn settled(mount: &Path) -> u64 {
    let mut before = requests(mount);
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(500));
        let now = requests(mount);
        if now == before {
            return now;
        }
        before = now;
    }
    panic!("{} goes on to send requests though nobody asks anything", mount.display());
}

/// Files of a directory that one mount makes and another lists.
const MADE_ELSEWHERE: usize = 1000;
/// What a mount sends by itself (pings) while a directory is listed.
const BY_ITSELF: u64 = 2;
/// Requests to list them with attributes: a page has hundreds.
const TO_LIST: u64 = 18 + BY_ITSELF;

/// What `ls -l` asks of a directory.
fn list_long(dir: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).expect("it can be listed") {
        let path = entry.expect("an entry").path();
        bytes += fs::symlink_metadata(&path).expect("it is there").len();
        let acl = rustix::fs::lgetxattr(&path, c"system.posix_acl_access", &mut [0u8; 64][..]);
        assert!(acl.is_err(), "none was set");
    }
    bytes
}

#[test]
fn files_that_another_mount_made_are_listed_as_cheaply_as_own_ones() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let other = Second::of(&cluster, "other", "flock");
    let dir = cluster.mount().join("objects");
    fs::create_dir(&dir).expect("make a directory");
    for n in 0..MADE_ELSEWHERE {
        fs::write(dir.join(format!("o{n}")), [7; 10]).expect("it is written");
    }
    settled(&cluster.mount());
    let before = settled(&other.0);
    for round in ["cold", "again", "and again"] {
        let begun = requests(&other.0);
        assert_eq!(list_long(&other.0.join("objects")), 10 * MADE_ELSEWHERE as u64, "{round}");
        let asked = requests(&other.0) - begun;
        eprintln!("{round}: {asked} requests for {MADE_ELSEWHERE} files");
        let most = if round == "cold" { TO_LIST } else { BY_ITSELF };
        assert!(asked <= most, "{round}: {asked} requests");
    }
    assert!(requests(&other.0) - before <= TO_LIST + 3 * BY_ITSELF);
    // The maker writes one of them again, and the other sees it.
    fs::write(dir.join("o7"), [7; 11]).expect("it is written");
    assert_eq!(list_long(&other.0.join("objects")), 10 * MADE_ELSEWHERE as u64 + 1);
}

/// Directories in each directory of a tree, three levels deep, and files in the lowest.
const WIDTH: usize = 6;
/// Waits to walk through it: some to begin with, then one at most for a level of each branch.
const TO_WALK: u64 = 40;

#[test]
fn a_tree_is_walked_with_few_requests() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let walker = Second::of(&cluster, "walker", "flock");
    let tree = cluster.mount().join("tree");
    for n in 0..WIDTH.pow(3) {
        let dir =
            tree.join(format!("a{}/b{}/c{}", n / WIDTH / WIDTH, n / WIDTH % WIDTH, n % WIDTH));
        fs::create_dir_all(&dir).expect("make directories");
        (0..4).for_each(|n| fs::write(dir.join(format!("f{n}")), [7; 10]).expect("it is written"));
    }
    settled(&cluster.mount());
    // find(1) asks once for the type of the file system: statfs of the MDT and two OSTs.
    for (round, most) in [("cold", TO_WALK), ("again", 3)] {
        // The access times of the first round are told in the background.
        settled(&walker.0);
        let before = counted(&walker.0, " awaited");
        let found = Command::new("find")
            .arg(walker.0.join("tree"))
            .args(["-size", "1"])
            .output()
            .expect("find runs");
        assert!(found.status.success(), "{}", text(&found));
        let lines = found.stdout.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, 4 * WIDTH.pow(3), "every file, and no directory");
        let waited = counted(&walker.0, " awaited") - before;
        eprintln!(
            "{round}: {waited} waits for {} directories",
            WIDTH.pow(3) + WIDTH.pow(2) + WIDTH + 1
        );
        assert!(waited <= most, "{round}: {waited} waits");
    }
}

/// A directory that a listing does not show in one page, and what it costs.
struct Many {
    files: usize,
    /// Waits to list these: pages of 1,024, 4,096 and 16,384, and the rest.
    pages: u64,
    /// Waits for attributes that a listing of names left out: two misses, then windows of 512,
    /// 1,024, 2,048, 4,096, 8,192 and the rest.
    to_search: u64,
}

#[test]
fn a_large_directory_is_listed_and_searched_with_few_requests() {
    if !e2e::can_mount() {
        return;
    }
    let Many { files, pages, to_search } = e2e::sized(
        Many { files: 6_000, pages: 3, to_search: 2 + 4 },
        Many { files: 22_000, pages: 4, to_search: 2 + 6 },
    );
    let cluster = Cluster::up(&[]);
    let lister = Second::of(&cluster, "lister", "flock");
    let searcher = Second::of(&cluster, "searcher", "flock");
    let dir = cluster.mount().join("many");
    fs::create_dir(&dir).expect("make a directory");
    for n in 0..files {
        fs::write(dir.join(format!("m{}", n * 7919 % files)), [7; 10]).expect("it is written");
    }
    settled(&cluster.mount());
    // Requests, and those of them that a program waited for. Beside pings, a mount asks its two
    // OSTs for their space every few seconds.
    let asks = |mount: &Path, work: &dyn Fn(&Path)| {
        let (requests_before, before) = (settled(mount), counted(mount, " awaited"));
        work(&mount.join("many"));
        let waited = counted(mount, " awaited") - before;
        let asked = requests(mount) - requests_before;
        assert!(
            asked <= waited + pages + 4 * BY_ITSELF,
            "{asked} requests, {waited} of them waited for"
        );
        waited
    };
    let list = |dir: &Path| assert_eq!(list_long(dir), 10 * files as u64);
    let cold = asks(&lister.0, &list);
    let warm = asks(&lister.0, &list);
    let search = |dir: &Path| {
        let found = Command::new("find")
            .arg(dir)
            .args(["-type", "f", "-size", "1"])
            .output()
            .expect("find runs");
        assert!(found.status.success(), "{}", text(&found));
        assert_eq!(found.stdout.iter().filter(|byte| **byte == b'\n').count(), files);
    };
    let searched = asks(&searcher.0, &search);
    eprintln!("{files} files: {cold} waits to list, {warm} again, {searched} to search");
    // One more finds the directory.
    assert!(cold <= 1 + pages, "{cold} waits to list {files} files");
    assert_eq!(warm, 0, "waits to list them again");
    assert!(searched <= 1 + pages + to_search, "{searched} waits to search {files} files");
}

#[test]
fn what_is_warm_costs_no_request() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let other = Second::of(&cluster, "other", "localflock");
    let dir = cluster.mount().join("headers");
    fs::create_dir(&dir).expect("mkdir");
    for n in 0..files() {
        fs::write(dir.join(format!("h{n}")), format!("#define X {n}\n")).expect("write");
    }
    let _caches = e2e::caches::mine();
    // Where the kernel sends opens, data is not covered yet: it drops its pages with each open.
    for (mount, dir, told) in
        [(cluster.mount(), dir.clone(), true), (other.0.clone(), other.0.join("headers"), false)]
    {
        // Closes of the first round are sent in the background.
        visit(&dir, !told);
        visit(&dir, !told);
        let mut before = settled(&mount);
        let (mut rounds, began): (Vec<Vec<(String, u64)>>, _) = (Vec::new(), Instant::now());
        let mut sent: Vec<u64> = Vec::new();
        while rounds.len() < 12 && rounds.last().is_none_or(|asked| !asked.is_empty()) {
            rounds.push(asked_by(&mount, || visit(&dir, !told), told));
            let now = requests(&mount);
            sent.push(now - before);
            before = now;
        }
        let took = began.elapsed();
        // A machine under pressure takes single pages back, the more the longer a round takes, and
        // those are read again. Nothing else may be asked for; one page in a hundred at most, and
        // not in each round.
        let read = |round: &Vec<(String, u64)>| {
            round.iter().filter(|(what, _)| what == "read").map(|(_, n)| n).sum()
        };
        let again =
            rounds.iter().map(read).zip(&sent).all(|(read, sent): (u64, &u64)| *sent <= read);
        let few = again
            && sent.iter().sum::<u64>() <= (files() * rounds.len()) as u64 / 100
            && sent.contains(&0);
        assert!(
            few,
            "requests of {} for what is warm, by round: {sent:?}; {rounds:?}",
            mount.display()
        );
        // The kernel asks for a name, and for attributes, once more when its trust is over. A round
        // without any request shows that it asks for nothing else. If rounds take so long that
        // there is none, nothing may be asked for more often than that.
        let quiet = rounds.last().is_some_and(Vec::is_empty);
        let asked = |what: &str| -> u64 {
            rounds.iter().flatten().filter(|(asked, _)| asked == what).map(|(_, times)| times).sum()
        };
        let ends = 1 + (took.as_secs_f64() / TRUST_MIN.as_secs_f64()) as u64;
        let names = 2 * files() as u64;
        let known = ["lookup", "lookup_hit", "getattr", "getattr_hit", "read"];
        let others = rounds.iter().flatten().any(|(what, _)| !known.contains(&what.as_str()));
        let rare =
            !others && asked("lookup") <= names * ends && asked("getattr") <= names / 2 * ends;
        assert!(
            quiet || rare,
            "what the kernel of {} asked in {took:?} for what is warm: {rounds:?}",
            mount.display()
        );
    }
}

#[test]
fn two_mounts_that_create_in_one_directory_neither_hang_nor_show_anything_old() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let other = Second::of(&cluster, "other", "rw");
    let mounts = [cluster.mount(), other.0.clone()];
    fs::create_dir(mounts[0].join("one")).expect("mkdir");
    watched("creating in one directory", move || {
        std::thread::scope(|scope| {
            for n in 0..8 {
                let (mine, theirs) = (mounts[n % 2].join("one"), mounts[1 - n % 2].join("one"));
                scope.spawn(move || {
                    for i in 0..200 {
                        let name = format!("c{n}_{i}");
                        let (here, there) = (mine.join(&name), theirs.join(&name));
                        assert!(!here.exists() && !there.exists(), "{name} before it is made");
                        fs::write(&here, b"").expect("create");
                        assert!(there.exists(), "{name} is made and not seen");
                        let moved = theirs.join(format!("{name}m"));
                        fs::rename(&there, &moved).expect("rename");
                        assert!(!here.exists(), "{name} is moved and still seen");
                        if i % 3 == 0 {
                            fs::remove_file(mine.join(format!("{name}m"))).expect("unlink");
                            assert!(!moved.exists(), "{name} is removed and still seen");
                        }
                    }
                });
            }
        });
    });
}

/// Programs on two mounts make, move and remove names of their own in one directory at once. The
/// kernel's lookups, and its checks of permissions, cost no round trip, except some while the two
/// clients part the names. What remains is the change itself.
#[test]
fn names_of_ones_own_in_a_busy_directory_cost_one_round_trip_per_change() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mounts = [Second::of(&cluster, "one", "rw"), Second::of(&cluster, "two", "rw")];
    fs::create_dir(cluster.mount().join("busy")).expect("mkdir");
    let path = |mount: usize, name: String| mounts[mount].0.join(format!("busy/c{mount}.{name}"));
    let make = |path: &Path| drop(fs::File::create(path).expect("create"));
    for n in 0..20 {
        make(&path(0, format!("{n:04}")));
        make(&path(1, format!("{n:04}")));
    }
    let cost = |work: &dyn Fn(usize)| {
        let counts = ["lookup", "lookup_hit", "getattr", "getattr_hit", "round_trips"]
            .map(|what| format!(" {what}"));
        let before = counts.each_ref().map(|what| counted(&mounts[0].0, what));
        for n in 1000..1200 {
            work(n);
            if n % 10 == 0 {
                make(&path(1, format!("{n}")));
                fs::remove_file(path(1, format!("{n}"))).expect("unlink");
            }
        }
        let after = counts.each_ref().map(|what| counted(&mounts[0].0, what));
        let [lookups, known, getattrs, known_attrs, waits] =
            std::array::from_fn(|n| after[n] - before[n]);
        eprintln!(
            "{lookups} lookups, {known} known; {getattrs} getattrs, {known_attrs} known; {waits} round trips"
        );
        (lookups - known + getattrs - known_attrs, waits)
    };
    let (asked, waits) = cost(&|n| make(&path(0, format!("{n}"))));
    assert!(asked <= 10 && waits <= 210, "200 creates: {asked} questions and {waits} waits");
    let (asked, waits) = cost(&|n| {
        let (made, moved) = (path(0, format!("x{n}")), path(0, format!("x{n}-moved")));
        make(&made);
        fs::rename(&made, &moved).expect("rename");
        fs::remove_file(&moved).expect("unlink");
    });
    assert!(
        asked <= 10 && waits <= 610,
        "200 names made, moved and removed: {asked} questions and {waits} waits"
    );
}

/// Four clients make and remove names in one directory. What one of them is told does not rest on
/// what the others do there: no answer waits for a commit, or brings along what others changed.
#[test]
fn changes_of_a_shared_directory_do_not_wait_for_each_other() {
    /// Of each client.
    const THREADS: usize = 16;
    /// Of each thread.
    const FILES: usize = 100;
    const ALL: usize = 4 * THREADS * FILES;
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mounts: [Second; 4] =
        std::array::from_fn(|n| Second::of(&cluster, &format!("mount{n}"), "rw"));
    let dir = |n: usize| mounts[n].0.join("shared");
    fs::create_dir(dir(0)).expect("mkdir");
    // Until the directory is durable, each answer to the others brings it along.
    fs::File::open(dir(0)).and_then(|dir| dir.sync_all()).expect("sync the directory");
    let counted = |what: &str| {
        let output = cluster.lctl(&["get_param", "-n", "ldlm.namespaces.mdt-*.stats"]);
        assert!(output.status.success(), "{}", text(&output));
        let stats = String::from_utf8_lossy(&output.stdout).into_owned();
        // What was never counted is not shown.
        let count =
            |line: &str| line.strip_prefix(what)?.split_whitespace().next()?.parse::<u64>().ok();
        stats.lines().find_map(count).unwrap_or(0)
    };
    let both = || ["commits_awaited ", "redo_of_others "].map(counted);
    // By way of open directories: a walk would show the directory itself, to which all contribute.
    let together = |what: &str, work: &(dyn Fn(&OwnedFd, &str) + Sync)| {
        let open = |n: usize| OwnedFd::from(fs::File::open(dir(n)).expect("open"));
        let (dirs, before): ([OwnedFd; 4], _) = (std::array::from_fn(open), both());
        std::thread::scope(|scope| {
            for thread in 0..4 * THREADS {
                let dir = &dirs[thread % 4];
                scope.spawn(move || {
                    (0..FILES).for_each(|n| work(dir, &format!("t{thread}.{n:04}")))
                });
            }
        });
        let after = both();
        let [waits, others] = std::array::from_fn(|n| after[n] - before[n]);
        eprintln!(
            "{what}: of {ALL} operations {waits} waited for a commit; {others} changes of others came along"
        );
        assert!(
            waits * 100 < ALL as u64 && others * 100 < ALL as u64,
            "{what}: {waits} waits, {others} changes"
        );
    };
    let (make, mode) = (OFlags::CREATE | OFlags::WRONLY | OFlags::EXCL, Mode::from(0o644));
    let moved = |name: &str| format!("{name}-moved");
    together("creates", &|dir, name| drop(openat(dir, name, make, mode).expect("create")));
    together("renames", &|dir, name| renameat(dir, name, dir, moved(name)).expect("rename"));
    together("removals", &|dir, name| {
        unlinkat(dir, moved(name), AtFlags::empty()).expect("unlink")
    });
    together("mkdirs", &|dir, name| mkdirat(dir, name, Mode::from(0o755)).expect("mkdir"));
    together("rmdirs", &|dir, name| unlinkat(dir, name, AtFlags::REMOVEDIR).expect("rmdir"));
}

/// Linkers and assemblers seek, write a piece, and read around it. No server is asked for what only
/// this mount has, nor for the holes between.
#[test]
fn holes_of_what_is_being_written_cost_no_request() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mount = Second::of(&cluster, "one", "rw");
    // Data that waits for a second is stored, and holes before it are asked for then. On a busy
    // machine that may happen in the middle of one file, but not of each.
    let asked =
        (0..5).map(|n| write_with_holes(&mount.0, &format!("made{n}"))).find(|asked| *asked <= 3);
    assert!(asked.is_some(), "each time more than 3 requests that a program waited for");
}

/// Requests that a program waited for.
fn write_with_holes(mount: &Path, name: &str) -> u64 {
    let path = mount.join(name);
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .expect("create");
    let before = counted(mount, " awaited");
    file.write_all_at(b"first", 100_000).expect("write");
    let mut expected = vec![0; 100_005];
    expected[100_000..].copy_from_slice(b"first");
    for piece in 0..50_usize {
        let (at, bytes) = (piece * 1_777, [piece as u8 + 1; 70]);
        file.write_all_at(&bytes, at as u64).expect("write");
        expected[at..at + 70].copy_from_slice(&bytes);
        let mut around = vec![0; 8192];
        let start = at.saturating_sub(3_000);
        file.read_exact_at(&mut around, start as u64).expect("read");
        assert!(around == expected[start..start + 8192], "around piece {piece}");
    }
    let asked = counted(mount, " awaited") - before;
    eprintln!("{asked} requests that a program waited for");
    file.sync_all().expect("fsync");
    assert!(fs::read(&path).expect("read") == expected, "after it was stored");
    asked
}
