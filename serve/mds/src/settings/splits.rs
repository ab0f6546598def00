//! When directories are split by themselves, as an administrator reads and sets it.

use crate::mds::Mds;
use std::sync::atomic::Ordering::Relaxed;
use types::errno::Errno;
use types::limits::DIR_STRIPES_MAX;

impl Mds {
    /// True if directories are split by themselves.
    pub fn auto_split(&self) -> bool {
        self.tunables.auto_split.load(Relaxed)
    }

    /// Sets it.
    pub fn set_auto_split(&self, on: bool) {
        self.tunables.auto_split.store(on, Relaxed);
    }

    /// Directories whose names move, and whose first MDT this is.
    pub fn restriping(&self) -> usize {
        self.state.lock().moving.len()
    }

    /// Names that have moved since the start.
    pub fn names_moved(&self) -> u64 {
        self.names_moved.load(Relaxed)
    }

    /// A directory, or a stripe of one, with more names than this is split.
    pub fn split_count(&self) -> u32 {
        self.tunables.split_count.load(Relaxed)
    }

    /// Sets it.
    ///
    /// # Errors
    /// ERANGE: 0.
    pub fn set_split_count(&self, count: u32) -> Result<(), Errno> {
        if count == 0 {
            return Err(Errno::ERANGE);
        }
        self.tunables.split_count.store(count, Relaxed);
        Ok(())
    }

    /// A large directory is split into so many times as many stripes.
    pub fn split_delta(&self) -> u16 {
        self.tunables.split_delta.load(Relaxed)
    }

    /// Sets it.
    ///
    /// # Errors
    /// ERANGE: below 2, or more than a directory can have.
    pub fn set_split_delta(&self, delta: u16) -> Result<(), Errno> {
        if !(2..=DIR_STRIPES_MAX).contains(&usize::from(delta)) {
            return Err(Errno::ERANGE);
        }
        self.tunables.split_delta.store(delta, Relaxed);
        Ok(())
    }
}
