//! `watched`: the cost of being watched. The same work is done in short slices on the same mount;
//! in every second slice the metrics of its daemons are read each second.
//!
//! Each watched slice is compared with the one beside it, so that what changes slowly (others on
//! the machine, a growing store) falls out. The verdict is about the median of these ratios and its
//! confidence interval, never about two means.

use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::stop::Stop;
use bench_args::WatchedArgs;
use bench_report::figure::Unit;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

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
            let threads: Vec<_> =
                (0..self.args.threads).map(|n| scope.spawn(move || thread(n))).collect();
            let done = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| panicked()).and_then(|done| done));
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
                    File::options()
                        .write(true)
                        .open(path(number))
                        .map_err(BenchError::at("open", &path(number)))
                };
                let files = (0..self.args.threads).map(open).collect::<Result<Vec<_>, _>>()?;
                self.work(spot, |number, turn| {
                    let at = (turn % RECORDS * RECORD) as u64;
                    files[number]
                        .write_all_at(&record, at)
                        .map_err(BenchError::at("write", &path(number)))?;
                    Ok(RECORD as f64)
                })?
            }
        };
        Ok(Done::Work(Work { amount, ..Work::default() }))
    }
}
