//! Three etcd on loopback, for as long as a run takes.

use crate::failure::BenchError;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Members.
const MEMBERS: usize = 3;
/// They listen within this time.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// The members. They end with the value.
pub struct Etcds {
    children: Vec<Child>,
    clients: Vec<u16>,
    /// The last to go.
    dir: TempDir,
}

impl Etcds {
    /// Starts them, with their data in a folder of `dir` and the settings that the documentation
    /// advises. Waits until they listen.
    ///
    /// # Errors
    /// etcd is not installed, or does not start.
    pub fn start(dir: &Path) -> Result<Etcds, BenchError> {
        let dir = tempfile::Builder::new().prefix("sheen-bench-etcd.").tempdir_in(dir);
        let dir = dir.map_err(BenchError::of("make a folder for etcd"))?;
        let ports = free_ports(2 * MEMBERS)?;
        let (clients, peers) = ports.split_at(MEMBERS);
        let url = |port: u16| format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        let all: Vec<String> =
            peers.iter().enumerate().map(|(n, port)| format!("m{n}={}", url(*port))).collect();
        let mut etcds = Etcds { children: Vec::new(), clients: clients.to_vec(), dir };
        for (n, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let name = format!("m{n}");
            let folder = etcds.dir.path().join(&name);
            let log = File::create(etcds.dir.path().join(format!("{name}.log")));
            let log = log.map_err(BenchError::of("make a log for etcd"))?;
            let mut command = Command::new("etcd");
            command.arg("--data-dir").arg(folder).args(
                [
                    ["--name", &name],
                    ["--initial-cluster-state", "new"],
                    ["--initial-cluster", &all.join(",")],
                    ["--listen-client-urls", &url(*client)],
                    ["--advertise-client-urls", &url(*client)],
                    ["--listen-peer-urls", &url(*peer)],
                    ["--initial-advertise-peer-urls", &url(*peer)],
                    ["--heartbeat-interval", "100"],
                    ["--election-timeout", "500"],
                    ["--auto-compaction-mode", "revision"],
                    ["--auto-compaction-retention", "1000"],
                ]
                .as_flattened(),
            );
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
            etcds.children.push(spawn(command)?);
        }
        etcds.wait()?;
        Ok(etcds)
    }

    fn wait(&mut self) -> Result<(), BenchError> {
        let began = Instant::now();
        for (n, port) in self.clients.iter().enumerate() {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err() {
                let ended = self.children[n].try_wait();
                let ended = ended.map_err(BenchError::of("look at etcd"))?.is_some();
                if ended || began.elapsed() > PATIENCE {
                    return Err(BenchError::Failed(format!(
                        "etcd does not start: {}",
                        self.said(n)
                    )));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// The last line that a member logged.
    fn said(&self, n: usize) -> String {
        let log = std::fs::read_to_string(self.dir.path().join(format!("m{n}.log")));
        log.ok().and_then(|log| log.lines().last().map(str::to_owned)).unwrap_or_default()
    }

    /// As `--log` names them.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.clients.iter().map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST)).collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// Process ids of the members.
    pub fn pids(&self) -> Vec<i32> {
        self.children.iter().map(|child| child.id() as i32).collect()
    }
}

impl Drop for Etcds {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The child ends with this program, however that ends.
fn spawn(mut command: Command) -> Result<Child, BenchError> {
    let ask = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only this one system call is made.
    unsafe { command.pre_exec(ask) };
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => BenchError::Failed(
            "there is no etcd in PATH: install etcd-server, or name one as --log etcd://HOST:PORT"
                .to_owned(),
        ),
        _ => BenchError::Failed(format!("cannot start etcd: {error}")),
    })
}

fn free_ports(count: usize) -> Result<Vec<u16>, BenchError> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held: Result<Vec<TcpListener>, _> = (0..count).map(|_| listen()).collect();
    let held = held.map_err(BenchError::of("find free ports"))?;
    let ports = held.iter().map(|listener| Ok(listener.local_addr()?.port()));
    ports.collect::<std::io::Result<_>>().map_err(BenchError::of("find free ports"))
}
