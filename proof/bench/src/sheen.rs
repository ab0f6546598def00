//! A SheenFS or an empty FUSE file system in a process of its own, to be measured.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mounted file system of another process; unmounted when dropped.
pub struct Mounted {
    /// Where.
    pub path: PathBuf,
    /// The daemon.
    pub pid: i32,
    kind: Kind,
}

enum Kind {
    Up { sheen: PathBuf, dir: PathBuf },
    Null(Child),
}

impl Mounted {
    /// `sheen up DIR/fs --mount DIR/mnt`.
    pub fn sheen_up(sheen: &Path, dir: &Path, args: &[&str]) -> Mounted {
        let (fs, path) = (dir.join("fs"), dir.join("mnt"));
        let mut command = Command::new(sheen);
        command.arg("up").arg(&fs).arg("--mount").arg(&path).args(["--listen", "127.0.0.1:0"]).args(args);
        let output = command.output().expect("sheen runs");
        assert!(output.status.success(), "sheen up: {}", String::from_utf8_lossy(&output.stderr));
        let pid = std::fs::read_to_string(fs.join("run/node.pid")).expect("the daemon's pid file");
        let pid = pid.split_whitespace().next().and_then(|p| p.parse().ok()).expect("a number in the pid file");
        Mounted { path, pid, kind: Kind::Up { sheen: sheen.to_owned(), dir: fs } }
    }

    /// Address that it listens at.
    pub fn listen(&self) -> String {
        let Kind::Up { sheen, dir } = &self.kind else { panic!("the empty file system does not listen") };
        let output = Command::new(sheen).arg("status").arg(dir).arg("--json").output().expect("sheen runs");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["listen"].as_str().expect("the bound address").to_owned()
    }

    /// The empty file system of this very program (`bench null DIR`).
    pub fn null(path: &Path) -> Mounted {
        std::fs::create_dir_all(path).expect("make a folder");
        let program = std::env::current_exe().expect("path of this program");
        let mut child = Command::new(program).arg("null").arg(path).stdin(Stdio::null()).spawn().expect("starts");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_mounted(path) {
            assert!(Instant::now() < deadline, "the empty file system does not mount");
            assert!(child.try_wait().expect("wait").is_none(), "the empty file system ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        Mounted { path: path.to_owned(), pid: child.id() as i32, kind: Kind::Null(child) }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let status = match &self.kind {
            Kind::Up { sheen, dir } => Command::new(sheen).arg("down").arg(dir).stdout(Stdio::null()).status(),
            Kind::Null(_) => Command::new("umount").arg(&self.path).status(),
        };
        if !status.as_ref().is_ok_and(|s| s.success()) {
            eprintln!("stop {}: {status:?}", self.path.display());
        }
        if let Kind::Null(child) = &mut self.kind
            && let Err(error) = child.wait()
        {
            eprintln!("wait for the empty file system: {error}");
        }
    }
}

fn is_mounted(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}
