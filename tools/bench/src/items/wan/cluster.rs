//! The file system on the near side of the link, mounted from the far side.

use super::link::{Link, Side};
use crate::daemons;
use crate::failure::BenchError;
use bench_args::WanArgs;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Servers and mounts end within this time, or are killed.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Servers in one process, and a mount. They end with the value.
pub struct Cluster {
    server: Option<Child>,
    mount: PathBuf,
    // Last: the others have files in it.
    _dir: tempfile::TempDir,
}

/// Out of reach of Ctrl-C: what is half made could not be taken back.
fn run(command: &mut Command, what: &str) -> Result<(), BenchError> {
    let output =
        command.process_group(0).stdin(Stdio::null()).output().map_err(BenchError::of(what))?;
    if output.status.success() {
        return Ok(());
    }
    Err(BenchError::of_program(what, &output))
}

impl Cluster {
    /// Makes targets in a new folder of `dir`, serves them on the near side and mounts them on the
    /// far side.
    ///
    /// # Errors
    /// A part does not start; what was started ends.
    pub fn up(link: &Link, args: &WanArgs, dir: &Path) -> Result<Cluster, BenchError> {
        let dir = tempfile::Builder::new().prefix("sheen-bench-wan.").tempdir_in(dir);
        let dir = dir.map_err(BenchError::of("make a folder for the targets"))?;
        // A name of its own distinguishes its daemons from those of other clusters of this host.
        let fsname = format!("w{}", std::process::id() % 10_000_000);
        let mgs = format!("{}@tcp", link.address(Side::Near));
        let mut targets = vec![dir.path().join("mgt"), dir.path().join("mdt")];
        targets.extend((0..args.osts).map(|n| dir.path().join(format!("ost{n}"))));
        for (at, target) in targets.iter().enumerate() {
            let kind = ["--mgs", "--mdt"].get(at).copied().unwrap_or("--ost");
            let mut mkfs = link.sheen(Side::Near)?;
            mkfs.args(["mkfs", kind, "--fsname", &fsname]);
            if kind != "--mgs" {
                mkfs.args(["--mgsnode", &mgs]);
            }
            run(mkfs.arg(target), "make a target")?;
        }
        let log = File::create(dir.path().join("server.log"))
            .map_err(BenchError::at("write into", dir.path()))?;
        let mut serve = link.sheen(Side::Near)?;
        serve
            .arg("serve")
            .args(&targets)
            .args(["--listen", &format!("{}:988", link.address(Side::Near))])
            .args(["--security", "off"]);
        serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        let server = serve.spawn().map_err(BenchError::of("start the servers"))?;
        let mount = dir.path().join("mnt");
        std::fs::create_dir(&mount).map_err(BenchError::at("make", &mount))?;
        let cluster = Cluster { server: Some(server), mount, _dir: dir };
        let log = format!("log={}", cluster._dir.path().join("client.log").display());
        let mut far = link.sheen(Side::Far)?;
        far.args(["mount", "-o", &log]).arg(format!("{mgs}:/{fsname}")).arg(&cluster.mount);
        run(&mut far, "mount over the link")?;
        Ok(cluster)
    }

    /// Directory that it is mounted on.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    fn is_mounted(&self) -> bool {
        node::host::mount_table::mounted_at(&self.mount).is_ok_and(|mount| mount.is_some())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_mounted() {
            let umount = |flags: &[&str]| {
                run(Command::new("umount").args(flags).arg(&self.mount), "unmount")
            };
            if let Err(error) = umount(&[]).or_else(|_| umount(&["-l"])) {
                eprintln!("sheen bench: {error}");
            }
            // umount(8) returns before the process behind the mount has stored everything: the
            // servers must outlive it.
            let deadline = Instant::now() + PATIENCE;
            while !daemons::mounted_by(&self.mount).is_empty() && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
        }
        if let Some(mut server) = self.server.take() {
            if let Some(pid) = Pid::from_raw(server.id() as i32) {
                // Ended of itself: then there is nothing to tell it.
                let _ = kill_process(pid, Signal::TERM);
            }
            let deadline = Instant::now() + PATIENCE;
            while matches!(server.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
            // Killing a process that has ended does nothing.
            if let Err(error) = server.kill().and_then(|()| server.wait().map(drop)) {
                eprintln!("sheen bench: cannot end the servers: {error}");
            }
        }
    }
}
