//! `mdts`: how the rates of metadata operations grow with the number of MDTs, in real processes.
//!
//! A machine of two processors cannot give each of many MDTs as much of it as a machine of its own
//! would. So each MDT works on one request after the other, each for a set time, far longer than
//! what it really costs: as long as the machine is not busy, an MDT is the bottleneck, as on a
//! machine of its own. Efficiency is the rate with N MDTs to N times the rate with the first number
//! of MDTs, for each of these.

mod ranks;
mod servers;

use crate::failure::BenchError;
use crate::item::Rounds;
use crate::measure::{Machine, cpu_of_self};
use crate::progress::Progress;
use crate::stop::Stop;
use bench_args::{MdtsArgs, MdtsPlace};
use bench_report::figure::{Figure, Limit, Outcome, PlaceReport, Role, Unit};
use bench_report::machine::cpus;
use bench_report::statistics::{Summary, median};
use ranks::{Clients, Phase, Times, Workplace};
use servers::{Served, Servers};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A machine that is busier than this is a bottleneck, too: efficiency does not count.
const BUSY_MAX: f64 = 0.70;
/// Least efficiency that is wanted, percent.
const GOAL: f64 = 90.0;
/// What a phase left to do (closes, commits) is done in this time.
const SETTLE: Duration = Duration::from_secs(1);
/// Names of a directory that splits move within this time.
const MOVED: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(200);

/// One phase in one round.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Items a second, from the first start to the last end.
    rate: f64,
    /// The same in the middle half of that time.
    steady: f64,
    /// Requests of the MDT that got most of them, to the mean.
    busiest: f64,
    /// Requests for each item; those of MDTs, and those for the stripes of a directory, among them.
    requests: f64,
    of_mdts: f64,
    stripes: f64,
    /// Share of the machine's processors that worked, and for others.
    busy: f64,
    others: f64,
    /// CPU seconds for each item, of clients and of servers.
    clients: f64,
    servers: f64,
}

/// Where, with how many MDTs, which phase.
type Key = (MdtsPlace, u16, Phase);

/// Runs everything.
///
/// # Errors
/// A server does not start, or an operation fails.
pub fn run(
    args: &MdtsArgs,
    dir: &Path,
    rounds: Rounds,
    stop: &Stop,
) -> Result<(Vec<PlaceReport>, Vec<Figure>), BenchError> {
    let mut samples: BTreeMap<Key, Vec<Sample>> = BTreeMap::new();
    let phases: usize = args.places.iter().map(|place| Phase::all_at(*place).len()).sum();
    let steps = args.mdts.len() * phases * rounds.repeats;
    let progress = Progress::start("mdts", steps);
    for round in 0..rounds.repeats {
        for mdts in &args.mdts {
            stop.check()?;
            let servers = Servers::up(*mdts, args, dir)?;
            let ranks = usize::from(args.ranks) * usize::from(*mdts);
            let clients = Clients::connect(servers.source(), ranks, *mdts)?;
            let site = Site { args, mdts: *mdts, ranks, servers, clients };
            for place in &args.places {
                let dirs = site.make_directories(*place, round)?;
                for phase in Phase::all_at(*place).iter().copied() {
                    let what = format!("{mdts} MDTs, {}: {}", place.name(), phase.name());
                    progress.say(format!("round {}: {what}", round + 1));
                    let sample = site.measure(phase, &dirs, stop)?;
                    samples.entry((*place, *mdts, phase)).or_default().push(sample);
                    site.settle(*place)?;
                    progress.moved();
                }
            }
            // Clients before servers.
            drop(site.clients);
            drop(site.servers);
        }
    }
    drop(progress);
    let place = PlaceReport {
        name: PLACE.to_owned(),
        role: Role::Target,
        fs_type: "sheen, without a mount".to_owned(),
        daemons: Vec::new(),
    };
    Ok((vec![place], figures(args, &samples)))
}

/// The name of what is measured.
const PLACE: &str = "MDTs of this machine";

struct Site<'a> {
    args: &'a MdtsArgs,
    mdts: u16,
    ranks: usize,
    servers: Servers,
    clients: Clients,
}

impl Site<'_> {
    /// Where each rank works.
    fn make_directories(
        &self,
        place: MdtsPlace,
        round: usize,
    ) -> Result<Vec<Workplace>, BenchError> {
        let name = |n: usize| format!("{}.{round}.{n}", place.name());
        let shared = || vec![Workplace { name: name(0), made_on: None }; self.ranks];
        match place {
            MdtsPlace::Private | MdtsPlace::Remote => {
                let mut dirs = Vec::new();
                for rank in 0..self.ranks {
                    let mdt = rank as u16 % self.mdts; // at most 64 MDTs with 64 ranks each
                    self.clients.mkdir(&name(rank), mdt, 1)?;
                    let next = (mdt + 1) % self.mdts;
                    let made_on = (place == MdtsPlace::Remote).then_some(next);
                    dirs.push(Workplace { name: name(rank), made_on });
                }
                Ok(dirs)
            }
            MdtsPlace::Shared => {
                self.clients.mkdir(&name(0), 0, self.mdts)?;
                Ok(shared())
            }
            MdtsPlace::Split => {
                self.clients.mkdir(&name(0), 0, 1)?;
                let count = format!("mdt.*.dir_split_count={}", self.args.split_count);
                for mdt in 0..self.mdts {
                    self.servers.lctl(mdt, &["set_param", &count])?;
                    let delta = format!("mdt.*.dir_split_delta={}", self.mdts.max(2));
                    self.servers.lctl(mdt, &["set_param", &delta])?;
                    self.servers.lctl(mdt, &["set_param", "mdt.*.enable_dir_auto_split=1"])?;
                }
                Ok(shared())
            }
        }
    }

    /// What a phase left to do is not part of the next one.
    fn settle(&self, place: MdtsPlace) -> Result<(), BenchError> {
        std::thread::sleep(SETTLE);
        if place != MdtsPlace::Split {
            return Ok(());
        }
        let deadline = Instant::now() + MOVED;
        loop {
            let mut moves = String::new();
            for mdt in 0..self.mdts {
                moves += &self.servers.lctl(mdt, &["get_param", "-n", "mdt.*.dir_moves"])?;
            }
            if !moves.contains("split of") {
                break;
            }
            if Instant::now() > deadline {
                return Err(BenchError::Failed(format!("a split takes longer than {MOVED:?}")));
            }
            std::thread::sleep(LOOK);
        }
        for mdt in 0..self.mdts {
            self.servers.lctl(mdt, &["set_param", "mdt.*.enable_dir_auto_split=0"])?;
        }
        Ok(())
    }

    fn measure(&self, phase: Phase, dirs: &[Workplace], stop: &Stop) -> Result<Sample, BenchError> {
        let before = (self.servers.served()?, Machine::now(), cpu_of_self(), self.servers.cpu());
        let start = Instant::now();
        let times = self.clients.perform(phase, dirs, self.args.items, stop)?;
        let wall = start.elapsed().as_secs_f64();
        let clients = cpu_of_self().saturating_sub(before.2).as_secs_f64();
        let served = self.servers.cpu().saturating_sub(before.3).as_secs_f64();
        let machine = Machine::now().since(&before.1).0;
        let (most, all) = counted(&before.0, &self.servers.served()?);
        let count = times.ended.len() as f64;
        let (rate, steady) = rates(&times);
        let processors = wall * cpus() as f64;
        Ok(Sample {
            rate,
            steady,
            busiest: most * f64::from(self.mdts) / all.all.max(1) as f64,
            requests: all.all as f64 / count,
            of_mdts: all.of_mdts as f64 / count,
            stripes: all.stripes as f64 / count,
            busy: (machine / processors).min(1.0),
            others: ((machine - clients - served) / processors).max(0.0),
            clients: clients / count,
            servers: served / count,
        })
    }
}

/// Requests of the busiest MDT, and what all have served.
fn counted(before: &[Served], after: &[Served]) -> (f64, Served) {
    let (mut most, mut sum) = (0, Served::default());
    for (now, then) in after.iter().zip(before) {
        let all = now.all.saturating_sub(then.all);
        most = most.max(all);
        sum.all += all;
        sum.of_mdts += now.of_mdts.saturating_sub(then.of_mdts);
        sum.stripes += now.stripes.saturating_sub(then.stripes);
    }
    (most as f64, sum)
}

/// Items a second: in all, and in the middle half of the time.
fn rates(times: &Times) -> (f64, f64) {
    let seconds = |at: &Instant| at.saturating_duration_since(times.began).as_secs_f64();
    let took = times.ended.iter().map(seconds).fold(1e-9, f64::max);
    let middle = (took / 4.0)..(took * 0.75);
    let within = times.ended.iter().filter(|at| middle.contains(&seconds(at))).count() as f64;
    (times.ended.len() as f64 / took, within / (took / 2.0))
}

/// Rate, efficiency, balance and requests between MDTs of each phase.
fn figures(args: &MdtsArgs, samples: &BTreeMap<Key, Vec<Sample>>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for place in &args.places {
        for phase in Phase::all_at(*place).iter().copied() {
            let first = args.mdts.first().copied().unwrap_or(1);
            let alone = samples.get(&(*place, first, phase));
            for mdts in &args.mdts {
                let Some(all) = samples.get(&(*place, *mdts, phase)) else { continue };
                let of = |value: &dyn Fn(&Sample) -> f64| all.iter().map(value).collect();
                let about = About { place: *place, mdts: *mdts, phase, first };
                figures.push(about.figure("", Unit::PerSecond, of(&|s| s.rate), all));
                let grows = f64::from(*mdts) / f64::from(first);
                let pairs = alone.into_iter().flatten().zip(all);
                if *mdts != first {
                    let by = |of: fn(&Sample) -> f64| {
                        pairs.clone().map(move |(one, many)| 100.0 * of(many) / (grows * of(one)))
                    };
                    let (whole, steady) = (by(|s| s.rate).collect(), by(|s| s.steady).collect());
                    let efficiency = about.figure("efficiency", Unit::Percent, whole, all);
                    let goal = about.goal(all);
                    figures.push(Figure { goal, ..efficiency });
                    figures.push(about.figure("steady efficiency", Unit::Percent, steady, all));
                    let busiest = of(&|s| 100.0 * s.busiest);
                    figures.push(about.figure(
                        "busiest MDT to the mean",
                        Unit::Percent,
                        busiest,
                        all,
                    ));
                    let between = of(&|s| s.of_mdts);
                    figures.push(about.figure("between MDTs", Unit::Requests, between, all));
                    let stripes = of(&|s| s.stripes);
                    figures.push(about.figure("stripes asked for", Unit::Requests, stripes, all));
                }
            }
        }
    }
    figures
}

struct About {
    place: MdtsPlace,
    mdts: u16,
    phase: Phase,
    first: u16,
}

impl About {
    /// None where the machine is a bottleneck, too; nor for directories on other MDTs than their
    /// names, as one MDT has no other.
    fn goal(&self, all: &[Sample]) -> Option<f64> {
        let busy = median(&all.iter().map(|s| s.busy).collect::<Vec<f64>>());
        let counts = busy.is_some_and(|busy| busy <= BUSY_MAX);
        (counts && self.place != MdtsPlace::Remote).then_some(GOAL)
    }

    fn figure(&self, kind: &str, unit: Unit, values: Vec<f64>, all: &[Sample]) -> Figure {
        let About { place, mdts, phase, first } = self;
        let middle = |of: fn(&Sample) -> f64| median(&all.iter().map(of).collect::<Vec<f64>>());
        let busy = middle(|s| s.busy);
        let said = if kind.is_empty() { String::new() } else { format!(", {kind}") };
        let mut tags = BTreeMap::from([
            ("mdts".to_owned(), mdts.to_string()),
            ("place".to_owned(), place.name().to_owned()),
            ("op".to_owned(), phase.name().to_owned()),
            ("kind".to_owned(), if kind.is_empty() { "rate" } else { kind }.to_owned()),
            ("first".to_owned(), first.to_string()),
        ]);
        tags.extend(busy.map(|busy| ("machine_busy".to_owned(), format!("{busy:.2}"))));
        let outcome = Outcome {
            place: PLACE.to_owned(),
            role: Role::Target,
            value: Summary::of(values),
            skipped: None,
            ratio: None,
            pairs: None,
            cpu_pairs: None,
            cpu_us_program: middle(|s| s.clients * 1e6),
            cpu_us_daemons: middle(|s| s.servers * 1e6)
                .map(|us| ("servers".to_owned(), us))
                .into_iter()
                .collect(),
            resident_bytes: BTreeMap::new(),
            requests: middle(|s| s.requests),
            background: None,
            others_cpu: middle(|s| s.others),
            disk_busy: None,
            limited_by: busy.map(|busy| if busy > BUSY_MAX { Limit::Cpu } else { Limit::Waiting }),
            over_time: Vec::new(),
        };
        Figure {
            item: "mdts".to_owned(),
            what: format!("{mdts} MDTs, {}: {}{said}", place.name(), phase.name()),
            unit,
            goal: None,
            tags,
            results: vec![outcome],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: f64) -> Sample {
        Sample {
            rate,
            steady: rate * 1.1,
            busiest: 1.02,
            requests: 2.0,
            of_mdts: 0.01,
            stripes: 0.1,
            busy: 0.3,
            others: 0.1,
            clients: 1e-5,
            servers: 2e-5,
        }
    }

    #[test]
    fn efficiency_is_by_rounds_and_to_the_first_number_of_mdts() {
        let args = MdtsArgs {
            mdts: vec![2, 8],
            ranks: 4,
            items: 1,
            service_time: "3ms".parse().expect("a span"),
            places: vec![MdtsPlace::Private],
            split_count: 1,
        };
        let mut samples = BTreeMap::new();
        samples.insert((MdtsPlace::Private, 2, Phase::Create), vec![sample(100.0), sample(200.0)]);
        samples.insert((MdtsPlace::Private, 8, Phase::Create), vec![sample(360.0), sample(720.0)]);
        let figures = figures(&args, &samples);
        let of = |kind: &str, mdts: &str| {
            let fits = |f: &&Figure| f.tags["kind"] == kind && f.tags["mdts"] == mdts;
            let found = figures.iter().find(fits).expect(kind);
            found.target().and_then(|r| r.value.as_ref()).expect("a value").median
        };
        assert!((of("efficiency", "8") - 90.0).abs() < 1e-9, "{}", of("efficiency", "8"));
        assert!((of("busiest MDT to the mean", "8") - 102.0).abs() < 1e-9);
        assert_eq!((of("rate", "2"), of("rate", "8")), (150.0, 540.0));
        assert!((of("stripes asked for", "8") - 0.1).abs() < 1e-9);
        assert_eq!(figures.len(), 7);
        let goals = |samples: &BTreeMap<Key, Vec<Sample>>| {
            super::figures(&args, samples).iter().filter(|f| f.goal.is_some()).count()
        };
        assert_eq!(goals(&samples), 1);
        samples.values_mut().flatten().for_each(|sample| sample.busy = 0.9);
        assert_eq!(goals(&samples), 0, "the machine was the bottleneck");
        assert!(figures.iter().any(|f| f.what == "8 MDTs, private: create, efficiency"));
    }

    #[test]
    fn requests_are_counted_by_mdt() {
        let served = |all, of_mdts, stripes| Served { all, of_mdts, stripes };
        let before = [served(10, 1, 0), served(20, 0, 1)];
        let after = [served(40, 3, 4), served(30, 0, 2)];
        assert_eq!(counted(&before, &after), (30.0, served(40, 2, 5)));
    }

    #[test]
    fn the_middle_half_leaves_out_beginning_and_end() {
        let began = Instant::now();
        let ended = [1, 2, 2, 2, 4].map(|s| began + Duration::from_secs(s));
        let times = Times { began, ended: ended.to_vec() };
        let (rate, steady) = rates(&times);
        assert!((rate - 1.25).abs() < 1e-9 && (steady - 2.0).abs() < 1e-9, "{rate} {steady}");
    }
}
