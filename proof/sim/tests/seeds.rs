//! Fixed seeds: nothing wrong, and each of them the same twice.

use sim::run::{Faults, run};

#[test]
fn fifty_seeds_are_good_and_the_same_twice() {
    for seed in 0..50 {
        let first = run(seed, Faults::default(), false);
        assert!(first.wrong.is_empty(), "cargo run --release -p sim -- --seed {seed}\n{}", first.wrong.join("\n"));
        assert!(!first.tangled, "seed {seed} cannot be judged");
        let again = run(seed, Faults::default(), false);
        assert_eq!(first.hash, again.hash, "seed {seed} is not the same twice");
        assert_eq!((first.events, first.time), (again.events, again.time));
    }
}
