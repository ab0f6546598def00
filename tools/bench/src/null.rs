//! The empty FUSE file system that mounts are compared with: the same transport, trivial answers,
//! nothing stored.

use crate::failure::BenchError;
use crate::program;
use env::real::{RealConfig, RealEnv};
use fuse::mount::MountOptions;
use fuse::null::{NullConfig, NullFs};
use fuse::process::Processes;
use fuse::session::Session;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The mount appears and disappears within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which the mount is checked.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes kept of each file, so that what was written can be read back.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Serves at `at` until it is unmounted, or until the parent process is gone (standard input ends).
///
/// # Errors
/// It cannot be mounted.
pub fn serve(at: &Path) -> Result<(), BenchError> {
    // A session of its own, as the daemon of `sheen up` has. The kernel's scheduler shares a busy
    // machine out by session (autogroup), so a daemon in the benchmark's own session would be
    // served twice as well. It also keeps Ctrl-C away. The call fails if the process leads a
    // session already, which is fine.
    let _ = rustix::process::setsid();
    let (env, guard) =
        RealEnv::start(RealConfig::default()).map_err(BenchError::of("start threads"))?;
    let config = NullConfig { valid: Duration::ZERO, kept_bytes_max: KEPT_BYTES_MAX };
    let fs = Arc::new(NullFs::new(env.clone(), config));
    let options = MountOptions { source: "null".to_owned(), ..MountOptions::default() };
    let session = Session::mount(&env, fs, Arc::new(Processes::default()), at, &options)
        .map_err(BenchError::of("mount the empty file system"))?;
    let (gone, parent_gone) = tokio::sync::oneshot::channel();
    let watch = move || {
        let mut nothing = [0];
        // Anything but waiting means that the parent is gone.
        let _ = std::io::stdin().read(&mut nothing);
        let _ = gone.send(());
    };
    std::thread::Builder::new()
        .name("parent".to_owned())
        .spawn(watch)
        .map_err(BenchError::of("start a thread"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(BenchError::of("start a runtime"))?;
    runtime.block_on(async {
        tokio::select! {
            () = session.ended() => {}
            _ = parent_gone => {}
        }
    });
    session.unmount().map_err(BenchError::of("unmount the empty file system"))?;
    drop(guard);
    Ok(())
}

/// [`serve`] in a process of its own, on a temporary folder; ended when dropped.
pub struct NullMount {
    child: Child,
    lifeline: Option<ChildStdin>,
    dir: Option<tempfile::TempDir>,
    at: PathBuf,
}

impl NullMount {
    /// Mounts it.
    ///
    /// # Errors
    /// The mount needs root and `/dev/fuse`.
    pub fn start() -> Result<NullMount, BenchError> {
        let dir = tempfile::Builder::new().prefix("sheen-bench-null.").tempdir();
        let dir = dir.map_err(BenchError::of("make a temporary folder"))?;
        let at = dir.path().join("mnt");
        std::fs::create_dir(&at).map_err(BenchError::at("make a folder", &at))?;
        let mut command = program::own();
        command.arg("null").arg(&at).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(BenchError::of("start the empty file system"))?;
        let lifeline = child.stdin.take();
        let mut null = NullMount { child, lifeline, dir: Some(dir), at };
        let deadline = Instant::now() + PATIENCE;
        while !null.is_mounted() {
            if let Ok(Some(status)) = null.child.try_wait() {
                let mut said = String::new();
                if let Some(stderr) = &mut null.child.stderr {
                    stderr
                        .take(4096)
                        .read_to_string(&mut said)
                        .map_err(BenchError::of("hear why it ended"))?;
                }
                return Err(BenchError::Failed(format!(
                    "the empty file system ended ({status}): {}",
                    said.trim()
                )));
            }
            if Instant::now() > deadline {
                return Err(BenchError::Failed("the empty file system does not mount".to_owned()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(null)
    }

    fn is_mounted(&self) -> bool {
        node::host::mount_table::mounted_at(&self.at).is_ok_and(|mount| mount.is_some())
    }

    /// Mount point.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The daemon.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for NullMount {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Ok(Some(_)) => break,
                _ => {
                    eprintln!(
                        "sheen bench: the empty file system at {} does not end",
                        self.at.display()
                    );
                    // Removing the folder would go into the mount.
                    if let Some(dir) = self.dir.take() {
                        let _ = dir.keep();
                    }
                    break;
                }
            }
        }
    }
}
