//! Fixed seeds: nothing wrong.

use takeover::run::run;

#[test]
fn three_hundred_seeds_are_good() {
    let (mut epochs, mut entries) = (0, 0);
    for seed in 0..300 {
        let report = run(seed);
        assert!(
            report.wrong.is_empty(),
            "cargo run -p takeover -- --seeds {seed}..{}\n{:#?}",
            seed + 1,
            report.wrong
        );
        epochs += report.epochs;
        entries += report.entries;
    }
    // The runs do what they are for.
    assert!(epochs > 600 && entries > 2000, "{epochs} epochs, {entries} entries");
}
