//! Several hosts on one machine: a network namespace each, joined by a bridge.

use crate::programs::sh;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// Namespaces with one address each: 10.231.N.1, .2, ... They vanish with the value.
pub struct Hosts {
    prefix: String,
    subnet: u32,
    count: usize,
}

impl Hosts {
    /// `count` hosts; `None` (with a printed reason) where namespaces cannot be made.
    pub fn new(count: usize) -> Option<Hosts> {
        let id = std::process::id() % 10_000 * 10 + SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let hosts = Hosts { prefix: format!("sh{id}"), subnet: id % 250, count };
        let mut script = format!("ip link add {0}br type bridge && ip link set {0}br up\n", hosts.prefix);
        for n in 1..=count {
            let (p, s) = (&hosts.prefix, hosts.subnet);
            script += &format!(
                "ip netns add {p}h{n}; ip link add {p}v{n} type veth peer name eth0 netns {p}h{n}\n\
                 ip link set {p}v{n} master {p}br up; ip -n {p}h{n} addr add 10.231.{s}.{n}/24 dev eth0\n\
                 ip -n {p}h{n} link set eth0 up; ip -n {p}h{n} link set lo up\n"
            );
        }
        let output = crate::programs::try_sh(Path::new("/"), &script);
        if !output.status.success() {
            eprintln!("skipped: no network namespaces here: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(hosts)
    }

    /// Address of host `n`, from 1.
    pub fn address(&self, n: usize) -> String {
        assert!((1..=self.count).contains(&n));
        format!("10.231.{}.{n}", self.subnet)
    }

    /// A command that will run on host `n`. Only the network is the host's; mounts are shared with
    /// the test.
    pub fn command(&self, n: usize, program: &Path) -> Command {
        assert!((1..=self.count).contains(&n));
        // nsenter keeps the mount namespace, unlike `ip netns exec`, so that the test sees the
        // mounts.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}h{n}", self.prefix)).arg(program);
        command
    }

    /// Plugs the network cable of host `n` in, or pulls it out.
    pub fn cable(&self, n: usize, plugged: bool) {
        assert!((1..=self.count).contains(&n));
        sh(Path::new("/"), &format!("ip link set {}v{n} {}", self.prefix, if plugged { "up" } else { "down" }));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let mut script = String::new();
        for n in 1..=self.count {
            script += &format!("ip netns del {}h{n} || true\n", self.prefix);
        }
        script += &format!("ip link del {}br || true\n", self.prefix);
        sh(Path::new("/"), &script);
    }
}
