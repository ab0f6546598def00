//! `watched`: the cost of being watched. The same work is done in short slices on the same mount;
//! in every second slice the metrics of its daemons are read each second.
//!
//! Each watched slice is compared with the one beside it, so that what changes slowly (others on
//! the machine, a growing store) falls out. The verdict is about the median of these ratios and its
//! confidence interval, never about two means.

use crate::failure::BenchError;
use crate::figure::{Figure, Unit};
use crate::item::{Done, Item, Spot, Step, Work};
use crate::statistics::Pairs;
use crate::stop::Stop;
use bench_args::WatchedArgs;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Being watched may cost so much of the throughput.
const GOAL: f64 = 0.02;
/// Size of a small file.
const SMALL: usize = 4096;
/// Operations of one round with a small file: create and close, stat, read, remove.
const OPERATIONS: f64 = 4.0;
/// One write of data.
const RECORD: usize = 1 << 20;
/// Records of a thread's file, which is written round and round.
const RECORDS: usize = 32;

/// The item.
pub struct Watched {
    args: WatchedArgs,
}

impl Watched {
    /// Makes the item from its arguments.
    pub fn new(args: &WatchedArgs) -> Watched {
        Watched { args: args.clone() }
    }

    /// All threads at once until the slice is over; returns what they did.
    fn work(
        &self,
        spot: &Spot<'_>,
        one: impl Fn(usize, usize) -> Result<f64, BenchError> + Sync,
    ) -> Result<f64, BenchError> {
        let end = Instant::now() + self.args.slice.0;
        let thread = |number: usize| {
            let mut done = 0.0;
            for turn in 0.. {
                if Instant::now() >= end {
                    break;
                }
                spot.stop.check()?;
                done += one(number, turn)?;
            }
            Ok::<f64, BenchError>(done)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.args.threads).map(|n| scope.spawn(move || thread(n))).collect();
            let done = threads.into_iter().map(|thread| thread.join().map_err(|_| panicked()).and_then(|done| done));
            done.sum()
        })
    }
}

fn panicked() -> BenchError {
    BenchError::Failed("a thread panicked".to_owned())
}

/// Creates, looks at, reads and removes a small file.
fn small(dir: &Path, number: usize, turn: usize) -> Result<f64, BenchError> {
    let path = dir.join(format!("small{number}.{turn}"));
    fs::write(&path, [7; SMALL]).map_err(BenchError::at("write", &path))?;
    fs::metadata(&path).map_err(BenchError::at("look at", &path))?;
    fs::read(&path).map_err(BenchError::at("read", &path))?;
    fs::remove_file(&path).map_err(BenchError::at("remove", &path))?;
    Ok(OPERATIONS)
}

fn data_file(dir: &Path, number: usize) -> std::path::PathBuf {
    dir.join(format!("data{number}"))
}

/// Waits until the writes of the slice before are on disk, so that no slice pays for another.
fn settle(dir: &Path, threads: usize, stop: &Stop) -> Result<(), BenchError> {
    for number in 0..threads {
        stop.check()?;
        let path = data_file(dir, number);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.and_then(|file| file.sync_all()).map_err(BenchError::at("sync", &path))?;
    }
    Ok(())
}

impl Item for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "slice_seconds": self.args.slice.0.as_secs_f64(), "threads": self.args.threads })
    }

    fn steps(&self) -> Vec<Step> {
        let threads = self.args.threads;
        vec![
            Step::new("files of 4 KiB: create, stat, read, remove", Unit::PerSecond, threads),
            Step::new("writes of 1 MiB", Unit::MegabytesPerSecond, threads),
        ]
    }

    fn prepare(&mut self, _step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        settle(spot.place.dir(0), self.args.threads, spot.stop)
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let place = spot.place;
        let amount = match step {
            0 => self.work(spot, |number, turn| small(place.dir(number), number, turn))?,
            _ => {
                let record = vec![7; RECORD];
                let path = |number| data_file(place.dir(0), number);
                let open = |number| {
                    File::options().write(true).open(path(number)).map_err(BenchError::at("open", &path(number)))
                };
                let files = (0..self.args.threads).map(open).collect::<Result<Vec<_>, _>>()?;
                self.work(spot, |number, turn| {
                    let at = (turn % RECORDS * RECORD) as u64;
                    files[number].write_all_at(&record, at).map_err(BenchError::at("write", &path(number)))?;
                    Ok(RECORD as f64)
                })?
            }
        };
        Ok(Done::Work(Work { amount, ..Work::default() }))
    }
}

/// Conclusions from the figures, a sentence each.
pub fn verdicts(figures: &[&Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let watched = figure.results.iter().find(|result| result.pairs.is_some());
        let told = watched.and_then(|result| result.pairs.as_ref()).map(verdict);
        let told = told.unwrap_or_else(|| "too few pairs to judge: more --repeats".to_owned());
        writeln!(text, "{}: {told}", figure.what).expect("a string takes all");
        if let Some(cpu) = watched.and_then(|result| result.cpu_pairs.as_ref()) {
            let [low, high] = cpu.interval.map(|ratio| (ratio - 1.0) * 100.0);
            let more = (cpu.median - 1.0) * 100.0;
            writeln!(text, "  CPU per operation, the reader's own included: {more:+.2} % ({low:+.2} to {high:+.2} %)")
                .expect("a string takes all");
        }
    }
    text
}

/// Ratios are unwatched to watched throughput.
fn verdict(pairs: &Pairs) -> String {
    let cost = |ratio: f64| 1.0 - 1.0 / ratio;
    let [low, high] = pairs.interval.map(cost);
    let word = match () {
        () if high <= GOAL => "within 2 %",
        () if low > GOAL => "MORE than 2 %",
        () => "2 % cannot be told from noise: more --repeats, or a quieter machine",
    };
    let (cost, low, high) = (cost(pairs.median) * 100.0, low * 100.0, high * 100.0);
    format!("being watched costs {cost:.2} % ({low:.2} to {high:.2} %, 95 % sure, {} pairs): {word}", pairs.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(low: f64, median: f64, high: f64) -> Pairs {
        Pairs { count: 60, median, interval: [low, high] }
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        assert!(verdict(&pairs(0.99, 1.0, 1.01)).ends_with("within 2 %"));
        assert!(verdict(&pairs(1.03, 1.04, 1.05)).ends_with("MORE than 2 %"));
        assert!(verdict(&pairs(0.99, 1.0, 1.03)).contains("cannot be told"));
        assert!(
            verdict(&pairs(0.8, 1.25, 1.25))
                .starts_with("being watched costs 20.00 % (-25.00 to 20.00 %, 95 % sure, 60 pairs)")
        );
    }
}
