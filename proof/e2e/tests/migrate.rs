//! Files change their layouts while they are read and written; nothing is lost, nothing is left
//! behind.

use e2e::cluster::{Cluster, everywhere};
use e2e::lustre::{lfs, lfs_refuses, soon};
use e2e::process::text;
use e2e::programs::sh;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn shown(mnt: &Path, letter: &str, file: &str) -> String {
    lfs(mnt, &["getstripe", letter, file]).trim_end().to_owned()
}

/// The checker finds nothing, and every object has an owner.
fn is_whole(cluster: &Cluster) {
    let checked = cluster.command(&["fsck"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

#[test]
fn layouts_change_under_readers_and_writers() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        let content = bytes(5_000_000);
        lfs(&mnt, &["setstripe", "-c", "1", "-S", "1M", "-i", "0", "f"]);
        fs::write(mnt.join("f"), &content).expect("write");
        sh(
            &mnt,
            "chmod 640 f; touch -d 2020-02-02 f; setfattr -n user.note -v kept f 2> /dev/null || true",
        );
        let before = fs::metadata(mnt.join("f")).expect("stat");
        let mut reader = File::open(mnt.join("f")).expect("open");
        let mut half = vec![0; 2_500_000];
        reader.read_exact(&mut half).expect("read");
        let generation: u32 = shown(&mnt, "-g", "f").parse().expect("a number");

        assert_eq!(lfs(&mnt, &["migrate", "-v", "-c", "4", "-S", "64K", "f"]), "");
        assert_eq!((shown(&mnt, "-c", "f"), shown(&mnt, "-S", "f")), ("4".into(), "65536".into()));
        assert!(shown(&mnt, "-g", "f").parse::<u32>().expect("a number") > generation);
        let after = fs::metadata(mnt.join("f")).expect("stat");
        let stable = |m: &fs::Metadata| {
            (m.ino(), m.size(), m.mode(), m.mtime(), m.ctime(), m.uid(), m.nlink())
        };
        assert_eq!(stable(&after), stable(&before));
        assert!(
            after.blocks() * 512 >= 5_000_000 && after.blocks() * 512 < 6_000_000,
            "{} blocks",
            after.blocks()
        );
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("read on");
        assert!(
            half == content[..2_500_000] && rest == content[2_500_000..],
            "who had it open reads on"
        );
        let caches = e2e::caches::mine();
        sh(&mnt, "echo 3 > /proc/sys/vm/drop_caches");
        drop(caches);
        assert!(fs::read(mnt.join("f")).expect("read") == content, "bytes differ");
        assert_eq!(sh(&mnt, "ls -A"), "f\n", "nothing is left behind");

        // Life goes on: written, cut, grown, migrated again (to components, and to the directory's
        // own).
        let file = OpenOptions::new().read(true).write(true).open(mnt.join("f")).expect("open");
        file.write_all_at(b"overwritten", 70_000).expect("write");
        file.set_len(3_000_000).expect("cut");
        file.set_len(3_100_000).expect("grow");
        drop((file, reader));
        let mut expected = content[..3_000_000].to_vec();
        expected[70_000..70_011].copy_from_slice(b"overwritten");
        expected.resize(3_100_000, 0);
        // The MDT looks at objects that were cut 10 seconds after the last writer: a migration does
        // not wait for that.
        let began = Instant::now();
        lfs(&mnt, &["migrate", "-E", "1M", "-c", "1", "-E", "-1", "-c", "2", "f"]);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(fs::read(mnt.join("f")).expect("read") == expected, "bytes differ");
        // Without a layout it keeps its own, with new objects; --restripe: that of the directory.
        let shape = || {
            let text = lfs(&mnt, &["getstripe", "f"]);
            let of = |line: &&str| {
                ["entry_count", "e_start", "e_end", "stripe_count"].iter().any(|w| line.contains(w))
            };
            text.lines().filter(of).map(str::to_owned).collect::<Vec<_>>()
        };
        let before = shape();
        assert_eq!(before.len(), 7, "{before:?}");
        lfs(&mnt, &["migrate", "f"]);
        assert_eq!(shape(), before);
        assert!(fs::read(mnt.join("f")).expect("read") == expected, "bytes differ");
        lfs(&mnt, &["migrate", "--restripe", "f"]);
        assert_eq!(shown(&mnt, "-c", "f"), "1");
        assert!(fs::read(mnt.join("f")).expect("read") == expected, "bytes differ");

        // Holes stay holes; empty files take layouts, too.
        sh(&mnt, "truncate -s 1G sparse; echo end >> sparse; : > empty");
        lfs(&mnt, &["migrate", "-c", "2", "sparse", "empty"]);
        let sparse = fs::metadata(mnt.join("sparse")).expect("stat");
        assert!(
            sparse.size() == (1 << 30) + 4 && sparse.blocks() < 1000,
            "{} blocks",
            sparse.blocks()
        );
        assert_eq!(
            (sh(&mnt, "tail -c 4 sparse"), shown(&mnt, "-c", "empty")),
            ("end\n".into(), "2".into())
        );

        // A writer that stays.
        let mut writer = OpenOptions::new().write(true).open(mnt.join("f")).expect("open");
        let said = "lfs migrate: cannot migrate 'f': Device or resource busy (16)\n";
        lfs_refuses(&mnt, &["migrate", "-n", "-c", "3", "f"], 16, said);
        writer.seek(SeekFrom::End(0)).expect("seek");
        writer.write_all(b"last").expect("write");
        drop(writer);
        lfs_refuses(
            &mnt,
            &["migrate", "-c", "2", "."],
            22,
            "lfs migrate: cannot migrate '.': Invalid argument (22)\n",
        );
        let said = "error: migrate: can't migrate '.': Device or resource busy (16); \
                    it is the root of the file system, or its names move\n";
        lfs_refuses(&mnt, &["migrate", "-d", "-m", "1", "."], 16, said);
        assert_eq!(sh(&mnt, "tail -c 4 f; ls -A"), "lastempty\nf\nsparse\n");

        // Writers that come and go.
        let stop = AtomicBool::new(false);
        let lines = std::thread::scope(|scope| {
            let appending = scope.spawn(|| {
                let mut lines = 0;
                while !stop.load(Ordering::Relaxed) || lines < 20 {
                    let mut log = OpenOptions::new()
                        .create(true)
                        .append(true)
                        .open(mnt.join("log"))
                        .expect("open");
                    writeln!(log, "line {lines}").expect("write");
                    lines += 1;
                    drop(log);
                    std::thread::sleep(Duration::from_millis(30));
                }
                lines
            });
            soon(&true, || mnt.join("log").exists());
            let tried = ["2", "3", "1"]
                .map(|count| e2e::lustre::try_lfs(&mnt, &["migrate", "-c", count, "log"]));
            // Before anything is judged: the writer must come to its end.
            stop.store(true, Ordering::Relaxed);
            let lines = appending.join().expect("writes");
            for tried in tried {
                // Given up if it changed during each copy: that is a matter of luck.
                assert!(
                    tried.status.success() || tried.status.code() == Some(libc::EAGAIN),
                    "{}",
                    text(&tried)
                );
            }
            lines
        });
        let expected: String = (0..lines).map(|n| format!("line {n}\n")).collect();
        assert_eq!(fs::read_to_string(mnt.join("log")).expect("read"), expected);
    });
}

#[test]
fn two_files_exchange_their_data() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--osts", "4"]);
    let mnt = cluster.mount();
    let (a, b) = (bytes(1_000_000), vec![7; 300_000]);
    lfs(&mnt, &["setstripe", "-c", "2", "-S", "64K", "a"]);
    lfs(&mnt, &["setstripe", "-c", "3", "-S", "128K", "b"]);
    fs::write(mnt.join("a"), &a).expect("write");
    fs::write(mnt.join("b"), &b).expect("write");
    let read = |name: &str| fs::read(mnt.join(name)).expect("read");
    lfs(&mnt, &["swap_layouts", "a", "b"]);
    assert!(read("a") == b && read("b") == a, "contents go with the layouts");
    assert_eq!((shown(&mnt, "-c", "a"), shown(&mnt, "-c", "b")), ("3".into(), "2".into()));
    fs::write(mnt.join("c"), b"third").expect("write");
    // In a ring, and one of them goes: each object finds its file.
    lfs(&mnt, &["swap_layouts", "b", "c"]);
    fs::remove_file(mnt.join("b")).expect("remove");
    assert!(read("a") == b && read("c") == a);
    lfs(&mnt, &["swap_layouts", "a", "c"]);
    assert!(read("a") == a && read("c") == b);
    let empty = fs::File::create(mnt.join("open")).expect("create");
    let said =
        "error: swap_layouts: can't swap layouts of 'a' and 'open': Device or resource busy (16)\n";
    lfs_refuses(&mnt, &["swap_layouts", "a", "open"], 16, said);
    drop(empty);
    let said = "error: swap_layouts: can't swap layouts of 'a' and 'a': Invalid argument (22)\n";
    lfs_refuses(&mnt, &["swap_layouts", "a", "a"], 22, said);

    // A crash and a check; then nothing remains of what is removed.
    cluster.kill();
    cluster.start();
    assert!(read("a") == a && read("c") == b, "a swap that was answered is durable");
    is_whole(&cluster);
    sh(&mnt, "rm a c open");
    let left = || {
        let found = sh(&cluster.dir(), "find ost* -path '*objects*' -type f | wc -l");
        found.trim().to_owned()
    };
    soon(&"0".to_owned(), left);
    is_whole(&cluster);
}

#[test]
fn components_go_with_their_bytes_on_all_mounts() {
    let Some(mut cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let mounts = cluster.mounts();
    let (here, there) = (&mounts[0], &mounts[1]);
    let content = bytes(5 << 20);
    lfs(
        here,
        &[
            "setstripe",
            "-E",
            "1M",
            "-c",
            "1",
            "-S",
            "64K",
            "-E",
            "4M",
            "-c",
            "2",
            "-E",
            "-1",
            "-c",
            "1",
            "f",
        ],
    );
    fs::write(here.join("f"), &content).expect("write");
    let id = |n: usize| {
        let all = lfs(here, &["getstripe", "f"]);
        let after =
            all.split("lcme_id:").nth(n + 1).unwrap_or_else(|| panic!("no component {n}: {all}"));
        after.split_whitespace().next().expect("a number").to_owned()
    };
    let generation = || shown(here, "-g", "f").parse::<u32>().expect("a number");
    let mut reader = File::open(there.join("f")).expect("open");
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("read");
    assert!(all == content, "bytes differ");
    let writer = OpenOptions::new().write(true).open(there.join("f")).expect("open");
    let (second, before) = (id(1), generation());
    let said = "error: setstripe: can't delete components of 'f': Device or resource busy (16); they have objects, and \
                somebody has the file open to write, or it is being settled\n";
    lfs_refuses(here, &["setstripe", "--component-del", "-I", &second, "f"], 16, said);
    drop(writer);
    // A close reaches the MDT a moment after close(2).
    soon(&0, || {
        let output =
            e2e::lustre::try_lfs(here, &["setstripe", "--component-del", "-I", &second, "f"]);
        output.status.code().unwrap_or(-1)
    });
    assert_eq!((shown(here, "--component-count", "f"), generation()), ("1".into(), before + 1));
    for mount in &mounts {
        assert_eq!(fs::metadata(mount.join("f")).expect("stat").len(), 1 << 20);
        assert!(
            fs::read(mount.join("f")).expect("read") == content[..1 << 20],
            "{}",
            mount.display()
        );
    }
    let mut rest = [0; 10];
    assert_eq!(reader.read_at(&mut rest, 2 << 20).expect("read"), 0, "who has it open sees it too");
    let blocks = |mount: &Path| fs::metadata(mount.join("f")).expect("stat").blocks() / 1024;
    soon(&(2, 2), || (blocks(here), blocks(there)));
    let objects =
        || sh(&cluster.dir(), "find ost* -path '*objects*' -type f | wc -l").trim().to_owned();
    soon(&"1".to_owned(), objects);

    // A write beyond the end is refused until there are components again; these are empty.
    let file = OpenOptions::new().read(true).write(true).open(there.join("f")).expect("open");
    let beyond = file.write_at(b"beyond", 3 << 20).and_then(|_| file.sync_all());
    assert!(beyond.is_err(), "no component covers it");
    drop(file);
    lfs(here, &["setstripe", "--component-add", "-E", "-1", "-c", "2", "f"]);
    let file = OpenOptions::new().read(true).write(true).open(there.join("f")).expect("open");
    file.write_all_at(b"end", 3 << 20).expect("write");
    let mut found = vec![0; (2 << 20) + 3];
    File::open(here.join("f")).expect("open").read_exact_at(&mut found, 1 << 20).expect("read");
    assert!(
        found[..2 << 20].iter().all(|byte| *byte == 0) && found.ends_with(b"end"),
        "nothing of what was there"
    );
    drop(file);

    let many = cluster.many_mut();
    let mds =
        (0..many.server_count()).find(|at| many.server_name(*at).contains("mds")).expect("an MDS");
    many.kill_server(mds);
    many.start_server_again(mds);
    let again = fs::read(there.join("f")).expect("read");
    assert!(
        again.len() == (3 << 20) + 3
            && again[..1 << 20] == content[..1 << 20]
            && again.ends_with(b"end")
    );
    let checked = cluster.many().fsck(&[]);
    assert!(checked.status.success(), "{}", text(&checked));
}

/// Files by list, by FID, with as many stripes as suit them; and how far it is.
#[test]
fn files_come_from_lists_and_by_fid() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4"]);
    let mnt = cluster.mount();
    sh(
        &mnt,
        "mkdir d; printf abc > d/a; printf abc > 'd/b c'; truncate -s 5G big; printf 'd/a\\nd/b c\\n' > list",
    );
    let count = |file: &str| shown(&mnt, "-c", file);
    lfs(&mnt, &["migrate", "-c", "2", "--files-from", "list"]);
    assert_eq!((count("d/a"), count("d/b c")), ("2".into(), "2".into()));
    let zero = Command::new(e2e::sheen())
        .args(["lfs", "migrate", "-c3", "-0", "--files-from", "-"])
        .current_dir(&mnt)
        .stdin(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            child.stdin.take().expect("piped").write_all(b"d/a\0d/b c\0")?;
            child.wait()
        });
    assert!(zero.expect("lfs runs").success());
    assert_eq!((count("d/a"), count("d/b c")), ("3".into(), "3".into()));
    let fid = lfs(&mnt, &["path2fid", "d/b c"]);
    let root = mnt.to_str().expect("text");
    lfs(&mnt, &["migrate", "-c", "4", "--fid", "--lustre-dir", root, fid.trim()]);
    assert_eq!((count("d/a"), count("d/b c")), ("3".into(), "4".into()));
    assert_eq!(sh(&mnt, "cat 'd/b c'; ls -A d"), "abca\nb c\n");
    // The square root of 5 GiB, and one more.
    let told = lfs(&mnt, &["migrate", "-A", "--stats", "big"]);
    assert_eq!(count("big"), "3");
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0] == "big:" && lines.last().expect("lines").ends_with("size: 5120, pct: 100% }"),
        "{told}"
    );
    // Errors are reported, and the rest is done.
    sh(&mnt, "printf 'none\\nd/a\\n' > list");
    let said = "lfs migrate: cannot migrate 'none': No such file or directory (2)\n";
    lfs_refuses(&mnt, &["migrate", "-c", "1", "--files-from", "list"], 2, said);
    assert_eq!(count("d/a"), "1");
}
