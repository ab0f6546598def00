//! A SheenFS whose MGS, MDS, two OSS and client are separate processes, each on a host (network namespace) of its own.

use crate::hosts::Hosts;
use crate::process::{detach, is_mounted, kill_and_wait, text};
use crate::sheen;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One server process and what it serves.
struct Server {
    host: usize,
    name: &'static str,
    /// Folders of its targets.
    targets: &'static [&'static str],
    child: Option<Child>,
}

/// Servers on hosts 1 to 4, the client on host 5.
pub struct Many {
    hosts: Hosts,
    dir: PathBuf,
    mount: PathBuf,
    /// Stripes of a new file.
    stripes: String,
    servers: Vec<Server>,
}

impl Many {
    /// Formats and starts everything, with `stripes` stripes for each new file; `None` where namespaces cannot be made.
    pub fn up(dir: &Path, mount: &Path, stripes: &str) -> Option<Many> {
        let hosts = Hosts::new(5)?;
        let server = |host, name, targets| Server { host, name, targets, child: None };
        let servers = vec![
            server(1, "mgs", &["mgt"]),
            server(2, "mds", &["mdt"]),
            server(3, "oss0", &["ost0", "ost1"]),
            server(4, "oss1", &["ost2", "ost3"]),
        ];
        let stripes = stripes.to_owned();
        let mut many = Many { hosts, dir: dir.to_owned(), mount: mount.to_owned(), stripes, servers };
        std::fs::create_dir_all(&many.dir).expect("make a folder");
        std::fs::create_dir_all(&many.mount).expect("make a folder");
        let mgs = many.mgs_nid();
        many.mkfs(&["--mgs"], "mgt");
        many.mkfs(&["--mdt", "--fsname", "sheen", "--mgsnode", &mgs], "mdt");
        for ost in ["ost0", "ost1", "ost2", "ost3"] {
            many.mkfs(&["--ost", "--fsname", "sheen", "--mgsnode", &mgs], ost);
        }
        many.start();
        Some(many)
    }

    fn mgs_nid(&self) -> String {
        format!("{}@tcp", self.hosts.address(1))
    }

    fn mkfs(&self, args: &[&str], name: &str) {
        let output =
            Command::new(sheen()).arg("mkfs").args(args).arg(self.dir.join(name)).output().expect("sheen runs");
        assert!(output.status.success(), "sheen mkfs {args:?}: {}", text(&output));
    }

    /// Starts the servers that do not run, and mounts.
    pub fn start(&mut self) {
        let mgs = self.mgs_nid();
        for at in 0..self.servers.len() {
            self.start_server(at, &mgs);
        }
        let mut command = self.hosts.command(5, &sheen());
        command.arg("mount").arg(format!("{mgs}:/sheen")).arg(&self.mount);
        let output = command.stdin(Stdio::null()).output().expect("sheen runs");
        assert!(output.status.success(), "sheen mount: {}\n{}", text(&output), self.logs());
        assert!(is_mounted(&self.mount), "sheen mount succeeded, but {} is no mount", self.mount.display());
        self.wait_for_osts();
    }

    /// Servers start in any order and a client hears of new ones while it is mounted: waits until it knows them all.
    fn wait_for_osts(&self) {
        let all: usize = self.servers.iter().flat_map(|s| s.targets).filter(|t| t.starts_with("ost")).count();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let output = Command::new(sheen()).args(["lfs", "osts"]).arg(&self.mount).output().expect("sheen runs");
            if text(&output).matches("-OST").count() == all {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "the client does not see {all} OSTs: {}\n{}",
                text(&output),
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn start_server(&mut self, at: usize, mgs: &str) {
        let Server { host, name, targets, child } = &self.servers[at];
        if child.is_some() {
            return;
        }
        let address: SocketAddr = format!("{}:988", self.hosts.address(*host)).parse().expect("an address");
        let log = File::options().create(true).append(true).open(self.dir.join(format!("{name}.log"))).expect("a log");
        let mut command = self.hosts.command(*host, &sheen());
        command.arg("serve").args(targets.iter().map(|target| self.dir.join(target)));
        command.arg("--listen").arg(address.to_string()).args(["--stripe-count", &self.stripes]);
        if *name != "mgs" {
            command.arg("--mgsnode").arg(mgs);
        }
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("sheen runs");
        let mut probe = self.hosts.command(*host, Path::new("bash"));
        probe.args([
            "-c",
            &format!(
                "for i in $(seq 200); do (: < /dev/tcp/{}/988) 2> /dev/null && exit 0; sleep 0.05; done; exit 1",
                address.ip()
            ),
        ]);
        let answers = probe.status().expect("bash runs").success();
        self.servers[at].child = Some(spawned);
        assert!(answers, "{} does not listen at {address}\n{}", self.servers[at].name, self.logs());
    }

    /// Unmounts and stops every server in order.
    pub fn stop(&mut self) {
        let output = Command::new("umount").arg(&self.mount).output().expect("umount runs");
        assert!(output.status.success(), "umount: {}", text(&output));
        for at in (0..self.servers.len()).rev() {
            let Some(mut child) = self.servers[at].child.take() else { continue };
            // SAFETY: kill has no memory effects; the pid is our child, not yet waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
            let deadline = Instant::now() + Duration::from_secs(30);
            let status = loop {
                if let Some(status) = child.try_wait().expect("wait for a server") {
                    break status;
                }
                assert!(Instant::now() < deadline, "{} ignores SIGTERM\n{}", self.servers[at].name, self.logs());
                std::thread::sleep(Duration::from_millis(10));
            };
            assert!(status.success(), "{} ended with {status}\n{}", self.servers[at].name, self.logs());
        }
    }

    /// Kills every process at once: servers and the client daemon.
    pub fn kill(&mut self) {
        for server in &mut self.servers {
            if let Some(mut child) = server.child.take() {
                child.kill().expect("kill a server");
                child.wait().expect("wait for a server");
            }
        }
        for pid in self.mount_daemons() {
            kill_and_wait(pid);
        }
        detach(&self.mount);
    }

    /// Processes of ours whose command line names our mount point.
    fn mount_daemons(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let mut words = command.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned());
            let ours = words.next().is_some_and(|program| program.ends_with("sheen"))
                && words.any(|word| Path::new(&word) == self.mount);
            if ours {
                pids.push(pid);
            }
        }
        pids
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let mut all = String::new();
        for server in &self.servers {
            let log = std::fs::read_to_string(self.dir.join(format!("{}.log", server.name))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            all += &format!("--- {} ---\n{}\n", server.name, lines[lines.len().saturating_sub(15)..].join("\n"));
        }
        all
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        if is_mounted(&self.mount) {
            detach(&self.mount);
        }
        for pid in self.mount_daemons() {
            kill_and_wait(pid);
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
