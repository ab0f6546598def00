//! Inodes that are removed while open or current: they live exactly as long as that.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::programs::sh;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::fs::{fgetxattr, flistxattr, fremovexattr, fsetxattr, open, openat, statat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two mounts on hosts of their own.
fn two_mounts(options: &[&str; 2]) -> Option<Cluster> {
    if !can_mount() {
        return None;
    }
    Cluster::with_clients("1", options)
}

/// Number of removed but open inodes that `fsck` reports.
fn orphans(cluster: &Cluster) -> String {
    let output = cluster.many().fsck(&[]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let (before, _) = said.split_once(" removed but open").expect("the count of orphans");
    before.rsplit_once(' ').expect("a number before it").1.to_owned()
}

/// `count` inodes without a name are there soon.
fn orphans_are(cluster: &Cluster, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while orphans(cluster) != count.to_string() {
        assert!(
            Instant::now() < deadline,
            "{} are removed but open, expected {count}",
            orphans(cluster)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

/// A program of one mount uses a file in the moment in which a program of the other one removes it.
#[test]
fn a_file_that_is_removed_while_another_mount_uses_it_is_freed_at_its_close() {
    let Some(cluster) = two_mounts(&["", ""]) else { return };
    let mounts = cluster.mounts();
    let (one, two) = (shown(&mounts[0]), shown(&mounts[1]));
    for use_it in [format!("cat {two}/h > /dev/null"), format!("echo more >> {two}/g")] {
        let name = if use_it.contains("/h") { "h" } else { "g" };
        sh(
            &mounts[0],
            &format!(
                "for i in $(seq 300); do echo x > {one}/{name}; ({use_it}) 2> /dev/null & rm -f {one}/{name}; wait; done; rm -f {one}/{name}"
            ),
        );
    }
    orphans_are(&cluster, 0);
}

/// A nameless directory that a program has open behaves as on ext4.
fn lives_without_a_name(dir: &File, uid: u32) {
    let meta = dir.metadata().expect("fstat");
    assert_eq!((meta.nlink(), meta.uid(), meta.is_dir()), (0, uid, true));
    let entries =
        rustix::fs::Dir::read_from(dir).expect("a stream").map(|entry| entry.expect("list"));
    assert_eq!(entries.filter(|entry| !entry.file_name().to_bytes().starts_with(b".")).count(), 0);
    dir.set_permissions(fs::Permissions::from_mode(0o2711)).expect("fchmod");
    fchown(dir, Some(uid + 1), Some(uid + 2)).expect("fchown");
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 1234, tv_nsec: 5 },
    };
    rustix::fs::futimens(dir, &times).expect("futimens");
    let after = dir.metadata().expect("fstat");
    assert_eq!(
        (after.nlink(), after.mode() & 0o7777, after.uid(), after.gid()),
        (0, 0o2711, uid + 1, uid + 2)
    );
    assert_eq!((after.mtime(), after.mtime_nsec(), after.ino()), (1234, 5, meta.ino()));
    assert!((after.ctime(), after.ctime_nsec()) >= (meta.ctime(), meta.ctime_nsec()));
    let create = openat(dir, "new", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
    assert_eq!(create.err(), Some(Errno::NOENT));
    assert_eq!(rustix::fs::mkdirat(dir, "new", Mode::RWXU).err(), Some(Errno::NOENT));
    assert_eq!(statat(dir, "none", AtFlags::empty()).err(), Some(Errno::NOENT));
    dir.sync_all().expect("fsync");
}

fn xattr_of(file: &File, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = [0; 64];
    fgetxattr(file, name, &mut value[..]).map(|len| value[..len].to_vec())
}

fn xattrs_live_without_a_name(dir: &File) {
    assert_eq!(xattr_of(dir, "user.none"), Err(Errno::NODATA));
    fsetxattr(dir, "user.late", b"2", rustix::fs::XattrFlags::CREATE).expect("set");
    assert_eq!(xattr_of(dir, "user.late"), Ok(b"2".to_vec()));
    let mut names = [0; 256];
    let len = flistxattr(dir, &mut names[..]).expect("list");
    assert!(names[..len].split(|byte| *byte == 0).any(|name| name == b"user.late"));
    fremovexattr(dir, "user.late").expect("remove");
    assert_eq!(xattr_of(dir, "user.late"), Err(Errno::NODATA));
}

/// The name is gone, and can be used again: what was removed has nothing to do with it.
fn is_another(dir: &Path, held: &File) {
    assert!(!dir.exists());
    fs::create_dir(dir).expect("mkdir");
    let (new, old) = (fs::metadata(dir).expect("stat"), held.metadata().expect("fstat"));
    assert_ne!(new.ino(), old.ino());
    assert_eq!((new.nlink(), old.nlink()), (2, 0));
    fs::remove_dir(dir).expect("rmdir");
}

#[test]
fn a_directory_that_is_open_lives_on_without_its_name() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mnt = cluster.mount();
    let dir = mnt.join("d");
    fs::create_dir(&dir).expect("mkdir");
    let held = File::open(&dir).expect("open");
    fsetxattr(&held, "user.early", b"1", rustix::fs::XattrFlags::empty()).expect("set");
    assert_eq!(xattr_of(&held, "user.early"), Ok(b"1".to_vec()));
    fs::remove_dir(&dir).expect("rmdir");
    lives_without_a_name(&held, 0);
    assert_eq!(xattr_of(&held, "user.early"), Ok(b"1".to_vec()));
    is_another(&dir, &held);
    // A directory that another one replaced.
    sh(&mnt, "mkdir a b");
    let replaced = File::open(mnt.join("b")).expect("open");
    fs::rename(mnt.join("a"), mnt.join("b")).expect("rename");
    lives_without_a_name(&replaced, 0);
    xattrs_live_without_a_name(&replaced);
    // Nothing was opened: it is the working directory of a process.
    let script = "mkdir cwd; cd cwd; rmdir ../cwd; stat -c %h .; ls -la; chmod 700 .; stat -c %a .; touch x; echo $?";
    let shell =
        Command::new("sh").args(["-c", script]).current_dir(&mnt).stdin(Stdio::null()).output();
    let shell = shell.expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&shell.stdout), "0\ntotal 0\n700\n1\n", "{}", text(&shell));
}

#[test]
fn a_directory_that_another_mount_removed_lives_on_where_it_is_open_or_current() {
    for options in [["", ""], ["", "localflock"]] {
        let Some(cluster) = two_mounts(&options) else { return };
        let mounts = cluster.mounts();
        sh(&mounts[0], "mkdir d cwd; chown 5 d");
        let held = File::open(mounts[1].join("d")).expect("open");
        let mut shell = Command::new("sh");
        shell.args(["-c", "read go; stat -c %h .; ls -A; chmod 700 . && stat -c %a .; touch x 2> /dev/null; echo $?"]);
        shell.current_dir(mounts[1].join("cwd")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("sh runs");
        fs::remove_dir(mounts[0].join("d")).expect("rmdir");
        fs::remove_dir(mounts[0].join("cwd")).expect("rmdir");
        lives_without_a_name(&held, 5);
        xattrs_live_without_a_name(&held);
        is_another(&mounts[1].join("d"), &held);
        drop(shell.stdin.take());
        let said = shell.wait_with_output().expect("sh ends");
        assert_eq!(String::from_utf8_lossy(&said.stdout), "0\n700\n1\n");
        // No handle keeps it at the MDT.
        orphans_are(&cluster, 0);
    }
}

/// The kernel opens devices, FIFOs and sockets by itself; a symbolic link can be held by O_PATH.
#[test]
fn what_the_kernel_opens_by_itself_lives_on_without_its_name() {
    let Some(cluster) = two_mounts(&["", ""]) else { return };
    let mounts = cluster.mounts();
    sh(&mounts[0], "mkfifo fifo own; mknod dev c 1 3; ln -s target link");
    let socket = UnixListener::bind(mounts[0].join("socket")).expect("bind");
    let fifo = File::options().read(true).write(true).open(mounts[1].join("fifo")).expect("open");
    let own = File::options().read(true).write(true).open(mounts[0].join("own")).expect("open");
    let dev = File::open(mounts[1].join("dev")).expect("open");
    let path = OFlags::PATH | OFlags::NOFOLLOW;
    let link = File::from(open(mounts[1].join("link"), path, Mode::empty()).expect("open"));
    let bound = File::from(open(mounts[1].join("socket"), path, Mode::empty()).expect("open"));
    sh(&mounts[0], "rm fifo own dev link socket");
    for (what, held) in
        [("fifo", &fifo), ("own", &own), ("dev", &dev), ("link", &link), ("socket", &bound)]
    {
        assert_eq!(
            held.metadata().unwrap_or_else(|error| panic!("fstat of {what}: {error}")).nlink(),
            0,
            "{what}"
        );
    }
    for (what, held) in [("fifo", &fifo), ("own", &own), ("dev", &dev)] {
        held.set_permissions(fs::Permissions::from_mode(0o640))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(held.metadata().expect("fstat").mode() & 0o7777, 0o640, "{what}");
    }
    assert_eq!(dev.metadata().expect("fstat").rdev(), 0x103);
    drop(socket);
}
