//! Several networks: a client takes the NID of a server that is on its own network, and goes
//! through routers to servers on others.

use e2e::can_mount;
use e2e::hosts::Hosts;
use e2e::process::{detach, is_mounted, kill_and_wait, text};
use e2e::sheen;
use e2e::tap::Tap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use types::nid::Nid;
use types::session::ClusterId;
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::message::VERSION_MAX;
use wire::route::{ROUTE_BYTES, Route, Routed};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(120);
/// A silent router is left sooner than a silent host (30 s), also on a busy machine.
const SILENT_MAX: Duration = Duration::from_secs(20);
/// What must not be seen.
const MARKER: &str = "mArKeR-51c0ffee";

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

    fn kill(&mut self, name: &str) {
        let at = self.daemons.iter().position(|(known, _)| known == name).expect("it runs");
        let (_, mut child) = self.daemons.remove(at);
        child.kill().expect("it lives");
        child.wait().expect("it ends");
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

/// Server on the second network only, client on the first only, routers on both.
fn routed(security: &[&str]) -> Option<Site> {
    let mut site = Site::new(&[2, 3, 4], &[1, 2, 3])?;
    site.serve("tcp(eth1)", security);
    Some(site)
}

fn mgs(site: &Site) -> String {
    format!("{}@tcp", site.hosts.second_address(1))
}

fn start_router(site: &mut Site, host: usize, more: &[&str]) {
    let (name, mgs) = (format!("router{host}"), mgs(site));
    let networks = ["router", "--networks", "tcp1(eth0),tcp(eth1)", "--mgsnode", &mgs];
    site.start(host, &name, &[&networks[..], more].concat());
}

/// The file that tells the client its network and its routers.
fn client_file(site: &Site, routers: &[usize]) -> String {
    let gateways: Vec<String> =
        routers.iter().map(|host| format!("{}@tcp1", site.hosts.address(*host))).collect();
    let path = site.at("client.toml");
    let text = format!("networks = \"tcp1(eth0)\"\nroutes = \"tcp {}\"\n", gateways.join(" "));
    fs::write(&path, text).expect("write");
    path
}

/// A figure of `lnetctl routing show` on a router.
fn routing(site: &Site, host: usize, figure: &str) -> u64 {
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

#[test]
fn routers_that_are_killed_under_load_cost_no_error() {
    let Some(mut site) = routed(&["--security", "off"]) else { return };
    site.wait_in_service("server");
    for host in [2, 3] {
        start_router(&mut site, host, &["--security", "off"]);
    }
    site.wait_in_service("router2");
    site.wait_in_service("router3");
    let source = format!("{}:/sheen", mgs(&site));
    // There is no other way.
    let mut way = site.hosts.command(4, Path::new("ip"));
    let way = way.args(["route", "get", &site.hosts.second_address(1)]).output().expect("ip runs");
    assert!(!way.status.success(), "{}", text(&way));
    let alone = site.at("alone.toml");
    fs::write(&alone, "networks = \"tcp1(eth0)\"\n").expect("write");
    let at = site.dir.path().join("nowhere");
    let output = site.try_mount(4, &source, &format!("config={alone}"), &at);
    assert!(!output.status.success() && text(&output).contains("no route"), "{}", text(&output));

    let file = client_file(&site, &[2, 3]);
    let mnt = site.mount(4, &source, &format!("config={file}"));
    let routes = site.lnetctl(4, &["route", "show", "-v"]);
    assert_eq!(routes.matches("net: tcp\n").count(), 2, "{routes}");
    assert_eq!(routes.matches("state: up").count(), 2, "{routes}");

    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let written: u64 = std::thread::scope(|scope| {
        let (mnt, stop, done) = (&mnt, &stop, &done);
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
        more(&site);
        for host in [2, 3, 2, 3] {
            site.kill(&format!("router{host}"));
            more(&site);
            start_router(&mut site, host, &["--security", "off"]);
            // Connections go through it again once it is used: the other one is killed next.
            site.wait_for("the router answers", || {
                let address = format!("{}:988", site.hosts.address(host));
                site.hosts.on(4, || TcpStream::connect(&address).is_ok())
            });
            more(&site);
        }
        // A cable without a signal: nothing is reset, and a router that was merely slow would be
        // waited for half a minute.
        for host in [2, 3] {
            site.hosts.cable(host, false);
            let cut = Instant::now();
            more(&site);
            let waited = cut.elapsed();
            assert!(waited < SILENT_MAX, "{waited:?} without router {host}");
            site.hosts.cable(host, true);
            more(&site);
        }
        stop.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().expect("no error")).sum()
    });
    assert!(written >= 100, "{written} files");

    // What was written last went through a router that counted it.
    let data = vec![7; 8 << 20];
    let before: u64 = [2, 3].map(|host| routing(&site, host, "route_length")).iter().sum();
    fs::write(mnt.join("last"), &data).expect("write");
    e2e::programs::sh(&mnt, "sync last");
    let after: u64 = [2, 3].map(|host| routing(&site, host, "route_length")).iter().sum();
    assert!(after - before >= data.len() as u64, "{before} {after}");
    assert!([2, 3].iter().any(|host| routing(&site, *host, "circuits") > 0));
    only_servers_are_reached(&site);
}

/// A router is no door to anything but servers of its file systems.
fn only_servers_are_reached(site: &Site) {
    let server = site.hosts.second_address(1);
    let router: SocketAddr = format!("{}:988", site.hosts.address(2)).parse().expect("an address");
    let refused = routing(site, 2, "refused");
    let cases = [
        (format!("{server}:22@tcp"), 4, Routed::NotAllowed),
        ("127.0.0.1@tcp".to_owned(), 4, Routed::NotAllowed),
        ("0@lo".to_owned(), 4, Routed::NotAllowed),
        (format!("{}@tcp1", site.hosts.address(3)), 4, Routed::NotAllowed),
        (format!("{server}@tcp"), 0, Routed::TooFar),
        (format!("{server}@tcp"), 4, Routed::Yes),
    ];
    for (target, hops, expected) in &cases {
        let target = target.parse().expect("a NID");
        let answer = site.hosts.on(4, || ask_for_way(router, target, *hops));
        assert_eq!(answer, *expected, "{target}");
    }
    assert_eq!(routing(site, 2, "refused") - refused, cases.len() as u64 - 1);
    // A server forwards nothing.
    let server: SocketAddr = format!("{server}:988").parse().expect("an address");
    let target = mgs(site).parse().expect("a NID");
    assert_eq!(site.hosts.on(2, || ask_for_way(server, target, 4)), Routed::NoRouter);
}

fn ask_for_way(router: SocketAddr, target: Nid, hops: u16) -> Routed {
    let body = Route { hops }.encode();
    let header = Header {
        version: VERSION_MAX,
        kind: FrameKind::Route,
        tag: 0,
        body_bytes: body.len() as u32,
        bulk_bytes: 0,
        body_crc: None,
        bulk_crc: None,
        cluster: ClusterId(0),
        source: Nid::Loopback,
        target,
    };
    let mut stream = TcpStream::connect(router).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    stream.write_all(&[&header.encode()[..], &body].concat()).expect("it reads");
    let mut answer = [0; HEADER_BYTES + ROUTE_BYTES];
    stream.read_exact(&mut answer).expect("it answers");
    let (header, body) = answer.split_first_chunk().expect("it is longer");
    assert_eq!(Header::decode(header).expect("a header").kind, FrameKind::Routed);
    Routed::decode(body).expect("an answer")
}

#[test]
fn what_passes_a_router_is_sealed_from_end_to_end() {
    let Some(mut site) = Site::new(&[2, 4], &[1, 2]) else { return };
    // The keys are made before the servers run.
    let mgt = site.at("mgt");
    site.must(1, &["mkfs", "--mgs", &mgt]);
    for (kind, index, name) in
        [("--mdt", "0", "mdt"), ("--ost", "0", "ost0"), ("--ost", "1", "ost1")]
    {
        let target = site.at(name);
        site.must(1, &["mkfs", kind, "--index", index, &target]);
    }
    let nid = mgs(&site);
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &nid]);
    let key = |site: &Site, name: &str| {
        let key = site.must(1, &["auth", "issue", &mgt, "--name", name, "--role", "client"]);
        let path = site.at(&format!("{name}.pem"));
        fs::write(&path, key).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("private");
        path
    };
    let (of_router, of_client) = (key(&site, "router"), key(&site, "client"));
    site.serve("tcp(eth1)", &[]);
    site.wait_in_service("server");
    start_router(&mut site, 2, &["--key", &of_router]);
    site.wait_in_service("router2");
    let taps = [site.hosts.interface(4), site.hosts.second_interface(1)]
        .map(|interface| Tap::on(&interface).expect("a tap"));
    let file = client_file(&site, &[2]);
    let source = format!("{nid}:/sheen");
    let mnt = site.mount(4, &source, &format!("config={file},key={of_client}"));
    let path = mnt.join(format!("{MARKER}-name"));
    fs::write(&path, MARKER.repeat(1 << 17)).expect("write");
    e2e::programs::sh(&mnt, "sync *");
    assert!(routing(&site, 2, "route_length") > 1 << 20);
    for tap in taps {
        let heard = tap.heard();
        assert!(heard.len() > 1 << 20, "the tap heard {} bytes", heard.len());
        let marker = MARKER.as_bytes();
        assert!(!heard.windows(marker.len()).any(|bytes| bytes == marker), "in the clear");
    }
    // A client without a key comes no further for the router.
    let at = site.dir.path().join("nokey");
    let output = site.try_mount(4, &source, &format!("config={file}"), &at);
    assert!(!output.status.success() && text(&output).contains("key"), "{}", text(&output));
}
