//! `io`: data in sequence and at random, by several threads, each with its file or all with one;
//! and small reads of many files, over time.
//!
//! Writes have their fsync and close inside the time. Before every read of a "cold" step the kernel
//! forgets what it has.

mod many;
mod plan;
mod worker;

use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::place;
use bench_args::IoArgs;
use bench_report::figure::Unit;
use plan::{Access, Pattern, Plan};
use std::fs;
use std::path::PathBuf;

/// The item.
pub struct Io {
    args: IoArgs,
    plans: Vec<Plan>,
}

impl Io {
    /// Makes the item from its arguments.
    pub fn new(args: &IoArgs) -> Io {
        Io { args: args.clone(), plans: plan::plans(args) }
    }

    fn path(&self, plan: &Plan, spot: &Spot<'_>, thread: usize) -> PathBuf {
        let name =
            if plan.shares_one_file() { "shared".to_owned() } else { format!("file{thread}") };
        spot.place.dir(thread).join(name)
    }
}

impl Item for Io {
    fn name(&self) -> &'static str {
        "io"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "bytes_per_thread": self.args.size.0,
            "threads": self.args.threads,
            "records": self.args.records.iter().map(|r| r.0).collect::<Vec<_>>(),
            "random_operations": self.args.random,
            "many_files": self.args.many_files,
            "many_bytes": self.args.many_size.0,
        })
    }

    fn steps(&self) -> Vec<Step> {
        self.plans
            .iter()
            .map(|plan| Step::new(plan.what(), Unit::MegabytesPerSecond, plan.threads))
            .collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        if spot.place.native.is_some() {
            return Ok(());
        }
        let plan = &self.plans[step];
        if plan.pattern == Pattern::ManyFiles {
            many::make(&spot.place.dir(0).join("many"), &self.args, spot.stop)?;
        }
        if plan.access == Access::Write && plan.pattern != Pattern::Random {
            // Files are made afresh: making them belongs to the measured time, removing earlier
            // ones does not.
            for thread in 0..plan.threads {
                match fs::remove_file(self.path(plan, spot, thread)) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                        return Err(BenchError::at("remove", &self.path(plan, spot, thread))(e));
                    }
                    _ => {}
                }
            }
        }
        if plan.access == Access::Read { forget() } else { Ok(()) }
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        if spot.place.native.is_some() {
            return Ok(Done::Skipped("io goes through mounts".to_owned()));
        }
        let plan = &self.plans[step];
        if plan.pattern == Pattern::ManyFiles {
            return many::read(&spot.place.dir(0).join("many"), &self.args, spot);
        }
        let path = |thread| self.path(plan, spot, thread);
        let forgets = spot.place.name == place::NULL;
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let start = |thread| {
                let (path, seed) =
                    (path(thread), spot.seed ^ (((spot.round * 1024 + thread) as u64) << 8));
                scope.spawn(move || worker::work(plan, &path, thread, seed, forgets, spot.stop))
            };
            let threads: Vec<_> = (0..plan.threads).map(start).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut bytes = 0;
        for outcome in outcomes {
            match outcome.map_err(|_| {
                BenchError::Failed("a thread panicked; please report it".to_owned())
            })?? {
                worker::Ended::Bytes(count) => bytes += count,
                worker::Ended::NoDirect => {
                    return Ok(Done::Skipped(format!(
                        "{} does not take O_DIRECT",
                        spot.place.fs_type
                    )));
                }
            }
        }
        Ok(Done::Work(Work { amount: bytes as f64, ..Work::default() }))
    }
}
