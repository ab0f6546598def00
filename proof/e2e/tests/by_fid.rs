//! Files by FID: paths are found, `.lustre/fid` opens, `rmfid` removes, versions grow.

use e2e::cluster::Cluster;
use e2e::lustre::{lfs, lfs_refuses, try_lfs};
use e2e::programs::{sh, try_sh};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn fid(mnt: &Path, file: &str) -> String {
    lfs(mnt, &["path2fid", file]).trim_end().to_owned()
}

#[test]
fn paths_and_files_by_fid() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&[]);
    let mnt = cluster.mount();
    sh(&mnt, "mkdir -p a/b d; echo data > a/b/f; ln a/b/f a/g; echo other > d/o");
    let (f, b, d, root) = (fid(&mnt, "a/b/f"), fid(&mnt, "a/b"), fid(&mnt, "d"), fid(&mnt, "."));
    let at = mnt.display().to_string();

    // Paths, in Lustre's forms.
    assert_eq!(lfs(&mnt, &["fid2path", "sheen", &f]), "a/b/f\na/g\n");
    assert_eq!(lfs(&mnt, &["fid2path", &at, &f, &b]), format!("{at}/a/b/f\n{at}/a/g\n{at}/a/b\n"));
    assert_eq!(lfs(&mnt, &["fid2path", "sheen", &root]), "/\n");
    assert_eq!(lfs(&mnt, &["fid2path", &at, &root]), format!("{at}//\n"));
    assert_eq!(lfs(&mnt, &["fid2path", "-f", "--link", "1", "sheen", &f]), format!("{f} a/g\n"));
    assert_eq!(lfs(&mnt, &["fid2path", "-n", "-0", "sheen", &f]), "f\0g\0");
    assert_eq!(lfs(&mnt, &["fid2path", "-c", "sheen", &f]), "0 a/b/f\n1 a/g\n");
    let a = fid(&mnt, "a");
    assert_eq!(lfs(&mnt, &["path2fid", "-p", "a/g"]), format!("{b}/f\t{a}/g\n"));
    assert_eq!(
        lfs(&mnt, &["path2fid", "--parents", "a/b", "d"]),
        format!("a/b: {a}/b\nd: {root}/d\n")
    );

    // Names follow renames, exchanges and removals, and are there after a restart.
    sh(&mnt, "mv a c; mv c/g d/h; mv d/h d/i; mv d/o d/i2; mv -f d/i2 d/o");
    assert_eq!(lfs(&mnt, &["fid2path", "sheen", &f]), "c/b/f\nd/i\n");
    assert_eq!(lfs(&mnt, &["fid2path", "sheen", &b]), "c/b\n");
    cluster.stop();
    cluster.start();
    sh(&mnt, "rm c/b/f; echo new > d/new; mv d/new d/o");
    assert_eq!(lfs(&mnt, &["fid2path", "sheen", &f]), "d/i\n");
    assert_eq!(lfs(&mnt, &["fid2path", "sheen", &fid(&mnt, "d/o")]), "d/o\n");

    // The files themselves.
    let by_fid = |fid: &str| mnt.join(".lustre/fid").join(fid);
    assert_eq!(fs::read_to_string(by_fid(&f)).expect("read"), "data\n");
    assert_eq!(
        fs::metadata(by_fid(&f)).expect("stat").ino(),
        fs::metadata(mnt.join("d/i")).expect("stat").ino()
    );
    sh(
        &mnt,
        &format!("echo more >> .lustre/fid/{f}; mkdir .lustre/fid/{d}/below; touch d/below/x"),
    );
    assert_eq!(fs::read_to_string(mnt.join("d/i")).expect("read"), "data\nmore\n");
    assert_eq!(sh(&mnt, "cat d/i; ls d"), "data\nmore\nbelow\ni\no\n");
    assert_eq!(sh(&mnt, "ls -A"), "c\nd\n", "it is in no listing");
    let none = "[0x200000fff:0x1:0x0]";
    let missing = |path: &Path| fs::metadata(path).expect_err("nothing is there").raw_os_error();
    for path in
        [by_fid(none), by_fid("nonsense"), mnt.join(".lustre/x"), by_fid("[0x200000002:0x3:0x0]")]
    {
        let errno = missing(&path);
        assert!(
            errno == Some(libc::ENOENT) || errno == Some(libc::EPERM),
            "{}: {errno:?}",
            path.display()
        );
    }
    assert!(
        !try_sh(&mnt, "touch .lustre/fid/x").status.success()
            && !try_sh(&mnt, "rmdir .lustre").status.success()
    );
    assert_eq!(
        sh(&mnt, "stat -c '%a %U %F' .lustre .lustre/fid"),
        "100 root directory\n100 root directory\n"
    );
    let mut user = Command::new("cat");
    user.arg(by_fid(&f)).stdin(Stdio::null()).uid(12345).gid(12345);
    let said = user.output().expect("cat runs");
    assert!(
        String::from_utf8_lossy(&said.stderr).contains("Permission denied"),
        "a FID is a way past directories"
    );

    // Directories above `.lustre/fid` are found in it, too, and look the same.
    let same = |by: &str, path: &str| {
        let (found, there) =
            (fs::metadata(by_fid(by)).expect("stat"), fs::metadata(mnt.join(path)).expect("stat"));
        assert_eq!(
            (found.ino(), found.mode(), found.nlink()),
            (there.ino(), there.mode(), there.nlink()),
            "{path}"
        );
    };
    same(&root, ".");
    same(&fid(&mnt, ".lustre"), ".lustre");
    same(&fid(&mnt, ".lustre/fid"), ".lustre/fid");
    let above = format!(".lustre/fid/{root}");
    assert_eq!(
        sh(
            &mnt,
            &format!("ls {above}; ls {above}/d; cat {above}/d/i; cat {above}/.lustre/fid/{f}")
        ),
        { "c\nd\nbelow\ni\no\ndata\nmore\ndata\nmore\n" }
    );
    // Names that are made, moved and removed in one are so in the other, at once.
    sh(
        &mnt,
        &format!(
            "mkdir {above}/m; touch {above}/n; test -d m; test -f n; mv n m/; test ! -e {above}/n"
        ),
    );
    sh(&mnt, &format!("test ! -e p; touch {above}/p; test -e p; rm {above}/p; test ! -e p"));
    sh(
        &mnt,
        &format!(
            "test ! -e o; touch o; test -e {above}/o; rm o; test ! -e {above}/o; rm {above}/m/n; rmdir m"
        ),
    );
    assert_eq!(
        sh(&mnt, &format!("chmod 711 .; stat -c %a {above}; chmod 755 {above}; stat -c %a .")),
        "711\n755\n"
    );
    assert_eq!(fid(&mnt, &above), root);

    // Versions.
    let version =
        || lfs(&mnt, &["data_version", "d/i"]).trim_end().parse::<u64>().expect("a number");
    let before = version();
    assert_eq!(version(), before);
    fs::write(mnt.join("d/i"), "changed\n").expect("write");
    assert!(version() > before);
    lfs_refuses(
        &mnt,
        &["data_version", "d"],
        22,
        "error: data_version: can't get version of 'd': Invalid argument (22)\n",
    );

    // All names go.
    sh(&mnt, "ln d/i d/j; ln d/i c/k");
    lfs(&mnt, &["rmfid", "sheen", &f]);
    assert_eq!(sh(&mnt, "ls d c"), "c:\nb\n\nd:\nbelow\no\n");
    let said = |what: &str, why: &str| format!("error: rmfid: can't remove {what}: {why}\n");
    lfs_refuses(&mnt, &["rmfid", "sheen", &f], 2, &said(&f, "No such file or directory (2)"));
    lfs_refuses(&mnt, &["rmfid", &at, &d], 21, &said(&d, "Is a directory (21)"));
    lfs_refuses(
        &mnt,
        &["rmfid", "sheen", "0x1"],
        22,
        "error: rmfid: bad FID format '0x1': Invalid argument (22)\n",
    );
    let said = "error: fid2path: can't find the file system 'other': No such device (19)\n";
    lfs_refuses(&mnt, &["fid2path", "other", &d], 19, said);
    let said =
        format!("error: fid2path: can't find path of {none}: No such file or directory (2)\n");
    lfs_refuses(&mnt, &["fid2path", "sheen", none], 2, &said);
    assert_eq!(try_lfs(&mnt, &["fid2path", "sheen"]).status.code(), Some(22));

    // More names than are remembered: the remembered ones are found, and nothing else suffers.
    sh(&mnt, "touch d/many; for n in $(seq 300); do ln d/many d/many-$n; done; rm d/many");
    let many = fid(&mnt, "d/many-300");
    let known = lfs(&mnt, &["fid2path", "sheen", &many]).lines().count();
    assert!((50..300).contains(&known), "{known}");
    assert_eq!(fs::metadata(mnt.join("d/many-7")).expect("stat").nlink(), 300);
}
