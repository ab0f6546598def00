//! Clients that fall silent: one hangs, one is cut off, one is killed. Others wait for none of them
//! longer than its lease, and those that come back never show what was before.

use e2e::can_mount;
use e2e::cluster::Cluster;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A client that is not heard of for this long is evicted (`types::limits::LEASE`), and the
/// server's own rhythm.
const LEASE_AND_MORE: Duration = Duration::from_secs(30 + 10);
/// Operations that need no silent client's locks take no longer than this, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(5);
const OLD: u32 = 0o644;
const NEW: u32 = 0o600;

fn mode(path: &Path) -> std::io::Result<u32> {
    Ok(fs::metadata(path)?.mode() & 0o777)
}

/// Changes the mode of `dir/f` and adds `dir/new`; how long it took.
fn change(dir: &Path) -> Duration {
    let began = Instant::now();
    fs::set_permissions(dir.join("f"), Permissions::from_mode(NEW)).expect("chmod");
    File::create(dir.join("new")).expect("create");
    began.elapsed()
}

/// Every look that begins after the change shows the new state, however long it must wait for it.
/// How many did.
fn looks(dir: &Path, changed: &AtomicBool, ended: &AtomicBool) -> u32 {
    let mut new = 0;
    while !ended.load(Ordering::Relaxed) {
        let after = changed.load(Ordering::SeqCst);
        match mode(&dir.join("f")) {
            Ok(NEW) => new += 1,
            Ok(OLD) => assert!(!after, "{}: the old mode, begun after the change", dir.display()),
            Ok(other) => panic!("mode {other:o}"),
            // While it is cut off: no server can answer it.
            Err(_) => {}
        }
        let after = changed.load(Ordering::SeqCst);
        let missing = fs::metadata(dir.join("new"))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        assert!(
            !(after && missing),
            "{}: no new name, looked for after it was made",
            dir.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    new
}

#[test]
fn silent_clients_delay_others_by_their_lease_at_most_and_never_show_what_was() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", "", "", ""]) else { return };
    let (mounts, many) = (cluster.mounts(), cluster.many());
    let (healthy, dirs) = (&mounts[3], ["hangs", "cut", "killed", "unheld"]);
    for dir in dirs {
        fs::create_dir(healthy.join(dir)).expect("mkdir");
        fs::write(healthy.join(dir).join("f"), "x").expect("write");
    }
    // Each of the three holds what covers its own directory: modes and absent names, in its kernel,
    // too.
    for (mount, dir) in mounts.iter().zip(dirs).take(3) {
        for _ in 0..3 {
            assert_eq!(mode(&mount.join(dir).join("f")).expect("stat"), OLD);
            assert!(!mount.join(dir).join("new").exists());
        }
    }
    let killed_pid = many.client_pid(2);
    many.suspend_client(0);
    many.cut_client(1);
    e2e::process::kill_and_wait(killed_pid);
    let (changed, ended) = ([const { AtomicBool::new(false) }; 2], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let lookers: Vec<_> = (0..2)
            .map(|n| {
                let (dir, changed, ended) = (mounts[n].join(dirs[n]), &changed[n], &ended);
                scope.spawn(move || looks(&dir, changed, ended))
            })
            .collect();
        let changers: Vec<_> = (0..3)
            .map(|n| {
                let (dir, changed) = (healthy.join(dirs[n]), changed.get(n));
                scope.spawn(move || {
                    let took = change(&dir);
                    changed.inspect(|changed| changed.store(true, Ordering::SeqCst));
                    took
                })
            })
            .collect();
        let unheld = change(&healthy.join("unheld"));
        assert!(unheld < AT_ONCE, "what nobody silent holds took {unheld:?}");
        for (dir, changer) in dirs.iter().zip(changers) {
            let took = changer.join().expect("a changer panicked");
            assert!(took < LEASE_AND_MORE, "{dir}: the change took {took:?}");
            eprintln!("{dir}: the change took {took:?}");
        }
        // Looks go on while the two are away, while they come back, and afterwards.
        std::thread::sleep(Duration::from_secs(1));
        many.resume_client(0);
        many.heal_client(1);
        let deadline = Instant::now() + LEASE_AND_MORE;
        for n in 0..2 {
            while mode(&mounts[n].join(dirs[n]).join("f")).ok() != Some(NEW) {
                assert!(
                    Instant::now() < deadline,
                    "client {n} does not come back\n{}",
                    cluster.log()
                );
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        ended.store(true, Ordering::Relaxed);
        for looker in lookers {
            looker.join().expect("a looker saw something old");
        }
    });
    // Both work again, and are seen.
    for n in 0..2 {
        fs::write(mounts[n].join(dirs[n]).join("again"), "it works").expect("write");
        assert!(healthy.join(dirs[n]).join("again").exists());
    }
    many.detach_client(2);
}
