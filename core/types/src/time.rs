//! Points in time as POSIX stores them.

/// Seconds and nanoseconds since 1970-01-01 UTC; `nsec` is 0..1,000,000,000.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct Timestamp {
    /// Whole seconds, negative before 1970.
    pub sec: i64,
    /// Nanoseconds, 0..1,000,000,000.
    pub nsec: u32,
}

impl Timestamp {
    /// From nanoseconds since the epoch.
    pub const fn from_nanos(nanos: i128) -> Timestamp {
        Timestamp { sec: nanos.div_euclid(1_000_000_000) as i64, nsec: nanos.rem_euclid(1_000_000_000) as u32 }
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i128 {
        self.sec as i128 * 1_000_000_000 + self.nsec as i128
    }
}
