//! `build`: a source tree is unpacked and built, as developers do it all day. It is built cold,
//! again with nothing to do (warm), and after one header changed; then the link alone (the small
//! random writes of a linker). Builds run alone and several at once over all mounts. Then each has
//! a tree of its own, or all build one tree into folders of their own, or all build one tree into
//! one folder, each other modules.
//!
//! Without `--tree` the tree is a C program made from the seed. Everything goes through real
//! programs: `tar`, `make`, `cc`.

mod child;
mod sources;

use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::items::warm;
use crate::place;
use bench_args::BuildArgs;
use bench_report::figure::Unit;
use bench_report::machine::cpus;
use child::run_all;
use sources::Sources;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Unpack,
    Cold,
    Nothing,
    Touched,
    Link,
    /// Several at once.
    Many,
    /// Several at once from one source tree, objects apart.
    Apart,
    /// Several at once from one source tree into one object folder.
    Together,
}

/// The item.
pub struct Build {
    args: BuildArgs,
    tasks: Vec<Task>,
    /// Folder of the archive until the end, outside of the measured place.
    work: Option<tempfile::TempDir>,
}

impl Build {
    /// Makes the item from its arguments.
    pub fn new(args: &BuildArgs) -> Build {
        let mut tasks = vec![Task::Unpack, Task::Cold, Task::Nothing];
        if args.tree.is_none() {
            // In a foreign tree it is not known which header matters, nor what is linked.
            tasks.extend([Task::Touched, Task::Link]);
        }
        if args.copies > 1 {
            tasks.push(Task::Many);
            if args.tree.is_none() {
                // For a foreign tree it is not known whether its objects may be elsewhere.
                tasks.extend([Task::Apart, Task::Together]);
            }
        }
        Build { args: args.clone(), tasks, work: None }
    }

    fn jobs(&self) -> usize {
        self.args.jobs.unwrap_or_else(cpus)
    }

    /// The archive to unpack, made at the first call.
    fn archive(&mut self, spot: &Spot<'_>) -> Result<PathBuf, BenchError> {
        if let Some(file) = self.args.tree.as_ref().filter(|tree| tree.is_file()) {
            return file.canonicalize().map_err(BenchError::at("find", file));
        }
        if let Some(work) = &self.work {
            return Ok(work.path().join("tree.tar"));
        }
        let work = tempfile::Builder::new().prefix("sheen-bench-build.").tempdir();
        let work = work.map_err(BenchError::of("make a temporary folder"))?;
        let tree = match &self.args.tree {
            Some(tree) => tree.canonicalize().map_err(BenchError::at("find", tree))?,
            None => {
                let tree = work.path().join("tree");
                self.sources(spot).write(&tree)?;
                tree
            }
        };
        let archive = work.path().join("tree.tar");
        let mut tar = Command::new("tar");
        tar.arg("cf").arg(&archive).arg("-C").arg(&tree).arg(".");
        run_all(vec![tar], spot.stop)?;
        self.work = Some(work);
        Ok(archive)
    }

    fn dir(spot: &Spot<'_>, copy: usize) -> PathBuf {
        spot.place.dir(copy).join(format!("build{copy}.{}", spot.round))
    }

    /// Folder for the objects of a client of the shared tree, as its mount shows it.
    fn objects(spot: &Spot<'_>, copy: usize, apart: bool) -> PathBuf {
        let name = if apart {
            format!("objects{copy}.{}", spot.round)
        } else {
            format!("objects.{}", spot.round)
        };
        spot.place.dir(copy).join(name)
    }

    fn unpack(archive: &Path, dir: &Path) -> Command {
        let mut tar = Command::new("tar");
        tar.arg("xf").arg(archive).arg("-C").arg(dir);
        tar
    }

    fn make(&self, dir: &Path) -> Command {
        self.make_with(dir, "")
    }

    fn make_with(&self, dir: &Path, arguments: &str) -> Command {
        let mut shell = Command::new("sh");
        let line = self.args.command.replace("{jobs}", &self.jobs().to_string());
        shell.arg("-c").arg(line + arguments).current_dir(dir);
        shell
    }

    /// In an object folder, from the one tree beside it.
    fn make_shared(&self, spot: &Spot<'_>, copy: usize, apart: bool, targets: &str) -> Command {
        let tree = format!("../build0.{}", spot.round);
        self.make_with(
            &Build::objects(spot, copy, apart),
            &format!(" -f {tree}/Makefile SRC={tree}{targets}"),
        )
    }

    fn sources(&self, spot: &Spot<'_>) -> Sources {
        Sources { files: self.args.sources, seed: spot.seed }
    }

    /// The libraries that each client makes when all make them together. If there are more clients
    /// than libraries, the others have nothing to do.
    fn shares(&self, spot: &Spot<'_>) -> impl Iterator<Item = (usize, String)> {
        let (modules, copies) = (self.sources(spot).modules(), self.args.copies);
        self.copies().take(modules).map(move |copy| {
            let share = (copy - 1..modules).step_by(copies);
            (copy, share.map(|module| format!(" module{module}/lib.a")).collect())
        })
    }

    fn copies(&self) -> std::ops::Range<usize> {
        1..self.args.copies + 1
    }

    /// The program prints what it always prints: the objects hold what the compiler wrote.
    fn check(&self, dir: &Path) -> Result<(), BenchError> {
        if self.args.tree.is_some() {
            return Ok(());
        }
        let program = dir.join("program");
        let output = Command::new(&program).output().map_err(BenchError::at("run", &program))?;
        let sound = output.status.success() && output.stdout.ends_with(b"\n");
        if sound {
            Ok(())
        } else {
            Err(BenchError::Failed(format!("{} is broken", program.display())))
        }
    }
}

impl Item for Build {
    fn name(&self) -> &'static str {
        "build"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "sources": self.args.tree.is_none().then_some(self.args.sources),
            "tree": self.args.tree,
            "command": self.args.command,
            "jobs": self.jobs(),
            "copies": self.args.copies,
        })
    }

    fn steps(&self) -> Vec<Step> {
        let jobs = self.jobs();
        let step = |task: &Task| {
            let (what, actors) = match task {
                Task::Unpack => ("unpack".to_owned(), 1),
                Task::Cold => (format!("build, cold, {jobs} jobs"), jobs),
                Task::Nothing => ("build again, nothing to do, warm".to_owned(), 1),
                Task::Touched => ("build after one header changed".to_owned(), jobs),
                Task::Link => ("link alone".to_owned(), 1),
                Task::Many => {
                    let copies = self.args.copies;
                    (format!("{copies} at once: unpack and build, {jobs} jobs each"), copies * jobs)
                }
                Task::Apart => {
                    let copies = self.args.copies;
                    (
                        format!("{copies} at once from one tree, objects apart, {jobs} jobs each"),
                        copies * jobs,
                    )
                }
                Task::Together => {
                    let copies = self.args.copies;
                    (
                        format!("{copies} at once from one tree into one folder, {jobs} jobs each"),
                        copies * jobs,
                    )
                }
            };
            let step = Step::new(what, Unit::Seconds, actors);
            match task {
                Task::Cold => step.tag("build", "cold"),
                Task::Many => step.tag("build", "many").tag("copies", self.args.copies),
                Task::Apart => step.tag("build", "apart").tag("copies", self.args.copies),
                Task::Together => step.tag("build", "together").tag("copies", self.args.copies),
                _ => step,
            }
        };
        self.tasks.iter().map(step).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        if spot.place.native.is_some() || spot.place.name == place::NULL {
            return Ok(());
        }
        self.archive(spot)?;
        let dir = Build::dir(spot, 0);
        let make_dir = |dir: &Path| fs::create_dir(dir).map_err(BenchError::at("make", dir));
        match self.tasks[step] {
            Task::Unpack => make_dir(&dir)?,
            Task::Cold => forget()?,
            // The first time it reads what the compilers wrote; what changed a moment ago is not
            // cached.
            Task::Nothing => {
                std::thread::sleep(warm::YOUNG);
                run_all(vec![self.make(&dir)], spot.stop)?;
            }
            Task::Touched => {
                // Half of the headers include it, by way of others.
                let header = dir.join("include/part0.h");
                let file = fs::File::options()
                    .append(true)
                    .open(&header)
                    .map_err(BenchError::at("open", &header))?;
                file.set_modified(SystemTime::now()).map_err(BenchError::at("touch", &header))?;
            }
            Task::Link => {
                let program = dir.join("program");
                fs::remove_file(&program).map_err(BenchError::at("remove", &program))?;
            }
            Task::Many => {
                for copy in self.copies() {
                    make_dir(&Build::dir(spot, copy))?;
                }
            }
            Task::Apart | Task::Together => {
                let apart = self.tasks[step] == Task::Apart;
                let folders = if apart { self.copies() } else { 1..2 };
                for objects in folders.map(|copy| Build::objects(spot, copy, apart)) {
                    make_dir(&objects)?;
                    for module in 0..self.sources(spot).modules() {
                        make_dir(&objects.join(format!("module{module}")))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        if spot.place.native.is_some() {
            return Ok(Done::Skipped("build goes through mounts".to_owned()));
        }
        if spot.place.name == place::NULL {
            return Ok(Done::Skipped("it keeps no data".to_owned()));
        }
        let archive = self.archive(spot)?;
        let dir = Build::dir(spot, 0);
        match self.tasks[step] {
            Task::Unpack => run_all(vec![Build::unpack(&archive, &dir)], spot.stop)?,
            Task::Many => {
                let dirs: Vec<PathBuf> = self.copies().map(|copy| Build::dir(spot, copy)).collect();
                run_all(dirs.iter().map(|dir| Build::unpack(&archive, dir)).collect(), spot.stop)?;
                run_all(dirs.iter().map(|dir| self.make(dir)).collect(), spot.stop)?;
            }
            Task::Apart => {
                run_all(
                    self.copies().map(|copy| self.make_shared(spot, copy, true, "")).collect(),
                    spot.stop,
                )?;
                self.copies().try_for_each(|copy| self.check(&Build::objects(spot, copy, true)))?;
            }
            Task::Together => {
                let shares = self.shares(spot);
                run_all(
                    shares
                        .map(|(copy, share)| self.make_shared(spot, copy, false, &share))
                        .collect(),
                    spot.stop,
                )?;
                // One of them sees everything that was made, and links it.
                run_all(vec![self.make_shared(spot, 0, false, "")], spot.stop)?;
                self.check(&Build::objects(spot, 0, false))?;
            }
            _ => {
                run_all(vec![self.make(&dir)], spot.stop)?;
                self.check(&dir)?;
            }
        }
        Ok(Done::Work(Work { amount: 1.0, ..Work::default() }))
    }
}
