//! Folders as crashes leave them.

use crate::recorded::Step;
use crate::workload::Recorded;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files above this, bytes, are mostly holes.
const SPARSE_BYTES: u64 = 4 << 20;

/// Kind of crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Crash {
    /// The process was killed: every write is there.
    Killed,
    /// The power went: what no sync covers is lost.
    Lost,
    /// The power went in the middle of the last write: half of it is there; other bytes that no
    /// sync covers are lost.
    Torn,
    /// The power went: every second write that no sync covers is there.
    Partly,
}

/// All kinds.
pub const CRASHES: [Crash; 4] = [Crash::Killed, Crash::Lost, Crash::Torn, Crash::Partly];

/// The part of a step that is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kept {
    Whole,
    Half,
}

/// Steps that are there after a crash, in order. Two crashes with the same ones are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Image(Vec<(usize, Kept)>);

/// Every crash of a sequence that leaves something else than those before: number of steps done,
/// way, image.
pub fn images(steps: &[Step]) -> Vec<(usize, Crash, Image)> {
    let mut known = BTreeSet::new();
    let mut images = Vec::new();
    for done in 0..=steps.len() {
        for crash in CRASHES {
            let image = image(&steps[..done], crash);
            // The promises of fsync and commit depend on how far it was: the same image twice, but
            // once with each.
            if crash == Crash::Killed || known.insert((image.clone(), promises(&steps[..done]))) {
                images.push((done, crash, image));
            }
        }
    }
    images
}

fn promises(steps: &[Step]) -> usize {
    steps
        .iter()
        .filter(|step| matches!(step, Step::Sync { .. } | Step::SyncFolder { .. } | Step::SyncAll))
        .count()
}

fn image(steps: &[Step], crash: Crash) -> Image {
    let mut kept = Vec::new();
    let loose: Vec<usize> = (0..steps.len()).filter(|n| !is_durable(steps, *n)).collect();
    let last_write = loose.iter().rev().find(|n| matches!(steps[**n], Step::Write { .. }));
    for (n, step) in steps.iter().enumerate() {
        let place = loose.iter().position(|loose| *loose == n);
        let keep = match (place, crash) {
            (None, _) | (_, Crash::Killed) => Some(Kept::Whole),
            (Some(_), Crash::Lost) => None,
            (Some(_), Crash::Torn) => (Some(&n) == last_write).then_some(Kept::Half),
            (Some(place), Crash::Partly) => {
                (place % 2 == 0 || is_name(step)).then_some(Kept::Whole)
            }
        };
        kept.extend(keep.map(|keep| (n, keep)));
    }
    Image(kept)
}

fn is_name(step: &Step) -> bool {
    matches!(
        step,
        Step::Create { .. } | Step::Folder { .. } | Step::Remove { .. } | Step::Rename { .. }
    )
}

fn is_durable(steps: &[Step], n: usize) -> bool {
    steps[n + 1..].iter().any(|later| match (&steps[n], later) {
        (_, Step::SyncAll) => true,
        (Step::Write { path, .. } | Step::Length { path, .. }, Step::Sync { path: synced }) => {
            path == synced
        }
        (
            Step::Create { path } | Step::Folder { path } | Step::Remove { path },
            Step::SyncFolder { path: synced },
        ) => path.parent() == Some(synced),
        (Step::Rename { to, .. }, Step::SyncFolder { path: synced }) => to.parent() == Some(synced),
        (Step::Sync { .. } | Step::SyncFolder { .. } | Step::SyncAll, _) => true,
        _ => false,
    })
}

/// Makes the folder `into` as the crash leaves it.
///
/// # Errors
/// The local disk refuses.
pub fn make(recorded: &Recorded, image: &Image, into: &Path) -> io::Result<()> {
    match fs::remove_dir_all(into) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    copy_dir(&recorded.base, into)?;
    for (n, kept) in &image.0 {
        apply(&recorded.steps[*n], *kept, |path| {
            into.join(path.strip_prefix(&recorded.live).unwrap_or(path))
        })?;
    }
    Ok(())
}

fn apply(step: &Step, kept: Kept, place: impl Fn(&Path) -> PathBuf) -> io::Result<()> {
    // Writes to a file whose name was lost are lost with it.
    let open = |path: &Path| OpenOptions::new().write(true).open(place(path));
    match step {
        Step::Write { path, offset, bytes } => {
            let Ok(file) = open(path) else { return Ok(()) };
            let len = if kept == Kept::Half { bytes.len() / 2 } else { bytes.len() };
            file.write_all_at(&bytes[..len], *offset)
        }
        Step::Length { path, len } => match open(path) {
            Ok(file) => file.set_len(*len),
            Err(_) => Ok(()),
        },
        Step::Create { path } => {
            match OpenOptions::new().write(true).create(true).truncate(false).open(place(path)) {
                // The folder was lost.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                made => made.map(|_| ()),
            }
        }
        Step::Folder { path } => match fs::create_dir(place(path)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
                ) =>
            {
                Ok(())
            }
            made => made,
        },
        Step::Remove { path } => match fs::remove_file(place(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
        Step::Rename { from, to } => match fs::rename(place(from), place(to)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        },
        Step::Sync { .. } | Step::SyncFolder { .. } | Step::SyncAll => Ok(()),
    }
}

/// Copies a folder to which nothing is being written.
///
/// # Panics
/// The local disk refuses.
pub fn copy(from: &Path, to: &Path) {
    copy_dir(from, to)
        .unwrap_or_else(|error| panic!("copy {} to {}: {error}", from.display(), to.display()));
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else if entry.metadata()?.len() > SPARSE_BYTES {
            copy_sparse(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Copies a large file without its zeros.
fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (fs::File::open(from)?, fs::File::create(to)?);
    let len = from.metadata()?.len();
    to.set_len(len)?;
    let mut piece = vec![0; 64 << 10];
    let mut at = 0;
    while at < len {
        let read = from.read_at(&mut piece, at)?;
        if read == 0 {
            break;
        }
        if piece[..read].iter().any(|byte| *byte != 0) {
            to.write_all_at(&piece[..read], at)?;
        }
        at += read as u64;
    }
    Ok(())
}
