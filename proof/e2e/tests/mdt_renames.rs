//! Clients rename directories at random among six, also into each other, over four MDTs, while
//! clients hang (SIGSTOP) or are cut off the network for some seconds. There is always a tree, and
//! no client waits longer for another one than its lease and 5 s. What waits can be asked for the
//! cause (docs/dne.md, section 9).
//!
//! `RENAMES_SECONDS` sets how long it goes on (20), `KILLS_SEED` repeats the choices,
//! `KILLS_REPORT` names a file for the figures. From 120 s on some harms last longer than a lease:
//! `RENAMES_SECONDS=600 cargo test -p e2e --test mdt_renames -- --nocapture`.

use e2e::kills::Kills;
use e2e::lustre::lfs;
use e2e::many::Many;
use e2e::process::text;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MDTS: usize = 4;
const CLIENTS: usize = 3;
const DIRECTORIES: usize = 6;
/// Threads that rename, of each client.
const MOVERS: usize = 2;
/// All rest so often, and the tree is looked at.
const ROUND: Duration = Duration::from_secs(10);
/// A client that is not heard of for so long is evicted (`types::limits::LEASE`).
const LEASE: Duration = Duration::from_secs(30);
/// No other client waits longer.
const WAIT_MAX: Duration = LEASE.saturating_add(Duration::from_secs(5));
/// How long a client is silent, milliseconds.
const HARM_MS: std::ops::Range<u64> = 500..6000;
/// At times in long runs: it is evicted.
const LONG_HARM_MS: std::ops::Range<u64> = 33_000..40_000;
/// Runs of so many seconds have some of these.
const LONG_RUN: u64 = 120;
/// A wait of this age is asked for its cause, which is told from one second on.
const ASKED: Duration = Duration::from_millis(1500);
/// A wait that is longer must have shown its cause once.
const SHOWN: Duration = Duration::from_secs(6);

/// One rename that a mover is in, or was.
#[derive(Clone)]
struct Span {
    client: usize,
    began: Instant,
    ended: Option<Instant>,
    /// What it came to.
    errno: Option<i32>,
    what: String,
    /// The thread.
    tid: i32,
    /// `sheen why` told its cause.
    shown: bool,
}

/// The operations of one mover, in order.
type Spans = Arc<Mutex<Vec<Span>>>;

/// A time in which a client was silent.
#[derive(Clone, Copy)]
struct Harm {
    client: usize,
    began: Instant,
    ended: Instant,
}

struct Mover {
    client: usize,
    mount: PathBuf,
    stop: Arc<AtomicBool>,
    spans: Spans,
    rng: fastrand::Rng,
}

/// By name, where each of the directories is. `list` lists the names in a directory, given relative
/// to the root. While others move, some may be missing.
///
/// # Errors
/// Whatever a listing says, but that a directory has gone elsewhere.
fn tree(list: impl Fn(&Path) -> io::Result<Vec<String>>) -> io::Result<BTreeMap<String, PathBuf>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(dir) = left.pop() {
        let names = match list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names?,
        };
        for name in names.into_iter().filter(|name| name.starts_with('d')) {
            if dir.components().count() <= DIRECTORIES {
                left.push(dir.join(&name));
                found.insert(name.clone(), dir.join(&name));
            }
        }
    }
    Ok(found)
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().expect("text"));
    fs::read_dir(dir)?.map(name).collect()
}

impl Mover {
    fn work(mut self) {
        let mut known = BTreeMap::new();
        while !self.stop.load(Ordering::Relaxed) {
            if known.len() < DIRECTORIES {
                let list = |dir: &Path| {
                    self.noted(format!("list {}", dir.display()), |m| names(&m.mount.join(dir)))
                };
                known = tree(list).unwrap_or_default();
            }
            let Some((name, from)) = self.rng.choice(&known).map(|(n, f)| (n.clone(), f.clone()))
            else {
                continue;
            };
            let other = self.rng.choice(known.values()).cloned().expect("some");
            // Each seventh goes to the root.
            let to = if self.rng.usize(0..=DIRECTORIES) == 0 { PathBuf::new() } else { other };
            let to = to.join(&name);
            let what = format!("{} -> {}", from.display(), to.display());
            match self.noted(what, |m| fs::rename(m.mount.join(&from), m.mount.join(&to))) {
                Ok(()) => {
                    // What is below went along.
                    for path in known.values_mut() {
                        if let Ok(below) = path.strip_prefix(&from).map(Path::to_path_buf) {
                            *path = to.components().chain(below.components()).collect();
                        }
                    }
                }
                // Into itself, or below itself.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                // Another has moved it.
                Err(_) => known.clear(),
            }
        }
    }

    /// Does it, and notes when and how.
    fn noted<T>(&self, what: String, work: impl FnOnce(&Mover) -> io::Result<T>) -> io::Result<T> {
        let began = Instant::now();
        let (client, ended) = (self.client, None);
        // SAFETY: gettid has no preconditions.
        let tid = unsafe { libc::gettid() };
        let span = Span { client, began, ended, errno: None, what, tid, shown: false };
        self.spans.lock().expect("no panic").push(span);
        let result = work(self);
        let mut spans = self.spans.lock().expect("no panic");
        let span = spans.last_mut().expect("it was pushed");
        span.ended = Some(Instant::now());
        span.errno = result.as_ref().err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
        result
    }
}

/// It is a tree: all directories are found from the root, each once, as they were made.
fn assert_tree(mounts: &[PathBuf], inodes: &BTreeMap<String, u64>) {
    let mut seen: Vec<BTreeMap<String, PathBuf>> = Vec::new();
    for mount in mounts {
        let found = tree(|dir| names(&mount.join(dir))).expect("walk");
        let numbers: BTreeMap<String, u64> = found
            .iter()
            .map(|(name, path)| (name.clone(), fs::metadata(mount.join(path)).expect("stat").ino()))
            .collect();
        assert_eq!(&numbers, inodes, "{}: {found:?}", mount.display());
        for (name, path) in &found {
            assert_eq!(&fs::read_to_string(mount.join(path).join("file")).expect("read"), name);
            let above = mount.join(path).parent().expect("a path").to_owned();
            assert_eq!(
                fs::metadata(mount.join(path).join("..")).expect("stat").ino(),
                fs::metadata(above).expect("stat").ino(),
                "the directory above {name}"
            );
            let below = found.values().filter(|other| other.parent() == Some(path)).count();
            let links = fs::metadata(mount.join(path)).expect("stat").nlink();
            assert_eq!(links, 2 + below as u64, "links of {name}: {found:?}");
        }
        seen.push(found);
    }
    assert!(seen.windows(2).all(|two| two[0] == two[1]), "{seen:?}");
}

/// Asks for the causes of what waits, until it is told to stop. How often it asked about a wait,
/// and how often there was a cause.
fn ask(many: &Many, all: &[Spans], silent: &Mutex<Option<usize>>, stop: &AtomicBool) -> (u64, u64) {
    let (mut asked, mut told) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(300));
        let now = Instant::now();
        // (mover, number of its operation) of those that wait. A client that is silent itself
        // cannot be asked.
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        let silent_now = *silent.lock().expect("no panic");
        for (mover, spans) in all.iter().enumerate() {
            let spans = spans.lock().expect("no panic");
            if let Some(last) = spans.last()
                && last.ended.is_none()
                && now - last.began > ASKED
                && silent_now != Some(last.client)
            {
                waiting.push((mover, spans.len() - 1));
            }
        }
        if waiting.is_empty() {
            continue;
        }
        let output = many.sheen(&["why", "--json"]);
        let chains: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("JSON, also if nothing waits");
        let mounts = many.mounts();
        for (mover, number) in waiting {
            let mut spans = all[mover].lock().expect("no panic");
            // It has ended meanwhile.
            if spans[number].ended.is_some() {
                continue;
            }
            asked += 1;
            let at = mounts[spans[number].client].to_str().expect("text");
            let named = chains.as_array().expect("a list").iter().any(|chain| {
                let has = |key: &str| chain[key].as_array().is_some_and(|list| !list.is_empty());
                chain["at"] == at && (has("steps") || has("holders"))
            });
            told += u64::from(named);
            spans[number].shown |= named;
            if !named {
                let Span { began, client, what, tid, .. } = &spans[number];
                let waits = fs::read_to_string(format!("/proc/self/task/{tid}/wchan"));
                println!(
                    "no cause after {:.1?}: client {client}: {what}: in {waits:?}: {}",
                    began.elapsed(),
                    text(&output)
                );
            }
        }
    }
    (asked, told)
}

/// What all came to.
#[derive(Default)]
struct Figures {
    renames: u64,
    refused: u64,
    gone: u64,
    stale: u64,
    /// By errno, other errors of clients that were evicted.
    evicted: BTreeMap<i32, u64>,
    waited: u64,
    longest: Duration,
}

impl Figures {
    fn take(&mut self, spans: &[Span], harms: &[Harm]) {
        for span in spans {
            let ended = span.ended.expect("it has ended");
            let took = ended - span.began;
            let mine = |harm: &&Harm| {
                let own = harm.client == span.client;
                // After a time without its servers it connects again.
                own && harm.began < ended && harm.ended + WAIT_MAX > span.began
            };
            let long = |harm: &Harm| harm.ended - harm.began > LEASE - Duration::from_secs(5);
            match span.errno {
                None if span.what.starts_with("list ") => {}
                None => self.renames += 1,
                Some(libc::EINVAL) => self.refused += 1,
                Some(libc::ENOENT) => self.gone += 1,
                // The kernel's answer if a directory that another client has moved is looked up
                // while a rename of this mount is under way (`__d_unalias`).
                Some(libc::ESTALE) => self.stale += 1,
                Some(errno) => {
                    let evicted = harms.iter().filter(mine).any(long);
                    assert!(evicted, "{}: errno {errno} after {took:?}", span.what);
                    *self.evicted.entry(errno).or_default() += 1;
                }
            }
            // What a silent client itself waits is its silence.
            let own: Duration = harms
                .iter()
                .filter(mine)
                .map(|harm| {
                    harm.ended.min(ended).saturating_duration_since(harm.began.max(span.began))
                })
                .sum();
            let waited = took.saturating_sub(own);
            assert!(waited < WAIT_MAX, "{} of client {}: {took:?}", span.what, span.client);
            self.waited += u64::from(waited > Duration::from_secs(1));
            self.longest = self.longest.max(waited);
            let silent = harms.iter().filter(mine).count() > 0;
            assert!(
                span.shown || silent || waited < SHOWN,
                "{} of client {} waited {waited:?} without a cause",
                span.what,
                span.client
            );
        }
    }
}

#[test]
fn renames_of_directories_keep_a_tree_and_wait_for_no_silent_client_for_long() {
    let Some(kills) = Kills::<CLIENTS>::up_with_clients(0, MDTS) else { return };
    let Kills { seed, mut rng, mounts, dir: _dir, mut many, .. } = kills;
    let seconds = std::env::var("RENAMES_SECONDS").map_or(20, |s| s.parse().expect("a number"));
    let mut inodes = BTreeMap::new();
    for n in 0..DIRECTORIES {
        let name = format!("d{n}");
        lfs(&mounts[0], &["mkdir", "-i", &(n % MDTS).to_string(), &name]);
        fs::write(mounts[0].join(&name).join("file"), &name).expect("write");
        inodes.insert(name.clone(), fs::metadata(mounts[0].join(&name)).expect("stat").ino());
    }
    let (began, mut figures) = (Instant::now(), Figures::default());
    let (mut harms, mut asked, mut told) = (Vec::new(), 0, 0);
    let mut worked = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(seconds) {
        let stop = Arc::new(AtomicBool::new(false));
        let (stop_asking, silent) = (AtomicBool::new(false), Mutex::new(None));
        let mut all: Vec<Spans> = Vec::new();
        let mut movers = Vec::new();
        for (client, mount) in mounts.iter().enumerate() {
            for _ in 0..MOVERS {
                let spans = Spans::default();
                all.push(spans.clone());
                let (mount, stop, rng) = (mount.clone(), stop.clone(), rng.fork());
                let mover = Mover { client, mount, stop, spans, rng };
                movers.push(thread::spawn(move || mover.work()));
            }
        }
        let round = Instant::now();
        let mut this_round = Vec::new();
        thread::scope(|scope| {
            let asks = scope.spawn(|| ask(&many, &all, &silent, &stop_asking));
            while round.elapsed() < ROUND {
                thread::sleep(Duration::from_millis(rng.u64(100..1500)));
                let client = rng.usize(0..CLIENTS);
                let long = seconds >= LONG_RUN && rng.u32(0..8) == 0;
                let range = if long { LONG_HARM_MS } else { HARM_MS };
                let (time, hangs) = (Duration::from_millis(rng.u64(range)), rng.bool());
                *silent.lock().expect("no panic") = Some(client);
                let began = Instant::now();
                if hangs {
                    many.suspend_client(client);
                } else {
                    many.cut_client(client);
                }
                thread::sleep(time);
                if hangs {
                    many.resume_client(client);
                } else {
                    many.heal_client(client);
                }
                this_round.push(Harm { client, began, ended: Instant::now() });
                *silent.lock().expect("no panic") = None;
            }
            worked += round.elapsed();
            stop.store(true, Ordering::Relaxed);
            let end = Instant::now();
            let works = || movers.iter().any(|mover| !mover.is_finished());
            while works() && end.elapsed() < 2 * WAIT_MAX {
                thread::sleep(Duration::from_millis(20));
            }
            stop_asking.store(true, Ordering::Relaxed);
            let (more, of_them) = asks.join().expect("it asks");
            asked += more;
            told += of_them;
        });
        let hangs = movers.iter().any(|mover| !mover.is_finished());
        assert!(!hangs, "renames hang: {}\n{}", text(&many.sheen(&["why"])), many.logs());
        movers.into_iter().for_each(|mover| mover.join().expect("a mover ends"));
        for spans in &all {
            figures.take(&spans.lock().expect("no panic"), &this_round);
        }
        harms.extend(this_round);
        assert_tree(&mounts, &inodes);
        let checked = many.fsck(&[]);
        assert!(checked.status.success(), "{}", text(&checked));
    }
    let mut report = format!(
        "KILLS_SEED={seed}: {seconds} s; {} renames of directories, {:.1} a second; {} refused \
         (EINVAL), {} times another was first, {} times ESTALE; {} times a client was silent; {} waits of more than \
         a second, the longest {:.1?}; {told} of {asked} questions were answered with a cause\n",
        figures.renames,
        figures.renames as f64 / worked.as_secs_f64(),
        figures.refused,
        figures.gone,
        figures.stale,
        harms.len(),
        figures.waited,
        figures.longest,
    );
    for (errno, count) in &figures.evicted {
        let error = io::Error::from_raw_os_error(*errno);
        writeln!(report, "  {count} times on clients that were evicted: {error}").expect("text");
    }
    assert!(figures.renames > 0, "{report}");
    many.stop();
    let checked = many.fsck_at_rest(&[]);
    assert!(checked.status.success(), "{}", text(&checked));
    Kills::report(&report);
}
