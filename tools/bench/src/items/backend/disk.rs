//! A loop device over a file, with a file system on it unless it is for a volume. All of it goes
//! when the value does.

use crate::failure::BenchError;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// How often umount(8) is tried while the last file of a store is closed.
const ATTEMPTS: u32 = 50;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Disk {
    device: PathBuf,
    mount: Option<PathBuf>,
    folder: TempDir,
}

fn run(what: &str, command: &mut Command) -> Result<Output, BenchError> {
    let output = command.output().map_err(BenchError::of(what))?;
    if output.status.success() { Ok(output) } else { Err(BenchError::of_program(what, &output)) }
}

impl Disk {
    /// A disk of this size for `kind`, its file in a folder of `dir`.
    pub(super) fn new(dir: &Path, kind: &str, bytes: u64) -> Result<Disk, BenchError> {
        let folder = tempfile::Builder::new().prefix("sheen-bench-backend.").tempdir_in(dir);
        let folder = folder.map_err(BenchError::at("make a folder in", dir))?;
        let path = folder.path().join("disk");
        let file = File::create(&path).map_err(BenchError::at("make", &path))?;
        file.set_len(bytes).map_err(BenchError::at("make", &path))?;
        let mut losetup = Command::new("losetup");
        let made = run("make a loop device", losetup.args(["--show", "-f"]).arg(&path))?;
        let device = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim().to_owned());
        let mut disk = Disk { device, mount: None, folder };
        if kind != "volume" {
            let what = format!("make {kind}");
            run(&what, Command::new(format!("mkfs.{kind}")).arg("-q").arg(&disk.device))?;
            let at = disk.folder.path().join("mnt");
            std::fs::create_dir(&at).map_err(BenchError::at("make", &at))?;
            run("mount", Command::new("mount").args(["-t", kind]).arg(&disk.device).arg(&at))?;
            disk.mount = Some(at);
        }
        Ok(disk)
    }

    /// The device.
    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    /// The folder of the OST.
    pub(super) fn folder(&self) -> PathBuf {
        self.mount.clone().unwrap_or_else(|| self.folder.path().to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What fails here is told by losetup(8) and df(1); the run is over.
        if let Some(at) = &self.mount {
            for _ in 0..ATTEMPTS {
                if Command::new("umount").arg(at).output().is_ok_and(|done| done.status.success()) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        }
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}
