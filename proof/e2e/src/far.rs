//! A file system and a client far away from it: servers and some clients near one another, another
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
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Names the program that makes lines.
const WANLINK: &str = "SHEEN_WANLINK";
/// Servers, and mounts, are there within this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients beside the servers.
const NEAR: usize = 4;

static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// Hosts with a line between them. They vanish with the value.
struct Line {
    wanlink: PathBuf,
    name: String,
    subnet: u32,
}

/// A host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    Servers = 1,
    Near,
    Far,
    Mgs,
}

impl Line {
    fn up(wanlink: PathBuf, delay: Duration) -> Line {
        let id = std::process::id() % 10_000 * 10 + SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let line = Line { wanlink, name: format!("sd{id}"), subnet: id % 250 };
        let mut up = Command::new(&line.wanlink);
        up.args(["up", "--name", &line.name, "--daemon", "--rtt", "0"]);
        for host in [Host::Servers, Host::Near, Host::Far, Host::Mgs] {
            let rtt = if host == Host::Far { delay.as_micros() } else { 0 };
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

    fn address(&self, host: Host) -> Ipv4Addr {
        Ipv4Addr::new(10, 233, self.subnet as u8, host as u8)
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
    servers: Vec<Child>,
    near: Vec<PathBuf>,
    far: PathBuf,
    osts: usize,
    delay: Duration,
    line: Line,
    // Last: the others have files in it.
    dir: tempfile::TempDir,
}

impl Far {
    /// Servers with one MDT and so many OSTs, and all clients; `None`, with a printed reason, where
    /// they cannot be.
    pub fn up(delay: Duration, osts: usize) -> Option<Far> {
        if !can_mount() {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("sheen-far.").tempdir().expect("a folder");
        let line = Line::up(wanlink(dir.path())?, delay);
        let at = |name: &str| dir.path().join(name);
        let mgs = format!("{}@tcp", line.address(Host::Mgs));
        let of_data = (0..osts).map(|n| (format!("ost{n}"), "--ost"));
        let targets = [("mgt".to_owned(), "--mgs"), ("mdt".to_owned(), "--mdt")];
        let targets: Vec<_> = targets.into_iter().chain(of_data).collect();
        for (name, kind) in &targets {
            let mut mkfs = Command::new(sheen());
            mkfs.args(["mkfs", kind, "--fsname", "sheen"]);
            if *kind != "--mgs" {
                mkfs.args(["--mgsnode", &mgs]);
            }
            let output = mkfs.arg(at(name)).output().expect("sheen runs");
            assert!(output.status.success(), "sheen mkfs {kind}: {}", text(&output));
        }
        let (mgt, others) = targets.split_at(1);
        let serve = |(host, targets): (Host, &[(String, &str)])| {
            let log = File::create(at(&format!("server{}.log", host as u32))).expect("a log");
            let mut serve = in_namespace(&line.namespace(host), &sheen());
            serve.env(RUN_DIR, at("run")).arg("serve");
            serve.args(targets.iter().map(|(name, _)| at(name)));
            serve.args(["--listen", &format!("{}:988", line.address(host))]);
            serve.args(["--security", "off"]);
            serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            serve.spawn().expect("sheen runs")
        };
        let servers = [(Host::Mgs, mgt), (Host::Servers, others)].map(serve).into();
        let near = (0..NEAR).map(|n| at(&format!("near{n}"))).collect();
        let far = Far { servers, near, far: at("far"), osts, delay, line, dir };
        for (host, mount) in far.mounts() {
            std::fs::create_dir(mount).expect("a mount point");
            far.mount(host, mount);
        }
        Some(far)
    }

    fn mount(&self, host: Host, at: &Path) {
        let log = format!("log={}.log", at.display());
        let from = format!("{}@tcp:/sheen", self.line.address(Host::Mgs));
        let mut mount = in_namespace(&self.line.namespace(host), &sheen());
        mount.env(RUN_DIR, self.dir.path().join("run")).stdin(Stdio::null());
        let output = mount.args(["mount", "-o", &log, &from]).arg(at).output();
        let output = output.expect("sheen runs");
        assert!(output.status.success(), "sheen mount: {}\n{}", text(&output), self.logs());
        let deadline = Instant::now() + PATIENCE;
        while self.osts_known(at) < self.osts {
            assert!(Instant::now() < deadline, "OSTs are missing\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// OSTs that a mount knows.
    fn osts_known(&self, at: &Path) -> usize {
        let output = Command::new(sheen()).args(["lfs", "osts"]).arg(at).output();
        text(&output.expect("sheen runs")).matches("-OST").count()
    }

    fn mounts(&self) -> impl Iterator<Item = (Host, &Path)> {
        let near = self.near.iter().map(|mount| (Host::Near, mount.as_path()));
        near.chain([(Host::Far, self.far.as_path())])
    }

    /// Mount of the first client beside the servers.
    pub fn near(&self) -> &Path {
        &self.near[0]
    }

    /// Mounts of all clients beside the servers.
    pub fn all_near(&self) -> &[PathBuf] {
        &self.near
    }

    /// All clients give back all that they hold: `lctl set_param ldlm.namespaces.*.lru_size=clear`.
    pub fn give_all_back(&self) {
        let mut lctl = Command::new(sheen());
        lctl.env(RUN_DIR, self.dir.path().join("run")).stdin(Stdio::null());
        let output = lctl.args(["lctl", "set_param", "ldlm.namespaces.*.lru_size=clear"]).output();
        let output = output.expect("sheen runs");
        assert!(output.status.success(), "lctl set_param: {}\n{}", text(&output), self.logs());
    }

    /// The far client forgets everything.
    pub fn mount_anew(&self) {
        let umount = Command::new("umount").arg(&self.far).status().expect("umount runs");
        assert!(umount.success(), "umount: {umount}");
        self.gone([self.far.as_path()].into_iter());
        self.mount(Host::Far, &self.far);
    }

    /// Waits until the daemons of these mounts are gone.
    fn gone<'a>(&self, mounts: impl Iterator<Item = &'a Path> + Clone) {
        let deadline = Instant::now() + PATIENCE;
        let lives = |mount: &Path| !daemons(mount).is_empty();
        while mounts.clone().any(lives) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Mount of the client behind the line.
    pub fn far(&self) -> &Path {
        &self.far
    }

    /// How often the far host waits while this runs, and how many bytes come to it. What it tells
    /// the MGS, mostly reports each second, is no wait: no program waits for it.
    pub fn seen(&self, what: &str, work: impl FnOnce()) -> (usize, u64) {
        let mgs = self.line.address(Host::Mgs);
        let observer = Waits::at(&self.line.namespace(Host::Far), mgs);
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
        let logs = ["server4.log", "server1.log", "near0.log", "far.log"]
            .map(|name| log(name).unwrap_or_default());
        logs.join("\n---\n")
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for (_, mount) in self.mounts() {
            let umount = Command::new("umount").arg(mount).status();
            if !umount.is_ok_and(|status| status.success()) && is_mounted(mount) {
                detach(mount);
            }
        }
        // What was written last is stored before the servers go.
        self.gone(self.mounts().map(|(_, mount)| mount).collect::<Vec<_>>().into_iter());
        for server in &mut self.servers {
            if let Err(error) = server.kill().and_then(|()| server.wait().map(drop)) {
                eprintln!("end a server: {error}");
            }
        }
    }
}
