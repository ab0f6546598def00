//! Two hosts (network namespaces) and a long link between them.

use crate::failure::BenchError;
use crate::program;
use bench_args::WanArgs;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Side of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side of the servers.
    Near,
    /// The side of the client.
    Far,
}

/// The link and its two hosts. They vanish with the value.
pub struct Link {
    name: String,
    subnet: u32,
    /// The program that makes it, if it is not the kernel.
    wanlink: Option<PathBuf>,
}

/// Out of reach of Ctrl-C: what is half made could not be taken back.
fn run(command: &mut Command) -> Result<(), BenchError> {
    let words = command.get_program().to_string_lossy().into_owned();
    let output = command.process_group(0).stdin(Stdio::null()).output();
    let output = output.map_err(|e| BenchError::Failed(format!("cannot run {words}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(BenchError::of_program(&format!("run {words}"), &output))
}

/// Settings of TCP that differ from those of this machine.
fn buffers(args: &WanArgs) -> Vec<(&'static str, String)> {
    let Some(max) = &args.tcp_buffers else { return Vec::new() };
    ["tcp_rmem", "tcp_wmem"]
        .map(|key| (key, format!("4096 131072 {}", max.0.max(131_072))))
        .to_vec()
}

fn ip(words: &str) -> Result<(), BenchError> {
    run(Command::new("ip").args(words.split(' ')))
}

impl Link {
    /// Makes it, with this round trip.
    ///
    /// # Errors
    /// Only root may; or there is neither a program nor a kernel that can delay.
    pub fn up(delay: Duration, args: &WanArgs) -> Result<Link, BenchError> {
        let id = std::process::id() % 100_000;
        let mut link = Link { name: format!("sb{id}"), subnet: id % 250, wanlink: None };
        let ms = format!("{}ms", delay.as_micros() as f64 / 1000.0);
        let (near, far) = (link.namespace(Side::Near), link.namespace(Side::Far));
        if let Some(program) = &args.wanlink {
            let mut up = Command::new(program);
            up.args(["up", "--name", &link.name, "--daemon", "--rtt", &ms]);
            up.arg("--a").arg(format!("{far}={}", link.address(Side::Far)));
            up.arg("--b").arg(format!("{near}={}", link.address(Side::Near)));
            for (flag, value) in [("--rate", args.rate()), ("--loss", args.loss.as_deref())] {
                if let Some(value) = value {
                    up.args([flag, value]);
                }
            }
            for (key, value) in buffers(args) {
                up.arg("--sysctl").arg(format!("net.ipv4.{key}={value}"));
            }
            up.args(["--sysctl", "net.ipv4.tcp_no_metrics_save=1"]);
            run(&mut up)?;
            link.wanlink = Some(program.clone());
            return Ok(link);
        }
        // From here on dropping it cleans up what was made.
        for side in [Side::Near, Side::Far] {
            ip(&format!("netns add {}", link.namespace(side)))?;
        }
        ip(&format!("link add wan0 netns {near} type veth peer name wan0 netns {far}"))?;
        for side in [Side::Near, Side::Far] {
            let namespace = link.namespace(side);
            ip(&format!("-n {namespace} addr add {}/24 dev wan0", link.address(side)))?;
            ip(&format!("-n {namespace} link set wan0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            for (key, value) in buffers(args) {
                let setting = format!("net.ipv4.{key}={value}");
                run(Command::new("ip")
                    .args(["netns", "exec", &namespace, "sysctl", "-qw", &setting]))?;
            }
            link.delayed(side, delay / 2, args)?;
        }
        Ok(link)
    }

    /// Lets the kernel delay what this side sends.
    fn delayed(&self, side: Side, delay: Duration, args: &WanArgs) -> Result<(), BenchError> {
        if delay.is_zero() && args.rate().is_none() && args.loss.is_none() {
            return Ok(());
        }
        let mut tc = Command::new("tc");
        tc.args([
            "-n",
            &self.namespace(side),
            "qdisc",
            "add",
            "dev",
            "wan0",
            "root",
            "netem",
            "limit",
            "100000",
        ]);
        tc.args(["delay", &format!("{}us", delay.as_micros())]);
        for (word, value) in [("rate", args.rate()), ("loss", args.loss.as_deref())] {
            if let Some(value) = value {
                tc.args([word, value]);
            }
        }
        run(&mut tc).map_err(|error| {
            BenchError::Failed(format!(
                "{error}; this kernel cannot delay packets: name a program with --wanlink, or use --delays 0ms"
            ))
        })
    }

    /// Name of the namespace.
    fn namespace(&self, side: Side) -> String {
        let letter = match side {
            Side::Near => 'n',
            Side::Far => 'f',
        };
        format!("{}{letter}", self.name)
    }

    fn namespace_path(&self, side: Side) -> PathBuf {
        Path::new("/run/netns").join(self.namespace(side))
    }

    /// Address of the host.
    pub fn address(&self, side: Side) -> Ipv4Addr {
        let host = match side {
            Side::Near => 1,
            Side::Far => 2,
        };
        Ipv4Addr::new(10, 232, self.subnet as u8, host)
    }

    /// This program, to be run on that host. Only the network is the host's; mounts are shared by
    /// all.
    pub fn sheen(&self, side: Side) -> Result<Command, BenchError> {
        // The path, for "itself" would be nsenter.
        let program = program::sheen_path()?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace_path(side).display())).arg(program);
        Ok(command)
    }

    /// Something that puts the thread that calls it onto that host.
    pub fn entry(
        &self,
        side: Side,
    ) -> impl Fn() -> Result<(), BenchError> + Send + Clone + 'static {
        let path = self.namespace_path(side);
        move || {
            let file = File::open(&path).map_err(BenchError::at("open", &path))?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| BenchError::at("enter", &path)(errno.into()))
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let removed = match &self.wanlink {
            Some(program) => run(Command::new(program).args(["down", "--name", &self.name])),
            None => [Side::Near, Side::Far]
                .into_iter()
                .filter(|side| self.namespace_path(*side).exists())
                .try_for_each(|side| ip(&format!("netns del {}", self.namespace(side)))),
        };
        if let Err(error) = removed {
            eprintln!("sheen bench: cannot remove the link {}: {error}", self.name);
        }
    }
}
