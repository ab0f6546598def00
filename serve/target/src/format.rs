//! Making a folder into a target.
//!
//! Order: the mark `formatting`, store and object folders, superblock, mark away. A folder with the
//! mark and no superblock is a format that was cut short: it is begun again. A folder with a
//! superblock is a target and is destroyed only on request; any other content is foreign and is
//! left alone.

use crate::error::TargetError;
use crate::superblock;
use disk::superblock::Superblock;
use env::Env;
use env::disk::Open;
use std::io;
use std::path::Path;
use store::error::StoreError;
use store::journalled::{Journalled, JournalledOptions};
use store::objects::Objects;
use store::volume::device::{self, VolumeSpec};
use types::limits;
use types::proof::ServerKey;
use types::session::ClusterId;
use types::target::{FsName, TargetIndex, TargetKind};

/// Where the log of the target is, if it is not in the folder.
pub const LOG: &str = "log";
/// There while a format is under way.
const FORMATTING: &str = "formatting";
/// The files that a target's folder may hold. `lost+found` is the local file system's; `node.toml`
/// and `run` belong to a process that serves the target.
const OURS: [&str; 12] = [
    superblock::SUPERBLOCK,
    superblock::SUPERBLOCK_NEW,
    superblock::LOCK,
    FORMATTING,
    "journal",
    "tree",
    "objects",
    device::DEVICE,
    LOG,
    "lost+found",
    "node.toml",
    "run",
];
/// Journal of an MGS, bytes: configuration changes little.
const JOURNAL_BYTES_MGT: u64 = 4 << 20;

/// The new target.
#[derive(Clone, Debug)]
pub struct FormatSpec {
    /// File system.
    pub fsname: FsName,
    /// Kind of the target.
    pub kind: TargetKind,
    /// Index of the target; `None`: the MGS gives one at its first start.
    pub index: Option<TargetIndex>,
    /// Cluster; 0: learned from the MGS at its first start.
    pub cluster: ClusterId,
    /// Size of the journal, bytes; `None`: what suits the kind.
    pub journal_bytes: Option<u64>,
    /// The volume that its objects are to be on; `None`: a file each. An OST only.
    pub volume: Option<VolumeSpec>,
    /// Destroy the target that is there.
    pub replace: bool,
}

impl FormatSpec {
    /// A target without number and cluster yet.
    pub fn new(fsname: FsName, kind: TargetKind) -> FormatSpec {
        FormatSpec {
            fsname,
            kind,
            index: None,
            cluster: ClusterId(0),
            journal_bytes: None,
            volume: None,
            replace: false,
        }
    }
}

/// What tells a target from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// UUID of its store.
    pub store: u128,
    /// Its cluster; 0: learned from the MGS at its first start.
    pub cluster: ClusterId,
    /// Key of the servers of the cluster; not known: likewise.
    pub key: ServerKey,
}

impl Identity {
    /// Of a target with this store that learns the rest from the MGS.
    pub fn of_store(store: u128) -> Identity {
        Identity { store, cluster: ClusterId(0), key: ServerKey(0) }
    }
}

/// Makes `dir` (created if absent) into an empty target. Durable when this returns.
///
/// # Errors
/// The folder is not empty, is in use, or cannot be written.
pub fn format(env: &Env, dir: &Path, spec: &FormatSpec) -> Result<(), TargetError> {
    let usual =
        if spec.kind == TargetKind::Mgt { JOURNAL_BYTES_MGT } else { limits::JOURNAL_BYTES };
    let journal_bytes = spec.journal_bytes.unwrap_or(usual);
    let options = JournalledOptions { journal_bytes, ..JournalledOptions::default() };
    format_over(env, dir, spec, |store| {
        Journalled::create(env, dir, store, &options)?;
        Ok(Identity { cluster: spec.cluster, ..Identity::of_store(store) })
    })
}

/// As [`format`], for another engine: `engine` makes its empty store, given a new UUID, and returns
/// the identity that the target has with it.
///
/// # Errors
/// As [`format`].
pub fn format_over(
    env: &Env,
    dir: &Path,
    spec: &FormatSpec,
    engine: impl FnOnce(u128) -> Result<Identity, StoreError>,
) -> Result<(), TargetError> {
    // Before anything is made.
    let suits = spec.volume.as_ref().map(|volume| device::examine(env, volume)).transpose()?;
    let made: Vec<&Path> =
        dir.ancestors().take_while(|folder| env.disk.list(folder).is_err()).collect();
    env.disk.create_dirs(dir).map_err(TargetError::io("create", dir))?;
    // A folder is durable when the one above it is synced.
    for above in made.iter().filter_map(|folder| folder.parent()) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        env.disk.sync_dir(above).map_err(TargetError::io("sync", above))?;
    }
    let names = env.disk.list(dir).map_err(TargetError::io("list", dir))?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if let Some(found) = names.iter().find(|n| !OURS.contains(&n.as_str())) {
        return Err(TargetError::NotEmpty { dir: dir.to_owned(), found: found.clone() });
    }
    let parts = ["journal", "tree", "objects"].into_iter().find(|part| has(part));
    if has(superblock::SUPERBLOCK) && !spec.replace {
        let name = superblock::read(env, dir).ok().and_then(|s| s.name());
        return Err(TargetError::Exists { dir: dir.to_owned(), name });
    }
    if let Some(part) = parts.filter(|_| !spec.replace && !has(FORMATTING)) {
        return Err(TargetError::NotEmpty { dir: dir.to_owned(), found: part.to_owned() });
    }
    let _lock = superblock::lock(env, dir)?;
    let mark = dir.join(FORMATTING);
    env.disk.open(&mark, Open::Create).map_err(TargetError::io("create", &mark))?;
    env.disk.sync_dir(dir).map_err(TargetError::io("sync", dir))?;
    clear(env, dir)?;

    let Identity { store, cluster, key } = engine(env.random.next_u128())?;
    match spec.volume.as_ref().zip(suits) {
        Some((volume, suits)) => {
            device::make(env, volume, suits, store)?;
            device::name_device(env, dir, &volume.device)?;
        }
        None if has_objects(spec.kind) => Objects::create(env, dir)?,
        None => {}
    }
    let FormatSpec { fsname, kind, index, .. } = *spec;
    superblock::write(env, dir, &Superblock { cluster, store, boot: 0, fsname, kind, index, key })?;
    remove(env, &mark)?;
    env.disk.sync_dir(dir).map_err(TargetError::io("sync", dir))
}

/// True if targets of this kind have object files.
pub(crate) fn has_objects(kind: TargetKind) -> bool {
    match kind {
        TargetKind::Mgt => false,
        TargetKind::Mdt | TargetKind::Ost => true,
    }
}

/// Removes what an earlier target or an interrupted format left; the superblock first, so that it
/// is no target from then on.
fn clear(env: &Env, dir: &Path) -> Result<(), TargetError> {
    remove(env, &dir.join(superblock::SUPERBLOCK))?;
    env.disk.sync_dir(dir).map_err(TargetError::io("sync", dir))?;
    remove(env, &dir.join("journal"))?;
    remove(env, &dir.join(LOG))?;
    remove(env, &dir.join(device::DEVICE))?;
    remove_files(env, &dir.join("tree"), 0)?;
    // Three levels: two of folders, then the objects. Empty folders stay and are used again.
    remove_files(env, &dir.join("objects"), 2)
}

fn remove(env: &Env, path: &Path) -> Result<(), TargetError> {
    match env.disk.remove(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(TargetError::io("remove", path)),
    }
}

/// Removes the files `depth` folders below `dir`.
fn remove_files(env: &Env, dir: &Path, depth: u32) -> Result<(), TargetError> {
    let names = match env.disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(TargetError::io("list", dir))?,
    };
    for name in names {
        match depth {
            0 => remove(env, &dir.join(name))?,
            depth => remove_files(env, &dir.join(name), depth - 1)?,
        }
    }
    Ok(())
}
