//! Layouts are carried about by ordinary tools: tar, cp, rsync, setfattr, into the mount and out of
//! it.

use e2e::cluster::Cluster;
use e2e::lustre::lfs;
use e2e::need_program;
use e2e::programs::{sh, try_sh};
use std::fs;
use std::path::Path;

/// The part of a layout that does not belong to one file only.
fn shape(mnt: &Path, file: &str) -> Vec<String> {
    let text = lfs(mnt, &["getstripe", "-d", "--yaml", file]);
    let kept =
        ["e_start", "e_end", "stripe_count", "stripe_size", "extension_size", "pattern", "pool"];
    text.lines().filter(|line| kept.iter().any(|k| line.contains(k))).map(str::to_owned).collect()
}

const FILES: [&str; 6] = ["plain", "two", "pfl", "dom", "sel", "d/inherits"];

#[test]
fn tar_cp_and_rsync_carry_layouts() {
    let tools = ["tar", "rsync", "getfattr", "setfattr"];
    if !e2e::can_mount() || tools.iter().any(|tool| need_program(tool).is_none()) {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4"]);
    let (mnt, out) = (cluster.mount(), cluster.outside());
    sh(&mnt, "mkdir -p src/d src/below");
    lfs(&mnt, &["setstripe", "-c", "3", "-S", "256K", "src/d"]);
    lfs(&mnt, &["setstripe", "-c", "2", "-S", "1M", "src/two"]);
    lfs(
        &mnt,
        &[
            "setstripe",
            "-E",
            "1M",
            "-S",
            "64K",
            "-c",
            "1",
            "-E",
            "-1",
            "-C",
            "6",
            "-S",
            "1M",
            "src/pfl",
        ],
    );
    lfs(&mnt, &["setstripe", "-E", "128K", "-L", "mdt", "-E", "-1", "-c", "2", "src/dom"]);
    lfs(
        &mnt,
        &["setstripe", "-E", "1G", "-z", "2M", "-S", "1M", "-E", "-1", "-z", "4M", "src/sel"],
    );
    for (n, file) in (1u8..).zip(FILES) {
        fs::write(mnt.join("src").join(file), vec![n; 3 << 20]).expect("write");
    }
    let same = |tree: &str| {
        sh(&mnt, &format!("diff -r src {tree}"));
    };

    // Root sees the layout in lists, others do not; it is what was always there by name.
    let listed = sh(&mnt, "getfattr -m - src/two src/d src/below");
    assert_eq!(listed, "# file: src/two\ntrusted.lov\n\n# file: src/d\ntrusted.lov\n\n");
    assert!(sh(&mnt, "getfattr -e hex -n trusted.lov src/two").contains("0xd00bd10b01000000"));
    let as_user = "setpriv --reuid 12345 --regid 12345 --clear-groups getfattr -m - src/two";
    if need_program("setpriv").is_some() {
        assert_eq!(sh(&mnt, as_user), "");
    }
    let no_lmv = try_sh(&mnt, "getfattr --only-values -n trusted.lmv src/d");
    assert!(
        String::from_utf8_lossy(&no_lmv.stderr).contains("No such attribute"),
        "directories have one stripe"
    );

    // tar restores everything: it sets attributes before it writes.
    let flags = "--xattrs --xattrs-include='trusted.*'";
    let (tar, at) = (out.join("t.tar"), mnt.display());
    sh(
        &mnt,
        &format!(
            "tar {flags} -cf {t} src; mkdir tarred; tar {flags} -C tarred -xf {t}",
            t = tar.display()
        ),
    );
    same("tarred/src");
    for file in FILES.into_iter().chain(["d"]) {
        assert_eq!(
            shape(&mnt, &format!("tarred/src/{file}")),
            shape(&mnt, &format!("src/{file}")),
            "{file}"
        );
    }

    // cp and rsync carry it out, and default layouts of directories in; files have data by then and
    // keep their own.
    if try_sh(&out, "touch t; setfattr -n trusted.probe -v x t").status.success() {
        sh(&out, &format!("cp -a {at}/src copied; rsync -aX {at}/src/ synced/"));
        for tree in ["copied", "synced"] {
            let value = |dir: &Path, tree: &str| {
                sh(
                    dir,
                    &format!("cd {tree}; getfattr -e hex -n trusted.lov two pfl dom d d/inherits"),
                )
            };
            assert_eq!(value(&out, tree), value(&mnt, "src"));
            sh(&out, &format!("cp -a {tree} {at}/{tree}-cp; rsync -aX {tree}/ {at}/{tree}-rsync/"));
            for back in [format!("{tree}-cp"), format!("{tree}-rsync")] {
                same(&back);
                assert_eq!(shape(&mnt, &format!("{back}/d")), shape(&mnt, "src/d"), "{back}");
            }
        }
    } else {
        eprintln!("skipped in part: {} has no trusted attributes", out.display());
    }

    // By hand: on a file without data, on a directory, on a file with data.
    let set = "v=$(getfattr --only-values -e hex -n trusted.lov src/pfl | od -An -v -tx1 | tr -d ' \\n'); setfattr -n trusted.lov -v 0x$v";
    sh(
        &mnt,
        &format!(
            "mknod empty p; rm empty; mkdir byhand; {set} byhand; cp src/plain full; {set} full"
        ),
    );
    assert_eq!(shape(&mnt, "byhand"), shape(&mnt, "src/pfl"));
    assert_eq!(shape(&mnt, "full"), shape(&mnt, "src/plain"), "what has data keeps its layout");
    sh(&mnt, "cp src/pfl byhand/f; cmp src/pfl byhand/f; setfattr -x trusted.lov byhand");
    assert_eq!(shape(&mnt, "byhand/f"), shape(&mnt, "src/pfl"));
    assert_eq!(sh(&mnt, "getfattr -m - byhand"), "");
    // Only the file system's own name for users says no.
    let refused = try_sh(&mnt, "setfattr -n lustre.lov -v 0x00 full");
    assert!(!refused.status.success());
}
