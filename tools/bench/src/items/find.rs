//! `find`: a tree of many files searched by name, by attributes and by layout, with cold and with
//! warm caches.
//!
//! find(1) runs everywhere. `lfs find` and `lfs getstripe -r` run only where there are layouts, so
//! their rates stand beside those of find(1) on the same mount and on the references.

use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::place::Place;
use crate::program;
use crate::stop::Stop;
use bench_args::FindArgs;
use bench_report::figure::Unit;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that make the files.
const MAKERS: usize = 4;

/// Name, program (of ours: the sub-command), arguments before and behind the tree.
struct Program {
    name: &'static str,
    lfs: Option<&'static str>,
    before: &'static [&'static str],
    behind: &'static [&'static str],
}

const PROGRAMS: [Program; 6] = [
    Program { name: "find -type f", lfs: None, before: &[], behind: &["-type", "f"] },
    Program { name: "find -size -1M", lfs: None, before: &[], behind: &["-size", "-1M"] },
    Program { name: "lfs find -type f", lfs: Some("find"), before: &[], behind: &["-type", "f"] },
    Program {
        name: "lfs find -size -1M",
        lfs: Some("find"),
        before: &[],
        behind: &["-size", "-1M"],
    },
    Program {
        name: "lfs find -stripe-count 1",
        lfs: Some("find"),
        before: &[],
        behind: &["-stripe-count", "1"],
    },
    Program { name: "lfs getstripe -r", lfs: Some("getstripe"), before: &["-r"], behind: &[] },
];

/// The item.
pub struct Find {
    args: FindArgs,
}

impl Find {
    /// Makes the item from its arguments.
    pub fn new(args: &FindArgs) -> Find {
        Find { args: args.clone() }
    }
}

/// Program, cold.
fn task(step: usize) -> (&'static Program, bool) {
    (&PROGRAMS[step / 2], step.is_multiple_of(2))
}

fn tree(place: &Place) -> PathBuf {
    place.dir(0).join("find")
}

/// Makes the tree, unless it is there: directories of at most `per_directory` files without data.
fn make(args: &FindArgs, place: &Place, stop: &Stop) -> Result<(), BenchError> {
    let top = tree(place);
    if top.exists() {
        return Ok(());
    }
    fs::create_dir(&top).map_err(BenchError::at("make", &top))?;
    let next = AtomicUsize::new(0);
    let fill = || -> Result<(), BenchError> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let first = number.saturating_mul(args.per_directory);
            if first >= args.files {
                return Ok(());
            }
            let dir = top.join(format!("dir.{number:06}"));
            fs::create_dir(&dir).map_err(BenchError::at("make", &dir))?;
            for file in first..args.files.min(first + args.per_directory) {
                stop.check()?;
                let path = dir.join(format!("file.{file:09}"));
                File::create_new(&path).map_err(BenchError::at("make", &path))?;
            }
        }
    };
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..MAKERS).map(|_| scope.spawn(fill)).collect();
        for maker in makers {
            maker.join().map_err(|_| {
                BenchError::Failed("a thread panicked; please report it".to_owned())
            })??;
        }
        Ok(())
    })
}

fn is_skipped(program: &Program, place: &Place) -> Option<&'static str> {
    match (place.native.is_some(), program.lfs) {
        (true, _) => Some("find goes through mounts"),
        (false, Some(_)) if !place.is_sheen => Some("there are no layouts"),
        _ => None,
    }
}

impl Item for Find {
    fn name(&self) -> &'static str {
        "find"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "files": self.args.files, "per_directory": self.args.per_directory })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |number| {
            let (program, cold) = task(number);
            let heat = if cold { "cold" } else { "warm" };
            let what = format!("{}, {} files, {heat}", program.name, self.args.files);
            Step::new(what, Unit::PerSecond, 1)
                .tag("command", program.name)
                .tag("heat", heat)
                .tag("files", self.args.files)
        };
        (0..PROGRAMS.len() * 2).map(step).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        let (program, cold) = task(step);
        if is_skipped(program, spot.place).is_some() {
            return Ok(());
        }
        make(&self.args, spot.place, spot.stop)?;
        if cold { forget() } else { Ok(()) }
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let (program, _) = task(step);
        if let Some(why) = is_skipped(program, spot.place) {
            return Ok(Done::Skipped(why.to_owned()));
        }
        let mut command = match program.lfs {
            Some(name) => {
                let mut command = program::sheen()?;
                command.args(["lfs", name]);
                command
            }
            None => Command::new("find"),
        };
        command.args(program.before).arg(tree(spot.place)).args(program.behind).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status().map_err(BenchError::of("run a program that searches"))?;
        spot.stop.check()?;
        if !status.success() {
            return Err(BenchError::Failed(format!("{} failed: {status}", program.name)));
        }
        Ok(Done::Work(Work { amount: self.args.files as f64, ..Work::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_report::figure::Role;
    use std::path::Path;

    #[test]
    fn each_program_runs_cold_and_warm() {
        let item = Find::new(&FindArgs { files: 30, per_directory: 7 });
        let steps: Vec<String> = item.steps().into_iter().map(|step| step.what).collect();
        assert_eq!((steps.len(), &*steps[0]), (12, "find -type f, 30 files, cold"));
        assert_eq!(steps[11], "lfs getstripe -r, 30 files, warm");
    }

    #[test]
    fn the_tree_has_that_many_files() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::mounts(&[dir.path().to_owned()], Role::Target).unwrap();
        make(&FindArgs { files: 30, per_directory: 7 }, &place, &Stop::default()).unwrap();
        let names =
            |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
        let mut counts: Vec<usize> =
            names(&tree(&place)).iter().map(|dir| names(dir).len()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [2, 7, 7, 7, 7]);
        assert_eq!(is_skipped(&PROGRAMS[5], &place), Some("there are no layouts"));
        assert_eq!(is_skipped(&PROGRAMS[0], &place), None);
    }
}
