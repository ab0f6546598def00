//! `rtt`: requests to servers per operation, read from the mount's own counters, against what the design allows.
//!
//! Every operation is done to many files one after the other, and what goes on behind the answers (closes) is waited for
//! and counted. References count no requests, so they are passed over.

mod deeds;

use crate::caches::forget;
use crate::cli::RttArgs;
use crate::counts::Counts;
use crate::failure::BenchError;
use crate::figure::Unit;
use crate::item::{Done, Item, Spot, Step};
use deeds::{DEEDS, Deed, Kind, Per};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What goes on behind answers is over by then.
const SETTLE: Duration = Duration::from_millis(500);

/// The item.
pub struct Rtt {
    args: RttArgs,
}

impl Rtt {
    /// As the arguments say.
    pub fn new(args: &RttArgs) -> Rtt {
        Rtt { args: args.clone() }
    }

    fn dir(step: usize, spot: &Spot<'_>) -> PathBuf {
        spot.place.dir(0).join(format!("rtt{step}.{}", spot.round))
    }

    fn each(
        &self,
        dir: &Path,
        spot: &Spot<'_>,
        one: impl Fn(&Path, usize) -> std::io::Result<()>,
    ) -> Result<(), BenchError> {
        for number in 0..self.args.files {
            spot.stop.check()?;
            one(dir, number).map_err(BenchError::at("work in", dir))?;
        }
        Ok(())
    }

    fn act(&self, deed: &Deed, dir: &Path, spot: &Spot<'_>) -> Result<(), BenchError> {
        match deed.per {
            Per::File => self.each(dir, spot, deed.act),
            Per::Directory => (deed.act)(dir, self.args.files).map_err(BenchError::at("work in", dir)),
        }
    }
}

impl Item for Rtt {
    fn name(&self) -> &'static str {
        "rtt"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "files": self.args.files })
    }

    fn steps(&self) -> Vec<Step> {
        DEEDS.iter().map(|deed| Step::new(deed.what, Unit::Requests, 1).goal(deed.most)).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        if !spot.place.is_sheen || spot.place.native.is_some() {
            return Ok(());
        }
        let (deed, dir) = (&DEEDS[step], Rtt::dir(step, spot));
        fs::create_dir(&dir).map_err(BenchError::at("make", &dir))?;
        self.each(&dir, spot, deed.prepare)?;
        match deed.kind {
            Kind::Cold => forget()?,
            Kind::Warm => self.act(deed, &dir, spot)?,
            Kind::Once => {}
        }
        // The folder itself is no part of what is counted.
        fs::metadata(&dir).map_err(BenchError::at("look at", &dir))?;
        std::thread::sleep(SETTLE);
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        if !spot.place.is_sheen || spot.place.native.is_some() {
            return Ok(Done::Skipped("it does not count requests".to_owned()));
        }
        let (deed, dir) = (&DEEDS[step], Rtt::dir(step, spot));
        let count = || Counts::of(spot.place.dir(0));
        let before = count().ok_or_else(|| BenchError::Failed("the mount does not tell its counts".to_owned()))?;
        self.act(deed, &dir, spot)?;
        std::thread::sleep(SETTLE);
        let now = count().ok_or_else(|| BenchError::Failed("the mount does not tell its counts".to_owned()))?;
        let operations = match deed.per {
            Per::File => self.args.files as f64,
            Per::Directory => 1.0,
        };
        Ok(Done::Value { value: now.since(before).requests as f64 / operations, operations })
    }
}
