//! Number of programs' calls of each operation, and their times; bytes that programs read and
//! wrote. `_hit`: calls that locks covered, without a request.

use env::clock::{Clock, Monotonic};
use observe::histogram::{Histogram, HistogramSnapshot};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use types::time::Timestamp;

macro_rules! operations {
    ($($variant:ident $name:literal)*) => {
        /// Operations of the client, as `lctl get_param llite.*.stats` names them where Lustre has
        /// them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Operation {
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

/// Direction of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To programs.
    Read,
    /// From programs.
    Write,
}

struct Series {
    /// Microseconds, by operation.
    times: [Histogram; NAMES.len()],
    /// Bytes of each read and write.
    bytes: [Histogram; 2],
    cleared: Mutex<Option<Timestamp>>,
}

/// One histogram per operation, and two of sizes.
#[derive(Clone)]
pub struct Counters {
    series: Arc<Series>,
}

/// An operation under way: it is counted, with its time, when this is dropped.
pub(crate) struct Timed {
    series: Arc<Series>,
    clock: Arc<dyn Clock>,
    operation: Operation,
    begun: Monotonic,
}

impl Drop for Timed {
    fn drop(&mut self) {
        let took = self.clock.now().saturating_sub(self.begun);
        self.series.times[self.operation as usize].record(micros(took));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Counters {
    /// All zero.
    pub(crate) fn new() -> Counters {
        let series = Series {
            times: [const { Histogram::new() }; NAMES.len()],
            bytes: [const { Histogram::new() }; 2],
            cleared: Mutex::new(None),
        };
        Counters { series: Arc::new(series) }
    }

    /// An operation begins.
    pub(crate) fn begin(&self, operation: Operation, clock: &Arc<dyn Clock>) -> Timed {
        Timed { series: self.series.clone(), clock: clock.clone(), operation, begun: clock.now() }
    }

    /// An operation that was done at once took this time.
    pub(crate) fn count(&self, operation: Operation, took: Duration) {
        self.series.times[operation as usize].record(micros(took));
    }

    /// This many bytes were read or written in one piece.
    pub(crate) fn moved(&self, way: Way, bytes: usize) {
        self.series.bytes[way as usize].record(bytes as u64);
    }

    /// Sets all to zero.
    pub fn clear(&self, now: Timestamp) {
        self.series.times.iter().chain(&self.series.bytes).for_each(Histogram::clear);
        *self.series.cleared.lock() = Some(now);
    }

    /// Time at which it was cleared; `None`: never.
    pub fn cleared(&self) -> Option<Timestamp> {
        *self.series.cleared.lock()
    }

    /// (name, how often) of each operation.
    pub(crate) fn snapshot(&self) -> Vec<(&'static str, u64)> {
        self.times().into_iter().map(|(name, times)| (name, times.count())).collect()
    }

    /// (name, microseconds) of each operation.
    pub fn times(&self) -> Vec<(&'static str, HistogramSnapshot)> {
        NAMES
            .iter()
            .zip(&self.series.times)
            .map(|(name, times)| (*name, times.snapshot()))
            .collect()
    }

    /// Sizes of reads or writes.
    pub fn sizes(&self, way: Way) -> HistogramSnapshot {
        self.series.bytes[way as usize].snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_sizes_are_counted_and_cleared() {
        let counters = Counters::new();
        counters.count(Operation::Mkdir, Duration::from_micros(7));
        counters.moved(Way::Write, 4096);
        let of = |name: &str| {
            counters.times().into_iter().find(|(known, _)| *known == name).map(|(_, times)| times)
        };
        let mkdir = of("mkdir").expect("an operation");
        assert_eq!((mkdir.count(), mkdir.min, mkdir.sum), (1, 7, 7));
        assert_eq!((counters.sizes(Way::Write).sum, counters.sizes(Way::Read).count()), (4096, 0));
        let now = Timestamp { sec: 5, nsec: 0 };
        counters.clear(now);
        assert_eq!(
            (of("mkdir").map(|times| times.count()), counters.cleared()),
            (Some(0), Some(now))
        );
        assert_eq!(counters.sizes(Way::Write).count(), 0);
    }
}
