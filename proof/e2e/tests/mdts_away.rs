//! MDTs that are away, full, or gone for good: what others do without them, what programs are told,
//! and that nothing is half made (docs/dne.md, sections 5, 7 and 13).

use e2e::kills::Kills;
use e2e::lustre::{lfs, soon, try_lfs};
use e2e::many::Many;
use e2e::process::{is_clean, text};
use e2e::programs::sh;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait of any single operation, among them starts of MDS that must hear of each other.
const STALL_MAX: Duration = Duration::from_secs(60);
/// An MDT that nothing is under way with for so long is not waited for (30 s), with some time for
/// the record of that.
const REST: Duration = Duration::from_secs(36);
/// What does not wait takes less.
const QUICK: Duration = Duration::from_secs(10);
/// A command that waits says for which MDT by then.
const TOLD_AFTER: Duration = Duration::from_secs(12);
/// Size of the disk of an MDT that becomes full.
const DISK: &str = "96m";
/// What others leave of it, KiB: the MDT fills that itself.
const LEFT_KIB: u64 = 8192;

fn quick<T>(about: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < QUICK, "{about} took {:?}", began.elapsed());
    done
}

/// What `recovery_status` of an MDT says; empty as long as it does not listen.
fn recovery(many: &Many, mdt: u16) -> String {
    let status = format!("mdt.*MDT{mdt:04x}.recovery_status");
    let shown = many.sheen_at(many.mds_of(mdt), &["lctl", "get_param", "-n", &status]);
    String::from_utf8(shown.stdout).expect("text")
}

fn wait_until(many: &Many, mdt: u16, word: &str) -> String {
    let began = Instant::now();
    loop {
        let status = recovery(many, mdt);
        if status.contains(word) {
            return status;
        }
        assert!(
            began.elapsed() < STALL_MAX,
            "MDT{mdt:04x} is no {word}: {status}\n{}",
            many.logs()
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// The last restart of an MDT waits for nothing.
fn serves(many: &Many, mdt: u16) {
    wait_until(many, mdt, "COMPLETE");
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn lfs(dir: &Path, args: &[&str]) -> Running {
        let mut command = Command::new(e2e::sheen());
        command.arg0("lfs").args(args).current_dir(dir).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("lfs runs"))
    }

    fn ends(&mut self) -> std::process::ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status;
            }
            assert!(began.elapsed() < STALL_MAX, "it goes on for {:?}", began.elapsed());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it said on standard error, when it has ended.
    fn said(&mut self) -> String {
        let mut said = String::new();
        let pipe = self.0.stderr.as_mut().expect("a pipe");
        pipe.read_to_string(&mut said).expect("text");
        said
    }

    fn waits(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn three_mdts_restart_without_the_fourth_unless_something_is_under_way_with_it() {
    let Some(Kills { mounts, dir: _dir, mut many, .. }) = Kills::<2>::up_with_clients(0, 4) else {
        return;
    };
    let [first, second] = &mounts;
    for mdt in ["1", "2"] {
        lfs(first, &["mkdir", "-i", mdt, &format!("on{mdt}")]);
    }
    let fourth = many.mds_of(3);
    let live = [0, 1, 2];
    let restart = |many: &mut Many| {
        let servers = live.map(|mdt| many.mds_of(mdt));
        many.kill_together(&servers, &[]);
        servers.iter().for_each(|at| many.start_server_again(*at));
    };
    let use_all = |name: &str| {
        for (n, mount) in mounts.iter().enumerate() {
            let at = |text: &str| mount.join(text);
            quick("create", || fs::write(at(&format!("on1/{name}{n}")), name).expect("write"));
            quick("rename", || {
                fs::rename(at(&format!("on1/{name}{n}")), at(&format!("on2/{name}{n}")))
                    .expect("rename");
            });
            quick("mkdir -i", || lfs(mount, &["mkdir", "-i", "2", &format!("on1/{name}{n}.d")]));
        }
        // Without what is on the MDT that is down.
        quick("list", || sh(second, "ls -f; ls -l on1 on2"));
    };

    // Nothing was ever under way with the fourth.
    use_all("before");
    many.kill_server(fourth);
    use_all("without");
    restart(&mut many);
    live.iter().for_each(|mdt| serves(&many, *mdt));
    use_all("restarted");

    // Something is, for MDT0000 alone: it made a directory there. With the others nothing is under
    // way any more.
    many.start_server_again(fourth);
    wait_until(&many, 3, "status: ");
    thread::sleep(REST);
    lfs(first, &["mkdir", "-i", "3", "on3"]);
    fs::write(first.join("on3/f"), "on three").expect("write");
    sh(first, "sync -f .");
    many.kill_server(fourth);
    restart(&mut many);
    [1, 2].iter().for_each(|mdt| serves(&many, *mdt));
    let status = wait_until(&many, 0, "non-ready MDTs: 0003\n");
    assert!(!status.contains("COMPLETE"), "{status}");
    // A program that needs MDT0000 waits, and can ask for what.
    let mut waits = Running::lfs(first, &["mkdir", "-i", "1", "waits"]);
    thread::sleep(Duration::from_secs(2));
    assert!(waits.waits(), "MDT0000 does not serve");
    assert!(!recovery(&many, 0).contains("COMPLETE"));
    let abort = ["lctl", "--device", "sheen-MDT0000", "abort_recovery_mdt"];
    let aborted = many.sheen(&abort);
    assert!(aborted.status.success(), "{}", text(&aborted));
    serves(&many, 0);
    assert!(waits.ends().success(), "mkdir ends");
    use_all("given-up");
    many.start_server_again(fourth);
    serves(&many, 3);
    assert_eq!(fs::read_to_string(second.join("on3/f")).expect("read"), "on three");

    if e2e::long() {
        // It has come to rest: nothing is under way again.
        thread::sleep(REST);
        many.kill_server(fourth);
        restart(&mut many);
        live.iter().for_each(|mdt| serves(&many, *mdt));
        use_all("rested");
        many.start_server_again(fourth);
        assert_eq!(fs::read_to_string(second.join("on3/f")).expect("read"), "on three");
    }
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
}

#[test]
fn mkdir_at_an_mdt_that_is_down_waits_and_is_whole_or_absent() {
    let Some(Kills { mounts, dir, mut many, .. }) = Kills::<2>::up_with_clients(0, 3) else {
        return;
    };
    let home = dir.path().join("fs/mdt").display().to_string();
    let [first, second] = &mounts;
    let away = many.mds_of(2);
    // The second round: MDT0000 has FIDs of the other one.
    for round in 0..2 {
        if round == 1 {
            lfs(first, &["mkdir", "-i", "2", "known"]);
        }
        many.kill_server(away);
        // Ctrl-C ends it.
        let given_up = format!("given-up{round}");
        let mut interrupted = Running::lfs(first, &["mkdir", "-i", "2", &given_up]);
        thread::sleep(Duration::from_secs(3));
        assert!(interrupted.waits(), "MDT0002 is down");
        let began = Instant::now();
        let why = loop {
            let told = text(&many.sheen(&["why", &interrupted.0.id().to_string()]));
            if told.contains("MDT0002") {
                break told;
            }
            assert!(began.elapsed() < STALL_MAX, "the MDT that is down is not in {told}");
            thread::sleep(Duration::from_millis(200));
        };
        println!("why: {why}");
        let pid = interrupted.0.id() as i32;
        // SAFETY: kill has no memory effects; the pid is our child, not yet waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let status = quick("Ctrl-C", || interrupted.ends());
        assert_eq!(status.signal(), Some(libc::SIGINT), "{status}");
        // Other names of the directory, and of other MDTs, are as ever.
        quick("create beside it", || fs::write(second.join(format!("f{round}")), "f").expect("f"));
        // Without what is on the MDT that is down.
        quick("list", || sh(second, "ls -f; stat ."));
        quick("mkdir elsewhere", || {
            lfs(second, &["mkdir", "-i", "1", &format!("elsewhere{round}")])
        });
        // One that is not interrupted is made when the MDT comes.
        let patient = format!("patient{round}");
        let mut waits = Running::lfs(second, &["mkdir", "-i", "2", &patient]);
        thread::sleep(TOLD_AFTER);
        assert!(waits.waits(), "MDT0002 is down");
        let status = text(&many.sheen(&["status", &home]));
        assert!(status.contains("for sheen-MDT0002"), "{status}");
        many.start_server_again(away);
        assert!(waits.ends().success(), "it is made in the end");
        let said = waits.said();
        assert!(said.contains("waiting for sheen-MDT0002"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let status = text(&many.sheen(&["status", &home]));
        assert!(!status.contains("for sheen-MDT0002"), "{status}");
        assert_eq!(lfs(first, &["getdirstripe", "-m", &patient]), "2\n");
        // Whole or absent: what is there can be used, from everywhere.
        let there = mounts.each_ref().map(|mount| mount.join(&given_up).exists());
        println!("round {round}: what was interrupted is there: {there:?}");
        assert_eq!(there[0], there[1]);
        if there[0] {
            fs::write(first.join(&given_up).join("f"), "f").expect("it is whole");
            fs::remove_dir_all(second.join(&given_up)).expect("it goes");
        }
        lfs(second, &["mkdir", "-i", "2", &given_up]);
        is_clean(&many.fsck(&[]), "at work");
    }
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
}

/// A disk of its own for a target, which goes with the value.
struct Disk(PathBuf);

impl Disk {
    fn at(path: &Path) -> Disk {
        fs::create_dir_all(path).expect("make a folder");
        let (folder, shown) = (path.parent().expect("a folder"), path.display());
        sh(folder, &format!("mount -t tmpfs -o size={DISK} none {shown}"));
        Disk(path.to_owned())
    }

    /// Something else takes all of it but so much.
    fn fill(&self, left_kib: u64) {
        let free = sh(&self.0, "df --output=avail -k . | tail -1");
        let free: u64 = free.trim().parse().expect("a number");
        sh(&self.0, &format!("fallocate -l {}K filler", free - left_kib));
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).expect("remove");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        e2e::process::detach(&self.0);
    }
}

#[test]
fn a_full_mdt_refuses_and_nothing_is_half_made() {
    let Some(Kills { mounts, dir, mut many, .. }) = Kills::<2>::up_with_clients(0, 1) else {
        return;
    };
    let [first, second] = &mounts;
    let disk = Disk::at(&dir.path().join("fs/mdt1"));
    many.add_mds();
    lfs(first, &["mkdir", "-i", "1", "far"]);
    lfs(first, &["mkdir", "-c", "2", "wide"]);
    fs::write(first.join("near"), "near").expect("write");
    fs::write(first.join("far/f"), "far").expect("write");
    fs::create_dir(first.join("dir")).expect("mkdir");
    let full = |about: &str, output: Output| {
        let said = text(&output);
        assert_eq!(output.status.code(), Some(libc::ENOSPC), "{about}: {said}");
        assert_eq!(said.matches("No space left on device").count(), 1, "{about}: {said}");
        println!("{about}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    };
    disk.fill(LEFT_KIB);
    let began = Instant::now();
    let (value, flags) = (vec![1; 16_000], rustix::fs::XattrFlags::empty());
    let fill = |n: u32| -> std::io::Result<()> {
        let path = first.join(format!("far/fill{n}"));
        fs::File::create(&path)?;
        Ok(rustix::fs::setxattr(&path, "user.fill", &value, flags)?)
    };
    let error = (0..10_000).find_map(|n| fill(n).err()).expect("it becomes full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
    // It may take some changes more: promises that are not kept are given back.
    let mut made = 0;
    let refused = loop {
        let output = try_lfs(first, &["mkdir", "-i", "1", &format!("new{made}")]);
        if !output.status.success() {
            break output;
        }
        made += 1;
        assert!(began.elapsed() < STALL_MAX, "{made} directories on a full disk");
    };
    println!("{made} were made first");
    full("mkdir -i", refused);
    full("mkdir -c", try_lfs(first, &["mkdir", "-c", "2", "striped"]));
    full("migrate -m", try_lfs(second, &["migrate", "-m", "1", "dir"]));
    full("setdirstripe -c", try_lfs(second, &["setdirstripe", "-c", "2", "dir"]));
    let refuses = |about: &str, result: std::io::Result<()>| {
        let error = result.expect_err(about);
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{about}: {error}");
    };
    refuses("rename", fs::rename(first.join("near"), first.join("far/moved")));
    refuses("link", fs::hard_link(second.join("near"), second.join("far/linked")));
    let mut files = 0;
    while let Ok(file) = fs::File::create(first.join(format!("far/new{files}"))) {
        drop(file);
        files += 1;
        assert!(began.elapsed() < STALL_MAX, "{files} files on a full disk");
    }
    println!("{files} files were made first");
    refuses("create", fs::File::create(first.join("far/file")).map(drop));
    for name in [format!("new{made}"), "striped".into(), "far/moved".into(), "far/linked".into()] {
        mounts.iter().for_each(|mount| assert!(!mount.join(&name).exists(), "{name}"));
    }
    assert_eq!(lfs(first, &["getdirstripe", "-m", "dir"]), "0\n");
    assert_eq!(sh(first, "cat near far/f; stat -c %h near"), "nearfar1\n");
    // The rest of the file system is as ever, and what is on the full MDT can be read and removed.
    quick("near", || fs::write(second.join("other"), "other").expect("write"));
    quick("mkdir", || fs::create_dir(second.join("dir/sub")).expect("mkdir"));
    fs::remove_file(second.join("far/f")).expect("remove");
    is_clean(&many.fsck(&[]), "at work");

    disk.empty();
    soon(&true, || try_lfs(first, &["mkdir", "-i", "1", "again"]).status.success());
    fs::rename(first.join("near"), first.join("far/moved")).expect("rename");
    lfs(first, &["mkdir", "-c", "2", "striped"]);
    lfs(second, &["migrate", "-m", "1", "dir"]);
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
}

#[test]
fn an_mdt_whose_disk_others_fill_says_so_and_goes_on_when_there_is_room() {
    let Some(Kills { mounts, dir, mut many, .. }) = Kills::<1>::up_with_clients(0, 1) else {
        return;
    };
    let [mount] = &mounts;
    let folder = dir.path().join("fs/mdt1");
    let disk = Disk::at(&folder);
    let mds = many.add_mds();
    lfs(mount, &["mkdir", "-i", "1", "far"]);
    let home = folder.display().to_string();
    let status = || text(&many.sheen(&["status", &home]));
    let log = || fs::read_to_string(dir.path().join("fs/mds1.log")).expect("a log");
    let words = format!("the disk of {home} is full");
    let value = vec![1; 16_000];
    let fill = |name: String| -> std::io::Result<()> {
        let path = mount.join("far").join(name);
        fs::File::create(&path)?;
        Ok(rustix::fs::setxattr(&path, "user.fill", &value, rustix::fs::XattrFlags::empty())?)
    };
    let mut made = 0;
    for round in 0..2 {
        // All of it is taken while the MDT has much that its tree does not have yet.
        for n in 0..100 {
            fill(format!("before{round}-{n}")).expect("there is room");
        }
        disk.fill(0);
        let began = Instant::now();
        let error = loop {
            match fill(format!("on{made}")) {
                Ok(()) => made += 1,
                Err(error) => break error,
            }
            assert!(began.elapsed() < STALL_MAX, "{made} files on a full disk");
        };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
        while !status().contains(&words) {
            assert!(began.elapsed() < STALL_MAX, "{}\n{}", status(), many.logs());
            thread::sleep(Duration::from_millis(100));
        }
        // More than a few attempts, and it is one line still.
        thread::sleep(Duration::from_secs(5));
        assert_eq!(log().matches(&words).count(), round + 1, "{}", log());
        assert!(!log().contains("the store stops"), "{}", log());
        // What is there can be read, synced and removed.
        quick("read", || sh(mount, "ls far | wc -l; stat far/before0-1"));
        quick("fsync", || fs::File::open(mount.join("far")).and_then(|far| far.sync_all()))
            .expect("the log has room");
        quick("remove", || fs::remove_file(mount.join(format!("far/before{round}-0"))))
            .expect("remove");
        disk.empty();
        soon(&true, || fill(format!("after{round}")).is_ok());
        soon(&false, || status().contains(&words));
    }
    // As of a restart: all that was told as durable is there.
    disk.fill(0);
    soon(&true, || fill("on".to_owned()).is_err());
    let last = mount.join("far/before0-2");
    fs::remove_file(&last).expect("remove");
    fs::File::open(mount.join("far")).and_then(|far| far.sync_all()).expect("sync");
    thread::sleep(Duration::from_secs(2));
    many.kill_server(mds);
    disk.empty();
    many.start_server_again(mds);
    serves(&many, 1);
    assert!(!last.exists() && mount.join("far/before1-1").exists());
    fill("again".to_owned()).expect("there is room");
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
}

#[test]
fn an_mdt_that_was_drained_is_removed() {
    let Some(Kills { mounts, dir: _dir, mut many, .. }) = Kills::<2>::up_with_clients(0, 4) else {
        return;
    };
    let [first, second] = &mounts;
    lfs(first, &["mkdir", "-i", "3", "project"]);
    lfs(first, &["mkdir", "-c", "4", "wide"]);
    lfs(first, &["setdirstripe", "-D", "-c", "-1", "wide"]);
    sh(
        first,
        "for n in $(seq 40); do echo $n > project/f$n; echo $n > wide/f$n; done
         mkdir project/sub wide/sub near; echo below > project/sub/f; echo below > wide/sub/f
         ln project/f1 near/l; mkdir fourth",
    );
    let contents = || {
        let script = "find . -type f -printf '%p %n ' -exec cat {} \\; | sort";
        mounts.each_ref().map(|mount| sh(mount, script))
    };
    let before = contents();
    let set = many.sheen(&["lctl", "set_param", "-P", "mdt.*MDT0003.no_create=1"]);
    assert!(set.status.success(), "{}", text(&set));
    let get = || {
        let shown = many.sheen(&["lctl", "get_param", "-n", "mdt.*MDT0003.no_create"]);
        String::from_utf8(shown.stdout).expect("text")
    };
    soon(&"1\n".to_owned(), get);
    let there = || lfs(first, &["find", ".", "-mdt", "3"]);
    for dir in ["project", "wide"] {
        assert!(there().lines().any(|line| line.starts_with(&format!("./{dir}"))), "{dir}");
        soon(&true, || try_lfs(second, &["migrate", "-m", "0,1,2", dir]).status.success());
    }
    assert_eq!(there(), "", "nothing is left");
    assert_eq!(contents(), before);

    // It is refused as long as it serves.
    let del = |args: &[&str]| {
        many.sheen(&[&["lctl", "del_mdt", "--target", "sheen-MDT0003"], args].concat())
    };
    let busy = del(&[]);
    assert_eq!(busy.status.code(), Some(libc::EBUSY), "{}", text(&busy));
    let fourth = many.mds_of(3);
    many.kill_server(fourth);
    let removed = many.sheen(&["lctl", "del_mdt", "--target", "sheen-MDT0003"]);
    assert!(removed.status.success(), "{}", text(&removed));
    many.forget_server(fourth);
    for mount in &mounts {
        soon(&3, || lfs(mount, &["mdts", "."]).matches("-MDT").count());
    }
    let use_all = |name: &str| {
        for mount in &mounts {
            quick("df", || assert_eq!(lfs(mount, &["df", "-i", "."]).matches("[MDT:").count(), 3));
            let dir = mount.file_name().expect("a name").to_string_lossy() + name;
            quick("mkdir -c -1", || lfs(mount, &["mkdir", "-c", "-1", &dir]));
            assert_eq!(lfs(mount, &["getdirstripe", "-c", &dir]), "3\n");
            quick("use it", || {
                sh(mount, &format!("cd {dir}; mkdir a b; touch a/f; mv a/f b/; mv a b/; rm -r b"))
            });
            quick("mkdir", || {
                fs::create_dir(mount.join("wide").join(dir.as_ref())).expect("mkdir")
            });
            quick("rmdir", || {
                fs::remove_dir(mount.join("wide").join(dir.as_ref())).expect("rmdir");
                fs::remove_dir(mount.join(dir.as_ref())).expect("rmdir");
            });
        }
        let none = try_lfs(first, &["mkdir", "-i", "3", "none"]);
        assert_eq!(none.status.code(), Some(libc::ERANGE), "{}", text(&none));
    };
    use_all(".removed");
    assert_eq!(contents(), before);
    // The other MDS die and come back, one by one and together.
    for killed in [vec![0], vec![1], vec![0, 1, 2]] {
        let servers: Vec<usize> = killed.iter().map(|mdt| many.mds_of(*mdt)).collect();
        many.kill_together(&servers, &[]);
        servers.iter().for_each(|at| many.start_server_again(*at));
        killed.iter().for_each(|mdt| serves(&many, *mdt));
        use_all(".killed");
    }
    assert_eq!(contents(), before);
    is_clean(&many.fsck(&[]), "at work");
    // Everything is stopped and started; clients mount.
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
    many.start();
    use_all(".restarted");
    assert_eq!(contents(), before);
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
}
