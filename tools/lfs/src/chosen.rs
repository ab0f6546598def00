//! The mounts that a command is about.

use ask::mounts::{self, Mount};
use report::Report;
use std::io;
use std::path::PathBuf;

/// The mounts of these paths, or all if there is none. Those that do not answer are reported.
pub fn mounts(paths: &[PathBuf], report: &mut Report<'_>) -> Vec<Mount> {
    if !paths.is_empty() {
        let found = |path: &PathBuf| mounts::mount_of(path).map_err(|e| (path.clone(), e));
        return known(paths.iter().map(found), report);
    }
    match mounts::mount_points() {
        Ok(dirs) => {
            known(dirs.into_iter().map(|dir| mounts::at(dir.clone()).map_err(|e| (dir, e))), report)
        }
        Err(error) => {
            report.failed("can't read /proc/self/mountinfo", &error);
            Vec::new()
        }
    }
}

fn known(
    mounts: impl Iterator<Item = Result<Mount, (PathBuf, io::Error)>>,
    report: &mut Report<'_>,
) -> Vec<Mount> {
    let mut good = Vec::new();
    for mount in mounts {
        match mount {
            Ok(mount) => good.push(mount),
            Err((path, error)) => {
                report.failed(&format!("can't ask the mount of '{}'", path.display()), &error)
            }
        }
    }
    good
}
