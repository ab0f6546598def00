//! From arguments to figures: places are made, the item runs, table and files are written, places are removed.

use crate::cli::{Bench, Common, Item as What, Output};
use crate::engine::Engine;
use crate::failure::BenchError;
use crate::figure::{FORMAT, Figure, PlaceReport, Report};
use crate::item::{self, Item, Rounds};
use crate::items::build::Build;
use crate::items::io::Io;
use crate::items::ls::Ls;
use crate::items::mdtest::Mdtest;
use crate::items::rtt::Rtt;
use crate::items::warm::Warm;
use crate::machine::MachineReport;
use crate::memory::Memory;
use crate::place::{Place, Role};
use crate::stop::Stop;
use crate::{null, page, ranks, table};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::SystemTime;

/// Which program measures.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from.
    pub commit: &'static str,
}

/// Runs what was asked for.
///
/// # Errors
/// One sentence; everything that was made is removed.
pub fn run(bench: &Bench, about: About) -> Result<(), BenchError> {
    match &bench.item {
        What::Null { at } => null::serve(at),
        What::Rank { dir } => ranks::process::serve(dir),
        What::Mdtest { common, args } => on_places(common, about, &mut [&mut Mdtest::new(args)]),
        What::Io { common, args } => on_places(common, about, &mut [&mut Io::new(args)]),
        What::Ls { common, args } => on_places(common, about, &mut [&mut Ls::new(args)]),
        What::Build { common, args } => on_places(common, about, &mut [&mut Build::new(args)]),
        What::Rtt { common, args } => on_places(common, about, &mut [&mut Rtt::new(args)]),
        What::Warm { common, args } => on_places(common, about, &mut [&mut Warm::new(args)]),
        What::Memory { common, args } => on_places(common, about, &mut [&mut Memory::new(args)]),
        What::Engine { dir, output, args } => {
            let mut sheet = Sheet::begin(output, about)?;
            let engine = Engine { args, repeats: usize::from(output.repeats), stop: &sheet.stop };
            let figures = engine.run(dir)?;
            sheet.add("engine", serde_json::json!({ "operations": args.operations }), figures);
            sheet.end(output)
        }
    }
}

/// Runs items on the places that the arguments name.
fn on_places(common: &Common, about: About, items: &mut [&mut dyn Item]) -> Result<(), BenchError> {
    let output = &common.output;
    let mut sheet = Sheet::begin(output, about)?;
    let places = places(common)?;
    sheet.report.places = places.iter().map(described).collect();
    let rounds = Rounds { repeats: usize::from(output.repeats), seed: sheet.report.seed };
    for item in items {
        let figures = item::run(*item, &places, rounds, &sheet.stop)?;
        sheet.add(item.name(), item.settings(), figures);
    }
    // The table comes when nothing is left behind any more.
    drop(places);
    sheet.end(output)
}

fn places(common: &Common) -> Result<Vec<Place>, BenchError> {
    let mut places = vec![Place::mounts(&common.paths, Role::Target)?];
    for reference in &common.references {
        places.push(Place::reference(reference)?);
    }
    if let Some(source) = &common.native {
        places.push(Place::native(source)?);
    }
    Ok(places)
}

/// A place for the report.
pub fn described(place: &Place) -> PlaceReport {
    PlaceReport {
        name: place.name.clone(),
        role: place.role,
        fs_type: place.fs_type.clone(),
        daemons: place.daemons.iter().map(|d| (d.name.clone(), d.pid)).collect(),
    }
}

/// A report that is being filled.
pub struct Sheet {
    /// The report.
    pub report: Report,
    /// Somebody may ask for the end.
    pub stop: Stop,
}

impl Sheet {
    /// An empty report. Files that could not be written in the end are refused at once.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(output: &Output, about: About) -> Result<Sheet, BenchError> {
        for file in [&output.json, &output.html].into_iter().flatten() {
            let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if !folder.is_dir() {
                return Err(BenchError::Usage(format!("there is no folder {} to write to", folder.display())));
            }
        }
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let report = Report {
            format: FORMAT,
            commit: about.commit.to_owned(),
            version: about.version.to_owned(),
            started,
            command: std::env::args().collect(),
            machine: MachineReport::here(),
            seed: output.seed.unwrap_or_else(|| fastrand::u64(0..1 << 32)),
            repeats: usize::from(output.repeats),
            settings: BTreeMap::new(),
            places: Vec::new(),
            figures: Vec::new(),
        };
        Ok(Sheet { report, stop: Stop::on_signals()? })
    }

    /// Figures of one item.
    pub fn add(&mut self, item: &str, settings: serde_json::Value, figures: Vec<Figure>) {
        self.report.settings.insert(item.to_owned(), settings);
        self.report.figures.extend(figures);
    }

    /// Writes the files, then the table to standard output.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn end(self, output: &Output) -> Result<(), BenchError> {
        if let Some(path) = &output.json {
            let text = serde_json::to_string_pretty(&self.report).map_err(BenchError::of("write JSON"))?;
            std::fs::write(path, text + "\n").map_err(BenchError::at("write", path))?;
        }
        if let Some(path) = &output.html {
            std::fs::write(path, page::html(&self.report)?).map_err(BenchError::at("write", path))?;
        }
        print(&table::text(&self.report))
    }
}

/// To standard output.
///
/// # Errors
/// Nobody reads it any more.
pub fn print(text: &str) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(BenchError::PipeClosed),
        Err(e) => Err(BenchError::Failed(format!("cannot write to standard output: {e}"))),
    }
}
