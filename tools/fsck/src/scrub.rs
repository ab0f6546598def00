//! `sheen scrub`: compares the data of OSTs with its checksums. The node that serves the OSTs does
//! it; if there is none, this program reads their folders.

use crate::error::FsckError;
use crate::report::{CLEAN, LEFT, OPERATIONAL};
use clap::Args;
use env::Env;
use env::real::{RealConfig, RealEnv};
use node::config::settings::Settings;
use node::home::Home;
use node::manage::control::{self, Answer, Request};
use node::manage::scrubs::ScrubAnswer;
use oss::scrub::{Scrubbing, at_rest};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::back_end;
use store::engine::Fence;
use store::journalled::{Journalled, JournalledOptions};
use store::objects::ObjectsOptions;
use store::store::{Committer, Store, StoreOptions};
use target::superblock::{self, SUPERBLOCK};
use types::target::TargetKind;

/// Interval at which a node is asked for its progress.
const LOOK: Duration = Duration::from_millis(200);
/// The tree is left alone as long as a scrub may take.
const NO_APPLYING: Duration = Duration::from_secs(30 * 24 * 3600);

/// Read all data of OSTs and compare it with its checksums
///
/// Every object is read from the disk, and each block compared with the checksum that was recorded
/// when it was synced. Work may go on meanwhile. Blocks that are being changed, or were written
/// while checksums were switched off, have none that counts; a running node gives them one. Nothing
/// else is changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: the sum of 0 clean, 4 bad blocks, 8 something could not be read."
)]
pub struct Scrub {
    /// Home of a node, or folders of its targets while it does not run
    #[arg(value_name = "DIR", default_value = ".sheen", num_args = 1..)]
    pub place: Vec<PathBuf>,
    /// Print JSON; its keys are stable
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: the report to `out`, failures to `err`, progress to `step`. Returns the exit
/// status.
pub fn run(
    scrub: &Scrub,
    out: &mut dyn Write,
    err: &mut dyn Write,
    step: &mut dyn FnMut(&str),
) -> u8 {
    let told = match look(&scrub.place, step) {
        Ok(targets) => {
            let told = if scrub.json { json(&targets, out) } else { text(&targets, out) };
            told.and_then(|()| out.flush()).map(|()| status(&targets))
        }
        Err(error) => writeln!(err, "scrub: {error}").map(|()| OPERATIONAL),
    };
    // The reader of the output has enough or is gone, so the error cannot be reported: the status
    // remains.
    told.unwrap_or(OPERATIONAL)
}

fn status(targets: &[ScrubAnswer]) -> u8 {
    let one = |target: &ScrubAnswer| match target {
        ScrubAnswer { failed: Some(_), .. } => OPERATIONAL,
        ScrubAnswer { bad, bad_more, .. } if !bad.is_empty() || *bad_more > 0 => LEFT,
        _ => CLEAN,
    };
    targets.iter().fold(CLEAN, |all, target| all | one(target))
}

fn text(targets: &[ScrubAnswer], out: &mut dyn Write) -> std::io::Result<()> {
    for ScrubAnswer { target, failed, objects, checked, unchecked, bad, bad_more, .. } in targets {
        for block in bad {
            writeln!(
                out,
                "{target}: object {}: the block at byte {} is not what was written",
                block.object, block.offset
            )?;
        }
        let count = bad.len() as u64 + bad_more;
        let verdict = match (failed, count) {
            (Some(reason), _) => format!("could not be read: {reason}"),
            (None, 0) => "clean".to_owned(),
            (None, 1) => "1 bad block".to_owned(),
            (None, count) => format!("{count} bad blocks"),
        };
        writeln!(
            out,
            "{target}: {objects} objects, {checked} blocks compared, {unchecked} without a checksum; {verdict}"
        )?;
    }
    Ok(())
}

fn json(targets: &[ScrubAnswer], out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "targets": targets }))?;
    writeln!(out)
}

fn look(places: &[PathBuf], step: &mut dyn FnMut(&str)) -> Result<Vec<ScrubAnswer>, FsckError> {
    let (env, _guard) = RealEnv::start(RealConfig::default())?;
    let mut targets = Vec::new();
    for place in places {
        let dir = std::path::absolute(place)?;
        let home = Home::new(&dir);
        if dir.join(SUPERBLOCK).is_file() {
            targets.extend(folder(&env, &dir, step)?);
        } else if !home.exists() {
            return Err(FsckError::NoPlace(place.display().to_string()));
        } else if home.is_taken()? {
            targets.extend(of_node(&home, step)?);
        } else {
            for dir in Settings::read(&home)?.targets {
                targets.extend(folder(&env, &dir, step)?);
            }
        }
    }
    Ok(targets)
}

/// A node that runs.
fn of_node(home: &Home, step: &mut dyn FnMut(&str)) -> Result<Vec<ScrubAnswer>, FsckError> {
    let mut begin = true;
    loop {
        let (answer, _) = control::ask(home, &Request::Scrub { begin })?;
        let Answer::Scrub { targets } = answer else {
            return Err(FsckError::NoPlace(home.dir().display().to_string()));
        };
        begin = false;
        let running = targets.iter().filter(|target| target.running).count();
        if running == 0 {
            return Ok(targets);
        }
        step(&format!("{running} of {} OSTs are being read", targets.len()));
        std::thread::sleep(LOOK);
    }
}

/// A target at rest; `None`: it is no OST.
fn folder(
    env: &Env,
    dir: &Path,
    step: &mut dyn FnMut(&str),
) -> Result<Option<ScrubAnswer>, FsckError> {
    let block = superblock::read(env, dir)?;
    if block.kind != TargetKind::Ost {
        return Ok(None);
    }
    let name = block.name().ok_or_else(|| FsckError::Unnamed(dir.to_owned()))?;
    step(&format!("reading {name}"));
    let lock = Arc::new(superblock::lock(env, dir)?);
    let of_store = |source| FsckError::Store { target: name, source };
    let options = JournalledOptions { apply_interval: NO_APPLYING, ..JournalledOptions::default() };
    let engine = Journalled::open(env, dir, block.store, options).map_err(of_store)?;
    engine.hold(lock);
    let options = StoreOptions {
        at_least: Fence(block.boot),
        committer: Committer::Caller,
        ..StoreOptions::default()
    };
    let store = Store::open(engine, env.clone(), options).map_err(of_store)?;
    let objects = back_end::open(env, dir, (block.store, &store), ObjectsOptions::default());
    let objects = objects.map_err(of_store)?;
    let scrubbed = match at_rest(&store, &*objects) {
        Ok(report) => Scrubbing::Done(report),
        Err(error) => Scrubbing::Failed(error.to_string()),
    };
    Ok(Some(ScrubAnswer::new(name.to_string(), scrubbed)))
}
