//! `oracle run`: random operations on several mounts of one file system; exit status 1 if an answer
//! fits no order.

use clap::{Parser, Subcommand};
use oracle::run::{Kind, Plan, run};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Random POSIX operations on several mounts of one file system, and a check that every answer fits
/// one order.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Works and checks
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    /// Time of the operations; checks come on top
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Time of one round, after which everything is checked
    #[arg(long, default_value_t = 10)]
    round: u64,
    /// Mount points, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    mounts: Vec<PathBuf>,
    /// Decides what each thread tries [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Threads in all
    #[arg(long, default_value_t = 9)]
    threads: usize,
    /// Kinds of operation to leave out, separated by commas
    #[arg(long, value_delimiter = ',')]
    without: Vec<Kind>,
    /// The mounts have the option localflock or noflock: files that are open may answer ESTALE once
    /// their last name is gone
    #[arg(long)]
    no_opens: bool,
    /// Where to write the whole history of a round that has violations, one line for each operation
    #[arg(long)]
    history: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Command::Run(arguments) = Arguments::parse().command;
    let from_clock = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |time| time.as_millis() as u64)
    };
    let seed = arguments.seed.unwrap_or_else(from_clock);
    let plan = Plan {
        mounts: arguments.mounts,
        folder: format!("oracle-{seed}"),
        seed,
        time: Duration::from_secs(arguments.seconds),
        round: Duration::from_secs(arguments.round.max(1)),
        threads: arguments.threads.max(1),
        without: arguments.without,
        opens_told: !arguments.no_opens,
    };
    eprintln!("seed {seed}, {} threads on {} mounts", plan.threads, plan.mounts.len());
    let report = match run(&plan, |sentence| eprintln!("{sentence}")) {
        Ok(report) => report,
        Err(why) => {
            eprintln!("seed {seed}: {why}");
            return ExitCode::from(2);
        }
    };
    report.undecided.iter().for_each(|what| eprintln!("undecided: {what}"));
    println!(
        "seed {seed}: {} operations in {} rounds on {} objects, {} violations, {} undecided",
        report.operations,
        report.rounds,
        report.objects,
        report.violations.len(),
        report.undecided.len()
    );
    report.violations.iter().for_each(|text| println!("\n{text}"));
    if let (Some(path), false) = (arguments.history, report.history.is_empty()) {
        let lines: Vec<String> =
            report.history.iter().map(|record| format!("{record}\n")).collect();
        if let Err(why) = std::fs::write(&path, lines.concat()) {
            eprintln!("write {}: {why}", path.display());
            return ExitCode::from(2);
        }
    }
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
