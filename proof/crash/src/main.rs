//! `crash`: every sequence of up to so many operations, crashed at every write.

use clap::Parser;
use crash::judge::{Tally, judge, sequences, ways};
use crash::workload::{OPERATIONS, Operation};
use std::process::ExitCode;
use std::time::Instant;

/// Crashes a target's store at every write.
#[derive(Parser)]
struct Arguments {
    /// Operations in the longest sequences.
    #[arg(long, default_value_t = 3)]
    length: usize,
    /// This sequence alone, words separated by commas, for example create,write,fsync.
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_parser = operation)]
    only: Vec<Operation>,
}

fn operation(word: &str) -> Result<Operation, String> {
    let name = |operation: &&Operation| format!("{operation:?}").to_lowercase() == word;
    OPERATIONS.iter().find(name).copied().ok_or_else(|| {
        let words: Vec<String> =
            OPERATIONS.iter().map(|one| format!("{one:?}").to_lowercase()).collect();
        format!("there is no {word:?}; there are {}", words.join(", "))
    })
}

fn main() -> ExitCode {
    let Arguments { length, only } = Arguments::parse();
    let sequences = if only.is_empty() { sequences(length) } else { vec![only] };
    let (begun, mut tally, mut bad) = (Instant::now(), Tally::default(), 0);
    println!("{} sequences; at each step: {}", sequences.len(), ways());
    for sequence in sequences {
        if let Err(wrong) = judge(&sequence, &mut tally) {
            bad += 1;
            let words: Vec<String> =
                sequence.iter().map(|one| format!("{one:?}").to_lowercase()).collect();
            println!(
                "BAD {wrong}\nrepeat: cargo run --release -p crash -- --only {}",
                words.join(",")
            );
        }
    }
    let Tally { sequences, steps, images } = tally;
    println!(
        "{sequences} runs, {steps} writes and syncs, {images} crashes opened in {:.0} s: {bad} bad",
        begun.elapsed().as_secs_f64()
    );
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
