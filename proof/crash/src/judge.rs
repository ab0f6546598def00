//! Opens every image and says what is wrong with it.

use crate::images::{Crash, images, make};
use crate::workload::{OPERATIONS, Operation, Recorded, Records, STORE, read, record, records};
use check::check::{Check, FIRST, THEN};
use disk::key;
use env::Env;
use env::real::{RealConfig, RealEnv};
use std::path::Path;
use std::time::Duration;
use store::journalled::{Journalled, JournalledOptions};
use store::object_store::ObjectStore;
use store::objects::{Objects, ObjectsOptions};
use store::store::{Committer, Store, StoreOptions};
use types::target::TargetIndex;

/// LMDB is left as the crash left it.
const NEVER: Duration = Duration::from_secs(3600);
/// Findings about unsynced data: objects come before the records that name them, and are lost
/// before them.
const OF_UNSYNCED_DATA: [&str; 4] = ["orphan-object", "lost-object", "short-size", "wrong-blocks"];

/// Amount of work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sequences that were run.
    pub sequences: u64,
    /// Writes and syncs of them.
    pub steps: u64,
    /// Crashes that were opened.
    pub images: u64,
}

/// All sequences of up to `length` operations, shortest first.
pub fn sequences(length: usize) -> Vec<Vec<Operation>> {
    let mut all: Vec<Vec<Operation>> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|head| OPERATIONS.map(|next| [&head[..], &[next]].concat()))
            .collect();
        all.extend(last.iter().cloned());
    }
    all.retain(|sequence| !sequence.is_empty());
    all
}

/// Runs a sequence, with a commit after each operation and with commits only where they are asked
/// for, and crashes it everywhere.
///
/// # Errors
/// A sentence about the first image that is not as it must be.
pub fn judge(sequence: &[Operation], tally: &mut Tally) -> Result<(), String> {
    let real = RealEnv::start(RealConfig { reactors: 1, blocking_threads: 1 });
    let (env, _guard) = real.map_err(|error| format!("start the environment: {error}"))?;
    for each in [true, false] {
        let recorded = record(sequence, each);
        tally.sequences += 1;
        tally.steps += recorded.steps.len() as u64;
        for (done, crash, image) in images(&recorded.steps) {
            tally.images += 1;
            // A name of its own: LMDB's map of the one before may still be open for a moment.
            let into = recorded.base.with_file_name(format!("image{}", tally.images));
            make(&recorded, &image, &into).map_err(|error| format!("make an image: {error}"))?;
            judge_image(&env, &recorded, done, &into).map_err(|wrong| {
                let step = done.checked_sub(1).map(|last| short(&recorded, last));
                let step = step.unwrap_or_else(|| "nothing".to_owned());
                let commits = if each { "after each operation" } else { "where asked for" };
                format!("{sequence:?}, commits {commits}, {crash:?} after {done} steps (the last: {step}): {wrong}")
            })?;
            std::fs::remove_dir_all(&into).map_err(|error| format!("remove an image: {error}"))?;
        }
    }
    Ok(())
}

fn short(recorded: &Recorded, step: usize) -> String {
    let mut text = format!("{:?}", recorded.steps[step]);
    text.truncate(160);
    text
}

fn judge_image(env: &Env, recorded: &Recorded, done: usize, dir: &Path) -> Result<(), String> {
    let options = JournalledOptions {
        apply_interval: NEVER,
        apply_bytes: Some(u64::MAX),
        ..Default::default()
    };
    let engine = Journalled::open(env, dir, STORE, options)
        .map_err(|error| format!("does not open: {error}"))?;
    let options = StoreOptions { committer: Committer::Caller, ..StoreOptions::default() };
    let store = Store::open(engine, env.clone(), options)
        .map_err(|error| format!("does not open: {error}"))?;
    let objects = Objects::open(env, dir, ObjectsOptions::default());
    let objects = objects.map_err(|error| format!("objects do not open: {error}"))?;
    let found = records(&store);
    // Two operations may leave the same records: the later one counts.
    let Some(state) = recorded.states.iter().rposition(|state| *state == found) else {
        return Err(format!(
            "the records are those of no operation: {}",
            difference(recorded, &found)
        ));
    };
    let due = recorded
        .acknowledged
        .iter()
        .rev()
        .find(|(steps, _)| *steps <= done)
        .map_or(0, |(_, state)| *state);
    if state < due {
        return Err(format!(
            "the records are those after operation {state}, number {due} was acknowledged"
        ));
    }
    whole(&found, &objects)?;
    for synced in
        recorded.synced.iter().filter(|synced| synced.after <= done && done <= synced.until)
    {
        for (object, bytes) in &synced.objects {
            if read(&objects, *object) != *bytes {
                return Err(format!("object {object} is not what fsync answered for"));
            }
        }
    }
    Ok(())
}

fn difference(recorded: &Recorded, found: &Records) -> String {
    let nearest = recorded.states.iter().map(|state| {
        let keys = state.keys().chain(found.keys());
        keys.filter(|key| state.get(*key) != found.get(*key))
            .map(|key| key.escape_ascii().to_string())
            .collect()
    });
    let nearest: Option<Vec<String>> = nearest.min_by_key(|keys: &Vec<String>| keys.len());
    format!("{} records, different: {:?}", found.len(), nearest.unwrap_or_default())
}

/// The name space must be whole whatever was lost; unsynced data may be lost.
fn whole(records: &Records, objects: &Objects) -> Result<(), String> {
    let mut check = Check::default();
    for tag in FIRST.into_iter().chain(THEN) {
        let (start, end) = key::all(tag);
        for (key, value) in records.range(start.to_vec()..end.to_vec()) {
            check.record(0, key, value).map_err(|_| "too many inodes".to_owned())?;
        }
    }
    for (object, size, blocks) in
        objects.list(None, usize::MAX).map_err(|error| error.to_string())?
    {
        check.object(TargetIndex(0), object, size, blocks);
    }
    check.all_objects_of(TargetIndex(0));
    let (mut findings, _) = check.finish();
    findings.retain(|finding| !OF_UNSYNCED_DATA.contains(&finding.kind()));
    match findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("fsck: {finding}")),
    }
}

/// For people: the ways of [`Crash`] that are tried at each step.
pub fn ways() -> String {
    crate::images::CRASHES.map(|crash: Crash| format!("{crash:?}")).join(", ")
}
