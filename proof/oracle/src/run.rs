//! Rounds of random operations by many threads on several mounts; each round is checked before the
//! next one begins.
//!
//! The seed decides what each thread tries, and how small the name space of each round is; the
//! machine decides what comes first. A round ends with an audit: everything is read once more
//! through every mount, while nothing changes.

use crate::accessed;
use crate::check::{Findings, check_history};
use crate::history::{Answer, Place, Record, SLOT};
use crate::mapped::{self, Words};
use crate::perform::{Doing, Open, Performer};
use crate::split::NAMES_MAX;
use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Files that one thread keeps open.
const OPEN_FILES_MAX: usize = 4;
/// Directories that one thread keeps open.
const OPEN_DIRS_MAX: usize = 2;
/// Slots that writes and truncates reach.
const SLOTS: u64 = 24;
/// A file longer than this gets no appends from threads that know it, slots.
const LONG: u64 = 96;
/// The audit reads so many slots of each file.
const AUDIT_SLOTS: u64 = 2048;
/// Operations of one thread in one round: bounds memory.
const OPERATIONS_MAX: usize = 200_000;
/// An operation that takes longer than this hangs: no lease or time-out is that long.
const HANGS: Duration = Duration::from_secs(150);

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Mounts of one and the same file system.
    pub mounts: Vec<PathBuf>,
    /// Folder within it, made if it is not there.
    pub folder: String,
    pub seed: u64,
    /// Time for all rounds without their checks.
    pub time: Duration,
    /// Time for one round.
    pub round: Duration,
    /// Threads in all, spread over the mounts.
    pub threads: usize,
    /// Kinds of operation that are left out.
    pub without: Vec<Kind>,
    /// The mounts report what is open: they have `flock`, not `localflock` or `noflock`.
    pub opens_told: bool,
}

/// Kinds of operation, for [`Plan::without`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum Kind {
    Create,
    Open,
    Opendir,
    Unlink,
    Mkdir,
    Rmdir,
    Rename,
    Link,
    Stat,
    List,
    Inside,
    Fstat,
    Read,
    Write,
    Append,
    Truncate,
    Chmod,
    Setxattr,
    Getxattr,
    Removexattr,
    Fsync,
    Close,
    Lock,
    Load,
    Store,
    Readword,
    Copy,
    Fork,
    Fstatdir,
    Listdir,
    Chmoddir,
}

impl Kind {
    /// The kind of this name, as the command line has it.
    pub fn named(name: &str) -> Option<Kind> {
        clap::ValueEnum::from_str(name, false).ok()
    }
}

/// How often each kind is tried, and whether it needs an open file (else it works on names).
const WEIGHTS: [(Kind, u32); 31] = [
    (Kind::Create, 10),
    (Kind::Open, 12),
    (Kind::Opendir, 4),
    (Kind::Unlink, 6),
    (Kind::Mkdir, 4),
    (Kind::Rmdir, 3),
    (Kind::Rename, 7),
    (Kind::Link, 4),
    (Kind::Stat, 14),
    (Kind::List, 4),
    (Kind::Inside, 5),
    (Kind::Fstat, 10),
    (Kind::Read, 20),
    (Kind::Write, 14),
    (Kind::Append, 8),
    (Kind::Truncate, 4),
    (Kind::Chmod, 4),
    (Kind::Setxattr, 4),
    (Kind::Getxattr, 6),
    (Kind::Removexattr, 2),
    (Kind::Fsync, 2),
    (Kind::Close, 6),
    (Kind::Lock, 8),
    (Kind::Load, 6),
    (Kind::Store, 4),
    (Kind::Readword, 2),
    (Kind::Copy, 3),
    (Kind::Fork, 1),
    (Kind::Fstatdir, 5),
    (Kind::Listdir, 3),
    (Kind::Chmoddir, 2),
];

/// Result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub operations: usize,
    pub rounds: usize,
    pub objects: usize,
    /// Violations in words; the run ends with the round that has the first.
    pub violations: Vec<String>,
    /// Objects on which the search gave up.
    pub undecided: Vec<String>,
    /// The history of the round with the violations.
    pub history: Vec<Record>,
}

/// Why a run could not be carried through.
#[derive(Debug)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Size of the name space of one round.
#[derive(Clone, Copy, Debug)]
struct Arena {
    dirs: u8,
    names: u8,
}

impl Arena {
    fn places(self) -> impl Iterator<Item = Place> {
        (0..self.dirs).flat_map(move |dir| (0..self.names).map(move |name| Place { dir, name }))
    }
}

/// Runs all rounds; `progress` hears a sentence after each.
///
/// # Errors
/// The folder of a round cannot be made, or an operation hangs.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Report, Broken> {
    let mut report = Report::default();
    let mut left = plan.time;
    while !left.is_zero() {
        let time = left.min(plan.round);
        left -= time;
        let mut rng = fastrand::Rng::with_seed(
            plan.seed.wrapping_add(report.rounds as u64).wrapping_mul(0x9e37_79b9),
        );
        let arena = Arena { dirs: rng.u8(1..=3), names: rng.u8(2..=6) };
        let records = round(plan, report.rounds, arena, rng, time)?;
        let began = Instant::now();
        let Findings { violations, undecided, objects } = check_history(&records, plan.opens_told);
        progress(&format!(
            "round {}: {} directories of {} names, {} operations on {objects} objects, {} violations, checked in {:.1} s",
            report.rounds,
            arena.dirs,
            arena.names,
            records.len(),
            violations.len(),
            began.elapsed().as_secs_f64()
        ));
        report.operations += records.len();
        report.objects += objects;
        report.rounds += 1;
        report.violations.extend(violations.iter().map(|violation| violation.text(&records)));
        report.undecided.extend(undecided);
        if !report.violations.is_empty() {
            report.history = records;
            break;
        }
    }
    Ok(report)
}

fn open_dir(path: &std::path::Path) -> Result<OwnedFd, Broken> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| Broken(format!("open {}: {e}", path.display())))
}

fn round(
    plan: &Plan,
    number: usize,
    arena: Arena,
    mut rng: fastrand::Rng,
    time: Duration,
) -> Result<Vec<Record>, Broken> {
    let name = format!("{}/round{number}", plan.folder);
    for dir in 0..arena.dirs {
        let path = plan.mounts[0].join(&name).join(format!("d{dir}"));
        std::fs::create_dir_all(&path)
            .map_err(|e| Broken(format!("make {}: {e}", path.display())))?;
    }
    let words = plan.mounts[0].join(&name).join(mapped::NAME);
    std::fs::write(&words, [0; mapped::LEN])
        .map_err(|e| Broken(format!("make {}: {e}", words.display())))?;
    let roots: Vec<OwnedFd> =
        plan.mounts.iter().map(|mount| open_dir(&mount.join(&name))).collect::<Result<_, _>>()?;
    assert!(plan.threads < 256, "a mark has no room for more threads");
    let map = |thread: usize| {
        let root = &roots[thread % roots.len()];
        Words::open(root.as_fd()).map_err(|e| Broken(format!("map {}: {e}", words.display())))
    };
    let mut mapped = (0..plan.threads).map(map).collect::<Result<Vec<_>, _>>()?.into_iter();
    let clock = Instant::now();
    let began =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i128);
    let doing: Vec<Doing> = (0..plan.threads).map(|_| Doing::default()).collect();
    let stop = AtomicBool::new(false);
    let mut records = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let mount = thread % roots.len();
                let performer = Performer {
                    thread: thread as u16,
                    mount: mount as u16,
                    arena: roots[mount].as_fd(),
                    clock,
                    began,
                    doing: &doing[thread],
                    records: Vec::new(),
                    opened: 0,
                    words: mapped.next(),
                };
                let ids = (thread as u64) << 40 | (number as u64 & 0xff) << 32;
                let (rng, stop) = (rng.fork(), &stop);
                let worker = Worker {
                    performer,
                    rng,
                    arena,
                    plan,
                    ids,
                    files: Vec::new(),
                    dirs: Vec::new(),
                };
                scope.spawn(move || worker.work(stop))
            })
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if clock.elapsed() >= time {
                stop.store(true, Ordering::Relaxed);
            }
            watch(clock, &doing, plan);
        }
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker panicked"))
            .collect::<Vec<_>>()
    });
    let auditor = |(mount, root)| Performer {
        thread: plan.threads as u16,
        mount: mount as u16,
        arena: OwnedFd::as_fd(root),
        clock,
        began,
        doing: &doing[0],
        records: Vec::new(),
        opened: 0,
        words: None,
    };
    for performer in roots.iter().enumerate().map(auditor) {
        records.extend(audit(performer, arena, !plan.without.contains(&Kind::Read)));
    }
    // What the audit read every mount shows by then.
    std::thread::sleep(accessed::LATE + Duration::from_millis(1));
    for mut performer in roots.iter().enumerate().map(auditor) {
        arena.places().for_each(|at| performer.stat(at));
        records.extend(performer.records);
    }
    drop(roots);
    let path = plan.mounts[0].join(&name);
    std::fs::remove_dir_all(&path)
        .map_err(|e| Broken(format!("remove {}: {e}", path.display())))?;
    records.sort_by_key(|record| record.begin);
    Ok(records)
}

/// Ends the program if an operation hangs: its thread cannot be ended otherwise.
fn watch(clock: Instant, doing: &[Doing], plan: &Plan) {
    for (thread, doing) in doing.iter().enumerate() {
        let doing = doing.lock().expect("nobody panics with it").clone();
        let Some((since, action)) = doing else { continue };
        let took = clock.elapsed().saturating_sub(Duration::from_nanos(since));
        if took > HANGS {
            eprintln!(
                "seed {}: mount {}, thread {thread} {action}: no answer for {} s",
                plan.seed,
                thread % plan.mounts.len(),
                took.as_secs()
            );
            std::process::exit(3);
        }
    }
}

struct Worker<'a> {
    performer: Performer<'a>,
    rng: fastrand::Rng,
    arena: Arena,
    plan: &'a Plan,
    /// Identity of this thread's last write.
    ids: u64,
    files: Vec<Open>,
    dirs: Vec<Open>,
}

impl Worker<'_> {
    fn work(mut self, stop: &AtomicBool) -> Vec<Record> {
        let weights: Vec<(Kind, u32)> =
            WEIGHTS.into_iter().filter(|(kind, _)| !self.plan.without.contains(kind)).collect();
        let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
        while !stop.load(Ordering::Relaxed) && self.performer.records.len() < OPERATIONS_MAX {
            let mut at = self.rng.u32(0..total);
            let chosen = weights.iter().find(|(_, weight)| {
                let found = at < *weight;
                at = at.wrapping_sub(*weight);
                found
            });
            self.one(chosen.expect("within the total").0);
        }
        let open: Vec<Open> = self.files.drain(..).chain(self.dirs.drain(..)).collect();
        open.into_iter().for_each(|open| self.performer.close(open));
        self.performer.records
    }

    fn place(&mut self) -> Place {
        Place { dir: self.rng.u8(0..self.arena.dirs), name: self.rng.u8(0..self.arena.names) }
    }

    fn keep(&mut self, open: Option<Open>) {
        let Some(open) = open else { return };
        if self.files.len() >= OPEN_FILES_MAX {
            let old = self.files.swap_remove(self.rng.usize(0..self.files.len()));
            self.performer.close(old);
        }
        self.files.push(open);
    }

    fn one(&mut self, kind: Kind) {
        let at = self.place();
        match kind {
            Kind::Create => {
                let exclusive = self.rng.bool();
                let writable = exclusive || self.rng.bool();
                let open = self.performer.create(at, exclusive, writable);
                self.keep(open);
            }
            Kind::Open => {
                let open = self.performer.open_file(at);
                self.keep(open);
            }
            Kind::Opendir => {
                if let Some(open) = self.performer.open_dir(at) {
                    if self.dirs.len() >= OPEN_DIRS_MAX {
                        let old = self.dirs.remove(0);
                        self.performer.close(old);
                    }
                    self.dirs.push(open);
                }
            }
            Kind::Unlink => self.performer.unlink(at),
            Kind::Mkdir => self.performer.mkdir(at),
            Kind::Rmdir => self.performer.rmdir(at),
            Kind::Rename | Kind::Link => {
                let to = self.place();
                match kind {
                    _ if to == at => {}
                    Kind::Rename => self.performer.rename(at, to),
                    _ => self.performer.link(at, to),
                }
            }
            Kind::Stat => self.performer.stat(at),
            Kind::List => self.performer.list(at.dir),
            Kind::Inside => self.inside(),
            Kind::Fstatdir | Kind::Listdir | Kind::Chmoddir => self.on_dir(kind),
            Kind::Load | Kind::Store | Kind::Readword => {
                let word = self.rng.u8(0..mapped::WORDS);
                self.ids += 1;
                match kind {
                    Kind::Load => self.performer.load(word),
                    Kind::Store => self.performer.store(word, self.ids),
                    _ => self.performer.read_word(word),
                }
            }
            _ => self.on_file(kind),
        }
    }

    fn on_dir(&mut self, kind: Kind) {
        let mode = self.rng.u32(0..0o1000);
        let Some(dir) = self.rng.choice(&mut self.dirs) else { return };
        match kind {
            Kind::Listdir => self.performer.list_in(dir),
            Kind::Chmoddir if dir.removed => self.performer.chmod_removed(dir, mode),
            _ => {
                self.performer.fstat(dir);
            }
        }
    }

    fn inside(&mut self) {
        let Some(dir) = self.rng.choice(&self.dirs) else { return };
        if self.rng.u8(0..5) < 3 {
            let open = self.performer.make_in(dir);
            self.keep(open);
        } else {
            self.performer.unlink_in(dir);
        }
    }

    fn on_file(&mut self, kind: Kind) {
        if self.files.is_empty() {
            return;
        }
        let chosen = self.rng.usize(0..self.files.len());
        let (slot, slots) = (self.rng.u64(0..SLOTS), self.rng.u64(1..=4));
        let which = self.rng.u8(0..2);
        self.ids += 1;
        let (id, mode, long) =
            (self.ids, self.rng.u32(0..0o1000), self.files[chosen].length > LONG * SLOT);
        let (performer, file) = (&mut self.performer, &mut self.files[chosen]);
        let kind = match kind {
            Kind::Write | Kind::Append | Kind::Truncate | Kind::Fork if !file.writable => {
                Kind::Fstat
            }
            kind => kind,
        };
        match kind {
            Kind::Fstat => {
                performer.fstat(file);
            }
            Kind::Read if self.rng.bool() => performer.read(file, 0, SLOTS),
            // The end, where appends go.
            Kind::Read => {
                let end = file.length / SLOT;
                performer.read(file, self.rng.u64(end.saturating_sub(4)..=end), 2 * slots);
            }
            Kind::Write => performer.write(file, slot, slots, id),
            Kind::Append if !long => performer.append(file, slots, id),
            Kind::Truncate => performer.truncate(file, slot),
            Kind::Chmod => performer.chmod(file, mode),
            Kind::Setxattr => performer.setxattr(file, which, id),
            Kind::Getxattr => performer.getxattr(file, which),
            Kind::Removexattr => performer.removexattr(file, which),
            Kind::Fsync => performer.fsync(file),
            Kind::Lock if file.writable => performer.lock(file),
            Kind::Lock => {}
            Kind::Copy => performer.close_a_copy(file),
            Kind::Fork => performer.write_in_a_child(file, slot, slots, id),
            _ => {
                let file = self.files.swap_remove(chosen);
                performer.close(file);
            }
        }
    }
}

/// Everything once more through one mount; data if asked for.
fn audit(mut performer: Performer<'_>, arena: Arena, data: bool) -> Vec<Record> {
    assert!(arena.names <= NAMES_MAX, "a listing is compared with {NAMES_MAX} names");
    (0..arena.dirs).for_each(|dir| performer.list(dir));
    for at in arena.places() {
        performer.stat(at);
        let last = performer.records.last().map(|record| &record.answer);
        let dir = matches!(last, Some(Answer::Attributes(found)) if found.dir);
        let open = if dir { performer.open_dir(at) } else { performer.open_file(at) };
        let Some(open) = open else { continue };
        if !dir {
            if data {
                performer.read(&open, 0, AUDIT_SLOTS);
            }
            (0..2).for_each(|which| performer.getxattr(&open, which));
        }
        performer.close(open);
    }
    performer.records
}
