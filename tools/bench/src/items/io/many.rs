//! Reads of 4 KiB, one after the other, of many files. They show whether the throughput climbs, or
//! starts where it ends.

use super::plan::SMALL_BYTES;
use crate::failure::BenchError;
use crate::item::{Done, Spot, Work};
use crate::stop::Stop;
use bench_args::IoArgs;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

/// Points of the curve over time, at most.
const POINTS_MAX: usize = 100;
/// Files are made with writes of this size.
const CHUNK_BYTES: usize = 1 << 20;

fn name(number: usize) -> String {
    format!("many{number:05}")
}

/// Makes the files, unless they are there.
///
/// # Errors
/// A system call fails.
pub fn make(dir: &Path, args: &IoArgs, stop: &Stop) -> Result<(), BenchError> {
    if dir.exists() {
        return Ok(());
    }
    fs::create_dir(dir).map_err(BenchError::at("make", dir))?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    for number in 0..args.many_files {
        stop.check()?;
        let path = dir.join(name(number));
        let mut file = File::create_new(&path).map_err(BenchError::at("make", &path))?;
        let mut left = args.many_size.0 as usize;
        while left > 0 {
            let piece = left.min(CHUNK_BYTES);
            file.write_all(&chunk[..piece]).map_err(BenchError::at("write", &path))?;
            left -= piece;
        }
    }
    Ok(())
}

/// Reads all files to their ends.
///
/// # Errors
/// A system call fails, or there is less in a file.
pub fn read(dir: &Path, args: &IoArgs, spot: &Spot<'_>) -> Result<Done, BenchError> {
    let all = args.many_files as u64 * args.many_size.0;
    let per_point = (all / POINTS_MAX as u64).max(SMALL_BYTES as u64);
    let mut buffer = [0; SMALL_BYTES];
    let (mut bytes, mut told) = (0u64, 0u64);
    let (start, mut since) = (Instant::now(), 0.0);
    let mut over_time = Vec::with_capacity(POINTS_MAX + 1);
    for number in 0..args.many_files {
        let path = dir.join(name(number));
        let mut file = File::open(&path).map_err(BenchError::at("open", &path))?;
        let mut left = args.many_size.0;
        while left > 0 {
            spot.stop.check()?;
            let piece = left.min(SMALL_BYTES as u64) as usize;
            file.read_exact(&mut buffer[..piece]).map_err(BenchError::at("read", &path))?;
            left -= piece as u64;
            bytes += piece as u64;
            if bytes - told >= per_point {
                let now = start.elapsed().as_secs_f64();
                if now > since {
                    over_time.push((now, (bytes - told) as f64 / 1e6 / (now - since)));
                }
                (told, since) = (bytes, now);
            }
        }
    }
    Ok(Done::Work(Work { amount: bytes as f64, over_time, ..Work::default() }))
}
