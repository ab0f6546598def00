//! What a client far away from its servers waits for, counted at the network card of its host. The
//! files are made by other clients, which are near the servers and keep what they hold.
//!
//! Sizes are for a test that runs with all others. `DISTANCE_FILES=100000`,
//! `DISTANCE_DIRECTORIES=5000`, `DISTANCE_OSTS=32` and `DISTANCE_DELAY_MS=210` count at full size
//! (docs/distance.md).

use e2e::far::Far;
use e2e::programs::{assert_same, sh};
use e2e::sheen;
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// There and back.
fn delay() -> Duration {
    Duration::from_millis(number("DISTANCE_DELAY_MS", 60) as u64)
}

/// Files of a large directory.
fn many() -> usize {
    number("DISTANCE_FILES", 5_000)
}

/// OSTs of the file system, and most stripes of a file.
fn osts() -> usize {
    number("DISTANCE_OSTS", 4)
}

/// Directories of a tree.
fn directories() -> usize {
    number("DISTANCE_DIRECTORIES", 200)
}

/// Files in each of them.
const FILES_OF_EACH: usize = 16;
/// Directories of one directory of the tree.
const WIDTH: usize = 50;
/// Inodes that a mount keeps known: of a directory of more files some are asked for again.
const INODES_KEPT: usize = 196_608;
/// Bytes of a name in a listing, about.
const NAME_BYTES: usize = 40;
/// Files of a large directory that stay open to write.
const OPEN: usize = 1000;
/// Files that a program appends to all the time.
const APPENDED: usize = 200;
/// Waits of what a mount knows, and bytes that come to it meanwhile: only what it says in the
/// background, mostly that it lives.
const WARM: (usize, u64) = (5, 24 << 10);
/// By then what was written is stored and reported, and a file that is open and was not written
/// since lies still.
const STILL: Duration = Duration::from_millis(2500);

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect(variable))
}

/// Attempts at a workload that waits too often.
const ATTEMPTS: usize = 3;

/// What is done in a directory.
type Work<'a> = &'a dyn Fn(&Path);

/// Workloads that waited more often than they may. Without the rules that are tested here there are
/// hundreds of waits, or as many as files.
#[derive(Default)]
struct Verdict(Vec<String>);

impl Verdict {
    /// Works in a folder that `prepare` makes, and counts waits, and bytes that come. A busy
    /// machine spreads over several round trips what belongs to one, so the cheapest of some
    /// attempts counts, each in a folder of its own or on a mount that forgot everything.
    fn counted(
        &mut self,
        far: &Far,
        (what, most): (&str, usize),
        prepare: &dyn Fn(usize) -> PathBuf,
        work: Work<'_>,
    ) -> (usize, u64) {
        let mut cheapest = (usize::MAX, u64::MAX);
        for attempt in 0..ATTEMPTS {
            let dir = prepare(attempt);
            cheapest = cheapest.min(far.seen(what, || work(&dir)));
            if cheapest.0 <= most {
                return cheapest;
            }
        }
        self.0.push(format!("{what}: {} waits, not {most}", cheapest.0));
        cheapest
    }

    /// Works in a folder of which all is known. What was fetched ahead may still be on its way.
    fn asks_nobody(&mut self, far: &Far, what: &str, dir: &Path, work: Work<'_>) {
        let mut seen = (0..ATTEMPTS).map(|_| far.seen(what, || work(dir)));
        if !seen.any(|(waits, bytes)| waits <= WARM.0 && bytes <= WARM.1) {
            self.0.push(format!("{what}: not within {} waits and {} bytes", WARM.0, WARM.1));
        }
    }
}

/// The first near client makes files of so many bytes, and gives each to `keep`.
fn made(far: &Far, folder: &str, files: usize, bytes: usize, mut keep: impl FnMut(File)) {
    let dir = far.near().join(folder);
    fs::create_dir(&dir).expect("mkdir");
    for n in 0..files {
        let mut file = File::create(dir.join(format!("f{n:05}"))).expect("create");
        let text: Vec<u8> = (0..bytes).map(|at| (at * 31 + n) as u8).collect();
        file.write_all(&text).expect("write");
        keep(file);
    }
}

/// All near clients make many files at the same time, by turns, each of so many stripes; the files
/// that `is_kept` says stay open to write.
fn made_by_all(
    far: &Far,
    folder: &str,
    stripes: usize,
    is_kept: impl Fn(usize) -> bool + Sync,
) -> Vec<File> {
    let dir = far.near().join(folder);
    fs::create_dir(&dir).expect("mkdir");
    let mut lfs = Command::new(sheen());
    let status = lfs.args(["lfs", "setstripe", "-c", &stripes.to_string()]).arg(&dir).status();
    assert!(status.expect("sheen runs").success(), "setstripe");
    let (makers, is_kept) = (far.all_near(), &is_kept);
    std::thread::scope(|scope| {
        let make = |(first, mount): (usize, &Path)| {
            let dir = mount.join(folder);
            scope.spawn(move || {
                let mut kept = Vec::new();
                for n in (first..many()).step_by(makers.len()) {
                    let mut file = File::create(dir.join(format!("f{n:06}"))).expect("create");
                    file.write_all(&[b'x'; 100]).expect("write");
                    kept.extend(is_kept(n).then_some(file));
                }
                kept
            })
        };
        let mounts = makers.iter().map(|mount| mount.as_path()).enumerate();
        let threads: Vec<_> = mounts.map(make).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it makes files")).collect()
    })
}

/// A folder on the far client, which knows the way to it and nothing of what is in it, after what
/// was written is stored.
fn found(far: &Far, folder: &str) -> PathBuf {
    std::thread::sleep(STILL);
    let dir = far.far().join(folder);
    fs::metadata(&dir).expect("it is there");
    dir
}

/// A folder on the far client, which has forgotten everything.
fn found_anew(far: &Far, folder: &str) -> PathBuf {
    far.mount_anew();
    found(far, folder)
}

/// Works with a client far away, one test at a time: what another one does would spread what is
/// counted here.
fn far_away(work: impl FnOnce(&Far, &mut Verdict)) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(far) = Far::up(delay(), osts()) else { return };
    let mut verdict = Verdict::default();
    work(&far, &mut verdict);
    assert!(verdict.0.is_empty(), "{}", verdict.0.join("\n"));
}

#[test]
fn files_that_are_open_elsewhere_cost_no_waits() {
    far_away(open_elsewhere);
}

#[test]
fn copies_wait_rarely() {
    far_away(copies);
}

#[test]
fn files_on_the_mdt_cost_one_wait_at_most() {
    far_away(on_the_mdt);
}

#[test]
fn waits_do_not_grow_with_the_number_of_files() {
    far_away(listings);
}

#[test]
fn writers_of_quiet_files_cost_no_waits() {
    far_away(among_writers);
}

#[test]
fn files_that_are_being_appended_to_are_asked_for_together() {
    far_away(appended);
}

#[test]
fn a_tree_is_walked_with_few_waits() {
    far_away(tree);
}

fn open_elsewhere(far: &Far, verdict: &mut Verdict) {
    let open = RefCell::new(Vec::new());
    let prepare = |attempt| {
        open.borrow_mut().clear();
        let folder = format!("open{attempt}");
        made(far, &folder, 200, 1000, |file| open.borrow_mut().push(file));
        found(far, &folder)
    };
    let list = |dir: &Path| assert_eq!(sh(dir, "ls -l | grep -c ' 1000 '").trim(), "200");
    let dir = RefCell::new(PathBuf::new());
    let work = |at: &Path| {
        list(at);
        *dir.borrow_mut() = at.to_owned();
    };
    verdict.counted(far, ("ls -l of 200 open files", 6), &prepare, &work);
    let dir = dir.into_inner();
    verdict.asks_nobody(far, "the same again", &dir, &list);
    // What their maker writes next is seen at once.
    for (n, file) in open.into_inner().iter_mut().enumerate() {
        file.write_all(b"more").expect("write");
        if n % 40 == 0 {
            let seen = fs::metadata(dir.join(format!("f{n:05}"))).expect("stat");
            assert_eq!(seen.len(), 1004, "{n}");
        }
    }
    assert_eq!(sh(&dir, "ls -l | grep -c ' 1004 '").trim(), "200");
}

fn copies(far: &Far, verdict: &mut Verdict) {
    let here = tempfile::tempdir().expect("a folder");
    for (kind, files, bytes_each, most) in
        [("small", 400, 3 << 10, 50), ("large", 200, 200 << 10, 50)]
    {
        let prepare = |attempt| {
            let folder = format!("{kind}{attempt}");
            made(far, &folder, files, bytes_each, drop);
            found(far, &folder)
        };
        let what = format!("cp -r of {files} files of {} KB", bytes_each >> 10);
        let work = |dir: &Path| {
            let copy = here.path().join(dir.file_name().expect("a name"));
            _ = sh(dir, &format!("cp -r . {}", copy.display()));
        };
        let (_, bytes) = verdict.counted(far, (&what, most), &prepare, &work);
        let least = (files * bytes_each) as u64;
        assert!(bytes <= least * 5 / 4 + (1 << 20), "{bytes} bytes for {least}");
        let folder = format!("{kind}0");
        let sums = |dir: &Path| sh(&dir.join(&folder), "sha256sum *");
        assert_same(&what, &sums(here.path()), &sums(far.near()));
    }
}

/// Small files whose bytes live on the MDT.
fn on_the_mdt(far: &Far, verdict: &mut Verdict) {
    const FILES: usize = 200;
    const BYTES: usize = 8 << 10;
    let folder = |mount: &Path, name: &str| {
        let dir = mount.join(name);
        fs::create_dir(&dir).expect("mkdir");
        let mut lfs = Command::new(sheen());
        lfs.args(["lfs", "setstripe", "-E", "64K", "-L", "mdt", "-E", "-1", "-c", "1"]).arg(&dir);
        assert!(lfs.status().expect("sheen runs").success(), "setstripe");
        dir
    };
    let fill = |dir: &Path| {
        for n in 0..FILES {
            let text: Vec<u8> = (0..BYTES).map(|at| (at * 31 + n) as u8).collect();
            fs::write(dir.join(format!("f{n:05}")), text).expect("write");
        }
    };
    let here = tempfile::tempdir().expect("a folder");
    let prepare = |attempt| {
        let name = format!("on-mdt{attempt}");
        fill(&folder(far.near(), &name));
        found(far, &name)
    };
    let work = |dir: &Path| {
        let copy = here.path().join(dir.file_name().expect("a name"));
        _ = sh(dir, &format!("cp -r . {}", copy.display()));
    };
    let what = format!("cp -r of {FILES} files of {BYTES} bytes on the MDT");
    let (_, bytes) = verdict.counted(far, (&what, 30), &prepare, &work);
    let least = (FILES * BYTES) as u64;
    assert!(bytes <= least * 5 / 4 + (1 << 20), "{bytes} bytes for {least}");
    let sums = |dir: &Path| sh(&dir.join("on-mdt0"), "sha256sum *");
    assert_same(&what, &sums(here.path()), &sums(far.near()));
    // One wait for each, as in a directory of its own, and no lookup before it. What the far client
    // writes there does not come back to it.
    let prepare = |attempt| {
        let name = format!("made-on-mdt{attempt}");
        folder(far.near(), &name);
        let dir = far.far().join(name);
        fs::metadata(&dir).expect("it is there");
        // What the sums of the near client left for the background is over then.
        std::thread::sleep(STILL);
        dir
    };
    let work = |dir: &Path| {
        fill(dir);
        std::thread::sleep(STILL);
    };
    let what = format!("{FILES} files of {BYTES} bytes made on the MDT");
    let (_, bytes) = verdict.counted(far, (&what, FILES + FILES / 10), &prepare, &work);
    assert!(bytes < least / 2, "{bytes} bytes came for {least} that went");
}

/// Looks at all entries in a random order.
fn in_random_order(dir: &Path) {
    let names = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path());
    let mut paths: Vec<_> = names.collect();
    fastrand::Rng::with_seed(7).shuffle(&mut paths);
    let count = paths.iter().filter(|path| path.symlink_metadata().is_ok()).count();
    assert_eq!(count, many());
}

fn lists(dir: &Path) {
    // Lines of files of 100 bytes: attributes are those of now.
    assert_eq!(sh(dir, "ls -l | grep -c ' 100 '").trim(), many().to_string());
}

fn listings(far: &Far, verdict: &mut Verdict) {
    let script = |script: &'static str| move |dir: &Path| _ = sh(dir, script);
    let (names, sizes, blocks) =
        (script("ls -U | tail -n 1"), script("find . -size +1M"), script("du -s"));
    let mut cost = Vec::new();
    for stripes in [1, osts()] {
        let prepare = |attempt| {
            let folder = format!("stripes{stripes}.{attempt}");
            drop(made_by_all(far, &folder, stripes, |_| false));
            // What a mount knows it gives up for what is new, in requests that nothing waits for;
            // they would count.
            found_anew(far, &folder)
        };
        let what = format!("ls -l of {} files of {stripes} stripes", many());
        let (_, bytes) = verdict.counted(far, (&what, 10), &prepare, &lists);
        cost.push(bytes);
        if many() > INODES_KEPT {
            continue;
        }
        let dir = far.far().join(format!("stripes{stripes}.0"));
        lists(&dir);
        let works: [(&str, Work<'_>); 4] =
            [("ls -l", &lists), ("ls -U", &names), ("find -size", &sizes), ("du", &blocks)];
        for (command, work) in works {
            verdict.asks_nobody(far, &format!("{command} again"), &dir, work);
        }
    }
    // Stripes cost nothing: OSTs are not asked.
    assert!(cost[1] <= cost[0] * 21 / 20 + WARM.1, "{cost:?} bytes");
    let folder = "stripes1.0";
    let works: [(&str, usize, Work<'_>); 4] = [
        ("ls -U", 2, &names),
        ("find -size", 20, &sizes),
        ("du", 20, &blocks),
        ("stat in random order", 20, &in_random_order),
    ];
    for (command, most, work) in works {
        let what = format!("{command} of {} files", many());
        let prepare = |_| found_anew(far, folder);
        let (_, bytes) = verdict.counted(far, (&what, most), &prepare, work);
        if command == "ls -U" {
            // No attributes that no program wants, but for those of the first page.
            let most = (NAME_BYTES * many()) as u64 + (400 << 10);
            assert!(bytes <= most, "{bytes} bytes for names");
            verdict.asks_nobody(far, "ls -U again", &far.far().join(folder), work);
        }
    }
    // Whatever the number of files, git(1) looks at some 40 names in its own folder, one after the
    // other.
    let near = far.near().join(folder);
    sh(&near, "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm all");
    let elsewhere = tempfile::tempdir().expect("a folder");
    sh(&near, &format!("cp -r .git {}", elsewhere.path().display()));
    let git = "git --no-optional-locks -c safe.directory='*'";
    let status = |dir: &Path| assert_eq!(sh(dir, &format!("{git} status --porcelain")), "");
    let beside = |dir: &Path| {
        let folder = elsewhere.path().join(".git");
        let script =
            format!("{git} --git-dir={} --work-tree=. status --porcelain", folder.display());
        assert_eq!(sh(dir, &script), "");
    };
    let works: [(&str, usize, Work<'_>); 2] =
        [("git status", 64, &status), ("git status, its folder elsewhere", 20, &beside)];
    for (command, most, work) in works {
        let what = format!("{command}, of {} files", many());
        verdict.counted(far, (&what, most), &|_| found_anew(far, folder), work);
    }
    // Requests that give locks back do not wait for one another.
    let prepare = |_| {
        let dir = far.far().join(folder);
        lists(&dir);
        dir
    };
    // One after the other they would be a wait for each 1,024 files.
    let give = ("all locks are given back", 3 + many() / 10_000);
    verdict.counted(far, give, &prepare, &|_| far.give_all_back());
}

/// Some files are open to write on the client that made them.
fn among_writers(far: &Far, verdict: &mut Verdict) {
    let open = RefCell::new(Vec::new());
    let prepare = |attempt| {
        let folder = format!("written{attempt}");
        open.replace(made_by_all(far, &folder, 1, |n| n % (many() / OPEN).max(1) == 0));
        found(far, &folder)
    };
    let what = format!("ls -l of {} files, {OPEN} open to write", many());
    verdict.counted(far, (&what, 10), &prepare, &lists);
    let dir = far.far().join("written0");
    if open.borrow().is_empty() {
        panic!("none is open");
    }
    lists(&dir);
    verdict.asks_nobody(far, "ls -l again", &dir, &lists);
}

/// One program appends to all files of a directory by turns, all the time.
fn appended(far: &Far, verdict: &mut Verdict) {
    let (stop, appends) = (AtomicBool::new(false), AtomicU64::new(0));
    let lengths = Mutex::new(vec![1_u64; APPENDED]);
    let mut files = Vec::new();
    made(far, "appended", APPENDED, 1, |file| files.push(file));
    let dir = found(far, "appended");
    std::thread::scope(|scope| {
        let append = || {
            let mut worst = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                for (n, file) in files.iter_mut().enumerate() {
                    let began = Instant::now();
                    file.write_all(b"x").expect("append");
                    worst = worst.max(began.elapsed());
                    lengths.lock().expect("no panic")[n] += 1;
                    appends.fetch_add(1, Ordering::Relaxed);
                }
            }
            worst
        };
        let writer = scope.spawn(append);
        let written = |by: &str| {
            // In a debug build of a busy machine an append takes a while.
            eprintln!("{by}: {} appends", appends.load(Ordering::Relaxed));
        };
        let list = |dir: &Path| {
            // Each file is as long as it was before it was looked at, or longer.
            let before = lengths.lock().expect("no panic").clone();
            let listed = sh(dir, "ls -l");
            let sizes = listed.lines().skip(1).map(|line| {
                let mut words = line.split_whitespace();
                let size = words.nth(4).and_then(|word| word.parse::<u64>().ok());
                size.unwrap_or_else(|| panic!("no size in {line}"))
            });
            let sizes: Vec<u64> = sizes.collect();
            assert_eq!(sizes.len(), APPENDED);
            for (n, (size, before)) in sizes.iter().zip(&before).enumerate() {
                assert!(
                    size >= before,
                    "file {n} was {before} bytes long, and is shown with {size}"
                );
            }
        };
        written("before");
        let what = format!("ls -l of {APPENDED} files that are being appended to");
        // 13 where the program finds the machine free; without it, more than four for each file. A
        // program that is held up looks at fewer in the time that the writers pause.
        let most = APPENDED / 2;
        verdict.counted(far, (&what, most), &|_| dir.clone(), &list);
        written("after");
        stop.store(true, Ordering::Relaxed);
        let worst = writer.join().expect("it appends");
        eprintln!("the longest append took {worst:.2?}");
    });
}

fn tree(far: &Far, verdict: &mut Verdict) {
    let top = far.near().join("tree");
    for n in 0..directories() {
        let dir = top.join(format!("d{}/e{n:05}", n / WIDTH));
        fs::create_dir_all(&dir).expect("mkdir");
        for file in 0..FILES_OF_EACH {
            File::create(dir.join(format!("f{file}"))).expect("create");
        }
    }
    let dir = far.far().join("tree");
    for script in ["find . -size +1M", "ls -lR | tail -n 1", "du -s"] {
        let what = format!("{script} in {} directories", directories());
        let work = |dir: &Path| _ = sh(dir, script);
        verdict.counted(far, (&what, 40), &|_| found_anew(far, "tree"), &work);
        verdict.asks_nobody(far, &format!("{script} again"), &dir, &work);
    }
}
