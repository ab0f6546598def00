//! A caller makes, moves, links and removes files and directories of its own in directories that
//! all callers share, until it is told to stop or its client dies.

use crate::history::{History, Leads};
use e2e::lustre::try_lfs;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names that a caller has at most.
const NAMES_MAX: usize = 40;
/// Largest file, bytes.
const BYTES_MAX: usize = 20_000;

/// What a caller leaves.
pub struct Left {
    /// What it did.
    pub history: History,
    /// The reason why it ended before it was told to.
    pub failed: Option<String>,
}

struct Name {
    path: PathBuf,
    ino: u64,
    is_dir: bool,
}

/// See the module.
pub struct Caller {
    /// Mount point of its client.
    pub mount: PathBuf,
    /// Its names begin so.
    pub prefix: String,
    /// Where it works, relative to the root.
    pub dirs: Vec<PathBuf>,
    /// Number of MDTs.
    pub mdts: u16,
    /// Set: come to an end.
    pub stop: Arc<AtomicBool>,
    /// Its random choices.
    pub rng: fastrand::Rng,
}

impl Caller {
    /// Works.
    pub fn work(mut self) -> Left {
        let (mut history, mut names) = (History::default(), Vec::new());
        let mut failed = None;
        while failed.is_none() && !self.stop.load(Ordering::Relaxed) {
            failed = self
                .step(&mut history, &mut names)
                .err()
                .map(|error| format!("{}: change {}: {error}", self.prefix, history.len()));
            std::thread::sleep(Duration::from_millis(self.rng.u64(0..4)));
        }
        Left { history, failed }
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.mount.join(path)
    }

    /// A name that never was.
    fn fresh(&mut self, history: &History) -> PathBuf {
        let dir = self.rng.choice(&self.dirs).expect("some");
        dir.join(format!("{}{}", self.prefix, history.len()))
    }

    fn step(&mut self, history: &mut History, names: &mut Vec<Name>) -> io::Result<()> {
        let some = (!names.is_empty()).then(|| self.rng.usize(0..names.len()));
        match (self.rng.u32(0..20), some) {
            (0..9, _) | (_, None) if names.len() < NAMES_MAX => {
                let made = self.make(history)?;
                names.push(made);
            }
            (9..14, Some(at)) => self.rename(history, names, at)?,
            (14..16, Some(at)) if !names[at].is_dir => {
                let to = self.fresh(history);
                history.begin(vec![(to.clone(), Leads::To(names[at].ino))]);
                fs::hard_link(self.at(&names[at].path), self.at(&to))?;
                names.push(Name { path: to, ..names[at] });
            }
            (16, _) => {
                for dir in &self.dirs {
                    File::open(self.at(dir))?.sync_all()?;
                }
                history.is_certain();
            }
            (_, Some(at)) => {
                let Name { path, is_dir, .. } = names.swap_remove(at);
                history.begin(vec![(path.clone(), Leads::Nowhere)]);
                let path = self.at(&path);
                if is_dir { fs::remove_dir(path) } else { fs::remove_file(path) }?;
            }
            (_, None) => {}
        }
        Ok(())
    }

    /// Makes a file, or a directory here or on a given MDT.
    fn make(&mut self, history: &mut History) -> io::Result<Name> {
        let path = self.fresh(history);
        history.begin(vec![(path.clone(), Leads::ToSome)]);
        let kind = self.rng.u32(0..9);
        let at = self.at(&path);
        match kind {
            0..5 => {
                let file = File::create_new(&at)?;
                history.made(file.metadata()?.ino());
                let bytes = vec![1; self.rng.usize(0..BYTES_MAX)];
                io::Write::write_all(&mut &file, &bytes)?;
            }
            5..7 => fs::create_dir(&at)?,
            _ => {
                let (mdt, name) = (self.rng.u16(0..self.mdts).to_string(), at.to_string_lossy());
                let made = try_lfs(Path::new("/"), &["mkdir", "-i", &mdt, &name]);
                if !made.status.success() {
                    return Err(io::Error::other(e2e::process::text(&made)));
                }
            }
        }
        let ino = fs::symlink_metadata(&at)?.ino();
        history.made(ino);
        Ok(Name { path, ino, is_dir: kind >= 5 })
    }

    /// To a fresh name, or over another of its kind.
    fn rename(
        &mut self,
        history: &mut History,
        names: &mut Vec<Name>,
        at: usize,
    ) -> io::Result<()> {
        let over = (0..names.len()).find(|other| {
            let (from, to) = (&names[at], &names[*other]);
            // POSIX: nothing happens if both are names of one file.
            from.is_dir == to.is_dir && from.ino != to.ino
        });
        let over = over.filter(|_| self.rng.u32(0..3) == 0);
        let to = over.map_or_else(|| self.fresh(history), |other| names[other].path.clone());
        let from = names[at].path.clone();
        history.begin(vec![(from.clone(), Leads::Nowhere), (to.clone(), Leads::To(names[at].ino))]);
        fs::rename(self.at(&from), self.at(&to))?;
        names[at].path = to;
        over.into_iter().for_each(|other| _ = names.swap_remove(other));
        Ok(())
    }
}
