//! All series of one process.
//!
//! A series is a metric of one source; a source is named as in the parameter tree
//! (`osc.sheen-OST0000`, `mdt.sheen-MDT0000`). The lock here is taken when a series is asked for
//! and for a snapshot, never to count.
//!
//! **Invariant:** at most [`SERIES_MAX`] series. Beyond that, all sources share one per metric
//! under [`SOURCE_OTHER`].

use crate::counter::Counter;
use crate::histogram::{Histogram, HistogramSnapshot};
use crate::metric::Metric;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::time::Timestamp;

/// Series of one process (a histogram is about 0.5 KiB).
pub const SERIES_MAX: usize = 65_536;
/// Source of what came after the table was full.
pub const SOURCE_OTHER: &str = "other";

enum Series {
    Counter(Arc<Counter>),
    Histogram(Arc<Histogram>),
}

/// The numbers of one series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A count.
    Counter(u64),
    /// Sizes or durations.
    Histogram(Box<HistogramSnapshot>),
}

/// One series at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// What is counted.
    pub metric: Metric,
    /// The device that it is counted at.
    pub source: Arc<str>,
    /// The value.
    pub value: Value,
}

/// By source, then by name.
type Table = BTreeMap<(Arc<str>, &'static str), (Metric, Series)>;

/// All series of one process.
#[derive(Default)]
pub struct Registry {
    series: Mutex<Table>,
    /// Since when sources count; absent: since `begun`.
    cleared: Mutex<BTreeMap<Arc<str>, Timestamp>>,
    begun: Timestamp,
    max: Option<usize>,
}

impl Registry {
    /// Empty; it begins to count at `now`.
    pub fn new(now: Timestamp) -> Registry {
        Registry { begun: now, ..Registry::default() }
    }

    /// The counter of this metric at this source, made if need be.
    ///
    /// # Panics
    /// If another metric has the same name, or this one is a histogram there, which is a bug of the
    /// caller.
    pub fn counter(&self, metric: Metric, source: &str) -> Arc<Counter> {
        self.with(
            metric,
            source,
            || Series::Counter(Arc::default()),
            |series| match series {
                Series::Counter(counter) => Some(counter.clone()),
                Series::Histogram(_) => None,
            },
        )
    }

    /// The histogram of this metric at this source, made if need be.
    ///
    /// # Panics
    /// As [`Registry::counter`].
    pub fn histogram(&self, metric: Metric, source: &str) -> Arc<Histogram> {
        self.with(
            metric,
            source,
            || Series::Histogram(Arc::default()),
            |series| match series {
                Series::Histogram(histogram) => Some(histogram.clone()),
                Series::Counter(_) => None,
            },
        )
    }

    fn with<T>(
        &self,
        metric: Metric,
        source: &str,
        make: impl FnOnce() -> Series,
        pick: impl FnOnce(&Series) -> Option<T>,
    ) -> T {
        let mut series = self.series.lock();
        let mut key = (Arc::from(source), metric.name);
        if series.len() >= self.max.unwrap_or(SERIES_MAX) && !series.contains_key(&key) {
            key.0 = Arc::from(SOURCE_OTHER);
        }
        let (declared, found) = series.entry(key).or_insert_with(|| (metric, make()));
        assert_eq!(*declared, metric, "two declarations of one metric");
        pick(found).unwrap_or_else(|| {
            panic!("{} is declared both as a counter and as a histogram", metric.name)
        })
    }

    /// A source is gone: its series are no longer listed. A holder of one may go on counting,
    /// unseen.
    pub fn forget(&self, source: &str) {
        self.cleared.lock().remove(source);
        self.series.lock().retain(|(s, _), _| **s != *source);
    }

    /// A histogram that its owner made itself, under this metric and source.
    pub fn attach(&self, metric: Metric, source: &str, histogram: Arc<Histogram>) {
        let mut series = self.series.lock();
        if series.len() < self.max.unwrap_or(SERIES_MAX) {
            series.insert((Arc::from(source), metric.name), (metric, Series::Histogram(histogram)));
        }
    }

    /// The series of a source begin again at zero.
    pub fn clear(&self, source: &str, now: Timestamp) {
        let series = self.series.lock();
        for (_, (_, series)) in series.iter().filter(|((s, _), _)| **s == *source) {
            match series {
                Series::Counter(counter) => counter.clear(),
                Series::Histogram(histogram) => histogram.clear(),
            }
        }
        let known = series.keys().find(|(s, _)| **s == *source).map(|(s, _)| s.clone());
        // Only sources that exist are remembered, so the table of series bounds this one, too.
        if let Some(known) = known {
            self.cleared.lock().insert(known, now);
        }
    }

    /// Since when a source counts.
    pub fn since(&self, source: &str) -> Timestamp {
        self.cleared.lock().get(source).copied().unwrap_or(self.begun)
    }

    /// All series whose source `wanted` accepts, in order.
    pub fn snapshot(&self, wanted: impl Fn(&str) -> bool) -> Vec<Sample> {
        let series = self.series.lock();
        let wanted = series.iter().filter(|((source, _), _)| wanted(source));
        let sample = wanted.map(|((source, _), (metric, series))| Sample {
            metric: *metric,
            source: source.clone(),
            value: match series {
                Series::Counter(counter) => Value::Counter(counter.get()),
                Series::Histogram(histogram) => Value::Histogram(Box::new(histogram.snapshot())),
            },
        });
        sample.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;

    const OPENS: Metric = Metric { name: "open", unit: Unit::Requests, help: "Files opened." };
    const LATENCY: Metric =
        Metric { name: "req_waittime", unit: Unit::Microseconds, help: "Time to the answer." };

    #[test]
    fn the_same_series_is_shared_and_sources_are_apart() {
        let r = Registry::new(Timestamp::default());
        r.counter(OPENS, "llite.a").increment();
        r.counter(OPENS, "llite.a").add(2);
        r.counter(OPENS, "llite.b").increment();
        r.histogram(LATENCY, "llite.a").record(7);
        let all = r.snapshot(|_| true);
        let shown: Vec<_> = all.iter().map(|s| (&*s.source, s.metric.name)).collect();
        assert_eq!(shown, [("llite.a", "open"), ("llite.a", "req_waittime"), ("llite.b", "open")]);
        assert_eq!(all[0].value, Value::Counter(3));
        assert_eq!(r.snapshot(|s| s == "llite.b").len(), 1);
        let now = Timestamp { sec: 9, nsec: 0 };
        r.clear("llite.a", now);
        assert_eq!((r.since("llite.a"), r.since("llite.b")), (now, Timestamp::default()));
        let left = r.snapshot(|s| s == "llite.a");
        assert!(
            matches!(&left[..], [Sample { value: Value::Counter(0), .. }, Sample { value: Value::Histogram(h), .. }] if h.count() == 0)
        );
        r.forget("llite.a");
        assert_eq!(r.since("llite.a"), Timestamp::default());
        assert_eq!(r.snapshot(|_| true).len(), 1);
    }

    #[test]
    fn a_full_table_shares() {
        let r = Registry { max: Some(2), ..Registry::default() };
        (0..10).for_each(|n| r.counter(OPENS, &format!("client.{n}")).increment());
        r.counter(OPENS, "client.0").increment();
        let counts: Vec<_> =
            r.snapshot(|_| true).into_iter().map(|s| (s.source.to_string(), s.value)).collect();
        let count = |source: &str, n| (source.to_owned(), Value::Counter(n));
        assert_eq!(counts, [count("client.0", 2), count("client.1", 1), count(SOURCE_OTHER, 8)]);
    }

    #[test]
    #[should_panic(expected = "two declarations")]
    fn a_metric_is_declared_once() {
        let r = Registry::new(Timestamp::default());
        r.counter(OPENS, "a");
        r.counter(Metric { unit: Unit::Bytes, ..OPENS }, "a");
    }

    #[test]
    #[should_panic(expected = "both as a counter and as a histogram")]
    fn a_metric_has_one_kind() {
        let r = Registry::new(Timestamp::default());
        r.counter(OPENS, "a");
        r.histogram(OPENS, "a");
    }
}
