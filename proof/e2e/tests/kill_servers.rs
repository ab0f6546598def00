//! Servers are killed (SIGKILL) and started again, in random order, while two clients on hosts of their own work: no
//! program sees an error, and nothing that was answered is missing.
//!
//! `KILLS` sets how many (20), `KILLS_SEED` repeats an order. The time from a kill until the next operation that begins
//! after it is answered is printed as a histogram: `cargo test -p e2e --test kill_servers -- --nocapture`.

use e2e::can_mount;
use e2e::many::{Client, Many};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Longest stall that is tolerated for any single kill: a restart, and two clients that come back.
const STALL_MAX: Duration = Duration::from_secs(20);

/// When operations began and ended.
type Spans = Arc<Mutex<Vec<(Instant, Instant)>>>;

/// What a worker knows to be there.
type Expected = BTreeMap<PathBuf, Vec<u8>>;

/// One kind of work on a mount.
type Load = fn(Work) -> Expected;

struct Work {
    dir: PathBuf,
    stop: Arc<AtomicBool>,
    spans: Spans,
    rng: fastrand::Rng,
}

impl Work {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn timed<T>(&self, what: &str, work: impl FnOnce() -> std::io::Result<T>) -> T {
        let began = Instant::now();
        let done = work().unwrap_or_else(|error| panic!("{what} in {}: {error}", self.dir.display()));
        self.spans.lock().unwrap().push((began, Instant::now()));
        done
    }

    /// Files come, change their names, get links and go.
    fn names(mut self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let mut known: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        let mut next = 0u64;
        while self.goes_on() {
            match self.rng.u32(0..10) {
                0..5 => {
                    next += 1;
                    let (path, text) = (self.dir.join(format!("f{next}")), next.to_string().into_bytes());
                    self.timed("create", || fs::write(&path, &text));
                    known.push((path, text));
                }
                5..7 if !known.is_empty() => {
                    let at = self.rng.usize(0..known.len());
                    next += 1;
                    let to = self.dir.join(format!("r{next}"));
                    self.timed("rename", || fs::rename(&known[at].0, &to));
                    known[at].0 = to;
                }
                7 if !known.is_empty() => {
                    let at = self.rng.usize(0..known.len());
                    next += 1;
                    let to = self.dir.join(format!("l{next}"));
                    self.timed("link", || fs::hard_link(&known[at].0, &to));
                    let text = known[at].1.clone();
                    known.push((to, text));
                }
                8 if !known.is_empty() => {
                    let at = self.rng.usize(0..known.len());
                    let (path, text) = &known[at];
                    let read = self.timed("read", || fs::read(path));
                    assert_eq!(read, *text, "{}", path.display());
                }
                _ if known.len() > 40 => {
                    let (path, _) = known.swap_remove(self.rng.usize(0..known.len()));
                    self.timed("unlink", || fs::remove_file(&path));
                }
                _ => {}
            }
            thread::sleep(Duration::from_millis(2));
        }
        known.into_iter().collect()
    }

    /// A file that grows, is synced now and then, and is read back; the file before it is removed while it is open.
    fn data(mut self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let (mut known, mut round) = (Expected::new(), 0u32);
        while self.goes_on() {
            round += 1;
            let path = self.dir.join(format!("d{}", round % 8));
            if known.remove(&path).is_some() {
                self.timed("unlink", || fs::remove_file(&path));
            }
            let mut file = self.timed("create", || File::create_new(&path));
            let mut text = Vec::new();
            for part in 0..self.rng.u32(1..6) {
                let bytes = vec![(round + part) as u8; self.rng.usize(1..200_000)];
                self.timed("write", || file.write_all(&bytes));
                text.extend(bytes);
                if self.rng.bool() {
                    self.timed("fsync", || file.sync_all());
                }
            }
            let read = self.timed("read", || fs::read(&path));
            assert!(read == text, "{} has not what was written", path.display());
            known.insert(path, text);
            thread::sleep(Duration::from_millis(2));
        }
        known
    }

    /// An open file without a name stays as it is, and a lock on it is held.
    fn orphan(self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let path = self.dir.join("gone");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).expect("create");
        file.write_all(b"still here").expect("write");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("flock");
        fs::remove_file(&path).expect("unlink");
        while self.goes_on() {
            let read = self.timed("read of an unlinked file", || {
                use std::os::unix::fs::FileExt;
                let mut bytes = [0; 10];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes)
            });
            assert_eq!(&read, b"still here");
            let meta = self.timed("fstat of an unlinked file", || file.metadata());
            assert_eq!(meta.len(), 10);
            thread::sleep(Duration::from_millis(20));
        }
        let mut rest = Vec::new();
        std::io::Seek::rewind(&mut file).expect("seek");
        file.read_to_end(&mut rest).expect("read");
        assert_eq!(rest, b"still here");
        Expected::new()
    }
}

fn check(expected: &Expected, from: &Path, to: &Path) {
    for (path, text) in expected {
        let path = to.join(path.strip_prefix(from).expect("a path of the mount"));
        let read = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(read == *text, "{} is not what was answered: {} bytes, not {}", path.display(), read.len(), text.len());
    }
}

fn histogram(mut stalls: Vec<(Duration, &'static str)>) {
    stalls.sort_unstable();
    let at = |percent: usize| stalls[(stalls.len() - 1) * percent / 100].0;
    println!("stall from the kill to the next answer, {} kills and clients:", stalls.len());
    for bound in [50, 100, 200, 300, 500, 700, 1_000, 1_500, 3_000, 10_000, 30_000u64] {
        let limit = Duration::from_millis(bound);
        let count = stalls.iter().filter(|(stall, _)| *stall <= limit).count();
        let bar = "#".repeat(count * 50 / stalls.len());
        println!("  <= {bound:>6} ms {count:>6} {bar}");
        if count == stalls.len() {
            break;
        }
    }
    let worst = stalls.last().expect("a kill");
    println!("p50 {:?}, p90 {:?}, p99 {:?}, worst {:?} ({})", at(50), at(90), at(99), worst.0, worst.1);
}

#[test]
fn nobody_sees_that_servers_are_killed() {
    if !can_mount() {
        return;
    }
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let (kills, seed) = (number("KILLS", 20), number("KILLS_SEED", fastrand::u64(..)));
    println!("KILLS_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
    let mounts = [dir.path().join("mnt0"), dir.path().join("mnt1")];
    let client = |mount: &PathBuf| Client { mount: mount.clone(), options: String::new() };
    let Some(mut many) = Many::up(&dir.path().join("fs"), mounts.iter().map(client).collect(), "2") else { return };

    let stop = Arc::new(AtomicBool::new(false));
    let spans: Vec<Spans> = mounts.iter().map(|_| Spans::default()).collect();
    let mut workers = Vec::new();
    for (n, mount) in mounts.iter().enumerate() {
        let kinds: [(&str, Load); 3] = [("names", Work::names), ("data", Work::data), ("orphan", Work::orphan)];
        for (kind, work) in kinds {
            let it = Work {
                dir: mount.join(format!("{kind}{n}")),
                stop: stop.clone(),
                spans: spans[n].clone(),
                rng: rng.fork(),
            };
            workers.push((mount.clone(), thread::spawn(move || work(it))));
        }
    }
    thread::sleep(Duration::from_secs(1));
    let mut killed = Vec::new();
    for _ in 0..kills {
        if workers.iter().any(|(_, worker)| worker.is_finished()) {
            // One of them has failed; its message comes with its join.
            break;
        }
        let at = rng.usize(0..many.server_count());
        let when = Instant::now();
        many.kill_server(at);
        many.start_server_again(at);
        killed.push((when, many.server_name(at)));
        thread::sleep(Duration::from_millis(rng.u64(200..1500)));
    }
    thread::sleep(Duration::from_secs(2));
    stop.store(true, Ordering::Relaxed);
    let mut found = Vec::new();
    for (mount, worker) in workers {
        match worker.join() {
            Ok(expected) => found.push((mount, expected)),
            Err(failure) => {
                eprintln!("{}", many.logs());
                std::panic::resume_unwind(failure);
            }
        }
    }
    for (mount, expected) in &found {
        mounts.iter().for_each(|at| check(expected, mount, at));
    }
    let mut stalls = Vec::new();
    for (when, name) in killed {
        for spans in &spans {
            let spans = spans.lock().unwrap();
            let next = spans.iter().filter(|(began, _)| *began >= when).map(|(_, ended)| *ended - when).min();
            stalls.push((next.unwrap_or(Duration::MAX), name));
        }
    }
    histogram(stalls.clone());
    let worst = stalls.iter().max().expect("a kill");
    assert!(worst.0 < STALL_MAX, "{:?} without an answer after {} was killed", worst.0, worst.1);
    many.stop();
}
