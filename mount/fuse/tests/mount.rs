//! Real mounts. Need root and /dev/fuse; elsewhere they say that they were skipped.

mod support;

use fuse::mount::MountError;
use fuse::notification::Notification;
use fuse::null::NullConfig;
use fuse::stale::clear_stale_mount;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;
use support::*;
use types::errno::Errno;
use types::name::Name;

const KEEPING: NullConfig = NullConfig { valid: Duration::ZERO, kept_bytes_max: 16 << 20 };
const TRUSTING: NullConfig =
    NullConfig { valid: Duration::from_secs(3600), kept_bytes_max: 16 << 20 };

#[test]
fn files_directories_links_and_attributes() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let root = mounted.path.clone();
    assert_eq!(fs::metadata(&root).unwrap().ino(), 1);

    let file = root.join("file");
    fs::write(&file, b"hello").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"hello");
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(
        (metadata.len(), metadata.nlink(), metadata.blksize()),
        (5, 1, u64::from(fuse::reply::BLOCK_SIZE))
    );
    assert!(metadata.created().is_ok(), "statx tells the birth time");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode(), 0o100640);

    OpenOptions::new().append(true).open(&file).unwrap().write_all(b" there").unwrap();
    let mut opened = OpenOptions::new().read(true).write(true).open(&file).unwrap();
    opened.write_all_at(b"J", 0).unwrap();
    opened.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    opened.read_to_string(&mut text).unwrap();
    assert_eq!(text, "Jello there");
    opened.set_len(3).unwrap();
    opened.sync_all().unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"Jel");

    fs::create_dir(root.join("dir")).unwrap();
    fs::hard_link(&file, root.join("dir/second")).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().nlink(), 2);
    symlink("dir/second", root.join("link")).unwrap();
    assert_eq!(fs::read_link(root.join("link")).unwrap().to_str(), Some("dir/second"));
    assert_eq!(fs::read(root.join("link")).unwrap(), b"Jel");
    fs::rename(&file, root.join("dir/third")).unwrap();
    assert_eq!(fs::metadata(&file).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::remove_dir(root.join("dir")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);

    let held = File::open(root.join("dir/third")).unwrap();
    fs::remove_file(root.join("dir/third")).unwrap();
    fs::remove_file(root.join("dir/second")).unwrap();
    let mut bytes = [0; 3];
    held.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"Jel", "an open file outlives its names");
    drop(held);
    fs::remove_dir(root.join("dir")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    let unknown = rustix::fs::ioctl_getflags(File::open(&root).unwrap());
    assert_eq!(unknown.unwrap_err(), rustix::io::Errno::NOTTY);
    mounted.unmount();
}

#[test]
fn large_data_survives_unchanged() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let file = mounted.path.join("large");
    let data: Vec<u8> =
        (0..(5 << 20) + 123u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&file, &data).unwrap();
    assert!(fs::read(&file).unwrap() == data);
    // A small write in the middle, then the whole once more: opening drops the page cache.
    let mounted_file = OpenOptions::new().write(true).open(&file).unwrap();
    mounted_file.write_all_at(&data[..100_000], 77).unwrap();
    drop(mounted_file);
    let mut expected = data;
    let start = expected[..100_000].to_vec();
    expected[77..100_077].copy_from_slice(&start);
    assert!(fs::read(&file).unwrap() == expected);
    mounted.unmount();
}

#[test]
fn listings_are_whole_with_and_without_attributes() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let dir = mounted.path.join("many");
    fs::create_dir(&dir).unwrap();
    let names: Vec<String> =
        (0..3000).map(|i| format!("name-{i:04}-{}", "x".repeat(i % 50))).collect();
    names.iter().for_each(|name| drop(File::create(dir.join(name)).unwrap()));
    for stat in [false, true] {
        let mut found: Vec<String> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                if stat {
                    assert_eq!(entry.metadata().unwrap().len(), 0);
                }
                entry.file_name().into_string().unwrap()
            })
            .collect();
        found.sort();
        let mut expected = names.clone();
        expected.sort();
        assert!(found == expected, "{} names", found.len());
    }
    mounted.unmount();
}

#[test]
fn many_at_once_do_not_disturb_each_other() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let dir = mounted.path.join(format!("t{thread}"));
            scope.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for i in 0..150 {
                    let file = dir.join(format!("{i}"));
                    let text = format!("{thread} wrote {i}").repeat(i + 1);
                    fs::write(&file, &text).unwrap();
                    assert_eq!(fs::read_to_string(&file).unwrap(), text);
                    // Some are answered from a reactor.
                    if i % 30 == 0 {
                        let error = fs::metadata(dir.join("slow")).unwrap_err();
                        assert_eq!(error.raw_os_error(), Some(libc::ENODATA));
                    }
                }
                assert_eq!(fs::read_dir(&dir).unwrap().count(), 150);
            });
        }
    });
    mounted.unmount();
}

#[test]
fn direct_io_and_shared_mappings() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let file = mounted.path.join("direct");
    let len = 3 << 20;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(&file)
        .unwrap();
    // Twice as long as needed, so that an aligned part is in it.
    let mut memory: Vec<u8> = (0..2 * len).map(|i| (i / 7) as u8).collect();
    let aligned = memory.as_ptr().align_offset(4096);
    let expected = memory[aligned..aligned + len].to_vec();
    opened.write_all_at(&memory[aligned..aligned + len], 0).unwrap();
    memory.fill(0);
    opened.read_exact_at(&mut memory[aligned..aligned + len], 0).unwrap();
    assert!(memory[aligned..aligned + len] == expected);
    drop(opened);

    let opened = OpenOptions::new().read(true).write(true).open(&file).unwrap();
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    // SAFETY: a fresh mapping of `len` bytes of a file that long; it is used within them and
    // unmapped once.
    unsafe {
        let map = mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &opened,
            0,
        );
        let map = map.unwrap();
        assert_eq!(*map.cast::<u8>().add(len - 1), expected[len - 1]);
        map.cast::<u8>().add(5).write(0xEE);
        msync(map, len, MsyncFlags::SYNC).unwrap();
        munmap(map, len).unwrap();
    }
    let mut expected = expected;
    expected[5] = 0xEE;
    assert!(fs::read(&file).unwrap() == expected);
    mounted.unmount();
}

#[test]
fn callers_come_with_all_their_groups() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new(KEEPING);
    let whoami = mounted.path.join("whoami");
    let look = |groups: Vec<u32>| {
        let mut command = Command::new("stat");
        command.arg(&whoami).stderr(Stdio::null()).stdout(Stdio::null());
        let become_user = move || {
            // SAFETY: plain system calls with numbers and an array that lives through the call.
            let results = unsafe {
                [
                    libc::setgroups(groups.len(), groups.as_ptr()),
                    libc::setgid(1001),
                    libc::setuid(1000),
                ]
            };
            if results == [0; 3] { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: between fork and exec only the system calls above are made.
        unsafe { command.pre_exec(become_user) };
        command.status().unwrap();
        mounted.fs.caller.lock().take().expect("it was looked up")
    };
    for groups in [vec![5, 7], (100..900).collect()] {
        let who = look(groups.clone());
        assert_eq!((who.uid, who.gid, who.groups.to_vec()), (1000, 1001, groups));
    }
}

#[test]
fn read_ahead_is_raised() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new(KEEPING);
    let (major, minor) =
        mountinfo::ours_at(&mounted.path.canonicalize().unwrap()).unwrap()[0].device;
    let window =
        fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")).unwrap();
    assert_eq!(window.trim(), "4096");
}

#[test]
fn a_signal_ends_a_lock_wait() {
    if !can_mount() {
        return;
    }
    install_harmless_signal();
    let mounted = Mounted::new(KEEPING);
    fs::write(mounted.path.join("locked"), b"x").unwrap();
    let file = File::open(mounted.path.join("locked")).unwrap();
    let (send, receive) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        send.send(thread_id()).unwrap();
        // SAFETY: flock takes numbers only.
        let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
        (result, std::io::Error::last_os_error())
    });
    let tid = receive.recv().unwrap();
    mounted.wait_for_waiting(1);
    signal_thread(tid);
    let (result, error) = waiter.join().unwrap();
    assert_eq!((result, error.raw_os_error()), (-1, Some(libc::EINTR)));
    assert_eq!(mounted.fs.cancels.load(Ordering::SeqCst), 1);
    mounted.wait_for_waiting(0);
}

#[test]
fn a_harmless_signal_does_not_end_other_requests() {
    if !can_mount() {
        return;
    }
    install_harmless_signal();
    let mounted = Mounted::new(KEEPING);
    let hang = mounted.path.join("hang");
    let (send, receive) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        send.send(thread_id()).unwrap();
        fs::metadata(hang).unwrap_err().raw_os_error()
    });
    let tid = receive.recv().unwrap();
    mounted.wait_for_waiting(1);
    signal_thread(tid);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!waiter.is_finished(), "no EINTR for a signal that has a handler");
    mounted.release();
    assert_eq!(waiter.join().unwrap(), Some(libc::ENODATA));
}

#[test]
fn a_deadly_signal_ends_any_request() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new(KEEPING);
    // Not SIGINT: programs that are started in the background inherit that it is ignored.
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let mut child = Command::new("cat")
            .arg(mounted.path.join("hang"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        mounted.wait_for_waiting(1);
        // SAFETY: kill takes numbers only; the child is ours and not yet waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        let mut status = None;
        eventually("the child ends", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().signal(), Some(signal));
        mounted.wait_for_waiting(0);
    }
}

#[test]
fn a_panic_costs_one_request() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    for _ in 0..5 {
        let error = fs::metadata(mounted.path.join("panic")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
    fs::write(mounted.path.join("after"), b"fine").unwrap();
    mounted.unmount();
}

#[test]
fn unmounting_under_a_waiting_request_ends_it() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let hang = mounted.path.join("hang");
    let waiter = std::thread::spawn(move || fs::metadata(hang).unwrap_err().raw_os_error());
    mounted.wait_for_waiting(1);
    mounted.unmount();
    let errno = waiter.join().unwrap();
    assert!(
        [Some(libc::ENOTCONN), Some(libc::ECONNABORTED), Some(libc::EIO)].contains(&errno),
        "{errno:?}"
    );
}

#[test]
fn unmounting_under_an_open_file_cuts_it_off() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let file = File::create(mounted.path.join("open")).unwrap();
    mounted.unmount();
    let error = file.write_all_at(b"x", 0).unwrap_err();
    assert!([Some(libc::ENOTCONN), Some(libc::EIO)].contains(&error.raw_os_error()), "{error}");
}

#[test]
fn someone_else_unmounts() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(KEEPING);
    let ended = mounted.session().ended();
    rustix::mount::unmount(&mounted.path, rustix::mount::UnmountFlags::empty()).unwrap();
    mounted
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), ended).await })
        .expect("the session notices");
    mounted.unmount();
}

#[test]
fn the_kernel_forgets_what_it_is_told_to() {
    if !can_mount() {
        return;
    }
    let mut mounted = Mounted::new(TRUSTING);
    let file = mounted.path.join("f");
    fs::write(&file, b"one").unwrap();
    let node = fs::metadata(&file).unwrap().ino();
    let notifier = mounted.session().notifier().unwrap();
    let lookups = || mounted.fs.lookups.load(Ordering::SeqCst);
    let tell = |what| mounted.block_on(notifier.tell(what));
    let name = Name::new(b"f").unwrap();

    let before = lookups();
    fs::metadata(&file).unwrap();
    assert_eq!(lookups(), before, "the kernel trusts what it has");
    let named = [
        Notification::InvalEntry { parent: 1, name: name.clone() },
        Notification::ExpireEntry { parent: 1, name: name.clone() },
        Notification::IncEpoch,
        Notification::Prune { nodes: vec![node] },
    ];
    for what in named {
        if what == Notification::IncEpoch && !mounted.session().agreed().has_minor(44)
            || matches!(what, Notification::Prune { .. })
                && !mounted.session().agreed().has_minor(45)
        {
            println!("this kernel does not know {what:?}");
            continue;
        }
        let before = lookups();
        assert!(tell(what.clone()).is_ok(), "{what:?}");
        fs::metadata(&file).unwrap();
        assert_eq!(lookups(), before + 1, "{what:?}");
    }

    let opened = File::open(&file).unwrap();
    let mut bytes = [0; 3];
    opened.read_exact_at(&mut bytes, 0).unwrap();
    let stored = Notification::Store { node, offset: 0, data: bytes::Bytes::from_static(b"two") };
    assert_eq!(tell(stored), Ok(true));
    let reads = mounted.fs.reads.load(Ordering::SeqCst);
    opened.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(
        (&bytes, mounted.fs.reads.load(Ordering::SeqCst)),
        (b"two", reads),
        "from the page cache"
    );
    assert_eq!(tell(Notification::InvalInode { node, offset: 0, len: 0 }), Ok(true));
    opened.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(
        (&bytes, mounted.fs.reads.load(Ordering::SeqCst)),
        (b"one", reads + 1),
        "asked again"
    );
    assert_eq!(tell(Notification::InvalInode { node, offset: -1, len: 0 }), Ok(true));
    assert_eq!(tell(Notification::Delete { parent: 1, child: node, name }), Ok(true));
    let unknown = Notification::InvalInode { node: 999_999, offset: -1, len: 0 };
    assert_eq!(tell(unknown), Ok(false), "nothing to forget is success");
    drop(opened);
    mounted.unmount();
    let tell = mounted.block_on(notifier.tell(Notification::IncEpoch));
    assert_eq!(tell, Err(Errno::ENODEV));
}

/// The daemon, in a process of its own, is this test started once more with `FUSE_TEST_DAEMON_AT`.
#[test]
fn a_daemon_that_is_told_to_end_unmounts() {
    if let Some(path) = std::env::var_os("FUSE_TEST_DAEMON_AT") {
        return daemon(path.as_ref());
    }
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mnt");
    fs::create_dir(&path).unwrap();
    let mut process = start_daemon(&path);
    fs::write(path.join("f"), b"x").unwrap();
    drop(process.stdin.take());
    let status = process.wait().unwrap();
    let left = is_mounted(&path);
    lazy_umount(&path);
    assert!(status.success() && !left, "{status}");
}

fn daemon(path: &Path) {
    let (env, _guard) = env::real::RealEnv::start(env::real::RealConfig::default()).unwrap();
    let fs = std::sync::Arc::new(fuse::null::NullFs::new(env.clone(), KEEPING));
    let options = fuse::mount::MountOptions::default();
    let session =
        fuse::session::Session::mount(&env, fs, Default::default(), path, &options).unwrap();
    println!("\nMOUNTED");
    // Until the parent says so, or dies.
    assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 0);
    session.unmount().unwrap();
}

fn start_daemon(path: &Path) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_daemon_that_is_told_to_end_unmounts", "--nocapture"])
        .env("FUSE_TEST_DAEMON_AT", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "MOUNTED"));
    process
}

#[test]
fn a_killed_daemon_leaves_a_mount_that_can_be_cleared() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mnt");
    fs::create_dir(&path).unwrap();
    let (env, _guard) = env::real::RealEnv::start(env::real::RealConfig::default()).unwrap();
    assert_eq!(clear_stale_mount(&*env.tasks, &path).unwrap(), 0);

    let mut daemon = start_daemon(&path);
    fs::write(path.join("f"), b"x").unwrap();
    let alive = clear_stale_mount(&*env.tasks, &path);
    let open = File::open(path.join("f"));

    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let dead = fs::metadata(&path);
    let cleared = clear_stale_mount(&*env.tasks, &path);
    lazy_umount(&path);

    assert!(matches!(alive, Err(MountError::Alive { .. })), "a live one is left alone: {alive:?}");
    assert_eq!(dead.unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    assert_eq!(cleared.unwrap(), 1);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "the directory below is there again");
    drop(open);
}
