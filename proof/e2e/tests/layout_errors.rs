//! Layouts that cannot be had: what is said, and that nothing is lost or left behind.

use e2e::cluster::Cluster;
use e2e::lustre::{lctl, lctl_says, lfs, lfs_refuses, parameter, pool_list, soon};
use e2e::programs::{sh, write_and_sync};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

#[test]
fn impossible_layouts_are_refused_in_words() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "3", "--ost-size", "64M"]);
    let mnt = cluster.mount();
    fs::create_dir(mnt.join("d")).expect("a folder");

    // Stripe counts: what no layout can have, and what these OSTs do not have.
    let tried = e2e::lustre::try_lfs(&mnt, &["setstripe", "-c", "2001", "x"]);
    let said = String::from_utf8_lossy(&tried.stderr);
    assert!(
        said.starts_with("error: setstripe: ") && said.contains("0 to 2000, or -1 for all OSTs"),
        "{said}"
    );
    assert_eq!(tried.status.code(), Some(22));
    lfs(&mnt, &["setstripe", "-c", "100", "wide"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-c", "wide"]), "3\n", "as many as there are OSTs");
    lfs(&mnt, &["setstripe", "-C", "2000", "d/over"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-c", "d/over"]), "2000\n");
    fs::write(mnt.join("d/over"), vec![5; 300_000]).expect("write");
    assert_eq!(fs::read(mnt.join("d/over")).expect("read"), vec![5; 300_000]);

    // More than an attribute can hold: of a file and of a directory.
    let two = ["setstripe", "-E", "1M", "-C", "2000", "-E", "-1", "-C", "2000"];
    let hint = "Argument list too long (7); it would take more than 65536 bytes as an attribute; use fewer stripes or \
                components\n";
    let said = format!("error: setstripe: can't set layout of 'x': {hint}");
    lfs_refuses(&mnt, &[&two[..], &["x"]].concat(), 7, &said);
    let said = format!("error: setstripe: can't set default layout of 'd': {hint}");
    lfs_refuses(&mnt, &[&two[..], &["d"]].concat(), 7, &said);
    lfs(&mnt, &["setstripe", "-E", "1M", "-C", "1300", "-E", "-1", "-C", "1300", "d/fits"]);
    assert!(lfs(&mnt, &["getstripe", "d/fits"]).contains("lmm_stripe_count:  1300"));

    // OSTs that do not exist, were set aside, are outside a pool, are full.
    let said = "error: setstripe: OST 7 of 'x' does not exist; lfs osts shows those that do\n";
    lfs_refuses(&mnt, &["setstripe", "-i", "7", "x"], 22, said);
    lfs_refuses(&mnt, &["setstripe", "-o", "0,7", "x"], 22, said);
    lctl(&cluster, &["--device", "sheen-OST0002-osc-MDT0000", "deactivate"]);
    let nowhere = |file: &str| {
        format!(
            "error: setstripe: can't set layout of '{file}': No space left on device (28); no OST that it may be on has space and \
             is active; lfs df shows them\n"
        )
    };
    lfs_refuses(&mnt, &["setstripe", "-i", "2", "x"], 28, &nowhere("x"));
    for command in [&["pool_new", "sheen.one"][..], &["pool_add", "sheen.one", "OST0002"]] {
        lctl_says(&cluster, command);
    }
    let pool = format!("{}.one", mnt.display());
    soon(&"Pool: sheen.one\nsheen-OST0002_UUID\n".to_owned(), || pool_list(&mnt, &pool));
    soon(&"sheen-OST0002_UUID\n".to_owned(), || parameter(&cluster, "lod.*.pools.one"));
    lfs_refuses(&mnt, &["setstripe", "-p", "one", "x"], 28, &nowhere("x"));
    let said = "error: setstripe: can't set layout of 'x': Invalid argument (22)\n";
    lfs_refuses(&mnt, &["setstripe", "-p", "one", "-i", "1", "x"], 22, said);
    // A directory may name the pool; its files can be made, but not written, until there is room.
    lfs(&mnt, &["setstripe", "-p", "one", "d"]);
    fs::write(mnt.join("d/empty"), b"").expect("create");
    let mut file = OpenOptions::new().write(true).open(mnt.join("d/empty")).expect("open");
    let write = file.write_all(b"data").and_then(|()| file.sync_all());
    assert_eq!(write.expect_err("nowhere").raw_os_error(), Some(libc::ENOSPC));
    drop(file);
    lctl(&cluster, &["--device", "sheen-OST0002-osc-MDT0000", "activate"]);
    fs::write(mnt.join("d/empty"), b"data").expect("there is room again");
    assert_eq!(lfs(&mnt, &["getstripe", "-i", "d/empty"]), "2\n");
    // Full: the file that needs it alone fails alone.
    lfs(&mnt, &["setstripe", "-i", "0", "big"]);
    let full = write_and_sync(&mnt.join("big"), &vec![1; 80 << 20]);
    assert_eq!(full.expect_err("64 MiB are not 80").raw_os_error(), Some(libc::ENOSPC));
    lfs(&mnt, &["setstripe", "-i", "1", "elsewhere"]);
    fs::write(mnt.join("elsewhere"), vec![2; 1 << 20]).expect("write to another OST");
    lfs(&mnt, &["setstripe", "-i", "0", "small"]);
    let full = write_and_sync(&mnt.join("small"), &vec![1; 8 << 20]);
    assert_eq!(full.expect_err("its OST is full").raw_os_error(), Some(libc::ENOSPC));
    fs::remove_file(mnt.join("small")).expect("remove");
    // The refused operations left nothing behind.
    assert_eq!(sh(&mnt, "ls"), "big\nd\nelsewhere\nwide\n");
    assert_eq!(fs::read(mnt.join("elsewhere")).expect("read"), vec![2; 1 << 20]);
}

/// Bytes that no component covers cannot be written, and no attempt changes the size: EFBIG, as
/// beyond the largest file of all.
#[test]
fn nothing_grows_beyond_the_last_component() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2", "--ost-size", "64M"]);
    let mnt = cluster.mount();
    const END: u64 = 1 << 20;
    lfs(&mnt, &["setstripe", "-E", "1M", "f"]);
    let open = |flags: i32| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(mnt.join("f"))
            .expect("open")
    };
    let size = || fs::metadata(mnt.join("f")).expect("stat").len();
    let too_big = |done: std::io::Result<usize>, size_is: u64, what: &str| {
        assert_eq!(done.expect_err(what).raw_os_error(), Some(libc::EFBIG), "{what}");
        assert_eq!(size(), size_is, "{what}");
    };
    let plain = open(0);
    too_big(plain.set_len(END + 1).map(|()| 0), 0, "truncate");
    plain.set_len(END).expect("up to its end");
    let mut appending = OpenOptions::new().append(true).open(mnt.join("f")).expect("open");
    too_big(appending.write(b"hello\n"), END, "append");
    // Kept, through, past the cache; where the layout ends and far behind it.
    for (flags, what) in [(0, "kept"), (libc::O_SYNC, "through"), (libc::O_DIRECT, "direct")] {
        let file = open(flags);
        let page = vec![7; 4096];
        for at in [END, END + 4096, 1 << 30] {
            too_big(file.write_at(&page, at), END, what);
        }
        let three = vec![9; 3 * 4096];
        assert_eq!(
            file.write_at(&three, END - 4096).expect("as much as there is room for"),
            4096,
            "{what}"
        );
        assert_eq!(size(), END);
    }
    for (mode, what) in [
        (0, "fallocate"),
        (libc::FALLOC_FL_KEEP_SIZE, "reserve"),
        (libc::FALLOC_FL_ZERO_RANGE, "zero"),
    ] {
        // SAFETY: the descriptor is open.
        let done = unsafe { libc::fallocate(plain.as_raw_fd(), mode, 0, END as i64 + 4096) };
        let done = if done == 0 { Ok(0) } else { Err(std::io::Error::last_os_error()) };
        too_big(done, END, what);
    }
    // An append writes as much as there is room for.
    plain.set_len(END - 3).expect("shorter");
    assert_eq!(appending.write(b"hello\n").expect("three bytes"), 3);
    too_big(appending.write(b"lo\n"), END, "append again");
    plain.sync_all().expect("sync");
    assert_eq!(fs::read(mnt.join("f")).expect("read")[END as usize - 3..], *b"hel");
    assert!(
        sh(&mnt, "dd if=/dev/zero of=f bs=1M count=2 conv=notrunc 2>&1 || true; stat -c %s f")
            .contains("File too large")
    );
    assert_eq!(size(), END);
    // Components that come later are there to be written.
    drop((plain, appending));
    lfs(&mnt, &["setstripe", "--component-add", "-E", "-1", "f"]);
    let mut appending = OpenOptions::new().append(true).open(mnt.join("f")).expect("open");
    appending.write_all(b"lo\n").expect("append");
    assert_eq!(size(), END + 3);
    drop(appending);

    // An OST that is full: an append that goes through leaves the size as it was.
    lfs(&mnt, &["setstripe", "-i", "0", "fill"]);
    lfs(&mnt, &["setstripe", "-i", "0", "log"]);
    fs::write(mnt.join("log"), b"begin").expect("write");
    let full = write_and_sync(&mnt.join("fill"), &vec![1; 80 << 20]);
    assert_eq!(full.expect_err("64 MiB are not 80").raw_os_error(), Some(libc::ENOSPC));
    let mut log = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_SYNC)
        .open(mnt.join("log"))
        .expect("open");
    let refused =
        log.write(&vec![2; 8 << 20]).map(|written| assert!(written < 8 << 20, "the OST is full"));
    if let Err(error) = &refused {
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
    let before = fs::metadata(mnt.join("log")).expect("stat").len();
    let error =
        (0..64).find_map(|_| log.write(&vec![2; 1 << 20]).err()).expect("it is full in the end");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    let after = fs::metadata(mnt.join("log")).expect("stat").len();
    assert!((after - 5).is_multiple_of(4096) && after >= before, "{before} {after}");
    let again = log.write(&vec![2; 1 << 20]).map_or(0, |written| written as u64);
    assert_eq!(
        fs::metadata(mnt.join("log")).expect("stat").len(),
        after + again,
        "no failed append changes the size"
    );
}
