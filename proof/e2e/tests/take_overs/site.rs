//! Hosts of a file system whose MGS and MDT can be taken over, and what may happen to them.

use crate::members::{Members, Place, or_skip};
use e2e::cluster::RUN_DIR;
use e2e::hosts::Hosts;
use e2e::process::{detach, is_mounted, signal, text};
use e2e::sheen;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Hosts that may serve the MGS and the MDT: the first ones.
pub const SERVERS: usize = 3;
/// The host of the OSTs.
const DATA: usize = SERVERS + 1;
/// The hosts of the two clients.
const CLIENTS: [usize; 2] = [DATA + 1, DATA + 2];
/// The hosts of etcd.
const ETCD: [usize; 3] = [DATA + 3, DATA + 4, DATA + 5];
const HOSTS: usize = DATA + 5;
/// The host of the servers that has a mount of its own.
const BESIDE_AT: usize = 1;
/// The number of that mount, behind those of the clients.
pub const BESIDE: usize = CLIENTS.len();
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a host is cut off, or stopped, milliseconds: longer than a lease.
const AWAY_MS: std::ops::Range<u64> = 3_000..7_000;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An owner is killed.
    Kill,
    /// An owner is killed, and loses its folders.
    KillWithFolder,
    /// An owner's host loses its network.
    Cut,
    /// An owner is stopped, and goes on later.
    Stop,
    /// The leader of etcd is killed.
    EtcdLeader,
    /// A majority of etcd is stopped, and goes on later.
    EtcdMajority,
}

impl Fault {
    /// As often as is asked for: 200 kills, 100 cuts, 50 stops.
    pub fn any(rng: &mut fastrand::Rng) -> Fault {
        match rng.u32(0..400) {
            0..100 => Fault::Kill,
            100..200 => Fault::KillWithFolder,
            200..300 => Fault::Cut,
            300..350 => Fault::Stop,
            350..380 => Fault::EtcdLeader,
            _ => Fault::EtcdMajority,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "killed",
            Fault::KillWithFolder => "killed, folder lost",
            Fault::Cut => "cut",
            Fault::Stop => "stopped",
            Fault::EtcdLeader => "etcd leader killed",
            Fault::EtcdMajority => "etcd majority stopped",
        }
    }
}

/// All of them.
pub struct Site {
    dir: tempfile::TempDir,
    etcd: Members,
    servers: Vec<Option<Child>>,
    data: Option<Child>,
    mounts: Vec<PathBuf>,
    log: String,
    /// Last: the namespaces go when all processes are gone.
    hosts: Hosts,
}

/// Waits for a state.
pub fn until(what: &str, logs: impl Fn() -> String, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never: {what}\n{}", logs());
        thread::sleep(Duration::from_millis(20));
    }
}

impl Site {
    /// Starts everything; `None`, with a printed reason, where that cannot be done.
    pub fn up() -> Option<Site> {
        let hosts = Hosts::new(HOSTS)?;
        let place = |n: usize| {
            // Namespaces live as long as the hosts, which outlive the members.
            let name = hosts.namespace(n);
            Place {
                ip: hosts.address(n),
                client: 2379,
                peer: 2380,
                run: Box::new(move |program| e2e::hosts::in_namespace(&name, program)),
            }
        };
        let etcd = or_skip(Members::start_at(ETCD.map(place).into_iter().collect()))?;
        hosts.on(CLIENTS[0], || etcd.wait());
        let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
        let log = etcd.url();
        let mounts = ["mnt0", "mnt1", "beside"].map(|name| dir.path().join(name)).to_vec();
        let servers = (0..SERVERS).map(|_| None).collect();
        let mut site = Site { dir, etcd, servers, data: None, mounts, log, hosts };
        (1..=SERVERS).for_each(|n| site.format(n));
        let nids = site.nids();
        let data = site.path("ost").display().to_string();
        site.sheen(DATA, &["mkfs", "--ost", "--index", "0", "--mgsnode", &nids, &data]);
        site.data = Some(site.serve(DATA, "data", &["ost".to_owned()]));
        (1..=SERVERS).for_each(|n| site.start(n));
        for (n, host) in CLIENTS.into_iter().chain([BESIDE_AT]).enumerate() {
            site.mount_at(n, host);
        }
        site.is_whole();
        Some(site)
    }

    /// A path of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Mount point of a client.
    pub fn mount(&self, n: usize) -> PathBuf {
        self.mounts[n].clone()
    }

    fn nids(&self) -> String {
        let nids: Vec<String> =
            (1..=SERVERS).map(|n| format!("{}@tcp", self.hosts.address(n))).collect();
        nids.join(",")
    }

    fn command(&self, host: usize) -> Command {
        let mut command = self.hosts.command(host, &sheen());
        command.env(RUN_DIR, self.path("run")).stdin(Stdio::null());
        command
    }

    fn sheen(&self, host: usize, args: &[&str]) -> Output {
        let output = self.command(host).args(args).output().expect("sheen runs");
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
        output
    }

    /// The folders of a host: its MGT, its MDT.
    fn targets(&self, n: usize) -> [String; 2] {
        ["mgt", "mdt"].map(|kind| format!("host{n}/{kind}"))
    }

    fn format(&self, n: usize) {
        let nids = self.nids();
        let [mgt, mdt] = self.targets(n).map(|dir| self.path(&dir).display().to_string());
        let shared = ["--servicenode", &nids, "--log", &self.log];
        self.sheen(n, &[&["mkfs", "--mgs"][..], &shared, &[&mgt]].concat());
        let place = ["mkfs", "--mdt", "--index", "0", "--mgsnode", &nids];
        self.sheen(n, &[&place[..], &shared, &[&mdt]].concat());
    }

    fn start(&mut self, n: usize) {
        let child = self.serve(n, &format!("host{n}"), &self.targets(n));
        self.servers[n - 1] = Some(child);
    }

    fn serve(&self, host: usize, name: &str, targets: &[String]) -> Child {
        let log = self.path(&format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = self.command(host);
        command.arg("serve").args(targets.iter().map(|target| self.path(target)));
        command.args(["--listen", &format!("{}:988", self.hosts.address(host))]);
        command.args(["--security", "off"]).stdout(Stdio::null()).stderr(log);
        command.spawn().expect("sheen runs")
    }

    fn mount_at(&self, n: usize, host: usize) {
        let at = &self.mounts[n];
        fs::create_dir_all(at).expect("make a folder");
        let log = format!("log={}", self.path(&format!("client{n}.log")).display());
        let source = format!("{}:/sheen", self.nids().replace(',', ":"));
        // The MDT registers when its host owns it.
        until(
            "the file system can be mounted",
            || self.logs(),
            || {
                let mut command = self.command(host);
                command.args(["mount", "-o", &log, &source]).arg(at);
                command.output().expect("sheen runs").status.success()
            },
        );
    }

    /// The state of a host as `sheen status` tells it.
    fn status(&self, n: usize) -> Option<serde_json::Value> {
        let home = self.path(&self.targets(n)[0]);
        let output = self.command(n).arg("status").arg(home).arg("--json").output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The logs that a host sees, in its own words.
    fn log_of(&self, n: usize, target: &str) -> Option<serde_json::Value> {
        let status = self.status(n)?;
        let logs = status.get("logs")?.as_array()?.clone();
        logs.into_iter().find(|log| log["target"] == target)
    }

    /// The host that owns a target, as etcd says.
    fn owner(&self, target: &str) -> Option<usize> {
        for n in (1..=SERVERS).filter(|n| self.servers[n - 1].is_some()) {
            let Some(log) = self.log_of(n, target) else { continue };
            let Some(owner) = log["owner"].as_str() else { continue };
            return (1..=SERVERS).find(|n| owner.contains(&format!("/host{n}/")));
        }
        None
    }

    fn owner_of_any(&self, rng: &mut fastrand::Rng) -> usize {
        let target = ["sheen-MDT0000", "MGS"][rng.usize(0..2)];
        let mut owner = None;
        until(
            "there is an owner",
            || self.logs(),
            || {
                owner = self.owner(target);
                owner.is_some()
            },
        );
        owner.expect("just found")
    }

    /// Waits until every host has both targets, whole, as owner or standby.
    pub fn is_whole(&self) {
        let whole = || {
            ["MGS", "sheen-MDT0000"].iter().all(|target| {
                let Some(log) = self.log_of(1, target) else { return false };
                let (head, none) = (log["head"].as_u64().unwrap_or(0), Vec::new());
                let hosts = log["hosts"].as_array().unwrap_or(&none);
                let near = |host: &&serde_json::Value| {
                    host["applied"].as_u64().is_some_and(|applied| applied + 500 > head)
                };
                let is_owned = hosts.iter().any(|host| host["owner"] == true);
                is_owned && hosts.iter().filter(near).count() == SERVERS && log["trouble"].is_null()
            })
        };
        until("all hosts are there", || self.logs(), whole);
    }

    fn kill(&mut self, n: usize) {
        let mut child = self.servers[n - 1].take().expect("it runs");
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    /// Lets something happen, and ends it. Returns its object.
    pub fn inflict(&mut self, fault: Fault, rng: &mut fastrand::Rng) -> String {
        let away = Duration::from_millis(rng.u64(AWAY_MS));
        match fault {
            Fault::Kill | Fault::KillWithFolder => {
                let n = self.owner_of_any(rng);
                self.kill(n);
                thread::sleep(Duration::from_millis(rng.u64(100..3_000)));
                if fault == Fault::KillWithFolder {
                    fs::remove_dir_all(self.path(&format!("host{n}"))).expect("remove");
                    self.format(n);
                }
                self.start(n);
                format!("host {n}")
            }
            Fault::Cut => {
                let n = self.owner_of_any(rng);
                self.hosts.cable(n, false);
                thread::sleep(away);
                self.hosts.cable(n, true);
                format!("host {n}{}", if n == BESIDE_AT { ", with a client" } else { "" })
            }
            Fault::Stop => {
                let n = self.owner_of_any(rng);
                let pid = self.servers[n - 1].as_ref().expect("it runs").id() as i32;
                signal(pid, libc::SIGSTOP);
                thread::sleep(away);
                signal(pid, libc::SIGCONT);
                format!("host {n}")
            }
            Fault::EtcdLeader => {
                let leader = self.hosts.on(CLIENTS[0], || self.etcd.leader());
                let n = leader.unwrap_or_else(|| rng.usize(0..3));
                self.etcd.kill(n);
                thread::sleep(Duration::from_millis(rng.u64(500..2_000)));
                self.etcd.start_again(n);
                format!("member {n}{}", if leader.is_none() { ", no leader is known" } else { "" })
            }
            Fault::EtcdMajority => {
                let spared = rng.usize(0..3);
                let others = || (0..3).filter(|n| *n != spared);
                others().for_each(|n| self.etcd.stop(n));
                thread::sleep(away);
                others().for_each(|n| self.etcd.go_on(n));
                format!("all but member {spared}")
            }
        }
    }

    /// The checker finds nothing.
    pub fn fsck(&self) {
        let checked = self.sheen(CLIENTS[0], &["fsck", &self.nids()]);
        println!(
            "fsck: {}",
            String::from_utf8_lossy(&checked.stdout).trim_end().replace('\n', "; ")
        );
    }

    /// Unmounts everything in order.
    pub fn unmount(&self) {
        for mount in &self.mounts {
            let output = Command::new("umount").arg(mount).output().expect("umount runs");
            assert!(output.status.success(), "umount: {}\n{}", text(&output), self.logs());
        }
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let names = ["host1", "host2", "host3", "data", "client0", "client1", "client2"];
        let end = |name: &str| {
            let log = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            format!("--- {name} ---\n{}\n", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        names.map(end).concat()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for mount in self.mounts.iter().filter(|mount| is_mounted(mount)) {
            detach(mount);
        }
        for child in self.servers.iter_mut().chain([&mut self.data]).flatten() {
            // It may have ended, or be stopped.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}
