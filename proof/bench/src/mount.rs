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

/// One round of all operations in a fresh folder.
fn round(mount: &Mounted, number: usize) -> [Took; 4] {
    let dir = mount.path.join(format!("round{number}"));
    fs::create_dir(&dir).expect("make a folder");
    let name = |n: usize| dir.join(format!("file.{n:06}"));
    let others = [mount.pid];
    let create = timed(&others, || (0..FILES).for_each(|n| drop(File::create_new(name(n)).expect("create"))));
    let stat = timed(&others, || {
        (0..FILES).for_each(|n| assert!(fs::symlink_metadata(name(n)).expect("stat").is_file()));
    });
    // What the creates left to do behind their answers must not count here.
    std::thread::sleep(SETTLE);
    drop_entries();
    let list = timed(&others, || assert_eq!(list_with_attributes(&dir), FILES));
    let unlink = timed(&others, || (0..FILES).for_each(|n| fs::remove_file(name(n)).expect("unlink")));
    fs::remove_dir(&dir).expect("remove the folder");
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

/// Measures `rounds` rounds on both, interleaved.
pub fn run(ours: &Mounted, null: &Mounted, rounds: usize) -> Vec<Figure> {
    round(ours, 0);
    round(null, 0);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for number in 1..=rounds {
        a.push(round(ours, number));
        b.push(round(null, number));
    }
    let rates = |all: &[[Took; 4]], op: usize| -> Vec<f64> {
        all.iter().map(|r| FILES as f64 / r[op].wall.as_secs_f64()).collect()
    };
    let cpu = |all: &[[Took; 4]], op: usize| {
        median(all.iter().map(|r| r[op].cpu.as_secs_f64() * 1e6 / FILES as f64).collect())
    };
    let figure = |op: usize| {
        let mine = rates(&a, op);
        let (value, reference) = (median(mine.clone()), median(rates(&b, op)));
        let spread = (mine.iter().copied().fold(f64::MAX, f64::min), mine.iter().copied().fold(0.0, f64::max));
        Figure {
            name: format!("mount: {}", OPERATIONS[op]),
            unit: "/s",
            value,
            spread,
            cpu_us: Some(cpu(&a, op)),
            reference: Some(Reference { name: "empty FUSE", value: reference, cpu_us: Some(cpu(&b, op)) }),
            goal: format!(">= {GOAL} of empty FUSE"),
            reached: value >= GOAL * reference,
        }
    };
    (0..OPERATIONS.len()).map(figure).collect()
}
