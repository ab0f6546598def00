//! A cluster whose MGS or MDT has its log in etcd, on ports of loopback, and a program that works
//! on a mount of it.

use crate::members::free_ports;
use e2e::cluster::RUN_DIR;
use e2e::process::{detach, is_mounted, text};
use e2e::programs::write_and_sync;
use e2e::sheen;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Servers on ports of loopback, and a mount.
pub struct Fixture {
    pub dir: tempfile::TempDir,
    servers: Vec<(&'static str, Child)>,
}

impl Fixture {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn new() -> Fixture {
        Fixture { dir: tempfile::tempdir().expect("a folder"), servers: Vec::new() }
    }

    /// An MGS with an OST, which run, and an MDT with its log in etcd that these hosts may serve.
    /// Returns also the NID of the MGS, and the ports of the hosts.
    pub fn with_mdt<const HOSTS: usize>(
        log: &str,
        hosts: [&str; HOSTS],
    ) -> (Fixture, String, [u16; HOSTS]) {
        let mut cluster = Fixture::new();
        let mut ports = free_ports(HOSTS + 1);
        let mgs = ports.pop().expect("a port more than hosts");
        let mgs_nid = nid(mgs);
        let nodes: Vec<String> = ports.iter().map(|port| nid(*port)).collect();
        cluster.run(&["mkfs", "--mgs", "mgt"]);
        cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &mgs_nid, "ost"]);
        for host in hosts {
            cluster.mkfs_mdt(&mgs_nid, &nodes.join(","), log, host);
        }
        cluster.serve("mgs", mgs, &["mgt", "ost"]);
        (cluster, mgs_nid, ports.try_into().expect("a port for each host"))
    }

    pub fn output(&self, args: &[&str]) -> Output {
        Command::new(sheen())
            .args(args)
            .current_dir(self.dir.path())
            .env(RUN_DIR, self.path("run"))
            .stdin(Stdio::null())
            .output()
            .expect("sheen runs")
    }

    pub fn run(&self, args: &[&str]) {
        let output = self.output(args);
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
    }

    pub fn mkfs_mdt(&self, mgs: &str, nodes: &str, log: &str, dir: &str) {
        let place = ["--mgsnode", mgs, "--servicenode", nodes, "--log", log, dir];
        self.run(&[&["mkfs", "--mdt", "--index", "0"][..], &place].concat());
    }

    pub fn mkfs_both(&self, host: &str, nodes: &str, log: &str) {
        let mgt = format!("{host}/mgt");
        self.run(&["mkfs", "--mgs", "--servicenode", nodes, "--log", log, &mgt]);
        self.mkfs_mdt(nodes, nodes, log, &format!("{host}/mdt"));
    }

    pub fn mount(&self, name: &str, mgs: &str) -> PathBuf {
        let mnt = self.path(name);
        fs::create_dir(&mnt).expect("a folder");
        let log = format!("log={}", self.path("client.log").display());
        self.run(&["mount", "-o", &log, &format!("{mgs}:/sheen"), &mnt.display().to_string()]);
        mnt
    }

    pub fn serve(&mut self, name: &'static str, port: u16, args: &[&str]) {
        let log = self.path(&format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let child = Command::new(sheen())
            .arg("serve")
            .args(args)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .current_dir(self.dir.path())
            .env(RUN_DIR, self.path("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("sheen runs");
        self.servers.push((name, child));
        until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    pub fn kill(&mut self, name: &str) {
        let at = self.servers.iter().position(|(server, _)| *server == name).expect("it runs");
        let (_, mut child) = self.servers.remove(at);
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    pub fn logs(&self) -> String {
        let names = ["mgs", "data", "one", "two", "client"];
        let logs = names.map(|name| {
            let log = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            format!("== {name}\n{log}")
        });
        logs.concat()
    }

    pub fn log_has(&self, name: &str, words: &str) -> bool {
        self.log_count(name, words) > 0
    }

    pub fn log_count(&self, name: &str, words: &str) -> usize {
        let log = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        log.matches(words).count()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for mnt in ["mnt", "second"].map(|name| self.path(name)) {
            if is_mounted(&mnt) {
                detach(&mnt);
            }
        }
        for (_, child) in &mut self.servers {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Makes files and syncs them until it is told to stop; returns how many, and the longest pause.
fn work(mnt: &Path, done: &AtomicU64, stop: &AtomicBool) -> (u64, Duration) {
    let mut longest = Duration::ZERO;
    for number in 0.. {
        if stop.load(Ordering::Acquire) {
            return (number, longest);
        }
        let began = Instant::now();
        let path = mnt.join(format!("work/{number}"));
        write_and_sync(&path, format!("bytes of {number}").as_bytes()).expect("no error is seen");
        longest = longest.max(began.elapsed());
        done.store(number + 1, Ordering::Release);
    }
    unreachable!("it counts for ever")
}

/// What programs did, and what they must find again.
pub struct Work {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    worker: JoinHandle<(u64, Duration)>,
    mnt: PathBuf,
}

impl Work {
    pub fn begin(mnt: &Path) -> Work {
        fs::create_dir(mnt.join("work")).expect("mkdir");
        fs::write(mnt.join("kept"), b"not synced, but told").expect("write");
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (theirs, told, at) = (done.clone(), stop.clone(), mnt.to_owned());
        let worker = thread::spawn(move || work(&at, &theirs, &told));
        let work = Work { done, stop, worker, mnt: mnt.to_owned() };
        work.goes_on();
        work
    }

    pub fn goes_on(&self) {
        let before = self.done.load(Ordering::Acquire);
        until("work goes on", || self.done.load(Ordering::Acquire) >= before + 20);
    }

    pub fn end(self, cluster: &Fixture) {
        self.stop.store(true, Ordering::Release);
        let (count, longest) = self.worker.join().unwrap_or_else(|_| panic!("{}", cluster.logs()));
        println!("{count} files; the longest pause was {longest:.1?}");
        for number in 0..count {
            let found = fs::read(self.mnt.join(format!("work/{number}"))).expect("read");
            assert_eq!(found, format!("bytes of {number}").as_bytes());
        }
        assert_eq!(fs::read(self.mnt.join("kept")).expect("read"), b"not synced, but told");
        unmount(&self.mnt);
    }
}

pub fn unmount(mnt: &Path) {
    let unmounted = Command::new("umount").arg(mnt).output().expect("umount runs");
    assert!(unmounted.status.success(), "{}", text(&unmounted));
}

pub fn nid(port: u16) -> String {
    format!("127.0.0.1:{port}@tcp")
}
