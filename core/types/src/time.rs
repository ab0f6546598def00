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
        Timestamp {
            sec: nanos.div_euclid(1_000_000_000) as i64,
            nsec: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i128 {
        self.sec as i128 * 1_000_000_000 + self.nsec as i128
    }

    /// A nanosecond later.
    pub const fn next(self) -> Timestamp {
        Timestamp::from_nanos(self.as_nanos() + 1)
    }

    /// The last multiple of `grain` that is not later; this moment itself if `grain` is zero.
    pub const fn floor(self, grain: std::time::Duration) -> Timestamp {
        let (nanos, grain) = (self.as_nanos(), grain.as_nanos() as i128);
        if grain == 0 { self } else { Timestamp::from_nanos(nanos - nanos.rem_euclid(grain)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_grain_takes_the_rest_away_before_the_epoch_too() {
        let grain = Duration::from_millis(4);
        let floor = |nanos| Timestamp::from_nanos(nanos).floor(grain).as_nanos();
        assert_eq!(
            [floor(0), floor(3_999_999), floor(4_000_000), floor(9_000_000)],
            [0, 0, 4_000_000, 8_000_000]
        );
        assert_eq!([floor(-1), floor(-4_000_000)], [-4_000_000, -4_000_000]);
        let now = Timestamp { sec: 7, nsec: 7 };
        assert_eq!(now.floor(Duration::ZERO), now);
    }
}
