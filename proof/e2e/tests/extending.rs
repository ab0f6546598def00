//! Layouts that extend themselves: files go on where there is room, and are the same bytes as on
//! any other file system.

use e2e::cluster::Cluster;
use e2e::lustre::{lctl_says, lfs, lfs_refuses, pool_list, soon};
use e2e::process::text;
use e2e::programs::sh;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: usize = 1 << 20;

/// A component as `lfs getstripe` shows it: start, end, flags, its OSTs.
fn components(mnt: &Path, file: &str) -> Vec<(u64, u64, String, Vec<String>)> {
    let all = lfs(mnt, &["getstripe", file]);
    let component = |text: &str| {
        let value = |label: &str| {
            text.split_once(label)
                .map_or("", |(_, after)| after.lines().next().unwrap_or(""))
                .trim()
        };
        let number = |label| value(label).parse().unwrap_or(u64::MAX);
        let osts = text
            .split("l_ost_idx:")
            .skip(1)
            .map(|o| o.split(',').next().unwrap_or("").trim().to_owned());
        (number("e_start:"), number("e_end:"), value("lcme_flags:").to_owned(), osts.collect())
    };
    all.split("lcme_id:").skip(1).map(component).collect()
}

fn byte(at: usize) -> u8 {
    (at / 4093 + at * 31) as u8
}

fn pattern(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(byte).collect()
}

/// Writes as a program does that does not know how long the file will be.
fn append(file: &mut File, from: usize, until: usize) -> std::io::Result<()> {
    (from..until).step_by(MIB).try_for_each(|at| file.write_all(&pattern(at, MIB)))
}

#[test]
fn a_file_goes_on_where_there_is_room() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--osts", "3", "--ost-size", "64M"]);
    let mnt = cluster.mount();

    // One OST cannot hold it.
    lfs(&mnt, &["setstripe", "-i", "0", "-S", "1M", "stuck"]);
    let mut stuck = OpenOptions::new().write(true).open(mnt.join("stuck")).expect("open");
    let full = append(&mut stuck, 0, 100 * MIB).and_then(|()| stuck.sync_all());
    assert_eq!(full.expect_err("64 MiB are not 100").raw_os_error(), Some(libc::ENOSPC));
    drop(stuck);
    fs::remove_file(mnt.join("stuck")).expect("remove");
    let osts =
        |line: &str| lfs(&mnt, &["df", "."]).lines().find(|l| l.contains(line)).map(str::to_owned);
    let available = || osts("OST0000")?.split_whitespace().nth(3)?.parse::<u64>().ok();
    soon(&Some(true), || available().map(|kib| kib > 50 << 10));

    // The last component is repeated on other OSTs.
    lfs(&mnt, &["setstripe", "-E", "-1", "-z", "8M", "-S", "1M", "-i", "0", "long"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-z", "long"]), "8388608\n");
    let mut long = OpenOptions::new().write(true).open(mnt.join("long")).expect("open");
    append(&mut long, 0, 100 * MIB)
        .and_then(|()| long.sync_all())
        .expect("three OSTs have room for it");
    drop(long);
    let parts = components(&mnt, "long");
    let used: BTreeSet<&String> = parts.iter().flat_map(|(.., osts)| osts).collect();
    assert!(parts.len() > 2 && used.len() > 1, "{parts:?}");
    let (last, grown) = parts.split_last().expect("components");
    assert_eq!((&*last.2, last.1), ("extension", u64::MAX));
    assert!(grown.iter().all(|(.., flags, osts)| flags == "init" && osts.len() == 1), "{parts:?}");
    assert!(
        parts.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[1].0 % (8 << 20) == 0),
        "{parts:?}"
    );
    assert!(last.0 >= 100 << 20 && last.0 < 120 << 20, "{parts:?}");
    let same = |what: &str| {
        let mut bytes = Vec::new();
        File::open(mnt.join("long")).and_then(|mut f| f.read_to_end(&mut bytes)).expect("read");
        assert!(bytes == pattern(0, 100 * MIB), "bytes differ {what}");
    };
    same("at once");
    assert_eq!(
        lfs(&mnt, &["find", ".", "-component-flags", "extension", "-ext-size", "8M"]),
        "./long\n"
    );
    assert_eq!(lfs(&mnt, &["find", ".", "-ext-size", "+8M"]), "");

    // The layout and the bytes outlive the servers, and the file goes on growing.
    cluster.stop();
    cluster.start();
    assert_eq!(components(&mnt, "long"), parts);
    same("after a restart");
    let more = OpenOptions::new().write(true).open(mnt.join("long")).expect("open");
    more.write_all_at(&pattern(120 * MIB, MIB), 120 << 20)
        .and_then(|()| more.sync_all())
        .expect("write behind a hole");
    let mut found = vec![1; 2 * MIB];
    let read = File::open(mnt.join("long")).and_then(|f| f.read_exact_at(&mut found, 119 << 20));
    read.expect("read");
    assert!(found[..MIB] == vec![0; MIB] && found[MIB..] == pattern(120 * MIB, MIB));
    sh(&mnt, "rm long");
    let checked = cluster.command(&["fsck"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

/// A small fast pool, then a big one.
#[test]
fn a_full_pool_spills_over_into_the_next_component() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "3", "--ost-size", "64M"]);
    let mnt = cluster.mount();
    for (pool, ost) in [("fast", "OST0000"), ("big", "OST[1-2]")] {
        lctl_says(&cluster, &["pool_new", &format!("sheen.{pool}")]);
        lctl_says(&cluster, &["pool_add", &format!("sheen.{pool}"), ost]);
    }
    soon(&2, || pool_list(&mnt, "sheen.big").matches("OST").count());
    fs::create_dir(mnt.join("d")).expect("a folder");
    let tiers =
        ["-E", "96M", "-z", "8M", "-S", "1M", "-p", "fast", "-E", "-1", "-p", "big", "-c", "2"];
    lfs(&mnt, &[&["setstripe"], &tiers[..], &["d"]].concat());
    let mut file = File::create(mnt.join("d/f")).expect("create");
    append(&mut file, 0, 110 * MIB)
        .and_then(|()| file.sync_all())
        .expect("the second tier has room");
    drop(file);
    let parts = components(&mnt, "d/f");
    let [(0, end, first, fast), (start, u64::MAX, second, big)] = &parts[..] else {
        panic!("{parts:?}")
    };
    assert_eq!((&**first, &**second, end, fast), ("init", "init", start, &vec!["0".to_owned()]));
    assert!(*end < 96 << 20 && big.len() == 2, "{parts:?}");
    assert!(fs::read(mnt.join("d/f")).expect("read") == pattern(0, 110 * MIB), "bytes differ");

    // Impossible requests are refused in words; components can be added where a layout ends.
    for (args, words) in [
        (
            &["setstripe", "-z", "8M", "x"][..],
            "only a component can extend itself: -E END -z SIZE: Invalid argument (22)",
        ),
        (
            &["setstripe", "-E", "8M", "-z", "8M", "x"],
            "an extension size of 8388608 is not smaller than its component: Invalid argument (22)",
        ),
    ] {
        lfs_refuses(&mnt, args, 22, &format!("error: setstripe: {words}\n"));
    }
    lfs(&mnt, &["setstripe", "-E", "1M", "-S", "64K", "short"]);
    fs::write(mnt.join("short"), pattern(0, MIB)).expect("write");
    let beyond = OpenOptions::new()
        .write(true)
        .open(mnt.join("short"))
        .and_then(|f| f.write_all_at(b"more", 1 << 20));
    beyond.expect_err("no component covers it");
    lfs(
        &mnt,
        &["setstripe", "--component-add", "-E", "64M", "-z", "2M", "-S", "1M", "-E", "-1", "short"],
    );
    let ends: Vec<u64> = components(&mnt, "short").iter().map(|(_, end, ..)| *end).collect();
    assert_eq!(ends, [1 << 20, 1 << 20, 64 << 20, u64::MAX]);
    let mut file = OpenOptions::new().append(true).open(mnt.join("short")).expect("open");
    append(&mut file, MIB, 4 * MIB).expect("more");
    drop(file);
    assert!(fs::read(mnt.join("short")).expect("read") == pattern(0, 4 * MIB), "bytes differ");
    let said = "error: setstripe: can't add components to 'short': its components reach to the end of the file\n";
    lfs_refuses(&mnt, &["setstripe", "--component-add", "-E", "-1", "short"], 22, said);
}

/// Two clients make a file grow at once while its MDS is killed: each byte is where both find it.
#[test]
fn two_clients_extend_one_file_while_its_mds_is_killed() {
    if !e2e::can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let mounts = cluster.mounts();
    const CHUNK: usize = 256 << 10;
    const CHUNKS: usize = 160;
    lfs(&mounts[0], &["setstripe", "-E", "-1", "-z", "1M", "-S", "64K", "shared"]);
    let writers: Vec<_> = mounts
        .iter()
        .cloned()
        .enumerate()
        .map(|(n, mnt)| {
            std::thread::spawn(move || {
                let file = OpenOptions::new().write(true).open(mnt.join("shared")).expect("open");
                for at in (n..CHUNKS).step_by(2).map(|chunk| chunk * CHUNK) {
                    file.write_all_at(&pattern(at, CHUNK), at as u64).expect("write");
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                file.sync_all().expect("fsync");
            })
        })
        .collect();
    let many = cluster.many_mut();
    let mds =
        (0..many.server_count()).find(|at| many.server_name(*at).contains("mds")).expect("an MDS");
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        many.kill_server(mds);
        many.start_server_again(mds);
    }
    writers.into_iter().for_each(|writer| writer.join().expect("it wrote"));
    for mnt in &mounts {
        assert!(
            fs::read(mnt.join("shared")).expect("read") == pattern(0, CHUNKS * CHUNK),
            "bytes differ"
        );
    }
    let parts = components(&mounts[1], "shared");
    assert_eq!(parts, components(&mounts[0], "shared"));
    assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{parts:?}");
    assert!(parts.last().is_some_and(|(start, ..)| *start == (CHUNKS * CHUNK) as u64), "{parts:?}");
}
