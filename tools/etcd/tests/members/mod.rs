//! Three etcd, on loopback or on hosts of their own.

#![allow(dead_code, reason = "each test uses its part")]

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Runs a program where a member is.
type Runner = Box<dyn Fn(&Path) -> Command + Send + Sync>;

/// Files of members that want certificates of their clients.
pub struct ServerFiles {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Where a member is.
pub struct Place {
    pub ip: String,
    pub client: u16,
    pub peer: u16,
    /// Starts programs there.
    pub run: Runner,
}

pub struct Members {
    children: Vec<Child>,
    places: Vec<Place>,
    arguments: Vec<Vec<String>>,
    secured: bool,
    dir: TempDir,
}

/// Ports that nothing listens at now; no two callers of a process get the same. They are below
/// those that the kernel gives to connections, so that none takes them before their server is
/// there, or while it is away.
pub fn free_ports(count: usize) -> Vec<u16> {
    const PORTS: std::ops::Range<u16> = 10_000..32_768;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(97);
    let mut ports = Vec::new();
    for _ in PORTS {
        if ports.len() == count {
            break;
        }
        let n = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (n % PORTS.len() as u32) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            ports.push(port);
        }
    }
    assert_eq!(ports.len(), count, "not enough ports are free");
    ports
}

/// `None` without etcd, and says so.
pub fn or_skip(members: Option<Members>) -> Option<Members> {
    if members.is_none() {
        eprintln!("SKIPPED: etcd is not installed; `./run deps test` installs it");
    }
    members
}

/// The child ends with the thread of the test that started it, however that ends.
fn die_with_the_test(command: &mut Command) {
    let ask = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only this one system call is made.
    unsafe { command.pre_exec(ask) };
}

impl Members {
    /// On loopback.
    pub fn start() -> Option<Members> {
        Members::start_with(None)
    }

    /// On loopback; with these files, clients need certificates.
    pub fn start_with(secured: Option<&ServerFiles>) -> Option<Members> {
        Members::on_loopback(secured, &[])
    }

    /// On loopback; no space is left beyond so many bytes.
    pub fn start_small(bytes: u64) -> Option<Members> {
        Members::on_loopback(None, &["--quota-backend-bytes", &bytes.to_string()])
    }

    fn on_loopback(secured: Option<&ServerFiles>, more: &[&str]) -> Option<Members> {
        let ports = free_ports(6);
        let place = |n: usize| Place {
            ip: Ipv4Addr::LOCALHOST.to_string(),
            client: ports[n],
            peer: ports[n + 3],
            run: Box::new(|program| Command::new(program)),
        };
        let members = Members::start_more((0..3).map(place).collect(), secured, more)?;
        members.wait();
        Some(members)
    }

    /// At these places.
    pub fn start_at(places: Vec<Place>) -> Option<Members> {
        Members::start_more(places, None, &[])
    }

    fn start_more(
        places: Vec<Place>,
        secured: Option<&ServerFiles>,
        more: &[&str],
    ) -> Option<Members> {
        let dir = tempfile::tempdir().unwrap();
        let peer = |place: &Place| format!("http://{}:{}", place.ip, place.peer);
        let cluster: Vec<String> =
            places.iter().enumerate().map(|(n, place)| format!("m{n}={}", peer(place))).collect();
        let scheme = if secured.is_some() { "https" } else { "http" };
        let arguments = |(n, place): (usize, &Place)| {
            let (client, peer) = (format!("{scheme}://{}:{}", place.ip, place.client), peer(place));
            let (name, cluster) = (format!("m{n}"), cluster.join(","));
            let data = dir.path().join(&name).display().to_string();
            let mut words: Vec<String> = [
                ["--name", &name],
                ["--data-dir", &data],
                ["--initial-cluster-state", "new"],
                ["--initial-cluster", &cluster],
                ["--listen-client-urls", &client],
                ["--advertise-client-urls", &client],
                ["--listen-peer-urls", &peer],
                ["--initial-advertise-peer-urls", &peer],
                ["--heartbeat-interval", "100"],
                ["--election-timeout", "500"],
                ["--auto-compaction-mode", "revision"],
                ["--auto-compaction-retention", "1000"],
            ]
            .concat()
            .into_iter()
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect();
            if let Some(ServerFiles { ca, cert, key }) = secured {
                let file = |path: &PathBuf| path.display().to_string();
                words.push("--client-cert-auth".to_owned());
                for (flag, path) in
                    [("--trusted-ca-file", ca), ("--cert-file", cert), ("--key-file", key)]
                {
                    words.extend([flag.to_owned(), file(path)]);
                }
            }
            words
        };
        let arguments = places.iter().enumerate().map(arguments).collect();
        let mut members =
            Members { children: Vec::new(), places, arguments, secured: secured.is_some(), dir };
        for n in 0..members.places.len() {
            match members.spawn(n) {
                Ok(child) => members.children.push(child),
                Err(error) if error.kind() == ErrorKind::NotFound => return None,
                Err(error) => panic!("start etcd: {error}"),
            }
        }
        Some(members)
    }

    fn spawn(&self, n: usize) -> std::io::Result<Child> {
        let path = self.dir.path().join(format!("m{n}.log"));
        let log = File::options().create(true).append(true).open(path).unwrap();
        let program = find("etcd").ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
        let mut command = (self.places[n].run)(&program);
        command.args(&self.arguments[n]).stderr(log.try_clone()?).stdout(log);
        die_with_the_test(&mut command);
        command.spawn()
    }

    /// Waits until members on loopback listen.
    pub fn wait(&self) {
        let began = Instant::now();
        for place in &self.places {
            while TcpStream::connect((place.ip.as_str(), place.client)).is_err() {
                assert!(began.elapsed() < Duration::from_secs(60), "etcd does not start");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    pub fn url(&self) -> String {
        let scheme = if self.secured { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.endpoints().join(","))
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.places.iter().map(|place| format!("{}:{}", place.ip, place.client)).collect()
    }

    fn signal(&self, member: usize, signal: Signal) {
        let pid = Pid::from_child(&self.children[member]);
        kill_process(pid, signal).unwrap();
    }

    pub fn stop(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    pub fn go_on(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    pub fn kill(&mut self, member: usize) {
        self.children[member].kill().unwrap();
        self.children[member].wait().unwrap();
    }

    /// After [`Members::kill`].
    pub fn start_again(&mut self, member: usize) {
        self.children[member] = self.spawn(member).unwrap();
    }

    /// The member that leads, as the first one that answers says. To be asked from where members
    /// can be reached.
    pub fn leader(&self) -> Option<usize> {
        let ids: Vec<Option<(String, String)>> = (0..self.places.len())
            .map(|n| {
                let answer = self.ask(n, "/v3/maintenance/status").ok()?;
                Some((word(&answer, "member_id")?, word(&answer, "leader")?))
            })
            .collect();
        let leader = ids.iter().flatten().next()?.1.clone();
        ids.iter().position(|id| id.as_ref().is_some_and(|(member, _)| *member == leader))
    }

    fn ask(&self, n: usize, path: &str) -> std::io::Result<String> {
        let Place { ip, client, .. } = &self.places[n];
        let mut stream = TcpStream::connect((ip.as_str(), *client))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {ip}:{client}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// A program in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// The text of this name in an answer.
fn word(answer: &str, name: &str) -> Option<String> {
    let rest = answer.split_once(&format!("\"{name}\":\""))?.1;
    Some(rest.split_once('"')?.0.to_owned())
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
