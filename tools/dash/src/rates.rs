//! From totals to rates: what happened between two reports of one process.

use wire::report::{BUCKETS_MAX, Counts};

/// Rates over some time.
#[derive(Clone, Copy, Debug, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Rates {
    /// Requests, per second.
    pub requests: f32,
    /// Data read, bytes per second.
    pub read: f32,
    /// Data written, bytes per second.
    pub written: f32,
    /// Mean time of a request, microseconds; 0: there was none.
    pub micros: f32,
    /// 99 of 100 took at most so many microseconds (upper end of the bucket); 0: there was none.
    pub p99: f32,
}

/// Between two pictures of the same counts, `ms` milliseconds apart. Counts that were cleared
/// meanwhile begin again.
pub fn rates(before: &Counts, now: &Counts, ms: u64) -> Rates {
    let seconds = ms.max(1) as f32 / 1000.0;
    let more = |before: u64, now: u64| if now >= before { now - before } else { now };
    let requests = more(before.requests, now.requests);
    let micros = more(before.micros, now.micros);
    Rates {
        requests: requests as f32 / seconds,
        read: more(before.read_bytes, now.read_bytes) as f32 / seconds,
        written: more(before.written_bytes, now.written_bytes) as f32 / seconds,
        micros: if requests == 0 { 0.0 } else { micros as f32 / requests as f32 },
        p99: percentile(before, now, 0.99),
    }
}

fn percentile(before: &Counts, now: &Counts, part: f64) -> f32 {
    let at = |times: &[u64], n: usize| times.get(n).copied().unwrap_or(0);
    let differences: Vec<u64> =
        (0..BUCKETS_MAX).map(|n| at(&now.times, n).saturating_sub(at(&before.times, n))).collect();
    let all: u64 = differences.iter().sum();
    if all == 0 {
        return 0.0;
    }
    let wanted = (all as f64 * part).ceil() as u64;
    let mut below = 0;
    for (n, count) in differences.iter().enumerate() {
        below += count;
        if below >= wanted {
            return ((1u64 << n) - 1) as f32;
        }
    }
    0.0
}

/// Counts of several sessions together.
pub fn sum<'a>(all: impl IntoIterator<Item = &'a Counts>) -> Counts {
    let mut sum = Counts::default();
    for counts in all {
        sum.requests += counts.requests;
        sum.micros += counts.micros;
        sum.read_bytes += counts.read_bytes;
        sum.written_bytes += counts.written_bytes;
        sum.in_flight += counts.in_flight;
        if sum.times.len() < counts.times.len() {
            sum.times.resize(counts.times.len(), 0);
        }
        sum.times.iter_mut().zip(&counts.times).for_each(|(sum, n)| *sum += n);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let before = Counts {
            requests: 10,
            micros: 100,
            read_bytes: 1000,
            times: vec![0, 10],
            ..Counts::default()
        };
        let now = Counts {
            requests: 30,
            micros: 500,
            read_bytes: 5000,
            times: vec![0, 20, 9, 1],
            ..Counts::default()
        };
        let rates = rates(&before, &now, 2000);
        assert_eq!(
            (rates.requests, rates.read, rates.written, rates.micros),
            (10.0, 2000.0, 0.0, 20.0)
        );
        assert_eq!(rates.p99, 7.0, "the upper end of the bucket of the slowest of twenty");
    }

    #[test]
    fn cleared_counts_begin_again_and_nothing_is_nothing() {
        let counts = |requests| Counts { requests, micros: 10 * requests, ..Counts::default() };
        assert_eq!(rates(&counts(100), &counts(5), 1000).requests, 5.0);
        assert_eq!(rates(&counts(5), &counts(5), 1000), Rates::default());
    }

    #[test]
    fn sums_take_the_longer_histogram() {
        let one = Counts { requests: 1, times: vec![1], ..Counts::default() };
        let two = Counts { requests: 2, times: vec![0, 2], ..Counts::default() };
        assert_eq!(
            sum([&one, &two]),
            Counts { requests: 3, times: vec![1, 2], ..Counts::default() }
        );
    }
}
