//! A watcher lists and looks at the names of callers on other clients, and remembers what it was
//! told.

use crate::history::Told;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A rename waits this long at most.
const RENAME_MAX: Duration = Duration::from_secs(60);

/// What a watcher brings.
#[derive(Default)]
pub struct Watched {
    /// What it was told, by prefix of the names.
    pub told: BTreeMap<String, Told>,
    /// The reason why it ended before it was told to.
    pub failed: Option<String>,
}

/// See the module.
pub struct Watcher {
    /// Mount point of its client.
    pub mount: PathBuf,
    /// The names begin so: one prefix for each caller.
    pub prefixes: Vec<String>,
    /// Where the callers work, relative to the root.
    pub dirs: Vec<PathBuf>,
    /// Set: come to an end.
    pub stop: Arc<AtomicBool>,
    /// Its random choices.
    pub rng: fastrand::Rng,
}

/// The names in a directory that begin so, with their inode numbers.
///
/// # Errors
/// Whatever the listing says.
pub fn listed(mount: &Path, dir: &Path, prefix: &str) -> io::Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(mount.join(dir))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.insert(dir.join(entry.file_name()), entry.ino());
        }
    }
    Ok(found)
}

impl Watcher {
    /// Looks, until it is told to stop or its client dies.
    pub fn watch(mut self) -> Watched {
        let mut watched = Watched::default();
        while watched.failed.is_none() && !self.stop.load(Ordering::Relaxed) {
            watched.failed = self.look(&mut watched.told).err();
            std::thread::sleep(Duration::from_millis(self.rng.u64(0..10)));
        }
        watched
    }

    fn look(&mut self, told: &mut BTreeMap<String, Told>) -> Result<(), String> {
        let prefix = self.rng.choice(&self.prefixes).expect("some");
        let dir = self.rng.choice(&self.dirs).expect("some");
        let told = told.entry(prefix.clone()).or_default();
        let there = listed(&self.mount, dir, prefix)
            .map_err(|error| format!("list {}: {error}", dir.display()))?;
        told.extend(there.iter().map(|(path, ino)| (path.clone(), Some(*ino))));
        // Some of those that were there at some time, one by one.
        for _ in 0..8.min(told.len()) {
            let path = told[self.rng.usize(0..told.len())].0.clone();
            let ino =
                self.stat(&path).map_err(|error| format!("stat {}: {error}", path.display()))?;
            told.push((path, ino));
        }
        Ok(())
    }

    /// The inode of a name; `None`: there is none. While a rename through the same mount waits for
    /// an MDT, the kernel says ESTALE of a directory that another client has moved
    /// (docs/oracle.md): then it is asked again.
    fn stat(&self, path: &Path) -> io::Result<Option<u64>> {
        let (began, path) = (Instant::now(), self.mount.join(path));
        let mut stale = false;
        loop {
            match fs::symlink_metadata(&path) {
                Ok(meta) if !stale || meta.is_dir() => return Ok(Some(meta.ino())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error)
                    if error.raw_os_error() == Some(libc::ESTALE)
                        && began.elapsed() < RENAME_MAX =>
                {
                    stale = true;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
                Ok(_) => return Err(io::Error::other("ESTALE of a file that is there")),
            }
        }
    }
}
