//! Snapshots as `lctl get_param *.stats` shows them.
//!
//! One line per series: name, count, `samples`, unit, and for sizes and durations least, greatest and sum. Series
//! that counted nothing are left out, as in Lustre.

use crate::registry::{Sample, Value};
use std::fmt::Write;
use types::time::Timestamp;

/// The `stats` parameter of one source, taken at `now`.
pub fn stats(now: Timestamp, samples: &[Sample]) -> String {
    let mut text = format!("{:25} {}.{:09} secs.nsecs\n", "snapshot_time", now.sec, now.nsec);
    for Sample { metric, value, .. } in samples {
        let (name, unit) = (metric.name, metric.unit.word());
        let written = match value {
            Value::Counter(0) => Ok(()),
            Value::Counter(n) => writeln!(text, "{name:25} {n} samples [{unit}]"),
            Value::Histogram(h) if h.count() == 0 => Ok(()),
            Value::Histogram(h) => {
                writeln!(text, "{name:25} {} samples [{unit}] {} {} {}", h.count(), h.min, h.max, h.sum)
            }
        };
        written.expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, Unit};
    use crate::registry::Registry;

    #[test]
    fn looks_as_in_lustre() {
        let r = Registry::new();
        let metric = |name, unit| Metric { name, unit, help: "" };
        r.counter(metric("open", Unit::Requests), "mdt.0").add(4);
        r.counter(metric("close", Unit::Requests), "mdt.0");
        let writes = r.histogram(metric("write_bytes", Unit::Bytes), "mdt.0");
        [4096, 1 << 20].into_iter().for_each(|n| writes.record(n));
        let text = stats(Timestamp { sec: 17, nsec: 5 }, &r.snapshot(|_| true));
        let lines = [
            "snapshot_time             17.000000005 secs.nsecs",
            "open                      4 samples [reqs]",
            "write_bytes               2 samples [bytes] 4096 1048576 1052672",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
