//! Metadata rates through the mount, beside an empty FUSE file system on the same transport.

use crate::measure::{Took, median, timed};
use crate::report::{Figure, Reference};
use crate::sheen::Mounted;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Files of one round.
const FILES: usize = 5_000;
/// Time for what goes on behind answers: group commit (50 ms) and moving the journal into the tree.
const SETTLE: Duration = Duration::from_secs(1);
/// Share of the empty file system's rate that counts as reached.
const GOAL: f64 = 0.6;

/// Names of the operations, in the order they run.
const OPERATIONS: [&str; 4] = ["create+close", "stat", "readdirplus (per entry)", "unlink"];

/// One round on both, (ours, the empty one) for each operation. They take turns at every operation, so that what else
/// the machine does meets both alike.
fn round(mounts: [&Mounted; 2], number: usize) -> [[Took; 2]; 4] {
    let dirs = mounts.map(|mount| mount.path.join(format!("round{number}")));
    dirs.iter().for_each(|dir| fs::create_dir(dir).expect("make a folder"));
    let name = |dir: &Path, n: usize| dir.join(format!("file.{n:06}"));
    let both = |work: &dyn Fn(&Path)| [0, 1].map(|which| timed(&[mounts[which].pid], || work(&dirs[which])));
    let create = both(&|dir| (0..FILES).for_each(|n| drop(File::create_new(name(dir, n)).expect("create"))));
    let stat = both(&|dir| {
        (0..FILES).for_each(|n| assert!(fs::symlink_metadata(name(dir, n)).expect("stat").is_file()));
    });
    // What the creates left to do behind their answers must not count here.
    std::thread::sleep(SETTLE);
    drop_entries();
    let list = both(&|dir| assert_eq!(list_with_attributes(dir), FILES));
    let unlink = both(&|dir| (0..FILES).for_each(|n| fs::remove_file(name(dir, n)).expect("unlink")));
    dirs.iter().for_each(|dir| fs::remove_dir(dir).expect("remove the folder"));
    [create, stat, list, unlink]
}

/// What `ls -l` does: names, then the attributes of each.
fn list_with_attributes(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).expect("list").map(|entry| entry.expect("an entry"));
    entries.filter(|entry| entry.metadata().expect("attributes").nlink() == 1).count()
}

/// Makes the kernel forget entries and inodes that nobody uses, so that all must be asked for. What a store has in
/// memory stays: the empty file system has all in memory too.
fn drop_entries() {
    fs::write("/proc/sys/vm/drop_caches", "2").expect("drop_caches needs root");
}

/// Makes the kernel forget all clean data, too.
pub fn drop_caches() {
    // SAFETY: sync has no preconditions.
    unsafe { libc::sync() };
    fs::write("/proc/sys/vm/drop_caches", "3").expect("drop_caches needs root");
}

/// Measures `rounds` rounds after one that warms up.
pub fn run(ours: &Mounted, null: &Mounted, rounds: usize) -> Vec<Figure> {
    let mut all: Vec<_> = (0..=rounds).map(|number| round([ours, null], number)).collect();
    all.remove(0);
    let rates = |which: usize, op: usize| -> Vec<f64> {
        all.iter().map(|r| FILES as f64 / r[op][which].wall.as_secs_f64()).collect()
    };
    let cpu = |which: usize, op: usize| {
        median(all.iter().map(|r| r[op][which].cpu.as_secs_f64() * 1e6 / FILES as f64).collect())
    };
    let figure = |op: usize| {
        let mine = rates(0, op);
        let (value, reference) = (median(mine.clone()), median(rates(1, op)));
        let spread = (mine.iter().copied().fold(f64::MAX, f64::min), mine.iter().copied().fold(0.0, f64::max));
        Figure {
            name: format!("mount: {}", OPERATIONS[op]),
            unit: "/s",
            value,
            spread,
            cpu_us: Some(cpu(0, op)),
            reference: Some(Reference { name: "empty FUSE", value: reference, cpu_us: Some(cpu(1, op)) }),
            goal: format!(">= {GOAL} of empty FUSE"),
            reached: value >= GOAL * reference,
        }
    };
    (0..OPERATIONS.len()).map(figure).collect()
}
