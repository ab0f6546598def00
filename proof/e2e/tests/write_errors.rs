//! The errors that programs get when a client, a link or a server fails: every open file reports a
//! loss once, and reports nothing that was not lost. Programs wait for a server as long as it
//! takes.

use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use e2e::{can_mount, sheen};
use std::fs::{self, File};
use std::io::{Error, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BYTES: usize = 4096;
/// Longer than a lease, and the server's own rhythm.
const LEASE_AND_MORE: Duration = Duration::from_secs(30 + 15);
/// An OST evicts a client that it does not hear of for this long; the MDT hears of it all the time.
const LINK_OUTAGE: Duration = Duration::from_secs(70);
/// Longer than one request is tried on a `soft` mount (`types::limits::REQUEST_TIMEOUT`).
const SERVER_OUTAGE: Duration = Duration::from_secs(108);
/// Until a server that is back has answered all, on a busy machine.
const BACK: Duration = Duration::from_secs(60);
const OSS0: usize = 2;
const OSS1: usize = 3;
const MDS: usize = 1;

/// Held while mounts stand still, and by a test that starts a program and measures how long it
/// takes. A program closes its copies of this process's descriptors before it begins, also those
/// of another test's files, and so waits for a mount that stands still.
static STANDSTILL: Mutex<()> = Mutex::new(());

/// See [`STANDSTILL`].
fn standstill() -> MutexGuard<'static, ()> {
    STANDSTILL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn filled(with: u8) -> Vec<u8> {
    vec![with; BYTES]
}

fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().expect("an error of the system"), |_| 0)
}

fn checked(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Closes one of several descriptors of an open file.
fn close_a_copy(file: &File) -> std::io::Result<()> {
    // SAFETY: no memory is involved; the copy is closed once, here.
    unsafe {
        let copy = libc::dup(file.as_raw_fd());
        assert!(copy >= 0, "dup: {}", Error::last_os_error());
        checked(libc::close(copy))
    }
}

/// A process that inherits the descriptor closes it.
fn close_in_a_child(file: &File) -> i32 {
    let fd = file.as_raw_fd();
    // SAFETY: the child calls close and _exit only, which may be called after fork in a process
    // with threads.
    let child = unsafe {
        match libc::fork() {
            0 => {
                let failed = libc::close(fd) != 0;
                libc::_exit(if failed { *libc::__errno_location() } else { 0 });
            }
            child => child,
        }
    };
    assert!(child > 0, "fork: {}", Error::last_os_error());
    let mut status = 0;
    // SAFETY: waits for the child from above; `status` lives as long as the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
    libc::WEXITSTATUS(status)
}

/// A shared mapping of a whole file.
struct Mapping(*mut libc::c_void);

impl Mapping {
    fn of(file: &File) -> Mapping {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED, "mmap: {}", Error::last_os_error());
        Mapping(at)
    }

    fn sync(&self) -> std::io::Result<()> {
        // SAFETY: the mapping lives.
        checked(unsafe { libc::msync(self.0, BYTES, libc::MS_SYNC) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more.
        unsafe { libc::munmap(self.0, BYTES) };
    }
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

/// Something that is durable, and something newer that is not.
fn old_and_new(path: &Path) -> File {
    let file = open(path);
    file.write_all_at(&filled(b'A'), 0).expect("write A");
    file.sync_all().expect("fsync A");
    file
}

#[test]
fn a_loss_is_told_to_every_open_file_once() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", "", "localflock"]) else { return };
    let (mounts, many) = (cluster.mounts(), cluster.many());
    let names = ["synced", "written", "untold"];
    let paths = [mounts[0].join(names[0]), mounts[0].join(names[1]), mounts[2].join(names[2])];
    let [parent, writer, untold] = paths.each_ref().map(|path| old_and_new(path));
    // Open files of their own, one of them behind a mapping.
    let (second, mapped) = (open(&paths[0]), open(&paths[0]));
    let mapping = Mapping::of(&mapped);
    [&parent, &writer, &untold]
        .into_iter()
        .for_each(|file| file.write_all_at(&filled(b'B'), 0).expect("write B"));
    let held = standstill();
    [0, 2].into_iter().for_each(|n| many.suspend_client(n));
    std::thread::scope(|scope| {
        let reads = names.map(|name| {
            let path = mounts[1].join(name);
            scope.spawn(move || fs::read(path).expect("read"))
        });
        let began = Instant::now();
        for (name, read) in names.iter().zip(reads) {
            assert!(
                read.join().expect("a reader panicked") == filled(b'A'),
                "{name}: what was synced"
            );
        }
        assert!(
            began.elapsed() < LEASE_AND_MORE,
            "{:?} until the silent were evicted",
            began.elapsed()
        );
    });
    [0, 2].into_iter().for_each(|n| many.resume_client(n));
    drop(held);

    // Until the client has heard of its eviction a close has nothing to tell.
    let deadline = Instant::now() + LEASE_AND_MORE;
    while errno(close_a_copy(&parent)) != libc::EIO {
        assert!(Instant::now() < deadline, "no close tells the loss\n{}", cluster.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(close_in_a_child(&parent), libc::EIO, "the child's close");
    assert_eq!(errno(mapping.sync()), libc::EIO, "msync");
    assert_eq!(errno(mapping.sync()), 0, "msync, the second time");
    assert_eq!(errno(second.sync_all()), libc::EIO, "fsync of another open file");
    assert_eq!(errno(second.sync_all()), 0, "fsync of another open file, the second time");
    assert_eq!(
        errno(parent.sync_all()),
        libc::EIO,
        "the parent's fsync, whatever others were told"
    );
    assert_eq!(errno(parent.sync_all()), 0, "the parent's fsync, the second time");
    assert_eq!(errno(close_a_copy(&parent)), 0, "a close after that");
    assert_eq!(
        errno(open(&paths[0]).sync_all()),
        0,
        "fsync of a file that was opened after the loss was told"
    );
    assert!(fs::read(&paths[0]).expect("read") == filled(b'A'), "what was synced");

    assert_eq!(errno(writer.write_all_at(b"C", 0)), libc::EIO, "the next write");
    assert_eq!(errno(writer.write_all_at(b"D", 0)), 0, "the write after that");
    assert_eq!(errno(writer.sync_all()), 0, "fsync of what was written after that");

    // The kernel does not say which open file it is: each thread that asks gets the error.
    let told = |file: &File| {
        std::thread::scope(|scope| {
            let syncs = || [errno(file.sync_all()), errno(file.sync_all())];
            scope.spawn(syncs).join().expect("a thread panicked")
        })
    };
    assert_eq!(told(&untold), [libc::EIO, 0], "a mount without opens");
    assert_eq!(told(&untold), [libc::EIO, 0], "another thread");
}

/// A new file on this OST, with `content`.
fn on_ost(path: &Path, ost: usize, content: &[u8]) -> File {
    let output = Command::new(sheen())
        .args(["lfs", "setstripe", "-c", "1", "-i", &ost.to_string()])
        .arg(path)
        .output();
    let output = output.expect("sheen runs");
    assert!(output.status.success(), "{}", text(&output));
    let file = open(path);
    file.write_all_at(content, 0).expect("write");
    file
}

/// One READ request. Through its pages the kernel asks twice, each time as long as the mount waits:
/// read-ahead fails, and then the reader asks for the page itself.
fn read_past_the_pages(path: &Path) -> std::io::Result<usize> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    file.read_at(&mut filled(0), 0)
}

/// Waits until `outage` is over, which began at `began`.
fn sleep_until(began: Instant, outage: Duration) {
    std::thread::sleep(outage.saturating_sub(began.elapsed()));
}

/// A program that waits for `path` ends at once when it is killed.
fn yields_to_a_signal(path: &Path) {
    let began = Instant::now();
    let output = try_sh(Path::new("/"), &format!("timeout -s INT 1 cat {}", path.display()));
    assert!(!output.status.success(), "read without its server: {}", text(&output));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?} after Ctrl-C", began.elapsed());
}

#[test]
fn a_link_that_was_down_loses_nothing_and_fails_nobody() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", "soft"]) else { return };
    let (mounts, many) = (cluster.mounts(), cluster.many());
    let (hard, soft) = (&mounts[0], &mounts[1]);
    // Open to write, it is read without the kernel's pages.
    let cold = on_ost(&hard.join("cold"), 2, &filled(b'c'));
    for file in [
        &cold,
        &on_ost(&hard.join("colder"), 2, &filled(b'C')),
        &on_ost(&hard.join("soft"), 2, &filled(b'S')),
    ] {
        file.sync_all().expect("fsync");
    }
    // The OST has these bytes before the link is down, and they are not synced yet.
    let stored = on_ost(&hard.join("stored"), 0, &filled(b's'));
    let [fresh, far] =
        [("fresh", 0), ("far", 2)].map(|(name, ost)| on_ost(&hard.join(name), ost, b"x"));
    std::thread::sleep(Duration::from_millis(1500));
    let held = standstill();
    let began = Instant::now();
    [OSS0, OSS1].into_iter().for_each(|at| many.cut_server(at));
    let sync = |file: &File| (errno(file.sync_all()), began.elapsed());
    // These it does not have.
    let write = |file: &File, with| {
        file.write_all_at(&filled(with), 0).expect("write");
        sync(file)
    };
    std::thread::scope(|scope| {
        let syncs = [
            ("stored", scope.spawn(|| sync(&stored))),
            ("fresh", scope.spawn(|| write(&fresh, b'f'))),
        ];
        let far = scope.spawn(|| write(&far, b'F'));
        let read = scope.spawn(|| {
            let mut content = filled(0);
            cold.read_exact_at(&mut content, 0).expect("read");
            (content, began.elapsed())
        });
        let given_up =
            scope.spawn(|| (errno(read_past_the_pages(&soft.join("soft"))), began.elapsed()));
        yields_to_a_signal(&hard.join("colder"));
        drop(held);

        sleep_until(began, LINK_OUTAGE);
        many.heal_server(OSS0);
        for (name, sync) in syncs {
            let (errno, after) = sync.join().expect("a thread panicked");
            assert_eq!(errno, 0, "fsync of {name:?} after {after:?}\n{}", many.log_of_client(0));
            assert!(
                LINK_OUTAGE <= after && after < LINK_OUTAGE + BACK,
                "fsync of {name:?} took {after:?}"
            );
            let content = fs::read(soft.join(name)).expect("read on the other mount");
            assert!(content == filled(name.as_bytes()[0]), "{name:?} on the other mount");
        }

        sleep_until(began, SERVER_OUTAGE);
        let (errno, after) = given_up.join().expect("a thread panicked");
        assert_eq!(errno, libc::ETIMEDOUT, "a soft mount, after {after:?}");
        assert!(after >= Duration::from_secs(90), "a soft mount gave up after {after:?}");
        many.heal_server(OSS1);
        let (errno, after) = far.join().expect("a thread panicked");
        assert_eq!(errno, 0, "fsync after {after:?}\n{}", many.log_of_client(0));
        let (content, after) = read.join().expect("a thread panicked");
        assert!(content == filled(b'c'), "read after {after:?}");
        assert!(began.elapsed() < SERVER_OUTAGE + BACK, "{:?}", began.elapsed());
    });
    assert!(fs::read(soft.join("far")).expect("read on the other mount") == filled(b'F'));
    let output = many.fsck(&[]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn programs_wait_for_an_mdt_as_long_as_it_takes() {
    if !can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::with_clients("1", &["", "soft"]) else { return };
    let mounts = cluster.mounts();
    let (hard, soft) = (&mounts[0], &mounts[1]);
    fs::create_dir(hard.join("dir")).expect("mkdir");
    ["file", "other"].into_iter().for_each(|name| fs::write(hard.join(name), "x").expect("write"));
    let log = File::create(hard.join("log")).expect("create");
    log.sync_all().expect("fsync");
    let began = Instant::now();
    cluster.many_mut().kill_server(MDS);
    (&log).write_all(&filled(b'l')).expect("write");
    // First, and in a directory of its own: while a directory is changed, the kernel itself holds
    // off lookups in it, and no signal reaches them.
    yields_to_a_signal(&hard.join("dir/absent"));
    std::thread::scope(|scope| {
        // They enter the mount themselves: a process that waits between fork and exec has
        // descriptors of all others.
        let run = |script: &str, at: &Path| {
            let script = format!("cd {} && {script}", at.display());
            scope.spawn(move || (try_sh(Path::new("/"), &script), began.elapsed()))
        };
        let scripts =
            ["touch new", "stat other", "mv file moved && cat moved", "flock log sync log"];
        let waiting = scripts.map(|script| (script, run(script, hard)));
        let given_up =
            scope.spawn(|| (errno(File::create(soft.join("given up"))), began.elapsed()));
        sleep_until(began, SERVER_OUTAGE);
        let (errno, after) = given_up.join().expect("a thread panicked");
        assert_eq!(errno, libc::ETIMEDOUT, "a soft mount, after {after:?}");
        cluster.many_mut().start_server_again(MDS);
        for (script, waiting) in waiting {
            let (output, after) = waiting.join().expect("a thread panicked");
            assert!(
                output.status.success(),
                "{script} after {after:?}: {}\n{}",
                text(&output),
                cluster.log()
            );
            assert!(after < SERVER_OUTAGE + BACK, "{script} took {after:?}");
        }
    });
    sh(soft, "test -e new && test -e moved && test $(tr -cd l < log | wc -c) = 4096");
}
