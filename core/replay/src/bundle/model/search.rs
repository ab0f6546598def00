//! The searches for a bad order of events: random and exhaustive.

use super::super::{MUTANT, Mutant};
use super::{CLIENTS, Judged, Kind, MDTS, Phase, Route, Step, World, at};
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Draws.
struct Draw(TestRng);

impl Draw {
    fn of(seed: u64) -> Draw {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Draw(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    fn below(&mut self, end: usize) -> usize {
        use proptest::prelude::Rng;
        self.0.next_u32() as usize % end
    }
}

/// One random run; its steps, if it is bad.
fn random(seed: u64, steps: usize) -> Judged {
    let mut draw = Draw::of(seed);
    let mut world = World::new();
    for _ in 0..steps {
        let mdt = draw.below(MDTS);
        let step = match draw.below(100) {
            0..34 if !world.wires.is_empty() => {
                let routes: Vec<Route> = world.wires.keys().copied().collect();
                Step::Deliver(routes[draw.below(routes.len())])
            }
            0..34 => continue,
            34..48 => {
                let mut others: Vec<usize> = (0..MDTS).filter(|other| *other != mdt).collect();
                others.rotate_left(draw.below(2));
                others.truncate(1 + draw.below(3).min(1));
                let kind = |draw: &mut Draw| if draw.below(4) == 0 { Kind::New } else { Kind::Set };
                let mut parts: Vec<_> = others.into_iter().map(|other| (other, kind(&mut draw))).collect();
                parts.push((mdt, kind(&mut draw)));
                Step::Begin { client: draw.below(CLIENTS), coordinator: mdt, parts }
            }
            48..60 => Step::Single { client: draw.below(CLIENTS), mdt, told: draw.below(8) != 0 },
            60..66 if world.mdts[mdt].phase == Phase::Open => Step::Commit(mdt),
            66..71 if world.mdts[mdt].phase == Phase::Open => Step::Tell(mdt),
            71..75 if world.mdts[mdt].phase != Phase::Down => Step::Crash(mdt),
            75 => Step::Die(draw.below(CLIENTS)),
            76..86 => Step::Recover(mdt),
            86..92 if world.mdts[mdt].phase == Phase::Open => Step::Again(mdt),
            92..97 if world.mdts[mdt].phase == Phase::Open => {
                let overdue = world.mdts[mdt].participant.overdue(Duration::MAX);
                let Some(id) = overdue.first() else { continue };
                Step::Overdue(mdt, *id)
            }
            97..100 => Step::Cut(mdt, (mdt + 1) % MDTS),
            _ => continue,
        };
        if step == Step::Die(0) && !world.alive[1] || step == Step::Die(1) && !world.alive[0] {
            continue;
        }
        world.step(&step)?;
    }
    world.settle()
}

/// What an exhaustive search allows beside the moves of the world.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Allowed {
    bundles: Vec<Step>,
    crashes: u8,
    deaths: u8,
    /// Commits of their own, and bundles that are stopped, beside those that the protocol asks for.
    commits: u8,
    stops: u8,
}

/// Looks at all orders of events; the number of states, or the first bad one with its steps.
fn exhaustive(allowed: Allowed, states_max: usize) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut stack = VecDeque::from([(World::new(), allowed, Vec::<Step>::new())]);
    let told = |steps: &[Step], error: String| {
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        format!("{error}\n{}", steps.join("\n"))
    };
    while let Some((world, allowed, steps)) = stack.pop_front() {
        let mut hasher = DefaultHasher::new();
        (&world, &allowed).hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        if seen.len() > states_max {
            return Err("too many states".into());
        }
        let mut next: Vec<(Step, Allowed)> = Vec::new();
        for step in world.moves() {
            let mut left = allowed.clone();
            let budget = match &step {
                Step::Commit(_) => Some(&mut left.commits),
                Step::Overdue(mdt, id) if world.mdts[at(id.coordinator)].boot == id.boot => {
                    let _ = mdt;
                    Some(&mut left.stops)
                }
                _ => None,
            };
            match budget {
                Some(0) => continue,
                Some(budget) => *budget -= 1,
                None => {}
            }
            next.push((step, left));
        }
        if let Some((step, rest)) = allowed.bundles.split_first() {
            next.push((step.clone(), Allowed { bundles: rest.to_vec(), ..allowed.clone() }));
        }
        if allowed.crashes > 0 {
            let up = (0..MDTS).filter(|mdt| world.mdts[*mdt].phase != Phase::Down);
            let left = Allowed { crashes: allowed.crashes - 1, ..allowed.clone() };
            next.extend(up.map(|mdt| (Step::Crash(mdt), left.clone())));
        }
        if allowed.deaths > 0 && world.alive[0] {
            let left = Allowed { deaths: allowed.deaths - 1, ..allowed.clone() };
            next.push((Step::Die(0), left));
        }
        world.clone().settle().map_err(|error| told(&steps, error))?;
        for (step, left) in next {
            let mut after = world.clone();
            let mut steps = steps.clone();
            steps.push(step.clone());
            after.step(&step).map_err(|error| told(&steps, error))?;
            stack.push_back((after, left, steps));
        }
    }
    Ok(seen.len())
}

fn with_mutant<R>(mutant: Option<Mutant>, run: impl FnOnce() -> R) -> R {
    MUTANT.set(mutant);
    let result = run();
    MUTANT.set(None);
    result
}

/// A number that the command may set.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn random_runs_are_whole() {
    let first = setting("BUNDLE_SEED", 0) as u64;
    for seed in first..first + setting("BUNDLE_RUNS", 400) as u64 {
        if let Err(error) = random(seed, 240) {
            panic!("BUNDLE_SEED={seed} BUNDLE_RUNS=1: {error}");
        }
    }
}

/// Two bundles over three MDTs that meet at register 0, the second with the first one's coordinator
/// as a participant.
fn two_bundles() -> Vec<Step> {
    let set = |mdt| (mdt, Kind::Set);
    vec![
        Step::Begin { client: 0, coordinator: 0, parts: vec![set(0), set(1), set(2)] },
        Step::Begin { client: 1, coordinator: 1, parts: vec![set(1), (2, Kind::New), set(0)] },
    ]
}

fn small() -> Allowed {
    Allowed {
        bundles: two_bundles().into_iter().take(setting("BUNDLE_COUNT", 1)).collect(),
        crashes: setting("BUNDLE_CRASHES", 1) as u8,
        deaths: setting("BUNDLE_DEATHS", 1) as u8,
        commits: setting("BUNDLE_COMMITS", 1) as u8,
        stops: setting("BUNDLE_STOPS", 1) as u8,
    }
}

#[test]
fn every_order_of_events_is_whole() {
    match exhaustive(small(), setting("BUNDLE_STATES", 1_000_000)) {
        Ok(states) => assert!(states > 1000, "{states} states"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn each_mutant_is_found() {
    use Mutant::*;
    let all = [
        NoCommitFirst,
        CoordinatorFirst,
        NoRecordAtParticipants,
        NoWatermark,
        RestartDoesNotCancel,
        StopNotDurable,
        TerminationWithoutStop,
        LateApplyTaken,
        LateAnswerTaken,
        StoppedTakenFromCoordinator,
        ExchangeBeforeClients,
    ];
    let found = || exhaustive(small(), 100_000).is_err() || (0..6000).any(|seed| random(seed, 240).is_err());
    for mutant in all {
        assert!(with_mutant(Some(mutant), found), "{mutant:?} is not found");
    }
    let twice = || exhaustive(Allowed { crashes: 2, ..small() }, 1_000_000).is_err();
    assert!(with_mutant(Some(NotAnnounced), twice), "it is not found with two crashes");
}
