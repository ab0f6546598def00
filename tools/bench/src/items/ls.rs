//! `ls`: directories of many files, listed by the programs that people use, with cold and with warm
//! caches.

use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::place::Place;
use crate::program;
use crate::stop::Stop;
use bench_args::LsArgs;
use bench_report::figure::Unit;
use rustix::fs::{FileType, Mode, mknodat};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Threads that make the files.
const MAKERS: usize = 4;

/// Programs that list, with their arguments; the directory comes last.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("ls -U", &["ls", "-U"]),
    ("ls -l", &["ls", "-l"]),
    ("find", &["find"]),
    ("du", &["du", "-s"]),
];

/// One directory.
#[derive(Clone, Copy, Debug)]
struct Directory {
    entries: usize,
    stripes: u32,
}

/// Another client of the file system that is listed.
pub struct Elsewhere {
    /// Where it has it mounted. It makes the files.
    pub mount: PathBuf,
    /// Makes all clients forget what they know.
    pub forget: Box<dyn Fn() -> Result<(), BenchError>>,
}

/// The item.
pub struct Ls {
    args: LsArgs,
    directories: Vec<Directory>,
    elsewhere: Option<Elsewhere>,
}

impl Ls {
    /// Makes the item from its arguments.
    pub fn new(args: &LsArgs) -> Ls {
        let mut directories = Vec::new();
        for entries in &args.entries {
            directories.extend(
                args.stripes
                    .iter()
                    .map(|stripes| Directory { entries: *entries, stripes: *stripes }),
            );
        }
        Ls { args: args.clone(), directories, elsewhere: None }
    }

    /// As [`Ls::new`], of files that another client makes.
    pub fn of_another(args: &LsArgs, elsewhere: Elsewhere) -> Ls {
        Ls { elsewhere: Some(elsewhere), ..Ls::new(args) }
    }

    /// Directory, program, cold.
    fn task(&self, step: usize) -> (Directory, usize, bool) {
        let per_directory = PROGRAMS.len() * 2;
        let within = step % per_directory;
        (self.directories[step / per_directory], within / 2, within.is_multiple_of(2))
    }
}

fn folder(dir: &Path, directory: Directory) -> PathBuf {
    dir.join(format!("ls-{}-{}", directory.entries, directory.stripes))
}

/// Makes the directory and its files, unless it is there. Without stripes the files are made with
/// mknod(2), which gives them no objects; elsewhere stripes mean nothing.
fn make(dir: &Path, directory: Directory, place: &Place, stop: &Stop) -> Result<(), BenchError> {
    if dir.exists() {
        return Ok(());
    }
    fs::create_dir(dir).map_err(BenchError::at("make", dir))?;
    if place.is_sheen && directory.stripes > 0 {
        let mut lfs = program::sheen()?;
        lfs.args(["lfs", "setstripe", "-c", &directory.stripes.to_string()])
            .arg(dir)
            .stdin(Stdio::null());
        let output = lfs.output().map_err(BenchError::of("set the stripe count"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Failed(format!(
                "cannot set the stripe count: {}",
                said.trim()
            )));
        }
    }
    let one = |number: usize| -> Result<(), BenchError> {
        let path = dir.join(format!("file.{number:07}"));
        if directory.stripes > 0 {
            return File::create_new(&path).map(drop).map_err(BenchError::at("make", &path));
        }
        mknodat(rustix::fs::CWD, &path, FileType::RegularFile, Mode::from_raw_mode(0o644), 0)
            .map_err(|errno| BenchError::at("make", &path)(errno.into()))
    };
    std::thread::scope(|scope| {
        let maker = |first: usize| {
            let one = &one;
            scope.spawn(move || {
                for number in (first..directory.entries).step_by(MAKERS) {
                    stop.check()?;
                    one(number)?;
                }
                Ok::<(), BenchError>(())
            })
        };
        let makers: Vec<_> = (0..MAKERS).map(maker).collect();
        for maker in makers {
            maker.join().map_err(|_| {
                BenchError::Failed("a thread panicked; please report it".to_owned())
            })??;
        }
        Ok(())
    })
}

impl Item for Ls {
    fn name(&self) -> &'static str {
        "ls"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "entries": self.args.entries, "stripes": self.args.stripes })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |number| {
            let (directory, program, cold) = self.task(number);
            let heat = if cold { "cold" } else { "warm" };
            let stripes = match directory.stripes {
                0 => "no objects".to_owned(),
                1 => "1 stripe".to_owned(),
                n => format!("{n} stripes"),
            };
            let what =
                format!("{}, {} files, {stripes}, {heat}", PROGRAMS[program].0, directory.entries);
            Step::new(what, Unit::PerSecond, 1)
                .tag("command", PROGRAMS[program].0)
                .tag("heat", heat)
                .tag("files", directory.entries)
        };
        (0..self.directories.len() * PROGRAMS.len() * 2).map(step).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        if spot.place.native.is_some() {
            return Ok(());
        }
        let (directory, _, cold) = self.task(step);
        let ours = spot.place.dir(0);
        let there = self
            .elsewhere
            .as_ref()
            .map(|other| other.mount.join(ours.file_name().unwrap_or_default()));
        let dir = folder(there.as_deref().unwrap_or(ours), directory);
        make(&dir, directory, spot.place, spot.stop)?;
        if !cold {
            return Ok(());
        }
        // Here drop_caches is not enough: of what a kernel forgot its client keeps the locks.
        if let Some(other) = &self.elsewhere {
            (other.forget)()?;
        }
        forget()
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        if spot.place.native.is_some() {
            return Ok(Done::Skipped("ls goes through mounts".to_owned()));
        }
        let (directory, program, _) = self.task(step);
        let words = PROGRAMS[program].1;
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(folder(spot.place.dir(0), directory)).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.status().map_err(BenchError::of("run a program that lists"))?;
        spot.stop.check()?;
        if !status.success() {
            return Err(BenchError::Failed(format!("{} failed: {status}", words[0])));
        }
        Ok(Done::Work(Work { amount: directory.entries as f64, ..Work::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_meets_every_program_cold_and_warm() {
        let item = Ls::new(&LsArgs { entries: vec![10, 20], stripes: vec![0, 4] });
        let steps: Vec<String> = item.steps().into_iter().map(|step| step.what).collect();
        assert_eq!(steps.len(), 2 * 2 * 4 * 2);
        assert_eq!(steps[0], "ls -U, 10 files, no objects, cold");
        assert_eq!(steps[31], "du, 20 files, 4 stripes, warm");
        let mut unique = steps.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), steps.len());
    }
}
