//! The measure is believed, because its controls behave; and rates grow with the MDTs.

use scale::costs::Costs;
use scale::ranks::Phase;
use scale::report::Alone;
use scale::run::{Measured, Place, Plan, run};
use std::time::Duration;

const COSTS: Costs = Costs {
    frame: Duration::from_micros(250),
    kib: Duration::from_micros(1),
    record: Duration::from_micros(5),
};

fn measured(place: Place, mdts: u16) -> (Plan, Vec<Measured>) {
    let ranks = 4 * usize::from(mdts);
    let plan = Plan { seed: 1, mdts, ranks, items: 60, place, costs: COSTS };
    (plan, run(plan).expect("it runs"))
}

#[test]
fn rates_grow_with_the_mdts_and_controls_do_not() {
    let mut alone = Alone::default();
    let mut efficiencies = |place, mdts| -> Vec<(&'static str, f64)> {
        let (plan, measured) = measured(place, mdts);
        let mut of = |one: &Measured| alone.efficiency(&plan, one).expect("one MDT was measured").0;
        measured.iter().map(|one| (one.phase.name(), of(one))).collect()
    };
    for place in [Place::Private, Place::Shared] {
        efficiencies(place, 1);
    }
    for (phase, efficiency) in efficiencies(Place::Private, 4) {
        assert!((0.9..=1.1).contains(&efficiency), "{phase}: {efficiency}");
    }
    for (phase, efficiency) in efficiencies(Place::OneMdt, 4) {
        assert!((0.2..=0.3).contains(&efficiency), "one MDT, {phase}: {efficiency}");
    }
    let extra = efficiencies(Place::AsksFirst, 4)[0];
    assert!(extra.0 == "create" && extra.1 < 0.8, "one more request to MDT0000: {extra:?}");
}

/// One MDT makes some 3,000 files a second, so the directory is hot before all are made. What is
/// made then, with all stripes there, is made as fast as where an administrator made the stripes.
#[test]
fn a_directory_that_was_split_by_itself_is_as_fast_as_one_with_stripes() {
    let costs = Costs { frame: Duration::from_micros(100), ..COSTS };
    let measured = |place| {
        run(Plan { seed: 1, mdts: 3, ranks: 12, items: 300, place, costs }).expect("it runs")
    };
    let (split, striped) = (measured(Place::Split), measured(Place::Shared));
    for (split, striped) in split.iter().zip(&striped) {
        if matches!(split.phase, Phase::Mkdir | Phase::Rmdir) {
            let (phase, rates) = (split.phase.name(), (split.rate, striped.rate));
            assert!(split.rate > 0.95 * striped.rate, "{phase}: {rates:?}");
            assert!(split.busiest < 1.2, "{phase}: the busiest MDT does {} of it", split.busiest);
        }
    }
}

#[test]
fn a_seed_gives_the_same_figures_twice() {
    let figures = || -> Vec<(u64, u64)> {
        let (_, measured) = measured(Place::Shared, 2);
        measured.iter().map(|one| (one.rate.to_bits(), one.of_clients.to_bits())).collect()
    };
    assert_eq!(figures(), figures());
}
