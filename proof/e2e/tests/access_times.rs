//! Access times follow reads as `relatime` says: on the reader's own mount at once, on others a
//! moment later.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::lustre::{lctl, soon};
use e2e::programs::sh;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Time = (i64, i64);

fn atime(path: &Path) -> Time {
    let meta = fs::symlink_metadata(path).expect("stat");
    (meta.atime(), meta.atime_nsec())
}

fn mtime(path: &Path) -> Time {
    let meta = fs::symlink_metadata(path).expect("stat");
    (meta.mtime(), meta.mtime_nsec())
}

fn ctime(path: &Path) -> Time {
    let meta = fs::symlink_metadata(path).expect("stat");
    (meta.ctime(), meta.ctime_nsec())
}

/// Longer than the grain of times of writes.
fn a_moment() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Longer than a mount collects accesses before it reports them. What has not changed by then does
/// not change.
fn until_told() {
    std::thread::sleep(Duration::from_millis(1500));
}

fn read_file(path: &Path) {
    a_moment();
    fs::read(path).expect("read");
}

fn on_each(cluster: &Cluster, name: &str) -> Vec<PathBuf> {
    cluster.mounts().iter().map(|mount| mount.join(name)).collect()
}

/// How often the MDT was told attributes or accesses so far.
fn told(cluster: &Cluster) -> u64 {
    let stats = lctl(cluster, &["get_param", "-n", "mdt.sheen-MDT0000.md_stats"]);
    let line = stats.lines().find(|line| line.starts_with("setattr "));
    line.map_or(0, |line| {
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    })
}

/// A file that was not read since it was written, as every mount sees it.
fn assert_unread(on: &[PathBuf]) {
    for path in on {
        assert!(atime(path) <= mtime(path), "{}", path.display());
    }
}

#[test]
fn a_read_after_a_change_changes_the_access_time() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", "", "localflock"]) else { return };
    let on = on_each(&cluster, "f");
    for reader in 0..on.len() {
        for writer in 0..on.len() {
            let what = format!("mount {writer} writes, mount {reader} reads");
            // Of less than a page nothing stays in the writer's page cache.
            fs::write(&on[writer], "content").expect("write");
            let (before, changed) = (atime(&on[reader]), (mtime(&on[reader]), ctime(&on[reader])));
            assert_unread(&on);
            a_moment();
            let untold = told(&cluster);
            let mut file = File::open(&on[reader]).expect("open");
            file.read_to_end(&mut Vec::new()).expect("read");
            // While it is open, the reader's own mount shows it.
            let read = atime(&on[reader]);
            assert!(read > before && read > changed.0, "{what}: {before:?}, then {read:?}");
            on.iter().for_each(|path| soon(&read, || atime(path)));
            assert!(told(&cluster) > untold, "{what}");
            on.iter().for_each(|path| {
                assert_eq!((mtime(path), ctime(path)), changed, "{what}: nothing else changes")
            });
            drop(file);

            // Not again before the next change, on no mount, and at no cost.
            on.iter().for_each(|path| read_file(path));
            until_told();
            let before = told(&cluster);
            (0..10).for_each(|_| on.iter().for_each(|path| read_file(path)));
            until_told();
            on.iter().for_each(|path| assert_eq!(atime(path), read, "{what}"));
            assert_eq!(told(&cluster), before, "{what}: reads again, and tells nothing");
        }
    }
}

#[test]
fn reads_of_pages_that_the_kernel_has_count() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let on = on_each(&cluster, "f");
    // The kernel keeps whole pages that are written, and reads them without a request.
    for _ in 0..3 {
        fs::write(&on[0], vec![7; 1 << 20]).expect("write");
        assert_unread(&on);
        read_file(&on[0]);
        let read = atime(&on[0]);
        assert!(read > mtime(&on[0]));
        soon(&read, || atime(&on[1]));
    }
}

#[test]
fn an_old_access_time_is_renewed_and_one_that_a_program_sets_stays() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let (dir, on) = (cluster.mounts(), on_each(&cluster, "f"));
    fs::write(&on[0], "content").expect("write");
    read_file(&on[0]);
    until_told();
    // Older than its ctime.
    sh(&dir[0], "touch -a -d '2 days ago' f; touch -m -d '3 days ago' f");
    let old = atime(&on[0]);
    read_file(&on[1]);
    let after = atime(&on[1]);
    assert!(after > old);
    soon(&after, || atime(&on[0]));

    // What a program sets counts, also if the file was read a moment before.
    for setter in [0, 1] {
        fs::write(&on[1], "changed").expect("write");
        read_file(&on[1]);
        sh(&dir[setter], "touch -a -d @1000 f");
        on.iter().for_each(|path| assert_eq!(atime(path).0, 1000));
        until_told();
        on.iter().for_each(|path| assert_eq!(atime(path).0, 1000, "mount {setter} set it"));
    }
}

#[test]
fn reads_that_are_to_leave_no_trace_leave_none() {
    if !can_mount() {
        return;
    }
    let clients = ["", "noatime", "ro", "localflock"];
    let Some(cluster) = Cluster::with_clients("1", &clients) else { return };
    let dir = cluster.mounts();
    sh(
        &dir[0],
        "mkdir d; touch d/a; ln -s a l; for n in f flagged quiet; do echo $n > $n; done; chattr +A flagged",
    );
    let unchanged = |names: &[&str]| -> Vec<Vec<Time>> {
        names
            .iter()
            .map(|name| on_each(&cluster, name).iter().map(|path| atime(path)).collect())
            .collect()
    };
    let names = ["f", "flagged", "quiet", "d", "l"];
    let before = unchanged(&names);
    a_moment();
    for mount in [1, 2] {
        sh(&dir[mount], "cat f quiet; ls d; readlink l");
    }
    for mount in &dir {
        fs::read(mount.join("flagged")).expect("read");
    }
    for mount in [0, 3] {
        for name in ["quiet", "d"] {
            let flags = OFlags::RDONLY | OFlags::NOATIME;
            let opened =
                rustix::fs::open(dir[mount].join(name), flags, Mode::empty()).expect("open");
            if name == "d" {
                assert!(rustix::fs::Dir::read_from(&opened).expect("list").count() > 2);
            } else {
                let mut content = [0; 16];
                assert_eq!(rustix::io::read(&opened, &mut content).expect("read"), 6);
            }
        }
    }
    assert_eq!(unchanged(&names), before);
    until_told();
    assert_eq!(unchanged(&names), before);
    // The flag is taken off.
    sh(&dir[0], "chattr -A flagged");
    let flagged = on_each(&cluster, "flagged");
    read_file(&flagged[0]);
    let read = atime(&flagged[0]);
    assert!(read > before[1][0]);
    flagged.iter().for_each(|path| soon(&read, || atime(path)));
}

#[test]
fn directories_and_symbolic_links_have_access_times_too() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", "localflock", "nodiratime"]) else {
        return;
    };
    let (dir, on, link) = (cluster.mounts(), on_each(&cluster, "d"), on_each(&cluster, "l"));
    sh(&dir[0], "mkdir d; touch d/a d/b; ln -s nowhere l");
    let made = atime(&on[0]);
    a_moment();
    assert_eq!(fs::read_dir(&on[2]).expect("list").count(), 2);
    until_told();
    on.iter().for_each(|path| assert_eq!(atime(path), made, "nodiratime"));
    for (names, lister) in (2..).zip([1, 0, 1]) {
        let before = atime(&on[lister]);
        a_moment();
        assert_eq!(fs::read_dir(&on[lister]).expect("list").count(), names);
        let listed = atime(&on[lister]);
        assert!(listed > before, "mount {lister}");
        on.iter().for_each(|path| soon(&listed, || atime(path)));
        a_moment();
        on.iter().for_each(|path| assert_eq!(fs::read_dir(path).expect("list").count(), names));
        until_told();
        on.iter().for_each(|path| assert_eq!(atime(path), listed, "listed again"));
        fs::write(on[0].join(format!("more{names}")), "").expect("write");
    }

    let made = atime(&link[1]);
    a_moment();
    fs::read_link(&link[1]).expect("readlink");
    let read = atime(&link[1]);
    assert!(read > made);
    link.iter().for_each(|path| soon(&read, || atime(path)));
}

#[test]
fn strictatime_counts_each_read_that_reaches_the_mount() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["strictatime", ""]) else { return };
    let on = on_each(&cluster, "f");
    fs::write(&on[0], "content").expect("write");
    let mut last = atime(&on[0]);
    for _ in 0..3 {
        read_file(&on[0]);
        let read = atime(&on[0]);
        assert!(read > last, "{read:?}, before {last:?}");
        soon(&read, || atime(&on[1]));
        last = read;
    }
}

#[test]
fn an_access_is_recorded_before_a_mount_ends() {
    if !can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let (dir, on) = (cluster.mounts(), on_each(&cluster, "f"));
    fs::write(&on[0], "content").expect("write");
    read_file(&on[1]);
    let read = atime(&on[1]);
    assert!(read > mtime(&on[0]));
    sh(&cluster.outside(), &format!("umount {}", dir[1].display()));
    soon(&read, || atime(&on[0]));
}
