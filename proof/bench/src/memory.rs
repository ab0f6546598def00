//! Resident memory: idle, and with many files.
//!
//! Resident is what the kernel counts (`VmRSS`): memory of its own, and pages of the store's file that it maps. The
//! latter the kernel takes back when others need it, so what the process itself holds stands in a row of its own.

use crate::measure::{Resident, resident_of};
use crate::report::Figure;
use crate::sheen::Mounted;
use std::fs::{self, File};

const MIB: f64 = (1 << 20) as f64;
/// Files of one folder.
const FOLDER: usize = 10_000;

fn figure(name: String, bytes: u64, goal_mib: f64) -> Figure {
    let value = bytes as f64 / MIB;
    Figure {
        name,
        unit: "MiB",
        value,
        spread: (value, value),
        cpu_us: None,
        reference: None,
        goal: format!("<= {goal_mib} MiB"),
        reached: value <= goal_mib,
    }
}

/// Memory of the daemon that plays all roles: idle, then after `files` files were made and each looked at.
pub fn run(ours: &Mounted, files: usize) -> Vec<Figure> {
    let mut figures = vec![figure("memory: idle `sheen up`".to_owned(), resident_of(ours.pid).all, 150.0)];
    if files > 0 {
        make(ours, files);
        let Resident { all, own } = resident_of(ours.pid);
        figures.push(figure(format!("memory: {files} files made and listed"), all, 1024.0));
        figures.push(figure("memory: of that its own, not the store's mapped file".to_owned(), own, 1024.0));
    }
    figures
}

fn make(ours: &Mounted, files: usize) {
    for folder in 0..files.div_ceil(FOLDER) {
        let dir = ours.path.join(format!("m{folder:04}"));
        fs::create_dir(&dir).expect("make a folder");
        let here = folder * FOLDER..files.min((folder + 1) * FOLDER);
        for n in here.clone() {
            drop(File::create_new(dir.join(format!("f{n}"))).expect("create"));
        }
        let seen = fs::read_dir(&dir).expect("list").filter(|e| e.as_ref().is_ok_and(|e| e.metadata().is_ok())).count();
        assert_eq!(seen, here.len());
    }
}
