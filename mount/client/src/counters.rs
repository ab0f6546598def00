//! How often each operation was asked for; `_hit`: those of them that locks covered, without a request.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use types::time::Timestamp;

macro_rules! operations {
    ($($variant:ident $name:literal)*) => {
        /// Operations of the client, as `lctl get_param llite.*.stats` names them where Lustre has them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Operation {
            $(#[doc = $name] $variant,)*
        }

        const NAMES: &[&str] = &[$($name),*];
    };
}

operations! {
    Lookup "lookup" Getattr "getattr" Setattr "setattr" Truncate "truncate" Access "access"
    Create "create" Mknod "mknod" Mkdir "mkdir" Symlink "symlink"
    Unlink "unlink" Rmdir "rmdir" Rename "rename" Link "link" Readlink "readlink"
    Open "open" Flush "flush" Release "close" Read "read" Write "write" Fallocate "fallocate" Seek "seek"
    CopyFileRange "copy_file_range" Fsync "fsync" Syncfs "syncfs"
    Opendir "opendir" Readdir "readdir" Getxattr "getxattr" Listxattr "listxattr" Setxattr "setxattr"
    Removexattr "removexattr" LookupHit "lookup_hit" GetattrHit "getattr_hit" Statfs "statfs" Getlk "getlk" Setlk "flock" Ioctl "ioctl"
}

/// One counter per operation.
pub struct Counters {
    counts: [AtomicU64; NAMES.len()],
    cleared: Mutex<Option<Timestamp>>,
}

impl Counters {
    /// All zero.
    pub fn new() -> Counters {
        let counts = [const { AtomicU64::new(0) }; NAMES.len()];
        Counters { counts, cleared: Mutex::new(None) }
    }

    /// One more.
    pub fn count(&self, operation: Operation) {
        self.counts[operation as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// All zero again.
    pub fn clear(&self, now: Timestamp) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        *self.cleared.lock() = Some(now);
    }

    /// When it was cleared; `None`: never.
    pub fn cleared(&self) -> Option<Timestamp> {
        *self.cleared.lock()
    }

    /// (name, how often) of each operation.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        NAMES.iter().zip(&self.counts).map(|(name, count)| (*name, count.load(Ordering::Relaxed))).collect()
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new()
    }
}
