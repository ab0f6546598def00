//! What another client notices of a large listing: the slowest stats of a client beside the
//! servers, alone and while the far client lists, both in the same run.
//!
//! The hosts are one machine. First each has half of its processors, as hosts have: the servers
//! and the client beside them one, the client that lists the other. Then all share all of them, and
//! what the listing takes from the other client is mostly their time.

use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step};
use crate::processors::Halves;
use bench_args::WanArgs;
use bench_report::figure::Unit;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Directories of one file each that the other client looks at: none is looked at twice, so each
/// stat asks the MDT.
const DIRECTORIES: usize = 4000;
/// Fewer stats say nothing of the slowest in a hundred.
const STATS_MIN: usize = 300;
/// Percent of its speed alone that the slowest stats shall keep: they take at most 1.5 times as
/// long.
const KEPT_GOAL: f64 = 100.0 / 1.5;

/// Steps: alone, beside a listing, and how much of the speed is left; first with processors of
/// their own, then with shared ones.
const STEPS: [&str; 6] = [
    "stat of another client, p99, alone",
    "stat of another client, p99, beside a listing",
    "stat of another client, p99, of its speed alone",
    "the same on shared processors, p99, alone",
    "the same on shared processors, p99, beside a listing",
    "the same on shared processors, p99, of its speed alone",
];
/// Steps from this one on share processors.
const SHARED: usize = 3;

/// The processes of the two hosts.
pub struct Processes {
    /// Servers, and the client beside them.
    pub near: Vec<i32>,
    /// The client that lists.
    pub far: Vec<i32>,
}

/// The item.
pub struct Beside {
    files: usize,
    /// A mount of the same file system beside the servers.
    other: PathBuf,
    processes: Processes,
    /// `None`: there is one processor.
    halves: Option<Halves>,
    alone: Option<Duration>,
    beside: Option<Duration>,
}

impl Beside {
    /// Makes the item. `other` is where the other client has the file system mounted.
    ///
    /// # Errors
    /// The kernel does not say which processors there are.
    pub fn new(args: &WanArgs, other: &Path, processes: Processes) -> Result<Beside, BenchError> {
        let halves = Halves::new().map_err(BenchError::of("learn which processors there are"))?;
        let (files, other) = (args.files, other.to_owned());
        Ok(Beside { files, other, processes, halves, alone: None, beside: None })
    }

    /// Looks while the far client lists, its program on processors of the second half, if there is
    /// one; how long each stat took.
    fn stats_beside(
        &self,
        spot: &Spot<'_>,
        halves: Option<&Halves>,
    ) -> Result<Vec<Duration>, BenchError> {
        let dir = spot.place.dir(0).join("beside/many");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let listing = scope.spawn(|| {
                let taken = halves.map_or(Ok(()), Halves::take_second);
                let listed = taken
                    .map_err(BenchError::of("use other processors"))
                    .and_then(|()| list(&dir, self.files, spot));
                over.store(true, Ordering::Release);
                listed
            });
            let took = self.stats(spot, |_| over.load(Ordering::Acquire));
            let panicked = |_| BenchError::Failed("a thread panicked; please report it".to_owned());
            listing.join().map_err(panicked)??;
            took
        })
    }

    /// The folder of the benchmark on the other client.
    fn folder(&self, spot: &Spot<'_>) -> PathBuf {
        self.other.join(spot.place.dir(0).file_name().unwrap_or_default()).join("beside")
    }

    /// Looks at one file after the other until `over`; how long each took.
    fn stats(
        &self,
        spot: &Spot<'_>,
        over: impl Fn(usize) -> bool,
    ) -> Result<Vec<Duration>, BenchError> {
        let mut numbers: Vec<usize> = (0..DIRECTORIES).collect();
        fastrand::Rng::with_seed(spot.seed).shuffle(&mut numbers);
        let (dir, mut took) = (self.folder(spot), Vec::new());
        for number in numbers {
            if over(took.len()) {
                break;
            }
            spot.stop.check()?;
            let path = dir.join(one(number));
            let start = Instant::now();
            fs::metadata(&path).map_err(BenchError::at("look at", &path))?;
            took.push(start.elapsed());
        }
        Ok(took)
    }
}

fn one(number: usize) -> String {
    format!("few/d{number:05}/f")
}

/// Makes what is listed and what is looked at, unless it is there.
fn make(dir: &Path, files: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
    if dir.exists() {
        return Ok(());
    }
    let many = dir.join("many");
    fs::create_dir_all(&many).map_err(BenchError::at("make", &many))?;
    let few = (0..DIRECTORIES).map(|number| dir.join(one(number)));
    for path in few.chain((0..files).map(|number| many.join(format!("file.{number:07}")))) {
        spot.stop.check()?;
        if let Some(dir) = path.parent().filter(|dir| *dir != many) {
            fs::create_dir_all(dir).map_err(BenchError::at("make", dir))?;
        }
        File::create_new(&path).map_err(BenchError::at("make", &path))?;
    }
    Ok(())
}

/// Lists with attributes, as `ls -l` does.
fn list(dir: &Path, files: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
    let mut seen = 0;
    for entry in fs::read_dir(dir).map_err(BenchError::at("list", dir))? {
        spot.stop.check()?;
        let entry = entry.map_err(BenchError::at("list", dir))?;
        entry.metadata().map_err(BenchError::at("look at", dir))?;
        seen += 1;
    }
    if seen == files {
        return Ok(());
    }
    Err(BenchError::Failed(format!("a listing shows {seen} of {files} files")))
}

/// Time that 99 of 100 do not exceed; `None`: too few to say.
fn slowest(mut took: Vec<Duration>) -> Option<Duration> {
    took.sort_unstable();
    took.get((took.len() * 99).div_ceil(100).saturating_sub(1))
        .copied()
        .filter(|_| took.len() >= STATS_MIN)
}

fn micros(took: Option<Duration>) -> Done {
    match took {
        Some(took) => Done::Value { value: took.as_secs_f64() * 1e6, operations: 1.0 },
        None => Done::Skipped(format!("fewer than {STATS_MIN} stats: list more files")),
    }
}

impl Item for Beside {
    fn name(&self) -> &'static str {
        "beside"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "files": self.files, "directories": DIRECTORIES })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |(at, what): (usize, &&str)| match at % SHARED {
            2 if at < SHARED => Step::new(*what, Unit::Percent, 1).goal(KEPT_GOAL),
            2 => Step::new(*what, Unit::Percent, 1),
            within => Step::new(*what, Unit::Microseconds, within + 1),
        };
        STEPS.iter().enumerate().map(step).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        make(&self.folder(spot), self.files, spot)?;
        if step % SHARED < 2 { forget() } else { Ok(()) }
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let halves = self.halves.as_ref().filter(|_| step < SHARED);
        if step < SHARED && halves.is_none() {
            return Ok(Done::Skipped("hosts cannot share one processor out".to_owned()));
        }
        let Processes { near, far } = &self.processes;
        let given = halves.map(|halves| halves.give(near, far)).transpose();
        let given = given.map_err(BenchError::of("share processors out"))?;
        let done = match step % SHARED {
            0 => {
                self.alone = slowest(self.stats(spot, |_| false)?);
                micros(self.alone)
            }
            1 => {
                self.beside = slowest(self.stats_beside(spot, halves)?);
                micros(self.beside)
            }
            _ => match (self.alone.take(), self.beside.take()) {
                (Some(alone), Some(beside)) => {
                    let value = 100.0 * alone.as_secs_f64() / beside.as_secs_f64();
                    Done::Value { value, operations: 1.0 }
                }
                _ => micros(None),
            },
        };
        drop(given);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_in_a_hundred_are_left_out() {
        let took = |count: u64| (1..=count).rev().map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(slowest(took(1000)), Some(Duration::from_millis(990)));
        assert_eq!(slowest(took(300)), Some(Duration::from_millis(297)));
        assert_eq!(slowest(took(299)), None);
        assert_eq!(slowest(Vec::new()), None);
    }
}
