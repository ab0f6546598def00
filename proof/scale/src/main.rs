//! `scale`: prints how rates grow with the number of MDTs.

use clap::Parser;
use scale::costs::Costs;
use scale::report::{Alone, Row, table};
use scale::run::{Place, Plan, run};
use std::process::ExitCode;
use std::time::Duration;

/// Most MDTs of a run.
const MDTS_MAX: u16 = 64;

/// Runs real servers and clients in virtual time, each MDT with one CPU, and prints the rate of
/// each operation and its efficiency: the rate to N times that of one MDT.
#[derive(Parser)]
struct Arguments {
    /// Numbers of MDTs, the first one 1.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,38",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(MDTS_MAX)))]
    mdts: Vec<u16>,
    /// Ranks for each MDT.
    #[arg(long, default_value_t = 4, conflicts_with = "ranks_in_all",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    ranks: u16,
    /// Ranks in all, whatever the number of MDTs.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ranks_in_all: Option<u16>,
    /// Files, and then directories, of each rank.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    items: u32,
    /// Microseconds of an MDT's CPU for each frame that is sent or received.
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    frame_us: u64,
    /// Microseconds of it for each KiB of them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    kib_us: u64,
    /// Microseconds of it for each record that is committed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    record_us: u64,
    /// Repeats a run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// No controls.
    #[arg(long)]
    no_controls: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let costs = Costs {
        frame: Duration::from_micros(arguments.frame_us),
        kib: Duration::from_micros(arguments.kib_us),
        record: Duration::from_micros(arguments.record_us),
    };
    let is_control = |place: &Place| matches!(place, Place::OneMdt | Place::AsksFirst);
    let places =
        Place::ALL.into_iter().filter(|place| !arguments.no_controls || !is_control(place));
    let (mut rows, mut alone) = (Vec::new(), Alone::default());
    for place in places {
        for mdts in arguments.mdts.iter().copied().filter(|mdts| *mdts > 1 || !is_control(&place)) {
            let ranks = arguments.ranks_in_all.unwrap_or(arguments.ranks.saturating_mul(mdts));
            let (seed, items, ranks) = (arguments.seed, arguments.items, usize::from(ranks));
            let plan = Plan { seed, mdts, ranks, items, place, costs };
            match run(plan) {
                Ok(all) => rows.extend(all.into_iter().map(|measured| {
                    let efficiency = alone.efficiency(&plan, &measured);
                    Row { plan, measured, efficiency }
                })),
                Err(error) => {
                    eprintln!("scale: {} with {mdts} MDTs: {error}", place.name());
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{}", table(&rows));
    println!(
        "costs of an MDT's CPU: {} us for a frame, {} us for a KiB, {} us for a record; seed {}",
        arguments.frame_us, arguments.kib_us, arguments.record_us, arguments.seed
    );
    ExitCode::SUCCESS
}
