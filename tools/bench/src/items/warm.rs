//! `warm`: headers are opened, read, closed and statted again and again, and absent names are
//! looked up: the cost when everything is known already. Measured are time, requests of the kernel
//! to the daemon, and requests to servers, per round of all files.

use crate::counts::Counts;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use bench_args::WarmArgs;
use bench_report::figure::Unit;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files of one folder.
const FOLDER: usize = 1000;
/// Time in which work that goes on after closes ends.
const SETTLE: Duration = Duration::from_millis(500);
/// Files that changed later are not kept in the kernel's page cache (docs/locks/kernel.md, R16).
pub(crate) const YOUNG: Duration = Duration::from_millis(2500);

/// The work on every file of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Read,
    Stat,
    Missing,
}

/// The figure that a step gives of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tell {
    Rate,
    Kernel,
    Servers,
}

/// The item.
pub struct Warm {
    args: WarmArgs,
}

const STEPS: [(Deed, Tell); 9] = [
    (Deed::Read, Tell::Rate),
    (Deed::Read, Tell::Kernel),
    (Deed::Read, Tell::Servers),
    (Deed::Stat, Tell::Rate),
    (Deed::Stat, Tell::Kernel),
    (Deed::Stat, Tell::Servers),
    (Deed::Missing, Tell::Rate),
    (Deed::Missing, Tell::Kernel),
    (Deed::Missing, Tell::Servers),
];

fn path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("inc{}", number / FOLDER)).join(format!("header{number}.h"))
}

impl Warm {
    /// Makes the item from its arguments.
    pub fn new(args: &WarmArgs) -> Warm {
        Warm { args: args.clone() }
    }

    fn make(&self, dir: &Path, spot: &Spot<'_>) -> Result<(), BenchError> {
        if dir.exists() {
            return Ok(());
        }
        fs::create_dir(dir).map_err(BenchError::at("make", dir))?;
        for number in 0..self.args.files {
            spot.stop.check()?;
            let path = path(dir, number);
            if let Some(folder) = path.parent().filter(|_| number % FOLDER == 0) {
                fs::create_dir(folder).map_err(BenchError::at("make", folder))?;
            }
            fs::write(&path, format!("#define HEADER_{number} {number}\n"))
                .map_err(BenchError::at("write", &path))?;
        }
        std::thread::sleep(YOUNG);
        Ok(())
    }

    /// One round over all files.
    fn visit(&self, dir: &Path, deed: Deed, spot: &Spot<'_>) -> Result<(), BenchError> {
        let mut text = String::new();
        for number in 0..self.args.files {
            spot.stop.check()?;
            let path = path(dir, number);
            match deed {
                Deed::Read => {
                    text.clear();
                    let mut file = File::open(&path).map_err(BenchError::at("open", &path))?;
                    file.read_to_string(&mut text).map_err(BenchError::at("read", &path))?;
                }
                Deed::Stat => {
                    fs::metadata(&path).map_err(BenchError::at("look at", &path))?;
                }
                Deed::Missing => {
                    let missing = path.with_extension("absent");
                    match fs::metadata(&missing) {
                        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                        Err(e) => return Err(BenchError::at("look for", &missing)(e)),
                        Ok(_) => {
                            return Err(BenchError::Failed(format!(
                                "{} is there",
                                missing.display()
                            )));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Item for Warm {
    fn name(&self) -> &'static str {
        "warm"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "files": self.args.files })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |(deed, tell)| {
            let deed = match deed {
                Deed::Read => "open, read, close",
                Deed::Stat => "stat",
                Deed::Missing => "stat of what is not there",
            };
            match tell {
                Tell::Rate => Step::new(deed, Unit::PerSecond, 1),
                Tell::Kernel => {
                    Step::new(format!("{deed}: requests of the kernel"), Unit::Requests, 1)
                }
                Tell::Servers => {
                    Step::new(format!("{deed}: requests to servers"), Unit::Requests, 1).goal(0.0)
                }
            }
        };
        STEPS.map(step).into()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        if spot.place.native.is_some() {
            return Ok(());
        }
        let dir = spot.place.dir(0).join("warm");
        self.make(&dir, spot)?;
        let (deed, tell) = STEPS[step];
        if tell == Tell::Rate {
            self.visit(&dir, deed, spot)?;
            std::thread::sleep(SETTLE);
        }
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        if spot.place.native.is_some() {
            return Ok(Done::Skipped("warm looks at what the kernel knows".to_owned()));
        }
        let dir = spot.place.dir(0).join("warm");
        let (deed, tell) = STEPS[step];
        let files = self.args.files as f64;
        if tell == Tell::Rate {
            self.visit(&dir, deed, spot)?;
            return Ok(Done::Work(Work { amount: files, ..Work::default() }));
        }
        let Some(before) = Counts::of(&dir) else {
            return Ok(Done::Skipped("it does not count requests".to_owned()));
        };
        // Asking is a request of the kernel, too.
        let asked = Counts::of(&dir).map_or(0, |again| again.since(before).kernel);
        self.visit(&dir, deed, spot)?;
        std::thread::sleep(SETTLE);
        let now = Counts::of(&dir).unwrap_or(before).since(before);
        let value = match tell {
            Tell::Kernel => now.kernel.saturating_sub(2 * asked),
            _ => now.requests,
        };
        Ok(Done::Value { value: value as f64, operations: files })
    }
}
