//! Home of a node: the directory under which its settings, targets, log and run-time files lie.
//!
//! `sheen up DIR` makes DIR a home. `sheen serve TARGET...` uses the first target's directory, so
//! that `status` and `down` find the process in the same way. Nothing here does more than name
//! paths and read small files.

use rustix::fs::FlockOperation;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use types::target::TargetKind;

/// Longest settings file that is read, bytes.
pub const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// The directory of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    dir: PathBuf,
}

impl Home {
    /// The home at `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> Home {
        Home { dir: dir.into() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `node.toml`
    pub fn settings_path(&self) -> PathBuf {
        self.dir.join("node.toml")
    }

    /// `run/`: exists while a node runs here and after it.
    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// `run/node.pid`
    pub fn pid_path(&self) -> PathBuf {
        self.run_dir().join("node.pid")
    }

    /// `run/node.lock`: locked as long as the node lives.
    pub fn lock_path(&self) -> PathBuf {
        self.run_dir().join("node.lock")
    }

    /// `run/tickets.keys`: by which those that were connected come back to a restarted server.
    pub fn tickets_path(&self) -> PathBuf {
        self.run_dir().join("tickets.keys")
    }

    /// `run/auth.json`: what a server heard last of keys: which are revoked, and of which sites
    /// they are taken.
    pub fn known_path(&self) -> PathBuf {
        self.run_dir().join("auth.json")
    }

    /// Name of the control socket within `run/`.
    pub const CONTROL_NAME: &'static str = "control.sock";

    /// `log/node.log`
    pub fn log_path(&self) -> PathBuf {
        self.dir.join("log").join("node.log")
    }

    /// `log/audit.log`
    pub fn audit_path(&self) -> PathBuf {
        self.dir.join("log").join("audit.log")
    }

    /// Default mount point of `up`.
    pub fn mount_point_default(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Name of the directory that `up` gives a target: `mgt`, `mdt0000`, `ost000a`.
    pub fn target_dir_name(kind: TargetKind, index: u16) -> String {
        match kind {
            TargetKind::Mgt => "mgt".to_owned(),
            TargetKind::Mdt => format!("mdt{index:04x}"),
            TargetKind::Ost => format!("ost{index:04x}"),
        }
    }

    /// True if there is a home, or at least traces of a node that ran here.
    pub fn exists(&self) -> bool {
        self.settings_path().is_file() || self.run_dir().is_dir()
    }

    /// The process id in `run/node.pid`; `None` if there is none or it is no number.
    pub fn pid(&self) -> Option<i32> {
        let mut text = String::new();
        File::open(self.pid_path()).ok()?.take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok().filter(|pid| *pid > 1)
    }

    /// Makes `run/`, only for its owner.
    pub fn create_run_dir(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.run_dir())
    }

    /// Takes the home for this process until the guard is dropped; `None` if another process has
    /// it.
    ///
    /// # Errors
    /// The run directory cannot be made or written.
    pub fn take(&self) -> io::Result<Option<HomeGuard>> {
        self.create_run_dir()?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(self.lock_path())?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let mut pid = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(self.pid_path())?;
        writeln!(pid, "{}", std::process::id())?;
        Ok(Some(HomeGuard { home: self.clone(), _lock: file }))
    }

    /// True if a living process has the home.
    ///
    /// # Errors
    /// The lock file exists but cannot be opened.
    pub fn is_taken(&self) -> io::Result<bool> {
        let file = match File::open(self.lock_path()) {
            Ok(f) => f,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }
}

/// Holds a home for this process. Dropping it removes the pid file and frees the home.
#[derive(Debug)]
pub struct HomeGuard {
    home: Home,
    _lock: File,
}

impl HomeGuard {
    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }
}

impl Drop for HomeGuard {
    fn drop(&mut self) {
        // The lock file stays: removing it would let two processes lock two files of one name.
        if let Err(error) = fs::remove_file(self.home.pid_path()) {
            tracing::warn!(%error, path = %self.home.pid_path().display(), "cannot remove the pid file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_a_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        assert!(!home.exists());
        assert!(!home.is_taken().unwrap());
        let guard = home.take().unwrap().expect("free");
        assert!(home.exists());
        assert_eq!(home.pid(), Some(std::process::id() as i32));
        assert!(home.is_taken().unwrap());
        assert!(home.take().unwrap().is_none());
        assert_eq!(
            home.pid(),
            Some(std::process::id() as i32),
            "a second taker leaves the pid alone"
        );
        drop(guard);
        assert!(!home.is_taken().unwrap());
        assert_eq!(home.pid(), None);
    }

    #[test]
    fn target_directories_have_names() {
        assert_eq!(Home::target_dir_name(TargetKind::Mgt, 0), "mgt");
        assert_eq!(Home::target_dir_name(TargetKind::Mdt, 0), "mdt0000");
        assert_eq!(Home::target_dir_name(TargetKind::Ost, 10), "ost000a");
    }

    #[test]
    fn a_bad_pid_file_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        home.create_run_dir().unwrap();
        for bad in ["", "x", "-4", "1", "99999999999999999999"] {
            fs::write(home.pid_path(), bad).unwrap();
            assert_eq!(home.pid(), None, "{bad:?}");
        }
    }
}
