//! The figures as a table for people.

use crate::figure::Role;
use crate::figure::{Figure, Outcome, Report, Unit};
use crate::statistics::Pairs;
use crate::verdict::verdicts;
use std::fmt::Write;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

/// A number with the digits that mean something: `1,234`, `12.3`, `0.042`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1000.0 => thousands(value),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// A value with its unit.
pub fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", number(value)),
        other => format!("{} {}", number(value), other.text()),
    }
}

fn cell(outcome: &Outcome, unit: Unit) -> String {
    let Some(value) = &outcome.value else {
        return outcome.skipped.as_ref().map_or("", |_| "-").to_owned();
    };
    let cpu = outcome.cpu_us().map(|us| format!(" ({})", number(us))).unwrap_or_default();
    format!("{}{cpu}", with_unit(value.median, unit))
}

/// `1.24`, `0.86`; of a small one the first two digits that are not 0: `0.0042`.
fn share(ratio: f64) -> String {
    let size = ratio.abs();
    let zeros =
        if size > 0.0 && size < 0.1 { (-size.log10()).floor().min(12.0) as usize } else { 0 };
    format!("{ratio:.*}", zeros + 2)
}

/// `0.86`; from 6 rounds on the median of their ratios with its confidence interval:
/// `0.86 (0.84..0.88)`.
pub fn ratio(outcome: &Outcome) -> String {
    match (&outcome.pairs, outcome.ratio) {
        (Some(Pairs { median, interval: [low, high], .. }), _) => {
            format!("{} ({}..{})", share(*median), share(*low), share(*high))
        }
        (None, Some(ratio)) => share(ratio),
        (None, None) => String::new(),
    }
}

/// Of a figure that counts requests: those that no program waited for.
pub fn background(figure: &Figure) -> Option<f64> {
    figure.target().filter(|_| figure.unit == Unit::Requests)?.background
}

/// The whole report as text; lines end with a newline.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let m = &report.machine;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "sheen {} ({}), {} x {}, Linux {}, load {}; {} rounds, seed {}",
        report.version, report.commit, m.cpus, m.cpu, m.kernel, m.load, report.repeats, report.seed
    );
    let mut items: Vec<&str> = report.figures.iter().map(|f| f.item.as_str()).collect();
    items.dedup();
    for item in items {
        let figures: Vec<&Figure> = report.figures.iter().filter(|f| f.item == item).collect();
        let _ = writeln!(text, "{}", table(item, &figures));
        if item == "watched" {
            text += &verdicts(&figures);
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    for outcome in report.figures.iter().flat_map(|f| &f.results) {
        if let Some(why) = &outcome.skipped {
            reasons.push(format!("- {}: {why}", outcome.place));
        }
    }
    reasons.sort();
    reasons.dedup();
    for reason in reasons {
        let _ = writeln!(text, "{reason}");
    }
    let others = report.figures.iter().filter_map(|f| f.target()?.others_cpu).fold(0.0, f64::max);
    if others > QUIET {
        let share = others * 100.0;
        let _ = writeln!(
            text,
            "Others used up to {share:.0} % of the machine: compare CPU and ratios, not rates."
        );
    }
    text
}

/// Share of the machine that others may use while a run counts as quiet.
pub const QUIET: f64 = 0.1;

fn table(item: &str, figures: &[&Figure]) -> String {
    let others: Vec<(&str, Role)> = figures
        .first()
        .map(|f| {
            f.results
                .iter()
                .filter(|r| r.role != Role::Target)
                .map(|r| (r.place.as_str(), r.role))
                .collect()
        })
        .unwrap_or_default();
    let goals = figures.iter().any(|f| f.goal.is_some());
    let mut builder = Builder::default();
    let target = figures.first().and_then(|f| f.target()).map_or("", |t| t.place.as_str());
    let mut head = vec![
        item.to_owned(),
        format!("{target} (CPU us)"),
        "spread".to_owned(),
        "limited by".to_owned(),
    ];
    let background = figures.iter().any(|f| background(f).is_some());
    if background {
        head.push("background".to_owned());
    }
    for (name, _) in &others {
        head.extend([(*name).to_owned(), "ratio".to_owned()]);
    }
    if goals {
        head.extend(["goal".to_owned(), "kept".to_owned()]);
    }
    builder.push_record(head);
    for figure in figures {
        let target = figure.target();
        let mut row = vec![
            figure.what.clone(),
            target.map(|t| cell(t, figure.unit)).unwrap_or_default(),
            target
                .and_then(|t| t.value.as_ref())
                .map(|v| format!("{}..{}", number(v.spread[0]), number(v.spread[1])))
                .unwrap_or_default(),
            target.and_then(|t| t.limited_by).map_or("", |l| l.text()).to_owned(),
        ];
        if background {
            row.push(
                self::background(figure)
                    .map(|requests| with_unit(requests, figure.unit))
                    .unwrap_or_default(),
            );
        }
        for (name, role) in &others {
            let other = figure.results.iter().find(|r| r.role == *role && r.place == *name);
            row.push(other.map(|o| cell(o, figure.unit)).unwrap_or_default());
            row.push(other.map(ratio).unwrap_or_default());
        }
        if goals {
            let sign = if figure.unit.more_is_better() { ">=" } else { "<=" };
            row.push(figure.goal.map(|g| format!("{sign} {}", number(g))).unwrap_or_default());
            row.push(
                figure.reached().map_or("", |kept| if kept { "yes" } else { "NO" }).to_owned(),
            );
        }
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..=2)).with(Alignment::right()));
    table.with(Modify::new(Columns::new(4..)).with(Alignment::right()));
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_ratio_never_reads_as_none() {
        let shown = [1.239, 0.857, 0.1, 0.0999, 0.0042, 0.000_123, 0.0, 12.0].map(share);
        assert_eq!(shown, ["1.24", "0.86", "0.10", "0.100", "0.0042", "0.00012", "0.00", "12.00"]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.0421, "0.0421"),
            (1.5, "1.50"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.6, "1,235"),
            (1_234_567.0, "1,234,567"),
            (-4321.0, "-4,321"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(with_unit(5.0, Unit::PerSecond), "5.00/s");
        assert_eq!(with_unit(5.0, Unit::Seconds), "5.00 s");
    }
}
