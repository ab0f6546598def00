//! The superblock file and the lock beside it.
//!
//! Written whole: `superblock.new`, sync, rename over `superblock`, sync of the folder. After a
//! crash at any point the old or the new one is there, and both are good.

use crate::error::TargetError;
use disk::superblock::{BadSuperblock, Superblock};
use env::Env;
use env::disk::Open;
use std::io;
use std::path::Path;

/// Names of a target's files in its folder.
pub const SUPERBLOCK: &str = "superblock";
/// The superblock while it is written.
pub const SUPERBLOCK_NEW: &str = "superblock.new";
/// Held while the target is served or formatted; holds the server's process number as text.
pub const LOCK: &str = "lock";
/// Longest text read from the lock file, bytes.
const LOCK_TEXT_MAX: usize = 32;

/// Reads the superblock of the target in `dir`.
///
/// # Errors
/// There is none, or it cannot be used.
pub fn read(env: &Env, dir: &Path) -> Result<Superblock, TargetError> {
    let path = dir.join(SUPERBLOCK);
    let file = match env.disk.open(&path, Open::Existing) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(TargetError::NotATarget { dir: dir.to_owned() });
        }
        file => file.map_err(TargetError::io("open", &path))?,
    };
    let (size, _) = file.size_and_blocks().map_err(TargetError::io("look at", &path))?;
    let bad = |reason| TargetError::Superblock { path: path.clone(), reason };
    if size != Superblock::SIZE as u64 {
        return Err(bad(BadSuperblock::Size(size)));
    }
    let (mut bytes, mut done) = ([0; Superblock::SIZE], 0);
    while done < bytes.len() {
        match file
            .read_at(&mut bytes[done..], done as u64)
            .map_err(TargetError::io("read", &path))?
        {
            0 => return Err(bad(BadSuperblock::Size(done as u64))),
            n => done += n,
        }
    }
    Superblock::decode(&bytes).map_err(bad)
}

/// Replaces the superblock. Durable when this returns.
///
/// # Errors
/// The disk refuses; the old one is still there.
pub fn write(env: &Env, dir: &Path, superblock: &Superblock) -> Result<(), TargetError> {
    let (path, new) = (dir.join(SUPERBLOCK), dir.join(SUPERBLOCK_NEW));
    let file = env.disk.open(&new, Open::Create).map_err(TargetError::io("create", &new))?;
    file.set_len(0).map_err(TargetError::io("write", &new))?;
    file.write_all_at(&superblock.encode(), 0).map_err(TargetError::io("write", &new))?;
    file.sync_data().map_err(TargetError::io("sync", &new))?;
    env.disk.rename(&new, &path).map_err(TargetError::io("rename", &new))?;
    env.disk.sync_dir(dir).map_err(TargetError::io("sync", dir))
}

/// Exclusive use of a target's folder; ends when dropped, or with the process.
pub struct Lock {
    _guard: Box<dyn Send + Sync>,
}

/// Takes the lock of the folder.
///
/// # Errors
/// [`TargetError::Served`], or the disk refuses.
pub fn lock(env: &Env, dir: &Path) -> Result<Lock, TargetError> {
    let path = dir.join(LOCK);
    match env.disk.lock(&path).map_err(TargetError::io("lock", &path))? {
        None => Err(TargetError::Served { dir: dir.to_owned(), by: holder(env, &path) }),
        Some(guard) => {
            let file =
                env.disk.open(&path, Open::Existing).map_err(TargetError::io("open", &path))?;
            let text = format!("{}\n", std::process::id());
            // Only for people: the lock itself is what counts.
            let noted = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
            noted.map_err(TargetError::io("write", &path))?;
            Ok(Lock { _guard: guard })
        }
    }
}

fn holder(env: &Env, path: &Path) -> Option<u32> {
    let mut text = [0; LOCK_TEXT_MAX];
    let len = env.disk.open(path, Open::Existing).ok()?.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}
