//! Cold caches: the kernel forgets entries, inodes and clean data, and with its inodes a client
//! gives its locks back.

use crate::failure::BenchError;
use std::fs;
use std::time::Duration;

/// Time in which a FUSE daemon finishes its work on inodes that the kernel forgot.
const SETTLE: Duration = Duration::from_millis(100);

/// Makes the kernel forget, after everything was written.
///
/// # Errors
/// Only root may.
pub fn forget() -> Result<(), BenchError> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| {
        BenchError::Failed(format!("cannot empty the kernel's caches, that needs root: {e}"))
    })?;
    std::thread::sleep(SETTLE);
    Ok(())
}
