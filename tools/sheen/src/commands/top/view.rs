//! The tables of `top`, made from reports.

use ::dash::chain::age;
use ::dash::cluster::{Cluster, newest};
use ::dash::rates::Rates;
use ::dash::rows::Picture;
use node::config::units::Size;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Style};
use wire::report::KeptReport;

/// Slowest operations that are shown.
const SLOWEST: usize = 5;
/// Busiest jobs that are shown.
const JOBS: usize = 5;

/// By what rows are sorted; the busiest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By kind and name.
    #[default]
    Name,
    /// Requests per second.
    Requests,
    /// Data per second.
    Data,
    /// Mean time of a request.
    Time,
}

impl Order {
    /// The next order in turn.
    pub fn next(self) -> Order {
        match self {
            Order::Name => Order::Requests,
            Order::Requests => Order::Data,
            Order::Data => Order::Time,
            Order::Time => Order::Name,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Order::Name => "by name",
            Order::Requests => "by requests",
            Order::Data => "by data",
            Order::Time => "by mean time",
        }
    }

    /// Sorts rows that are in the order of their names.
    fn sort<T>(self, rows: &mut [T], rates: impl Fn(&T) -> &Rates) {
        let weight = |rates: &Rates| match self {
            Order::Name => 0.0,
            Order::Requests => rates.requests,
            Order::Data => rates.read + rates.written,
            Order::Time => rates.micros,
        };
        rows.sort_by(|a, b| weight(rates(b)).total_cmp(&weight(rates(a))));
    }
}

/// State of the cluster.
#[derive(Default)]
pub struct View {
    cluster: Cluster,
    reports: Vec<KeptReport>,
}

impl View {
    /// Takes newer reports in.
    pub fn look(&mut self, reports: Vec<KeptReport>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.reports = newest(reports.clone());
        self.cluster.take(now.as_millis() as u64, reports, &[]);
    }

    /// All figures at this moment.
    pub fn picture(&self) -> &Picture {
        self.cluster.picture()
    }

    /// The tables, rows in this order.
    pub fn text(&self, order: Order) -> String {
        let mut picture = self.cluster.picture().clone();
        order.sort(&mut picture.targets, |row| &row.rates);
        order.sort(&mut picture.clients, |row| &row.rates);
        let picture = &picture;
        let mut text = summary(picture, order);
        text += &targets(picture);
        text += &notes(picture);
        text += &clients(picture);
        text += &self.slowest();
        text += &self.jobs();
        text += "\nWAITING for longer than a second\n";
        match picture.chains.is_empty() {
            true => text += " nothing\n",
            false => picture.chains.iter().for_each(|chain| {
                chain
                    .text()
                    .lines()
                    .for_each(|line| writeln!(text, " {line}").expect("a string takes all"));
            }),
        }
        text
    }

    /// Operations of targets by their mean time.
    fn slowest(&self) -> String {
        let mut all = Vec::new();
        for target in self
            .reports
            .iter()
            .flat_map(|kept| &kept.report.targets)
            .filter(|target| target.name != "MGS")
        {
            for operation in target.operations.iter().filter(|operation| operation.count > 0) {
                all.push((operation.micros / operation.count, &target.name, operation));
            }
        }
        all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, &a.2.name).cmp(&(b.1, &b.2.name))));
        let rows = all.iter().take(SLOWEST).map(|(mean, target, operation)| {
            vec![
                operation.name.clone(),
                (*target).clone(),
                micros(*mean as f32),
                operation.count.to_string(),
            ]
        });
        table(&["SLOWEST", "TARGET", "MEAN", "COUNT"], rows, 2)
    }

    /// The busiest jobs of all targets together, as far as mounts name them.
    fn jobs(&self) -> String {
        let mut all: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for job in self
            .reports
            .iter()
            .flat_map(|kept| &kept.report.targets)
            .flat_map(|target| &target.jobs)
        {
            let [operations, read, written] = all.entry(&job.job).or_default();
            *operations += job.operations;
            *read += job.read_bytes;
            *written += job.written_bytes;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, [operations, read, written])| {
            std::cmp::Reverse(operations + (read + written) / 4096)
        });
        let rows = all.into_iter().take(JOBS).map(|(job, [operations, read, written])| {
            vec![
                job.to_owned(),
                operations.to_string(),
                Size(read).to_string(),
                Size(written).to_string(),
            ]
        });
        table(&["JOB", "OPERATIONS", "READ", "WRITTEN"], rows, 1)
    }
}

/// Why a target is not simply up:
/// `sheen-MDT0000 recovering: 1 of 2 clients came back, 9.5 s left at most`.
fn notes(picture: &Picture) -> String {
    let told = picture.targets.iter().filter(|row| !row.note.is_empty());
    let lines: String =
        told.map(|row| format!(" {} {}: {}\n", row.name, row.state, row.note)).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn summary(picture: &Picture, order: Order) -> String {
    let up = picture.targets.iter().filter(|row| row.state == "up").count();
    let (targets, clients) = (picture.targets.len(), picture.clients.len());
    let (waits, order) = (picture.chains.len(), order.words());
    format!("{up} of {targets} targets up, {clients} clients, {waits} waits; {order}\n")
}

fn targets(picture: &Picture) -> String {
    let rows = picture.targets.iter().map(|row| {
        let used = row.space.filter(|space| space.bytes_total > 0).map_or_else(
            || "-".to_owned(),
            |space| {
                format!(
                    "{}%",
                    (space.bytes_total - space.bytes_free.min(space.bytes_total)) * 100
                        / space.bytes_total
                )
            },
        );
        let mut cells = vec![row.name.clone(), row.state.clone(), used];
        cells.extend(rates(&row.rates));
        cells.extend([row.counts.in_flight.to_string(), row.lock_waits.to_string()]);
        cells
    });
    table(
        &[
            "TARGET",
            "STATE",
            "USED",
            "REQ/S",
            "READ/S",
            "WRITE/S",
            "MEAN",
            "99%",
            "AT WORK",
            "LOCK WAITS",
        ],
        rows,
        2,
    )
}

fn clients(picture: &Picture) -> String {
    let rows = picture.clients.iter().map(|row| {
        let mut cells = vec![format!("{}:{}", row.host, row.at), row.state.clone()];
        cells.extend(rates(&row.rates));
        cells.extend([row.counts.in_flight.to_string(), row.waiting.to_string()]);
        cells
    });
    table(
        &["CLIENT", "STATE", "REQ/S", "READ/S", "WRITE/S", "MEAN", "99%", "IN FLIGHT", "WAITING"],
        rows,
        2,
    )
}

/// A table whose first `left` columns are words; empty if it has no row.
fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>, left: usize) -> String {
    let mut builder = Builder::default();
    builder.push_record(heads.iter().copied());
    let before = builder.count_records();
    rows.for_each(|row| builder.push_record(row));
    if builder.count_records() == before {
        return String::new();
    }
    let mut table = builder.build();
    table.with(Style::blank()).modify(Columns::new(left..), Alignment::right());
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    format!("\n{}\n", lines.join("\n"))
}

fn rates(rates: &Rates) -> [String; 5] {
    let bytes = |n: f32| if n >= 1.0 { Size(n as u64).to_string() } else { "-".to_owned() };
    let requests =
        if rates.requests > 0.0 { format!("{:.1}", rates.requests) } else { "-".to_owned() };
    [requests, bytes(rates.read), bytes(rates.written), micros(rates.micros), micros(rates.p99)]
}

fn micros(n: f32) -> String {
    match n {
        n if n <= 0.0 => "-".to_owned(),
        n if n < 1000.0 => format!("{n:.0} us"),
        n if n < 1e6 => format!("{:.1} ms", n / 1000.0),
        n => age((n / 1000.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0.0, 12.4, 1500.0, 2.5e6].map(micros), ["-", "12 us", "1.5 ms", "2.5 s"]);
        let some = Rates { requests: 2.0, read: 0.0, written: 2048.0, micros: 10.0, p99: 31.0 };
        assert_eq!(rates(&some), ["2.0", "-", "2.00 KiB", "10 us", "31 us"]);
    }

    #[test]
    fn the_busiest_come_first_and_equal_ones_stay() {
        let rates = |requests, read, micros| Rates { requests, read, micros, ..Rates::default() };
        let rows =
            [("a", rates(1.0, 9.0, 5.0)), ("b", rates(2.0, 0.0, 5.0)), ("c", rates(2.0, 1.0, 7.0))];
        let sorted = |order: Order| {
            let mut rows = rows;
            order.sort(&mut rows, |row| &row.1);
            rows.map(|row| row.0).concat()
        };
        let (mut order, mut seen) = (Order::Name, Vec::new());
        for _ in 0..4 {
            seen.push(sorted(order));
            order = order.next();
        }
        assert_eq!(
            (seen, order),
            (["abc", "bca", "acb", "cab"].map(str::to_owned).to_vec(), Order::Name)
        );
    }

    #[test]
    fn an_empty_table_is_nothing() {
        assert_eq!(table(&["A"], std::iter::empty(), 1), "");
        assert_eq!(
            table(&["A", "B"], [vec!["x".to_owned(), "1".to_owned()]].into_iter(), 1),
            "\n A   B\n x   1\n"
        );
    }
}
