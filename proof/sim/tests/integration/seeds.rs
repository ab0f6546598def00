//! Fixed seeds: nothing wrong, and the first of them the same twice. Fresh seeds, others each time.

use sim::run::{Faults, Mdts, Report, run};
use std::time::{SystemTime, UNIX_EPOCH};

/// So many fresh seeds.
const FRESH: u64 = 30;

fn good(seed: u64, faults: Faults) -> Report {
    let report = run(seed, faults, false);
    let flags = faults.arguments();
    let wrong = report.wrong.join("\n");
    assert!(report.wrong.is_empty(), "cargo run --release -p sim -- --seed {seed}{flags}\n{wrong}");
    assert!(!report.tangled, "seed {seed} cannot be judged");
    report
}

#[test]
fn twenty_seeds_are_good_and_the_same_twice() {
    for seed in 0..20 {
        let first = good(seed, Faults::default());
        let again = run(seed, Faults::default(), false);
        assert_eq!(first.hash, again.hash, "seed {seed} is not the same twice");
        assert_eq!((first.events, first.time), (again.events, again.time));
    }
}

/// Among them are such with filesets, and with keys: what must be refused was tried, and refused.
#[test]
fn eighty_seeds_more_are_good() {
    let reports: Vec<Report> = (20..100).map(|seed| good(seed, Faults::default())).collect();
    let tries = reports.iter().filter_map(|report| report.filesets);
    let (tried, refused) = tries.fold((0, 0), |(a, b), (tried, refused)| (a + tried, b + refused));
    assert!(tried > 100 && refused == tried, "{refused} of {tried} trespasses were refused");
    let keys = reports.iter().filter_map(|report| report.keys);
    let [revoked, late, forbidden] =
        keys.fold([0; 3], |[a, b, c], seen| [a + seen.revoked, b + seen.late, c + seen.forbidden]);
    assert!(revoked > 0 && late > revoked && forbidden > 0, "{revoked} {late} {forbidden}");
}

/// Without workloads, as long as these find bugs that are not fixed (docs/simulation.md).
#[test]
fn fresh_seeds_are_good() {
    let faults = Faults { workloads: false, ..Faults::default() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    let first = now.as_secs() * FRESH;
    (first..first + FRESH).for_each(|seed| drop(good(seed, faults)));
}

#[test]
fn seeds_with_several_mdts_are_good() {
    let faults = Faults { mdts: Mdts::BySeed, ..Faults::default() };
    (0..30).for_each(|seed| drop(good(seed, faults)));
}
