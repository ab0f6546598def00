//! Properties of open files, seen from two clients: OFD locks, programs that are executed, mapped
//! files.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The other client hears of a close or of the end of a process a moment later.
const SOON: Duration = Duration::from_secs(10);

fn clients(options: &[&str]) -> Option<(Cluster, PathBuf, PathBuf)> {
    let cluster = can_mount().then(|| Cluster::with_clients("1", options)).flatten()?;
    let mounts = cluster.mounts();
    Some((cluster, mounts[0].clone(), mounts[1].clone()))
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Waits until it is so.
fn soon(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs one of the helpers below in a process of its own, which prints a line when it is ready.
fn helper(name: &str, path: &Path) -> Child {
    let program = std::env::current_exe().expect("path of this test");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture"]).env("HELPER_FILE", path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut said = Vec::new();
    let out = child.stdout.as_mut().expect("a pipe");
    while !said.ends_with(b"ready\n") {
        let mut byte = [0];
        assert_eq!(
            out.read(&mut byte).expect("read"),
            1,
            "the helper ended: {}",
            String::from_utf8_lossy(&said)
        );
        said.push(byte[0]);
    }
    child
}

/// The file of a helper; `None` if this is an ordinary run of the tests.
fn for_helper() -> Option<PathBuf> {
    std::env::var_os("HELPER_FILE").map(PathBuf::from)
}

fn ready_and_wait() {
    println!("ready");
    let mut rest = String::new();
    std::io::stdin().read_line(&mut rest).expect("read");
}

fn kill(mut child: Child) {
    child.kill().expect("kill");
    child.wait().expect("wait");
}

// OFD locks (F_OFD_SETLK).

fn ofd_lock(file: &File, start: i64, len: i64) -> std::io::Result<()> {
    let range = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open and `range` lives through the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn helper_takes_an_ofd_lock() {
    let Some(path) = for_helper() else { return };
    let file = open(&path);
    soon("the lock of a closed file stays", || ofd_lock(&file, 0, 0).is_ok());
    ready_and_wait();
}

#[test]
fn an_ofd_lock_ends_with_its_open_file() {
    let Some((_cluster, one, two)) = clients(&["", ""]) else { return };
    let (near, far) = (one.join("locked"), two.join("locked"));
    let holder = open(&near);
    ofd_lock(&holder, 0, 10).expect("nobody has it");
    let other = open(&far);
    assert_eq!(errno(ofd_lock(&other, 0, 1)), Some(libc::EAGAIN));
    // Of the same process: only the open file counts.
    let beside = open(&near);
    assert_eq!(errno(ofd_lock(&beside, 9, 1)), Some(libc::EAGAIN));
    ofd_lock(&beside, 10, 1).expect("that byte is free");
    drop(beside);
    soon("the lock of a closed file stays", || ofd_lock(&other, 10, 1).is_ok());

    // A descriptor that was duplicated is the same open file.
    let copy = holder.try_clone().expect("dup");
    drop(holder);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(errno(ofd_lock(&other, 0, 1)), Some(libc::EAGAIN));
    drop(copy);
    soon("the lock of a closed file stays", || ofd_lock(&other, 0, 10).is_ok());
    drop(other);

    // The end of a process closes its files.
    let child = helper("helper_takes_an_ofd_lock", &near);
    let other = open(&far);
    assert_eq!(errno(ofd_lock(&other, 5, 1)), Some(libc::EAGAIN));
    kill(child);
    soon("the lock of a killed process stays", || ofd_lock(&other, 5, 1).is_ok());
}

#[test]
fn an_ofd_lock_survives_the_close_of_another_open_file() {
    let Some((_cluster, one, two)) = clients(&["", ""]) else { return };
    let (near, far) = (one.join("locked"), two.join("locked"));
    let other = open(&far);
    for _ in 0..50 {
        // The kernel gives the place of a closed file to the next one that is opened, and names the
        // lock owner by the place.
        let first = open(&near);
        // The kernel releases the file of the round before after close(2) has returned.
        soon("the lock of a closed file stays", || ofd_lock(&first, 0, 1).is_ok());
        drop(first);
        let second = open(&near);
        soon("the lock of a closed file stays", || ofd_lock(&second, 0, 2).is_ok());
        assert_eq!(errno(ofd_lock(&other, 1, 1)), Some(libc::EAGAIN));
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(
            errno(ofd_lock(&other, 0, 1)),
            Some(libc::EAGAIN),
            "an open file has lost its lock"
        );
    }
}

// Programs that are executed.

fn sleeper(path: &Path) -> Child {
    Command::new(path).arg("60").spawn().expect("executes")
}

fn install(path: &Path) {
    let sleep = e2e::find_program("sleep").expect("sleep");
    let bytes = fs::read(sleep).expect("read");
    let mut file = File::create(path).expect("create");
    file.write_all(&bytes).expect("write");
    file.set_permissions(fs::Permissions::from_mode(0o755)).expect("chmod");
}

#[test]
fn a_program_that_is_executed_is_not_changed() {
    let Some((cluster, one, two)) = clients(&["", "", "localflock"]) else { return };
    let (near, far) = (one.join("program"), two.join("program"));
    install(&near);
    // Written on one client and executed on another one at once.
    let children = [sleeper(&far), sleeper(&near)];
    assert_eq!(errno(OpenOptions::new().write(true).open(&near)), Some(libc::ETXTBSY));
    assert_eq!(errno(OpenOptions::new().append(true).open(&far)), Some(libc::ETXTBSY));
    let [at_near, at_far] = children;
    let [mut far_child, near_child] = [at_near, at_far];
    kill(near_child);
    for refused in [
        errno(OpenOptions::new().write(true).open(&near)),
        errno(OpenOptions::new().append(true).open(&near)),
        errno(OpenOptions::new().write(true).create(true).truncate(true).open(&near)),
        errno(nix_truncate(&near, 5)),
    ] {
        assert_eq!(refused, Some(libc::ETXTBSY));
    }
    assert_eq!(fs::metadata(&near).expect("stat").len(), fs::metadata(&far).expect("stat").len());
    // It may be read, removed and replaced.
    File::open(&near).expect("open to read");
    assert!(far_child.try_wait().expect("wait").is_none(), "it runs");
    far_child.kill().expect("kill");
    far_child.wait().expect("wait");
    // Once it ended it may be written at once.
    OpenOptions::new()
        .write(true)
        .open(&near)
        .expect("nobody executes it")
        .write_all(b"#!/bin/false")
        .expect("write");

    // The other way round: what is open to write is not executed.
    install(&near);
    let writer = OpenOptions::new().write(true).open(&near).expect("open");
    assert_eq!(errno(Command::new(&far).arg("0").spawn()), Some(libc::ETXTBSY));
    drop(writer);
    assert!(Command::new(&far).arg("0").status().expect("executes").success());

    // A client that dies takes its programs along.
    let child = sleeper(&far);
    assert_eq!(errno(OpenOptions::new().write(true).open(&near)), Some(libc::ETXTBSY));
    cluster.many().kill_client(1);
    let _ = child;
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Some(errno) = errno(OpenOptions::new().write(true).open(&near)) {
        assert_eq!(errno, libc::ETXTBSY);
        assert!(Instant::now() < deadline, "a dead client executes for ever");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_a_localflock_mount_wrote_is_executed_elsewhere() {
    let Some((_cluster, one, two)) = clients(&["", "localflock"]) else { return };
    install(&two.join("program"));
    // That mount has the file open as long as its kernel knows it.
    assert!(Command::new(one.join("program")).arg("0").status().expect("executes").success());
    assert!(Command::new(two.join("program")).arg("0").status().expect("executes").success());
}

fn nix_truncate(path: &Path, len: i64) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: `path` is a string that ends with NUL.
    match unsafe { libc::truncate(path.as_ptr(), len) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

// Mapped files.

/// A shared mapping of a whole file that can be written.
struct Mapping {
    start: *mut u8,
    len: usize,
}

impl Mapping {
    fn of(file: &File, len: usize) -> Mapping {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Mapping { start: start.cast(), len }
    }

    fn get(&self, at: usize) -> u8 {
        assert!(at < self.len);
        // SAFETY: within the mapping; other programs change it, so it is read as a device is.
        unsafe { self.start.add(at).read_volatile() }
    }

    fn set(&self, at: usize, byte: u8) {
        assert!(at < self.len);
        // SAFETY: within the mapping, of which there is no borrow.
        unsafe { self.start.add(at).write_volatile(byte) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `of`, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

#[test]
fn what_is_stored_through_one_mapping_is_read_through_another_one() {
    const LEN: usize = 3 * 4096;
    let Some((_cluster, one, two)) = clients(&["", ""]) else { return };
    fs::write(one.join("mapped"), vec![0; LEN]).expect("write");
    let (near, far) = (open(&one.join("mapped")), open(&two.join("mapped")));
    let maps = [Mapping::of(&near, LEN), Mapping::of(&far, LEN)];
    // The first read of the second one, and then by turns, in both pages.
    for round in 1..=40_u8 {
        let (writer, reader) = (&maps[usize::from(round) % 2], &maps[usize::from(round + 1) % 2]);
        let at = usize::from(round) % 3 * 4096 + usize::from(round);
        writer.set(at, round);
        assert_eq!(reader.get(at), round, "round {round}");
    }
    // Programs that do not map it read and write the same bytes.
    maps[0].set(7, 77);
    let mut byte = [0];
    far.read_exact_at(&mut byte, 7).expect("read");
    assert_eq!(byte, [77]);
    let reader = File::open(two.join("mapped")).expect("open");
    maps[0].set(8, 78);
    reader.read_exact_at(&mut byte, 8).expect("read");
    assert_eq!(byte, [78]);
    far.write_all_at(&[79], 9).expect("write");
    assert_eq!(maps[0].get(9), 79);
    maps[0].set(9, 80);
    assert_eq!(maps[1].get(9), 80);
}

#[test]
fn a_mapping_reaches_the_new_end_after_the_file_was_looked_at() {
    let Some((_cluster, one, two)) = clients(&["", ""]) else { return };
    fs::write(one.join("grows"), [1; 4096]).expect("write");
    let before = open(&two.join("grows"));
    assert_eq!(before.metadata().expect("stat").len(), 4096);
    let mut writer = OpenOptions::new().append(true).open(one.join("grows")).expect("open");
    writer.write_all(&[2; 4096]).expect("append");
    // Opening looks at the file, and so does stat. Then an earlier descriptor maps all of it, too.
    let after = open(&two.join("grows"));
    assert_eq!(Mapping::of(&after, 8192).get(8191), 2);
    writer.write_all(&[3; 4096]).expect("append");
    assert_eq!(before.metadata().expect("stat").len(), 12288);
    assert_eq!(Mapping::of(&before, 12288).get(12287), 3);
}

// Files without a name (O_TMPFILE).

fn unnamed(dir: &Path, flags: i32) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE | flags)
        .mode(0o640)
        .open(dir)
}

/// Gives an open file a name, as open(2) says.
fn name_it(file: &File, path: &Path) -> std::io::Result<()> {
    let from =
        std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a path");
    let to = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: both are strings that end with NUL.
    match unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn helper_has_a_file_without_a_name() {
    let Some(dir) = for_helper() else { return };
    let mut file = unnamed(&dir, 0).expect("O_TMPFILE");
    file.write_all(&[1; 1 << 20]).expect("write");
    file.sync_all().expect("sync");
    ready_and_wait();
}

/// Number of inodes without names that the MDT keeps because they are open.
fn orphans(cluster: &Cluster) -> u64 {
    let report = text(&cluster.many().fsck(&[]));
    let before =
        report.split(" removed but open").next().filter(|before| before.len() < report.len());
    before
        .and_then(|before| before.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    let Some((cluster, one, two)) = clients(&["", "", "localflock"]) else { return };
    let third = cluster.mounts()[2].clone();
    for (near, far) in [(&one, &two), (&third, &one)] {
        let mut file = unnamed(near, 0).expect("O_TMPFILE");
        file.write_all(b"without a name").expect("write");
        let meta = file.metadata().expect("fstat");
        assert_eq!((meta.nlink(), meta.len(), meta.mode() & 0o7777), (0, 14, 0o640));
        assert_eq!(fs::read_dir(far).expect("list").count(), 0);
        // It is whole when it gets its name.
        let (named, again) = (near.join("named"), near.join("again"));
        name_it(&file, &named).expect("linkat");
        assert_eq!(fs::read(far.join("named")).expect("read"), b"without a name");
        assert_eq!(
            (
                file.metadata().expect("fstat").nlink(),
                fs::metadata(far.join("named")).expect("stat").nlink()
            ),
            (1, 1)
        );
        fs::hard_link(&named, &again).expect("link");
        assert_eq!(errno(name_it(&file, &named)), Some(libc::EEXIST));
        drop(file);
        fs::remove_file(&again).expect("unlink");
        assert_eq!(fs::read(far.join("named")).expect("it outlives the close"), b"without a name");
        let last = File::open(&named).expect("open");
        fs::remove_file(&named).expect("unlink");
        assert_eq!(
            errno(name_it(&last, &named)),
            Some(libc::ENOENT),
            "a removed file has no way back"
        );
        // O_EXCL: never a name.
        let file = unnamed(near, libc::O_EXCL).expect("O_TMPFILE");
        assert_eq!(errno(name_it(&file, &named)), Some(libc::ENOENT));
    }
    soon("a file without a name stays behind", || orphans(&cluster) == 0);
    // It goes with its process, and with its client.
    let child = helper("helper_has_a_file_without_a_name", &two);
    soon("it is open", || orphans(&cluster) == 1);
    kill(child);
    soon("a file without a name outlives its process", || orphans(&cluster) == 0);
    let child = helper("helper_has_a_file_without_a_name", &two);
    cluster.many().kill_client(1);
    kill(child);
    let deadline = Instant::now() + Duration::from_secs(60);
    while orphans(&cluster) != 0 {
        assert!(Instant::now() < deadline, "a file without a name outlives its client");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_file_without_a_name_outlives_a_restart_of_its_mdt() {
    if !can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let (one, two) = (cluster.mounts()[0].clone(), cluster.mounts()[1].clone());
    let mut kept = unnamed(&one, 0).expect("O_TMPFILE");
    let dropped = unnamed(&one, 0).expect("O_TMPFILE");
    kept.write_all(b"survives").expect("write");
    let sealed = unnamed(&one, libc::O_EXCL).expect("O_TMPFILE");
    let many = cluster.many_mut();
    let mds = (0..many.server_count()).find(|at| many.server_name(*at) == "mds").expect("an MDS");
    many.kill_server(mds);
    many.start_server_again(mds);
    name_it(&kept, &one.join("kept")).expect("linkat");
    assert_eq!(errno(name_it(&sealed, &one.join("sealed"))), Some(libc::ENOENT));
    drop((dropped, sealed));
    assert_eq!(fs::read(two.join("kept")).expect("read"), b"survives");
    soon("a file without a name stays behind", || orphans(&cluster) == 0);
}

// Flags of inodes (chattr), and where data is.

#[test]
fn flags_of_chattr_hold_on_every_client() {
    let Some((_cluster, one, two)) = clients(&["", ""]) else { return };
    fs::write(one.join("f"), "first\n").expect("write");
    fs::create_dir(one.join("d")).expect("mkdir");
    let shown = |name: &str| {
        sh(&two, &format!("lsattr -d {name}"))
            .split_whitespace()
            .next()
            .unwrap_or("")
            .replace('-', "")
    };
    let refused = |dir: &Path, command: &str| {
        let output = try_sh(dir, command);
        assert!(
            !output.status.success() && text(&output).contains("not permitted"),
            "{command}: {}",
            text(&output)
        );
    };
    assert_eq!((shown("f"), shown("d")), (String::new(), String::new()));
    sh(&one, "chattr +idA f && chattr +d d");
    assert_eq!((shown("f"), shown("d")), ("idA".to_owned(), "d".to_owned()));
    for dir in [&one, &two] {
        for command in [
            "echo x >> f",
            "echo x > f",
            "rm -f f",
            "mv f g",
            "ln f g",
            "chmod 600 f",
            "touch f",
            "setfattr -n user.a f",
        ] {
            refused(dir, command);
        }
        assert_eq!(fs::read_to_string(dir.join("f")).expect("read"), "first\n");
    }
    sh(&two, "chattr -i +a f");
    refused(&one, "echo x > f");
    refused(&one, "rm -f f");
    sh(&one, "echo second >> f");
    assert_eq!(sh(&two, "cat f"), "first\nsecond\n");
    sh(&two, "chattr +i d");
    refused(&one, "touch d/new");
    sh(&one, "chattr -i d && chattr = f && touch d/new && rm f");
    // Unsupported flags are refused, and change nothing.
    let output = try_sh(&one, "chattr +c d");
    assert!(
        !output.status.success() && text(&output).contains("not supported"),
        "{}",
        text(&output)
    );
    assert_eq!(shown("d"), "d");
    // Only the owner sets flags, and only root these.
    sh(&one, "chmod 777 . && touch mine && chown 1000 mine");
    let as_user =
        |command: &str| try_sh(&one, &format!("setpriv --reuid 1000 --clear-groups {command}"));
    assert!(as_user("chattr +d mine").status.success());
    assert!(
        !as_user("chattr +i mine").status.success() && !as_user("chattr +d d").status.success()
    );
}

#[test]
fn holes_of_a_file_are_found_from_another_client() {
    const MIB: usize = 1 << 20;
    let Some((_cluster, one, two)) = clients(&["", ""]) else { return };
    let file = open(&one.join("sparse"));
    file.write_all_at(&[1; MIB], 4 * MIB as u64).expect("write");
    file.set_len(16 * MIB as u64).expect("truncate");
    let seen = File::open(two.join("sparse")).expect("open");
    let seek = |from: usize, whence| {
        // SAFETY: the descriptor is open.
        unsafe { libc::lseek(seen.as_raw_fd(), from as i64, whence) }
    };
    assert_eq!([seek(0, libc::SEEK_HOLE), seek(0, libc::SEEK_DATA)], [0, 4 * MIB as i64]);
    assert_eq!(
        [seek(4 * MIB, libc::SEEK_HOLE), seek(5 * MIB, libc::SEEK_DATA)],
        [5 * MIB as i64, -1]
    );
    sh(&two, "cp --sparse=auto sparse copy && cmp sparse copy");
    assert!(fs::metadata(one.join("copy")).expect("stat").blocks() * 512 < 2 * MIB as u64);
}
