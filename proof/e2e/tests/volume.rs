//! Data of OSTs on volumes: fsx, kill -9 of servers and of everything, flipped bits, a full device,
//! and devices that hold something else.

use e2e::cluster::Cluster;
use e2e::many::{Client, Many};
use e2e::process::{detach, is_mounted, text};
use e2e::programs::{assert_same, manifest, sh, try_sh};
use e2e::{can_mount, need_program, sheen};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Bytes of a unit.
const UNIT: usize = 64 << 10;

fn mkfs(args: &[&str], device: &Path, dir: &Path) -> Output {
    let mut command = Command::new(sheen());
    command.args(["mkfs", "--ost", "--index", "0", "--backfstype=volume"]);
    command.arg("--device").arg(device).args(args).arg(dir);
    command.output().expect("sheen runs")
}

fn device(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("device")
}

/// All roles in one process, with the one OST on a big file of this size.
fn up(size: &str) -> Cluster {
    up_with(size, &[])
}

fn up_with(size: &str, args: &[&str]) -> Cluster {
    Cluster::up_prepared(&[&["--osts", "1"][..], args].concat(), |dir| {
        let made = mkfs(&["--device-size", size], &dir.join("device"), &dir.join("ost0000"));
        assert!(made.status.success(), "{}", text(&made));
    })
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 4096 * 31 + seed) as u8).collect()
}

fn write_synced(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("create");
    file.write_all(bytes).expect("write");
    file.sync_all().expect("fsync");
}

fn scrub(cluster: &Cluster, status: i32, says: &str) {
    let output = cluster.command(&["scrub"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(says), "no {says:?} in: {said}");
}

/// `sheen fsck` of targets at rest finds nothing.
fn is_whole(dir: &Path) {
    let output = Command::new(sheen()).arg("fsck").arg(dir).output().expect("sheen runs");
    assert!(output.status.success(), "{}", text(&output));
}

/// Where in the big file these bytes are.
fn find(device: &Path, bytes: &[u8]) -> u64 {
    let all = fs::read(device).expect("read the device");
    let at = all.chunks(4096).position(|block| block.starts_with(bytes));
    at.expect("the bytes of the file are on the device") as u64 * 4096
}

#[test]
fn a_flipped_bit_is_never_read_as_data() {
    if !can_mount() {
        return;
    }
    let mut cluster = up("256M");
    let path = cluster.mount().join("file");
    let good = pattern(1, 3_000_000);
    write_synced(&path, &good);
    // Some appends, each synced, and one overwrite.
    let log = cluster.mount().join("log");
    let file = File::options().append(true).create(true).open(&log).expect("open");
    for n in 0..20u8 {
        (&file).write_all(&[n; 5000]).expect("append");
        file.sync_all().expect("fsync");
    }
    drop(file);
    cluster.stop();
    is_whole(&cluster.dir());
    scrub(&cluster, 0, "clean");

    let block = 2_000_003 / 4096 * 4096;
    let at = find(&device(&cluster), &good[block..block + 4096]);
    let raw = File::options().read(true).write(true).open(device(&cluster)).expect("open");
    let mut byte = [0];
    raw.read_exact_at(&mut byte, at + 77).expect("read");
    raw.write_all_at(&[byte[0] ^ 4], at + 77).expect("flip a bit");
    scrub(&cluster, 4, "is not what was written");
    is_whole(&cluster.dir());

    cluster.start();
    let error = fs::read(&path).expect_err("a flipped bit is no data");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let said = cluster.log();
    assert!(said.contains("data on the volume is not what was written"), "{said}");
    let output = cluster.lctl(&["get_param", "-n", "obdfilter.*.bad_blocks"]);
    let count = String::from_utf8_lossy(&output.stdout);
    let most = count.lines().filter_map(|line| line.trim().parse::<u64>().ok()).max();
    assert!(most.is_some_and(|most| most > 0), "{}", text(&output));
    scrub(&cluster, 4, "1 bad block");
    let appended = fs::read(&log).expect("another file");
    assert!(appended.chunks(5000).enumerate().all(|(n, part)| part == [n as u8; 5000]));
    // All of it anew.
    write_synced(&path, &good);
    assert!(fs::read(&path).expect("read") == good);
    scrub(&cluster, 0, "clean");
}

#[test]
fn fsx_on_a_volume() {
    let Some(program) = need_program("fsx").filter(|_| can_mount()) else { return };
    let cluster = up("512M");
    let operations = std::env::var("FSX_OPERATIONS").unwrap_or_else(|_| "5000".to_owned());
    let config = cluster.outside().join("fsx.toml");
    let weights = "nomsyncafterwrite = true\nflen = 6000000\nopsize = { min = 0, max = 200000 }\n\
        [weights]\nclose_open = 1.0\ninvalidate = 1.0\nmapread = 5.0\nmapwrite = 5.0\nread = 5.0\n\
        write = 5.0\ntruncate = 5.0\nfsync = 0.5\nfdatasync = 0.5\nposix_fallocate = 1.0\n\
        punch_hole = 2.0\nsendfile = 1.0\nposix_fadvise = 0.5\ncopy_file_range = 1.0\n";
    fs::write(&config, weights).expect("write");
    let script = format!(
        "{} -f {} -N {operations} -S 7 -P {} file",
        program.display(),
        config.display(),
        cluster.outside().display()
    );
    let output = try_sh(&cluster.mount(), &script);
    let said = text(&output);
    let end: Vec<&str> = said.lines().rev().take(40).collect();
    assert!(output.status.success() && said.contains("A-OK!"), "{end:#?}");
    scrub(&cluster, 0, "clean");
}

#[test]
fn what_was_synced_is_there_after_kill_of_everything() {
    if !can_mount() {
        return;
    }
    let mut cluster = up("512M");
    for round in 0..3 {
        sh(
            &cluster.mount(),
            &format!(
                "mkdir -p r{round}; for f in $(seq 8); do head -c $((f * 90001)) /dev/urandom > r{round}/$f; done
                 truncate -s 300001 r{round}/7; head -c 9000 /dev/urandom | dd of=r{round}/8 bs=9000 seek=3 conv=notrunc status=none
                 find . -type f -exec sync {{}} +"
            ),
        );
        File::open(cluster.mount()).and_then(|dir| dir.sync_all()).expect("fsync of the root");
        let before = manifest(&cluster.mount());
        // Lost with the process, or not: no promise.
        fs::write(cluster.mount().join("unsynced"), pattern(round, 200_000)).expect("write");
        fs::remove_file(cluster.mount().join("unsynced")).expect("remove");
        cluster.kill();
        if is_mounted(&cluster.mount()) {
            detach(&cluster.mount());
        }
        cluster.start();
        let _ = fs::remove_file(cluster.mount().join("unsynced"));
        assert_same("the trees before and after", &before, &manifest(&cluster.mount()));
    }
    scrub(&cluster, 0, "clean");
    cluster.stop();
    is_whole(&cluster.dir());
}

/// The clients live on: what they were answered is there, synced or not.
#[test]
fn three_kills_of_a_server_lose_nothing() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
    let mount = dir.path().join("mnt0");
    let clients = vec![Client { mount: mount.clone(), options: String::new() }];
    let Some(mut many) = Many::up_on_volumes(&dir.path().join("fs"), clients, "4") else { return };
    let mut model = Vec::new();
    for round in 0..3usize {
        for n in 0..10 {
            let bytes = pattern(round * 100 + n, 50_000 + n * 130_001);
            fs::write(mount.join(format!("{round}-{n}")), &bytes).expect("write");
            model.push((format!("{round}-{n}"), bytes));
        }
        // Flushed, not synced: answered by the OST.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let (name, bytes) = &mut model[round];
        let file = File::options().write(true).open(mount.join(&*name)).expect("open");
        file.write_all_at(&[round as u8; 7000], 3000).expect("overwrite");
        bytes[3000..10_000].fill(round as u8);
        file.sync_all().expect("fsync");
        // oss0, oss1, and both.
        let servers = if round == 2 { vec![2, 3] } else { vec![2 + round] };
        many.kill_together(&servers, &[]);
        servers.iter().for_each(|at| many.start_server_again(*at));
        for (name, bytes) in &model {
            assert!(fs::read(mount.join(name)).expect("read") == *bytes, "{name} after {round}");
        }
    }
    // Not from the client's memory.
    many.stop();
    let whole = many.fsck_at_rest(&[]);
    assert!(whole.status.success(), "{}", text(&whole));
    many.start();
    for (name, bytes) in &model {
        assert!(fs::read(mount.join(name)).expect("read") == *bytes, "{name} at the end");
    }
}

#[test]
fn a_limit_below_the_device_is_kept() {
    if !can_mount() {
        return;
    }
    let mut cluster = up_with("512M", &["--ost-size", "128M"]);
    let size = |cluster: &Cluster| -> u64 {
        let df = sh(&cluster.mount(), "df -B1 --output=size . | tail -1");
        df.trim().parse().expect("a number")
    };
    assert!((110 << 20..=128 << 20).contains(&size(&cluster)), "{}", size(&cluster));
    let full = cluster.mount().join("full");
    let chunk = pattern(1, 1 << 20);
    let mut file = File::create(&full).expect("create");
    let refused = (0..400).find_map(|_| file.write_all(&chunk).and(file.sync_data()).err());
    assert_eq!(refused.and_then(|error| error.raw_os_error()), Some(libc::ENOSPC));
    drop(file);
    let has = fs::metadata(&full).expect("stat").blocks() * 512;
    assert!((64 << 20..=128 << 20).contains(&has), "{has} bytes");
    // It is kept in the settings.
    cluster.stop();
    cluster.start();
    assert!(size(&cluster) <= 128 << 20, "{}", size(&cluster));
    let mut file = File::create(cluster.mount().join("more")).expect("create");
    let refused = (0..40).find_map(|_| file.write_all(&chunk).and(file.sync_data()).err());
    assert_eq!(refused.and_then(|error| error.raw_os_error()), Some(libc::ENOSPC));
}

#[test]
fn a_full_volume_says_so_before_it_promises() {
    if !can_mount() {
        return;
    }
    let cluster = up("128M");
    let mount = cluster.mount();
    let df = sh(&mount, "df -B1 --output=size,used,avail . | tail -1");
    let figures: Vec<u64> = df.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    assert!(figures[0] <= 128 << 20 && figures[0] >= 110 << 20 && figures[1] == 0, "{figures:?}");
    // Small pieces of sparse files, each in a unit of its own: what is answered is kept.
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(mount.join("sparse"));
    let file = file.expect("create");
    let mut answered = 0;
    let refused = (2..100_000u64).find(|n| match file.write_all_at(&[*n as u8; 100], n << 16) {
        Ok(()) => {
            answered += 1;
            false
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
            true
        }
    });
    refused.expect("128 MiB are full at some time");
    file.sync_all().expect("whatever was answered has room");
    assert!(answered > 1000, "{answered} units of 2048");
    let mut byte = [0];
    for n in 2..2 + answered {
        file.read_exact_at(&mut byte, n << 16).expect("read");
        assert_eq!(byte[0], n as u8);
    }
    // Overwriting goes on, removing makes room.
    file.write_all_at(&[1; 100], 2 << 16).expect("overwrite");
    file.sync_all().expect("fsync");
    assert!(file.metadata().expect("stat").blocks() * 512 >= answered * UNIT as u64);
    drop(file);
    fs::remove_file(mount.join("sparse")).expect("remove");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while fs::write(mount.join("again"), pattern(0, 60 << 20)).is_err() {
        assert!(std::time::Instant::now() < deadline, "the space does not come back");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    scrub(&cluster, 0, "clean");
}

#[test]
fn a_device_that_holds_something_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (device, ost) = (dir.path().join("device"), dir.path().join("ost"));
    let refused = |args: &[&str], says: &str| {
        let output = mkfs(args, &device, &ost);
        let said = text(&output);
        assert!(!output.status.success() && said.contains(says), "no {says:?} in: {said}");
        assert!(!ost.exists(), "nothing is made");
    };
    refused(&[], "--device-size");
    refused(&["--device-size", "1M"], "at least 64 MiB");
    refused(&["--device-size", "65T"], "at most 64 TiB");
    assert!(!device.exists());
    File::create(&device).and_then(|file| file.set_len(80 << 20)).expect("a big file");
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&device).status();
    if !made.is_ok_and(|status| status.success()) {
        let file = File::options().write(true).open(&device).expect("open");
        file.write_all_at(&[0x53, 0xef], 1080).expect("what an ext4 file system has there");
    }
    let before = fs::read(&device).expect("read");
    refused(&[], "ext4");
    refused(&["--device-size", "100M"], "has only 80 MiB");
    assert!(fs::read(&device).expect("read") == before, "nothing is overwritten");
    // As a block device, too, and while it is mounted even with --reformat.
    let looped = Command::new("losetup").args(["--show", "-f"]).arg(&device).output();
    if let Some(output) = looped.ok().filter(|output| output.status.success()) {
        let name = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let said = text(&mkfs(&[], &name, &ost));
        let there = dir.path().join("mnt");
        fs::create_dir(&there).expect("make a folder");
        let mounted = Command::new("mount").arg(&name).arg(&there).status();
        let mut busy = None;
        if mounted.is_ok_and(|status| status.success()) {
            busy = Some(text(&mkfs(&["--reformat"], &name, &ost)));
            sh(dir.path(), "umount mnt");
        }
        let anew = mkfs(&["--reformat"], &name, &ost);
        sh(dir.path(), &format!("losetup -d {}", name.display()));
        assert!(said.contains("ext4"), "{said}");
        assert!(busy.is_none_or(|said| said.contains("in use")));
        assert!(anew.status.success(), "{}", text(&anew));
    } else {
        let anew = mkfs(&["--reformat"], &device, &ost);
        assert!(anew.status.success(), "{}", text(&anew));
    }
    let again = text(&mkfs(&[], &device, &dir.path().join("ost1")));
    assert!(again.contains("holds the volume"), "{again}");
}
