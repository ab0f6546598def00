//! Directories go to other MDTs (`lfs migrate -m`) while programs of two mounts use them, and MDS
//! die meanwhile.
//!
//! `KILLS` sets the number of kills (4; with `E2E_LONG=1` 6), `KILLS_SEED` repeats their order.

use e2e::cluster::Cluster;
use e2e::kills::Kills;
use e2e::lustre::{lctl, lfs, lfs_refuses, soon, try_lfs};
use e2e::process::{is_clean, text};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Files of the directory that goes.
fn files() -> usize {
    e2e::sized(150, 400)
}

/// Longest wait of any single operation: restarts of MDS that must hear of each other.
const STALL_MAX: Duration = Duration::from_secs(60);

/// A tree: files, a directory in it, a symbolic link, a file with two names, attributes.
fn plant(dir: &Path) {
    fs::create_dir(dir).expect("mkdir");
    fs::create_dir(dir.join("below")).expect("mkdir");
    fs::create_dir(dir.join("below/deep")).expect("mkdir");
    for n in 0..files() {
        let name = format!("f{n:03}");
        fs::write(dir.join(&name), &name).expect("write");
    }
    fs::write(dir.join("below/deep/file"), "deep").expect("write");
    fs::write(dir.join("below/empty"), "").expect("write");
    symlink("f000", dir.join("link")).expect("symlink");
    fs::hard_link(dir.join("f001"), dir.join("below/second")).expect("link");
    let value = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(dir, "user.colour", b"green", value).expect("setxattr");
    rustix::fs::setxattr(dir.join("f002"), "user.colour", b"blue", value).expect("setxattr");
    rustix::fs::chmod(dir.join("f003"), 0o640.into()).expect("chmod");
}

/// All of it is there.
fn assert_planted(dir: &Path) {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dir).expect("list") {
        names.push(entry.expect("list").file_name().into_string().expect("text"));
    }
    names.sort_unstable();
    let mut expected: Vec<String> = (0..files()).map(|n| format!("f{n:03}")).collect();
    expected.extend(["below".to_owned(), "link".to_owned()]);
    expected.sort_unstable();
    assert_eq!(names, expected, "{}", dir.display());
    for n in 0..files() {
        let name = format!("f{n:03}");
        assert_eq!(fs::read_to_string(dir.join(&name)).expect("read"), name);
    }
    let read = |name: &str| fs::read_to_string(dir.join(name)).expect("read");
    assert_eq!([read("below/deep/file"), read("below/empty"), read("link")], ["deep", "", "f000"]);
    let [one, two] =
        ["f001", "below/second"].map(|name| fs::metadata(dir.join(name)).expect("stat"));
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2), "one file with two names");
    for (name, colour) in [("", "green"), ("f002", "blue")] {
        let mut value = [0; 16];
        let len = rustix::fs::getxattr(dir.join(name), "user.colour", &mut value[..]);
        assert_eq!(&value[..len.expect("getxattr")], colour.as_bytes(), "{name}");
    }
    assert_eq!(fs::metadata(dir.join("f003")).expect("stat").mode() & 0o777, 0o640);
    assert_eq!(fs::metadata(dir).expect("stat").nlink(), 3);
}

#[test]
fn what_goes_to_another_mdt_is_what_it_was() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--mdts", "3"]);
    let mnt = cluster.mount();
    let dir = mnt.join("d");
    plant(&dir);
    let open = File::open(dir.join("f005")).expect("open");
    let before = fs::metadata(&dir).expect("stat");
    let held = File::open(&dir).expect("open");

    // A file that a program has open stays; all else goes.
    let stays = format!(
        "error: migrate: can't migrate 'd/f005': {}; a program has it open\n",
        "Device or resource busy (16)"
    );
    lfs_refuses(&mnt, &["migrate", "-m", "2", "d"], libc::EBUSY, &stays);
    assert_planted(&dir);
    assert_eq!(lfs(&mnt, &["find", "d", "-mdt", "0"]), "d/f005\n");
    let mut all = String::new();
    (&open).read_to_string(&mut all).expect("read");
    assert_eq!(all, "f005");
    drop(open);
    let said = lfs(&mnt, &["migrate", "-v", "-m", "2", "d"]);
    assert!(said.contains("migrate d/f005 to MDT2 stripe count 1\n"), "{said}");
    assert_eq!(lfs(&mnt, &["find", "d", "-mdt", "0"]), "");
    assert_eq!(lfs(&mnt, &["getdirstripe", "-m", "d"]), "2\n");
    assert_eq!(lfs(&mnt, &["getstripe", "-m", "d/f005"]), "2\n");
    assert_planted(&dir);
    let after = fs::metadata(&dir).expect("stat");
    assert_ne!(before.ino(), after.ino(), "it is another inode");
    assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()));
    // To the kernel of this mount it is the same directory.
    let path_of_held =
        || fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).expect("readlink");
    assert_eq!(path_of_held(), dir);
    // What is made and changed from now on.
    fs::write(dir.join("new"), "new").expect("write");
    File::options()
        .append(true)
        .open(dir.join("f006"))
        .expect("open")
        .write_all(b"!")
        .expect("write");
    assert_eq!(fs::read_to_string(dir.join("f006")).expect("read"), "f006!");
    assert_eq!(lfs(&mnt, &["getstripe", "-m", "d/new"]), "2\n");
    fs::write(dir.join("f006"), "f006").expect("write");
    fs::remove_file(dir.join("new")).expect("unlink");

    // Over two MDTs, with what is in it; and back.
    // The MDT hears of the last closes in their own time.
    let path = dir.display().to_string();
    let migrate = ["migrate", "-m", "1,0", "-H", "fnv_1a_64", &path];
    soon(&true, || cluster.called("lfs", &migrate).status.success());
    assert_planted(&dir);
    let shown = lfs(&mnt, &["getdirstripe", "d"]);
    assert!(shown.starts_with("lmv_stripe_count: 2 lmv_stripe_offset: 1 lmv_hash_type: fnv_1a_64"));
    let inodes = || {
        let of = |name: &str| fs::metadata(dir.join(name)).expect("stat").ino();
        ["f001", "f002", "below", "below/second"].map(of)
    };
    let there = inodes();
    lfs(&mnt, &["migrate", "-m", "1,0", "-H", "fnv_1a_64", "d"]);
    assert_eq!(inodes(), there, "what is there stays, also with names in two stripes");
    lfs(&mnt, &["migrate", "-d", "-m", "0", "d"]);
    assert_eq!(lfs(&mnt, &["getdirstripe", "-m", "d"]), "0\n");
    assert_eq!(lfs(&mnt, &["getdirstripe", "-m", "d/below"]), "1\n", "-d moves nothing below");
    assert_planted(&dir);

    let refuses = |args: &[&str], errno: i32, why: &str| {
        lfs_refuses(&mnt, args, errno, &format!("error: migrate: {why}\n"));
    };
    refuses(
        &["migrate", "-m", "3", "d"],
        libc::ERANGE,
        "can't migrate 'd': Numerical result out of range (34); there is no MDT0003; lfs mdts shows all",
    );
    refuses(
        &["migrate", "-m", "1", "-c", "4", "d"],
        libc::E2BIG,
        "can't migrate 'd': Argument list too long (7); there are fewer MDTs than stripes; lfs mdts shows all",
    );
    refuses(
        &["migrate", "-d", "-m", "1", "."],
        libc::EBUSY,
        "can't migrate '.': Device or resource busy (16); it is the root of the file system, or its names move",
    );
    refuses(
        &["migrate", "-m", "1,2", "-c", "1", "d"],
        libc::EINVAL,
        "2 MDTs are named for 1 stripes",
    );
    assert_planted(&dir);
    is_clean(&cluster.command(&["fsck"]), "at work");

    // An MDT that takes no directories by choice.
    lctl(&cluster, &["set_param", "mdt.*MDT0002.no_create=1"]);
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.no_create"]), "0\n0\n1\n");
    let made = Cell::new(0);
    soon(&[false; 6], || {
        [(); 6].map(|()| {
            made.set(made.get() + 1);
            let name = format!("any{}", made.get());
            lfs(&mnt, &["mkdir", "-i", "-1", &name]);
            lfs(&mnt, &["getdirstripe", "-m", &name]) == "2\n"
        })
    });
    lfs(&mnt, &["mkdir", "-i", "2", "named"]);
    assert_eq!(lfs(&mnt, &["getdirstripe", "-m", "named"]), "2\n");
    let shown = lctl(&cluster, &["get_param", "mdt.*.dir_moves", "mdt.*.bundles_waiting"]);
    assert!(!shown.contains("migrate of"), "nothing moves: {shown}");
    assert_eq!(path_of_held(), dir);
    drop(held);
    fs::remove_dir_all(&dir).expect("rm -r");
    cluster.stop();
}

#[test]
fn an_mdt_that_is_added_takes_part() {
    let Some(Kills { mounts, dir: _dir, mut many, .. }) = Kills::up_with_mdts(0, 2) else {
        return;
    };
    let [first, second] = &mounts;
    plant(&first.join("d"));
    lfs(first, &["mkdir", "-c", "2", "striped"]);
    let added = many.add_mds();
    assert_eq!(many.server_name(added), "mds2");

    // By its number, by turns, as a stripe of new directories and of those that are there.
    lfs(first, &["mkdir", "-i", "2", "on2"]);
    fs::write(second.join("on2/file"), "file").expect("write");
    assert_eq!(lfs(second, &["getstripe", "-m", "on2/file"]), "2\n");
    // Others hear of it in their own time.
    let made = Cell::new(0);
    soon(&true, || {
        made.set(made.get() + 1);
        let name = format!("early{}", made.get());
        lfs(first, &["mkdir", "-i", "-1", &name]);
        lfs(second, &["getdirstripe", "-m", &name]) == "2\n"
    });
    let by_turns: BTreeMap<String, u32> = (0..12).fold(BTreeMap::new(), |mut all, n| {
        let name = format!("any{n}");
        lfs(first, &["mkdir", "-i", "-1", &name]);
        *all.entry(lfs(second, &["getdirstripe", "-m", &name])).or_default() += 1;
        all
    });
    assert!(by_turns.get("2\n").is_some_and(|n| *n >= 2), "{by_turns:?}");
    lfs(first, &["mkdir", "-c", "3", "three"]);
    for dir in ["d", "striped"] {
        lfs(first, &["setdirstripe", "-c", "3", dir]);
        soon(&"3\n".to_owned(), || lfs(second, &["getdirstripe", "-c", dir]));
    }
    soon(&false, || lfs(second, &["getdirstripe", "d"]).contains("migrating"));
    mounts.iter().for_each(|mount| assert_planted(&mount.join("d")));
    for n in 0..60 {
        fs::write(second.join(format!("d/new{n}")), "new").expect("write");
    }
    let new = lfs(first, &["find", "d", "-name", "new*", "-mdt", "2"]);
    assert!(new.lines().count() >= 8, "new names in it go there, too: {new}");
    for n in 0..60 {
        fs::remove_file(first.join(format!("d/new{n}"))).expect("unlink");
    }
    // What is there goes there.
    lfs(second, &["migrate", "-m", "2", "d"]);
    assert_eq!(lfs(first, &["find", "d", "-mdt", "0,1"]), "");
    mounts.iter().for_each(|mount| assert_planted(&mount.join("d")));
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
}

/// Names come, move and go, by paths.
fn work(mount: &Path, who: &str, stop: &AtomicBool) -> u64 {
    let dir = mount.join("d");
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let at = |text: &str| dir.join(format!("{who}{rounds}{text}"));
        assert!(fs::metadata(at("")).is_err(), "{who}{rounds} is not there yet");
        fs::write(at(""), who).expect("write");
        assert!(File::create_new(at("")).is_err(), "{who}{rounds} is there");
        fs::rename(at(""), at(".moved")).expect("rename");
        fs::create_dir(at(".d")).expect("mkdir");
        fs::write(at(".d/f"), "below").expect("write");
        assert_eq!(fs::read_to_string(at(".moved")).expect("read"), who);
        if rounds % 4 == 0 {
            let names = fs::read_dir(&dir).expect("list");
            let names = names.map(|entry| entry.expect("list").file_name());
            let stay = names.filter(|name| name.as_encoded_bytes()[0] == b'f').count();
            assert_eq!(stay, files(), "{who}, round {rounds}: all that stay are listed");
        }
        fs::remove_file(at(".moved")).expect("unlink");
        fs::remove_file(at(".d/f")).expect("unlink");
        fs::remove_dir(at(".d")).expect("rmdir");
        assert!(fs::metadata(at(".moved")).is_err() && fs::metadata(at(".d")).is_err());
        assert!(began.elapsed() < STALL_MAX, "a round took {:?}", began.elapsed());
        rounds += 1;
    }
    rounds
}

/// Inode numbers of all in a tree.
fn inodes(dir: &Path, all: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("list").path();
        let meta = fs::symlink_metadata(&path).expect("stat");
        all.insert(path.display().to_string(), meta.ino());
        if meta.is_dir() {
            inodes(&path, all);
        }
    }
}

#[test]
fn an_mdt_is_drained_under_load_and_kills_and_taken_away() {
    let Some(Kills { count: kills, mut rng, mounts, dir: _dir, mut many, .. }) =
        Kills::up_with_mdts(e2e::sized(4, 6), 3)
    else {
        return;
    };
    let mds: Vec<usize> =
        (0..many.server_count()).filter(|at| many.server_name(*at).starts_with("mds")).collect();
    let [first, second] = &mounts;
    lfs(first, &["mkdir", "-i", "2", "home"]);
    plant(&first.join("home/d"));
    // The second mount has everything in its caches.
    assert_planted(&second.join("home/d"));
    inodes(&second.join("home"), &mut BTreeMap::new());

    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for (n, mount) in mounts.iter().enumerate() {
        let (mount, stop, name) = (mount.join("home"), stop.clone(), format!("c{n}."));
        workers.push(thread::spawn(move || work(&mount, &name, &stop)));
    }
    // To and fro, with an MDS dead in the middle. Files that a worker has open just then stay.
    for n in 0..kills {
        let to = ["1", "2", "0", "2,1"][n as usize % 4];
        let mount = mounts[n as usize % 2].clone();
        let mover = thread::spawn(move || try_lfs(&mount, &["migrate", "-m", to, "home/d"]));
        thread::sleep(Duration::from_millis(rng.u64(0..400)));
        let one = mds[n as usize % mds.len()];
        let both = rng.u32(0..3) == 0;
        let killed = if both { vec![one, mds[(n as usize + 1) % mds.len()]] } else { vec![one] };
        many.kill_together(&killed, &[]);
        killed.iter().for_each(|at| many.start_server_again(*at));
        let moved = mover.join().expect("lfs");
        println!("kill {n}, to {to}: {}", text(&moved).lines().next().unwrap_or("all went"));
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        match worker.join() {
            Ok(rounds) => println!("{rounds} rounds"),
            Err(failure) => {
                eprintln!("{}", many.logs());
                std::panic::resume_unwind(failure);
            }
        }
    }
    mounts.iter().for_each(|mount| assert_planted(&mount.join("home/d")));

    // Nothing of it stays on MDT0002.
    lfs(first, &["migrate", "-m", "0,1", "home"]);
    assert_eq!(lfs(second, &["find", "home", "-mdt", "2"]), "");
    mounts.iter().for_each(|mount| assert_planted(&mount.join("home/d")));
    is_clean(&many.fsck(&[]), "at work");
    let drained = mds[2];
    many.kill_server(drained);
    let began = Instant::now();
    mounts.iter().for_each(|mount| assert_planted(&mount.join("home/d")));
    fs::write(first.join("home/d/new"), "new").expect("write");
    assert_eq!(fs::read_to_string(second.join("home/d/new")).expect("read"), "new");
    fs::remove_file(second.join("home/d/new")).expect("unlink");
    println!("without that MDS: {:?}", began.elapsed());
    many.start_server_again(drained);
    is_clean(&many.fsck(&[]), "at work");
    many.stop();
    is_clean(&many.fsck_at_rest(&[]), "at rest");
    many.start();
    mounts.iter().for_each(|mount| assert_planted(&mount.join("home/d")));
    many.stop();
}
