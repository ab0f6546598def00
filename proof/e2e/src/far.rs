//! A file system and a client far away from it: servers and one client near one another, the other
//! client behind a line with a delay.
//!
//! The line is made by `wanlink`, a program that delays packets between network namespaces, for not
//! every kernel has netem. `SHEEN_WANLINK` names it, or its C source.

use crate::cluster::RUN_DIR;
use crate::hosts::in_namespace;
use crate::many::daemons;
use crate::process::{detach, is_mounted, text};
use crate::waits::Waits;
use crate::{can_mount, sheen};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Names the program that makes lines.
const WANLINK: &str = "SHEEN_WANLINK";
/// Servers, and mounts, are there within this time.
const PATIENCE: Duration = Duration::from_secs(30);

static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// Hosts with a line between them. They vanish with the value.
struct Line {
    wanlink: PathBuf,
    name: String,
    subnet: u32,
}

/// A host.
#[derive(Clone, Copy)]
enum Host {
    Servers = 1,
    Near,
    Far,
}

impl Line {
    fn up(wanlink: PathBuf, delay: Duration) -> Line {
        let id = std::process::id() % 10_000 * 10 + SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let line = Line { wanlink, name: format!("sd{id}"), subnet: id % 250 };
        let mut up = Command::new(&line.wanlink);
        up.args(["up", "--name", &line.name, "--daemon", "--rtt", "0"]);
        for (host, rtt) in [(Host::Servers, 0), (Host::Near, 0), (Host::Far, delay.as_micros())] {
            let (namespace, address) = (line.namespace(host), line.address(host));
            up.arg("--host").arg(format!("{namespace}={address},rtt={rtt}us"));
        }
        let output = up.stdin(Stdio::null()).output().expect("wanlink runs");
        assert!(output.status.success(), "wanlink up: {}", text(&output));
        line
    }

    fn namespace(&self, host: Host) -> String {
        format!("{}h{}", self.name, host as u32)
    }

    fn address(&self, host: Host) -> String {
        format!("10.233.{}.{}", self.subnet, host as u32)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let down = Command::new(&self.wanlink).args(["down", "--name", &self.name]).status();
        if !down.is_ok_and(|status| status.success()) {
            eprintln!("wanlink down {} failed", self.name);
        }
    }
}

/// The program; builds it in `dir` if its source is named. `None`, with a printed reason, without.
fn wanlink(dir: &Path) -> Option<PathBuf> {
    let Some(named) = std::env::var_os(WANLINK).map(PathBuf::from).filter(|path| path.is_file())
    else {
        eprintln!("skipped: {WANLINK} names no program (or C source) that delays packets");
        return None;
    };
    if named.extension().is_none_or(|extension| extension != "c") {
        return Some(named);
    }
    let program = dir.join("wanlink");
    let mut cc = Command::new("cc");
    let output = cc.arg("-O2").arg("-o").arg(&program).arg(&named).arg("-lpthread").output();
    let output = output.expect("cc runs");
    assert!(output.status.success(), "{}: {}", named.display(), text(&output));
    Some(program)
}

/// See the module. Everything ends with the value.
pub struct Far {
    server: Child,
    near: PathBuf,
    far: PathBuf,
    delay: Duration,
    line: Line,
    // Last: the others have files in it.
    dir: tempfile::TempDir,
}

impl Far {
    /// Servers with one MDT and two OSTs, and both clients; `None`, with a printed reason, where
    /// they cannot be.
    pub fn up(delay: Duration) -> Option<Far> {
        if !can_mount() {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("sheen-far.").tempdir().expect("a folder");
        let line = Line::up(wanlink(dir.path())?, delay);
        let at = |name: &str| dir.path().join(name);
        let mgs = format!("{}@tcp", line.address(Host::Servers));
        let targets = ["mgt", "mdt", "ost0", "ost1"];
        for (name, kind) in targets.iter().zip(["--mgs", "--mdt", "--ost", "--ost"]) {
            let mut mkfs = Command::new(sheen());
            mkfs.args(["mkfs", kind, "--fsname", "sheen"]);
            if kind != "--mgs" {
                mkfs.args(["--mgsnode", &mgs]);
            }
            let output = mkfs.arg(at(name)).output().expect("sheen runs");
            assert!(output.status.success(), "sheen mkfs {kind}: {}", text(&output));
        }
        let log = std::fs::File::create(at("server.log")).expect("a log");
        let mut serve = in_namespace(&line.namespace(Host::Servers), &sheen());
        serve.env(RUN_DIR, at("run")).arg("serve").args(targets.map(at));
        serve.args(["--listen", &format!("{}:988", line.address(Host::Servers))]);
        serve.args(["--security", "off"]);
        serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let server = serve.spawn().expect("sheen runs");
        let far = Far { server, near: at("near"), far: at("far"), delay, line, dir };
        far.mount(Host::Near, &far.near);
        far.mount(Host::Far, &far.far);
        Some(far)
    }

    fn mount(&self, host: Host, at: &Path) {
        std::fs::create_dir(at).expect("a mount point");
        let log = format!("log={}.log", at.display());
        let from = format!("{}@tcp:/sheen", self.line.address(Host::Servers));
        let mut mount = in_namespace(&self.line.namespace(host), &sheen());
        mount.env(RUN_DIR, self.dir.path().join("run")).stdin(Stdio::null());
        let output = mount.args(["mount", "-o", &log, &from]).arg(at).output();
        let output = output.expect("sheen runs");
        assert!(output.status.success(), "sheen mount: {}\n{}", text(&output), self.logs());
        let deadline = Instant::now() + PATIENCE;
        while self.osts(at) < 2 {
            assert!(Instant::now() < deadline, "OSTs are missing\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// OSTs that a mount knows.
    fn osts(&self, at: &Path) -> usize {
        let output = Command::new(sheen()).args(["lfs", "osts"]).arg(at).output();
        text(&output.expect("sheen runs")).matches("-OST").count()
    }

    /// Mount of the client beside the servers.
    pub fn near(&self) -> &Path {
        &self.near
    }

    /// Mount of the client behind the line.
    pub fn far(&self) -> &Path {
        &self.far
    }

    /// How often the far host waits while this runs, and how many bytes come to it.
    pub fn seen(&self, what: &str, work: impl FnOnce()) -> (usize, u64) {
        let observer = Waits::at(&self.line.namespace(Host::Far));
        let (before, began) = (self.received(), Instant::now());
        work();
        let took = began.elapsed();
        let (waits, bytes) = (observer.rounds(self.delay), self.received() - before);
        eprintln!("{what}: {waits} waits, {} KiB, {took:.2?}", bytes >> 10);
        (waits, bytes)
    }

    /// Bytes that came to the far host so far.
    fn received(&self) -> u64 {
        let cat = Path::new("cat");
        let mut cat = in_namespace(&self.line.namespace(Host::Far), cat);
        let table = text(&cat.arg("/proc/net/dev").output().expect("cat runs"));
        let prefix = format!("{}:", self.line.name);
        let line = table.lines().find_map(|line| line.trim().strip_prefix(&prefix));
        let bytes = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        bytes.unwrap_or_else(|| panic!("no {prefix} in {table}"))
    }

    fn logs(&self) -> String {
        let log = |name: &str| std::fs::read_to_string(self.dir.path().join(name));
        let logs = ["server.log", "near.log", "far.log"].map(|name| log(name).unwrap_or_default());
        logs.join("\n---\n")
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for mount in [&self.far, &self.near] {
            let umount = Command::new("umount").arg(mount).status();
            if !umount.is_ok_and(|status| status.success()) && is_mounted(mount) {
                detach(mount);
            }
        }
        // What was written last is stored before the servers go.
        let deadline = Instant::now() + PATIENCE;
        let lives = |mount: &PathBuf| !daemons(mount).is_empty();
        while [&self.far, &self.near].into_iter().any(lives) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Err(error) = self.server.kill().and_then(|()| self.server.wait().map(drop)) {
            eprintln!("end the servers: {error}");
        }
    }
}
