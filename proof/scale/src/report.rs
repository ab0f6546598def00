//! The table of a series of runs.

use crate::run::{Measured, Place, Plan};
use std::collections::BTreeMap;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

const HEAD: [&str; 12] = [
    "where",
    "phase",
    "MDTs",
    "ranks",
    "items",
    "rate/s",
    "efficiency",
    "steady",
    "busiest/mean",
    "CPU busy",
    "requests of clients",
    "of MDTs",
];

/// The rate with one MDT, by place and phase, to which others are compared.
#[derive(Default)]
pub struct Alone(BTreeMap<(&'static str, &'static str), (f64, f64)>);

impl Alone {
    /// Efficiency of a phase: its rate to N times that of one MDT, in all and in the middle half.
    /// `None` if one MDT was not measured before.
    pub fn efficiency(&mut self, plan: &Plan, measured: &Measured) -> Option<(f64, f64)> {
        // Controls are compared to what they are a control of.
        let place = match plan.place {
            Place::AsksFirst => Place::Private,
            Place::OneMdt => Place::Shared,
            place => place,
        };
        let key = (place.name(), measured.phase.name());
        if plan.mdts == 1 && place == plan.place {
            self.0.insert(key, (measured.rate, measured.steady));
        }
        let (rate, steady) = self.0.get(&key)?;
        let n = f64::from(plan.mdts);
        Some((measured.rate / (n * rate), measured.steady / (n * steady)))
    }
}

/// A phase of a run.
pub struct Row {
    /// What was run.
    pub plan: Plan,
    /// What came of it.
    pub measured: Measured,
    /// In all, and in the middle half; `None` if one MDT was not measured.
    pub efficiency: Option<(f64, f64)>,
}

/// A table with one row for each phase of each run.
pub fn table(rows: &[Row]) -> String {
    let mut builder = Builder::default();
    builder.push_record(HEAD);
    for Row { plan, measured, efficiency } in rows {
        let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
        builder.push_record([
            plan.place.name().to_owned(),
            measured.phase.name().to_owned(),
            plan.mdts.to_string(),
            plan.ranks.to_string(),
            plan.items.to_string(),
            format!("{:.0}", measured.rate),
            ratio(efficiency.map(|(all, _)| all)),
            ratio(efficiency.map(|(_, steady)| steady)),
            format!("{:.3}", measured.busiest),
            format!("{:.0} %", measured.busy * 100.0),
            format!("{:.2}", measured.of_clients),
            format!("{:.2}", measured.of_mdts),
        ]);
    }
    let mut table = builder.build();
    table.with(Style::blank()).with(Modify::new(Columns::new(2..)).with(Alignment::right()));
    table.to_string()
}
