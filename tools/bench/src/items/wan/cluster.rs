//! The file system on the near side of the link, mounted from the far side, and by another client
//! beside the servers.

use super::beside::Processes;
use super::link::{Link, Side};
use crate::daemons;
use crate::failure::BenchError;
use crate::program;
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

/// Servers in one process, and mounts. They end with the value.
pub struct Cluster {
    server: Option<Child>,
    fsname: String,
    mgs: String,
    mount: PathBuf,
    beside: PathBuf,
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
        let (mount, beside) = (dir.path().join("mnt"), dir.path().join("beside"));
        let cluster = Cluster { server: Some(server), fsname, mgs, mount, beside, _dir: dir };
        cluster.mount_on(link, Side::Far, &cluster.mount)?;
        Ok(cluster)
    }

    fn mount_on(&self, link: &Link, side: Side, at: &Path) -> Result<(), BenchError> {
        std::fs::create_dir(at).map_err(BenchError::at("make", at))?;
        let mut mount = link.sheen(side)?;
        mount.args(["mount", "-o", &format!("log={}.log", at.display())]);
        mount.arg(format!("{}:/{}", self.mgs, self.fsname)).arg(at);
        run(&mut mount, "mount over the link")
    }

    /// Directory that it is mounted on.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Directory that another client has it mounted on, beside the servers; it is mounted when it
    /// is first asked for.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn beside(&self, link: &Link) -> Result<&Path, BenchError> {
        if !is_mounted(&self.beside) {
            self.mount_on(link, Side::Near, &self.beside)?;
        }
        Ok(&self.beside)
    }

    /// The processes of either host, the mounts that there are among them.
    pub fn processes(&self) -> Processes {
        let mut near = daemons::mounted_by(&self.beside);
        near.extend(self.server.as_ref().map(|server| server.id() as i32));
        Processes { near, far: daemons::mounted_by(&self.mount) }
    }

    /// Something that makes all mounts of this file system give up what they know.
    pub fn forgetting(&self) -> impl Fn() -> Result<(), BenchError> + use<> {
        let parameter = format!("ldlm.namespaces.{}-*.lru_size=clear", self.fsname);
        move || run(program::sheen()?.args(["lctl", "set_param", &parameter]), "empty the caches")
    }
}

fn is_mounted(at: &Path) -> bool {
    node::host::mount_table::mounted_at(at).is_ok_and(|mount| mount.is_some())
}

fn unmount(at: &Path) {
    if !is_mounted(at) {
        return;
    }
    let umount = |flags: &[&str]| run(Command::new("umount").args(flags).arg(at), "unmount");
    if let Err(error) = umount(&[]).or_else(|_| umount(&["-l"])) {
        eprintln!("sheen bench: {error}");
    }
    // umount(8) returns before the process behind the mount has stored everything: the servers
    // must outlive it.
    let deadline = Instant::now() + PATIENCE;
    while !daemons::mounted_by(at).is_empty() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        unmount(&self.beside);
        unmount(&self.mount);
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
