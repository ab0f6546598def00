//! Three etcd on loopback.

#![allow(dead_code, reason = "each test uses its part")]

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub struct Members {
    children: Vec<Child>,
    clients: Vec<u16>,
    _dir: TempDir,
}

/// Ports that are free now; held until all are known, so that they differ.
pub fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// `None` without etcd, and says so.
pub fn or_skip(members: Option<Members>) -> Option<Members> {
    if members.is_none() {
        eprintln!("SKIPPED: etcd is not installed; `./run deps test` installs it");
    }
    members
}

impl Members {
    pub fn start() -> Option<Members> {
        let dir = tempfile::tempdir().unwrap();
        let ports = free_ports(6);
        let (clients, peers) = (ports[..3].to_vec(), &ports[3..]);
        let cluster: Vec<String> =
            (0..3).map(|n| format!("m{n}=http://127.0.0.1:{}", peers[n])).collect();
        let mut children = Vec::new();
        for n in 0..3 {
            let (client, peer) = (
                format!("http://127.0.0.1:{}", clients[n]),
                format!("http://127.0.0.1:{}", peers[n]),
            );
            let log = File::create(dir.path().join(format!("m{n}.log"))).unwrap();
            let name = format!("m{n}");
            let data = dir.path().join(&name).display().to_string();
            let started = Command::new("etcd")
                .args(["--name", &name, "--data-dir", &data, "--initial-cluster-state", "new"])
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &cluster.join(",")])
                .args(["--heartbeat-interval", "100", "--election-timeout", "500"])
                .args(["--auto-compaction-mode", "revision", "--auto-compaction-retention", "1000"])
                .stderr(log.try_clone().unwrap())
                .stdout(log)
                .spawn();
            match started {
                Ok(child) => children.push(child),
                Err(error) if error.kind() == ErrorKind::NotFound => return None,
                Err(error) => panic!("start etcd: {error}"),
            }
        }
        let members = Members { children, clients, _dir: dir };
        let began = Instant::now();
        for port in &members.clients {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_err() {
                assert!(began.elapsed() < Duration::from_secs(60), "etcd does not start");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Some(members)
    }

    pub fn url(&self) -> String {
        let list: Vec<String> =
            self.clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("etcd://{}", list.join(","))
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
