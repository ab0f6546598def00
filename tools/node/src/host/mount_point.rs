//! A directory to mount on: what a killed process left there is cleared first.

use env::real::{RealConfig, RealEnv};
use fuse::mount::MountError;
use fuse::stale;
use std::io;
use std::path::Path;

/// A mount point cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MountPointError {
    /// Something lives there, or it cannot be cleared.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
}

/// True if a SheenFS is mounted at `path`. The mount is not touched.
///
/// # Errors
/// /proc cannot be read.
pub fn is_mounted(path: &Path) -> io::Result<bool> {
    fuse::mount::is_mounted(path)
}

/// Detaches SheenFS mounts at `path` whose process is gone; `true` if there was one. Not for the
/// process behind the mount. A path whose parent does not exist holds no mount.
///
/// # Errors
/// A living SheenFS is mounted there, or the dead one cannot be removed.
pub fn clear_dead(path: &Path) -> Result<bool, MountPointError> {
    if !path.parent().is_some_and(Path::is_dir) {
        return Ok(false);
    }
    let config = RealConfig { reactors: 1, blocking_threads: 1 };
    let (env, guard) = RealEnv::start(config).map_err(MountPointError::Threads)?;
    let cleared = stale::clear_stale_mount(&*env.tasks, path);
    drop(guard);
    Ok(cleared? > 0)
}
