//! Results: a table for people, JSON for programs.

use serde::Serialize;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};
use tabled::{Table, Tabled};

/// One figure beside its reference. Rates are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was done.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Ours.
    pub value: f64,
    /// Smallest and largest of the rounds.
    pub spread: (f64, f64),
    /// CPU microseconds per operation, all threads and processes that the row names.
    pub cpu_us: Option<f64>,
    /// What it is compared with.
    pub reference: Option<Reference>,
    /// The goal, in words.
    pub goal: String,
    /// Was it reached?
    pub reached: bool,
}

/// The same work elsewhere, in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Reference {
    /// Where.
    pub name: &'static str,
    /// Its median.
    pub value: f64,
    /// Its CPU microseconds per operation.
    pub cpu_us: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Commit measured, if known.
    pub commit: String,
    /// CPU model and count, kernel.
    pub machine: String,
    /// Rounds of each figure.
    pub rounds: usize,
    /// The figures.
    pub figures: Vec<Figure>,
}

#[derive(Tabled)]
struct Row {
    what: String,
    ours: String,
    spread: String,
    #[tabled(rename = "CPU us/op")]
    cpu: String,
    reference: String,
    ratio: String,
    goal: String,
    reached: &'static str,
}

fn number(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

impl Report {
    /// About this machine and tree.
    pub fn new(rounds: usize) -> Report {
        let first_line = |path: &str, key: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().find(|l| l.starts_with(key)).unwrap_or("unknown").rsplit(": ").next().unwrap_or("").to_owned()
        };
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let git = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
        Report {
            commit: git.map_or_else(|_| "unknown".to_owned(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned()),
            machine: format!("{cpus} x {}, Linux {}", first_line("/proc/cpuinfo", "model name"), kernel.trim()),
            rounds,
            figures: Vec::new(),
        }
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("commit {}, {}, median of {} rounds", self.commit, self.machine, self.rounds);
        let rows = self.figures.iter().map(|f| Row {
            what: f.name.clone(),
            ours: format!("{} {}", number(f.value), f.unit),
            spread: format!("{}..{}", number(f.spread.0), number(f.spread.1)),
            cpu: f.cpu_us.map(number).unwrap_or_default(),
            reference: f.reference.as_ref().map_or(String::new(), |r| {
                format!(
                    "{} {}{}",
                    r.name,
                    number(r.value),
                    r.cpu_us.map_or(String::new(), |c| format!(" ({} us)", number(c)))
                )
            }),
            ratio: f.reference.as_ref().map_or(String::new(), |r| format!("{:.2}", f.value / r.value)),
            goal: f.goal.clone(),
            reached: if f.reached { "yes" } else { "NO" },
        });
        let mut table = Table::new(rows);
        table.with(Style::psql()).with(Modify::new(Columns::new(1..=3)).with(Alignment::right()));
        println!("{table}");
    }
}
