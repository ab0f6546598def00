//! `memory`: resident memory of the daemons behind a mount, idle and with many files.
//!
//! Resident memory is counted by the kernel (`VmRSS`): the processes' own memory, and pages of a
//! store's file that they map. The kernel takes the latter back when others need it, so the
//! processes' own memory stands in a row of its own.

use crate::failure::BenchError;
use crate::item::{Done, Item, MIB, Spot, Step};
use crate::measure::{Resident, resident_of};
use bench_args::MemoryArgs;
use bench_report::figure::Unit;
use std::fs::{self, File};

/// Files of one folder.
const FOLDER: usize = 10_000;

/// The item.
pub struct Memory {
    args: MemoryArgs,
}

impl Memory {
    /// Makes the item from its arguments.
    pub fn new(args: &MemoryArgs) -> Memory {
        Memory { args: args.clone() }
    }

    fn make(&self, spot: &Spot<'_>) -> Result<(), BenchError> {
        for folder in 0..self.args.files.div_ceil(FOLDER) {
            let dir = spot.place.dir(0).join(format!("m{folder:04}"));
            if dir.exists() {
                continue;
            }
            fs::create_dir(&dir).map_err(BenchError::at("make", &dir))?;
            for number in folder * FOLDER..self.args.files.min((folder + 1) * FOLDER) {
                spot.stop.check()?;
                let path = dir.join(format!("f{number}"));
                File::create_new(&path).map_err(BenchError::at("make", &path))?;
            }
            for entry in fs::read_dir(&dir).map_err(BenchError::at("list", &dir))? {
                let looked = entry.and_then(|entry| entry.metadata());
                looked.map_err(BenchError::at("look at what is in", &dir))?;
            }
        }
        Ok(())
    }
}

impl Item for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "files": self.args.files })
    }

    fn steps(&self) -> Vec<Step> {
        let files = self.args.files;
        vec![
            Step::new("before any file", Unit::Mebibytes, 1),
            Step::new(format!("{files} files made and listed"), Unit::Mebibytes, 1),
            Step::new("of that its own, no store's mapped file", Unit::Mebibytes, 1),
        ]
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        if spot.place.daemons.is_empty() {
            return Ok(Done::Skipped("no daemon serves it".to_owned()));
        }
        if spot.place.native.is_some() {
            return Ok(Done::Skipped("memory is looked at behind mounts".to_owned()));
        }
        if step == 0 && spot.round > 0 {
            return Ok(Done::Skipped("it is idle only once".to_owned()));
        }
        if step == 1 {
            self.make(spot)?;
        }
        let mut sum = Resident { all: 0, own: 0 };
        for daemon in &spot.place.daemons {
            let one = resident_of(daemon.pid)?;
            sum = Resident { all: sum.all + one.all, own: sum.own + one.own };
        }
        let bytes = if step == 2 { sum.own } else { sum.all };
        Ok(Done::Value { value: bytes as f64 / MIB, operations: self.args.files as f64 })
    }
}
