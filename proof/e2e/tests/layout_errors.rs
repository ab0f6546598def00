//! Layouts that cannot be had: what is said, and that nothing is lost or left behind.

use e2e::cluster::Cluster;
use e2e::lustre::{lctl, lctl_says, lfs, lfs_refuses, soon};
use e2e::programs::{sh, write_and_sync};
use std::fs::{self, OpenOptions};
use std::io::Write;

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
    assert!(said.starts_with("error: setstripe: ") && said.contains("0 to 2000, or -1 for all OSTs"), "{said}");
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
    soon(&"Pool: sheen.one\nsheen-OST0002_UUID\n".to_owned(), || lfs(&mnt, &["pool_list", &pool]));
    let known = || lctl(&cluster, &["get_param", "-n", "lod.*.pools.one"]);
    soon(&"sheen-OST0002_UUID\n".to_owned(), known);
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
    // Nothing was left behind by what was refused.
    assert_eq!(sh(&mnt, "ls"), "big\nd\nelsewhere\nwide\n");
    assert_eq!(fs::read(mnt.join("elsewhere")).expect("read"), vec![2; 1 << 20]);
}
