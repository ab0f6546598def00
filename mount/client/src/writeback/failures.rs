//! Losses of what was answered before. As Linux has it: each open file that was there is told once, by the next write, fsync
//! or close.

use crate::error::ClientError;
use crate::file::File;
use crate::open::OpenFile;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many losses of its file an open file was told of.
pub(crate) struct SeenFailures(AtomicU64);

impl SeenFailures {
    /// Of a file that is being opened: what was lost before is not its concern.
    pub fn new(file: &File) -> SeenFailures {
        SeenFailures(AtomicU64::new(file.unstored.lock().failures()))
    }
}

impl OpenFile {
    /// Tells a loss, once.
    ///
    /// # Errors
    /// What the OST or MDT said; EIO after an eviction.
    pub(crate) fn check_failures(&self) -> Result<(), ClientError> {
        let (failures, failure) = {
            let unstored = self.file.unstored.lock();
            (unstored.failures(), unstored.failure())
        };
        let seen = self.seen_failures.0.swap(failures, Ordering::AcqRel);
        match failure {
            Some(errno) if seen != failures => Err(errno.into()),
            _ => Ok(()),
        }
    }
}
