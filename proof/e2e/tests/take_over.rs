//! The MGS and an MDT whose logs are in etcd move to another host: their server is killed and its
//! folders removed, and no program sees more than a pause. Skips, and says so, where etcd is not
//! installed (`./run deps test` installs it).

#[path = "../../../tools/etcd/tests/members/mod.rs"]
mod members;
#[path = "../../../tools/etcd/tests/weed/mod.rs"]
mod weed;

use e2e::cluster::RUN_DIR;
use e2e::process::{detach, is_mounted, text};
use e2e::programs::write_and_sync;
use e2e::sheen;
use members::{Members, free_ports, or_skip};
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
struct Fixture {
    dir: tempfile::TempDir,
    servers: Vec<(&'static str, Child)>,
}

impl Fixture {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn new() -> Fixture {
        Fixture { dir: tempfile::tempdir().expect("a folder"), servers: Vec::new() }
    }

    fn output(&self, args: &[&str]) -> Output {
        Command::new(sheen())
            .args(args)
            .current_dir(self.dir.path())
            .env(RUN_DIR, self.path("run"))
            .stdin(Stdio::null())
            .output()
            .expect("sheen runs")
    }

    fn run(&self, args: &[&str]) {
        let output = self.output(args);
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
    }

    fn mkfs_mdt(&self, mgs: &str, nodes: &str, log: &str, dir: &str) {
        let place = ["--mgsnode", mgs, "--servicenode", nodes, "--log", log, dir];
        self.run(&[&["mkfs", "--mdt", "--index", "0"][..], &place].concat());
    }

    fn mkfs_both(&self, host: &str, nodes: &str, log: &str) {
        let mgt = format!("{host}/mgt");
        self.run(&["mkfs", "--mgs", "--servicenode", nodes, "--log", log, &mgt]);
        self.mkfs_mdt(nodes, nodes, log, &format!("{host}/mdt"));
    }

    fn mount(&self, name: &str, mgs: &str) -> PathBuf {
        let mnt = self.path(name);
        fs::create_dir(&mnt).expect("a folder");
        let log = format!("log={}", self.path("client.log").display());
        self.run(&["mount", "-o", &log, &format!("{mgs}:/sheen"), &mnt.display().to_string()]);
        mnt
    }

    fn serve(&mut self, name: &'static str, port: u16, args: &[&str]) {
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

    fn kill(&mut self, name: &str) {
        let at = self.servers.iter().position(|(server, _)| *server == name).expect("it runs");
        let (_, mut child) = self.servers.remove(at);
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    fn logs(&self) -> String {
        let names = ["mgs", "data", "one", "two", "client"];
        let logs = names.map(|name| {
            let log = fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            format!("== {name}\n{log}")
        });
        logs.concat()
    }

    fn log_has(&self, name: &str, words: &str) -> bool {
        self.log_count(name, words) > 0
    }

    fn log_count(&self, name: &str, words: &str) -> usize {
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

/// What programs did, and what they must find again.
struct Work {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    worker: JoinHandle<(u64, Duration)>,
    mnt: PathBuf,
}

impl Work {
    fn begin(mnt: &Path) -> Work {
        fs::create_dir(mnt.join("work")).expect("mkdir");
        fs::write(mnt.join("kept"), b"not synced, but told").expect("write");
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (theirs, told, at) = (done.clone(), stop.clone(), mnt.to_owned());
        let worker = thread::spawn(move || work(&at, &theirs, &told));
        let work = Work { done, stop, worker, mnt: mnt.to_owned() };
        work.goes_on();
        work
    }

    fn goes_on(&self) {
        let before = self.done.load(Ordering::Acquire);
        until("work goes on", || self.done.load(Ordering::Acquire) >= before + 20);
    }

    fn end(self, cluster: &Fixture) {
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

fn unmount(mnt: &Path) {
    let unmounted = Command::new("umount").arg(mnt).output().expect("umount runs");
    assert!(unmounted.status.success(), "{}", text(&unmounted));
}

fn nid(port: u16) -> String {
    format!("127.0.0.1:{port}@tcp")
}

#[test]
fn an_mdt_moves_to_another_host_when_its_own_is_lost() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let mut cluster = Fixture::new();
    let [mgs, one, two] = free_ports(3)[..] else { unreachable!("three were asked for") };
    let (mgs_nid, nodes, log) = (nid(mgs), format!("{},{}", nid(one), nid(two)), members.url());
    cluster.run(&["mkfs", "--mgs", "mgt"]);
    cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &mgs_nid, "ost"]);
    for dir in ["one", "two"] {
        cluster.mkfs_mdt(&mgs_nid, &nodes, &log, dir);
    }
    cluster.serve("mgs", mgs, &["mgt", "ost"]);
    cluster.serve("one", one, &["one"]);
    until("the first host takes it over", || cluster.log_has("one", "taken over"));
    cluster.serve("two", two, &["two"]);
    until("the second host follows", || cluster.log_has("two", "following the log"));
    let mnt = cluster.mount("mnt", &mgs_nid);
    let work = Work::begin(&mnt);
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folder");
    work.goes_on();
    assert!(cluster.log_has("two", "taken over"), "{}", cluster.logs());
    work.end(&cluster);
}

#[test]
fn the_mgs_moves_together_with_an_mdt() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let mut cluster = Fixture::new();
    let [data, one, two] = free_ports(3)[..] else { unreachable!("three were asked for") };
    let (nodes, log) = (format!("{},{}", nid(one), nid(two)), members.url());
    for host in ["one", "two"] {
        cluster.mkfs_both(host, &nodes, &log);
    }
    cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &nodes, "ost"]);
    // In any order: what needs the MGS waits for it.
    cluster.serve("data", data, &["ost"]);
    cluster.serve("one", one, &["one/mgt", "one/mdt"]);
    until("the first host has both", || cluster.log_count("one", "taken over") == 2);
    cluster.serve("two", two, &["two/mgt", "two/mdt"]);
    until("the second follows both", || cluster.log_count("two", "following the log") == 2);
    // As in fstab: with a colon between the hosts.
    let hosts = format!("{}:{}", nid(one), nid(two));
    let mnt = cluster.mount("mnt", &hosts);
    cluster.run(&["lctl", "pool_new", "sheen.before"]);
    let work = Work::begin(&mnt);
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folders");
    work.goes_on();
    until("the second host has both", || cluster.log_count("two", "taken over") == 2);
    // The configuration is there, and goes on.
    cluster.run(&["lctl", "pool_new", "sheen.after"]);
    let pools = text(&cluster.output(&["lctl", "pool_list", "sheen"]));
    assert!(pools.contains("sheen.before") && pools.contains("sheen.after"), "{pools}");
    let second = cluster.mount("second", &hosts);
    assert_eq!(fs::read(second.join("kept")).expect("read"), b"not synced, but told");
    unmount(&second);

    // The lost host comes back without its folders, and the logs do not reach back to its time.
    let lost = |kind: &str| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{host}:{}", cluster.path(&format!("one/{kind}")).display())
    };
    for (target, kind) in [("MGS", "mgt"), ("sheen-MDT0000", "mdt")] {
        cluster.run(&["lctl", "del_replica", target, &lost(kind)]);
    }
    until("the logs are trimmed", || {
        let status = cluster.output(&["status", "--json", "two/mgt"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        let logs = status["logs"].as_array().expect("two logs");
        logs.len() == 2 && logs.iter().all(|log| log["first"].as_u64() > Some(1))
    });
    cluster.mkfs_both("one", &nodes, &log);
    cluster.serve("one", one, &["one/mgt", "one/mdt"]);
    until("it has the trees", || cluster.log_count("one", "the tree is copied") == 2);
    until("it follows both", || cluster.log_count("one", "following the log") == 4);
    cluster.kill("two");
    work.goes_on();
    until("the first host has both again", || cluster.log_count("one", "taken over") == 4);
    let pools = text(&cluster.output(&["lctl", "pool_list", "sheen"]));
    assert!(pools.contains("sheen.before") && pools.contains("sheen.after"), "{pools}");
    work.end(&cluster);
}

/// State of the log of the MDT, as the server in this folder tells it.
fn log_of_mdt(cluster: &Fixture, dir: &str) -> serde_json::Value {
    let output = cluster.output(&["status", dir, "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    status["logs"][0].clone()
}

#[test]
fn an_mdt_outlives_all_its_hosts_with_checkpoints_in_s3() {
    if !e2e::can_mount() {
        return;
    }
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(mut weed) = weed::or_skip(weed::Weed::start()) else { return };
    let mut cluster = Fixture::new();
    let [mgs, one, two] = free_ports(3)[..] else { unreachable!("three were asked for") };
    let (mgs_nid, nodes) = (nid(mgs), format!("{},{}", nid(one), nid(two)));
    let log = format!("{},{}", members.url(), weed.url("site"));
    cluster.run(&["mkfs", "--mgs", "mgt"]);
    cluster.run(&["mkfs", "--ost", "--index", "0", "--mgsnode", &mgs_nid, "ost"]);
    cluster.mkfs_mdt(&mgs_nid, &nodes, &log, "one");
    cluster.serve("mgs", mgs, &["mgt", "ost"]);
    cluster.serve("one", one, &["one"]);
    until("the first host takes it over", || cluster.log_has("one", "taken over"));
    let mnt = cluster.mount("mnt", &mgs_nid);
    let work = Work::begin(&mnt);
    // Files on the MDT: much more than the log keeps behind a checkpoint.
    fs::create_dir(mnt.join("large")).expect("mkdir");
    cluster.run(&["lfs", "setstripe", "-E", "64K", "-L", "mdt", "-E", "-1", &{
        mnt.join("large").display().to_string()
    }]);
    let bytes = |number: u32| vec![number as u8; 60_000];
    let checkpoint = |cluster: &Fixture| log_of_mdt(cluster, "one")["checkpoint"].as_u64();
    let mut number = 0;
    let mut write_some = || {
        for _ in 0..20 {
            fs::write(mnt.join(format!("large/{number}")), bytes(number)).expect("write");
            number += 1;
        }
        write_and_sync(&mnt.join(format!("large/{number}")), &bytes(number)).expect("write");
        number += 1;
        number
    };
    let mut next_checkpoint = |before: Option<u64>| {
        let (mut now, mut number) = (None, 0);
        until("a checkpoint is made", || {
            number = write_some();
            now = checkpoint(&cluster);
            now > before
        });
        (now, number)
    };
    let first = next_checkpoint(None).0;
    let second = next_checkpoint(first).0;
    let status = log_of_mdt(&cluster, "one");
    assert!(status["blobs"].as_str().is_some_and(|place| place == "s3://logs/site"), "{status}");
    // Without the store of blobs the log goes on, and says so.
    weed.kill();
    let trouble = || {
        let status = log_of_mdt(&cluster, "one");
        status["trouble"].as_str().is_some_and(|text| text.contains("s3://logs/site"))
    };
    write_and_sync(&mnt.join("while there is no store of blobs"), b"text").expect("write");
    until("the trouble is told", || {
        fs::write(mnt.join("large/again"), bytes(0)).expect("write");
        write_and_sync(&mnt.join("large/again"), &bytes(1)).expect("write");
        trouble()
    });
    weed.start_again();
    let number = next_checkpoint(second).1;
    until("the trouble is over", || !trouble());
    // The only host that ever had the tree is lost, and only then there is another one.
    cluster.kill("one");
    fs::remove_dir_all(cluster.path("one")).expect("remove the folder");
    cluster.mkfs_mdt(&mgs_nid, &nodes, &log, "two");
    cluster.serve("two", two, &["two"]);
    work.goes_on();
    assert!(cluster.log_has("two", "the tree is that of the checkpoint"), "{}", cluster.logs());
    assert!(cluster.log_has("two", "taken over"), "{}", cluster.logs());
    for number in 0..number {
        let found = fs::read(mnt.join(format!("large/{number}"))).expect("read");
        assert_eq!(found, bytes(number), "file {number}");
    }
    work.end(&cluster);
}

#[test]
fn nothing_is_made_where_blobs_cannot_be_kept() {
    let Some(members) = or_skip(Members::start()) else { return };
    let Some(weed) = weed::or_skip(weed::Weed::start()) else { return };
    let cluster = Fixture::new();
    let mkfs = |log: &str, dir: &str| {
        let nodes = [nid(1), nid(2)].join(",");
        let output = cluster.output(&["mkfs", "--mgs", "--servicenode", &nodes, "--log", log, dir]);
        (output.status.success(), text(&output))
    };
    let with = |blobs: &str| format!("{},{blobs}", members.url());
    let (made, said) = mkfs(&with(&weed.url_of("nothing", "p")), "mgt");
    assert!(!made && said.contains("s3://nothing/p"), "{said}");
    let (made, said) = mkfs(&with("s3://logs?endpoint=http://127.0.0.1:1&key-file=/none"), "mgt");
    assert!(!made && said.contains("/none"), "{said}");
    let key = fs::read(weed.key_file()).expect("read the key");
    fs::write(weed.key_file(), "sheen\nanother secret\n").expect("write a key");
    let (made, said) = mkfs(&with(&weed.url("p")), "mgt");
    assert!(!made && said.contains("SignatureDoesNotMatch"), "{said}");
    assert!(!said.contains("another secret"), "{said}");
    fs::write(weed.key_file(), key).expect("write the key");
    let (made, said) = mkfs(&with(&weed.url("p")), "mgt");
    assert!(made, "{said}");
    for (log, words) in [(members.url(), "names no store"), (with(&weed.url("q")), "s3://logs/q")] {
        let (made, said) = mkfs(&log, "another");
        assert!(!made && said.contains("s3://logs/p") && said.contains(words), "{said}");
    }
}
