//! Throughput of one file over the link, as percent of what raw TCP carries for the same amount of
//! data at the same moment.

use super::link::{Link, Side};
use crate::caches::forget;
use crate::failure::BenchError;
use crate::item::{Done, Item, MIB, Spot, Step};
use crate::program;
use crate::raw_tcp;
use bench_args::WanArgs;
use bench_report::figure::Unit;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// Streams that raw TCP may use: as many as make a line full.
const STREAMS: u64 = 4;
/// Bytes of one write or read.
const RECORD: usize = 1 << 20;

/// The item.
pub struct Line {
    stripes: Vec<u32>,
    bytes: u64,
    raw: SocketAddr,
    enter_far: Box<dyn Fn() -> Result<(), BenchError> + Send + Sync>,
    /// Seconds that raw TCP took just before.
    raw_seconds: f64,
}

impl Line {
    /// Starts raw TCP on the near side.
    ///
    /// # Errors
    /// The line cannot be started.
    pub fn new(args: &WanArgs, link: &Link) -> Result<Line, BenchError> {
        let (enter, address) = (link.entry(Side::Near), link.address(Side::Near));
        // A socket belongs to the host that its thread was on when it was made.
        let listen = move || -> Result<TcpListener, BenchError> {
            enter()?;
            TcpListener::bind((address, 0)).map_err(BenchError::of("listen on the near side"))
        };
        let listener = std::thread::spawn(listen).join();
        let listener = listener
            .map_err(|_| BenchError::Failed("a thread panicked; please report it".to_owned()))??;
        let raw = listener.local_addr().map_err(BenchError::of("listen on the near side"))?;
        // It lives as long as this process; it cannot be reached any more when the hosts are gone.
        std::thread::Builder::new()
            .name("raw TCP".to_owned())
            .spawn(move || raw_tcp::serve(&listener))
            .map_err(BenchError::of("start a thread"))?;
        let enter_far = Box::new(link.entry(Side::Far));
        Ok(Line {
            stripes: args.stripes.clone(),
            bytes: args.size.0,
            raw,
            enter_far,
            raw_seconds: 0.0,
        })
    }

    /// Stripes and whether it is written.
    fn task(&self, step: usize) -> (u32, bool) {
        (self.stripes[step / 2], step.is_multiple_of(2))
    }

    fn raw(&self, write: bool) -> Result<f64, BenchError> {
        let each = self.bytes / STREAMS;
        let start = Instant::now();
        std::thread::scope(|scope| {
            let stream = |_| {
                scope.spawn(move || {
                    (self.enter_far)()?;
                    let moved = if write {
                        raw_tcp::put(self.raw, each)
                    } else {
                        raw_tcp::get(self.raw, each)
                    };
                    moved.map_err(BenchError::of("measure raw TCP"))
                })
            };
            let streams: Vec<_> = (0..STREAMS).map(stream).collect();
            for stream in streams {
                stream.join().map_err(|_| {
                    BenchError::Failed("a thread panicked; please report it".to_owned())
                })??;
            }
            Ok(start.elapsed().as_secs_f64())
        })
    }

    fn path(&self, stripes: u32, spot: &Spot<'_>) -> PathBuf {
        spot.place.dir(0).join(format!("line{stripes}.{}", spot.round))
    }
}

fn write(path: &Path, bytes: u64, spot: &Spot<'_>) -> Result<(), BenchError> {
    let record = vec![0x5a; RECORD];
    let mut file = File::options().write(true).open(path).map_err(BenchError::at("open", path))?;
    for _ in 0..bytes / RECORD as u64 {
        spot.stop.check()?;
        file.write_all(&record).map_err(BenchError::at("write", path))?;
    }
    file.sync_all().map_err(BenchError::at("fsync", path))
}

fn read(path: &Path, bytes: u64, spot: &Spot<'_>) -> Result<(), BenchError> {
    let mut record = vec![0; RECORD];
    let mut file = File::open(path).map_err(BenchError::at("open", path))?;
    for _ in 0..bytes / RECORD as u64 {
        spot.stop.check()?;
        file.read_exact(&mut record).map_err(BenchError::at("read", path))?;
    }
    Ok(())
}

impl Item for Line {
    fn name(&self) -> &'static str {
        "line"
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!({ "bytes": self.bytes, "stripes": self.stripes, "raw_streams": STREAMS })
    }

    fn steps(&self) -> Vec<Step> {
        let step = |at| {
            let (stripes, writes) = self.task(at);
            let (op, way) = if writes { ("write", "write+fsync") } else { ("read", "cold read") };
            let what = format!("{way}, 1 MiB, {stripes} stripes, of the line");
            Step::new(what, Unit::Percent, 2).tag("op", op).tag("stripes", stripes)
        };
        (0..self.stripes.len() * 2).map(step).collect()
    }

    fn prepare(&mut self, step: usize, spot: &Spot<'_>) -> Result<(), BenchError> {
        let (stripes, writes) = self.task(step);
        let path = self.path(stripes, spot);
        if writes {
            let mut lfs = program::sheen()?;
            lfs.args(["lfs", "setstripe", "-c", &stripes.to_string(), "-S", "1M"])
                .arg(&path)
                .stdin(Stdio::null());
            let output = lfs.output().map_err(BenchError::of("make a striped file"))?;
            if !output.status.success() {
                return Err(BenchError::of_program(
                    &format!("make a file of {stripes} stripes"),
                    &output,
                ));
            }
        } else {
            forget()?;
        }
        self.raw_seconds = self.raw(writes)?;
        Ok(())
    }

    fn perform(&mut self, step: usize, spot: &Spot<'_>) -> Result<Done, BenchError> {
        let (stripes, writes) = self.task(step);
        let path = self.path(stripes, spot);
        let start = Instant::now();
        if writes {
            write(&path, self.bytes, spot)?
        } else {
            read(&path, self.bytes, spot)?
        }
        let seconds = start.elapsed().as_secs_f64();
        if !writes {
            fs::remove_file(&path).map_err(BenchError::at("remove", &path))?;
        }
        Ok(Done::Value {
            value: 100.0 * self.raw_seconds / seconds,
            operations: self.bytes as f64 / MIB,
        })
    }
}
