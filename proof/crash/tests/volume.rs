//! Objects on a volume are changed, synced and committed, and the disk crashes at every step: each
//! object must be as it was at some round, none older than the newest that was acknowledged; no
//! checksum may differ, no unit have two owners.

use crash::images::{copy, images, make};
use crash::recorded::{RecordedDisk, Steps};
use crash::workload::{Recorded, scratch};
use disk::logged_block::{LOGGED_END, LOGGED_PREFIX};
use env::Env;
use env::real::{RealConfig, RealEnv};
use std::ops::{ControlFlow, RangeInclusive};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::engine::Fence;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::store::{Committer, Store, StoreOptions};
use store::volume::Volume;
use store::volume::check::check;
use store::volume::device::{VolumeSpec, examine, make as make_volume};
use types::fid::Fid;
use types::object::ObjectId;

const STORE: u128 = 0x766f;
const BYTES: u64 = 64 << 20;
const UNIT: u64 = 64 << 10;
/// Units that objects may take, beside those that are kept for overwriting.
const LEFT: u64 = 30;
/// Objects.
const OBJECTS: usize = 3;
/// Changes of one run.
const CHANGES: usize = 90;
/// The tree stays as it is: what is recorded is in the journal alone.
const NEVER: Duration = Duration::from_secs(3600);

/// An object that is there, or not.
type Content = Option<Vec<u8>>;

/// What an object was at each round and removal, with the number of steps then.
type History = Vec<(usize, Content)>;

/// Number of steps at an acknowledgement, and the entry of each history that it is for.
type Promise = (usize, [usize; OBJECTS]);

fn id(oid: usize) -> ObjectId {
    let fid = Fid { seq: Fid::SEQ_NORMAL, oid: oid as u32, ver: 0 };
    ObjectId { fid, instance: 1, stripe: 0 }
}

fn open(env: &Env, dir: &Path) -> (Arc<Store>, Arc<Volume>) {
    let engine = JournalledOptions {
        journal_bytes: 1 << 20,
        apply_interval: NEVER,
        apply_bytes: Some(u64::MAX),
        ..JournalledOptions::default()
    };
    let engine = Journalled::open(env, dir, STORE, engine).unwrap();
    let options = StoreOptions {
        at_least: Fence(1),
        committer: Committer::Caller,
        commit_interval: NEVER,
        ..StoreOptions::default()
    };
    let store = Store::open(engine, env.clone(), options).unwrap();
    let volume = Volume::open(env, &dir.join("device"), (STORE, &store)).unwrap();
    (store, volume)
}

fn content(volume: &Volume, oid: usize) -> Content {
    let (size, _) = volume.size_and_blocks(id(oid)).unwrap()?;
    let mut bytes = vec![0xee; size as usize];
    assert_eq!(volume.read(id(oid), &mut bytes, 0).unwrap(), Some(size as usize));
    Some(bytes)
}

/// Blocks whose bytes are in the store.
fn logged_blocks(store: &Store) -> usize {
    let (mut count, tx) = (0, store.begin());
    let scanned = tx.scan(LOGGED_PREFIX, LOGGED_END, |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    tx.finish();
    scanned.unwrap();
    count
}

struct Run {
    recorded: Recorded,
    histories: [History; OBJECTS],
    promises: Vec<Promise>,
    /// Commits with logged blocks.
    logged: u64,
}

fn run(seed: u64) -> Run {
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = scratch();
    let (base, live) = (folder.path().join("base"), folder.path().join("live"));
    let (real, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    std::fs::create_dir(&live).unwrap();
    let device = live.join("device");
    std::fs::File::create(&device).unwrap().set_len(BYTES).unwrap();
    let spec = VolumeSpec { device, bytes: None, reformat: false };
    make_volume(&real, &spec, examine(&real, &spec).unwrap(), STORE).unwrap();
    let options = JournalledOptions { journal_bytes: 1 << 20, ..JournalledOptions::default() };
    Journalled::create(&real, &live, STORE, &options).unwrap();
    let steps = Steps::default();
    let disk = Arc::new(RecordedDisk { inner: real.disk.clone(), steps: steps.clone() });
    let env = Env { disk, ..real };
    let (store, volume) = open(&env, &live);
    // Little is left free, so that units are given away again soon.
    let left = volume.space().unwrap().free - LEFT * UNIT;
    volume.allocate(id(OBJECTS), 0, left, false).unwrap();
    volume.sync_all().unwrap();
    store.commit_blocking().unwrap();
    steps.lock().clear();
    copy(&live, &base);

    let mut model: [Content; OBJECTS] = Default::default();
    let mut histories: [History; OBJECTS] = Default::default();
    histories.iter_mut().for_each(|history| history.push((0, None)));
    let mut promises = vec![(0, [0; OBJECTS])];
    let mut logged = 0;
    let note = |histories: &mut [History; OBJECTS], oid: usize, content: &Content| {
        let count = steps.lock().len();
        if histories[oid].last().is_some_and(|(_, last)| last != content) {
            histories[oid].push((count, content.clone()));
        }
    };
    // Ends of blocks and units, and elsewhere.
    let position = |rng: &mut fastrand::Rng| match rng.u32(0..3) {
        0 => rng.u64(0..300_000),
        1 => rng.u64(0..5) * UNIT,
        _ => (rng.u64(1..70) * 4096).saturating_sub(rng.u64(0..3)),
    };
    for _ in 0..CHANGES {
        let oid = rng.usize(0..OBJECTS);
        // A change that finds no room begins with a round.
        (0..OBJECTS).for_each(|oid| note(&mut histories, oid, &model[oid]));
        match rng.u32(0..30) {
            0 => {
                let len = position(&mut rng);
                volume.truncate(id(oid), len).unwrap();
                model[oid].get_or_insert_default().resize(len as usize, 0);
            }
            1 => {
                let (start, len) = (position(&mut rng), rng.u64(1..100_000));
                volume.punch(id(oid), start, len).unwrap();
                if let Some(bytes) = &mut model[oid] {
                    let end = (start + len).min(bytes.len() as u64) as usize;
                    if let Some(range) = bytes.get_mut(start as usize..end) {
                        range.fill(0);
                    }
                }
            }
            2 => {
                if volume.destroy(id(oid)).unwrap() {
                    model[oid] = None;
                    note(&mut histories, oid, &None);
                }
            }
            3..=8 => {
                match rng.bool() {
                    true => volume.sync(id(oid)).unwrap(),
                    false => volume.sync_all().unwrap(),
                }
                // A round is for all objects, unless this one needs none.
                (0..OBJECTS).for_each(|oid| note(&mut histories, oid, &model[oid]));
            }
            9 => {
                volume.sync_all().unwrap();
                (0..OBJECTS).for_each(|oid| note(&mut histories, oid, &model[oid]));
                store.commit_blocking().unwrap();
                promises.push((
                    steps.lock().len(),
                    std::array::from_fn(|oid| histories[oid].len() - 1),
                ));
            }
            // What little there is may go to the store instead of the device.
            10..=15 => {
                volume.sync(id(oid)).unwrap();
                (0..OBJECTS).for_each(|oid| note(&mut histories, oid, &model[oid]));
                store.commit_blocking().unwrap();
                let mut promised = promises.last().map(|(_, entries)| *entries).unwrap();
                promised[oid] = histories[oid].len() - 1;
                promises.push((steps.lock().len(), promised));
                logged += u64::from(logged_blocks(&store) > 0);
            }
            _ => {
                let most = [3_000, 3_000, 20_000, 600_000][rng.usize(0..4)];
                let (at, len) = (position(&mut rng), rng.usize(1..most));
                let byte = rng.u8(1..=255);
                volume.write(id(oid), &vec![byte; len], at).unwrap();
                let bytes = model[oid].get_or_insert_default();
                let reach = bytes.len().max(at as usize + len);
                bytes.resize(reach, 0);
                bytes[at as usize..at as usize + len].fill(byte);
            }
        }
    }
    let taken = steps.lock().clone();
    drop((volume, store));
    Run { recorded: Recorded::of_steps(folder, base, live, taken), histories, promises, logged }
}

/// `VOLUME_SEED` alone, or those of every build.
fn seeds() -> RangeInclusive<u64> {
    let Ok(text) = std::env::var("VOLUME_SEED") else { return 1..=3 };
    println!("VOLUME_SEED={text}");
    let seed = text.parse().expect("VOLUME_SEED is a number");
    seed..=seed
}

#[test]
fn no_crash_leaves_a_volume_that_does_not_fit_its_records() {
    let (env, _guard) = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 }).unwrap();
    let (mut count, mut found, mut commits) = (0, 0, 0);
    let seeds = seeds();
    for seed in seeds.clone() {
        let Run { recorded, histories, promises, logged } = run(seed);
        commits += logged;
        for (done, crash, image) in images(&recorded.steps) {
            count += 1;
            // A name of its own: LMDB's map of the one before may still be open for a moment.
            let into = recorded.base.with_file_name(format!("image{count}"));
            make(&recorded, &image, &into).unwrap();
            let (store, volume) = open(&env, &into);
            let promised = promises.iter().rev().find(|(steps, _)| *steps <= done);
            let promised = promised.map(|(_, entries)| *entries).unwrap();
            for oid in 0..OBJECTS {
                let content = content(&volume, oid);
                let allowed = histories[oid][promised[oid]..].iter();
                let is_allowed = allowed
                    .take_while(|(steps, _)| *steps <= done)
                    .any(|(_, past)| *past == content);
                assert!(
                    is_allowed,
                    "seed {seed}, {crash:?} after {done} steps: object {oid} has {:?} bytes, as at no round since the promise",
                    content.map(|bytes| bytes.len())
                );
                found += u64::from(content.is_some_and(|bytes| !bytes.is_empty()));
            }
            let checked = check(&store, (BYTES / UNIT) as u32).unwrap();
            assert_eq!(checked.wrong, [], "seed {seed}, {crash:?} after {done} steps");
            assert_eq!(volume.used(), Some((checked.units * UNIT, checked.objects)));
            drop((volume, store));
            std::fs::remove_dir_all(&into).unwrap();
        }
    }
    println!("{count} images, {found} objects with bytes, {commits} commits with bytes of blocks");
    let runs = seeds.count() as u64;
    assert!(count > 130 * runs && found > 130 * runs, "{count} images, {found} objects with bytes");
    // One seed may draw few small syncs.
    assert!(runs < 3 || commits > 5, "{commits} commits with bytes of blocks");
}
