//! `sim`: runs seeds, prints what is wrong with the line that repeats it, and how fast it went.

use clap::Parser;
use sim::run::{Faults, MDTS_MAX, Mdts, run};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

/// Runs a simulated cluster from seeds.
#[derive(Parser)]
struct Arguments {
    /// One seed, with all it did wrong.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// A range of seeds, the end excluded.
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<Range<u64>>,
    /// Runs each seed twice and compares the event hashes.
    #[arg(long)]
    twice: bool,
    /// Every event on standard error.
    #[arg(long)]
    trace: bool,
    /// No broken connections or partitions.
    #[arg(long)]
    no_network: bool,
    /// No client dies.
    #[arg(long)]
    no_clients: bool,
    /// Good disks and clocks.
    #[arg(long)]
    no_machines: bool,
    /// No server dies.
    #[arg(long)]
    no_servers: bool,
    /// No seed does one thing over and over.
    #[arg(long)]
    no_workloads: bool,
    /// All clients may do everything.
    #[arg(long)]
    no_tenants: bool,
    /// Connections show no keys.
    #[arg(long)]
    no_keys: bool,
    /// Number of MDTs: 1 to 4, or `seed` for what each seed says.
    #[arg(long, value_name = "N|seed", default_value = "1", value_parser = mdts)]
    mdts: Mdts,
    /// A mistake on purpose that the judges must find (with `--features mutants`).
    #[cfg(feature = "mutants")]
    #[arg(long, value_parser = mutant)]
    mutant: Option<observe::mutant::Mutant>,
    /// Makes each mistake in turn until a seed (of 0..2000, if no range is given) finds it; fails
    /// if one is not found.
    #[cfg(feature = "mutants")]
    #[arg(long, conflicts_with_all = ["mutant", "seed"])]
    all_mutants: bool,
    /// Ends after so many bad seeds.
    #[arg(long, default_value_t = 10)]
    bad_max: usize,
}

fn mdts(text: &str) -> Result<Mdts, String> {
    match text.parse() {
        Ok(count @ 1..=MDTS_MAX) => Ok(Mdts::Fixed(count)),
        _ if text == "seed" => Ok(Mdts::BySeed),
        _ => Err(format!("1 to {MDTS_MAX}, or seed")),
    }
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("a range is written A..B")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(from)?..number(to)?)
}

#[cfg(feature = "mutants")]
fn mutant(text: &str) -> Result<observe::mutant::Mutant, String> {
    let all = [&observe::mutant::Mutant::ALL[..], &observe::mutant::Mutant::HARMLESS].concat();
    let found = all.iter().find(|(name, _)| *name == text).map(|(_, mutant)| *mutant);
    let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("one of {names}"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    sim::log::start();
    #[cfg(feature = "mutants")]
    observe::mutant::choose(arguments.mutant);
    let faults = Faults {
        network: !arguments.no_network,
        clients: !arguments.no_clients,
        machines: !arguments.no_machines,
        servers: !arguments.no_servers,
        workloads: !arguments.no_workloads,
        tenants: !arguments.no_tenants,
        keys: !arguments.no_keys,
        mdts: arguments.mdts,
    };
    #[cfg(feature = "mutants")]
    if arguments.all_mutants {
        let seeds = arguments.seeds.unwrap_or(0..2000);
        return if sim::mutants::all_are_found(seeds, faults) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let flags = faults.arguments();
    let seeds = arguments
        .seed
        .map_or_else(|| arguments.seeds.clone().unwrap_or(0..100), |seed| seed..seed + 1);
    let (began, mut time, mut events, mut answered, mut count, mut tangled) =
        (Instant::now(), 0.0, 0, 0, 0u64, 0u64);
    let (mut extents, mut shared, mut tenants) = (0, 0u64, 0u64);
    let (mut gaps, mut met, mut revoked) = (0, 0u64, 0);
    let (mut keyed, mut keys_revoked, mut keys_renewed) = (0u64, 0, 0);
    let (mut late, mut forbidden) = (0, 0);
    let (mut divided, mut tried, mut refused) = (0u64, 0, 0);
    let mut bad = 0;
    for seed in seeds {
        let mut report = run(seed, faults, arguments.trace);
        if arguments.twice {
            let again = run(seed, faults, false);
            if again.hash != report.hash {
                report.wrong.push(format!(
                    "not the same twice: {:016x} and {:016x}",
                    report.hash, again.hash
                ));
            }
        }
        count += 1;
        time += report.time.as_secs_f64();
        events += report.events;
        answered += report.answered;
        tangled += u64::from(report.tangled);
        extents += report.extents;
        shared += u64::from(report.extents > 0);
        tenants += u64::from(report.tenants);
        if let Some(seen) = report.keys {
            keyed += 1;
            keys_revoked += seen.revoked;
            keys_renewed += seen.renewed;
            late += seen.late;
            forbidden += seen.forbidden;
        }
        if let Some((tries, refusals)) = report.filesets {
            divided += 1;
            tried += tries;
            refused += refusals;
        }
        gaps += report.gaps.0;
        revoked += report.gaps.1;
        met += u64::from(report.gaps.1 > 0);
        if arguments.seed.is_some() {
            println!(
                "seed {seed}: hash {:016x}, {} events, {:.1} s, {} operations, {} faults",
                report.hash,
                report.events,
                report.time.as_secs_f64(),
                report.answered,
                report.faults
            );
        }
        // Neither good nor bad.
        if report.tangled {
            println!("seed {seed}: too tangled to judge its name space");
        }
        if !report.wrong.is_empty() {
            bad += 1;
            println!("BAD seed {seed}: {}", report.wrong.join("\n  "));
            println!("repeat: cargo run --release -p sim -- --seed {seed}{flags}");
            if bad >= arguments.bad_max {
                break;
            }
        }
    }
    let wall = began.elapsed().as_secs_f64().max(1e-9);
    println!(
        "{count} seeds, {bad} bad, {tangled} too tangled to judge; {:.0} simulated seconds per second, \
         {:.0} seeds per hour, {:.0} events per second, {answered} operations, {extents} extents in {shared} seeds, \
         {gaps} gaps, {revoked} called back in {met} seeds, restricted clients in {tenants} seeds, \
         filesets in {divided} of them: {tried} trespasses tried, {refused} refused, \
         keys in {keyed} seeds: {keys_renewed} renewed, {keys_revoked} revoked, with those {late} requests refused, {forbidden} others",
        time / wall,
        count as f64 * 3600.0 / wall,
        events as f64 / wall
    );
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
