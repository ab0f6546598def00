//! Snapshots as `lctl get_param *.stats` shows them.
//!
//! One line per series: name, count, `samples`, unit, and for sizes and durations least, greatest, sum and
//! sum of squares. Series that counted nothing are left out, as in Lustre.

use crate::registry::{Sample, Value};
use std::fmt::Write;
use types::time::Timestamp;

/// The `stats` parameter of one source, which counts since `since`, taken at `now`.
pub fn stats(now: Timestamp, since: Timestamp, samples: &[Sample]) -> String {
    let mut text = times(now, since);
    for Sample { metric, value, .. } in samples {
        let (name, unit) = (metric.name, metric.unit.word());
        let written = match value {
            Value::Counter(0) => Ok(()),
            Value::Counter(n) => writeln!(text, "{name:25} {n} samples [{unit}]"),
            Value::Histogram(h) if h.count() == 0 => Ok(()),
            Value::Histogram(h) => {
                let (count, squares) = (h.count(), h.sum_of_squares);
                writeln!(text, "{name:25} {count} samples [{unit}] {} {} {} {squares}", h.min, h.max, h.sum)
            }
        };
        written.expect("a string takes all");
    }
    text
}

/// When it was taken, since when it counts, and the time between.
pub fn times(now: Timestamp, since: Timestamp) -> String {
    let elapsed = (now.as_nanos() - since.as_nanos()).max(0);
    let line = |name: &str, nanos: i128| {
        format!("{name:25} {}.{:09} secs.nsecs\n", nanos / 1_000_000_000, nanos % 1_000_000_000)
    };
    line("snapshot_time", now.as_nanos()) + &line("start_time", since.as_nanos()) + &line("elapsed_time", elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, Unit};
    use crate::registry::Registry;

    #[test]
    fn looks_as_in_lustre() {
        let r = Registry::default();
        let metric = |name, unit| Metric { name, unit, help: "" };
        r.counter(metric("open", Unit::Requests), "mdt.0").add(4);
        r.counter(metric("close", Unit::Requests), "mdt.0");
        let writes = r.histogram(metric("write_bytes", Unit::Bytes), "mdt.0");
        [4096, 1 << 20].into_iter().for_each(|n| writes.record(n));
        let (now, since) = (Timestamp { sec: 17, nsec: 5 }, Timestamp { sec: 15, nsec: 999_999_999 });
        let text = stats(now, since, &r.snapshot(|_| true));
        let lines = [
            "snapshot_time             17.000000005 secs.nsecs",
            "start_time                15.999999999 secs.nsecs",
            "elapsed_time              1.000000006 secs.nsecs",
            "open                      4 samples [reqs]",
            "write_bytes               2 samples [bytes] 4096 1048576 1052672 1099528404992",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
