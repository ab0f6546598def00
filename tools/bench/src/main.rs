//! `sheen-bench`, the program behind `sheen bench`: figures that stand beside a reference of the
//! same run.
//!
//! An *item* (`mdtest`, `io`, ...) is a list of *steps*. Each step runs on every *place*: the
//! mounts to be measured, and the references named with `--reference`. They take turns step by step
//! and round by round, so that other work of the machine affects all alike. A figure is the median
//! over the rounds, with its spread, the CPU of the program and of every daemon behind the place,
//! and the limit. Everything made on the way is removed, also after Ctrl-C.

mod caches;
mod counts;
mod daemons;
mod engine;
mod failure;
mod item;
mod items;
mod limited;
mod measure;
mod memory;
mod null;
mod output;
mod place;
mod processors;
mod program;
mod progress;
mod ranks;
mod raw_tcp;
mod run;
mod scrape;
mod stop;

use bench_args::Bench;
use clap::Parser;
use failure::BenchError;
use std::process::ExitCode;

/// The arguments that `sheen bench` hands on.
#[derive(Parser)]
#[command(name = "sheen-bench", bin_name = "sheen bench", version)]
struct Cli {
    #[command(flatten)]
    bench: Bench,
}

fn main() -> ExitCode {
    // The program may have been started as /proc/self/exe; ps and top shall not call it "exe". It
    // is only a name: a failure does no harm.
    let _ = rustix::thread::set_name(c"sheen-bench");
    // Wrong usage ends here. `sheen bench` has parsed the same words by the same definition before,
    // and reported it.
    let cli = Cli::parse();
    match run::run(&cli.bench) {
        Ok(()) | Err(BenchError::PipeClosed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sheen: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 64 } else { 2 })
        }
    }
}
