//! Directories that are split and merged all the time, while something else is tested in them.

use crate::lustre::try_lfs;
use crate::process::text;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Directories that are remembered of each look at the tree.
const DIRECTORIES_MAX: usize = 200;
/// Pause between two requests. Directories go on changing meanwhile.
const PAUSE: Duration = Duration::from_millis(30);

/// Gives directories below a root other numbers of stripes, in random order, until it is ended.
pub struct Restriper {
    stop: Arc<AtomicBool>,
    work: JoinHandle<u64>,
}

impl Restriper {
    /// Begins, with 1 to `mdts` stripes. The root itself is restriped, too.
    pub fn begin(root: &Path, mdts: u16, seed: u64) -> Restriper {
        let stop = Arc::new(AtomicBool::new(false));
        let (root, mut rng) = (root.to_owned(), fastrand::Rng::with_seed(seed));
        let work = thread::spawn({
            let stop = stop.clone();
            move || {
                let mut begun = 0;
                while !stop.load(Ordering::Relaxed) {
                    let mut dirs = Vec::new();
                    directories(root.clone(), &mut dirs);
                    rng.shuffle(&mut dirs);
                    for dir in dirs.iter().take(4) {
                        begun += u64::from(restripe(dir, rng.u16(1..=mdts)));
                        thread::sleep(PAUSE);
                    }
                    thread::sleep(PAUSE);
                }
                begun
            }
        });
        Restriper { stop, work }
    }

    /// Ends; how many splits and merges were begun.
    ///
    /// # Panics
    /// If one was refused for another reason than that the directory is gone, or moves already.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.work.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure))
    }
}

/// Directories come and go meanwhile, and some may not be listed: those that are seen will do.
fn directories(dir: PathBuf, found: &mut Vec<PathBuf>) {
    if found.len() >= DIRECTORIES_MAX {
        return;
    }
    let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
    let below: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    found.push(dir);
    below.into_iter().for_each(|dir| directories(dir, found));
}

fn restripe(dir: &Path, count: u16) -> bool {
    // By its descriptor: `lfs` would make a directory whose name is gone.
    let Ok(open) = File::open(dir) else { return false };
    let path = format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd());
    let output = try_lfs(Path::new("/"), &["setdirstripe", "-c", &count.to_string(), &path]);
    // EOPNOTSUPP: it was removed, so that `lfs` wants to make it, in /proc.
    let refused = [libc::EBUSY, libc::ENOENT, libc::ESTALE, libc::EOPNOTSUPP];
    assert!(
        output.status.success() || refused.map(Some).contains(&output.status.code()),
        "setdirstripe -c {count} {}: {}",
        dir.display(),
        text(&output)
    );
    output.status.success()
}
