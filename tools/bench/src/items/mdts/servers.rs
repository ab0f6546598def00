//! The file system that is measured: each MDT a process of its own, which works on one request
//! after the other, each for the same time.

use crate::failure::BenchError;
use crate::measure;
use crate::program;
use bench_args::MdtsArgs;
use node::config::mount_source::MountSource;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Servers begin and end within this time.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Where a daemon registers; each process here has a folder of its own, so that `lctl` reaches it
/// alone.
const RUN_DIR: &str = "SHEEN_RUN_DIR";

/// One server process.
struct Server {
    child: Child,
    run: PathBuf,
}

/// The processes. They end with the value.
pub struct Servers {
    /// MGS and OST first, then the MDTs by index.
    servers: Vec<Server>,
    source: MountSource,
    // Last: the others have files in it.
    dir: tempfile::TempDir,
}

/// What an MDT has done so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Served {
    /// Requests that came.
    pub all: u64,
    /// Requests for parts of operations over several MDTs that it sent to the others.
    pub of_mdts: u64,
    /// Those for the stripes of a directory: clients ask at first, and when a name is not in the
    /// stripe that they asked.
    pub stripes: u64,
}

/// Ports that are free now.
fn ports(count: usize) -> Result<Vec<u16>, BenchError> {
    let free = "find a free port";
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .map_err(BenchError::of(free))?;
    let port = |listener: &TcpListener| Ok(listener.local_addr()?.port());
    held.iter().map(port).collect::<Result<_, std::io::Error>>().map_err(BenchError::of(free))
}

/// Out of reach of Ctrl-C: what is half made could not be taken back.
fn run(command: &mut Command, what: &str) -> Result<String, BenchError> {
    let output =
        command.process_group(0).stdin(Stdio::null()).output().map_err(BenchError::of(what))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(BenchError::of_program(what, &output)),
    }
}

impl Servers {
    /// Makes targets in a new folder of `dir`, and serves them.
    ///
    /// # Errors
    /// A part does not start; what was started ends.
    pub fn up(mdts: u16, args: &MdtsArgs, dir: &Path) -> Result<Servers, BenchError> {
        let dir = tempfile::Builder::new().prefix("sheen-bench-mdts.").tempdir_in(dir);
        let dir = dir.map_err(BenchError::of("make a folder for the targets"))?;
        let fsname = format!("m{}", std::process::id() % 10_000_000);
        let ports = ports(usize::from(mdts) + 1)?;
        let mgs = format!("127.0.0.1:{}@tcp", ports[0]);
        let source = format!("{mgs}:/{fsname}");
        let source = source.parse().map_err(|e| BenchError::Failed(format!("{source}: {e}")))?;
        let at = |name: &str| dir.path().join(name);
        let mkfs = |kind: &str, index: u16, target: &Path| {
            let mut mkfs = program::sheen()?;
            mkfs.args(["mkfs", kind, "--fsname", &fsname]);
            if kind != "--mgs" {
                mkfs.args(["--index", &index.to_string(), "--mgsnode", &mgs]);
            }
            run(mkfs.arg(target), "make a target")
        };
        mkfs("--mgs", 0, &at("mgt"))?;
        mkfs("--ost", 0, &at("ost"))?;
        let mut all = Servers { servers: Vec::new(), source, dir };
        let at = |name: &str| all.dir.path().join(name);
        let mut plans = vec![(vec![at("mgt"), at("ost")], at("run"), at("mgs.log"))];
        for index in 0..mdts {
            let target = at(&format!("mdt{index}"));
            mkfs("--mdt", index, &target)?;
            let (run, log) = (at(&format!("run{index}")), at(&format!("mdt{index}.log")));
            plans.push((vec![target], run, log));
        }
        for ((targets, run, log), port) in plans.into_iter().zip(ports) {
            let log = File::create(&log).map_err(BenchError::at("make", &log))?;
            let mut serve = program::sheen()?;
            serve.arg("serve").args(&targets).args(["--security", "off", "--http", "none"]);
            serve.args(["--listen", &format!("127.0.0.1:{port}")]);
            serve.env(RUN_DIR, &run).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let child = serve.process_group(0).spawn();
            let child = child.map_err(BenchError::of("start a server"))?;
            all.servers.push(Server { child, run });
        }
        let turn = format!("fault=rpc.request=turn:{}", args.service_time.0.as_secs_f64());
        for mdt in 0..mdts {
            all.until_it_takes(mdt, &["set_param", "mdt.*.enable_dir_auto_split=0"])?;
            all.lctl(mdt, &["set_param", &turn])?;
        }
        Ok(all)
    }

    /// For clients.
    pub fn source(&self) -> &MountSource {
        &self.source
    }

    /// Runs `lctl` at one MDT. Returns what it prints.
    ///
    /// # Errors
    /// It is refused.
    pub fn lctl(&self, mdt: u16, args: &[&str]) -> Result<String, BenchError> {
        let mut lctl = program::sheen()?;
        lctl.arg("lctl").args(args).env(RUN_DIR, &self.servers[usize::from(mdt) + 1].run);
        run(&mut lctl, "set or read a parameter of an MDT")
    }

    /// A server listens before it has its targets.
    fn until_it_takes(&self, mdt: u16, args: &[&str]) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lctl(mdt, args) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// What each MDT has served.
    ///
    /// # Errors
    /// One cannot be asked.
    pub fn served(&self) -> Result<Vec<Served>, BenchError> {
        (1..self.servers.len() as u16) // at most 64 MDTs
            .map(|at| {
                let points = self.lctl(at - 1, &["get_param", "-n", "fault_points"])?;
                let served = self.lctl(at - 1, &["get_param", "-n", "mdt.*.md_stats"])?;
                // An MDT counts what others ask it as `other`, and what it asks them by name.
                let sent = self.lctl(at - 1, &["get_param", "-n", "osp.*.stats"])?;
                let of_mdts = count_of(&sent, "mds_peer_");
                // Nothing else here asks for extended attributes.
                let stripes = count_of(&served, "getxattr");
                Ok(Served { all: passed(&points), of_mdts, stripes })
            })
            .collect()
    }

    /// CPU time of all servers so far.
    pub fn cpu(&self) -> Duration {
        let cpu = |server: &Server| measure::cpu_of(server.child.id() as i32).ok();
        self.servers.iter().filter_map(cpu).sum()
    }
}

/// Requests in the report of fault points: name, number, how often it was reached, ...
fn passed(points: &str) -> u64 {
    let line = points.lines().find(|line| line.starts_with("rpc.request "));
    line.and_then(|line| line.split_whitespace().nth(2)?.parse().ok()).unwrap_or(0)
}

/// How many of the operations in a report have names that begin so: name, count, `samples`, ...
fn count_of(stats: &str, operations: &str) -> u64 {
    let count = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|name| name.starts_with(operations))?;
        words.next()?.parse::<u64>().ok()
    };
    stats.lines().filter_map(count).sum()
}

impl Drop for Servers {
    fn drop(&mut self) {
        // The MDTs before the MGS.
        for Server { child, .. } in self.servers.iter_mut().rev() {
            if let Some(pid) = Pid::from_raw(child.id() as i32) {
                // Ended of itself: then there is nothing to tell it.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        for Server { child, .. } in &mut self.servers {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
            // Killing a process that has ended does nothing.
            if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
                eprintln!("sheen bench: cannot end a server: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_lctl_prints() {
        let points = "\
mds.reint.request        0x107        9        0  A request
rpc.request              0x50a      412      412  Any request came over the network.
";
        assert_eq!((passed(points), passed("")), (412, 0));
        let stats = "\
snapshot_time             1.5 secs.nsecs
mds_peer_apply            12 samples [usecs] 3 9 40
mds_peer_forget           3 samples [usecs] 3 9 40
getxattr                  7 samples [usecs] 3 9 40
";
        let of = |operations| (count_of(stats, operations), count_of("", operations));
        assert_eq!((of("mds_peer_"), of("getxattr")), ((15, 0), (7, 0)));
    }
}
