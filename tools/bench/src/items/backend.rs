//! `backend`: where the data of an OST is: files on ext4, XFS and Btrfs, and a volume, each on a
//! loop device of the same size over a file in one folder, so on the same disk.
//!
//! The back end is called as an OST calls it, in this process; there is no network and no mount. A
//! sync is that of the back end, and of the OST's store if it needs that.

mod disk;

use crate::failure::BenchError;
use crate::item::{Done, Item, Spot, Step, Work};
use crate::place::Place;
use bench_args::BackendArgs;
use bench_report::figure::{Role, Unit};
use disk::Disk;
use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use std::path::Path;
use std::sync::Arc;
use store::back_end;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::objects::{Objects, ObjectsOptions};
use store::store::{Store, StoreOptions};
use store::volume::device::{self, VolumeSpec};
use types::fid::Fid;
use types::object::ObjectId;

/// UUID of each store: they never meet.
const STORE: u128 = 0xbe7c;
/// Bytes of a piece of a stream.
const PIECE: usize = 1 << 20;
/// Bytes of small reads and writes.
const SMALL: usize = 4096;
/// Bytes of a unit of a volume, and of what is rewritten.
const UNIT: usize = 64 << 10;
/// Bytes of a new small object.
const OBJECT: usize = 16 << 10;
/// Size of each object that is read in small pieces.
const READ_BYTES: usize = 256 << 10;
/// The object of the stream and of what is rewritten.
const STREAM: u32 = 1;
/// The first of the objects that are read in small pieces.
const READ: u32 = 100;
/// The first of the new ones.
const NEW: u32 = 100_000;

/// Kind of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    Write,
    Read,
    Rewrite,
    SmallWrites,
    SmallSynced,
    Create,
    SmallReads,
}

const TASKS: [Task; 7] = [
    Task::Write,
    Task::Read,
    Task::Rewrite,
    Task::SmallWrites,
    Task::SmallSynced,
    Task::Create,
    Task::SmallReads,
];

/// One back end on its disk.
struct Back {
    objects: Arc<dyn ObjectStore>,
    store: Arc<Store>,
    /// The last to go.
    _disk: Disk,
}

impl Back {
    fn sync(&self, object: u32) -> Result<(), BenchError> {
        self.objects.sync(id(object)).map_err(BenchError::of("sync"))?;
        if self.objects.needs_commit() {
            self.store.commit_blocking().map_err(BenchError::of("commit"))?;
        }
        Ok(())
    }

    fn write(&self, object: u32, bytes: &[u8], at: u64) -> Result<(), BenchError> {
        self.objects.write(id(object), bytes, at).map_err(BenchError::of("write"))
    }

    fn read(&self, object: u32, bytes: &mut [u8], at: u64) -> Result<(), BenchError> {
        self.objects.read(id(object), bytes, at).map(drop).map_err(BenchError::of("read"))
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        // The disk goes next: no thread and no map of the store may hold it.
        if let Err(error) = self.store.close_blocking() {
            eprintln!("close the store of a back end: {error}");
        }
    }
}

fn id(oid: u32) -> ObjectId {
    ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }, instance: 1, stripe: 0 }
}

/// The item.
pub struct Backend {
    args: BackendArgs,
    backs: Vec<Back>,
    /// Random bytes: what is written is never the same as before.
    bytes: Vec<u8>,
    _guard: RealGuard,
}

impl Backend {
    /// Makes the disks in `dir` and a back end on each; returns a place for each, too.
    ///
    /// # Errors
    /// A disk cannot be made; no file system that is asked for can be.
    pub fn new(args: &BackendArgs, dir: &Path) -> Result<(Backend, Vec<Place>), BenchError> {
        let config = RealConfig { reactors: 1, blocking_threads: 2 };
        let (env, guard) = RealEnv::start(config).map_err(BenchError::of("start threads"))?;
        let (mut backs, mut places) = (Vec::new(), Vec::new());
        // The volume first: it is what the others are compared with.
        let kinds = std::iter::once("volume").chain(args.filesystems.iter().map(String::as_str));
        for kind in kinds {
            let disk = Disk::new(dir, kind, args.size.0)?;
            backs.push(made(&env, kind, disk)?);
            let role = if kind == "volume" { Role::Target } else { Role::Reference };
            let name = if kind == "volume" { kind.to_owned() } else { format!("files on {kind}") };
            places.push(Place::bare(&name, role, Vec::new()));
        }
        let bytes = std::iter::repeat_with(|| fastrand::u8(..)).take(2 * PIECE).collect();
        Ok((Backend { args: args.clone(), backs, bytes, _guard: guard }, places))
    }

    /// Bytes that differ from call to call.
    fn some(&self, len: usize) -> &[u8] {
        let from = fastrand::usize(0..PIECE);
        &self.bytes[from..from + len]
    }

    fn stream_bytes(&self) -> u64 {
        self.args.size.0 / 8
    }

    fn objects_read(&self) -> u32 {
        self.args.files as u32
    }

    /// At random places of the stream, whole pieces of `len`.
    fn at_random(&self, back: &Back, len: usize, synced: bool) -> Result<u64, BenchError> {
        let places = self.stream_bytes() / len as u64;
        let at = fastrand::u64(0..places) * len as u64;
        back.write(STREAM, self.some(len), at)?;
        if synced {
            back.sync(STREAM)?;
        }
        Ok(len as u64)
    }
}

fn made(env: &Env, kind: &str, disk: Disk) -> Result<Back, BenchError> {
    let dir = disk.folder();
    let fail = BenchError::of("make a back end");
    let make = || {
        Journalled::create(env, &dir, STORE, &JournalledOptions::default())?;
        if kind == "volume" {
            let spec = VolumeSpec { device: disk.device().to_owned(), bytes: None, reformat: true };
            device::make(env, &spec, device::examine(env, &spec)?, STORE)?;
            device::name_device(env, &dir, disk.device())?;
        } else {
            Objects::create(env, &dir)?;
        }
        let engine = Journalled::open(env, &dir, STORE, JournalledOptions::default())?;
        let store = Store::open(engine, env.clone(), StoreOptions::default())?;
        let objects = back_end::open(env, &dir, (STORE, &store), ObjectsOptions::default())?;
        Ok::<_, store::error::StoreError>((objects, store))
    };
    let (objects, store) = make().map_err(fail)?;
    Ok(Back { objects, store, _disk: disk })
}

impl Item for Backend {
    fn name(&self) -> &'static str {
        "backend"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "bytes": self.args.size.0, "files": self.args.files, "operations": self.args.operations,
        })
    }

    fn steps(&self) -> Vec<Step> {
        let files = self.args.files;
        let step = |task| match task {
            Task::Write => Step::new("stream: write and sync", Unit::MegabytesPerSecond, 1),
            Task::Read => Step::new("stream: read, cached", Unit::MegabytesPerSecond, 1),
            Task::Rewrite => {
                Step::new("64 KiB at random places, synced at the end", Unit::MegabytesPerSecond, 1)
            }
            Task::SmallWrites => {
                Step::new("4 KiB at random places, synced at the end", Unit::PerSecond, 1)
            }
            Task::SmallSynced => {
                Step::new("4 KiB at random places, each synced", Unit::PerSecond, 1)
            }
            Task::Create => Step::new("new objects of 16 KiB, each synced", Unit::PerSecond, 1),
            Task::SmallReads => {
                Step::new(format!("{files} objects read by 4 KiB, cached"), Unit::PerSecond, 1)
            }
        };
        TASKS.map(step).into()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        let back = &self.backs[spot.number];
        let destroy = |oid| {
            back.objects.destroy(id(oid)).map(drop).map_err(BenchError::of("destroy an object"))
        };
        match TASKS[step] {
            Task::Write => destroy(STREAM)?,
            Task::Create => {
                (0..self.args.operations as u32).try_for_each(|n| destroy(NEW + n))?;
            }
            Task::SmallReads if spot.round == 0 => {
                for n in 0..self.objects_read() {
                    back.write(READ + n, self.some(READ_BYTES), 0)?;
                }
            }
            _ => {}
        }
        back.objects.sync_all().map_err(BenchError::of("sync"))?;
        back.store.commit_blocking().map_err(BenchError::of("commit"))?;
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let back = &self.backs[spot.number];
        let (bytes, operations) = (self.stream_bytes(), self.args.operations);
        let mut amount = operations as f64;
        match TASKS[step] {
            Task::Write => {
                for at in (0..bytes).step_by(PIECE) {
                    spot.stop.check()?;
                    back.write(STREAM, self.some(PIECE), at)?;
                }
                back.sync(STREAM)?;
                amount = bytes as f64;
            }
            Task::Read => {
                let mut piece = vec![0; PIECE];
                for at in (0..bytes).step_by(PIECE) {
                    spot.stop.check()?;
                    back.read(STREAM, &mut piece, at)?;
                }
                amount = bytes as f64;
            }
            Task::Rewrite => {
                let mut written = 0;
                while written < bytes / 2 {
                    spot.stop.check()?;
                    written += self.at_random(back, UNIT, false)?;
                }
                back.sync(STREAM)?;
                amount = written as f64;
            }
            Task::SmallWrites => {
                for _ in 0..operations {
                    spot.stop.check()?;
                    self.at_random(back, SMALL, false)?;
                }
                back.sync(STREAM)?;
            }
            Task::SmallSynced => {
                for _ in 0..operations {
                    spot.stop.check()?;
                    self.at_random(back, SMALL, true)?;
                }
            }
            Task::Create => {
                for n in 0..operations as u32 {
                    spot.stop.check()?;
                    back.write(NEW + n, self.some(OBJECT), 0)?;
                    back.sync(NEW + n)?;
                }
            }
            Task::SmallReads => {
                let mut piece = vec![0; SMALL];
                let mut read = 0;
                for n in 0..self.objects_read() {
                    spot.stop.check()?;
                    for at in (0..READ_BYTES as u64).step_by(SMALL) {
                        back.read(READ + n, &mut piece, at)?;
                        read += 1;
                    }
                }
                amount = f64::from(read);
            }
        }
        Ok(Done::Work(Work { amount, ..Work::default() }))
    }
}
