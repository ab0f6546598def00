//! A whole SheenFS in one folder, started with `sheen up`.

use crate::many::{Client, Many};
use crate::process::{detach, is_mounted, kill_and_wait, text};
use crate::sheen;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Variable with the registry of daemons.
pub const RUN_DIR: &str = "SHEEN_RUN_DIR";

/// A file system that lives as long as the value: all roles in one process, or one process and host
/// for each role.
pub struct Cluster {
    // Declared before the folder, so that processes end before their files go.
    many: Option<Many>,
    args: Vec<String>,
    /// Hard limit of open files of its process.
    descriptors: Option<u32>,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// `sheen up` in a new folder, with these extra arguments.
    pub fn up(args: &[&str]) -> Cluster {
        let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        let mut cluster = Cluster { many: None, args: all, descriptors: None, dir: folder() };
        cluster.start();
        cluster
    }

    /// As [`Cluster::up`], in a folder in which `prepare` has made targets, for example.
    pub fn up_prepared(args: &[&str], prepare: impl FnOnce(&Path)) -> Cluster {
        let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        let mut cluster = Cluster { many: None, args: all, descriptors: None, dir: folder() };
        std::fs::create_dir_all(cluster.dir()).expect("make a folder");
        prepare(&cluster.dir());
        cluster.start();
        cluster
    }

    /// As [`Cluster::up`], in a process that may open this many files.
    pub fn up_with_descriptors(descriptors: u32, args: &[&str]) -> Cluster {
        let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        let mut cluster =
            Cluster { many: None, args: all, descriptors: Some(descriptors), dir: folder() };
        cluster.start();
        cluster
    }

    /// MGS, MDS, two OSS (of two OSTs each) and a client on hosts of their own; `None` where
    /// network namespaces cannot be made.
    pub fn on_hosts(stripes: &str) -> Option<Cluster> {
        Cluster::with_clients(stripes, &[""])
    }

    /// As [`Cluster::on_hosts`], with a client on a host of its own for each of these mount options
    /// (empty: the defaults). The first is mounted at [`Cluster::mount`].
    pub fn with_clients(stripes: &str, options: &[&str]) -> Option<Cluster> {
        Cluster::with_clients_and_mdts(stripes, options, 1)
    }

    /// As [`Cluster::with_clients`], with 1 to 4 MDS of an MDT each.
    pub fn with_clients_and_mdts(stripes: &str, options: &[&str], mdts: usize) -> Option<Cluster> {
        let mut cluster =
            Cluster { many: None, args: Vec::new(), descriptors: None, dir: folder() };
        let client = |(n, options): (usize, &&str)| {
            let mount =
                if n == 0 { cluster.mount() } else { cluster.dir.path().join(format!("mnt{n}")) };
            Client { mount, options: (*options).to_owned() }
        };
        let clients = options.iter().enumerate().map(client).collect();
        cluster.many = Some(Many::up_with_mdts(&cluster.dir(), clients, stripes, mdts)?);
        Some(cluster)
    }

    /// The hosts of [`Cluster::on_hosts`] and [`Cluster::with_clients`].
    pub fn many(&self) -> &Many {
        self.many.as_ref().expect("every role on a host of its own")
    }

    /// As [`Cluster::many`], for killing and starting servers.
    pub fn many_mut(&mut self) -> &mut Many {
        self.many.as_mut().expect("every role on a host of its own")
    }

    /// The clients' mount points.
    pub fn mounts(&self) -> Vec<PathBuf> {
        self.many.as_ref().map_or_else(|| vec![self.mount()], Many::mounts)
    }

    /// The folder of targets, logs and mount point.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().join("fs")
    }

    /// The mount point.
    pub fn mount(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// A folder beside it on the ordinary file system, for comparison.
    pub fn outside(&self) -> PathBuf {
        let path = self.dir.path().join("outside");
        std::fs::create_dir_all(&path).expect("make a folder");
        path
    }

    /// Starts it (again).
    pub fn start(&mut self) {
        if let Some(many) = &mut self.many {
            return many.start();
        }
        let (dir, mount) = (self.dir(), self.mount());
        let mut command = match self.descriptors {
            None => Command::new(sheen()),
            Some(max) => {
                let mut limited = Command::new("prlimit");
                limited.arg(format!("--nofile={max}:{max}")).arg(sheen());
                limited
            }
        };
        let output = command
            .arg("up")
            .arg(&dir)
            .arg("--mount")
            .arg(&mount)
            .args(&self.args)
            .env(RUN_DIR, self.run_dir())
            .stdin(Stdio::null())
            .output()
            .expect("sheen runs");
        assert!(output.status.success(), "sheen up: {}\n{}", text(&output), self.log());
        assert!(is_mounted(&mount), "sheen up succeeded, but {} is no mount", mount.display());
    }

    /// Registry of its daemons: other tests of this machine have their own.
    pub fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// `lctl` with these arguments, as on a host where just these daemons run.
    pub fn lctl(&self, args: &[&str]) -> Output {
        self.called("lctl", args)
    }

    /// The program, called by this name, as on a host where just these daemons run.
    pub fn called(&self, name: &str, args: &[&str]) -> Output {
        let mut command = Command::new(sheen());
        command.arg0(name).args(args).env(RUN_DIR, self.run_dir()).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    /// Any command of `sheen` on this folder, for example `["status", "--json"]`.
    pub fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(sheen());
        command.arg(args[0]).arg(self.dir()).args(&args[1..]).stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    /// The address at which it listens.
    pub fn listens_at(&self) -> String {
        let status = self.command(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        status["listen"].as_str().expect("the bound address").to_owned()
    }

    /// Stops it in order.
    pub fn stop(&mut self) {
        match &mut self.many {
            Some(many) => many.stop(),
            None => {
                let output = self.command(&["down"]);
                assert!(output.status.success(), "sheen down: {}\n{}", text(&output), self.log());
            }
        }
        assert!(!is_mounted(&self.mount()), "still mounted after the stop");
    }

    /// Process id of the daemon of `sheen up`.
    pub fn pid(&self) -> i32 {
        let path = self.dir().join("run/node.pid");
        let text = std::fs::read_to_string(&path).expect("the daemon's pid file");
        text.split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a number in the pid file")
    }

    /// Kills all its processes at once, as a crash would.
    pub fn kill(&mut self) {
        match &mut self.many {
            Some(many) => many.kill(),
            None => kill_and_wait(self.pid()),
        }
    }

    /// The end of the daemon's log.
    pub fn log(&self) -> String {
        if let Some(many) = &self.many {
            return many.logs();
        }
        let text = std::fs::read_to_string(self.dir().join("log/node.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("--- log ---\n{}", lines[lines.len().saturating_sub(40)..].join("\n"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        if self.many.is_some() {
            return;
        }
        let output = self.command(&["down", "--force"]);
        if !output.status.success() && is_mounted(&self.mount()) {
            eprintln!("sheen down --force: {}", text(&output));
            detach(&self.mount());
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder for the test")
}

/// Runs a test on one process and again with every role on a host of its own. There are 4 OSTs, and
/// new files have one stripe.
pub fn everywhere(test: impl Fn(&mut Cluster)) {
    if crate::can_mount() {
        in_one_process("1", &test);
        on_hosts("1", &test);
    }
}

/// As [`everywhere`] with `stripes` stripes for each new file, for what keeps the machine busy for
/// minutes: only with every role on a host of its own, or in one process where that cannot be. With
/// `E2E_LONG=1` on both.
pub fn on_hosts_striped(stripes: &str, test: impl Fn(&mut Cluster)) {
    if crate::can_mount() && (!on_hosts(stripes, &test) || crate::long()) {
        in_one_process(stripes, &test);
    }
}

fn in_one_process(stripes: &str, test: &impl Fn(&mut Cluster)) {
    eprintln!("-- all roles in one process");
    test(&mut Cluster::up(&["--osts", "4", "--stripe-count", stripes]));
}

/// `false`: this machine has no such hosts, so nothing was tested.
fn on_hosts(stripes: &str, test: &impl Fn(&mut Cluster)) -> bool {
    let Some(mut cluster) = Cluster::on_hosts(stripes) else { return false };
    eprintln!("-- every role on a host of its own");
    test(&mut cluster);
    true
}
