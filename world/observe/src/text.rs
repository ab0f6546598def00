//! Snapshots as `lctl get_param *.stats` shows them.
//!
//! One line per series: name, count, `samples`, unit. Sizes and durations also have least,
//! greatest, sum and sum of squares. Series that counted nothing are left out, as in Lustre.

use crate::histogram::{BUCKETS, HistogramSnapshot};
use crate::registry::{Sample, Value};
use std::fmt::Write;
use types::time::Timestamp;

/// The first row of `extents_stats` is of sizes below two to this.
const EXTENT_BITS: usize = 12;

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
                writeln!(
                    text,
                    "{name:25} {count} samples [{unit}] {} {} {} {squares}",
                    h.min, h.max, h.sum
                )
            }
        };
        written.expect("a string takes all");
    }
    text
}

/// `extents_stats`: reads and writes by size, as Lustre prints them; `since` and `now` as for
/// [`stats`].
pub fn extents(now: Timestamp, since: Timestamp, sizes: &[HistogramSnapshot; 2]) -> String {
    // Bucket n of a histogram holds sizes below 2^n. The first row is of sizes below 4 KiB.
    let rows = |sizes: &HistogramSnapshot| -> Vec<u64> {
        let mut rows = vec![0; BUCKETS - EXTENT_BITS];
        sizes
            .buckets
            .iter()
            .enumerate()
            .for_each(|(n, count)| rows[n.saturating_sub(EXTENT_BITS)] += count);
        rows
    };
    let columns = sizes.each_ref().map(rows);
    let mut text = times(now, since);
    text += &format!(
        "{:>35}{:>28}\n{:22}calls    % cum%  |  calls    % cum%\n",
        "read  |", "write", "extents"
    );
    let lines = columns
        .iter()
        .filter_map(|rows| rows.iter().rposition(|n| *n > 0))
        .max()
        .map_or(0, |last| last + 1);
    let mut so_far = [0; 2];
    for row in 0..lines {
        let mut cells = Vec::new();
        for (column, so_far) in columns.iter().zip(&mut so_far) {
            *so_far += column[row];
            let total: u64 = column.iter().sum();
            let percent =
                |n: u64| (u128::from(n) * 100).checked_div(u128::from(total)).unwrap_or(0);
            cells.push(format!(
                "{:8} {:4} {:4}",
                column[row],
                percent(column[row]),
                percent(*so_far)
            ));
        }
        let (from, to) = (
            if row == 0 { 0 } else { 1u128 << (EXTENT_BITS + row - 1) },
            1u128 << (EXTENT_BITS + row),
        );
        let range = format!("{} - {}:", size(from), size(to));
        writeln!(text, "{range:19}{}", cells.join("  |")).expect("a string takes all");
    }
    text
}

/// 4096 is `4K`.
fn size(bytes: u128) -> String {
    match bytes.trailing_zeros() {
        _ if bytes == 0 => "0K".to_owned(),
        bits if bits >= 30 => format!("{}G", bytes >> 30),
        bits if bits >= 20 => format!("{}M", bytes >> 20),
        _ => format!("{}K", bytes >> 10),
    }
}

/// Three lines: the time of the snapshot, the start of counting, and the time between.
pub fn times(now: Timestamp, since: Timestamp) -> String {
    let elapsed = (now.as_nanos() - since.as_nanos()).max(0);
    let line = |name: &str, nanos: i128| {
        format!("{name:25} {}.{:09} secs.nsecs\n", nanos / 1_000_000_000, nanos % 1_000_000_000)
    };
    line("snapshot_time", now.as_nanos())
        + &line("start_time", since.as_nanos())
        + &line("elapsed_time", elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, Unit};
    use crate::registry::Registry;

    #[test]
    fn extents_are_two_columns_by_size() {
        let (reads, writes) =
            (crate::histogram::Histogram::new(), crate::histogram::Histogram::new());
        [4096, 4096, 8192].into_iter().for_each(|n| reads.record(n));
        [1, 1 << 20].into_iter().for_each(|n| writes.record(n));
        let text = extents(
            Timestamp::default(),
            Timestamp::default(),
            &[reads.snapshot(), writes.snapshot()],
        );
        let shown: Vec<Vec<&str>> =
            text.lines().skip(5).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(shown[0].join(" "), "0K - 4K: 0 0 0 | 1 50 50");
        assert_eq!(shown[1].join(" "), "4K - 8K: 2 66 66 | 0 0 50");
        assert_eq!(shown[2].join(" "), "8K - 16K: 1 33 100 | 0 0 50");
        assert_eq!(shown.last().unwrap().join(" "), "1M - 2M: 0 0 100 | 1 50 100");
        assert_eq!(shown.len(), 10);
    }

    #[test]
    fn looks_as_in_lustre() {
        let r = Registry::default();
        let metric = |name, unit| Metric { name, unit, help: "" };
        r.counter(metric("open", Unit::Requests), "mdt.0").add(4);
        r.counter(metric("close", Unit::Requests), "mdt.0");
        let writes = r.histogram(metric("write_bytes", Unit::Bytes), "mdt.0");
        [4096, 1 << 20].into_iter().for_each(|n| writes.record(n));
        let (now, since) =
            (Timestamp { sec: 17, nsec: 5 }, Timestamp { sec: 15, nsec: 999_999_999 });
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
