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
use report::{Figure, Report};
use std::path::{Path, PathBuf};

/// Measures SheenFS beside a reference of the same run.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything below, each part on a file system of its own
    All(Settings),
    /// Metadata engine: in one process, and over loopback TCP
    Engine(Settings),
    /// Metadata through the mount, beside an empty FUSE file system
    Mount(Settings),
    /// One large file through the mount, beside the file system of the targets
    Io(Settings),
    /// Resident memory: idle, and with many files
    Memory(Settings),
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

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Engine,
    Mount,
    Io,
    Memory,
}

fn main() {
    use Part::{Engine, Io, Memory, Mount};
    let (settings, parts): (Settings, &[Part]) = match Arguments::parse().command {
        Command::All(settings) => (settings, &[Engine, Mount, Io, Memory]),
        Command::Engine(settings) => (settings, &[Engine]),
        Command::Mount(settings) => (settings, &[Mount]),
        Command::Io(settings) => (settings, &[Io]),
        Command::Memory(settings) => (settings, &[Memory]),
        Command::Null { at } => return null::serve(&at),
    };
    run(&settings, parts);
}

fn run(settings: &Settings, parts: &[Part]) {
    let temporary = tempfile::Builder::new().prefix("sheen-bench-").tempdir().expect("a temporary folder");
    let dir = settings.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let mut report = Report::new(settings.rounds);
    for part in parts {
        report.figures.extend(measure(settings, *part, &dir));
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

/// One part. Each has a fresh file system: what one leaves in memory is not counted in another.
fn measure(settings: &Settings, part: Part, dir: &Path) -> Vec<Figure> {
    let rounds = settings.rounds;
    let up = |name: &str| {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).expect("make a folder");
        sheen::Mounted::sheen_up(&settings.sheen, &dir, &[])
    };
    match part {
        Part::Engine => {
            let mut figures = engine::in_process(dir, rounds);
            figures.extend(engine::over_tcp(&up("engine-tcp"), rounds));
            figures
        }
        Part::Mount => mount::run(&up("mount"), &sheen::Mounted::null(&dir.join("null")), rounds),
        Part::Io => io::run(&up("io"), dir, settings.large, rounds),
        Part::Memory => memory::run(&up("memory"), settings.files),
    }
}
