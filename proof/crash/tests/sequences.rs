//! The part that runs each time; `cargo run --release -p crash` has all sequences of three.

use crash::judge::{Tally, judge, sequences};
use crash::workload::Operation::*;

/// Sequences of three where operations lean on each other.
const LONGER: [[crash::workload::Operation; 3]; 8] = [
    [Create, Write, Fsync],
    [Write, Fsync, Truncate],
    [Fsync, Write, Rename],
    [Link, Unlink, Unlink],
    [Create, Rename, Unlink],
    [Mkdir, Truncate, Fsync],
    [Small, Write, Truncate],
    [Small, Write, Unlink],
];

#[test]
fn every_crash_leaves_a_prefix_that_is_whole() {
    let mut tally = Tally::default();
    let all = sequences(1).into_iter().chain(LONGER.map(Vec::from));
    for sequence in all {
        judge(&sequence, &mut tally).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert!(tally.images > 500, "{tally:?}");
}
