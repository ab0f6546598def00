//! What a client far away from its servers waits for, counted at the network card of its host. The
//! files are made by another client, which is near the servers and keeps what it holds.

use e2e::far::Far;
use e2e::programs::{assert_same, sh};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// There and back.
const DELAY: Duration = Duration::from_millis(60);
/// Files of a large directory.
const MANY: usize = 5_000;
/// Bytes of their names in a listing, about.
const NAMES_BYTES: u64 = 40 * MANY as u64;
/// By then what was written is stored and reported, and a file that is open and was not written
/// since lies still.
const STILL: Duration = Duration::from_millis(2500);

/// What is done in a directory, how often it may wait, and how it is done.
type Workload<'a> = (&'static str, usize, &'a dyn Fn(&Path));

/// Workloads that waited more often than they may. The bounds leave room for what a loaded machine
/// sends in the background; without the rules that are tested here there are hundreds of waits, or
/// as many as files.
#[derive(Default)]
struct Verdict(Vec<String>);

impl Verdict {
    fn at_most(&mut self, most: usize, what: &str, waits: usize) {
        if waits > most {
            self.0.push(format!("{what}: {waits} waits, not {most}"));
        }
    }
}

/// The near client makes files of so many bytes, and gives each to `keep`.
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

/// The far client knows the way to a folder, and nothing of what is in it.
fn found(far: &Far, folder: &str) {
    fs::metadata(far.far().join(folder)).expect("it is there");
}

#[test]
fn waits_do_not_grow_with_the_number_of_files() {
    let Some(far) = Far::up(DELAY) else { return };
    let mut verdict = Verdict::default();
    open_elsewhere(&far, &mut verdict);
    copies(&far, &mut verdict);
    listings(&far, &mut verdict);
    assert!(verdict.0.is_empty(), "{}", verdict.0.join("\n"));
}

fn open_elsewhere(far: &Far, verdict: &mut Verdict) {
    let mut open = Vec::new();
    made(far, "open", 200, 1000, |file| open.push(file));
    std::thread::sleep(STILL);
    found(far, "open");
    let list = || sh(far.far(), "ls -l open | grep -c ' 1000 '");
    for (what, most) in [("ls -l of 200 open files", 6), ("the same again", 4)] {
        let (waits, _) = far.seen(what, || assert_eq!(list().trim(), "200"));
        verdict.at_most(most, what, waits);
    }
    // What their maker writes next is seen at once.
    for (n, file) in open.iter_mut().enumerate() {
        file.write_all(b"more").expect("write");
        if n % 40 == 0 {
            let seen = fs::metadata(far.far().join(format!("open/f{n:05}"))).expect("stat");
            assert_eq!(seen.len(), 1004, "{n}");
        }
    }
    assert_eq!(sh(far.far(), "ls -l open | grep -c ' 1004 '").trim(), "200");
}

fn copies(far: &Far, verdict: &mut Verdict) {
    let here = tempfile::tempdir().expect("a folder");
    for (folder, files, bytes_each, most) in
        [("small", 400, 3 << 10, 50), ("large", 200, 200 << 10, 50)]
    {
        made(far, folder, files, bytes_each, drop);
        std::thread::sleep(STILL);
        found(far, folder);
        let what = format!("cp -r of {files} files of {} KB", bytes_each >> 10);
        let copy = here.path().join(folder);
        let script = format!("cp -r {folder} {}", copy.display());
        let (waits, bytes) = far.seen(&what, || _ = sh(far.far(), &script));
        let least = (files * bytes_each) as u64;
        assert!(bytes <= least * 5 / 4 + (1 << 20), "{bytes} bytes for {least}");
        verdict.at_most(most, &what, waits);
        let sums = |dir: &Path| sh(dir, "sha256sum *");
        assert_same(&what, &sums(&copy), &sums(&far.near().join(folder)));
    }
}

fn listings(far: &Far, verdict: &mut Verdict) {
    let script = |script: &'static str| move |dir: &Path| _ = sh(dir, script);
    let anyhow = |dir: &Path| {
        let names = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path());
        let mut paths: Vec<_> = names.collect();
        fastrand::Rng::with_seed(7).shuffle(&mut paths);
        let count = paths.iter().filter(|path| path.symlink_metadata().is_ok()).count();
        assert_eq!(count, MANY);
    };
    let workloads: [Workload<'_>; 5] = [
        ("ls -U", 6, &script("ls -U | tail -n 1")),
        ("ls -l", 12, &script("ls -l | tail -n 1")),
        ("find -size", 16, &script("find . -size +1M")),
        ("du", 16, &script("du -s")),
        ("stat in random order", 16, &anyhow),
    ];
    for (n, (what, most, work)) in workloads.into_iter().enumerate() {
        let folder = format!("many{n}");
        made(far, &folder, MANY, 0, drop);
        found(far, &folder);
        let what = format!("{what} of {MANY} files");
        let (waits, bytes) = far.seen(&what, || work(&far.far().join(&folder)));
        verdict.at_most(most, &what, waits);
        if n == 0 {
            // No attributes that no program wants, but for those of the first page.
            assert!(bytes <= NAMES_BYTES + (400 << 10), "{bytes} bytes for names");
        }
    }
}
