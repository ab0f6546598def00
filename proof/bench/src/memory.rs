//! Resident memory: idle, and after a million files.

use crate::measure::resident_of;
use crate::report::Figure;
use crate::sheen::Mounted;
use std::fs::{self, File};

const MIB: f64 = (1 << 20) as f64;

fn figure(name: String, pid: i32, goal_mib: f64) -> Figure {
    let value = resident_of(pid) as f64 / MIB;
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

/// Memory of the daemon that plays all roles.
pub fn idle(ours: &Mounted) -> Figure {
    figure("memory: idle `sheen up`".to_owned(), ours.pid, 150.0)
}

/// The same after `files` files were made and each looked at, in folders of 10,000.
pub fn with_files(ours: &Mounted, files: usize) -> Figure {
    for folder in 0..files.div_ceil(10_000) {
        let dir = ours.path.join(format!("m{folder:04}"));
        fs::create_dir(&dir).expect("make a folder");
        for n in folder * 10_000..files.min((folder + 1) * 10_000) {
            drop(File::create_new(dir.join(format!("f{n}"))).expect("create"));
        }
        let seen = fs::read_dir(&dir).expect("list").filter(|e| e.as_ref().is_ok_and(|e| e.metadata().is_ok())).count();
        assert_eq!(seen, files.min((folder + 1) * 10_000) - folder * 10_000);
    }
    figure(format!("memory: {files} files made and listed"), ours.pid, 1024.0)
}
