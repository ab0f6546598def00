//! The frame of every item: its steps run on all places in turn, round by round, and each is
//! measured alike.

use crate::counts::Counts;
use crate::daemons;
use crate::failure::BenchError;
use crate::limited::Spent;
use crate::measure::{Machine, cpu_of_self};
use crate::place::Place;
use crate::progress::Progress;
use crate::stop::Stop;
use bench_report::figure::Role;
use bench_report::figure::{Figure, Limit, Outcome, Unit};
use bench_report::machine::cpus;
use bench_report::statistics::{Pairs, Summary, median};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// 1 MiB: the unit for the CPU of data.
pub const MIB: f64 = 1_048_576.0;

/// One step of an item.
#[derive(Clone, Debug)]
pub struct Step {
    /// The work, for people; unique in the item.
    pub what: String,
    /// Unit of its figure; `None`: it is work between steps that gives no figure.
    pub unit: Option<Unit>,
    /// The bound that the design allows or wants, if there is one.
    pub goal: Option<f64>,
    /// Programs or threads that work at the same time.
    pub actors: usize,
    /// Subject of the step, for plots.
    pub tags: Vec<(&'static str, String)>,
}

impl Step {
    /// A step done by so many at once.
    pub fn new(what: impl Into<String>, unit: Unit, actors: usize) -> Step {
        Step { what: what.into(), unit: Some(unit), goal: None, actors, tags: Vec::new() }
    }

    /// The same, about this.
    pub fn tag(mut self, key: &'static str, value: impl ToString) -> Step {
        self.tags.push((key, value.to_string()));
        self
    }

    /// The same with a goal.
    pub fn goal(self, goal: f64) -> Step {
        Step { goal: Some(goal), ..self }
    }
}

/// Result of a step.
#[derive(Clone, Debug)]
pub enum Done {
    /// So many operations (of [`Unit::PerSecond`] and [`Unit::Seconds`]) or bytes (of
    /// [`Unit::MegabytesPerSecond`]).
    Work(Work),
    /// The step measured the value itself, in `operations` operations.
    Value { value: f64, operations: f64 },
    /// The step cannot be done here.
    Skipped(String),
}

/// Work that is timed by the frame.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Operations or bytes.
    pub amount: f64,
    /// Time of the work, if the step knows it better than its caller.
    pub wall: Option<Duration>,
    /// CPU of processes that the frame does not see.
    pub cpu: Duration,
    /// (seconds, value) over time.
    pub over_time: Vec<(f64, f64)>,
}

/// The place and round that a step runs in.
pub struct Spot<'a> {
    /// The place.
    pub place: &'a Place,
    /// Number of the place, for what an item keeps of each.
    pub number: usize,
    /// Round, from 0.
    pub round: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// To be checked in every loop.
    pub stop: &'a Stop,
}

/// Something to measure.
pub trait Item {
    /// `mdtest`, `io`, ...
    fn name(&self) -> &'static str;

    /// Settings of the item, for the report.
    fn settings(&self) -> serde_json::Value;

    /// The steps of each round, in this order.
    fn steps(&self) -> Vec<Step>;

    /// Makes ready; not measured.
    ///
    /// # Errors
    /// The preparation failed, which ends the run.
    fn prepare(&mut self, _step: usize, _spot: &Spot<'_>) -> Result<(), BenchError> {
        Ok(())
    }

    /// Does the step; this is measured.
    ///
    /// # Errors
    /// The step failed, which ends the run.
    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError>;
}

/// How to run items.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds.
    pub repeats: usize,
    /// Seed.
    pub seed: u64,
    /// Seconds that a request to servers is on its way, there and back; 0 where that is not known.
    pub link_delay: f64,
}

/// Result of one step on one place in one round.
#[derive(Clone, Debug)]
struct Sample {
    value: f64,
    cpu_us_program: f64,
    cpu_us_daemons: BTreeMap<String, f64>,
    requests: Option<f64>,
    background: Option<f64>,
    others: f64,
    disk: f64,
    limit: Limit,
    over_time: Vec<(f64, f64)>,
}

/// Of one step and place.
#[derive(Clone, Debug, Default)]
struct Samples {
    all: Vec<Sample>,
    skipped: Option<String>,
    resident: BTreeMap<String, u64>,
}

/// Runs all rounds of an item on all places.
///
/// # Errors
/// A step fails, a daemon ends, or the user ended the run.
pub fn run(
    item: &mut dyn Item,
    places: &[Place],
    rounds: Rounds,
    stop: &Stop,
) -> Result<Vec<Figure>, BenchError> {
    let steps = item.steps();
    let progress = Progress::start(item.name(), steps.len() * places.len() * rounds.repeats);
    let mut samples = vec![vec![Samples::default(); places.len()]; steps.len()];
    for round in 0..rounds.repeats {
        for (at, step) in steps.iter().enumerate() {
            for turn in 0..places.len() {
                // The first place changes, so that none always meets the traces of the same
                // predecessor.
                let number = (turn + round) % places.len();
                let place = &places[number];
                stop.check()?;
                progress.say(format!("round {}: {}: {}", round + 1, step.what, place.name));
                let spot = Spot { place, number, round, seed: rounds.seed, stop };
                measure(item, at, step, &spot, rounds.link_delay, &mut samples[at][number])?;
                progress.moved();
            }
        }
    }
    drop(progress);
    let figure = |(step, samples): (&Step, Vec<Samples>)| {
        Some(figure(item.name(), step, step.unit?, places, samples))
    };
    Ok(steps.iter().zip(samples).filter_map(figure).collect())
}

fn measure(
    item: &mut dyn Item,
    at: usize,
    step: &Step,
    spot: &Spot<'_>,
    link_delay: f64,
    samples: &mut Samples,
) -> Result<(), BenchError> {
    item.prepare(at, spot)?;
    let daemons = &spot.place.daemons;
    let counts = || Counts::of_all(spot.place.dirs.iter().map(|dir| dir.as_path()));
    let (requests, machine) = (counts(), Machine::now());
    let scraping = spot.place.scrape()?;
    let (before, own, start) = (daemons::cpu(daemons)?, cpu_of_self(), Instant::now());
    let done = item.perform(at, spot)?;
    let (wall, own, after) =
        (start.elapsed(), cpu_of_self().saturating_sub(own), daemons::cpu(daemons)?);
    if scraping.as_ref().is_some_and(|scraping| scraping.rounds() == 0) {
        return Err(BenchError::Failed(format!(
            "{}: over before its metrics were read once: take a longer slice",
            step.what
        )));
    }
    drop(scraping);
    let (machine_cpu, disk) = Machine::now().since(&machine);
    let counted = counts().zip(requests).map(|(now, then)| now.since(then));
    let requests = counted.map(|counted| counted.requests as f64);
    for (name, bytes) in daemons::resident(daemons)? {
        let most = samples.resident.entry(name).or_default();
        *most = bytes.max(*most);
    }
    let (value, operations, work) = match done {
        Done::Skipped(why) => {
            samples.skipped = Some(why);
            return Ok(());
        }
        Done::Value { value, operations } => (value, operations, Work::default()),
        Done::Work(work) => {
            let seconds = work.wall.unwrap_or(wall).as_secs_f64().max(1e-9);
            match step.unit {
                Some(Unit::MegabytesPerSecond) => {
                    (work.amount / 1e6 / seconds, work.amount / MIB, work)
                }
                Some(Unit::Seconds) => (seconds, 1.0, work),
                Some(Unit::Microseconds) => (seconds * 1e6 / work.amount, work.amount, work),
                _ => (work.amount / seconds, work.amount, work),
            }
        }
    };
    let operations = operations.max(1.0);
    let program = own + work.cpu;
    let served: BTreeMap<String, f64> = after
        .into_iter()
        .map(|(name, now)| {
            let then = before.get(&name).copied().unwrap_or(now);
            (name, now.saturating_sub(then).as_secs_f64())
        })
        .collect();
    let spent = Spent {
        wall: wall.as_secs_f64(),
        cpu: program.as_secs_f64() + served.values().sum::<f64>(),
        machine_cpu,
        disk,
        cpus: cpus() as f64,
        actors: step.actors as f64,
        on_the_way: requests.unwrap_or(0.0) * link_delay / step.actors.max(1) as f64,
    };
    samples.all.push(Sample {
        value,
        cpu_us_program: program.as_secs_f64() * 1e6 / operations,
        cpu_us_daemons: served.into_iter().map(|(name, s)| (name, s * 1e6 / operations)).collect(),
        requests: requests.map(|n| n / operations),
        background: counted.map(|counted| counted.background() as f64 / operations),
        others: spent.others(),
        disk: if spent.wall > 0.0 { (spent.disk / spent.wall).min(1.0) } else { 0.0 },
        limit: spent.limit(),
        over_time: work.over_time,
    });
    Ok(())
}

fn figure(item: &str, step: &Step, unit: Unit, places: &[Place], samples: Vec<Samples>) -> Figure {
    let first = places
        .iter()
        .zip(&samples)
        .find(|(place, _)| place.role == Role::Target)
        .map(|(_, s)| s.all.clone());
    let pairs = samples
        .iter()
        .map(|other| by_round(unit, first.as_deref().unwrap_or(&[]), &other.all))
        .collect::<Vec<_>>();
    let mut results: Vec<Outcome> =
        places.iter().zip(samples).map(|(p, s)| outcome(p, s)).collect();
    let target = results
        .iter()
        .find(|r| r.role == Role::Target)
        .and_then(|r| r.value.as_ref())
        .map(|v| v.median);
    for (result, pairs) in results.iter_mut().zip(pairs).filter(|(r, _)| r.role != Role::Target) {
        (result.pairs, result.cpu_pairs) = pairs;
        let other = result.value.as_ref().map(|v| v.median);
        result.ratio = target.zip(other).and_then(|(ours, other)| ratio(unit, ours, other));
    }
    let tags = step.tags.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    Figure { item: item.to_owned(), what: step.what.clone(), unit, goal: step.goal, tags, results }
}

/// Of the target's and another's samples: how many times better the target was, and how much more
/// CPU the other took, by round.
fn by_round(unit: Unit, ours: &[Sample], others: &[Sample]) -> (Option<Pairs>, Option<Pairs>) {
    if ours.len() != others.len() {
        return (None, None);
    }
    let pairs = |of: &dyn Fn(&Sample, &Sample) -> Option<f64>| {
        Pairs::of(&ours.iter().zip(others).map(|(a, b)| of(a, b)).collect::<Option<Vec<f64>>>()?)
    };
    let cpu = |sample: &Sample| sample.cpu_us_program + sample.cpu_us_daemons.values().sum::<f64>();
    let by_value = pairs(&|a, b| ratio(unit, a.value, b.value));
    (by_value, pairs(&|a, b| ratio(Unit::Microseconds, cpu(a), cpu(b))))
}

/// How many times better `ours` is; `None` if one of them is 0.
pub fn ratio(unit: Unit, ours: f64, other: f64) -> Option<f64> {
    let (more, less) = if unit.more_is_better() { (ours, other) } else { (other, ours) };
    (more > 0.0 && less > 0.0).then(|| more / less)
}

fn outcome(place: &Place, samples: Samples) -> Outcome {
    let Samples { all, skipped, resident } = samples;
    let middle = |pick: &dyn Fn(&Sample) -> Option<f64>| {
        median(&all.iter().map(pick).collect::<Option<Vec<f64>>>().unwrap_or_default())
    };
    let value = Summary::of(all.iter().map(|s| s.value).collect());
    let names = all
        .first()
        .map(|s| s.cpu_us_daemons.keys().cloned().collect::<Vec<_>>())
        .unwrap_or_default();
    let daemon = |name: String| {
        let cpu = middle(&|s: &Sample| s.cpu_us_daemons.get(&name).copied())?;
        Some((name, cpu))
    };
    let mut limits: BTreeMap<Limit, usize> = BTreeMap::new();
    all.iter().for_each(|s| *limits.entry(s.limit).or_default() += 1);
    let nearest = value.as_ref().and_then(|v| {
        all.iter().min_by(|a, b| (a.value - v.median).abs().total_cmp(&(b.value - v.median).abs()))
    });
    Outcome {
        place: place.name.clone(),
        role: place.role,
        skipped: skipped.filter(|_| value.is_none()),
        ratio: None,
        pairs: None,
        cpu_pairs: None,
        cpu_us_program: middle(&|s: &Sample| Some(s.cpu_us_program)),
        cpu_us_daemons: names.into_iter().filter_map(daemon).collect(),
        resident_bytes: resident,
        requests: middle(&|s: &Sample| s.requests),
        background: middle(&|s: &Sample| s.background),
        others_cpu: middle(&|s: &Sample| Some(s.others)),
        disk_busy: middle(&|s: &Sample| Some(s.disk)),
        limited_by: limits.into_iter().max_by_key(|(_, count)| *count).map(|(limit, _)| limit),
        over_time: nearest.map(|s| s.over_time.clone()).unwrap_or_default(),
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Counts the calls of each place, and gives values that show the round.
    struct Fake {
        seen: Vec<(usize, usize, usize)>,
    }

    impl Item for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn settings(&self) -> serde_json::Value {
            serde_json::Value::Null
        }

        fn steps(&self) -> Vec<Step> {
            let between = Step { unit: None, ..Step::new("between", Unit::Seconds, 1) };
            vec![
                Step::new("value", Unit::Microseconds, 1).goal(3.0),
                between,
                Step::new("rate", Unit::PerSecond, 1),
            ]
        }

        fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
            self.seen.push((spot.round, step, spot.number));
            Ok(match (step, spot.number) {
                (0, 0) => Done::Value { value: 1.0 + spot.round as f64, operations: 10.0 },
                (0, _) => Done::Value { value: 4.0, operations: 10.0 },
                (2, 1) => Done::Skipped("not here".to_owned()),
                _ => Done::Work(Work {
                    amount: 50.0,
                    wall: Some(Duration::from_millis(500)),
                    ..Work::default()
                }),
            })
        }
    }

    fn places() -> (tempfile::TempDir, Vec<Place>) {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = ["a", "b"].iter().map(|name| dir.path().join(name)).collect();
        paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let target = Place::mounts(&paths[..1], Role::Target).unwrap();
        let reference = Place::mounts(&paths[1..], Role::Reference).unwrap();
        (dir, vec![target, reference])
    }

    #[test]
    fn places_take_turns_and_figures_stand_side_by_side() {
        let (dir, places) = places();
        let mut item = Fake { seen: Vec::new() };
        let rounds = Rounds { repeats: 3, seed: 1, link_delay: 0.0 };
        let figures = run(&mut item, &places, rounds, &Stop::default()).unwrap();
        assert_eq!(item.seen[..4], [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]);
        assert_eq!(
            item.seen[6..8],
            [(1, 0, 1), (1, 0, 0)],
            "the other comes first in the second round"
        );
        assert_eq!(figures.iter().map(|f| f.what.as_str()).collect::<Vec<_>>(), ["value", "rate"]);
        let value = &figures[0];
        assert_eq!(value.target().unwrap().value.as_ref().unwrap().median, 2.0);
        assert_eq!(value.target().unwrap().value.as_ref().unwrap().spread, [1.0, 3.0]);
        assert_eq!(value.results[1].ratio, Some(2.0), "half the time is twice as good");
        assert_eq!(value.reached(), Some(true));
        let rate = &figures[1];
        assert_eq!(rate.target().unwrap().value.as_ref().unwrap().median, 100.0);
        assert_eq!(
            (rate.results[1].value.as_ref(), rate.results[1].skipped.as_deref()),
            (None, Some("not here"))
        );
        assert_eq!(rate.reached(), None);
        drop(places);
        let left: Vec<_> = ["a", "b"]
            .iter()
            .flat_map(|n| std::fs::read_dir(dir.path().join(n)).unwrap())
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn who_is_asked_to_stop_stops() {
        let (_dir, places) = places();
        let stop = Stop::default();
        stop.ask();
        let mut item = Fake { seen: Vec::new() };
        let ended = run(&mut item, &places, Rounds { repeats: 1, seed: 1, link_delay: 0.0 }, &stop);
        assert!(matches!(ended, Err(BenchError::Interrupted)) && item.seen.is_empty());
    }

    #[test]
    fn ratios_say_how_many_times_better() {
        assert_eq!(ratio(Unit::PerSecond, 50.0, 100.0), Some(0.5));
        assert_eq!(ratio(Unit::Seconds, 50.0, 100.0), Some(2.0));
        assert_eq!(ratio(Unit::Requests, 0.0, 1.0), None);
    }
}
