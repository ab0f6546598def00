//! Several networks: a client takes the NID of a server that is on its own network.

use e2e::can_mount;
use e2e::hosts::Hosts;
use e2e::process::{detach, is_mounted, kill_and_wait, text};
use e2e::sheen;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(120);

/// Hosts on two networks; daemons by name. Each host has its own registry of daemons.
struct Site {
    hosts: Hosts,
    dir: tempfile::TempDir,
    daemons: Vec<(String, Child)>,
    mounts: Vec<PathBuf>,
}

impl Site {
    /// `first`: hosts on the first network, as `eth0`; `second`: on the second one, as `eth1`.
    fn new(first: &[usize], second: &[usize]) -> Option<Site> {
        if !can_mount() {
            return None;
        }
        let hosts = Hosts::on_two_networks(first, second)?;
        let dir = tempfile::tempdir().expect("a folder");
        Some(Site { hosts, dir, daemons: Vec::new(), mounts: Vec::new() })
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn command(&self, host: usize) -> Command {
        let mut command = self.hosts.command(host, &sheen());
        command.env(e2e::cluster::RUN_DIR, self.at(&format!("run{host}"))).stdin(Stdio::null());
        command
    }

    fn must(&self, host: usize, args: &[&str]) -> String {
        let output = self.command(host).args(args).output().expect("sheen runs");
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
        String::from_utf8(output.stdout).expect("text")
    }

    /// `lnetctl` on a host.
    fn lnetctl(&self, host: usize, args: &[&str]) -> String {
        self.must(host, &[&["lnetctl"], args].concat())
    }

    /// A daemon in the foreground.
    fn start(&mut self, host: usize, name: &str, args: &[&str]) {
        let path = self.at(&format!("{name}.log"));
        let log = File::options().create(true).append(true).open(path).expect("a log");
        let mut command = self.command(host);
        command.args(args).stdout(Stdio::null()).stderr(log);
        self.daemons.push((name.to_owned(), command.spawn().expect("sheen runs")));
    }

    /// One server with all targets on host 1.
    fn serve(&mut self, networks: &str, more: &[&str]) {
        let targets = ["mgt", "mdt", "ost0", "ost1"].map(|name| self.at(name));
        if !Path::new(&targets[0]).exists() {
            self.must(1, &["mkfs", "--mgs", &targets[0]]);
            self.must(1, &["mkfs", "--mdt", "--index", "0", &targets[1]]);
            self.must(1, &["mkfs", "--ost", "--index", "0", &targets[2]]);
            self.must(1, &["mkfs", "--ost", "--index", "1", &targets[3]]);
        }
        let targets = targets.each_ref().map(String::as_str);
        let args = [&["serve"], &targets[..], &["--networks", networks], more].concat();
        self.start(1, "server", &args);
    }

    fn mount(&mut self, host: usize, source: &str, options: &str) -> PathBuf {
        let at = self.dir.path().join(format!("mnt{host}"));
        let output = self.try_mount(host, source, options, &at);
        assert!(output.status.success() && is_mounted(&at), "{}\n{}", text(&output), self.logs());
        self.mounts.push(at.clone());
        at
    }

    fn try_mount(&self, host: usize, source: &str, options: &str, at: &Path) -> Output {
        fs::create_dir_all(at).expect("a folder");
        let log = format!("{options},log={}", self.at(&format!("client{host}.log")));
        let mut command = self.command(host);
        command.args(["mount", "-o", &log, source]).arg(at);
        command.output().expect("sheen runs")
    }

    /// Waits until it is so.
    fn wait_for(&self, what: &str, is: impl Fn() -> bool) {
        let deadline = Instant::now() + SOON;
        while !is() {
            assert!(Instant::now() < deadline, "{what}: not within {SOON:?}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.at(&format!("{name}.log"))).unwrap_or_default()
    }

    fn wait_in_service(&self, name: &str) {
        self.wait_for(name, || self.log(name).contains("in service"));
    }

    fn logs(&self) -> String {
        let names = ["server", "router2", "router3", "client2", "client3", "client4"];
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

#[test]
fn a_client_takes_the_nid_on_its_own_network() {
    let Some(mut site) = Site::new(&[1, 2], &[1, 3]) else { return };
    site.serve("tcp(eth0),tcp1(eth1)", &["--security", "off"]);
    site.wait_in_service("server");
    let (first, second) = (site.hosts.address(1), site.hosts.second_address(1));
    let source = format!("{first}@tcp,{second}@tcp1:/sheen");
    let shown = site.lnetctl(1, &["net", "show", "-v"]);
    for (net, nid) in [("tcp", format!("{first}@tcp")), ("tcp1", format!("{second}@tcp1"))] {
        assert!(shown.contains(&format!("net type: {net}\n")), "{shown}");
        assert!(shown.contains(&format!("- nid: {nid}\n")), "{shown}");
    }

    // A client on neither network says so at once.
    let at = site.dir.path().join("nowhere");
    let output = site.try_mount(3, &source, "network=tcp9", &at);
    let said = text(&output);
    assert!(!output.status.success() && said.contains("not on the network"), "{said}");

    let one = site.mount(2, &source, "network=tcp");
    let other = site.mount(3, &source, "network=tcp1");
    let data: Vec<u8> = (0..4 << 20).map(|n: u32| (n % 251) as u8).collect();
    fs::write(one.join("f"), &data).expect("write");
    assert!(fs::read(other.join("f")).expect("read") == data);
    for (host, net) in [(2, "@tcp"), (3, "@tcp1")] {
        let peers = site.lnetctl(host, &["peer", "show"]);
        let nids: Vec<&str> =
            peers.lines().filter_map(|line| line.trim().strip_prefix("- nid: ")).collect();
        assert!(!nids.is_empty() && nids.iter().all(|nid| nid.ends_with(net)), "{host}: {peers}");
    }
    let mut lshowmount = site.command(1);
    let output = lshowmount.args(["lshowmount", "-e"]).output().expect("sheen runs");
    let clients = String::from_utf8_lossy(&output.stdout).into_owned();
    for client in
        [format!("{}@tcp", site.hosts.address(2)), format!("{}@tcp1", site.hosts.second_address(3))]
    {
        assert!(clients.lines().any(|line| line == client), "{client}: {clients}");
    }

    // The server leaves the network of the second client, and joins it again.
    site.lnetctl(1, &["net", "del", "--net", "tcp1"]);
    assert!(!site.lnetctl(1, &["net", "show"]).contains("tcp1"));
    site.lnetctl(1, &["net", "add", "--net", "tcp1", "--if", "eth1"]);
    fs::write(other.join("g"), b"after").expect("write");
    assert_eq!(fs::read(one.join("g")).expect("read"), b"after");
}
