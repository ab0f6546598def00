//! The searches for a bad order of events: random and exhaustive.

use super::super::{MUTANT, Mutant};
use super::{CLIENTS, Judged, Kind, Life, MDTS, Route, Step, World, at};
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::collections::HashSet;
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

/// What may happen in a random run, and how often, relative to the others that are possible then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Deliver,
    Begin,
    Single,
    Commit,
    Tell,
    Crash,
    Die,
    Recover,
    Again,
    Overdue,
    Cut,
}

const CLASSES: [(usize, Class); 11] = [
    (34, Class::Deliver),
    (14, Class::Begin),
    (12, Class::Single),
    (6, Class::Commit),
    (5, Class::Tell),
    (4, Class::Crash),
    (1, Class::Die),
    (24, Class::Recover),
    (6, Class::Again),
    (5, Class::Overdue),
    (3, Class::Cut),
];

/// Crashes in one random run.
const CRASHES_MAX: usize = 12;

impl Draw {
    /// The classes of one run, which has more of some of them than other runs have.
    fn classes(&mut self) -> [(usize, Class); 11] {
        CLASSES.map(|(weight, class)| (weight << self.below(3), class))
    }

    fn class(&mut self, classes: &[(usize, Class)]) -> Class {
        let mut at = self.below(classes.iter().map(|(weight, _)| weight).sum());
        for &(weight, class) in classes {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return class,
            }
        }
        unreachable!("it is below the sum of the weights")
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())].clone())
    }

    /// A step of this class that does something now. `None`: there is none.
    fn step(&mut self, class: Class, world: &World, crashes_left: usize) -> Option<Step> {
        let mdts =
            |is: &dyn Fn(usize) -> bool| (0..MDTS).filter(|mdt| is(*mdt)).collect::<Vec<_>>();
        let is_open = |mdt: usize| world.mdts[mdt].life == Life::Open;
        let is_free = |mdt: usize| is_open(mdt) && !world.mdts[mdt].pins.contains_key(&0);
        let clients: Vec<usize> = (0..CLIENTS).filter(|client| world.alive[*client]).collect();
        match class {
            Class::Deliver => {
                let routes: Vec<Route> = world.wires.keys().copied().collect();
                self.one_of(&routes).map(Step::Deliver)
            }
            Class::Begin => {
                let coordinator = self.one_of(&mdts(&is_open))?;
                let mut parts =
                    vec![(coordinator, if is_free(coordinator) { self.kind() } else { Kind::New })];
                let mut others = mdts(&|mdt| mdt != coordinator);
                others.rotate_left(self.below(2));
                others.truncate(1 + self.below(3).min(1));
                parts.extend(others.into_iter().map(|other| (other, self.kind())));
                Some(Step::Begin { client: self.one_of(&clients)?, coordinator, parts })
            }
            Class::Single => {
                let (mdt, told) = (self.one_of(&mdts(&is_free))?, self.below(8) != 0);
                Some(Step::Single { client: self.one_of(&clients)?, mdt, told })
            }
            Class::Commit => {
                let changed =
                    mdts(&|mdt| is_open(mdt) && world.mdts[mdt].memory != world.mdts[mdt].disk);
                self.one_of(&changed).map(Step::Commit)
            }
            Class::Tell => self.one_of(&mdts(&is_open)).map(Step::Tell),
            Class::Crash if crashes_left == 0 => None,
            Class::Crash => {
                self.one_of(&mdts(&|mdt| world.mdts[mdt].life != Life::Down)).map(Step::Crash)
            }
            // One client stays.
            Class::Die if clients.len() < 2 => None,
            Class::Die => self.one_of(&clients).map(Step::Die),
            Class::Recover => {
                let goes_on = (0..MDTS).filter(|mdt| world.may_recover(*mdt)).map(Step::Recover);
                let asks = (0..MDTS).flat_map(|mdt| {
                    world.may_ask(mdt).into_iter().map(move |peer| Step::Exchange(mdt, peer))
                });
                self.one_of(&goes_on.chain(asks).collect::<Vec<_>>())
            }
            Class::Again => {
                self.one_of(&mdts(&|mdt| is_open(mdt) && world.mdts[mdt].waits())).map(Step::Again)
            }
            Class::Overdue => {
                let overdue =
                    |mdt: usize| world.mdts[mdt].participant.overdue(Duration::MAX).into_iter();
                let overdue = mdts(&is_open)
                    .into_iter()
                    .flat_map(|mdt| overdue(mdt).map(move |id| (mdt, id)));
                let overdue: Vec<_> = overdue.collect();
                self.one_of(&overdue).map(|(mdt, id)| Step::Overdue(mdt, id))
            }
            Class::Cut => {
                let (from, _, to) =
                    self.one_of(&world.wires.keys().copied().collect::<Vec<_>>())?;
                Some(Step::Cut(at(from), at(to)))
            }
        }
    }

    fn kind(&mut self) -> Kind {
        if self.below(4) == 0 { Kind::New } else { Kind::Set }
    }
}

/// A bad end, with the steps to it.
fn told<'a>(error: &str, steps: impl IntoIterator<Item = &'a Step>) -> String {
    steps.into_iter().fold(error.to_string(), |told, step| format!("{told}\n{step:?}"))
}

/// One random run. Each of its steps does something: one that does not is drawn again. Returns what
/// is bad, with the steps to it.
fn random(seed: u64, length: usize) -> Judged {
    let mut draw = Draw::of(seed);
    let mut world = World::new();
    let classes = draw.classes();
    let mut crashes_left = draw.below(CRASHES_MAX + 1);
    let mut steps = Vec::with_capacity(length);
    while steps.len() < length {
        // Of MDTs that are all open, each can tell; of others, one can go on with its recovery.
        let class = draw.class(&classes);
        let Some(step) = draw.step(class, &world, crashes_left) else { continue };
        crashes_left -= usize::from(class == Class::Crash);
        steps.push(step.clone());
        world.step(&step).map_err(|error| told(&error, &steps))?;
    }
    world.settle().map_err(|error| told(&error, &steps))
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

impl Allowed {
    /// All that may happen next, and what is allowed then.
    fn next(&self, world: &World) -> Vec<(Step, Allowed)> {
        let mut next: Vec<(Step, Allowed)> = Vec::new();
        for step in world.moves() {
            let mut left = self.clone();
            let budget = match &step {
                Step::Commit(_) => Some(&mut left.commits),
                Step::Overdue(_, id) if world.mdts[at(id.coordinator)].boot == id.boot => {
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
        if let Some((step, rest)) = self.bundles.split_first() {
            next.push((step.clone(), Allowed { bundles: rest.to_vec(), ..self.clone() }));
        }
        if self.crashes > 0 {
            let up = (0..MDTS).filter(|mdt| world.mdts[*mdt].life != Life::Down);
            let left = Allowed { crashes: self.crashes - 1, ..self.clone() };
            next.extend(up.map(|mdt| (Step::Crash(mdt), left.clone())));
        }
        if self.deaths > 0 && world.alive[0] {
            next.push((Step::Die(0), Allowed { deaths: self.deaths - 1, ..self.clone() }));
        }
        next
    }
}

/// How far an exhaustive search came.
struct Searched {
    /// Different states that were judged.
    states: usize,
    /// All orders of this many events were looked at.
    depth: usize,
    /// There is no longer order, so these were all.
    whole: bool,
}

impl std::fmt::Display for Searched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Searched { states, depth, whole } = self;
        let end = if *whole { "there are no longer ones" } else { "longer ones in part" };
        write!(f, "{states} states: all orders of up to {depth} events, {end}")
    }
}

/// The way to a state: its parent, and which of the next steps of that led here. So a search keeps
/// some bytes of each state only, and makes the state again.
#[derive(Clone, Copy)]
struct Way {
    parent: u32,
    choice: u8,
    depth: u8,
}

/// A search by depth: the shortest bad order comes first.
struct Search {
    begin: (World, Allowed),
    ways: Vec<Way>,
    /// States are told apart by 64 bits: of ten million, two collide with a probability of 3e-6.
    seen: HashSet<u64>,
}

impl Search {
    fn new(allowed: Allowed) -> Search {
        let mut search =
            Search { begin: (World::new(), allowed), ways: Vec::new(), seen: HashSet::new() };
        let begin = search.begin.clone();
        search.reached(&begin, Way { parent: 0, choice: 0, depth: 0 });
        search
    }

    fn reached(&mut self, state: &(World, Allowed), way: Way) {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        if self.seen.insert(hasher.finish()) {
            self.ways.push(way);
        }
    }

    /// The steps to a state, and the state.
    fn state(&self, of: usize) -> (Vec<Step>, (World, Allowed)) {
        let mut choices = Vec::new();
        let mut at = of;
        while at != 0 {
            choices.push(self.ways[at].choice);
            at = self.ways[at].parent as usize;
        }
        let mut steps = Vec::with_capacity(choices.len());
        let (mut world, mut allowed) = self.begin.clone();
        for choice in choices.into_iter().rev() {
            let (step, left) = allowed.next(&world).swap_remove(usize::from(choice));
            world.step(&step).expect("it was taken before");
            allowed = left;
            steps.push(step);
        }
        (steps, (world, allowed))
    }

    /// Judges each state, until `states_max` of them are judged or `seconds` are over. Returns the
    /// first bad one, with the steps to it.
    fn run(&mut self, states_max: usize, seconds: u64) -> Result<Searched, String> {
        let end = std::time::Instant::now() + Duration::from_secs(seconds);
        let mut depth = 0;
        for at in 0.. {
            let Some(way) = self.ways.get(at).copied() else {
                return Ok(Searched { states: at, depth, whole: true });
            };
            if at >= states_max || at % 1024 == 0 && std::time::Instant::now() >= end {
                return Ok(Searched {
                    states: at,
                    depth: usize::from(way.depth).saturating_sub(1),
                    whole: false,
                });
            }
            depth = usize::from(way.depth);
            let (steps, (world, allowed)) = self.state(at);
            world.clone().settle().map_err(|error| told(&error, &steps))?;
            for (choice, (step, left)) in allowed.next(&world).into_iter().enumerate() {
                let mut after = world.clone();
                after.step(&step).map_err(|error| told(&error, steps.iter().chain([&step])))?;
                let parent = u32::try_from(at).expect("fewer states");
                let choice = u8::try_from(choice).expect("few choices");
                let depth = way.depth.checked_add(1).expect("few steps");
                self.reached(&(after, left), Way { parent, choice, depth });
            }
        }
        unreachable!("the states end")
    }
}

/// Looks at all orders of events.
fn exhaustive(allowed: Allowed, states_max: usize, seconds: u64) -> Result<Searched, String> {
    Search::new(allowed).run(states_max, seconds)
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

/// A search that `BUNDLE_STATES` or `BUNDLE_SECONDS` cuts says how far it came. Without them it
/// comes to its end.
#[test]
fn every_order_of_events_is_whole() {
    let seconds = setting("BUNDLE_SECONDS", 3600) as u64;
    let searched = exhaustive(small(), setting("BUNDLE_STATES", 1_000_000), seconds);
    let searched = searched.unwrap_or_else(|error| panic!("{error}"));
    println!("{searched}");
    assert!(searched.states > 1000, "{searched}");
    let cut =
        ["BUNDLE_STATES", "BUNDLE_SECONDS"].iter().any(|bound| std::env::var_os(bound).is_some());
    assert!(searched.whole || cut, "{searched}");
}

#[test]
fn each_mutant_is_found() {
    let pair = || {
        vec![Step::Begin { client: 0, coordinator: 0, parts: vec![(0, Kind::Set), (1, Kind::Set)] }]
    };
    let finds = |allowed: Allowed| exhaustive(allowed, 1_000_000, 3600).is_err();
    let searches: [(&str, &dyn Fn() -> bool); 5] = [
        ("a run that shows it", &|| {
            [3_517, 6_553, 22_256].into_iter().any(|seed| random(seed, 240).is_err())
        }),
        ("random runs", &|| (0..3000).any(|seed| random(seed, 240).is_err())),
        ("a crash", &|| finds(small())),
        ("two MDTs, two crashes", &|| {
            finds(Allowed { bundles: pair(), crashes: 2, deaths: 0, ..small() })
        }),
        ("two crashes", &|| finds(Allowed { crashes: 2, ..small() })),
    ];
    for mutant in Mutant::ALL {
        let found = searches.iter().find(|(_, search)| with_mutant(Some(*mutant), search));
        let (by, _) = found.unwrap_or_else(|| panic!("{mutant:?} is not found"));
        println!("{mutant:?} is found by {by}");
    }
}
