//! An MDT whose log is in etcd moves to another host: its server is killed and its folder removed,
//! and no program sees more than a pause. Skips, and says so, where etcd is not installed
//! (`./run deps test` installs it).

#[path = "../../../tools/etcd/tests/members/mod.rs"]
mod members;

use e2e::cluster::RUN_DIR;
use e2e::process::{detach, is_mounted, text};
use e2e::programs::write_and_sync;
use e2e::sheen;
use members::{Members, free_ports, or_skip};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers on ports of loopback, and a mount.
struct Fixture {
    dir: tempfile::TempDir,
    servers: Vec<(&'static str, Child)>,
}

impl Fixture {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, args: &[&str]) {
        let output = Command::new(sheen())
            .args(args)
            .current_dir(self.dir.path())
            .env(RUN_DIR, self.path("run"))
            .stdin(Stdio::null())
            .output()
            .expect("sheen runs");
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
    }

    fn serve(&mut self, name: &'static str, port: u16, args: &[&str]) {
        let log = File::create(self.path(&format!("{name}.log"))).expect("a log");
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

    fn kill(&mut self, name: &str) {
        let at = self.servers.iter().position(|(server, _)| *server == name).expect("it runs");
        let (_, mut child) = self.servers.remove(at);
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    fn logs(&self) -> String {
        let names = ["mgs", "one", "two", "client"];
        let logs = names.map(|name| {
            let log = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            format!("== {name}\n{log}")
        });
        logs.concat()
    }

    fn log_has(&self, name: &str, words: &str) -> bool {
        let log = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        log.contains(words)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let mnt = self.path("mnt");
        if is_mounted(&mnt) {
            detach(&mnt);
        }
        for (_, child) in &mut self.servers {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
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

#[test]
fn an_mdt_moves_to_another_host_when_its_own_is_lost() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let mut cluster = Fixture { dir, servers: Vec::new() };
    let [mgs, one, two] = free_ports(3)[..] else { unreachable!("three were asked for") };
    let nid = |port: u16| format!("127.0.0.1:{port}@tcp");
    let (mgs_nid, nodes, log) = (nid(mgs), format!("{},{}", nid(one), nid(two)), members.url());
    cluster.run(&["mkfs", "--mgs", "mgt"]);
    cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &mgs_nid, "ost"]);
    for dir in ["one", "two"] {
        cluster.run(&[
            "mkfs",
            "--mdt",
            "--index",
            "0",
            "--mgsnode",
            &mgs_nid,
            "--servicenode",
            &nodes,
            "--log",
            &log,
            dir,
        ]);
    }
    cluster.serve("mgs", mgs, &["mgt", "ost"]);
    cluster.serve("one", one, &["one"]);
    until("the first host takes it over", || cluster.log_has("one", "taken over"));
    cluster.serve("two", two, &["two"]);
    until("the second host follows", || cluster.log_has("two", "following the log"));
    let mnt = cluster.path("mnt");
    fs::create_dir(&mnt).expect("a folder");
    let client_log = format!("log={}", cluster.path("client.log").display());
    let source = format!("{mgs_nid}:/sheen");
    cluster.run(&["mount", "-o", &client_log, &source, &mnt.display().to_string()]);
    fs::create_dir(mnt.join("work")).expect("mkdir");
    fs::write(mnt.join("kept"), b"not synced, but told").expect("write");

    let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (theirs, told, at) = (done.clone(), stop.clone(), mnt.clone());
    let worker = thread::spawn(move || work(&at, &theirs, &told));
    until("files are made", || done.load(Ordering::Acquire) >= 20);
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folder");
    let before = done.load(Ordering::Acquire);
    until("work goes on", || done.load(Ordering::Acquire) >= before + 20);
    stop.store(true, Ordering::Release);
    let (count, longest) = worker.join().unwrap_or_else(|_| panic!("{}", cluster.logs()));
    println!("{count} files; the longest pause was {longest:.1?}");
    assert!(cluster.log_has("two", "taken over"), "{}", cluster.logs());
    for number in 0..count {
        let found = fs::read(mnt.join(format!("work/{number}"))).expect("read");
        assert_eq!(found, format!("bytes of {number}").as_bytes());
    }
    assert_eq!(fs::read(mnt.join("kept")).expect("read"), b"not synced, but told");
    let unmounted = Command::new("umount").arg(&mnt).output().expect("umount runs");
    assert!(unmounted.status.success(), "{}", text(&unmounted));
}
