//! Small reads over the link: of many files, as percent of what records of 1 MiB reach just before
//! with files as old, and at random places, with what arrives at the network device for them.

mod run;

use super::link::{Link, Side};
use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, MIB, Spot, Step};
use bench_args::WanArgs;
use bench_report::figure::Unit;
use run::{Run, Sequence, blocks, received};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a file.
const FILE_BYTES: usize = 1 << 20;
/// Bytes of a small read.
const SMALL: usize = 4096;
/// Bytes of the file that is read at random.
const RANDOM_FILE: usize = 64 << 20;
/// Threads that read at random, each through an open file of its own.
const RANDOM_THREADS: usize = 64;
/// Reads of each of them, no two at one place.
const RANDOM_READS: usize = 32;

/// How long ago the files were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// They are stored, and no client knows anything of them.
    Old,
    /// Another client wrote and closed them just before.
    Moment,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Small reads as percent of large ones.
    Rate(Age, Sequence),
    /// The beginning of the small reads of the step before. By turns it says nothing: the line is
    /// full of what comes behind the first reads.
    Begin,
    /// MiB that arrive for reads at random places.
    Random,
}

const TASKS: [(Task, &str); 7] = [
    (Task::Rate(Age::Old, Sequence::Files), "4 KiB reads, file after file, of the rate with 1 MiB"),
    (Task::Begin, "4 KiB reads, file after file, the second 100 ms, of the mean"),
    (Task::Rate(Age::Old, Sequence::Turns), "4 KiB reads, by turns, of the rate with 1 MiB"),
    (
        Task::Rate(Age::Moment, Sequence::Files),
        "4 KiB reads, file after file, just written, of the rate with 1 MiB",
    ),
    (Task::Begin, "4 KiB reads, file after file, just written, the second 100 ms, of the mean"),
    (
        Task::Rate(Age::Moment, Sequence::Turns),
        "4 KiB reads, by turns, just written, of the rate with 1 MiB",
    ),
    (Task::Random, "4 KiB reads at random places, 8 MiB in all, received"),
];

/// Percent of the rate with large records that small ones shall reach.
const RATE_GOAL: f64 = 90.0;
/// Bytes that may arrive for a byte that is read at random.
const RECEIVED_GOAL: f64 = 1.15;

/// Something that puts the thread that calls it onto the far host.
type Enter = Box<dyn Fn() -> Result<(), BenchError> + Send + Sync>;

/// The item.
pub struct Reads {
    files: usize,
    /// A mount of the same file system beside the servers.
    writer: PathBuf,
    enter_far: Enter,
    /// How the newest small reads began, percent of their mean.
    begin: Option<f64>,
}

impl Reads {
    /// Makes the item. `writer` is where the other client has the file system mounted.
    pub fn new(args: &WanArgs, link: &Link, writer: &Path) -> Reads {
        let enter_far = Box::new(link.entry(Side::Far));
        Reads { files: args.read_files, writer: writer.to_owned(), enter_far, begin: None }
    }

    /// Our folder, as the client sees it that writes.
    fn written(&self, folder: &Path) -> PathBuf {
        let names = [folder.parent().and_then(Path::file_name), folder.file_name()];
        self.writer.join(names.into_iter().flatten().collect::<PathBuf>())
    }

    /// Makes the files ready to be read as files of this age.
    fn aged(&self, age: Age, spot: &Spot<'_>) -> Result<(), BenchError> {
        let dir = self.written(&folder(age, spot));
        if age == Age::Moment && dir.exists() {
            fs::remove_dir_all(&dir).map_err(BenchError::at("remove", &dir))?;
        }
        if age == Age::Moment {
            forget()?;
        }
        if !dir.exists() {
            fs::create_dir(&dir).map_err(BenchError::at("make", &dir))?;
            for number in 0..self.files {
                make(&dir.join(name(number)), FILE_BYTES, age, spot)?;
            }
        }
        if age == Age::Old { forget() } else { Ok(()) }
    }

    fn read(
        &self,
        dir: &Path,
        record: usize,
        order: Sequence,
        spot: &Spot<'_>,
    ) -> Result<Run, BenchError> {
        let path = |number| dir.join(name(number));
        let open = |number| {
            let path = path(number);
            File::open(&path).map_err(BenchError::at("open", &path))
        };
        let mut buffer = vec![0; record];
        let mut run = Run::start();
        let mut one = |file: &File, number: usize, at: usize| {
            spot.stop.check()?;
            file.read_exact_at(&mut buffer, at as u64)
                .map_err(BenchError::at("read", &path(number)))?;
            run.came(record);
            Ok::<(), BenchError>(())
        };
        match order {
            Sequence::Files => {
                for number in 0..self.files {
                    let file = open(number)?;
                    for at in (0..FILE_BYTES).step_by(record) {
                        one(&file, number, at)?;
                    }
                }
            }
            Sequence::Turns => {
                let files = (0..self.files).map(open).collect::<Result<Vec<_>, _>>()?;
                for at in (0..FILE_BYTES).step_by(record) {
                    for (number, file) in files.iter().enumerate() {
                        one(file, number, at)?;
                    }
                }
            }
        }
        Ok(run.ended())
    }

    /// Small as percent of large.
    fn rate(&mut self, age: Age, order: Sequence, spot: &Spot<'_>) -> Result<f64, BenchError> {
        let dir = folder(age, spot);
        self.aged(age, spot)?;
        let large = self.read(&dir, FILE_BYTES, order, spot)?;
        self.aged(age, spot)?;
        let small = self.read(&dir, SMALL, order, spot)?;
        self.begin = small.second_slice();
        Ok(100.0 * small.rate() / large.rate())
    }

    /// MiB that arrive at the far host while small pieces are read at random places.
    fn random(&self, spot: &Spot<'_>) -> Result<f64, BenchError> {
        let path = spot.place.dir(0).join("random");
        let written = self.written(&path);
        if !written.exists() {
            make(&written, RANDOM_FILE, Age::Old, spot)?;
        }
        forget()?;
        let blocks = blocks(spot.seed, RANDOM_FILE / SMALL, RANDOM_THREADS * RANDOM_READS);
        let before = received(&self.enter_far)?;
        let read = |blocks: &[u64]| -> Result<(), BenchError> {
            let file = File::open(&path).map_err(BenchError::at("open", &path))?;
            let mut buffer = [0; SMALL];
            for block in blocks {
                spot.stop.check()?;
                file.read_exact_at(&mut buffer, block * SMALL as u64)
                    .map_err(BenchError::at("read", &path))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let read = &read;
            let threads: Vec<_> = blocks
                .chunks(RANDOM_READS)
                .map(|blocks| scope.spawn(move || read(blocks)))
                .collect();
            threads.into_iter().try_for_each(|thread| {
                let panicked =
                    |_| BenchError::Failed("a thread panicked; please report it".to_owned());
                thread.join().map_err(panicked)?
            })
        })?;
        Ok(received(&self.enter_far)?.saturating_sub(before) as f64 / MIB)
    }
}

fn name(number: usize) -> String {
    format!("read{number:05}")
}

fn folder(age: Age, spot: &Spot<'_>) -> PathBuf {
    let name = match age {
        Age::Old => "reads",
        Age::Moment => "reads.now",
    };
    spot.place.dir(0).join(name)
}

/// Makes a file; old ones are stored.
fn make(path: &Path, bytes: usize, age: Age, spot: &Spot<'_>) -> Result<(), BenchError> {
    let mut file = File::create_new(path).map_err(BenchError::at("make", path))?;
    let record = vec![0x5a; FILE_BYTES];
    for _ in 0..bytes / FILE_BYTES {
        spot.stop.check()?;
        file.write_all(&record).map_err(BenchError::at("write", path))?;
    }
    match age {
        Age::Old => file.sync_all().map_err(BenchError::at("fsync", path)),
        Age::Moment => Ok(()),
    }
}

impl Item for Reads {
    fn name(&self) -> &'static str {
        "reads"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "files": self.files,
            "file_bytes": FILE_BYTES,
            "record": SMALL,
            "random_reads": RANDOM_THREADS * RANDOM_READS,
        })
    }

    fn steps(&self) -> Vec<Step> {
        let random = (RANDOM_THREADS * RANDOM_READS * SMALL) as f64 / MIB;
        let step = |(task, what): &(Task, &str)| match task {
            Task::Rate(..) | Task::Begin => Step::new(*what, Unit::Percent, 1).goal(RATE_GOAL),
            Task::Random => {
                Step::new(*what, Unit::Mebibytes, RANDOM_THREADS).goal(RECEIVED_GOAL * random)
            }
        };
        TASKS.iter().map(step).collect()
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let of_files = (self.files * FILE_BYTES) as f64 / MIB;
        Ok(match TASKS[step].0 {
            Task::Rate(age, order) => {
                Done::Value { value: self.rate(age, order, spot)?, operations: 2.0 * of_files }
            }
            Task::Begin => match self.begin.take() {
                Some(value) => Done::Value { value, operations: of_files },
                None => Done::Skipped("it was over within 200 ms".to_owned()),
            },
            Task::Random => Done::Value {
                value: self.random(spot)?,
                operations: (RANDOM_THREADS * RANDOM_READS) as f64,
            },
        })
    }
}
