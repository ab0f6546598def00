//! `takeover`: runs seeds, prints what is wrong with the line that repeats it.

use clap::Parser;
use std::ops::Range;
use std::process::ExitCode;
use takeover::run::run;

/// Runs owners of one target over a shared log.
#[derive(Parser)]
struct Arguments {
    /// A range of seeds, the end excluded.
    #[arg(long, value_name = "A..B", value_parser = range, default_value = "0..1000")]
    seeds: Range<u64>,
    /// Makes each mistake on purpose until a seed finds it; fails if one is not found.
    #[cfg(feature = "mutants")]
    #[arg(long)]
    all_mutants: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("a range is written A..B")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "mutants")]
    if arguments.all_mutants {
        return match takeover::mutants::all_are_found(arguments.seeds) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    let (mut bad, mut epochs, mut entries, mut count) = (0, 0, 0, 0u64);
    for seed in arguments.seeds {
        let report = run(seed);
        count += 1;
        epochs += report.epochs;
        entries += report.entries;
        if let Some(first) = report.wrong.first() {
            bad += 1;
            println!("BAD seed {seed}: {first}");
            println!("repeat: cargo run -p takeover -- --seeds {seed}..{}", seed + 1);
        }
    }
    println!("{count} seeds, {bad} bad; {epochs} epochs, {entries} entries");
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
