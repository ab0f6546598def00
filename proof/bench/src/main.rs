//! `bench`: measures SheenFS beside a reference of the same run and prints a table and JSON.

mod engine;
mod io;
mod measure;
mod memory;
mod mount;
mod null;
mod report;
mod sheen;

use clap::{Parser, Subcommand};
use report::Report;
use std::path::PathBuf;

/// Measures SheenFS beside a reference of the same run.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything.
    All(Settings),
    /// Mounts an empty FUSE file system until it is unmounted (the reference of the others).
    Null {
        /// Mount point
        at: PathBuf,
    },
}

#[derive(clap::Args)]
struct Settings {
    /// The `sheen` binary to measure
    #[arg(long, default_value = "target/release/sheen")]
    sheen: PathBuf,
    /// Folder for the file systems; its own file system is the reference of large files [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Rounds of each measurement
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Size of the large file, MiB
    #[arg(long, default_value_t = 1024)]
    large: usize,
    /// Files made for the memory figure
    #[arg(long, default_value_t = 1_000_000)]
    files: usize,
    /// Also write the figures as JSON to this file (`-`: standard output)
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() {
    match Arguments::parse().command {
        Command::All(settings) => all(&settings),
        Command::Null { at } => null::serve(&at),
    }
}

fn all(settings: &Settings) {
    let temporary = tempfile::Builder::new().prefix("sheen-bench-").tempdir().expect("a temporary folder");
    let dir = settings.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let mut report = Report::new(settings.rounds);
    report.figures.extend(engine::in_process(&dir, settings.rounds));
    {
        let ours = sheen::Mounted::sheen_up(&settings.sheen, &dir, &[]);
        report.figures.push(memory::idle(&ours));
        report.figures.extend(engine::over_tcp(&ours, settings.rounds));
        let null = sheen::Mounted::null(&dir.join("null"));
        report.figures.extend(mount::run(&ours, &null, settings.rounds));
        drop(null);
        report.figures.extend(io::run(&ours, &dir, settings.large, settings.rounds));
        if settings.files > 0 {
            report.figures.push(memory::with_files(&ours, settings.files));
        }
    }
    report.print();
    if let Some(path) = &settings.json {
        let json = serde_json::to_string_pretty(&report).expect("plain data");
        if path.as_os_str() == "-" {
            println!("{json}");
        } else {
            std::fs::write(path, json).expect("write the JSON file");
        }
    }
}
