//! Directories on other MDTs: for programs they are as any others; and MDS die and come back while
//! such directories are made, used and removed, and names move from one MDT to another. While one
//! stands still, `sheen why` names it.
//!
//! `KILLS` sets the number of kills (12), `KILLS_SEED` repeats their order.

use e2e::cluster::Cluster;
use e2e::kills::Kills;
use e2e::lustre::{lfs, lfs_refuses, try_lfs};
use e2e::process::{is_clean, text};
use e2e::programs::{sh, try_sh};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait of any single operation: restarts of two MDS that must hear of each other, and of
/// the clients.
const STALL_MAX: Duration = Duration::from_secs(60);

fn mdt_of(dir: &Path, path: &str) -> String {
    lfs(dir, &["getdirstripe", "-m", path]).trim_end().to_owned()
}

/// The errno that an operation fails with.
fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.expect_err("it is refused").raw_os_error()
}

#[test]
fn a_remote_directory_is_as_any_other() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--mdts", "3"]);
    let mnt = cluster.mount();
    // The kernel knows that there is no such name, and the times and links of the root.
    sh(&mnt, "test ! -e far; stat . > /dev/null");
    let links = fs::metadata(&mnt).expect("stat").nlink();
    lfs(&mnt, &["mkdir", "-i", "1", "far"]);
    assert_eq!(fs::metadata(&mnt).expect("stat").nlink(), links + 1);
    assert_eq!(sh(&mnt, "stat -c '%F %h %a' far; ls"), "directory 2 755\nfar\n");
    lfs(&mnt, &["setdirstripe", "-i", "2", "third"]);
    lfs(&mnt, &["mkdir", "-i", "0", "far/back"]);
    sh(&mnt, "mkdir far/sub near; echo data > far/sub/f; ln far/sub/f far/g; mkdir far/back/near");
    for (path, mdt) in [
        ("far", "1"),
        ("third", "2"),
        ("far/sub", "1"),
        ("far/back", "0"),
        ("far/back/near", "0"),
        ("near", "0"),
    ] {
        assert_eq!(mdt_of(&mnt, path), mdt, "{path}");
    }
    assert_eq!(lfs(&mnt, &["getstripe", "-m", "far/sub/f"]), "1\n");
    assert_eq!(
        lfs(&mnt, &["getdirstripe", "far"]),
        "lmv_stripe_count: 0 lmv_stripe_offset: 1 lmv_hash_type: none\n"
    );
    assert_eq!(lfs(&mnt, &["find", ".", "-mdt", "1", "-type", "d"]).lines().count(), 2);
    assert_eq!(lfs(&mnt, &["df", "."]).matches("[MDT:").count(), 3);
    assert_eq!(lfs(&mnt, &["df", "-i", "."]).matches("[MDT:").count(), 3);

    // What is below moves, links and goes as everywhere.
    sh(
        &mnt,
        "mv far/sub/f far/h; mkdir far/x far/y far/x/s; mv far/x/s far/y/; rmdir far/x far/y/s far/y",
    );
    assert_eq!(sh(&mnt, "cat far/g; stat -c %h far/g; ls -a far; cd far/sub; pwd -P; ls .."), {
        let at = fs::canonicalize(&mnt).expect("a mount");
        format!("data\n2\n.\n..\nback\ng\nh\nsub\n{}/far/sub\nback\ng\nh\nsub\n", at.display())
    });
    let parent = |path: &str| fs::metadata(mnt.join(path)).expect("stat").ino();
    assert_eq!([parent("far/.."), parent("far/back/..")], [parent("."), parent("far")]);
    assert!(
        lfs(&mnt, &["fid2path", "sheen", lfs(&mnt, &["path2fid", "far/h"]).trim_end()])
            .contains("far/h")
    );

    names_cross_mdts(&mnt);

    // Refusals.
    lfs_refuses(
        &mnt,
        &["mkdir", "-i", "7", "x"],
        libc::ERANGE,
        "error: mkdir: can't create directory 'x': Numerical result out of range (34); there is no MDT0007; \
         lfs mdts shows all\n",
    );
    let exists = "error: mkdir: can't create directory 'far': File exists (17)\n";
    lfs_refuses(&mnt, &["mkdir", "-i", "1", "far"], libc::EEXIST, exists);
    lfs_refuses(
        &mnt,
        &["mkdir", "-i", "4096", "x"],
        libc::EINVAL,
        "error: mkdir: bad MDT index '4096': Invalid argument (22)\n",
    );
    assert_eq!(errno(fs::create_dir(mnt.join("far"))), Some(libc::EEXIST));
    assert_eq!(errno(fs::remove_dir(mnt.join("far"))), Some(libc::ENOTEMPTY));
    assert_eq!(errno(fs::remove_file(mnt.join("far"))), Some(libc::EISDIR));
    let mut user = Command::new(e2e::sheen());
    user.arg0("lfs")
        .args(["mkdir", "-i", "1", "x"])
        .current_dir(&mnt)
        .stdin(Stdio::null())
        .uid(12345)
        .gid(12345);
    let said = text(&user.output().expect("lfs runs"));
    assert!(said.contains("Permission denied (13)"), "{said}");
    sh(&mnt, "umask 027; chmod 1777 third; test ! -e x");
    assert!(try_lfs(&mnt, &["mkdir", "-i", "1", "-o", "2750", "mode"]).status.success());
    assert_eq!(sh(&mnt, "stat -c %a mode; rmdir mode"), "750\n");

    // It is all there after a restart, and goes.
    cluster.stop();
    cluster.start();
    assert_eq!(sh(&mnt, "cat far/h; ls far third"), "data\nfar:\nback\nh\nsub\n\nthird:\n");
    sh(&mnt, "rm -r far third near; test -z \"$(ls -A)\"");
    assert_eq!(fs::metadata(&mnt).expect("stat").nlink(), 2);
    assert!(try_sh(&mnt, "cd far").status.code() != Some(0));
}

/// Names move, and inodes get and lose them, from one MDT to another, in a tree as
/// [`a_remote_directory_is_as_any_other`] has made it.
fn names_cross_mdts(mnt: &Path) {
    let at = |path: &str| mnt.join(path);
    let ino = |path: &str| fs::metadata(at(path)).expect("stat").ino();
    let (file, sub) = (ino("far/g"), ino("far/sub"));
    sh(mnt, "ln far/g third/l; mv far/g g; mv third/l near/l; cat g near/l");
    assert_eq!([ino("g"), ino("near/l")], [file; 2], "no copy");
    assert_eq!(sh(mnt, "stat -c %h g; rm g; stat -c %h near/l; mv near/l far/g"), "3\n2\n");
    sh(mnt, "mv far/sub near/; echo more > near/sub/f; rmdir far/back/near; mv near far/back/");
    assert_eq!(sh(mnt, "cat far/back/near/sub/f"), "more\n");
    assert_eq!(ino("far/back/near/sub"), sub);
    assert_eq!(ino("far/back/near/sub/.."), ino("far/back/near"));
    assert_eq!(errno(fs::rename(at("far"), at("far/back/near/sub/x"))), Some(libc::EINVAL));
    assert_eq!(errno(fs::rename(at("third"), at("far"))), Some(libc::ENOTEMPTY));
    assert_eq!(errno(fs::rename(at("third"), at("far/g"))), Some(libc::ENOTDIR));
    assert_eq!(errno(fs::rename(at("far/g"), at("third"))), Some(libc::EISDIR));
    assert_eq!(errno(fs::hard_link(at("third"), at("far/d"))), Some(libc::EPERM));
    sh(mnt, "mv far/back/near near; mv near/sub far/; mkdir far/back/near");
    // One over an empty one of another MDT.
    sh(mnt, "mkdir empty; mv -T third empty; mv empty third; test ! -e empty");
    // A file that is open loses its last name.
    sh(mnt, "echo held > far/k; mv far/k third/k");
    let held = fs::File::open(at("third/k")).expect("open");
    sh(mnt, "rm third/k; mv far/g g; rm g");
    assert_eq!(io::read_to_string(&held).expect("read"), "held\n");
    assert_eq!(mdt_of(mnt, "far/sub"), "1");
}

/// What a caller made, and must be there: paths of directories with their MDT, and of files with
/// their text.
#[derive(Default)]
struct Made {
    dirs: BTreeMap<PathBuf, u16>,
    files: BTreeMap<PathBuf, String>,
}

/// Makes remote directories, uses and removes them, until it is told to stop. No operation may
/// fail.
fn work(mount: &Path, name: &str, stop: &AtomicBool, mut rng: fastrand::Rng) -> (Made, u64) {
    let mut made = Made::default();
    let home = mount.join(name);
    fs::create_dir(&home).expect("mkdir");
    let (mut next, mut count) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        next += 1;
        match rng.u32(0..10) {
            0..4 => {
                let (mdt, dir) = (rng.u16(0..3), home.join(format!("d{next}")));
                lfs(&home, &["mkdir", "-i", &mdt.to_string(), &format!("d{next}")]);
                made.dirs.insert(dir, mdt);
            }
            4..8 => {
                let Some(dir) = rng.choice(made.dirs.keys()).cloned() else { continue };
                let (file, words) = (dir.join(format!("f{next}")), format!("text {next}\n"));
                fs::write(&file, &words).expect("write");
                // Half of them go to another directory, which may be on another MDT.
                let to = rng.choice(made.dirs.keys()).filter(|_| next % 2 == 0).unwrap_or(&dir);
                let moved = to.join(format!("g{next}"));
                fs::rename(&file, &moved).expect("rename");
                made.files.insert(moved, words);
            }
            8 => {
                let Some(dir) = rng.choice(made.dirs.keys()).cloned() else { continue };
                let mut inside: Vec<PathBuf> = fs::read_dir(&dir)
                    .expect("list")
                    .map(|entry| entry.expect("list").path())
                    .collect();
                inside.sort_unstable();
                let expected: Vec<PathBuf> =
                    made.files.keys().filter(|file| file.starts_with(&dir)).cloned().collect();
                assert_eq!(inside, expected, "names in {}", dir.display());
            }
            _ => {
                let Some(dir) = rng.choice(made.dirs.keys()).cloned() else { continue };
                let gone: Vec<PathBuf> =
                    made.files.keys().filter(|file| file.starts_with(&dir)).cloned().collect();
                for file in gone {
                    fs::remove_file(&file).expect("remove a file");
                    made.files.remove(&file);
                }
                fs::remove_dir(&dir).expect("remove a directory");
                made.dirs.remove(&dir);
            }
        }
        count += 1;
        assert!(began.elapsed() < STALL_MAX, "one step took {:?}", began.elapsed());
    }
    (made, count)
}

/// Everything is there, from each mount, and nothing else.
fn check(made: &Made, from: &Path, to: &Path, name: &str) {
    let there = |path: &Path| to.join(path.strip_prefix(from).expect("a path of the mount"));
    let listed = fs::read_dir(to.join(name)).expect("list").count();
    assert_eq!(listed, made.dirs.len(), "directories of {name} in {}", to.display());
    for (dir, mdt) in &made.dirs {
        assert_eq!(
            mdt_of(to, &there(dir).display().to_string()),
            mdt.to_string(),
            "{}",
            dir.display()
        );
        let inside = fs::read_dir(there(dir)).expect("list").count();
        assert_eq!(
            inside,
            made.files.keys().filter(|file| file.starts_with(dir)).count(),
            "{}",
            dir.display()
        );
    }
    for (file, words) in &made.files {
        assert_eq!(&fs::read_to_string(there(file)).expect("read"), words, "{}", file.display());
    }
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn sh(dir: &Path, script: &str) -> Running {
        let script = format!("exec {script}");
        let mut command = Command::new("bash");
        Running(command.args(["-c", &script]).current_dir(dir).spawn().expect("bash runs"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn why_names_the_mdt_that_an_operation_waits_for() {
    let Some(Kills { mounts, dir: _dir, mut many, .. }) = Kills::up_with_mdts(0, 3) else {
        return;
    };
    let [first, second] = &mounts;
    lfs(first, &["mkdir", "-i", "1", "one"]);
    lfs(first, &["mkdir", "-i", "2", "two"]);
    fs::write(first.join("one/f"), "f").expect("write");
    // MDT0002 has a session with MDT0001 from here on.
    lfs(first, &["mkdir", "-i", "1", "two/far"]);
    sh(second, "ls -l two");
    sh(first, "sync -f .; ls -lR > /dev/null");
    let stopped = (0..many.server_count()).find(|at| many.server_name(*at) == "mds1");
    let stopped = stopped.expect("an MDS of MDT0001");
    many.suspend_server(stopped);

    // MDT0002 coordinates, and asks MDT0001.
    let mut mover = Running::sh(first, "mv -T one/f two/f");
    let told_of = |pid: u32, words: &str| {
        let began = Instant::now();
        loop {
            let told = text(&many.sheen(&["why", &pid.to_string()]));
            if told.contains(words) {
                return told;
            }
            assert!(began.elapsed() < STALL_MAX, "{words:?} is not in {told}");
            thread::sleep(Duration::from_millis(200));
        }
    };
    let mv = mover.0.id();
    let told = told_of(mv, "-> asks sheen-MDT0001: mds_peer_prepare");
    assert!(told.contains(&format!("mv (process {mv})")), "{told}");
    assert!(told.contains("-> sheen-MDT0002 works on "), "{told}");
    // Whatever needs the same name waits for the same MDT.
    let mut toucher = Running::sh(second, "touch two/f");
    let told = told_of(toucher.0.id(), "-> waits for sheen-MDT0001: the end of operation 0002-");
    assert!(told.contains("-> waits for sheen-MDT0001"), "{told}");

    many.resume_server(stopped);
    assert!(mover.0.wait().expect("it is ours").success(), "mv ends");
    assert!(toucher.0.wait().expect("it is ours").success(), "touch ends");
    assert!(!first.join("one/f").exists() && second.join("two/f").exists());
    let began = Instant::now();
    while text(&many.sheen(&["why"])).contains("MDT0001") {
        assert!(began.elapsed() < STALL_MAX, "{}", text(&many.sheen(&["why"])));
        thread::sleep(Duration::from_millis(200));
    }
    // What MDTs ask each other is counted where it is asked.
    let asked = ["lctl", "get_param", "-n", "osp.sheen-MDT0001-osp-MDT0002.stats"];
    let asked = text(&many.sheen(&asked));
    for part in ["mds_peer_prepare", "mds_peer_apply"] {
        assert!(asked.contains(part), "{part} is not in {asked}");
    }
    let import = ["lctl", "get_param", "-n", "osp.sheen-MDT0001-osp-MDT0002.import"];
    let import = text(&many.sheen(&import));
    assert!(import.contains("state: FULL"), "{import}");
    many.stop();
}

#[test]
fn mds_die_and_no_program_sees_it() {
    let Some(Kills { count: kills, mut rng, mounts, dir: _dir, mut many, .. }) =
        Kills::up_with_mdts(12, 3)
    else {
        return;
    };
    let mds: Vec<usize> =
        (0..many.server_count()).filter(|at| many.server_name(*at).starts_with("mds")).collect();
    assert_eq!(mds.len(), 3);
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for (n, mount) in mounts.iter().enumerate() {
        let (mount, stop, rng, name) = (mount.clone(), stop.clone(), rng.fork(), format!("c{n}"));
        workers.push((n, thread::spawn(move || work(&mount, &name, &stop, rng))));
    }
    thread::sleep(Duration::from_secs(1));
    for n in 0..kills {
        if workers.iter().any(|(_, worker)| worker.is_finished()) {
            println!("a caller has ended after {n} kills");
            break;
        }
        // Each in turn, and at times two of them at once.
        let first = mds[n as usize % mds.len()];
        let both = rng.u32(0..4) == 0;
        let second = mds[(n as usize + 1) % mds.len()];
        let killed: Vec<usize> = if both { vec![first, second] } else { vec![first] };
        many.kill_together(&killed, &[]);
        killed.iter().for_each(|at| many.start_server_again(*at));
        thread::sleep(Duration::from_millis(rng.u64(200..2500)));
    }
    thread::sleep(Duration::from_secs(2));
    stop.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for (n, worker) in workers {
        match worker.join() {
            Ok((made, count)) => {
                println!("caller {n}: {count} steps, {} directories left", made.dirs.len());
                assert!(count > kills, "caller {n} got on");
                all.push((n, made));
            }
            Err(failure) => {
                eprintln!("{}", many.logs());
                std::panic::resume_unwind(failure);
            }
        }
    }
    let check_all = || {
        for (n, made) in &all {
            mounts.iter().for_each(|to| check(made, &mounts[*n], to, &format!("c{n}")));
        }
    };
    check_all();
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
    many.start();
    check_all();
    many.stop();
}
