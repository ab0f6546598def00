//! A SheenFS whose MGS, MDS, two OSS and clients are separate processes, each on a host (network
//! namespace) of its own. Further MDS share the host of the first one.

use crate::cluster::RUN_DIR;
use crate::hosts::Hosts;
use crate::process::{detach, detach_dying, is_gone, is_mounted, kill_and_wait, signal, text};
use crate::sheen;
use crate::tap::Tap;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// One server process and its targets.
struct Server {
    host: usize,
    port: u16,
    name: &'static str,
    /// Folders of its targets.
    targets: &'static [&'static str],
    child: Option<Child>,
}

/// Host of the first client.
const FIRST_CLIENT: usize = 5;
/// Clients, at most.
const CLIENTS_MAX: usize = 4;
/// Size of each big file.
const VOLUME_SIZE: &str = "256M";
/// A server that was started serves its targets by then.
const SERVES: Duration = Duration::from_secs(30);
/// Port of the first server of each host.
const PORT: u16 = 988;
/// Further MDS and their targets, from index 1 on.
const MORE_MDS: [(&str, &[&str]); 3] =
    [("mds1", &["mdt1"]), ("mds2", &["mdt2"]), ("mds3", &["mdt3"])];

/// Variable that asks for keys: each server and client then has one of its own.
pub const KEYS: &str = "E2E_KEYS";

/// A mount and the options it is made with.
pub struct Client {
    /// The mount point.
    pub mount: PathBuf,
    /// As after `mount -o`; may be empty.
    pub options: String,
}

/// Servers on hosts 1 to 4, clients on host 5 and those that follow.
pub struct Many {
    hosts: Hosts,
    dir: PathBuf,
    clients: Vec<Client>,
    /// Stripes of a new file.
    stripes: String,
    servers: Vec<Server>,
    /// The cluster asks for keys.
    secured: bool,
}

impl Many {
    /// Formats and starts everything, with `stripes` stripes for each new file; `None` where
    /// namespaces cannot be made.
    pub fn up(dir: &Path, clients: Vec<Client>, stripes: &str) -> Option<Many> {
        Many::up_with_mdts(dir, clients, stripes, 1)
    }

    /// As [`Many::up`], with the data of each OST in a big file (`--backfstype=volume`).
    pub fn up_on_volumes(dir: &Path, clients: Vec<Client>, stripes: &str) -> Option<Many> {
        Many::made(dir, clients, stripes, 1, true)
    }

    /// As [`Many::up`], with 1 to 4 MDS of an MDT each; those behind the first come after all other
    /// servers.
    pub fn up_with_mdts(
        dir: &Path,
        clients: Vec<Client>,
        stripes: &str,
        mdts: usize,
    ) -> Option<Many> {
        Many::made(dir, clients, stripes, mdts, false)
    }

    fn made(
        dir: &Path,
        clients: Vec<Client>,
        stripes: &str,
        mdts: usize,
        on_volumes: bool,
    ) -> Option<Many> {
        assert!((1..=CLIENTS_MAX).contains(&clients.len()), "1 to {CLIENTS_MAX} clients");
        let hosts = Hosts::new(FIRST_CLIENT + clients.len() - 1)?;
        let server = |host, name, targets| Server { host, port: PORT, name, targets, child: None };
        let mut servers = vec![
            server(1, "mgs", &["mgt"]),
            server(2, "mds", &["mdt"]),
            server(3, "oss0", &["ost0", "ost1"]),
            server(4, "oss1", &["ost2", "ost3"]),
        ];
        for ((name, targets), port) in MORE_MDS.into_iter().take(mdts - 1).zip(PORT + 1..) {
            servers.push(Server { port, ..server(2, name, targets) });
        }
        let stripes = stripes.to_owned();
        let secured = std::env::var_os(KEYS).is_some();
        let mut many = Many { hosts, dir: dir.to_owned(), clients, stripes, servers, secured };
        std::fs::create_dir_all(&many.dir).expect("make a folder");
        for client in &many.clients {
            std::fs::create_dir_all(&client.mount).expect("make a folder");
        }
        let mgs = many.mgs_nid();
        many.mkfs(&["--mgs"], "mgt");
        if secured {
            let mgt = many.dir.join("mgt");
            many.auth(&["init", mgt.to_str().expect("a path of a test"), "--mgsnode", &mgs]);
        }
        many.mkfs(&["--mdt", "--fsname", "sheen", "--mgsnode", &mgs], "mdt");
        for (index, (_, targets)) in (1..mdts).zip(MORE_MDS) {
            let index = index.to_string();
            many.mkfs(
                &["--mdt", "--index", &index, "--fsname", "sheen", "--mgsnode", &mgs],
                targets[0],
            );
        }
        // Indexes are given, because the order in which the servers register is not fixed.
        for index in ["0", "1", "2", "3"] {
            let ost = format!("ost{index}");
            let usual = ["--ost", "--index", index, "--fsname", "sheen", "--mgsnode", &mgs];
            let device = many.dir.join(format!("{ost}.volume"));
            let device = device.to_str().expect("a path of a test");
            let volume = ["--backfstype=volume", "--device", device, "--device-size", VOLUME_SIZE];
            let more = if on_volumes { &volume[..] } else { &[] };
            many.mkfs(&[&usual[..], more].concat(), &ost);
        }
        many.start();
        Some(many)
    }

    /// Runs `sheen auth`; what it says.
    fn auth(&self, args: &[&str]) -> String {
        let mut command = Command::new(sheen());
        command.arg("auth").args(args).stdin(Stdio::null());
        let output = command.output().expect("sheen runs");
        assert!(output.status.success(), "sheen auth {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    fn key_folder(&self, name: &str) -> PathBuf {
        self.dir.join("keys").join(name)
    }

    /// The file with the key of this name, which is made if it is not there; `None`: the cluster
    /// asks for none.
    fn key(&self, name: &str, role: &str) -> Option<String> {
        let (path, mgt) = (self.key_folder(name).join("key.pem"), self.dir.join("mgt"));
        let (text, mgt) = (path.to_str()?.to_owned(), mgt.to_str()?);
        if self.secured && !path.exists() {
            std::fs::create_dir_all(self.key_folder(name)).expect("make a folder");
            let key = self.auth(&["issue", mgt, "--name", name, "--role", role]);
            std::fs::write(&path, key).expect("write");
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("private");
        }
        self.secured.then_some(text)
    }

    /// Beside the cluster's folder, as [`crate::cluster::Cluster::run_dir`] says.
    fn run_dir(&self) -> PathBuf {
        self.dir.with_file_name("run")
    }

    fn mgs_nid(&self) -> String {
        format!("{}@tcp", self.hosts.address(1))
    }

    fn mkfs(&self, args: &[&str], name: &str) {
        let output = Command::new(sheen())
            .arg("mkfs")
            .args(args)
            .arg(self.dir.join(name))
            .output()
            .expect("sheen runs");
        assert!(output.status.success(), "sheen mkfs {args:?}: {}", text(&output));
    }

    /// Adds an MDS with an MDT to the file system at work, and waits until all clients know it.
    /// Returns its place among the servers.
    pub fn add_mds(&mut self) -> usize {
        let mdts = self.servers.iter().flat_map(|s| s.targets).filter(|t| t.starts_with("mdt"));
        let index = mdts.count();
        let (name, targets) = MORE_MDS[index - 1];
        let (port, mgs) = (PORT + index as u16, self.mgs_nid()); // at most 3 more
        let number = index.to_string();
        self.mkfs(
            &["--mdt", "--index", &number, "--fsname", "sheen", "--mgsnode", &mgs],
            targets[0],
        );
        self.servers.push(Server { host: 2, port, name, targets, child: None });
        let at = self.servers.len() - 1;
        self.start_server(at, &mgs);
        self.clients.iter().for_each(|client| self.wait_for_targets(&client.mount));
        at
    }

    /// Starts the servers that do not run, and mounts.
    pub fn start(&mut self) {
        let mgs = self.mgs_nid();
        for at in 0..self.servers.len() {
            self.start_server(at, &mgs);
        }
        (0..self.clients.len())
            .filter(|n| !is_mounted(&self.clients[*n].mount))
            .for_each(|n| self.mount_client(n));
    }

    /// Mount points, in the order of the clients.
    pub fn mounts(&self) -> Vec<PathBuf> {
        self.clients.iter().map(|client| client.mount.clone()).collect()
    }

    /// Mounts client `n` (from 0), which is not mounted, and waits until it knows every MDT and
    /// OST.
    pub fn mount_client(&self, n: usize) {
        let Client { mount, options } = &self.clients[n];
        let mut command = self.hosts.command(FIRST_CLIENT + n, &sheen());
        let log = format!("log={}", self.client_log(n).display());
        let options = if options.is_empty() { log } else { format!("{options},{log}") };
        let options = match self.key(&format!("client{n}"), "client") {
            Some(key) => format!("{options},key={key}"),
            None => options,
        };
        command
            .arg("mount")
            .args(["-o", &options])
            .arg(format!("{}:/sheen", self.mgs_nid()))
            .arg(mount);
        command.env(RUN_DIR, self.run_dir());
        let output = command.stdin(Stdio::null()).output().expect("sheen runs");
        assert!(output.status.success(), "sheen mount: {}\n{}", text(&output), self.logs());
        assert!(is_mounted(mount), "sheen mount succeeded, but {} is no mount", mount.display());
        self.wait_for_targets(mount);
    }

    /// Tries to mount this directory of the file system (`/a/b`; empty: all of it) where client
    /// `n`, which is not mounted, has its mount point.
    pub fn try_mount_directory(&self, n: usize, directory: &str) -> Output {
        let mut command = self.hosts.command(FIRST_CLIENT + n, &sheen());
        command
            .arg("mount")
            .args(["-o", &format!("log={}", self.client_log(n).display())])
            .arg(format!("{}:/sheen{directory}", self.mgs_nid()))
            .arg(&self.clients[n].mount);
        command.env(RUN_DIR, self.run_dir()).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    fn client_log(&self, n: usize) -> PathBuf {
        self.dir.join(format!("client{n}.log"))
    }

    /// The log of client `n` so far.
    pub fn log_of_client(&self, n: usize) -> String {
        std::fs::read_to_string(self.client_log(n)).unwrap_or_default()
    }

    /// Process of client `n`.
    pub fn client_pid(&self, n: usize) -> i32 {
        let pids = daemons(&self.clients[n].mount);
        assert_eq!(pids.len(), 1, "processes of {}", self.clients[n].mount.display());
        pids[0]
    }

    /// Address of the host of client `n`.
    pub fn client_address(&self, n: usize) -> String {
        self.hosts.address(FIRST_CLIENT + n)
    }

    /// A tap on the network cable of client `n`.
    pub fn tap_client(&self, n: usize) -> Tap {
        Tap::on(&self.hosts.interface(FIRST_CLIENT + n)).expect("a tap")
    }

    /// Address and port of the MDS.
    pub fn mds_address(&self) -> String {
        format!("{}:988", self.hosts.address(self.servers[1].host))
    }

    /// Address and port of a server process.
    pub fn server_address(&self, at: usize) -> String {
        let Server { host, port, .. } = &self.servers[at];
        format!("{}:{port}", self.hosts.address(*host))
    }

    /// Runs `work` in a thread on the host of client `n`.
    pub fn on_client<T: Send>(&self, n: usize, work: impl FnOnce() -> T + Send) -> T {
        self.hosts.on(FIRST_CLIENT + n, work)
    }

    /// Unmounts client `n` in order.
    pub fn unmount_client(&self, n: usize) {
        let mount = &self.clients[n].mount;
        let pid = self.client_pid(n);
        crate::programs::sh(Path::new("/"), &format!("umount {}", mount.display()));
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_gone(pid) {
            assert!(Instant::now() < deadline, "the client does not end\n{}", self.logs());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops client `n` from running (SIGSTOP), as a machine that hangs.
    pub fn suspend_client(&self, n: usize) {
        signal(self.client_pid(n), libc::SIGSTOP);
    }

    /// Lets it run again.
    pub fn resume_client(&self, n: usize) {
        signal(self.client_pid(n), libc::SIGCONT);
    }

    /// Pulls the network cable of client `n`.
    pub fn cut_client(&self, n: usize) {
        self.hosts.cable(FIRST_CLIENT + n, false);
    }

    /// Plugs it in again.
    pub fn heal_client(&self, n: usize) {
        self.hosts.cable(FIRST_CLIENT + n, true);
    }

    /// Kills the process of client `n`; its mount stays, dead. [`Many::detach_client`] takes it
    /// away.
    pub fn kill_client(&self, n: usize) {
        kill_and_wait(self.client_pid(n));
    }

    /// Takes a dead mount away.
    pub fn detach_client(&self, n: usize) {
        detach(&self.clients[n].mount);
    }

    /// Servers start in any order and a client hears of new ones while it is mounted: waits until
    /// it knows them all.
    fn wait_for_targets(&self, mount: &Path) {
        let deadline = Instant::now() + Duration::from_secs(30);
        for (kind, question, mark) in [("mdt", "mdts", "-MDT"), ("ost", "osts", "-OST")] {
            let all =
                self.servers.iter().flat_map(|s| s.targets).filter(|t| t.starts_with(kind)).count();
            loop {
                let output = Command::new(sheen())
                    .args(["lfs", question])
                    .arg(mount)
                    .output()
                    .expect("sheen runs");
                if text(&output).matches(mark).count() == all {
                    break;
                }
                assert!(
                    Instant::now() < deadline,
                    "the client does not see {all} {question}: {}\n{}",
                    text(&output),
                    self.logs()
                );
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn start_server(&mut self, at: usize, mgs: &str) {
        let Server { host, port, name, targets, child } = &self.servers[at];
        if child.is_some() {
            return;
        }
        let address: SocketAddr =
            format!("{}:{port}", self.hosts.address(*host)).parse().expect("an address");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join(format!("{name}.log")))
            .expect("a log");
        let mut command = self.hosts.command(*host, &sheen());
        command.env(RUN_DIR, self.run_dir());
        command.arg("serve").args(targets.iter().map(|target| self.dir.join(target)));
        command.arg("--listen").arg(address.to_string()).args(["--stripe-count", &self.stripes]);
        // Tests with servers on hosts of their own are about objects, also of small files.
        command.args(["--dom-size", "0"]);
        if !self.secured {
            command.args(["--security", "off"]);
        }
        if *name != "mgs" {
            command.arg("--mgsnode").arg(mgs);
            // The MGS has its own beside the authority.
            self.key(name, "server").into_iter().for_each(|key| _ = command.args(["--key", &key]));
        }
        let spawned = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("sheen runs");
        let mut probe = self.hosts.command(*host, Path::new("bash"));
        probe.args([
            "-c",
            &format!(
                "for i in $(seq 200); do (: < /dev/tcp/{}/{port}) 2> /dev/null && exit 0; sleep 0.05; done; exit 1",
                address.ip()
            ),
        ]);
        let answers = probe.status().expect("bash runs").success();
        self.servers[at].child = Some(spawned);
        assert!(answers, "{} does not listen at {address}\n{}", self.servers[at].name, self.logs());
    }

    /// Unmounts and stops every server in order.
    pub fn stop(&mut self) {
        let pids: Vec<i32> =
            self.clients.iter().flat_map(|client| daemons(&client.mount)).collect();
        for client in &self.clients {
            let output = Command::new("umount").arg(&client.mount).output().expect("umount runs");
            assert!(output.status.success(), "umount: {}", text(&output));
        }
        // umount(8) returns before the process behind the mount has stored what was written last.
        let deadline = Instant::now() + Duration::from_secs(120);
        while !pids.iter().all(|pid| is_gone(*pid)) {
            assert!(Instant::now() < deadline, "a mount's process lives on\n{}", self.logs());
            thread::sleep(Duration::from_millis(10));
        }
        for at in (0..self.servers.len()).rev() {
            let Some(mut child) = self.servers[at].child.take() else { continue };
            // SAFETY: kill has no memory effects; the pid is our child, not yet waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
            let deadline = Instant::now() + Duration::from_secs(30);
            let status = loop {
                if let Some(status) = child.try_wait().expect("wait for a server") {
                    break status;
                }
                assert!(
                    Instant::now() < deadline,
                    "{} ignores SIGTERM\n{}",
                    self.servers[at].name,
                    self.logs()
                );
                thread::sleep(Duration::from_millis(10));
            };
            assert!(
                status.success(),
                "{} ended with {status}\n{}",
                self.servers[at].name,
                self.logs()
            );
        }
    }

    /// `sheen fsck` of the cluster at work, by the host of a server, with these arguments. A server
    /// that has just been started may not serve its targets yet: then it is run again.
    pub fn fsck(&self, args: &[&str]) -> Output {
        let until = Instant::now() + SERVES;
        loop {
            let mut command = self.hosts.command(self.servers[0].host, &sheen());
            command
                .arg("fsck")
                .args(args)
                .arg(self.mgs_nid())
                .env(RUN_DIR, self.run_dir())
                .stdin(Stdio::null());
            let checked = command.output().expect("sheen runs");
            let starts = String::from_utf8_lossy(&checked.stderr).contains(" does not serve ");
            if !starts || Instant::now() > until {
                return checked;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// `sheen fsck` of the targets' folders, while no server runs, with these arguments.
    pub fn fsck_at_rest(&self, args: &[&str]) -> Output {
        let targets = self
            .servers
            .iter()
            .flat_map(|server| server.targets)
            .map(|target| self.dir.join(target));
        let mut command = Command::new(sheen());
        command.arg("fsck").args(args).args(targets).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    /// Number of server processes.
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Name of a server process: `mgs`, `mds`, `oss0`, `oss1`, `mds1`, ...
    pub fn server_name(&self, at: usize) -> &'static str {
        self.servers[at].name
    }

    /// Pulls the network cable of a server's host; the process lives on.
    pub fn cut_server(&self, at: usize) {
        self.hosts.cable(self.servers[at].host, false);
    }

    /// Plugs it in again.
    pub fn heal_server(&self, at: usize) {
        self.hosts.cable(self.servers[at].host, true);
    }

    /// Kills one server process (SIGKILL).
    pub fn kill_server(&mut self, at: usize) {
        if let Some(mut child) = self.servers[at].child.take() {
            child.kill().expect("kill a server");
            child.wait().expect("wait for a server");
        }
    }

    /// Stops a server process from running (SIGSTOP), as a machine that hangs.
    pub fn suspend_server(&self, at: usize) {
        signal(self.servers[at].child.as_ref().expect("it runs").id() as i32, libc::SIGSTOP);
    }

    /// Lets it run again.
    pub fn resume_server(&self, at: usize) {
        signal(self.servers[at].child.as_ref().expect("it runs").id() as i32, libc::SIGCONT);
    }

    /// `sheen` as an administrator would run it, with the daemons of all hosts in sight.
    pub fn sheen(&self, args: &[&str]) -> Output {
        let mut command = Command::new(sheen());
        command.args(args).env(RUN_DIR, self.run_dir()).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    /// As [`Many::sheen`], with this server alone in sight, which runs.
    pub fn sheen_at(&self, at: usize, args: &[&str]) -> Output {
        let pid = self.servers[at].child.as_ref().expect("it runs").id().to_string();
        let alone = self.dir.with_file_name(format!("run-{}", self.servers[at].name));
        std::fs::create_dir_all(&alone).expect("make a folder");
        let entry = alone.join(&pid);
        if !entry.exists() {
            symlink(self.run_dir().join(&pid), &entry).expect("make a link");
        }
        let mut command = Command::new(sheen());
        command.args(args).env(RUN_DIR, alone).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    /// Place among the servers of the MDS that serves this MDT.
    pub fn mds_of(&self, mdt: u16) -> usize {
        let name = match mdt {
            0 => "mds",
            more => MORE_MDS[usize::from(more) - 1].0,
        };
        self.servers.iter().position(|server| server.name == name).expect("there is such an MDT")
    }

    /// The file system has an MDS less for good: it is not started again, nor waited for. It does
    /// not run.
    pub fn forget_server(&mut self, at: usize) {
        let gone = self.servers.remove(at);
        assert!(gone.child.is_none(), "{} runs", gone.name);
    }

    /// Starts a server process that was killed, with what is in its folders.
    pub fn start_server_again(&mut self, at: usize) {
        let mgs = self.mgs_nid();
        self.start_server(at, &mgs);
    }

    /// Kills every process at once: servers and clients.
    pub fn kill(&mut self) {
        let (servers, clients): (Vec<_>, Vec<_>) =
            ((0..self.servers.len()).collect(), (0..self.clients.len()).collect());
        self.kill_together(&servers, &clients);
    }

    /// Kills these servers and clients in the same instant: all have their signal before the end of
    /// any is waited for. The mounts of the clients are taken away.
    pub fn kill_together(&mut self, servers: &[usize], clients: &[usize]) {
        let pids: Vec<i32> =
            clients.iter().flat_map(|n| daemons(&self.clients[*n].mount)).collect();
        let mut ended: Vec<Child> =
            servers.iter().filter_map(|at| self.servers[*at].child.take()).collect();
        for pid in ended.iter().map(|child| child.id() as i32).chain(pids.iter().copied()) {
            signal(pid, libc::SIGKILL);
        }
        for child in &mut ended {
            child.wait().expect("wait for a server");
        }
        clients.iter().for_each(|n| detach_dying(&self.clients[*n].mount));
        pids.into_iter().for_each(kill_and_wait);
    }

    /// MDT0000, which has just been started again, waits no longer for clients that have not come.
    pub fn abort_recovery(&self) {
        self.abort_recovery_of("sheen-MDT0000");
    }

    /// The same for any MDT.
    pub fn abort_recovery_of(&self, mdt: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let output = self.sheen(&["lctl", "--device", mdt, "abort_recovery"]);
            if output.status.success() {
                return;
            }
            // It listens before it has the device.
            assert!(
                Instant::now() < deadline,
                "sheen lctl abort_recovery: {}\n{}",
                text(&output),
                self.logs()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let mut all = String::new();
        let clients = (0..self.clients.len()).map(|n| format!("client{n}"));
        for name in self.servers.iter().map(|server| server.name.to_owned()).chain(clients) {
            let log =
                std::fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            all += &format!(
                "--- {name} ---\n{}\n",
                lines[lines.len().saturating_sub(15)..].join("\n")
            );
        }
        all
    }
}

/// SheenFS processes whose command line names this mount point.
pub fn daemons(mount: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = command.split(|b| *b == 0).collect();
        // Whatever the binary is called, its daemon calls itself so.
        let ours = words[0] == b"sheen"
            && words.iter().any(|word| Path::new(OsStr::from_bytes(word)) == mount);
        if ours {
            pids.push(pid);
        }
    }
    pids
}

impl Drop for Many {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for client in &self.clients {
            if is_mounted(&client.mount) {
                detach(&client.mount);
            }
            // A process that was left stopped dies of SIGKILL all the same.
            daemons(&client.mount).into_iter().for_each(kill_and_wait);
        }
        for server in &mut self.servers {
            if let Some(mut child) = server.child.take() {
                let ended = child.kill().and_then(|()| child.wait().map(|_| ()));
                if let Err(error) = ended {
                    eprintln!("end {}: {error}", server.name);
                }
            }
        }
    }
}
