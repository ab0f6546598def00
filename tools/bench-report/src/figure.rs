//! The figures of a run: what the JSON file has. Keys are stable; new ones may come.

use crate::machine::MachineReport;
use crate::statistics::{Pairs, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a place is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To be measured.
    Target,
    /// To be compared with.
    Reference,
    /// The same file system through the client's own interface, without FUSE.
    Native,
}

/// Version of the JSON form.
pub const FORMAT: u32 = 1;

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Operations a second; CPU is given per operation.
    #[serde(rename = "/s")]
    PerSecond,
    /// 1,000,000 bytes a second; CPU is given per MiB.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Seconds for the whole step; so is its CPU.
    #[serde(rename = "s")]
    Seconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Requests per operation.
    #[serde(rename = "requests")]
    Requests,
    /// Percent of what a raw connection carries.
    #[serde(rename = "%")]
    Percent,
    /// 1,048,576 bytes.
    #[serde(rename = "MiB")]
    Mebibytes,
}

impl Unit {
    /// The unit as people write it.
    pub fn text(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Seconds => "s",
            Unit::Microseconds => "us",
            Unit::Requests => "req",
            Unit::Percent => "%",
            Unit::Mebibytes => "MiB",
        }
    }

    /// True if more is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Unit::PerSecond | Unit::MegabytesPerSecond | Unit::Percent)
    }
}

/// The limit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Processors: used by the step itself, or by other work.
    Cpu,
    /// The busiest disk was at work most of the time.
    Disk,
    /// It waited for answers over the network.
    RoundTrips,
    /// It waited, but for none of these.
    Waiting,
}

impl Limit {
    /// The limit as people say it.
    pub fn text(self) -> &'static str {
        match self {
            Limit::Cpu => "CPU",
            Limit::Disk => "disk",
            Limit::RoundTrips => "round trips",
            Limit::Waiting => "waiting",
        }
    }
}

/// A place that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlaceReport {
    /// Name as it was given.
    pub name: String,
    /// Why it was there.
    pub role: Role,
    /// Type of the file system.
    pub fs_type: String,
    /// Processes that serve it: name and process id.
    pub daemons: Vec<(String, i32)>,
}

/// Result of one place in one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the place.
    pub place: String,
    /// Why it was there.
    pub role: Role,
    /// Median, spread and samples, in the unit of the figure. Absent: it cannot be done there.
    pub value: Option<Summary>,
    /// Why there is no value.
    pub skipped: Option<String>,
    /// How many times better the targets are, by medians: above 1, they are faster (or need less).
    pub ratio: Option<f64>,
    /// The same ratio in each round, if there are enough of them.
    #[serde(default)]
    pub pairs: Option<Pairs>,
    /// CPU per operation, as a multiple of the target's, in each round.
    #[serde(default)]
    pub cpu_pairs: Option<Pairs>,
    /// CPU microseconds per operation of this program and its children, median.
    pub cpu_us_program: Option<f64>,
    /// CPU microseconds per operation of each daemon, median.
    pub cpu_us_daemons: BTreeMap<String, f64>,
    /// Resident memory of each daemon, bytes, the largest of the rounds.
    pub resident_bytes: BTreeMap<String, u64>,
    /// Requests to servers per operation, median, where the mount counts them.
    pub requests: Option<f64>,
    /// Those of them that no program waited for.
    #[serde(default)]
    pub background: Option<f64>,
    /// Share of the machine's processors that others used meanwhile, 0 to 1, median.
    pub others_cpu: Option<f64>,
    /// Share of the time that the busiest disk was at work, 0 to 1, median.
    pub disk_busy: Option<f64>,
    /// The limit in most rounds.
    pub limited_by: Option<Limit>,
    /// (seconds, value) over time of the median round, if the step looks at that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<(f64, f64)>,
}

impl Outcome {
    /// CPU microseconds per operation of the program and all daemons.
    pub fn cpu_us(&self) -> Option<f64> {
        self.cpu_us_program.map(|own| own + self.cpu_us_daemons.values().sum::<f64>())
    }
}

/// One step on all places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// `mdtest`, `io`, ...
    pub item: String,
    /// The work that was done.
    pub what: String,
    /// Unit of the values.
    pub unit: Unit,
    /// The most that the design allows, or the least it wants, where it says so.
    pub goal: Option<f64>,
    /// Subject of the step, for plots: `rtt_ms`, `stripes`, `op`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Targets first.
    pub results: Vec<Outcome>,
}

impl Figure {
    /// Result of the target.
    pub fn target(&self) -> Option<&Outcome> {
        self.results.iter().find(|r| r.role == Role::Target)
    }

    /// True if the target keeps the goal; `None` without a goal or a value. Of requests, one
    /// operation in twenty may cost one more. In one process a target may have answered before the
    /// next one is asked, and the two then count as one after the other.
    pub fn reached(&self) -> Option<bool> {
        let (goal, value) = (self.goal?, self.target()?.value.as_ref()?.median);
        let goal = if self.unit == Unit::Requests { goal * 1.05 } else { goal };
        Some(if self.unit.more_is_better() { value >= goal } else { value <= goal })
    }
}

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Commit and version of the program.
    pub commit: String,
    /// Version of the program.
    pub version: String,
    /// Start of the run: seconds since 1970.
    pub started: u64,
    /// Command line of the run.
    pub command: Vec<String>,
    /// The machine.
    pub machine: MachineReport,
    /// Seed of everything random.
    pub seed: u64,
    /// Rounds.
    pub repeats: usize,
    /// Settings of each item.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The places that were measured.
    pub places: Vec<PlaceReport>,
    /// The figures.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Adds the results of a later run. Program and machine stay those of the first.
    pub fn append(&mut self, later: Report) {
        let new = |place: &PlaceReport| {
            !self.places.iter().any(|p| p.name == place.name && p.role == place.role)
        };
        let places: Vec<PlaceReport> = later.places.into_iter().filter(new).collect();
        self.places.extend(places);
        self.settings.extend(later.settings);
        self.figures.extend(later.figures);
        self.command.push(";".to_owned());
        self.command.extend(later.command);
    }
}
