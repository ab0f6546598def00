//! `rtt`: how often a program waits for servers per operation, by the mount's own counters, against
//! what the design allows; and the time of the operation, beside the references.
//!
//! Every operation is done to many files one after the other. Requests that the program waits for
//! at the same time are one round trip. Work that goes on after the answers (closes, stores) is
//! waited for, counted, and shown beside.

mod deeds;

use crate::caches::forget;
use crate::counts::Counts;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::items::warm;
use bench_args::RttArgs;
use bench_report::figure::Role;
use bench_report::figure::Unit;
use deeds::{DEEDS, Deed, Kind, Per};
use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time in which work that goes on after answers ends.
const SETTLE: Duration = Duration::from_millis(500);

/// The figure that a step gives of its deed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    /// Round trips.
    Waits,
    /// Microseconds.
    Time,
}

/// The figures of each deed, in this order.
const TOLD: [Tell; 2] = [Tell::Waits, Tell::Time];

/// The item.
pub struct Rtt {
    args: RttArgs,
}

impl Rtt {
    /// Makes the item from its arguments.
    pub fn new(args: &RttArgs) -> Rtt {
        Rtt { args: args.clone() }
    }

    fn dir(step: usize, spot: &Spot<'_>) -> PathBuf {
        spot.place.dir(0).join(format!("rtt{step}.{}", spot.round))
    }

    /// The error of the deed itself inside, for the place may not be able to do it.
    fn each(
        &self,
        dir: &Path,
        spot: &Spot<'_>,
        one: impl Fn(&Path, usize) -> io::Result<()>,
    ) -> Result<io::Result<()>, BenchError> {
        for number in 0..self.args.files {
            spot.stop.check()?;
            if let Err(error) = one(dir, number) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn act(&self, deed: &Deed, dir: &Path, spot: &Spot<'_>) -> Result<io::Result<()>, BenchError> {
        match deed.per {
            Per::File => self.each(dir, spot, deed.act),
            Per::Directory => Ok((deed.act)(dir, self.args.files)),
        }
    }

    fn operations(&self, deed: &Deed) -> f64 {
        match deed.per {
            Per::File => self.args.files as f64,
            Per::Directory => 1.0,
        }
    }

    fn waits(&self, deed: &Deed, dir: &Path, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let count = || {
            let counts = Counts::of(spot.place.dir(0));
            counts
                .ok_or_else(|| BenchError::Failed("the mount does not tell its counts".to_owned()))
        };
        let before = count()?;
        self.act(deed, dir, spot)?.map_err(BenchError::at("work in", dir))?;
        std::thread::sleep(SETTLE);
        let operations = self.operations(deed);
        Ok(Done::Value {
            value: count()?.since(before).round_trips as f64 / operations,
            operations,
        })
    }

    fn time(&self, deed: &Deed, dir: &Path, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let start = Instant::now();
        let done = self.act(deed, dir, spot)?;
        let wall = Some(start.elapsed());
        match done {
            Err(error) if spot.place.role != Role::Target && cannot(&error) => {
                Ok(Done::Skipped(format!("{} cannot be done there: {error}", deed.what)))
            }
            done => {
                done.map_err(BenchError::at("work in", dir))?;
                Ok(Done::Work(Work { amount: self.operations(deed), wall, ..Work::default() }))
            }
        }
    }
}

/// True if this error means that the file system lacks the operation.
fn cannot(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM))
}

/// Why a deed has no figure at this place; `None` if it is measured.
fn passed_over(tell: Tell, spot: &Spot<'_>) -> Option<&'static str> {
    if spot.place.native.is_some() {
        return Some("the client's own interface has no such operations");
    }
    (tell == Tell::Waits && !spot.place.is_sheen)
        .then_some("it does not count requests; compare the times")
}

impl Item for Rtt {
    fn name(&self) -> &'static str {
        "rtt"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "files": self.args.files })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |deed: &Deed, tell| match tell {
            Tell::Waits => Step::new(deed.what, Unit::Requests, 1).goal(deed.most),
            Tell::Time => Step::new(format!("{}: time", deed.what), Unit::Microseconds, 1),
        };
        DEEDS.iter().flat_map(|deed| TOLD.map(|tell| step(deed, tell))).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        let (deed, tell, dir) =
            (&DEEDS[step / TOLD.len()], TOLD[step % TOLD.len()], Rtt::dir(step, spot));
        if passed_over(tell, spot).is_some() {
            return Ok(());
        }
        fs::create_dir(&dir).map_err(BenchError::at("make", &dir))?;
        self.each(&dir, spot, deed.prepare)?.map_err(BenchError::at("work in", &dir))?;
        if deed.kind == Kind::WarmPages {
            std::thread::sleep(warm::YOUNG);
        }
        match deed.kind {
            Kind::Cold => forget()?,
            // A deed that cannot be done is reported when it is measured.
            Kind::Warm | Kind::WarmPages => drop(self.act(deed, &dir, spot)?),
            Kind::Once => {}
        }
        // The folder itself is no part of what is counted.
        fs::metadata(&dir).map_err(BenchError::at("look at", &dir))?;
        if spot.place.is_sheen {
            std::thread::sleep(SETTLE);
        }
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let (deed, tell, dir) =
            (&DEEDS[step / TOLD.len()], TOLD[step % TOLD.len()], Rtt::dir(step, spot));
        match (passed_over(tell, spot), tell) {
            (Some(why), _) => Ok(Done::Skipped(why.to_owned())),
            (None, Tell::Waits) => self.waits(deed, &dir, spot),
            (None, Tell::Time) => self.time(deed, &dir, spot),
        }
    }
}
