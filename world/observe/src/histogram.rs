//! Distribution of sizes: counts in power-of-two buckets, with exact count, sum, least and greatest
//! value.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets: 0 holds the value 0, n holds `2^(n-1)..2^n`.
pub const BUCKETS: usize = 65;

/// Sizes or durations, in the unit of their metric. Recording is three relaxed adds, and two more
/// writes only when the value is a new least or greatest.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    sum_of_squares: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

const fn bucket(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Histogram {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            sum_of_squares: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    /// Records one value.
    pub fn record(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        self.sum_of_squares.fetch_add(value.wrapping_mul(value), Relaxed);
        if value < self.min.load(Relaxed) {
            self.min.fetch_min(value, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// Everything recorded so far. Values that other threads record meanwhile may be there in part
    /// (counted, but not yet in the sum).
    pub fn snapshot(&self) -> HistogramSnapshot {
        let buckets = std::array::from_fn(|n| self.buckets[n].load(Relaxed));
        let (sum, min, max) =
            (self.sum.load(Relaxed), self.min.load(Relaxed), self.max.load(Relaxed));
        let sum_of_squares = self.sum_of_squares.load(Relaxed);
        HistogramSnapshot { buckets, sum, sum_of_squares, min: min.min(max), max }
    }

    /// Forgets everything. Values that other threads record meanwhile may be lost in part.
    pub fn clear(&self) {
        self.buckets
            .iter()
            .chain([&self.sum, &self.sum_of_squares, &self.max])
            .for_each(|n| n.store(0, Relaxed));
        self.min.store(u64::MAX, Relaxed);
    }
}

/// A histogram at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistogramSnapshot {
    /// Values per bucket; see [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
    /// Of all values; wraps.
    pub sum: u64,
    /// Of the squares of all values; wraps, as Lustre's does.
    pub sum_of_squares: u64,
    /// Least value; 0 if there is none.
    pub min: u64,
    /// Greatest value; 0 if there is none.
    pub max: u64,
}

impl HistogramSnapshot {
    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// A value that at least `share` (0.0..=1.0) of all values do not exceed: the end of its
    /// bucket, but no more than the greatest. 0 if there is none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (n, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                let end = if n == 0 { 0 } else { u64::MAX >> (u64::BITS as usize - n) };
                return end.min(self.max);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_buckets() {
        assert_eq!([0, 1, 2, 3, 4, 1 << 63, u64::MAX].map(bucket), [0, 1, 2, 2, 3, 64, 64]);
    }

    #[test]
    fn a_snapshot_sums_up() {
        let h = Histogram::new();
        let nothing = h.snapshot();
        assert_eq!(
            (nothing.count(), nothing.min, nothing.max, nothing.quantile(0.5)),
            (0, 0, 0, 0)
        );
        [3, 5, 5, 100].into_iter().for_each(|v| h.record(v));
        let s = h.snapshot();
        assert_eq!((s.count(), s.sum, s.min, s.max), (4, 113, 3, 100));
        assert_eq!(s.sum_of_squares, 9 + 25 + 25 + 10_000);
        assert_eq!([0.0, 0.25, 0.5, 0.75, 1.0].map(|q| s.quantile(q)), [3, 3, 7, 7, 100]);
    }

    #[test]
    fn cleared_is_as_new() {
        let h = Histogram::new();
        h.record(9);
        h.clear();
        assert_eq!(h.snapshot(), Histogram::new().snapshot());
        h.record(5);
        assert_eq!((h.snapshot().min, h.snapshot().max, h.snapshot().count()), (5, 5, 1));
    }

    #[test]
    fn threads_lose_nothing() {
        let h = Histogram::new();
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| (0..10_000).for_each(|v| h.record(v))));
        });
        let s = h.snapshot();
        assert_eq!((s.count(), s.sum, s.min, s.max), (40_000, 4 * 49_995_000, 0, 9999));
    }
}
