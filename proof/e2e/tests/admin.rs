//! Work of an administrator: targets that are away or removed for good, limits, remounts, several
//! clusters on a host.

use e2e::cluster::RUN_DIR;
use e2e::process::{detach, is_mounted, kill_and_wait, text};
use e2e::{can_mount, sheen};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No operation that does not need the absent target takes as long as a request may (100 s), nor
/// half of it.
const NOT_WAITING: Duration = Duration::from_secs(20);

/// Servers on loopback addresses, each a process, and mounts.
struct Rig {
    servers: Vec<(String, Child)>,
    mgs: String,
    mounts: Vec<PathBuf>,
    dir: tempfile::TempDir,
}

fn free_address() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a free port");
    free.to_string()
}

impl Rig {
    /// MGS, MDT and OST0000 in one process; OST0001 in another.
    fn new() -> Rig {
        let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
        let mut rig = Rig { servers: Vec::new(), mgs: free_address(), mounts: Vec::new(), dir };
        for (kind, name) in [("--mgs", "mgt"), ("--mdt", "mdt")] {
            rig.mkfs(&[kind], name);
        }
        rig.mkfs(&["--ost", "--index", "0"], "ost0");
        rig.mkfs(&["--ost", "--index", "1"], "ost1");
        let listen = rig.mgs.clone();
        rig.serve("main", &["mgt", "mdt", "ost0"], &["--listen", &listen]);
        rig.serve("oss1", &["ost1"], &["--listen", &free_address()]);
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(sheen());
        command.arg0(name).args(args).env(RUN_DIR, self.path("run")).stdin(Stdio::null());
        command
    }

    fn run(&self, name: &str, args: &[&str]) -> Output {
        self.command(name, args).output().expect("sheen runs")
    }

    fn good(&self, name: &str, args: &[&str]) -> String {
        let output = self.run(name, args);
        assert!(output.status.success(), "{name} {args:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    fn mkfs(&self, args: &[&str], name: &str) {
        let (node, path) = (format!("{}@tcp", self.mgs), self.path(name));
        let node: &[&str] = if args == ["--mgs"] { &[] } else { &["--mgsnode", &node] };
        self.good("mkfs.sheen", &[args, node, &[path.to_str().expect("text")]].concat());
    }

    /// Starts a server and waits until it is in service.
    fn serve(&mut self, name: &str, targets: &[&str], args: &[&str]) {
        let log = self.path(&format!("{name}.log"));
        let mut command = self.command("sheen", &["serve"]);
        command.args(targets.iter().map(|target| self.path(target))).args(args);
        let file = fs::File::create(&log).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("sheen runs");
        self.servers.push((name.to_owned(), child));
        let deadline = Instant::now() + Duration::from_secs(30);
        while !fs::read_to_string(&log).expect("the log").contains("in service") {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).expect("the log"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill(&mut self, name: &str) {
        let at = self.servers.iter().position(|(server, _)| server == name).expect("it runs");
        let (_, mut server) = self.servers.remove(at);
        server.kill().expect("kill");
        server.wait().expect("wait");
    }

    fn mount(&mut self, name: &str) -> PathBuf {
        let at = self.path(name);
        fs::create_dir(&at).expect("mkdir");
        let log = format!("log={}", self.path(&format!("{name}.log")).display());
        let source = format!("{}@tcp:/sheen", self.mgs);
        self.good("mount.sheen", &[&source, at.to_str().expect("text"), "-o", &log]);
        self.mounts.push(at.clone());
        at
    }

    /// Space of a mount as statfs(2) tells it: total, free, available, bytes.
    fn space(&self, at: &Path) -> [u64; 3] {
        let output = Command::new("stat")
            .args(["-f", "-c", "%S %b %f %a"])
            .arg(at)
            .output()
            .expect("stat runs");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<u64> =
            words.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        [numbers[1] * numbers[0], numbers[2] * numbers[0], numbers[3] * numbers[0]]
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for at in &self.mounts {
            if is_mounted(at) {
                detach(at);
            }
        }
        for (_, server) in &mut self.servers {
            kill_and_wait(server.id() as i32);
            let _ = server.wait();
        }
    }
}

fn quick<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    assert!(began.elapsed() < NOT_WAITING, "{what} took {:?}", began.elapsed());
    result
}

#[test]
fn nothing_waits_for_an_ost_that_is_away() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    let one = rig.mount("one");
    fs::create_dir(one.join("d")).expect("mkdir");
    (0..8).for_each(|n| fs::write(one.join(format!("d/{n}")), "x").expect("write"));
    let before = rig.space(&one);
    rig.kill("oss1");

    let mount = one.to_str().expect("text").to_owned();
    quick("statfs", || {
        let after = rig.space(&one);
        assert!(
            after[0] > before[0] / 2,
            "the space of an OST that is away counts: {before:?} {after:?}"
        );
    });
    for (program, args) in [("df", &[&mount[..]][..]), ("du", &["-s", &mount]), ("find", &[&mount])]
    {
        let output = quick(program, || Command::new(program).args(args).output().expect("it runs"));
        assert!(output.status.success(), "{program}: {}", text(&output));
    }
    let df = quick("lfs df", || rig.good("lfs", &["df", &mount]));
    assert!(df.contains("\nsheen-OST0001_UUID: "), "{df}");
    quick("create", || fs::write(one.join("new"), "x").expect("write"));
    quick("lfs setstripe", || {
        rig.good("lfs", &["setstripe", "-c", "-1", &format!("{mount}/wide")])
    });

    // A mount that never heard of its space, either.
    let two = quick("mount", || rig.mount("two"));
    quick("statfs", || assert!(rig.space(&two)[0] > 0));
    let output =
        quick("umount", || Command::new("umount").arg(&two).output().expect("umount runs"));
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn df_shows_the_other_mounts_before_one_that_lost_its_servers() {
    if !can_mount() {
        return;
    }
    // The dead one comes first in the table of mounts.
    let mut dead = Rig::new();
    let lost = dead.mount("lost");
    let mut alive = Rig::new();
    let one = alive.mount("one");
    let df = |rig: &Rig, args: &[&str]| {
        // It waited for ever; then this ends it.
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "60"]).arg(sheen()).args(["lfs", "df"]).args(args);
        command.env(RUN_DIR, rig.path("run")).stdin(Stdio::null());
        command.output().expect("timeout runs")
    };
    let shown = |at: &Path| format!("{}\n", at.display());
    dead.kill("main");
    dead.kill("oss1");
    // The kernel may believe the attributes of the root for a while.
    let deadline = Instant::now() + Duration::from_secs(100);
    let looks = || {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "3", "stat", "-c", "%i"]).arg(&lost).stdout(Stdio::null());
        command.status().expect("timeout runs").success()
    };
    while looks() {
        assert!(Instant::now() < deadline, "the kernel does not ask for the root");
        std::thread::sleep(Duration::from_secs(1));
    }
    let silent = format!("can't ask the mount of '{}': it does not answer within", lost.display());
    for args in [&[][..], &[lost.to_str().expect("text")]] {
        let output = df(&alive, args);
        let said = text(&output);
        // Mounts of other tests on this host may be away, too, each in its own way.
        match args {
            [] => assert!(![Some(0), Some(124)].contains(&output.status.code()), "{said}"),
            _ => assert_eq!(output.status.code(), Some(libc::ETIMEDOUT), "{said}"),
        }
        assert_eq!(said.contains(&shown(&one)), args.is_empty(), "{args:?}: {said}");
        assert!(said.contains(&silent), "{args:?}: {said}");
    }
}

#[test]
fn a_target_that_never_comes_back_is_removed() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    let one = rig.mount("one");
    let mount = one.to_str().expect("text").to_owned();
    for (index, name) in [("0", "here"), ("1", "there")] {
        let path = format!("{mount}/{name}");
        rig.good("lfs", &["setstripe", "-i", index, &path]);
        fs::write(&path, vec![7; 100_000]).expect("write");
        fs::File::open(&path).and_then(|file| file.sync_all()).expect("sync");
    }
    let refused = |args: &[&str], status: i32, said: &str| {
        let output = rig.run("lctl", args);
        assert_eq!(output.status.code(), Some(status), "{}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    };
    let busy = "error: del_ost: sheen-OST0001 is in service: stop its server first; --force removes it all the same, \
                with what it holds\n";
    refused(&["del_ost", "--target", "sheen-OST0001"], 16, busy);
    let root =
        "error: del_mdt: sheen-MDT0000 holds the root of the file system and cannot be removed\n";
    refused(&["del_mdt", "--target", "sheen-MDT0000"], 1, root);
    let none = "error: del_ost: there is no sheen-OST0007 in the configuration\n";
    refused(&["del_ost", "-t", "sheen-OST0007"], 2, none);
    refused(
        &["del_ost", "-t", "x"],
        22,
        "error: del_ost: \"x\" names no OST: write sheen-OST0001\n",
    );
    rig.kill("oss1");

    assert_eq!(
        rig.good("lctl", &["del_ost", "-n", "-t", "sheen-OST0001"]),
        "sheen-OST0001 would be removed\n"
    );
    let osts = || rig.good("lfs", &["osts", &mount]);
    assert_eq!(osts().lines().count(), 3, "nothing was removed");
    let removed = rig.good("lctl", &["del_ost", "--target", "sheen-OST0001"]);
    assert_eq!(removed, "sheen-OST0001 removed; its number will not be used again\n");
    e2e::lustre::soon(&"OBDS:\n0: sheen-OST0000_UUID ACTIVE\n".to_owned(), osts);
    let df = rig.good("lfs", &["df", &mount]);
    assert!(!df.contains("OST0001"), "{df}");

    // Using its files is an error at once, and they can be removed; the rest is as it was.
    let caches = e2e::caches::mine();
    fs::write("/proc/sys/vm/drop_caches", "3").expect("drop caches");
    drop(caches);
    let error = quick("read", || fs::read(one.join("there")).expect_err("it is gone"));
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert_eq!(fs::read(one.join("here")).expect("read"), vec![7; 100_000]);
    quick("rm", || fs::remove_file(one.join("there")).expect("remove"));

    // It stays so when the MGS starts again: neither the store nor its number comes back.
    rig.kill("main");
    let listen = rig.mgs.clone();
    rig.serve("main", &["mgt", "mdt", "ost0"], &["--listen", &listen]);
    let mut back = rig.command("sheen", &["serve"]);
    let output = back
        .arg(rig.path("ost1"))
        .args(["--listen", &free_address()])
        .output()
        .expect("sheen runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output).contains("it was removed from the file system with lctl del_ost"),
        "{}",
        text(&output)
    );
    rig.mkfs(&["--ost"], "ost2");
    rig.serve("oss2", &["ost2"], &["--listen", &free_address()]);
    let both = "OBDS:\n0: sheen-OST0000_UUID ACTIVE\n2: sheen-OST0002_UUID ACTIVE\n".to_owned();
    e2e::lustre::soon(&both, || rig.good("lfs", &["osts", &mount]));
}

#[test]
fn a_loopback_nid_is_not_told_to_a_remote_mgs() {
    let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
    let ost = dir.path().join("ost");
    let made = Command::new(sheen())
        .args(["mkfs", "--ost", "--mgsnode", "192.0.2.1@tcp"])
        .arg(&ost)
        .output();
    assert!(made.expect("sheen runs").status.success());
    let mut serve = Command::new("timeout");
    serve.arg("20").arg(sheen()).arg("serve").arg(&ost).args(["--listen", "127.0.0.1:0"]);
    let output = serve.env(RUN_DIR, dir.path().join("run")).output().expect("timeout runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let said = text(&output);
    assert!(
        said.contains("which other hosts cannot reach, though the MGS is at 192.0.2.1@tcp"),
        "{said}"
    );
    assert!(said.contains("--listen ADDRESS:PORT"), "{said}");
}

#[test]
fn the_size_of_an_ost_is_remembered_and_df_shows_what_sheenfs_uses() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    let one = rig.mount("one");
    let used = |[total, free, _]: [u64; 3]| total - free;
    let space = rig.space(&one);
    assert!(used(space) < 64 << 20, "an empty file system uses nothing: {space:?}");
    let before = used(space);
    fs::write(one.join("file"), vec![1; 20 << 20]).expect("write");
    fs::File::open(one.join("file")).and_then(|file| file.sync_all()).expect("sync");
    let grown = used(rig.space(&one)) - before;
    // The first 64 KiB are on the MDT.
    let (least, most) = ((20 << 20) - (64 << 10), 24 << 20);
    assert!((least..most).contains(&grown), "20 MiB were written, {grown} bytes are shown");

    rig.kill("oss1");
    let listen = free_address();
    rig.serve("oss1", &["ost1"], &["--listen", &listen, "--ost-size", "1G"]);
    let size = |rig: &Rig| {
        let status =
            rig.good("sheen", &["status", rig.path("ost1").to_str().expect("text"), "--json"]);
        let at = status.find("\"bytes_total\":").expect("space") + "\"bytes_total\":".len();
        let digits: String =
            status[at..].trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number")
    };
    assert!(size(&rig) <= 1 << 30);
    rig.kill("oss1");
    rig.serve("oss1", &["ost1"], &["--listen", &listen]);
    assert!(size(&rig) <= 1 << 30, "the limit was forgotten: {}", size(&rig));
}

#[test]
fn a_mount_can_become_read_only() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    let one = rig.mount("one");
    let (source, at) = (format!("{}@tcp:/sheen", rig.mgs), one.to_str().expect("text").to_owned());
    fs::write(one.join("file"), "x").expect("write");
    let open = fs::File::create(one.join("open")).expect("create");
    let busy = rig.run("mount.sheen", &[&source, &at, "-o", "rw,remount,ro"]);
    assert!(
        !busy.status.success() && text(&busy).contains("files are open for writing"),
        "{}",
        text(&busy)
    );
    fs::write(one.join("file"), "y").expect("still writable");
    drop(open);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !rig.run("mount.sheen", &[&source, &at, "-o", "rw,remount,ro"]).status.success() {
        assert!(Instant::now() < deadline, "nothing is open any more");
        std::thread::sleep(Duration::from_millis(50));
    }
    let error = fs::write(one.join("file"), "z").expect_err("read-only");
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    assert_eq!(fs::read_to_string(one.join("file")).expect("read"), "y");
    rig.good("mount.sheen", &[&source, &at, "-o", "remount,rw"]);
    fs::write(one.join("file"), "z").expect("writable again");
    let absent = rig.run(
        "mount.sheen",
        &[&source, rig.path("ost0").to_str().expect("text"), "-o", "remount,ro"],
    );
    assert!(text(&absent).contains("no SheenFS is mounted there"), "{}", text(&absent));
}

#[test]
fn with_several_clusters_one_must_be_chosen() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new();
    let other = rig.path("other");
    let up = |args: &[&str]| rig.good("sheen", args);
    let dir = other.to_str().expect("text");
    let at = rig.path("mnt");
    let mount = at.to_str().expect("text");
    up(&[
        "up",
        dir,
        "--fsname",
        "other",
        "--osts",
        "1",
        "--listen",
        "127.0.0.1:0",
        "--mount",
        mount,
    ]);
    let test = || {
        let refused = |args: &[&str]| {
            let output = rig.run("lctl", args);
            assert_eq!(output.status.code(), Some(22), "lctl {args:?}: {}", text(&output));
            assert!(
                text(&output).contains("daemons of several clusters (")
                    && text(&output).contains("other at 127.")
            );
        };
        refused(&["set_param", "lod.*.stripesize=2M"]);
        refused(&["set_param", "-P", "lod.*.stripesize=2M"]);
        refused(&["net_drop_add", "-s", "*@tcp", "-d", "*@tcp", "-r", "1000"]);
        let sizes = || rig.good("lctl", &["get_param", "lod.*.stripesize"]);
        assert!(!sizes().contains("=2097152"), "nothing was set: {}", sizes());
        // An unambiguous parameter needs no choice.
        let one = rig.good("lctl", &["set_param", "lod.other-MDT0000*.stripesize=2M"]);
        assert_eq!(one, "lod.other-MDT0000-mdtlov.stripesize=2M\n");
        rig.good("lctl", &["--cluster", "sheen", "set_param", "-P", "lod.*.stripesize=4M"]);
        let expected = "lod.other-MDT0000-mdtlov.stripesize=2097152\nlod.sheen-MDT0000-mdtlov.stripesize=4194304\n";
        e2e::lustre::soon(&expected.to_owned(), sizes);
        let mgs = format!("{}@tcp", rig.mgs);
        assert!(!rig.good("lctl", &["--cluster", &mgs, "dl"]).contains("other-"));
        let unknown = rig.run("lctl", &["--cluster", "nofs", "dl"]);
        assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown));
        assert!(
            text(&unknown).contains("no daemon of this host belongs to nofs; there are: "),
            "{}",
            text(&unknown)
        );

        // One picture is of one cluster.
        let both = rig.run("sheen", &["top", "--once"]);
        assert_eq!(both.status.code(), Some(64), "{}", text(&both));
        assert!(text(&both).contains("choose it with --cluster"), "{}", text(&both));
        let top = rig.good("sheen", &["top", "--once", "--cluster", "other"]);
        assert!(top.contains("other-OST0000") && !top.contains("sheen-OST0000"), "{top}");
        let top = rig.good("sheen", &["top", "--json", "--cluster", &mgs]);
        assert!(top.contains("sheen-OST0000") && !top.contains("other-OST0000"), "{top}");
        // What waits is told of each.
        for args in [&["why"][..], &["why", "--cluster", "other"]] {
            let why = rig.run("sheen", args);
            assert_eq!(why.status.code(), Some(1), "{args:?}: {}", text(&why));
            assert!(
                text(&why).contains("nothing waits for longer than a second"),
                "{}",
                text(&why)
            );
        }
        let unknown = rig.run("sheen", &["why", "--cluster", "nofs"]);
        assert!(
            text(&unknown).contains("no daemon of this host belongs to nofs; there are: "),
            "{}",
            text(&unknown)
        );
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    rig.good("sheen", &["down", dir, "--force"]);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn words_that_administrators_know() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new();
    rig.mount("one");
    // Wherever a device is out of use, it says so.
    rig.good("lctl", &["--device", "%sheen-OST0001-osc-MDT0000", "deactivate"]);
    let state = |name: &str| {
        let devices = rig.good("lctl", &["dl"]);
        let line = devices.lines().find(|line| line.contains(name)).expect("the device").to_owned();
        line.split_whitespace().nth(1).expect("a state").to_owned()
    };
    assert_eq!(state("sheen-OST0001-osc-MDT0000"), "IN");
    rig.good("lctl", &["--device", "%sheen-OST0001-osc-MDT0000", "activate"]);
    assert_eq!(state("sheen-OST0001-osc-MDT0000"), "UP");
    rig.good("lctl", &["set_param", "-n", "-t4", "osc.sheen-OST0001*.active=0"]);
    let osc = |line: &&str| line.contains(" osc sheen-OST0001-osc-");
    let devices = rig.good("lctl", &["dl"]);
    assert_eq!(
        devices.lines().filter(osc).filter(|line| line.contains(" IN ")).count(),
        1,
        "{devices}"
    );
    for threads in [&["-t", "2"][..], &["--thread", "2"], &["--thread=2"], &["-t"]] {
        rig.good(
            "lctl",
            &[&["set_param", "-n"], threads, &["osc.sheen-OST0001*.active=1"]].concat(),
        );
    }

    let (_, port) = rig.mgs.rsplit_once(':').expect("a port");
    let pinged = rig.good("lctl", &["ping", &format!("localhost:{port}@tcp")]);
    assert!(pinged.contains(&format!("12345-127.0.0.1:{port}@tcp")), "{pinged}");
    let unknown = rig.run("lctl", &["ping", "no-such-host.invalid@tcp"]);
    assert!(
        text(&unknown).contains("error: ping: cannot find the address of the host"),
        "{}",
        text(&unknown)
    );

    // The newest log lines.
    rig.good("lctl", &["mark", "here", "it", "begins"]);
    let log = rig.good("lctl", &["dk"]);
    assert_eq!(
        log.lines().filter(|line| line.contains("DEBUG MARKER: here it begins")).count(),
        3,
        "{log}"
    );
    assert!(log.lines().last().is_some_and(|line| line.starts_with("Debug log: ")), "{log}");
    assert!(!rig.good("lctl", &["dk"]).contains("MARKER"), "printed once");
    rig.good("lctl", &["mark"]);
    rig.good("lctl", &["clear"]);
    assert!(!rig.good("lctl", &["dk"]).contains("MARKER"), "cleared");
    let file = rig.path("debug");
    rig.good("lctl", &["mark", "filed"]);
    rig.good("lctl", &["debug_kernel", file.to_str().expect("text")]);
    assert!(fs::read_to_string(&file).expect("the file").contains("MARKER: filed"));
    assert!(
        fs::read_to_string(rig.path("main.log"))
            .expect("the log")
            .contains("DEBUG MARKER: here it begins")
    );

    // Every user sees the devices, but no UUID of a client.
    let open =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
    open(rig.dir.path());
    let binary = rig.path("sheen");
    fs::copy(sheen(), &binary).expect("copy the binary");
    open(&binary);
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command
            .arg0("lctl")
            .args(args)
            .env(RUN_DIR, rig.path("run"))
            .uid(65_534)
            .gid(65_534)
            .stdin(Stdio::null());
        command.output().expect("it runs")
    };
    let seen = nobody(&["dl"]);
    assert!(seen.status.success(), "{}", text(&seen));
    let names = |text: &str| -> Vec<String> {
        let name = |line: &str| line.split_whitespace().nth(3).expect("a name").to_owned();
        text.lines().map(name).collect()
    };
    let devices = rig.good("lctl", &["dl"]);
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert_eq!(names(&seen), names(&devices), "{seen}");
    assert!(
        seen.lines()
            .all(|line| line.ends_with(" -") || !line.contains(" osc ") || line.contains(" - ")),
        "{seen}"
    );
    let refused = nobody(&["set_param", "osc.*.active=0"]);
    assert!(!refused.status.success(), "{}", text(&refused));
}
