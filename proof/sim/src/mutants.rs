//! Tests the simulation itself: it must find each deliberate mistake.

use crate::run::{Faults, run};
use observe::mutant::{Mutant, choose};
use std::ops::Range;
use std::time::Instant;

/// Makes each mistake and runs seeds until one is bad with it and good without it
/// ([`Faults::showing`]). Prints a line for each; `true`: all were found.
pub fn all_are_found(seeds: Range<u64>, faults: Faults) -> bool {
    let mut all_found = true;
    for (name, mutant) in Mutant::ALL {
        let began = Instant::now();
        let faults = faults.showing(mutant);
        let found = seeds.clone().find(|seed| is_found(mutant, *seed, faults));
        choose(None);
        let took = began.elapsed();
        match found {
            Some(seed) => {
                let flags = faults.arguments();
                println!("{name}: found by --seed {seed}{flags} ({took:.0?})");
            }
            None => {
                println!("{name}: NOT FOUND by seeds {}..{} ({took:.0?})", seeds.start, seeds.end)
            }
        }
        all_found &= found.is_some();
    }
    all_found
}

fn is_found(mutant: Mutant, seed: u64, faults: Faults) -> bool {
    choose(Some(mutant));
    if run(seed, faults, false).wrong.is_empty() {
        return false;
    }
    choose(None);
    run(seed, faults, false).wrong.is_empty()
}
