//! Each workload over the link as a share of the same without delay, in the same run: what the
//! distance costs.

use bench_report::figure::{Figure, Outcome, Unit};
use bench_report::statistics::Summary;
use std::collections::BTreeMap;

/// A workload at one delay.
pub struct AtDelay {
    /// Round trip, milliseconds.
    pub ms: f64,
    /// The figure of the item.
    pub figure: Figure,
}

/// Speed of a workload, whatever it is measured in; `None`: the figure is no speed.
fn speed(figure: &Figure) -> Option<f64> {
    let median = figure.target()?.value.as_ref()?.median;
    let speed = match figure.unit {
        Unit::PerSecond | Unit::MegabytesPerSecond => median,
        Unit::Seconds | Unit::Microseconds => 1.0 / median,
        Unit::Requests | Unit::Percent | Unit::Mebibytes => return None,
    };
    (speed.is_finite() && speed > 0.0).then_some(speed)
}

/// One figure for each workload at each delay that was measured without delay, too: percent of
/// that speed.
pub fn shares(all: &[AtDelay]) -> Vec<Figure> {
    let share = |at: &AtDelay| {
        let own = all.iter().find(|own| own.ms == 0.0 && own.figure.what == at.figure.what)?;
        let value = 100.0 * speed(&at.figure)? / speed(&own.figure)?;
        let target = at.figure.target()?;
        let result = Outcome {
            place: format!("{} ms away", at.ms),
            value: Summary::of(vec![value]),
            ratio: None,
            pairs: None,
            cpu_pairs: None,
            over_time: Vec::new(),
            ..target.clone()
        };
        Some(Figure {
            item: "wan".to_owned(),
            what: format!("{} ms: {}, of its own 0 ms", at.ms, at.figure.what),
            unit: Unit::Percent,
            goal: None,
            tags: BTreeMap::from([("own_share_ms".to_owned(), at.ms.to_string())]),
            results: vec![result],
        })
    };
    all.iter().filter(|at| at.ms > 0.0).filter_map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_report::figure::Role;

    fn at(ms: f64, what: &str, unit: Unit, value: f64) -> AtDelay {
        let result = Outcome {
            place: "there".to_owned(),
            role: Role::Target,
            value: Summary::of(vec![value]),
            skipped: None,
            ratio: None,
            pairs: None,
            cpu_pairs: None,
            cpu_us_program: None,
            cpu_us_daemons: BTreeMap::new(),
            resident_bytes: BTreeMap::new(),
            requests: None,
            background: None,
            others_cpu: None,
            disk_busy: None,
            limited_by: None,
            over_time: Vec::new(),
        };
        let (item, what, tags) = ("ls".to_owned(), what.to_owned(), BTreeMap::new());
        AtDelay { ms, figure: Figure { item, what, unit, goal: None, tags, results: vec![result] } }
    }

    #[test]
    fn speeds_are_compared_with_those_without_delay() {
        let all = [
            at(0.0, "ls", Unit::PerSecond, 1000.0),
            at(0.0, "build", Unit::Seconds, 2.0),
            at(0.0, "line", Unit::Percent, 90.0),
            at(32.5, "ls", Unit::PerSecond, 250.0),
            at(32.5, "build", Unit::Seconds, 10.0),
            at(32.5, "line", Unit::Percent, 80.0),
            at(32.5, "new", Unit::Seconds, 10.0),
        ];
        let shares: Vec<_> = shares(&all)
            .into_iter()
            .map(|figure| (figure.target().unwrap().value.as_ref().unwrap().median, figure.what))
            .collect();
        let named = |share, what: &str| (share, format!("32.5 ms: {what}, of its own 0 ms"));
        assert_eq!(shares, [named(25.0, "ls"), named(20.0, "build")]);
    }
}
