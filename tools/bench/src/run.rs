//! From arguments to figures: places are made, the item runs, table and files are written, places
//! are removed.

use crate::daemons::Daemon;
use crate::engine::Engine;
use crate::engine::logs::Logs;
use crate::failure::BenchError;
use crate::item::{self, Item, Rounds};
use crate::items::backend::Backend;
use crate::items::build::Build;
use crate::items::find::Find;
use crate::items::io::Io;
use crate::items::ls::Ls;
use crate::items::mdtest::Mdtest;
use crate::items::mdts;
use crate::items::net::responder::{self, Local};
use crate::items::net::{self, Net};
use crate::items::rtt::Rtt;
use crate::items::wan;
use crate::items::warm::Warm;
use crate::items::watched::Watched;
use crate::memory::Memory;
use crate::output::print;
use crate::place::Place;
use crate::stop::Stop;
use crate::{null, ranks};
use bench_args::{Bench, Common, Item as What, NetArgs, Output, WatchedArgs};
use bench_report::figure::Role;
use bench_report::figure::{FORMAT, Figure, Report};
use bench_report::machine::MachineReport;
use bench_report::{page, table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use types::nid::Nid;

/// Rounds by default.
const REPEATS: u16 = 5;
/// Rounds of `watched`: 2 % is told from noise by many pairs.
const PAIRS: u16 = 60;

/// Runs what was asked for.
///
/// # Errors
/// One sentence; everything that was made is removed.
pub fn run(bench: &Bench) -> Result<(), BenchError> {
    match &bench.item {
        What::Null { at } => null::serve(at),
        What::Rank { dir } => ranks::process::serve(dir),
        What::Mdtest { common, args } => on_places(common, Box::new(Mdtest::new(args))),
        What::Io { common, args } => on_places(common, Box::new(Io::new(args))),
        What::Ls { common, args } => on_places(common, Box::new(Ls::new(args))),
        What::Find { common, args } => on_places(common, Box::new(Find::new(args))),
        What::Build { common, args } => on_places(common, Box::new(Build::new(args))),
        What::Rtt { common, args } => on_places(common, Box::new(Rtt::new(args))),
        What::Warm { common, args } => on_places(common, Box::new(Warm::new(args))),
        What::Memory { common, args } => on_places(common, Box::new(Memory::new(args))),
        What::Watched { paths, output, args } => watched(paths, output, args),
        What::Wan { dir, output, args } => {
            let mut sheet = Sheet::begin(output)?;
            let rounds = sheet.rounds();
            let (places, figures) = wan::run(args, dir, rounds, &sheet.stop)?;
            sheet.report.places = places;
            let settings = serde_json::json!({
                "rate": args.rate, "loss": args.loss, "osts": args.osts, "bytes": args.size.0, "files": args.files,
            });
            sheet.add("wan", settings, figures);
            sheet.end(output)
        }
        What::Mdts { dir, output, args } => {
            let output = Output { repeats: output.repeats.or(Some(1)), ..output.clone() };
            let mut sheet = Sheet::begin(&output)?;
            let (places, figures) = mdts::run(args, dir, sheet.rounds(), &sheet.stop)?;
            sheet.report.places = places;
            let settings = serde_json::json!({
                "ranks_for_each_mdt": args.ranks, "items": args.items, "split_count": args.split_count,
                "service_time_us": args.service_time.0.as_micros() as u64,
            });
            sheet.add("mdts", settings, figures);
            sheet.end(&output)
        }
        What::Net { output, args } => net(output, args),
        What::Backend { dir, output, args } => {
            let mut sheet = Sheet::begin(output)?;
            let (mut item, places) = Backend::new(args, dir)?;
            sheet.report.places = places.iter().map(Place::described).collect();
            let figures = item::run(&mut item, &places, sheet.rounds(), &sheet.stop)?;
            sheet.add(item.name(), item.settings(), figures);
            drop(item);
            sheet.end(output)
        }
        What::Report { files, html } => report(files, html.as_deref()),
        What::Engine { dir, output, args } => {
            let mut sheet = Sheet::begin(output)?;
            if let Some(log) = &args.log {
                let mut item = Logs::start(args, log, dir)?;
                let places = item.places();
                sheet.report.places = places.iter().map(Place::described).collect();
                let figures = item::run(&mut item, &places, sheet.rounds(), &sheet.stop);
                let (name, settings) = (item.name(), item.settings());
                item.stop()?;
                sheet.add(name, settings, figures?);
                return sheet.end(output);
            }
            let engine = Engine { args, repeats: sheet.report.repeats, stop: &sheet.stop };
            let figures = engine.run(dir)?;
            sheet.add("engine", serde_json::json!({ "operations": args.operations }), figures);
            sheet.end(output)
        }
    }
}

/// The self-test, or the other end of it.
fn net(output: &Output, args: &NetArgs) -> Result<(), BenchError> {
    if let Some(address) = args.serve {
        return responder::serve(address, args, &Stop::on_signals()?);
    }
    let mut sheet = Sheet::begin(output)?;
    let key = responder::make_key()?;
    let local = match args.nid {
        Some(_) => None,
        None => Some([Local::start(None)?, Local::start(Some(&key))?]),
    };
    let plain = local.as_ref().map(|[plain, _]| plain.nid());
    let nid = args.nid.or(plain).unwrap_or(Nid::Loopback);
    let mut item = Net::connect(args, nid, local.as_ref().map(|ends| (ends, &key)))?;
    let place = |name| {
        let role = if name == net::LNET { Role::Target } else { Role::Reference };
        let end = local.as_ref().map(|[plain, sealed]| match name {
            net::SEALED | net::LOCAL_KEYS => sealed,
            _ => plain,
        });
        let other_end = end.map(|end| Daemon::new(end.pid(), "other end"));
        Place::bare(name, role, other_end.into_iter().collect())
    };
    let places: Vec<Place> = item.places().into_iter().map(place).collect();
    sheet.report.places = places.iter().map(Place::described).collect();
    let figures = item::run(&mut item, &places, sheet.rounds(), &sheet.stop)?;
    sheet.add(item.name(), item.settings(), figures);
    drop(item);
    drop(local);
    sheet.end(output)
}

/// Reports of earlier runs, together.
fn report(files: &[PathBuf], html: Option<&Path>) -> Result<(), BenchError> {
    let mut whole: Option<Report> = None;
    for file in files {
        let text = std::fs::read_to_string(file).map_err(BenchError::at("read", file))?;
        let bad =
            |e| BenchError::Failed(format!("{} is no report of this version: {e}", file.display()));
        let one: Report = serde_json::from_str(&text).map_err(bad)?;
        match &mut whole {
            None => whole = Some(one),
            Some(whole) => whole.append(one),
        }
    }
    let whole = whole.ok_or_else(|| BenchError::Usage("name a report".to_owned()))?;
    if let Some(path) = html {
        std::fs::write(path, page::html(&whole)?).map_err(BenchError::at("write", path))?;
    }
    print(&table::text(&whole))
}

/// Runs an item on the places that the arguments name.
fn on_places(common: &Common, item: Box<dyn Item>) -> Result<(), BenchError> {
    let output = &common.output;
    let mut sheet = Sheet::begin(output)?;
    let places = places(common)?;
    // Behind the places, so that its ranks end before what they work in is removed, whichever way
    // this function is left.
    let mut item = item;
    sheet.report.places = places.iter().map(Place::described).collect();
    let figures = item::run(&mut *item, &places, sheet.rounds(), &sheet.stop)?;
    sheet.add(item.name(), item.settings(), figures);
    drop(item);
    // The places are removed behind the table: to remove a million files takes longer than to find
    // them.
    sheet.end(output)
}

/// Watched and unwatched slices on the same mounts.
fn watched(paths: &[PathBuf], output: &Output, args: &WatchedArgs) -> Result<(), BenchError> {
    let output = Output { repeats: output.repeats.or(Some(PAIRS)), ..output.clone() };
    let mut sheet = Sheet::begin(&output)?;
    let places = vec![Place::mounts(paths, Role::Target)?, Place::watched(paths)?];
    sheet.report.places = places.iter().map(Place::described).collect();
    let mut item = Watched::new(args);
    let figures = item::run(&mut item, &places, sheet.rounds(), &sheet.stop)?;
    sheet.add(item.name(), item.settings(), figures);
    sheet.end(&output)
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

/// A report that is being filled.
pub struct Sheet {
    /// The report.
    pub report: Report,
    /// The flag that ends the run.
    pub stop: Stop,
}

impl Sheet {
    /// An empty report. Files that could not be written in the end are refused at once.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(output: &Output) -> Result<Sheet, BenchError> {
        for file in [&output.json, &output.html].into_iter().flatten() {
            let folder =
                file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if !folder.is_dir() {
                return Err(BenchError::Usage(format!(
                    "there is no folder {} to write to",
                    folder.display()
                )));
            }
        }
        let started = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let report = Report {
            format: FORMAT,
            commit: env!("SHEEN_COMMIT").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            command: std::env::args().collect(),
            machine: MachineReport::here(),
            seed: output.seed.unwrap_or_else(|| fastrand::u64(0..1 << 32)),
            repeats: usize::from(output.repeats.unwrap_or(REPEATS)),
            settings: BTreeMap::new(),
            places: Vec::new(),
            figures: Vec::new(),
        };
        Ok(Sheet { report, stop: Stop::on_signals()? })
    }

    /// How items are to be run.
    pub fn rounds(&self) -> Rounds {
        Rounds { repeats: self.report.repeats, seed: self.report.seed, link_delay: 0.0 }
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
            let text =
                serde_json::to_string_pretty(&self.report).map_err(BenchError::of("write JSON"))?;
            std::fs::write(path, text + "\n").map_err(BenchError::at("write", path))?;
        }
        if let Some(path) = &output.html {
            std::fs::write(path, page::html(&self.report)?)
                .map_err(BenchError::at("write", path))?;
        }
        print(&table::text(&self.report))
    }
}
