//! A caller that creates, extends, overwrites, cuts, renames and removes files of its own until it
//! is told to stop or its client dies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Files that a caller has at most.
const FILES_MAX: usize = 24;
/// Largest piece that is written at once, bytes.
const PIECE_MAX: usize = 200_000;

/// The files that must be there at the end.
#[derive(Default)]
pub struct Kept {
    /// First bytes of files that were synced and not cut, overwritten, renamed or removed since.
    pub synced: BTreeMap<PathBuf, Vec<u8>>,
    /// The reason why the caller ended before it was told to.
    pub failed: Option<io::Error>,
}

/// One caller.
pub struct Writer {
    dir: PathBuf,
    rng: fastrand::Rng,
    stop: Arc<AtomicBool>,
    files: Vec<(PathBuf, Vec<u8>)>,
    kept: Kept,
    next: u64,
}

/// Ends a caller.
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// The caller ends after what it is doing.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Writer {
    /// In a folder that is not made yet.
    pub fn new(dir: PathBuf, rng: fastrand::Rng) -> Writer {
        Writer { dir, rng, stop: Arc::default(), files: Vec::new(), kept: Kept::default(), next: 0 }
    }

    /// Ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Works; what must be there, and how many operations were done.
    pub fn work(mut self) -> (Kept, u64) {
        let mut count = 0;
        if let Err(error) = fs::create_dir(&self.dir) {
            self.kept.failed = Some(error);
        }
        while self.kept.failed.is_none() && !self.stop.load(Ordering::Relaxed) {
            match self.step() {
                Ok(()) => count += 1,
                Err(error) => self.kept.failed = Some(error),
            }
            std::thread::sleep(Duration::from_millis(self.rng.u64(0..6)));
        }
        (self.kept, count)
    }

    fn new_path(&mut self) -> PathBuf {
        self.next += 1;
        self.dir.join(format!("f{}", self.next))
    }

    fn step(&mut self) -> io::Result<()> {
        let at = (!self.files.is_empty()).then(|| self.rng.usize(0..self.files.len()));
        match (self.rng.u32(0..12), at) {
            (0..4, _) | (_, None) => {
                let path = self.new_path();
                let file = File::create_new(&path)?;
                self.files.push((path, Vec::new()));
                self.extend(self.files.len() - 1, file)
            }
            (4..8, Some(at)) => {
                let file = File::options().append(true).open(&self.files[at].0)?;
                self.extend(at, file)
            }
            (8, Some(at)) => {
                self.kept.synced.remove(&self.files[at].0);
                let len = self.rng.usize(0..2 * PIECE_MAX);
                let file = File::options().write(true).open(&self.files[at].0)?;
                file.set_len(len as u64)?;
                self.files[at].1.resize(len, 0);
                Ok(())
            }
            (9, Some(at)) => {
                let (path, mut text) = self.files.swap_remove(at);
                self.kept.synced.remove(&path);
                text.clear();
                let file = File::options().write(true).truncate(true).open(&path)?;
                self.files.push((path, text));
                self.extend(self.files.len() - 1, file)
            }
            (10, Some(at)) => {
                let to = self.new_path();
                self.kept.synced.remove(&self.files[at].0);
                fs::rename(&self.files[at].0, &to)?;
                self.files[at].0 = to;
                Ok(())
            }
            (_, Some(at)) if self.files.len() > FILES_MAX / 2 => {
                let (path, _) = self.files.swap_remove(at);
                self.kept.synced.remove(&path);
                fs::remove_file(path)
            }
            _ => Ok(()),
        }
    }

    /// Writes a piece behind the end; sometimes syncs.
    fn extend(&mut self, at: usize, mut file: File) -> io::Result<()> {
        let bytes = vec![self.rng.u8(1..=255); self.rng.usize(1..PIECE_MAX)];
        file.write_all(&bytes)?;
        let (path, text) = &mut self.files[at];
        text.extend(bytes);
        if self.rng.u32(0..4) == 0 {
            file.sync_all()?;
            self.kept.synced.insert(path.clone(), text.clone());
        }
        drop(file);
        if self.files.len() > FILES_MAX {
            let (path, _) = self.files.swap_remove(at);
            self.kept.synced.remove(&path);
            fs::remove_file(path)?;
        }
        Ok(())
    }
}
