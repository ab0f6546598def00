//! One large file: written in sequence with fsync, read back cold; beside the file system the targets live on.

use crate::measure::{median, timed};
use crate::mount::drop_caches;
use crate::report::{Figure, Reference};
use crate::sheen::Mounted;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

const MIB: usize = 1 << 20;
const GOAL: f64 = 0.6;

/// MB/s and CPU microseconds per MiB of (write with fsync, cold read).
fn round(dir: &Path, mebibytes: usize, others: &[i32]) -> [(f64, f64); 2] {
    let path = dir.join("large");
    let block: Vec<u8> = (0..MIB).map(|i| (i * 7) as u8).collect();
    let write = timed(others, || {
        let mut file = File::create(&path).expect("create");
        (0..mebibytes).for_each(|_| file.write_all(&block).expect("write"));
        file.sync_all().expect("fsync");
    });
    drop_caches();
    let read = timed(others, || {
        let mut file = File::open(&path).expect("open");
        let mut buffer = vec![0; MIB];
        for _ in 0..mebibytes {
            file.read_exact(&mut buffer).expect("read");
            assert!(buffer[MIB - 1] == block[MIB - 1] && buffer[0] == block[0], "wrong bytes");
        }
    });
    fs::remove_file(&path).expect("unlink");
    [write, read].map(|took| {
        let rate = (mebibytes * MIB) as f64 / 1e6 / took.wall.as_secs_f64();
        (rate, took.cpu.as_secs_f64() * 1e6 / mebibytes as f64)
    })
}

/// Measures `rounds` rounds on the mount and on `local`, interleaved.
pub fn run(ours: &Mounted, local: &Path, mebibytes: usize, rounds: usize) -> Vec<Figure> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        a.push(round(&ours.path, mebibytes, &[ours.pid]));
        b.push(round(local, mebibytes, &[]));
    }
    let pick = |all: &[[(f64, f64); 2]], op: usize| all.iter().map(|r| r[op].0).collect::<Vec<_>>();
    let cpu = |all: &[[(f64, f64); 2]], op: usize| median(all.iter().map(|r| r[op].1).collect());
    let figure = |op: usize| {
        let mine = pick(&a, op);
        let (value, reference) = (median(mine.clone()), median(pick(&b, op)));
        Figure {
            name: format!("mount: {} {mebibytes} MiB, CPU per MiB", ["write+fsync", "cold read"][op]),
            unit: "MB/s",
            value,
            spread: (mine.iter().copied().fold(f64::MAX, f64::min), mine.iter().copied().fold(0.0, f64::max)),
            cpu_us: Some(cpu(&a, op)),
            reference: Some(Reference { name: "local", value: reference, cpu_us: Some(cpu(&b, op)) }),
            goal: format!(">= {GOAL} of the disk's own file system"),
            reached: value >= GOAL * reference,
        }
    };
    (0..2).map(figure).collect()
}
