//! Tests the simulation itself: it must find each deliberate mistake.

use crate::run::run;
use observe::mutant::{Mutant, choose};
use std::ops::Range;

/// Makes each mistake and runs seeds until one is bad with it. Prints a line for each; `true`: all
/// were found.
pub fn all_are_found(seeds: Range<u64>) -> bool {
    let mut all_found = true;
    for (name, mutant) in Mutant::OF_TAKE_OVER {
        choose(Some(mutant));
        let found = seeds.clone().find(|seed| !run(*seed).wrong.is_empty());
        choose(None);
        match found {
            Some(seed) => println!("{name}: found by seed {seed}"),
            None => println!("{name}: NOT FOUND by seeds {}..{}", seeds.start, seeds.end),
        }
        all_found &= found.is_some();
    }
    all_found
}
