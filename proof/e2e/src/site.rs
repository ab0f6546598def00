//! A small site: servers, clients, and routers, on hosts of their own with one to three networks.

use crate::can_mount;
use crate::hosts::Hosts;
use crate::process::{detach, is_mounted, kill_and_wait, text};
use crate::sheen;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
pub const SOON: Duration = Duration::from_secs(120);

/// Hosts on their networks; daemons by name. Each host has its own registry of daemons.
pub struct Site {
    /// The hosts.
    pub hosts: Hosts,
    dir: tempfile::TempDir,
    daemons: Vec<(String, Child)>,
    mounts: Vec<PathBuf>,
}

impl Site {
    /// `first`: hosts on the first network, as `eth0`; `second`: on the second one, as `eth1`.
    pub fn new(first: &[usize], second: &[usize]) -> Option<Site> {
        match second {
            [] => Site::on_networks(&[first]),
            _ => Site::on_networks(&[first, second]),
        }
    }

    /// As [`Site::new`], of hosts on one to three networks.
    pub fn on_networks(networks: &[&[usize]]) -> Option<Site> {
        if !can_mount() {
            return None;
        }
        let hosts = Hosts::on_networks(networks)?;
        let dir = tempfile::tempdir().expect("a folder");
        Some(Site { hosts, dir, daemons: Vec::new(), mounts: Vec::new() })
    }

    /// A path in the folder of the test.
    pub fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// `sheen` on a host.
    pub fn command(&self, host: usize) -> Command {
        let mut command = self.hosts.command(host, &sheen());
        command.env(crate::cluster::RUN_DIR, self.at(&format!("run{host}"))).stdin(Stdio::null());
        command
    }

    /// What a command prints that succeeds.
    pub fn must(&self, host: usize, args: &[&str]) -> String {
        let output = self.command(host).args(args).output().expect("sheen runs");
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
        String::from_utf8(output.stdout).expect("text")
    }

    /// `lnetctl` on a host.
    pub fn lnetctl(&self, host: usize, args: &[&str]) -> String {
        self.must(host, &[&["lnetctl"], args].concat())
    }

    /// A daemon in the foreground.
    pub fn start(&mut self, host: usize, name: &str, args: &[&str]) {
        let path = self.at(&format!("{name}.log"));
        let log = File::options().create(true).append(true).open(path).expect("a log");
        let mut command = self.command(host);
        command.args(args).stdout(Stdio::null()).stderr(log);
        self.daemons.push((name.to_owned(), command.spawn().expect("sheen runs")));
    }

    /// Kills a daemon.
    pub fn kill(&mut self, name: &str) {
        let at = self.daemons.iter().position(|(known, _)| known == name).expect("it runs");
        let (_, mut child) = self.daemons.remove(at);
        child.kill().expect("it lives");
        child.wait().expect("it ends");
    }

    /// Process of a daemon.
    pub fn pid(&self, name: &str) -> u32 {
        let known = self.daemons.iter().find(|(known, _)| known == name);
        known.expect("it runs").1.id()
    }

    /// Targets of host 1, made if they are not there yet.
    fn format(&self) -> [String; 4] {
        let targets = ["mgt", "mdt", "ost0", "ost1"].map(|name| self.at(name));
        if !Path::new(&targets[0]).exists() {
            self.must(1, &["mkfs", "--mgs", &targets[0]]);
            self.must(1, &["mkfs", "--mdt", "--index", "0", &targets[1]]);
            self.must(1, &["mkfs", "--ost", "--index", "0", &targets[2]]);
            self.must(1, &["mkfs", "--ost", "--index", "1", &targets[3]]);
        }
        targets
    }

    /// The cluster asks for keys: to be called before its servers start.
    pub fn secure(&self, mgs: &str) {
        let [mgt, ..] = self.format();
        self.must(1, &["auth", "init", &mgt, "--mgsnode", mgs]);
    }

    /// The file of a new key; `more`: arguments of `sheen auth issue`.
    pub fn key(&self, name: &str, more: &[&str]) -> String {
        let mgt = self.at("mgt");
        let key = self.must(1, &[&["auth", "issue", &mgt, "--name", name], more].concat());
        let path = self.at(&format!("{name}.pem"));
        fs::write(&path, key).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("private");
        path
    }

    /// The folder of the test.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// One server with all targets on host 1.
    pub fn serve(&mut self, networks: &str, more: &[&str]) {
        let targets = self.format();
        let targets = targets.each_ref().map(String::as_str);
        let args = [&["serve"], &targets[..], &["--networks", networks], more].concat();
        self.start(1, "server", &args);
    }

    /// Mounts on a host.
    pub fn mount(&mut self, host: usize, source: &str, options: &str) -> PathBuf {
        self.mount_as(host, &format!("mnt{host}"), source, options)
    }

    /// As [`Site::mount`], in a folder of this name.
    pub fn mount_as(&mut self, host: usize, name: &str, source: &str, options: &str) -> PathBuf {
        let at = self.dir.path().join(name);
        let output = self.try_mount(host, source, options, &at);
        assert!(output.status.success() && is_mounted(&at), "{}\n{}", text(&output), self.logs());
        self.mounts.push(at.clone());
        at
    }

    /// As [`Site::mount`], and it may fail.
    pub fn try_mount(&self, host: usize, source: &str, options: &str, at: &Path) -> Output {
        fs::create_dir_all(at).expect("a folder");
        let log = format!("{options},log={}", self.at(&format!("client{host}.log")));
        let mut command = self.command(host);
        command.args(["mount", "-o", &log, source]).arg(at);
        command.output().expect("sheen runs")
    }

    /// Waits until it is so.
    pub fn wait_for(&self, what: &str, is: impl Fn() -> bool) {
        let deadline = Instant::now() + SOON;
        while !is() {
            assert!(Instant::now() < deadline, "{what}: not within {SOON:?}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What a daemon has said.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.at(&format!("{name}.log"))).unwrap_or_default()
    }

    /// Waits until a daemon is in service.
    pub fn wait_in_service(&self, name: &str) {
        self.wait_for(name, || self.log(name).contains("in service"));
    }

    /// The last lines of all logs.
    pub fn logs(&self) -> String {
        let names = [
            "server", "oss", "router1", "router2", "router3", "client2", "client3", "client4",
            "client5",
        ];
        let tail = |name: &&str| {
            let log = self.log(name);
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            if last.is_empty() { String::new() } else { format!("--- {name}\n{last}\n") }
        };
        names.iter().map(tail).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for mount in &self.mounts {
            detach(mount);
        }
        for (_, child) in &mut self.daemons {
            kill_and_wait(child.id() as i32);
            // It was just killed.
            let _ = child.wait();
        }
    }
}

/// Server on the second network only, client on the first only, routers on both.
pub fn routed(security: &[&str]) -> Option<Site> {
    let mut site = Site::new(&[2, 3, 4], &[1, 2, 3])?;
    site.serve("tcp(eth1)", security);
    Some(site)
}

/// NID of the server on the second network.
pub fn mgs(site: &Site) -> String {
    format!("{}@tcp", site.hosts.second_address(1))
}

/// A router between `tcp1`, the first network, and `tcp`, the second one.
pub fn start_router(site: &mut Site, host: usize, more: &[&str]) {
    let (name, mgs) = (format!("router{host}"), mgs(site));
    let networks = ["router", "--networks", "tcp1(eth0),tcp(eth1)", "--mgsnode", &mgs];
    site.start(host, &name, &[&networks[..], more].concat());
}

/// The file that tells the client its network and its routers.
pub fn client_file(site: &Site, routers: &[usize]) -> String {
    let gateways: Vec<String> =
        routers.iter().map(|host| format!("{}@tcp1", site.hosts.address(*host))).collect();
    let path = site.at("client.toml");
    let text = format!("networks = \"tcp1(eth0)\"\nroutes = \"tcp {}\"\n", gateways.join(" "));
    fs::write(&path, text).expect("write");
    path
}

/// A figure of `lnetctl routing show` on a router.
pub fn routing(site: &Site, host: usize, figure: &str) -> u64 {
    let shown = site.lnetctl(host, &["routing", "show"]);
    let value = |line: &str| line.trim().strip_prefix(figure)?.strip_prefix(": ")?.parse().ok();
    shown.lines().find_map(value).unwrap_or_else(|| panic!("{figure}: {shown}"))
}

/// Tells the writers to stop.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Files that a writer has made, each synced, and read again.
fn write_and_verify(dir: &Path, writer: u64, stop: &AtomicBool, done: &AtomicU64) -> u64 {
    let content = |n: u64| -> Vec<u8> {
        (0..96 << 10).map(|at: u64| (at.wrapping_mul(31) ^ n ^ writer << 5) as u8).collect()
    };
    let mut n = 0;
    while !stop.load(Ordering::Acquire) {
        let path = dir.join(format!("w{writer}-{n}"));
        let mut file = File::create(&path).expect("create");
        file.write_all(&content(n)).expect("write");
        file.sync_all().expect("fsync");
        drop(file);
        if n > 0 {
            let before = dir.join(format!("w{writer}-{}", n - 1));
            assert!(
                fs::read(before).expect("read") == content(n - 1),
                "file {} of {writer}",
                n - 1
            );
        }
        n += 1;
        done.fetch_add(1, Ordering::AcqRel);
    }
    for n in 0..n {
        let path = dir.join(format!("w{writer}-{n}"));
        assert!(fs::read(path).expect("read") == content(n), "file {n} of {writer}, at the end");
    }
    n
}

/// Has files written and read on a mount while `work` goes on; the number of files. `work` is given
/// a way to wait until more of them were written.
///
/// # Panics
/// A writer saw an error, or other data than it wrote.
pub fn under_load(
    site: &mut Site,
    mnt: &Path,
    work: impl FnOnce(&mut Site, &dyn Fn(&Site)),
) -> u64 {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        let writers: Vec<_> = (0..3)
            .map(|writer| scope.spawn(move || write_and_verify(mnt, writer, stop, done)))
            .collect();
        // They end, too, when this thread fails.
        let _stop = StopOnDrop(stop);
        // A writer that fails ends the wait, and says why at the join.
        let more = |site: &Site| {
            let wanted = done.load(Ordering::Acquire) + 30;
            let failed = || writers.iter().any(std::thread::ScopedJoinHandle::is_finished);
            site.wait_for("more files", || done.load(Ordering::Acquire) >= wanted || failed());
        };
        more(site);
        work(site, &more);
        stop.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().expect("no error")).sum()
    })
}
