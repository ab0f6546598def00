//! A whole SheenFS in one folder, started with `sheen up`.

use crate::many::Many;
use crate::sheen;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A file system that lives as long as the value: all roles in one process, or one process and host for each role.
pub struct Cluster {
    // Declared before the folder, so that processes end before their files go.
    many: Option<Many>,
    args: Vec<String>,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// `sheen up` in a new folder, with these extra arguments.
    pub fn up(args: &[&str]) -> Cluster {
        let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        let mut cluster = Cluster { many: None, args: all, dir: folder() };
        cluster.start();
        cluster
    }

    /// MGS, MDS, two OSS and a client on hosts of their own; `None` where network namespaces cannot be made.
    pub fn on_hosts() -> Option<Cluster> {
        let mut cluster = Cluster { many: None, args: Vec::new(), dir: folder() };
        cluster.many = Some(Many::up(&cluster.dir(), &cluster.mount())?);
        Some(cluster)
    }

    /// The folder of targets, logs and mount point.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().join("fs")
    }

    /// Where it is mounted.
    pub fn mount(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// A folder beside it on the ordinary file system, for comparison.
    pub fn outside(&self) -> PathBuf {
        let path = self.dir.path().join("outside");
        std::fs::create_dir_all(&path).expect("make a folder");
        path
    }

    /// Starts it (again).
    pub fn start(&mut self) {
        if let Some(many) = &mut self.many {
            return many.start();
        }
        let (dir, mount) = (self.dir(), self.mount());
        let output = Command::new(sheen())
            .arg("up")
            .arg(&dir)
            .arg("--mount")
            .arg(&mount)
            .args(&self.args)
            .stdin(Stdio::null())
            .output()
            .expect("sheen runs");
        assert!(output.status.success(), "sheen up: {}\n{}", text(&output), self.log());
        assert!(is_mounted(&mount), "sheen up succeeded, but {} is no mount", mount.display());
    }

    /// Any command of `sheen` on this folder, for example `["status", "--json"]`.
    pub fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(sheen());
        command.arg(args[0]).arg(self.dir()).args(&args[1..]).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    /// Stops it in order.
    pub fn stop(&mut self) {
        match &mut self.many {
            Some(many) => many.stop(),
            None => {
                let output = self.command(&["down"]);
                assert!(output.status.success(), "sheen down: {}\n{}", text(&output), self.log());
            }
        }
        assert!(!is_mounted(&self.mount()), "still mounted after the stop");
    }

    /// Process id of the daemon of `sheen up`.
    pub fn pid(&self) -> i32 {
        let path = self.dir().join("run/node.pid");
        let text = std::fs::read_to_string(&path).expect("the daemon's pid file");
        text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number in the pid file")
    }

    /// Kills every process of it at once, as a crash would.
    pub fn kill(&mut self) {
        match &mut self.many {
            Some(many) => many.kill(),
            None => kill_and_wait(self.pid()),
        }
    }

    /// The end of the daemon's log.
    pub fn log(&self) -> String {
        if let Some(many) = &self.many {
            return many.logs();
        }
        let text = std::fs::read_to_string(self.dir().join("log/node.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("--- log ---\n{}", lines[lines.len().saturating_sub(40)..].join("\n"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        if self.many.is_some() {
            return;
        }
        let output = self.command(&["down", "--force"]);
        if !output.status.success() && is_mounted(&self.mount()) {
            eprintln!("sheen down --force: {}", text(&output));
            detach(&self.mount());
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder for the test")
}

/// SIGKILL, and wait until the process is gone.
pub fn kill_and_wait(pid: i32) {
    // SAFETY: kill has no memory effects; the pid is one this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !gone(pid) {
        assert!(Instant::now() < deadline, "process {pid} survives SIGKILL");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Is the process gone (or a zombie whose parent has not looked yet)?
fn gone(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
    }
}

/// Is something mounted exactly there?
pub fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

/// Lazy unmount.
pub fn detach(path: &Path) {
    let status = Command::new("umount").arg("-l").arg(path).status();
    if !status.is_ok_and(|s| s.success()) {
        eprintln!("umount -l {} failed", path.display());
    }
}

/// stdout and stderr of a finished command.
pub fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a test on one process and again with every role on a host of its own.
pub fn everywhere(test: impl Fn(&mut Cluster)) {
    if !crate::can_mount() {
        return;
    }
    eprintln!("-- all roles in one process");
    test(&mut Cluster::up(&["--osts", "2"]));
    if let Some(mut cluster) = Cluster::on_hosts() {
        eprintln!("-- every role on a host of its own");
        test(&mut cluster);
    }
}
