//! Mounts whose daemon died: `kill -9` leaves one, which answers everything with ENOTCONN.

use crate::limits::PROBE_TIMEOUT;
use crate::mount::{self, MountError};
use env::tasks::Tasks;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::sync::mpsc;

/// Removes dead SheenFS mounts at `path`; returns their number. Other mounts are not looked at.
///
/// Dead and alive mounts look the same in mountinfo. So the mount is asked for its totals, from a
/// thread of its own, because a hanging daemon would hang the caller. Never call it for a mount of
/// this very process.
///
/// # Errors
/// [`MountError::Alive`] or [`MountError::Silent`]: it is not dead, and was left alone; or it
/// cannot be unmounted.
pub fn clear_stale_mount(tasks: &dyn Tasks, path: &Path) -> Result<usize, MountError> {
    let path = mount::resolve(path)?;
    let mut cleared = 0;
    // The topmost is asked and removed; under it may be another.
    while let Some(top) = mountinfo::ours_at(&path).map_err(MountError::MountInfo)?.pop() {
        match probe(tasks, &path) {
            Some(Err(Errno::NOTCONN | Errno::CONNABORTED)) => {}
            Some(_) => return Err(MountError::Alive { path }),
            None => return Err(MountError::Silent { path }),
        }
        // Dead already, but a connection that still has descriptors somewhere must not come back.
        match mount::abort(top.device) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "cannot abort the connection")
            }
        }
        rustix::mount::unmount(&path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
            .map_err(|errno| MountError::Unmount { path: path.clone(), errno })?;
        tracing::info!(path = %path.display(), "removed a mount whose daemon had died");
        cleared += 1;
    }
    Ok(cleared)
}

/// `None`: no answer in time. The thread that asks stays until there is one.
fn probe(tasks: &dyn Tasks, path: &Path) -> Option<Result<(), Errno>> {
    let (send, receive) = mpsc::sync_channel(1);
    let asked = path.to_owned();
    tasks.spawn_thread(
        "fuse-probe",
        Box::new(move || {
            // The receiver may have given up.
            let _ = send.send(mount::probe(&asked));
        }),
    );
    receive.recv_timeout(PROBE_TIMEOUT).ok()
}
