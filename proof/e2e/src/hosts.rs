//! Several hosts on one machine: a network namespace each, joined by a bridge.

use crate::programs::sh;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

static SEQUENCE: AtomicU32 = AtomicU32::new(0);

/// Namespaces with one address each: 10.231.N.1, .2, ...; on a second network, if there is one,
/// 10.232.N.1, .2, ... They vanish with the value.
pub struct Hosts {
    prefix: String,
    subnet: u32,
    count: usize,
    /// Those on the second network, as `eth1`.
    second: Vec<usize>,
    cables: Mutex<Cables>,
}

/// A shell that pulls and plugs cables, started before the test opens a file. A program that is
/// started later closes its copies of this process's descriptors first, also those of files of
/// another test whose servers are away; until those are back the cable would stay as it is.
struct Cables {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

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
        let count = first.iter().chain(second).copied().max().unwrap_or(0);
        let id = std::process::id() % 10_000 * 10 + SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let cables = Mutex::new(Cables::new());
        let (prefix, second) = (format!("sh{id}"), second.to_vec());
        let hosts = Hosts { prefix, subnet: id % 250, count, second, cables };
        let mut script =
            format!("ip link add {0}br type bridge && ip link set {0}br up\n", hosts.prefix);
        let (p, s) = (&hosts.prefix, hosts.subnet);
        for n in 1..=count {
            script += &format!("ip netns add {p}h{n}; ip -n {p}h{n} link set lo up\n");
        }
        if !hosts.second.is_empty() {
            script += &format!("ip link add {p}bs type bridge && ip link set {p}bs up\n");
        }
        let on_first = first.iter().map(|n| (n, "v", "br", "eth0", 231));
        let on_second = hosts.second.iter().map(|n| (n, "w", "bs", "eth1", 232));
        for (n, cable, bridge, card, network) in on_first.chain(on_second) {
            script += &format!(
                "ip link add {p}{cable}{n} type veth peer name {card} netns {p}h{n}\n\
                 ip link set {p}{cable}{n} master {p}{bridge} up\n\
                 ip -n {p}h{n} addr add 10.{network}.{s}.{n}/24 dev {card}\n\
                 ip -n {p}h{n} link set {card} up\n"
            );
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

    /// Address of host `n`, from 1.
    pub fn address(&self, n: usize) -> String {
        assert!((1..=self.count).contains(&n));
        format!("10.231.{}.{n}", self.subnet)
    }

    /// Address of host `n`, from 1, once it has one of IPv6 only ([`Hosts::leave_ipv4`]).
    pub fn address6(&self, n: usize) -> String {
        assert!((1..=self.count).contains(&n));
        format!("fd10:231:{:x}::{n:x}", self.subnet)
    }

    /// From now on all hosts have addresses of IPv6 only, on the first network.
    pub fn leave_ipv4(&self) {
        let mut script = String::new();
        for n in 1..=self.count {
            let (namespace, address) = (self.namespace(n), self.address6(n));
            script += &format!(
                "ip -n {namespace} -4 addr flush dev eth0\n\
                 ip -n {namespace} addr add {address}/64 dev eth0 nodad\n"
            );
        }
        sh(Path::new("/"), &script);
    }

    /// Address of host `n`, from 1, on the second network.
    pub fn second_address(&self, n: usize) -> String {
        assert!(self.second.contains(&n));
        format!("10.232.{}.{n}", self.subnet)
    }

    /// As [`Hosts::interface`], of the cable to the second network.
    pub fn second_interface(&self, n: usize) -> String {
        assert!(self.second.contains(&n));
        format!("{}w{n}", self.prefix)
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
        self.set_cable(&self.second_interface(n), plugged);
    }

    fn set_cable(&self, interface: &str, plugged: bool) {
        let words = format!("{interface} {}", if plugged { "up" } else { "down" });
        self.cables.lock().unwrap_or_else(PoisonError::into_inner).set(&words);
    }

    /// All cards of host `n` send at this rate at most, in bits a second.
    pub fn limit(&self, n: usize, rate: u64) {
        let namespace = self.namespace(n);
        let cards = if self.second.contains(&n) { "eth0 eth1" } else { "eth0" };
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
        script += &format!("ip link del {}br || true\n", self.prefix);
        if !self.second.is_empty() {
            script += &format!("ip link del {}bs || true\n", self.prefix);
        }
        sh(Path::new("/"), &script);
    }
}
