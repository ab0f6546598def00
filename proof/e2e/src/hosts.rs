//! Several hosts on one machine: a network namespace each, joined by a bridge.

use crate::programs::sh;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// Namespaces with an address on each of their networks: 10.231.N.1, .2, ... on the first one,
/// 10.232.N.1, .2, ... on a second, 10.233.N.1, .2, ... on a third; of IPv6 fd10:231:N::1 and so
/// on. They vanish with the value.
pub struct Hosts {
    prefix: String,
    subnet: u32,
    /// They have addresses of IPv6 only.
    has_ipv6: bool,
    count: usize,
    /// Those on each network, as `eth0`, `eth1`, `eth2`.
    networks: Vec<Vec<usize>>,
    cables: Mutex<Cables>,
}

/// A shell that pulls and plugs cables, started before the test opens a file. A program that is
/// started later closes its copies of this process's descriptors first, also those of files of
/// another test whose servers are away; until those are back the cable would stay as it is.
struct Cables {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

/// Of each network: what the ends of its cables in the namespace of the test are called, and its
/// bridge.
const CABLES: [(&str, &str); 3] = [("v", "br"), ("w", "bs"), ("x", "bt")];

/// Reads words for `ip link set`, one line at a time, and answers each with its exit code.
const SET_LINKS: &str = "while read -r words; do ip link set $words; echo $?; done";

impl Cables {
    fn new() -> Cables {
        let mut shell = Command::new("bash");
        let shell =
            shell.args(["-c", SET_LINKS]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut shell = shell.expect("bash runs");
        let answers = BufReader::new(shell.stdout.take().expect("it is piped"));
        Cables { shell, answers }
    }

    fn set(&mut self, words: &str) {
        let commands = self.shell.stdin.as_mut().expect("it is piped");
        writeln!(commands, "{words}").expect("the shell reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the shell answers");
        assert_eq!(answer.trim_end(), "0", "ip link set {words}");
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.shell.stdin.take());
        let ended = self.shell.wait();
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}

/// A command that will run in a network namespace of this name.
pub fn in_namespace(name: &str, program: &Path) -> Command {
    // nsenter keeps the mount namespace, unlike `ip netns exec`, so that the test sees the mounts.
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{name}")).arg(program);
    command
}

/// Moves this thread into a network namespace of this name: its sockets are made there.
pub fn enter(name: &str) -> std::io::Result<()> {
    let file = std::fs::File::open(format!("/run/netns/{name}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

impl Hosts {
    /// `count` hosts; `None` (with a printed reason) where namespaces cannot be made.
    pub fn new(count: usize) -> Option<Hosts> {
        Hosts::on_two_networks(&(1..=count).collect::<Vec<_>>(), &[])
    }

    /// Hosts on two networks that nothing joins: those of `first` as `eth0`, those of `second` as
    /// `eth1`; together they are 1, 2, ...
    pub fn on_two_networks(first: &[usize], second: &[usize]) -> Option<Hosts> {
        match second {
            [] => Hosts::on_networks(&[first]),
            _ => Hosts::on_networks(&[first, second]),
        }
    }

    /// As [`Hosts::on_two_networks`] on one to three of them: those of the third one as `eth2`.
    pub fn on_networks(networks: &[&[usize]]) -> Option<Hosts> {
        let count = networks.iter().copied().flatten().copied().max().unwrap_or(0);
        let id = std::process::id() % 10_000 * 10 + SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let cables = Mutex::new(Cables::new());
        let networks = networks.iter().map(|hosts| hosts.to_vec()).collect();
        let hosts = Hosts {
            prefix: format!("sh{id}"),
            subnet: id % 250,
            has_ipv6: false,
            count,
            networks,
            cables,
        };
        let (p, mut script) = (&hosts.prefix, String::new());
        for n in 1..=count {
            script += &format!("ip netns add {p}h{n}; ip -n {p}h{n} link set lo up\n");
        }
        for (at, (those, (cable, bridge))) in hosts.networks.iter().zip(CABLES).enumerate() {
            script += &format!("ip link add {p}{bridge} type bridge\nip link set {p}{bridge} up\n");
            for n in those {
                script += &format!(
                    "ip link add {p}{cable}{n} type veth peer name eth{at} netns {p}h{n}\n\
                     ip link set {p}{cable}{n} master {p}{bridge} up\n\
                     ip -n {p}h{n} addr add {address}/24 dev eth{at}\n\
                     ip -n {p}h{n} link set eth{at} up\n",
                    address = hosts.address_on(at, *n)
                );
            }
        }
        let output = crate::programs::try_sh(Path::new("/"), &script);
        if !output.status.success() {
            eprintln!(
                "skipped: no network namespaces here: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return None;
        }
        Some(hosts)
    }

    /// Address of host `n`, from 1, on the first network, whether it is on that or not.
    pub fn address(&self, n: usize) -> String {
        self.numbered(0, n)
    }

    /// Address of host `n`, from 1, on a network, from 0.
    pub fn address_on(&self, network: usize, n: usize) -> String {
        assert!(self.networks[network].contains(&n));
        self.numbered(network, n)
    }

    /// What a process of host `n` listens at, with that address, at the usual port.
    pub fn listens_on(&self, network: usize, n: usize) -> SocketAddr {
        SocketAddr::new(self.address_on(network, n).parse().expect("an address"), 988)
    }

    fn numbered(&self, network: usize, n: usize) -> String {
        assert!((1..=self.count).contains(&n));
        let network = 231 + network;
        match self.has_ipv6 {
            true => {
                let text = format!("fd10:{network}:{:x}::{n:x}", self.subnet);
                // As programs show it: without groups of zero, subnet 0 among them.
                text.parse::<Ipv6Addr>().expect("an address").to_string()
            }
            false => format!("10.{network}.{}.{n}", self.subnet),
        }
    }

    /// From now on all hosts have addresses of IPv6 only, on all their networks.
    pub fn leave_ipv4(&mut self) {
        self.has_ipv6 = true;
        let mut script = String::new();
        for (at, those) in self.networks.iter().enumerate() {
            for n in those {
                let (namespace, address) = (self.namespace(*n), self.address_on(at, *n));
                script += &format!(
                    "ip -n {namespace} -4 addr flush dev eth{at}\n\
                     ip -n {namespace} addr add {address}/64 dev eth{at} nodad\n"
                );
            }
        }
        sh(Path::new("/"), &script);
    }

    /// Address of host `n`, from 1, on the second network.
    pub fn second_address(&self, n: usize) -> String {
        self.address_on(1, n)
    }

    /// As [`Hosts::interface`], of the cable to the second network.
    pub fn second_interface(&self, n: usize) -> String {
        self.interface_on(1, n)
    }

    /// As [`Hosts::interface`], of the cable to a network, from 0.
    pub fn interface_on(&self, network: usize, n: usize) -> String {
        assert!(self.networks[network].contains(&n));
        format!("{}{}{n}", self.prefix, CABLES[network].0)
    }

    /// Bytes that host `n` has sent and received over a cable, by the end of it that is in the
    /// namespace of the test, as the kernel counts them.
    pub fn carried(interface: &str) -> u64 {
        let count = |name: &str| {
            let path = format!("/sys/class/net/{interface}/statistics/{name}_bytes");
            let text = std::fs::read_to_string(path).expect("the kernel counts");
            text.trim().parse::<u64>().expect("a number")
        };
        count("rx") + count("tx")
    }

    /// The end of its network cable that is in the namespace of the test.
    pub fn interface(&self, n: usize) -> String {
        assert!((1..=self.count).contains(&n));
        format!("{}v{n}", self.prefix)
    }

    /// A command that will run on host `n`. Only the network is the host's; mounts are shared with
    /// the test.
    pub fn command(&self, n: usize, program: &Path) -> Command {
        in_namespace(&self.namespace(n), program)
    }

    /// Name of the network namespace of host `n`.
    pub fn namespace(&self, n: usize) -> String {
        assert!((1..=self.count).contains(&n));
        format!("{}h{n}", self.prefix)
    }

    /// Runs `work` in a thread that is on host `n`: its sockets are the host's.
    pub fn on<T: Send>(&self, n: usize, work: impl FnOnce() -> T + Send) -> T {
        assert!((1..=self.count).contains(&n));
        let namespace = self.namespace(n);
        let there = move || {
            enter(&namespace).expect("root enters");
            work()
        };
        std::thread::scope(|scope| scope.spawn(there).join().expect("the thread ends"))
    }

    /// Plugs the network cable of host `n` in, or pulls it out.
    pub fn cable(&self, n: usize, plugged: bool) {
        self.set_cable(&self.interface(n), plugged);
    }

    /// As [`Hosts::cable`], of the cable to the second network.
    pub fn second_cable(&self, n: usize, plugged: bool) {
        self.cable_on(1, n, plugged);
    }

    /// As [`Hosts::cable`], of the cable to a network, from 0.
    pub fn cable_on(&self, network: usize, n: usize, plugged: bool) {
        self.set_cable(&self.interface_on(network, n), plugged);
    }

    fn set_cable(&self, interface: &str, plugged: bool) {
        let words = format!("{interface} {}", if plugged { "up" } else { "down" });
        self.cables.lock().unwrap_or_else(PoisonError::into_inner).set(&words);
    }

    /// All cards of host `n` send at this rate at most, in bits a second.
    pub fn limit(&self, n: usize, rate: u64) {
        let namespace = self.namespace(n);
        let cards = self.networks.iter().enumerate().filter(|(_, hosts)| hosts.contains(&n));
        let cards: Vec<String> = cards.map(|(at, _)| format!("eth{at}")).collect();
        let cards = cards.join(" ");
        let script = format!(
            "for card in {cards}; do tc -n {namespace} qdisc replace dev $card root tbf \
             rate {rate}bit burst 64kb latency 100ms; done"
        );
        sh(Path::new("/"), &script);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let mut script = String::new();
        for n in 1..=self.count {
            script += &format!("ip netns del {}h{n} || true\n", self.prefix);
        }
        for (_, bridge) in &CABLES[..self.networks.len()] {
            script += &format!("ip link del {}{bridge} || true\n", self.prefix);
        }
        sh(Path::new("/"), &script);
    }
}
