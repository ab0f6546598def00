//! Callers on several clients ([`crate::load`]) while something happens to the cluster: whether
//! they go on, and what became of them.

use crate::load::{Expected, Load, UNTIMED, Work};
use crate::stalls::Spans;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// One caller: a load on a mount.
struct Caller {
    name: String,
    mount: PathBuf,
    is_timed: bool,
    spans: Arc<Mutex<Spans>>,
    worker: JoinHandle<Expected>,
}

impl Caller {
    /// It ended an operation that it began after this moment; or failed, or times none.
    fn went_on(&self, mark: Instant) -> bool {
        let spans = self.spans.lock().expect("no caller panicked");
        let went_on = spans.last().is_some_and(|(began, _)| *began > mark);
        went_on || !self.is_timed || self.worker.is_finished()
    }
}

/// They end with it, also when the test fails.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All of them, until they are told to end.
pub struct Callers {
    callers: Vec<Caller>,
    mounts: Vec<PathBuf>,
    stop: Stop,
}

/// What callers were answered, and the spans of their operations.
pub struct Ended {
    found: Vec<(PathBuf, Expected)>,
    mounts: Vec<PathBuf>,
    /// By name: that of the load, then the number of the mount.
    pub spans: Vec<(String, Spans)>,
}

impl Callers {
    /// Each load begins on each of at least two mounts. A caller on the first one looks through the
    /// second, all others look through the first. `outside`: a folder of their own, which is made.
    pub fn begin(
        mounts: Vec<PathBuf>,
        outside: &Path,
        loads: &[(&str, Load)],
        rng: &mut fastrand::Rng,
    ) -> Callers {
        let stop = Arc::<AtomicBool>::default();
        let mut callers = Vec::new();
        for (kind, load) in loads {
            for (n, mount) in mounts.iter().enumerate() {
                let (name, spans) = (format!("{kind}{n}"), Arc::<Mutex<Spans>>::default());
                let outside = outside.join(&name);
                fs::create_dir_all(&outside).expect("make a folder");
                let work = Work {
                    dir: mount.join(&name),
                    other: mounts[usize::from(n == 0)].join(&name),
                    outside,
                    stop: stop.clone(),
                    spans: spans.clone(),
                    rng: rng.fork(),
                };
                let (load, mount) = (*load, mount.clone());
                let worker = thread::spawn(move || load(work));
                let is_timed = !UNTIMED.contains(kind);
                callers.push(Caller { name, mount, is_timed, spans, worker });
            }
        }
        Callers { callers, mounts, stop: Stop(stop) }
    }

    /// True if one has ended by itself: it failed.
    pub fn has_ended(&self) -> bool {
        self.callers.iter().any(|caller| caller.worker.is_finished())
    }

    /// True if all have ended an operation that they began after this moment, as far as they have
    /// not failed and time their operations.
    pub fn went_on(&self, mark: Instant) -> bool {
        self.callers.iter().all(|caller| caller.went_on(mark))
    }

    /// Tells them to end, and waits. `logs`: what to print if one of them failed.
    ///
    /// # Panics
    /// One failed.
    pub fn end(self, logs: impl Fn() -> String) -> Ended {
        drop(self.stop);
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for Caller { name, mount, spans, worker, .. } in self.callers {
            match worker.join() {
                Ok(expected) => found.push((mount, expected)),
                Err(failure) => {
                    eprintln!("{}", logs());
                    std::panic::resume_unwind(failure);
                }
            }
            all.push((name, std::mem::take(&mut *spans.lock().expect("no caller panicked"))));
        }
        Ended { found, mounts: self.mounts, spans: all }
    }
}

impl Ended {
    /// Looks whether what callers were answered is there, through all clients.
    ///
    /// # Panics
    /// Something is missing, or differs.
    pub fn check(&self) {
        let check = |from: &Path, path: &Path, text: &[u8]| {
            for to in &self.mounts {
                let path = to.join(path.strip_prefix(from).expect("a path of the mount"));
                let read = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let (at, has, answered) = (path.display(), read.len(), text.len());
                assert!(read == text, "{at} is not what was answered: {has} bytes, not {answered}");
            }
        };
        thread::scope(|scope| {
            for (from, expected) in &self.found {
                scope.spawn(|| expected.iter().for_each(|(path, text)| check(from, path, text)));
            }
        });
    }

    /// The `count` longest operations of all, a line each. `began`: from when their times count.
    pub fn longest(&self, count: usize, began: Instant) -> String {
        let named = |(name, spans): &(String, Spans)| {
            spans.iter().map(|(from, to)| (*to - *from, *from, name.clone())).collect::<Vec<_>>()
        };
        let mut operations: Vec<_> = self.spans.iter().flat_map(named).collect();
        operations.sort_unstable_by(|a, b| b.cmp(a));
        let line = |(took, from, name): &(Duration, Instant, String)| {
            let at = from.saturating_duration_since(began).as_secs_f64();
            format!("  {name} at {at:>7.1} s: {} ms\n", took.as_millis())
        };
        operations.iter().take(count).map(line).collect()
    }
}
