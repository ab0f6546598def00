//! `rpc_stats` and `brw_stats`: histograms side by side, as Lustre prints them.
//!
//! Rows are powers of two; Lustre counts requests in flight one by one, but here they go into the
//! thousands.

use crate::histogram::{BUCKETS, HistogramSnapshot};
use crate::registry::{Sample, Value};
use std::fmt::Write;

/// Bytes of a page.
const PAGE_BITS: usize = 12;

/// The histogram of this name; empty if nothing was counted.
pub fn histogram(samples: &[Sample], name: &str) -> HistogramSnapshot {
    let found = samples.iter().find(|sample| sample.metric.name == name);
    match found.map(|sample| &sample.value) {
        Some(Value::Histogram(histogram)) => (**histogram).clone(),
        _ => crate::histogram::Histogram::new().snapshot(),
    }
}

/// Sizes in bytes as pages: what is below a page is one.
fn pages(bytes: &HistogramSnapshot) -> Vec<u64> {
    let mut rows = vec![0; BUCKETS - PAGE_BITS];
    for (n, count) in bytes.buckets.iter().enumerate() {
        // Bucket 13 holds [4096, 8191]: a page, or almost two. Requests usually carry whole pages.
        rows[n.saturating_sub(PAGE_BITS + 1)] += count;
    }
    rows
}

/// Counts as powers of two: row n holds 2^n up to 2^(n+1) - 1.
fn powers(histogram: &HistogramSnapshot) -> Vec<u64> {
    histogram.buckets[1..].to_vec()
}

/// One table; `titles` name the columns.
fn table(text: &mut String, what: &str, titles: &[&str], columns: &[Vec<u64>]) {
    let heads: Vec<String> = titles.iter().map(|title| format!("\t\t\t{title}")).collect();
    let counts: Vec<&str> = columns.iter().map(|_| "       rpcs   % cum %").collect();
    let lines = columns
        .iter()
        .filter_map(|c| c.iter().rposition(|n| *n > 0))
        .max()
        .map_or(0, |last| last + 1);
    let written = writeln!(text, "\n{}\n{what:22}{}", heads.concat(), counts.join(" |"));
    written.expect("a string takes all");
    let totals: Vec<u64> = columns.iter().map(|c| c.iter().sum()).collect();
    let mut cumulated = vec![0; columns.len()];
    for row in 0..lines {
        let cell = |(at, column): (usize, &Vec<u64>)| {
            cumulated[at] += column[row];
            let percent =
                |n: u64| (u128::from(n) * 100).checked_div(u128::from(totals[at])).unwrap_or(0);
            format!(" {:10} {:3} {:3}", column[row], percent(column[row]), percent(cumulated[at]))
        };
        let cells: Vec<String> = columns.iter().enumerate().map(cell).collect();
        writeln!(text, "{:22}{}", format!("{}:", 1u128 << row), cells.join("   |"))
            .expect("a string takes all");
    }
}

/// The body after the times: data requests of a client or server. `in_flight`: now, reads and
/// writes.
pub fn data(samples: &[Sample], in_flight: [usize; 2]) -> String {
    let of = |name| histogram(samples, name);
    let [reads, writes] = in_flight;
    let mut text = format!("read RPCs in flight:  {reads}\nwrite RPCs in flight: {writes}\n");
    let columns = ["read", "write"];
    table(
        &mut text,
        "pages per rpc",
        &columns,
        &[pages(&of("read_bytes")), pages(&of("write_bytes"))],
    );
    let flight = [powers(&of("reads_in_flight")), powers(&of("writes_in_flight"))];
    table(&mut text, "rpcs in flight", &columns, &flight);
    text
}

/// The body after the times: changing requests to an MDT.
pub fn changes(samples: &[Sample], in_flight: usize) -> String {
    let mut text = format!("modify_RPCs_in_flight:  {in_flight}\n");
    table(
        &mut text,
        "rpcs in flight",
        &["modify"],
        &[powers(&histogram(samples, "changes_in_flight"))],
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, Unit};
    use crate::registry::Registry;

    #[test]
    fn tables_are_as_in_lustre() {
        let registry = Registry::default();
        let series =
            |name| registry.histogram(Metric { name, unit: Unit::Bytes, help: "" }, "osc.a");
        [100, 4096, 4 << 20, 4 << 20].into_iter().for_each(|n| series("write_bytes").record(n));
        [1, 2, 3].into_iter().for_each(|n| series("writes_in_flight").record(n));
        series("reads_in_flight").record(1);
        let text = data(&registry.snapshot(|_| true), [0, 2]);
        let expected = "\
read RPCs in flight:  0
write RPCs in flight: 2

\t\t\tread\t\t\twrite
pages per rpc                rpcs   % cum % |       rpcs   % cum %
1:                              0   0   0   |          2  50  50
2:                              0   0   0   |          0   0  50
4:                              0   0   0   |          0   0  50
8:                              0   0   0   |          0   0  50
16:                             0   0   0   |          0   0  50
32:                             0   0   0   |          0   0  50
64:                             0   0   0   |          0   0  50
128:                            0   0   0   |          0   0  50
256:                            0   0   0   |          0   0  50
512:                            0   0   0   |          0   0  50
1024:                           0   0   0   |          2  50 100

\t\t\tread\t\t\twrite
rpcs in flight               rpcs   % cum % |       rpcs   % cum %
1:                              1 100 100   |          1  33  33
2:                              0   0 100   |          2  66 100
";
        assert_eq!(text, expected);
    }
}
