//! Directories over several MDTs: for programs they are as any others, from each mount.

use e2e::cluster::{Cluster, RUN_DIR};
use e2e::lustre::{lfs, lfs_refuses, soon};
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A second mount of a cluster of one host.
struct Second(PathBuf);

impl Second {
    fn of(cluster: &Cluster) -> Second {
        let at = cluster.outside().join("second");
        fs::create_dir(&at).expect("mkdir");
        let said = fs::read_to_string(cluster.dir().join("log/node.log")).expect("the log");
        let nid = said.split("nids=[\"").nth(1).and_then(|rest| rest.split('"').next());
        let source = &format!("{}:/sheen", nid.expect("a target has registered"));
        let log = format!("log={}", cluster.outside().join("second.log").display());
        let at_text = at.display().to_string();
        let mut mount = Command::new(e2e::sheen());
        mount.args(["mount", "-o", &log, source, &at_text]).env(RUN_DIR, cluster.run_dir());
        let output = mount.stdin(Stdio::null()).output().expect("sheen runs");
        assert!(output.status.success(), "{}", text(&output));
        Second(at)
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // If it is there still, it must not stay.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.expect_err("it is refused").raw_os_error()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("list");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("list").file_name().into_string().expect("text"))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_striped_directory_is_as_any_other() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--mdts", "3"]);
    let mnt = cluster.mount();
    // The kernel knows that there is no such name, and the times and links of the root.
    sh(&mnt, "test ! -e s; stat . > /dev/null");
    lfs(&mnt, &["mkdir", "-c", "3", "-i", "1", "s"]);
    assert_eq!(
        sh(&mnt, "stat -c '%F %h %a' s . | paste -sd' '; ls"),
        "directory 2 755 directory 3 755\ns\n"
    );
    let shown = lfs(&mnt, &["getdirstripe", "s"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "lmv_stripe_count: 3 lmv_stripe_offset: 1 lmv_hash_type: crush");
    assert_eq!(lines[1], "mdtidx\t\t FID[seq:oid:ver]");
    let mdts: Vec<&str> =
        lines[2..5].iter().map(|line| line.split_whitespace().next().expect("an index")).collect();
    assert_eq!((mdts[0], mdts.iter().copied().collect()), ("1", BTreeSet::from(["0", "1", "2"])));
    assert_eq!(
        lfs(&mnt, &["path2fid", "s"]).trim_end(),
        lines[2].split_whitespace().nth(1).expect("a FID")
    );

    spread(&mnt);
    moves(&mnt);
    seen_from_two_mounts(&cluster, &mnt);
    handed_on(&mnt);
    refusals(&mnt);

    // It is all there after a restart, without a fault, and goes.
    sh(&mnt, "cd s && rm -rf * && for i in $(seq 40); do echo $i > k$i; done && mkdir sub");
    cluster.stop();
    cluster.start();
    assert_eq!(names(&mnt.join("s")).len(), 41);
    assert_eq!(sh(&mnt, "cat s/k7; stat -c %h s"), "7\n3\n");
    let checked = cluster.command(&["fsck"]);
    assert!(checked.status.success(), "{}", text(&checked));
    sh(&mnt, "rm -r s above; test -z \"$(ls -A)\"");
    assert_eq!(fs::metadata(&mnt).expect("stat").nlink(), 2);
    let checked = cluster.command(&["fsck"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

/// Names are on all MDTs, with their inodes, and each is listed once.
fn spread(mnt: &Path) {
    let s = mnt.join("s");
    let files: Vec<String> = (0..300).map(|n| format!("f{n:03}")).collect();
    for name in &files {
        fs::write(s.join(name), name).expect("write");
    }
    assert_eq!(names(&s), files);
    assert_eq!(
        sh(&s, "ls | sort | md5sum; ls -l | wc -l"),
        sh(&s, "seq -f 'f%03g' 0 299 | md5sum; echo 301")
    );
    for mdt in ["0", "1", "2"] {
        let striped = ["find", "s", "-type", "d", "-mdt", mdt];
        assert_eq!(lfs(mnt, &striped).lines().next(), Some("s"), "a stripe is on MDT {mdt}");
        let here = lfs(mnt, &["find", "s", "-type", "f", "-mdt", mdt]).lines().count();
        assert!((60..=140).contains(&here), "{here} of 300 files are on MDT {mdt}");
    }
    for name in &files {
        assert_eq!(&fs::read_to_string(s.join(name)).expect("read"), name);
    }
    let below =
        |more: &[&str]| lfs(mnt, &[&["find", ".", "-maxdepth", "1", "-type", "d"], more].concat());
    for striped in ["-mdt-count 3", "-mdt-count +1", "-mdt-hash crush", "! -mdt-hash none"] {
        let words: Vec<&str> = striped.split(' ').collect();
        assert_eq!(below(&words), "./s\n", "{striped}");
    }
    assert_eq!(below(&["-mdt-hash", "none,all_char"]), ".\n");
    let shown = below(&["-printf", "%Lc %Lh %Li %Lo\\n", "-mdt-count", "3"]);
    assert!(
        shown.ends_with("3 crush 1 1,2,0\n") || shown.ends_with("3 crush 1 1,0,2\n"),
        "{shown}"
    );
    assert_eq!(errno(fs::remove_dir(&s)), Some(libc::ENOTEMPTY));
    assert_eq!(errno(fs::create_dir(s.join("f001"))), Some(libc::EEXIST));
    // A listing goes on where it was while names go.
    let mut open = fs::read_dir(&s).expect("list");
    let mut seen: Vec<String> = open
        .by_ref()
        .take(10)
        .map(|entry| entry.expect("list").file_name().into_string().expect("text"))
        .collect();
    let gone = files.iter().rev().find(|name| !seen.contains(name)).expect("one of many");
    fs::remove_file(s.join(gone)).expect("remove");
    seen.extend(open.map(|entry| entry.expect("list").file_name().into_string().expect("text")));
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "a name is listed twice");
    assert!(files.iter().all(|name| name == gone || once.contains(name)));
    sh(&s, "rm f*; test -z \"$(ls -A)\"");
}

/// Names move from stripe to stripe, in and out.
fn moves(mnt: &Path) {
    let s = mnt.join("s");
    sh(
        &s,
        "for i in $(seq 20); do echo $i > a$i; mv a$i b$i; ln b$i c$i; done; rm b*; cat c* | sort -n | tail -1",
    );
    assert_eq!(names(&s).len(), 20);
    assert_eq!(
        sh(&s, "stat -c %h c1; mv c1 ..; cat ../c1; mv ../c1 d1; rm c* d1; ls -A"),
        "1\n1\n"
    );
    sh(&s, "for i in $(seq 12); do mkdir m$i; done");
    assert_eq!(fs::metadata(&s).expect("stat").nlink(), 14);
    assert_eq!(
        sh(&s, "cd m3; pwd -P; ls .. | wc -l"),
        format!("{}/m3\n12\n", fs::canonicalize(&s).expect("a path").display())
    );
    let ino = |path: &Path| fs::metadata(path).expect("stat").ino();
    for n in 1..=12 {
        assert_eq!(ino(&s.join(format!("m{n}/.."))), ino(&s), "above m{n}");
    }
    // A name in a stripe leads to a path.
    sh(&s, "for i in $(seq 4); do touch m$i/x; done");
    for n in 1..=4 {
        let fid = lfs(mnt, &["path2fid", &format!("s/m{n}/x")]);
        assert!(lfs(mnt, &["fid2path", "sheen", fid.trim_end()]).contains(&format!("s/m{n}/x")));
    }
    for n in 1..=6 {
        assert_eq!(errno(fs::rename(&s, s.join(format!("m{n}/s")))), Some(libc::EINVAL));
        fs::rename(s.join(format!("m{n}")), s.join(format!("n{n}"))).expect("rename");
    }
    assert_eq!(fs::metadata(&s).expect("stat").nlink(), 14);
    sh(mnt, "mv s t; ls t | wc -l; mv t s; rm -r s/*; mkdir e; mv -T e s; rmdir s");
    lfs(mnt, &["mkdir", "-c", "3", "-i", "1", "s"]);
}

/// What one mount changes, the other one shows.
fn seen_from_two_mounts(cluster: &Cluster, mnt: &Path) {
    let second = Second::of(cluster);
    let (one, two) = (mnt.join("s"), second.0.join("s"));
    sh(&two, "ls -la; stat . > /dev/null; test ! -e f1");
    for n in 0..30 {
        let name = format!("f{n}");
        fs::write(one.join(&name), "x").expect("write");
        assert!(two.join(&name).exists(), "{name}");
        assert_eq!(names(&two).len(), n + 1);
        let [here, there] = [&one, &two].map(|at| fs::metadata(at).expect("stat"));
        assert_eq!((here.mtime(), here.mtime_nsec()), (there.mtime(), there.mtime_nsec()));
    }
    for n in (0..30).step_by(3) {
        fs::remove_file(two.join(format!("f{n}"))).expect("remove");
        assert!(!one.join(format!("f{n}")).exists());
    }
    assert_eq!(names(&one), names(&two));
    fs::create_dir(two.join("below")).expect("mkdir");
    assert_eq!(fs::metadata(&one).expect("stat").nlink(), 3);
    // Mode and owner are those of all stripes at once: programs of a user are let in, or not.
    let made = |n: usize| {
        // The folders above the mount are closed to others: the name is relative.
        let mut touch = Command::new("touch");
        touch.arg(format!("u{n}")).current_dir(&two).uid(12345).gid(12345).stdin(Stdio::null());
        touch.output().expect("touch runs").status.success()
    };
    assert!((0..6).all(|n| !made(n)), "the directory is root's");
    fs::set_permissions(&one, fs::Permissions::from_mode(0o2777)).expect("chmod");
    sh(&one, "chgrp 777 .");
    assert!((0..6).all(made), "all may write");
    assert_eq!(sh(&two, "stat -c %g u* | sort -u; stat -c '%a %g' ."), "777\n2777 777\n");
    sh(&one, "touch -d '2001-02-03 04:05:06 UTC' .");
    assert_eq!(sh(&two, "stat -c %Y ."), "981173106\n");
    sh(&one, "chmod 755 .; chgrp 0 .; rm -r u* f* below");
    assert_eq!(names(&two), [] as [String; 0]);
    fs::remove_dir(&two).expect("rmdir");
    soon(&false, || one.exists());
    lfs(mnt, &["mkdir", "-c", "3", "-i", "1", "s"]);
    assert_eq!(lfs(&second.0, &["getdirstripe", "-c", "s"]), "3\n");
}

/// ACLs, layouts and defaults are handed on in each stripe.
fn handed_on(mnt: &Path) {
    let s = mnt.join("s");
    lfs(mnt, &["setstripe", "-c", "2", "-S", "128k", "s"]);
    let acl = try_sh(&s, "setfacl -d -m u:12345:rwx .").status.success();
    for n in 0..8 {
        fs::write(s.join(format!("f{n}")), "x").expect("write");
        assert_eq!(lfs(&s, &["getstripe", "-S", &format!("f{n}")]), "131072\n");
        if acl {
            assert!(sh(&s, &format!("getfacl -c f{n}")).contains("user:12345:rwx"));
        }
    }
    sh(&s, "rm f*; if command -v setfacl > /dev/null; then setfacl -b .; fi");
    lfs(mnt, &["setstripe", "-d", "s"]);
    // Defaults of directories.
    fs::create_dir(mnt.join("above")).expect("mkdir");
    let none = "lmv_stripe_count: 0 lmv_stripe_offset: -1 lmv_hash_type: none lmv_max_inherit: 0 lmv_max_inherit_rr: 0\n";
    assert_eq!(lfs(mnt, &["getdirstripe", "-D", "above"]), none);
    lfs(mnt, &["setdirstripe", "-D", "-c", "2", "-i", "2", "-H", "fnv_1a_64", "-X", "2", "above"]);
    let default = |left| {
        format!(
            "lmv_stripe_count: 2 lmv_stripe_offset: 2 lmv_hash_type: fnv_1a_64 lmv_max_inherit: {left} lmv_max_inherit_rr: 0\n"
        )
    };
    assert_eq!(lfs(mnt, &["getdirstripe", "-D", "above"]), default(2));
    sh(mnt, "mkdir above/one; mkdir above/one/two");
    assert_eq!(lfs(mnt, &["getdirstripe", "-c", "above/one"]), "2\n");
    assert_eq!(lfs(mnt, &["getdirstripe", "-i", "above/one"]), "2\n");
    assert_eq!(lfs(mnt, &["getdirstripe", "-H", "above/one"]), "fnv_1a_64\n");
    assert_eq!(lfs(mnt, &["getdirstripe", "-D", "above/one"]), default(1));
    assert_eq!(lfs(mnt, &["getdirstripe", "-c", "above/one/two"]), "2\n");
    assert_eq!(lfs(mnt, &["getdirstripe", "-D", "above/one/two"]), none, "the last level");
    lfs(mnt, &["setdirstripe", "-d", "above"]);
    lfs(mnt, &["setdirstripe", "-d", "above/one"]);
    sh(mnt, "mkdir above/plain above/one/plain");
    assert_eq!(lfs(mnt, &["getdirstripe", "-c", "above/plain"]), "0\n");
    // By turns.
    lfs(mnt, &["setdirstripe", "-D", "-i", "-1", "--max-inherit-rr", "-1", "above"]);
    // An MDT that does not tell its space for a second, on a busy machine, is passed over.
    let mut at = BTreeSet::new();
    for n in 0..100 {
        if at.len() == 3 {
            break;
        }
        sh(mnt, &format!("mkdir above/t{n}"));
        at.insert(lfs(mnt, &["getdirstripe", "-m", &format!("above/t{n}")]));
        if n >= 2 {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }
    assert_eq!(at.len(), 3, "{at:?}");
    assert_eq!(lfs(mnt, &["mkdir", "-i", "-1", "-c", "-1", "above/all"]), "");
    assert_eq!(lfs(mnt, &["getdirstripe", "-c", "above/all"]), "3\n");
}

fn refusals(mnt: &Path) {
    lfs_refuses(
        mnt,
        &["mkdir", "-c", "4", "x"],
        libc::E2BIG,
        "error: mkdir: can't create directory 'x': Argument list too long (7); there are fewer MDTs than stripes; \
         lfs mdts shows all\n",
    );
    lfs_refuses(
        mnt,
        &["mkdir", "-i", "0,9", "x"],
        libc::ERANGE,
        "error: mkdir: can't create directory 'x': Numerical result out of range (34); there is not all of MDT0000, \
         MDT0009; lfs mdts shows all\n",
    );
    lfs_refuses(
        mnt,
        &["mkdir", "-c", "2", "-H", "md5", "x"],
        libc::EINVAL,
        "error: mkdir: no such hash of names: 'md5'; there are all_char, fnv_1a_64 and crush: Invalid argument (22)\n",
    );
    lfs_refuses(
        mnt,
        &["setdirstripe", "-D", "-c", "4", "above"],
        libc::E2BIG,
        "error: setdirstripe: can't set default of 'above': Argument list too long (7); there are fewer MDTs than stripes; \
         lfs mdts shows all\n",
    );
    let exists = "error: mkdir: can't create directory 's': File exists (17)\n";
    lfs_refuses(mnt, &["mkdir", "-c", "2", "s"], libc::EEXIST, exists);
    assert!(!mnt.join("x").exists());
}
