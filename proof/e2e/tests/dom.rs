//! Small files on the MDT: their bytes are right wherever the component ends, and they need no OST.
//! They survive a crash as far as they were synced, and move to OSTs and back.

use e2e::cluster::{Cluster, everywhere};
use e2e::lustre::{lctl, lfs, lfs_refuses, soon};
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const END: u64 = 65536;

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// New files in this folder have their first 64 KiB on the MDT.
fn small_ones(mnt: &Path, dir: &str) {
    fs::create_dir_all(mnt.join(dir)).expect("a folder");
    lfs(mnt, &["setstripe", "-E", "64K", "-L", "mdt", "-E", "-1", "-c", "2", "-S", "64K", dir]);
}

/// The checker finds nothing. Where each role has a host, the folder is no home of a node that
/// could be asked.
fn is_whole(cluster: &Cluster) {
    if cluster.dir().join("client0.log").exists() {
        return;
    }
    let checked = cluster.command(&["fsck"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

/// Files that are made one after the other.
const FILES: u64 = 200;

/// Requests of a mount so far.
fn requests(mount: &Path) -> u64 {
    count_of(mount, " requests")
}

/// The count of this name.
fn count_of(mount: &Path, name: &str) -> u64 {
    let mut value = vec![0u8; 65536];
    let len = rustix::fs::getxattr(mount, c"lustre.stats", &mut value).expect("getxattr");
    let stats = String::from_utf8_lossy(&value[..len]).into_owned();
    let line = stats.lines().find(|line| line.ends_with(name)).expect("requests are counted");
    line.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

#[test]
fn layouts_with_a_part_on_the_mdt() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let mnt = cluster.mount();
    small_ones(&mnt, "d");
    fs::write(mnt.join("d/f"), bytes(10_000, 1)).expect("write");
    let shown = lfs(&mnt, &["getstripe", "d/f"]);
    let lines: Vec<&str> = shown.lines().map(str::trim).collect();
    for line in [
        "lcm_entry_count:   2",
        "lcme_extent.e_end:   65536",
        "lmm_pattern:       mdt",
        "lmm_mdt_index:     0",
        "lcme_extent.e_start: 65536",
        "lmm_pattern:       raid0",
    ] {
        assert!(lines.contains(&line), "{line:?} in\n{shown}");
    }
    // The second component has no objects before it is written.
    assert_eq!(shown.matches("lcme_flags:          init").count(), 1, "{shown}");
    assert_eq!(lfs(&mnt, &["find", "d", "-layout", "mdt", "-type", "f"]), "d/f\n");
    lfs(&mnt, &["setstripe", "-c", "1", "plain"]);
    fs::write(mnt.join("plain"), b"elsewhere").expect("write");
    assert_eq!(lfs(&mnt, &["find", ".", "-layout", "mdt", "-type", "f"]), "./d/f\n");
    // So has a file of the default layout, unless the administrator does not want it.
    let starts = || lfs(&mnt, &["getstripe", "--component-end", "-I1", "new"]);
    fs::write(mnt.join("new"), b"small").expect("write");
    assert_eq!(starts(), "65536\n");
    lctl(&cluster, &["set_param", "lod.*.dom_default=0"]);
    fs::remove_file(mnt.join("new")).expect("remove");
    fs::write(mnt.join("new"), b"small").expect("write");
    assert_eq!(starts(), "EOF\n");
    lctl(&cluster, &["set_param", "lod.*.dom_default=128K"]);
    fs::remove_file(mnt.join("new")).expect("remove");
    fs::write(mnt.join("new"), b"small").expect("write");
    assert_eq!(starts(), "131072\n");
    lfs(&mnt, &["setstripe", "-E", "1M", "-L", "mdt", "large"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-L", "large"]), "mdt\n");
    let file = File::create(mnt.join("large")).expect("open");
    file.write_all_at(&bytes(1 << 20, 2), 0).expect("a whole component");
    // Space is counted when it is taken.
    file.sync_all().expect("fsync");
    assert_eq!(file.metadata().expect("stat").blocks(), 2048);
    assert!(file.write_all_at(b"x", 1 << 20).is_err(), "no component is there");
    drop(file);

    // The administrator's limit.
    let too_large = "error: setstripe: can't set layout of 'x': Invalid argument (22); the MDT takes less of a file than that; lctl get_param lod.*.dom_stripesize\n";
    let get = |name: &str| {
        lctl(&cluster, &["get_param", "-n", &format!("lod.*.{name}")]).trim().to_owned()
    };
    assert_eq!(
        [get("dom_stripesize"), get("dom_stripesize_max_kb"), get("dom_stripesize_cur_kb")],
        ["1048576", "1024", "1024"]
    );
    lctl(&cluster, &["set_param", "lod.*.dom_stripesize=128K"]);
    assert_eq!(
        (get("dom_stripesize_max_kb"), get("dom_stripesize_cur_kb")),
        ("128".into(), "128".into())
    );
    lfs_refuses(&mnt, &["setstripe", "-E", "192K", "-L", "mdt", "-E", "-1", "x"], 22, too_large);
    // Short of space: what is there stays, what is new goes to OSTs.
    let threshold = get("dom_threshold_free_mb");
    assert!(threshold.parse::<u64>().expect("a number") > 0);
    lctl(&cluster, &["set_param", "lod.*.dom_threshold_free_mb=1000000000"]);
    assert_eq!(get("dom_stripesize_cur_kb"), "0");
    fs::write(mnt.join("d/later"), bytes(10_000, 3)).expect("write");
    assert_eq!(lfs(&mnt, &["find", "d", "-layout", "mdt", "-type", "f"]), "d/f\n");
    assert!(fs::read(mnt.join("d/f")).expect("read") == bytes(10_000, 1));
    assert!(fs::read(mnt.join("d/later")).expect("read") == bytes(10_000, 3));
    lctl(&cluster, &["set_param", &format!("lod.*.dom_threshold_free_mb={threshold}")]);
    fs::write(mnt.join("d/again"), b"small").expect("write");
    assert_eq!(lfs(&mnt, &["find", "d", "-layout", "mdt", "-name", "again"]), "d/again\n");
    is_whole(&cluster);
}

#[test]
fn contents_across_the_end_of_the_component() {
    if !e2e::can_mount() {
        return;
    }
    let two_hosts = Cluster::with_clients("1", &["", ""]);
    for cluster in [Cluster::up(&["--osts", "2"])].into_iter().chain(two_hosts) {
        let mounts = cluster.mounts();
        let (mnt, other) = (mounts[0].clone(), mounts[mounts.len() - 1].clone());
        small_ones(&mnt, "d");
        let (path, there) = (mnt.join("d/f"), other.join("d/f"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .expect("open");
        let mut plain = Vec::new();
        let same = |plain: &[u8], what: &str| {
            assert!(fs::read(&path).expect("read") == plain, "{what}: here");
            assert!(fs::read(&there).expect("read") == plain, "{what}: there");
            let (here, there) =
                (fs::metadata(&path).expect("stat"), fs::metadata(&there).expect("stat"));
            assert_eq!((here.len(), here.blocks()), (plain.len() as u64, there.blocks()), "{what}");
        };
        let put = |plain: &mut Vec<u8>, data: &[u8], at: u64| {
            file.write_all_at(data, at).expect("write");
            plain.resize(plain.len().max(at as usize + data.len()), 0);
            plain[at as usize..][..data.len()].copy_from_slice(data);
        };
        put(&mut plain, &bytes(1000, 1), 100);
        same(&plain, "a hole, and some bytes");
        put(&mut plain, &bytes(40_000, 2), END - 20_000);
        same(&plain, "across the end");
        put(&mut plain, &bytes(200_000, 3), 0);
        same(&plain, "overwritten by one write");
        for size in [END + 10, END, END - 10, 20_000, 90_000, 5, 0] {
            file.set_len(size).expect("truncate");
            plain.resize(size as usize, 0);
            same(&plain, &format!("cut or grown to {size}"));
        }
        put(&mut plain, &bytes(9000, 4), 0);
        let mut append = OpenOptions::new().append(true).open(&there).expect("open");
        for n in 0..12 {
            let data = bytes(7000, n);
            append.write_all(&data).expect("append");
            plain.extend_from_slice(&data);
        }
        same(&plain, "appended there");
        // Mapped pages on both sides of the end.
        let script = "import mmap\nf=open('d/f','r+b')\nm=mmap.mmap(f.fileno(),0)\nm[65530:65542]=b'over the end'\nm.flush()\n";
        if e2e::need_program("python3").is_some() {
            sh(&mnt, &format!("python3 -c \"{script}\""));
            plain[65530..65542].copy_from_slice(b"over the end");
            same(&plain, "mapped");
        }
        drop((file, append));
        sh(&mnt, "rm -r d");
        is_whole(&cluster);
    }
}

#[test]
fn holes_and_space() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let mnt = cluster.mount();
    small_ones(&mnt, "d");
    let path = mnt.join("d/f");
    fs::write(&path, bytes(100_000, 1)).expect("write");
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("open");
    file.sync_all().expect("fsync");
    let full = file.metadata().expect("stat").blocks();
    use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 16_384, 65_536)
        .expect("punch");
    let mut plain = bytes(100_000, 1);
    plain[16_384..81_920].fill(0);
    assert!(fs::read(&path).expect("read") == plain);
    assert!(file.metadata().expect("stat").blocks() + 96 <= full, "the hole takes no space");
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(16_384));
    let data = seek(&file, SeekFrom::Data(16_384)).expect("data behind the hole");
    assert!((END..=81_920).contains(&data), "{data}");
    assert_eq!(seek(&file, SeekFrom::Hole(data)), Ok(100_000));
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 200_000).expect("allocate");
    assert_eq!(file.metadata().expect("stat").len(), 100_000);
    assert!(fs::read(&path).expect("read") == plain);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 60_000, 60_000).expect("zeros");
    plain.resize(120_000, 0);
    plain[60_000..].fill(0);
    assert!(fs::read(&path).expect("read") == plain);
    sh(
        &mnt,
        "cp --sparse=always d/f d/copy; cmp d/f d/copy; cp --reflink=never d/f d/again; cmp d/f d/again",
    );
    is_whole(&cluster);
}

#[test]
fn files_move_between_mdt_and_osts() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        let content = bytes(150_000, 1);
        small_ones(&mnt, "d");
        fs::write(mnt.join("d/f"), &content).expect("write");
        lfs(&mnt, &["migrate", "-c", "1", "d/f"]);
        assert_eq!(lfs(&mnt, &["getstripe", "-L", "d/f"]), "raid0\n");
        assert!(fs::read(mnt.join("d/f")).expect("read") == content);
        lfs(&mnt, &["migrate", "-E", "128K", "-L", "mdt", "-E", "-1", "-c", "1", "d/f"]);
        assert_eq!(lfs(&mnt, &["find", "d", "-layout", "mdt", "-type", "f"]), "d/f\n");
        assert!(fs::read(mnt.join("d/f")).expect("read") == content);
        fs::write(mnt.join("plain"), b"other bytes").expect("write");
        lfs(&mnt, &["swap_layouts", "d/f", "plain"]);
        assert!(fs::read(mnt.join("plain")).expect("read") == content);
        assert_eq!(fs::read(mnt.join("d/f")).expect("read"), b"other bytes");
        OpenOptions::new()
            .append(true)
            .open(mnt.join("plain"))
            .and_then(|mut f| f.write_all(b"more"))
            .expect("append");
        is_whole(cluster);
        fs::remove_file(mnt.join("d/f")).expect("remove");
        assert!(fs::read(mnt.join("plain")).expect("read") == [&content[..], b"more"].concat());
        is_whole(cluster);
        fs::remove_file(mnt.join("plain")).expect("remove");
        is_whole(cluster);
    });
}

#[test]
fn small_files_need_no_ost() {
    let Some(mut cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let mnt = cluster.mount();
    small_ones(&mnt, "d");
    let many = cluster.many_mut();
    let osts: Vec<usize> =
        (0..many.server_count()).filter(|at| many.server_name(*at).contains("oss")).collect();
    assert!(!osts.is_empty());
    osts.iter().for_each(|at| many.kill_server(*at));
    let begun = std::time::Instant::now();
    for n in 0..20 {
        let (path, content) = (mnt.join(format!("d/f{n}")), bytes(3000 * n, n as u64));
        let mut file = File::create(&path).expect("create");
        file.write_all(&content).expect("write");
        file.sync_all().expect("fsync");
        drop(file);
        assert!(fs::read(&path).expect("read") == content);
        assert_eq!(fs::metadata(&path).expect("stat").len(), 3000 * n as u64);
    }
    // Every other client, without anything cached, and without any OST.
    let other = cluster.mounts().pop().expect("a mount");
    for n in 0..20 {
        assert!(
            fs::read(other.join(format!("d/f{n}"))).expect("read") == bytes(3000 * n, n as u64)
        );
    }
    fs::OpenOptions::new()
        .write(true)
        .open(mnt.join("d/f3"))
        .and_then(|f| f.set_len(100))
        .expect("truncate");
    assert!(fs::read(other.join("d/f3")).expect("read") == bytes(9000, 3)[..100]);
    fs::remove_dir_all(mnt.join("d")).expect("remove");
    let took = begun.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}: somebody waited for an OST");
    osts.iter().for_each(|at| cluster.many_mut().start_server_again(*at));
}

#[test]
fn what_fsync_answered_for_survives_a_kill() {
    everywhere(|cluster| {
        small_ones(&cluster.mount(), "d");
        let content = |n: usize| bytes(1 + n * 1700, n as u64);
        for n in 0..60 {
            let mut file = File::create(cluster.mount().join(format!("d/f{n}"))).expect("create");
            file.write_all(&content(n)).expect("write");
            file.sync_all().expect("fsync");
        }
        File::open(cluster.mount().join("d")).and_then(|dir| dir.sync_all()).expect("fsync");
        cluster.kill();
        // The dead mount; a mount that is gone by itself is as good.
        let _ = std::process::Command::new("umount").arg("-l").arg(cluster.mount()).status();
        cluster.start();
        for n in 0..60 {
            assert!(
                fs::read(cluster.mount().join(format!("d/f{n}"))).expect("read") == content(n),
                "file {n}"
            );
        }
        soon(&true, || try_sh(&cluster.mount(), "rm -r d").status.success());
        is_whole(cluster);
    });
}

/// The MDS dies and comes back while the client lives: what was answered, and not yet durable, is
/// brought back.
#[test]
fn a_restarted_mds_gets_what_it_had_answered() {
    let Some(mut cluster) = Cluster::on_hosts("1") else { return };
    let mnt = cluster.mount();
    small_ones(&mnt, "d");
    let many = cluster.many_mut();
    let mds =
        (0..many.server_count()).find(|at| many.server_name(*at).contains("md")).expect("an MDS");
    for round in 0..5usize {
        let content = |n: usize| bytes(n * 2500 + round, (n + round) as u64);
        for n in 0..25 {
            fs::write(mnt.join(format!("d/f{round}-{n}")), content(n)).expect("write");
        }
        cluster.many_mut().kill_server(mds);
        cluster.many_mut().start_server_again(mds);
        for n in 0..25 {
            let found = fs::read(mnt.join(format!("d/f{round}-{n}"))).expect("read");
            assert!(found == content(n), "round {round}, file {n}: {} bytes", found.len());
        }
    }
    is_whole(&cluster);
}

/// Cost of the stages of a small file's life, in requests; each is reported in the background at
/// the end. Bytes that came with an open are those of that moment; others change them after it.
#[test]
fn what_came_with_an_open_is_not_shown_when_it_is_old() {
    if !e2e::can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let mounts = cluster.mounts();
    let (mnt, other) = (&mounts[0], &mounts[1]);
    small_ones(mnt, "d");
    for round in 0..20 {
        let (path, there) = (mnt.join(format!("d/f{round}")), other.join(format!("d/f{round}")));
        fs::write(&path, bytes(8192, round)).expect("write");
        let reader = File::open(&there).expect("open");
        let mut found = vec![0; 8192];
        // Half of them are read before, so that the locks are those of a reader.
        if round % 2 == 0 {
            reader.read_exact_at(&mut found[..100], 0).expect("read");
        }
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|f| f.write_all_at(b"changed", 4000))
            .expect("write");
        reader.read_exact_at(&mut found, 0).expect("read");
        let mut expected = bytes(8192, round);
        expected[4000..4007].copy_from_slice(b"changed");
        assert!(found == expected, "round {round}");
        fs::write(&there, b"short").expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"short");
    }
}

#[test]
fn round_trips() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2", "--dom-size", "0"]);
    let mnt = cluster.mount();
    small_ones(&mnt, "d");
    fs::create_dir(mnt.join("plain")).expect("a folder");
    let costs = |dir: &str| {
        let path = mnt.join(dir).join("f");
        let count = |work: &mut dyn FnMut()| {
            let before = requests(&mnt);
            work();
            requests(&mnt) - before
        };
        let content = bytes(32 << 10, 1);
        // The folder is known, and so is that the name is not there.
        fs::write(mnt.join(dir).join("before"), b"").expect("write");
        assert!(fs::metadata(&path).is_err());
        let mut made = None;
        let create = count(&mut || made = Some(File::create(&path).expect("create")));
        let mut file = made.expect("made");
        // With the first one the kernel asks for its attribute of capabilities.
        file.write_all(&content[..4096]).expect("write");
        std::thread::sleep(std::time::Duration::from_millis(300));
        let write = count(&mut || file.write_all(&content[4096..]).expect("write"));
        let fsync = count(&mut || file.sync_all().expect("fsync"));
        drop(file);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let stat = count(&mut || assert_eq!(fs::metadata(&path).expect("stat").len(), 32 << 10));
        let mut opened = None;
        let open = count(&mut || opened = Some(File::open(&path).expect("open")));
        let file = opened.expect("opened");
        let mut found = vec![0; 32 << 10];
        let read = count(&mut || file.read_exact_at(&mut found, 0).expect("read"));
        assert!(found == content);
        eprintln!(
            "{dir}: create {create}, write {write}, fsync {fsync}, stat {stat}, open {open}, read {read}"
        );
        [create, write, fsync, stat, open, read]
    };
    let (small, plain) = (costs("d"), costs("plain"));
    assert!(
        small[0] <= 1 && small[1] == 0 && small[2] <= 1 && small[3] <= 1,
        "create, write, fsync, stat: {small:?}"
    );
    // The bytes came with the open, and are read again and again.
    assert!(small[4] <= 1 && small[5] == 0, "open and read: {small:?}");
    assert!(small.iter().sum::<u64>() < plain.iter().sum(), "{small:?} against {plain:?}");
    // Many files, each made, written and closed: what a program waits for, and all.
    let waits = || [" requests", " awaited"].map(|name| count_of(&mnt, name));
    let many = |dir: &str| {
        let before = waits();
        for n in 0..FILES {
            fs::write(mnt.join(format!("{dir}/many{n}")), bytes(8192, n)).expect("write");
        }
        // Dirty data goes out within a second, and the closes behind it.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let after = waits();
        let [all, awaited] = [after[0] - before[0], after[1] - before[1]];
        eprintln!("{dir}: {FILES} files of 8 KiB: {all} requests, {awaited} waited for");
        (all, awaited)
    };
    let (small, plain) = (many("d"), many("plain"));
    assert!(small.0 <= plain.0 && small.1 <= plain.1, "{small:?} against {plain:?}");
    // One for each create, and some for what the folder and grants need.
    assert!(small.1 <= FILES + FILES / 10, "{} waits", small.1);
}
