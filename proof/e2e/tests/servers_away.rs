//! A server goes away while clients work: Ctrl-C works, nothing hangs for ever, and work goes on
//! when it is back.

use e2e::can_mount;
use e2e::process::{detach, is_mounted, kill_and_wait, text};
use e2e::programs::{manifest, sh, try_sh};
use e2e::sheen;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// All servers in one process on loopback, and two mounts, each a process of its own.
struct Rig {
    server: Option<Child>,
    listen: String,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a free port");
        let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
        let mut rig = Rig { server: None, listen: free.to_string(), dir };
        let mgs = format!("{}@tcp", rig.listen);
        let node = ["--mgsnode", &mgs];
        let targets: [(&str, &str, &[&str]); 4] = [
            ("--mgs", "mgt", &[]),
            ("--mdt", "mdt", &node),
            ("--ost", "ost0", &node),
            ("--ost", "ost1", &node),
        ];
        for (kind, name, more) in targets {
            let mut command = Command::new(sheen());
            command.args(["mkfs", kind]).args(more).arg(rig.path(name));
            let output = command.output().expect("sheen runs");
            assert!(output.status.success(), "{}", text(&output));
        }
        rig.serve();
        for at in ["one", "two"] {
            fs::create_dir(rig.path(at)).expect("mkdir");
            let log = format!("log={}", rig.path("mount.log").display());
            let output = Command::new(sheen())
                .args(["mount", "-o", &log, &format!("{mgs}:/sheen")])
                .arg(rig.path(at))
                .output()
                .expect("sheen runs");
            assert!(output.status.success(), "{}", text(&output));
        }
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn serve(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("serve.log"))
            .expect("a log");
        let child = Command::new(sheen())
            .arg("serve")
            .args(["mgt", "mdt", "ost0", "ost1"].map(|name| self.path(name)))
            .args(["--listen", &self.listen])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("sheen runs");
        self.server = Some(child);
    }

    fn mount_log(&self) -> String {
        fs::read_to_string(self.path("mount.log")).expect("the log")
    }

    fn kill(&mut self) {
        let mut server = self.server.take().expect("runs");
        server.kill().expect("kill");
        server.wait().expect("wait");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for at in ["one", "two"] {
            let path = self.path(at);
            if is_mounted(&path) {
                detach(&path);
            }
        }
        if let Some(mut server) = self.server.take() {
            kill_and_wait(server.id() as i32);
            let _ = server.wait();
        }
    }
}

/// Runs a program on a path of the mount, sends it SIGINT after a second; how long it lived.
fn interrupted(at: &Path, program: &str, path: &str) -> Duration {
    let began = Instant::now();
    let script = format!("timeout -s INT 1 {program} {}", at.join(path).display());
    let output = try_sh(Path::new("/"), &script);
    assert!(!output.status.success(), "{script} succeeded without its server: {}", text(&output));
    began.elapsed()
}

#[test]
fn a_killed_server_holds_nobody_for_ever() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    let (one, two) = (rig.path("one"), rig.path("two"));
    sh(&one, "mkdir d && seq 1000 > d/file && ln d/file hard && sync . d d/file");
    assert_eq!(manifest(&one), manifest(&two), "both mounts show the same");
    rig.kill();

    for (program, path) in
        [("ls", ""), ("cat", "d/file"), ("touch", "new"), ("rm", "hard"), ("df", "")]
    {
        let took = interrupted(&one, program, path);
        assert!(took < Duration::from_secs(5), "{program} did not yield to Ctrl-C for {took:?}");
    }

    // A program that waits goes on by itself when the server is back.
    let began = Instant::now();
    let waiting = Command::new("cat")
        .arg(two.join("d/file"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat runs");
    std::thread::sleep(Duration::from_secs(1));
    rig.serve();
    let output = waiting.wait_with_output().expect("cat ends");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(output.stdout, fs::read(one.join("d/file")).expect("read"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?} to come back", began.elapsed());
    assert_eq!(manifest(&one), manifest(&two));
    sh(&one, "echo more >> d/file && mv d/file d/other");
    sh(&two, "tail -n 1 d/other | grep -qx more");

    for at in [one, two] {
        let output = Command::new("umount").arg(&at).output().expect("umount runs");
        assert!(output.status.success(), "{}", text(&output));
    }
    let log = rig.mount_log();
    assert!(!log.contains("ERROR") && !log.contains("Bad file descriptor"), "{log}");
}

#[test]
fn an_unmount_without_servers_ends() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    let one = rig.path("one");
    // Data that servers have not stored keeps the process for as long as it waits for them.
    sh(&one, "echo x > file; sync file");
    rig.kill();
    let began = Instant::now();
    // Without -f umount(8) looks at the mount point first, and waits as any program does.
    let output = Command::new("umount").arg("-f").arg(&one).output().expect("umount runs");
    assert!(output.status.success(), "{}", text(&output));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // The process behind it ends, too: its log says so.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !rig.mount_log().contains("node ends") {
        assert!(Instant::now() < deadline, "the process behind the mount lives on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn servers_stop_in_bounded_time_without_their_mgs() {
    let free = || {
        std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a free port")
    };
    let (mgs, oss) = (free().to_string(), free().to_string());
    let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let mkfs = |args: &[&str], name: &str| {
        let output = Command::new(sheen())
            .arg("mkfs")
            .args(args)
            .arg(path(name))
            .output()
            .expect("sheen runs");
        assert!(output.status.success(), "{}", text(&output));
    };
    let serve = |names: &[&str], listen: &str, log: &str| {
        let mut command = Command::new(sheen());
        command.arg("serve").args(names.iter().map(|name| path(name))).args(["--listen", listen]);
        let log = fs::File::create(path(log)).expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("sheen runs")
    };
    let osts = ["ost0", "ost1", "ost2", "ost3", "ost4"];
    mkfs(&["--mgs"], "mgt");
    osts.iter().for_each(|name| mkfs(&["--ost", "--mgsnode", &format!("{mgs}@tcp")], name));
    let mut mgs = serve(&["mgt"], &mgs, "mgs.log");
    let mut servers = serve(&osts, &oss, "oss.log");
    let log = || fs::read_to_string(path("oss.log")).expect("the log");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !log().contains("in service") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    mgs.kill().expect("kill");
    mgs.wait().expect("wait");
    let began = Instant::now();
    // SAFETY: kill has no memory effects; the pid is our child, not yet waited for.
    unsafe { libc::kill(servers.id() as i32, libc::SIGTERM) };
    let status = servers.wait().expect("wait");
    assert!(status.success(), "{status}\n{}", log());
    assert!(log().contains("in service"), "it never started:\n{}", log());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?} to stop\n{}", began.elapsed(), log());
}
