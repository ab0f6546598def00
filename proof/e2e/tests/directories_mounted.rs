//! Mounts of a directory, and filesets of nodemaps. Two MDTs, and a client that mounts the whole
//! file system beside one that mounts parts of it.

use e2e::cluster::Cluster;
use e2e::lustre::{lctl_says, lfs, soon, try_lfs};
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

struct Rig {
    cluster: Cluster,
    /// The whole file system.
    whole: PathBuf,
    /// The mount point of the other client.
    part: PathBuf,
}

impl Rig {
    fn new() -> Option<Rig> {
        if !e2e::can_mount() {
            return None;
        }
        let cluster = Cluster::with_clients_and_mdts("1", &["", ""], 2)?;
        let [whole, part] = <[PathBuf; 2]>::try_from(cluster.mounts()).expect("two mounts");
        sh(
            &whole,
            "mkdir -p 'home/a b/inner' other; echo one > 'home/a b/file'; echo two > other/file",
        );
        sh(&whole, "ln 'home/a b/file' other/both; ln -s 'a b' home/link");
        lfs(&whole, &["mkdir", "-i", "1", "home/far"]);
        sh(&whole, "mkdir home/far/deep; echo three > home/far/deep/file");
        cluster.many().unmount_client(1);
        Some(Rig { cluster, whole, part })
    }

    fn mount(&self, directory: &str) {
        let output = self.cluster.many().try_mount_directory(1, directory);
        assert!(output.status.success(), "{directory}: {}", text(&output));
    }

    /// Mounting this directory fails with these words.
    fn refused(&self, directory: &str, said: &str) {
        let output = self.cluster.many().try_mount_directory(1, directory);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(2), "{directory}: {told}");
        assert!(told.contains(said), "{directory}: {told}");
    }

    fn unmount(&self) {
        self.cluster.many().unmount_client(1);
    }

    fn fid(&self, path: &str) -> String {
        lfs(&self.whole, &["path2fid", path]).trim().to_owned()
    }

    fn lctl(&self, args: &[&str]) {
        assert_eq!(lctl_says(&self.cluster, args), "", "{args:?}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_directory_is_mounted() {
    let Some(rig) = Rig::new() else { return };
    rig.mount("/home/a b");
    assert_eq!(names(&rig.part), ["file", "inner"]);
    let (root, above) = (fs::metadata(&rig.part).unwrap(), rig.whole.join("home/a b"));
    assert_eq!(root.ino(), fs::metadata(above).unwrap().ino());
    let table = fs::read_to_string("/proc/mounts").unwrap();
    assert!(table.contains(":/sheen/home/a\\040b "), "{table}");
    // It is one file system: each sees what the other does.
    sh(&rig.part, "echo more >> file; mv file inner/; test $(cat inner/file | wc -l) = 2");
    assert_eq!(read(&rig.whole.join("home/a b/inner/file")), "one\nmore\n");
    sh(&rig.whole, "mv 'home/a b/inner/file' 'home/a b/'");
    assert_eq!(read(&rig.part.join("file")), "one\nmore\n");

    // By FID, what is below the directory is found, by its paths there; all else is not.
    let (inside, outside) = (rig.fid("other/both"), rig.fid("other/file"));
    let by_fid = |fid: &str| fs::read_to_string(rig.part.join(".lustre/fid").join(fid));
    assert_eq!(by_fid(&inside).expect("it is below"), "one\nmore\n");
    let paths = |args: &[&str]| lfs(&rig.part, &[&["fid2path"], args].concat());
    let shown = |name: &str| format!("{}\n", rig.part.join(name).display());
    assert_eq!(paths(&[".", &inside]), shown("file"), "its other name is elsewhere");
    assert_eq!(paths(&[".", &rig.fid("home/a b/inner")]), shown("inner"));
    assert_eq!(lfs(&rig.part, &["path2fid", "."]).trim(), rig.fid("home/a b"));
    for fid in [&outside, &rig.fid("."), &rig.fid("home"), &rig.fid("home/far")] {
        assert_eq!(by_fid(fid).expect_err("it is elsewhere").kind(), ErrorKind::NotFound, "{fid}");
        assert!(!try_lfs(&rig.part, &["fid2path", ".", fid]).status.success(), "{fid}");
    }
    // What goes elsewhere is no longer below.
    let inner = rig.fid("home/a b/inner");
    sh(&rig.whole, "mv 'home/a b/inner' other/");
    assert!(!try_lfs(&rig.part, &["fid2path", ".", &inner]).status.success());
    sh(&rig.whole, "mv other/inner 'home/a b/'");
    rig.unmount();

    // On another MDT, and on the way to one.
    rig.mount("/home/far/deep");
    assert_eq!(read(&rig.part.join("file")), "three\n");
    sh(&rig.part, "mkdir made; echo four > made/file; rm -r made");
    rig.unmount();
    rig.mount("/home/");
    assert_eq!(names(&rig.part), ["a b", "far", "link"]);
    assert_eq!(read(&rig.part.join("far/deep/file")), "three\n");
    rig.unmount();

    // Below a directory with a stripe on each MDT, and below another one in it.
    lfs(&rig.whole, &["mkdir", "-c", "2", "home/wide"]);
    sh(&rig.whole, "mkdir home/wide/0 home/wide/1 home/wide/2 home/wide/3");
    lfs(&rig.whole, &["mkdir", "-c", "2", "home/wide/more"]);
    sh(&rig.whole, "for n in 0 1 2 3; do mkdir home/wide/more/$n; done");
    let stripes: BTreeSet<String> = (0..4)
        .map(|n| lfs(&rig.whole, &["getstripe", "-m", &format!("home/wide/more/{n}")]))
        .collect();
    assert_eq!(stripes.len(), 2, "names are in both stripes: {stripes:?}");
    for n in 0..4 {
        for directory in [format!("/home/wide/{n}"), format!("/home/wide/more/{n}")] {
            rig.mount(&directory);
            sh(&rig.part, &format!("echo {n} > file"));
            assert_eq!(read(&rig.whole.join(&directory[1..]).join("file")), format!("{n}\n"));
            rig.unmount();
        }
    }
    rig.mount("/home/wide");
    assert_eq!(names(&rig.part), ["0", "1", "2", "3", "more"]);
    rig.unmount();
    rig.refused("/home/wide/absent", "there is no such directory");

    for (directory, said) in [
        ("/home/absent", "sheen/home/absent cannot be mounted: there is no such directory"),
        ("/other/file", "sheen/other/file cannot be mounted: it is no directory"),
        ("/home/link", "sheen/home/link cannot be mounted: it is no directory"),
        ("/home/far/absent", "sheen/home/far/absent cannot be mounted: there is no such directory"),
    ] {
        rig.refused(directory, said);
    }
    assert!(rig.cluster.many().fsck(&[]).status.success());
}

#[test]
fn the_fileset_of_a_nodemap_is_what_its_clients_mount() {
    let Some(rig) = Rig::new() else { return };
    // Until then it has the whole file system.
    rig.mount("");
    assert_eq!(read(&rig.part.join("other/file")), "two\n");
    for (n, name) in ["admins", "tenants"].into_iter().enumerate() {
        let range = format!("{}@tcp", rig.cluster.many().client_address(n));
        rig.lctl(&["nodemap_add", name]);
        rig.lctl(&["nodemap_add_range", "--name", name, "--range", &range]);
        for property in ["admin", "trusted"] {
            let property = ["--name", name, "--property", property, "--value", "1"];
            rig.lctl(&[&["nodemap_modify"][..], &property].concat());
        }
    }
    let fileset = |path: &str| {
        rig.lctl(&["nodemap_set_fileset", "--name", "tenants", "--fileset", path]);
    };
    fileset("/home");
    rig.lctl(&["nodemap_activate", "1"]);
    // The mount that it has leads past the fileset.
    let listed = || fs::read_dir(&rig.part).map(|_| ()).map_err(|error| error.kind());
    soon(&Err(ErrorKind::PermissionDenied), listed);
    assert!(fs::read(rig.part.join("other/file")).is_err());
    assert_eq!(read(&rig.whole.join("other/file")), "two\n", "the other nodemap has none");
    rig.unmount();

    rig.mount("");
    assert_eq!(names(&rig.part), ["a b", "far", "link"]);
    assert_eq!(read(&rig.part.join("far/deep/file")), "three\n");
    let outside = rig.fid("other/file");
    assert!(fs::metadata(rig.part.join(".lustre/fid").join(outside)).is_err());
    // All of it is one realm, on both MDTs, and stays one when it changes, or goes to another MDT.
    let realm = || {
        let listed = lfs(&rig.whole, &["project", "-r", "home"]);
        let ids: BTreeSet<&str> =
            listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let [id] = ids.into_iter().collect::<Vec<_>>()[..] else { panic!("{listed}") };
        id.parse::<u32>().expect("a number")
    };
    let id = realm();
    assert!(id >= 1 << 31, "{id}");
    sh(&rig.part, "mv 'a b/file' far/moved; ln far/moved 'a b/file'; rm far/moved");
    sh(&rig.part, "mkdir far/new; cat far/deep/file > far/new/file; mv far/new 'a b/'");
    assert_eq!(realm(), id);
    lfs(&rig.whole, &["migrate", "-m", "1", "home/a b"]);
    lfs(&rig.whole, &["setdirstripe", "-c", "2", "home/far"]);
    assert_eq!(read(&rig.part.join("a b/new/file")), "three\n");
    sh(&rig.part, "for n in 1 2 3 4 5 6 7 8; do echo $n > far/$n; done; rm far/[1-7]");
    assert_eq!((realm(), read(&rig.whole.join("home/far/8"))), (id, "8\n".to_owned()));
    for words in ["ln home/far/8 other/", "ln other/file home/"] {
        let refused = text(&try_sh(&rig.whole, words));
        assert!(refused.contains("Invalid cross-device link"), "{words}: {refused}");
    }
    sh(&rig.whole, "mv home/far/8 other/ && test ! -e home/far/8");
    let copied = lfs(&rig.whole, &["project", "-d", "other/8"]);
    assert_eq!(copied, "    0 - other/8\n", "mv(1) has copied it");
    rig.unmount();
    rig.mount("/far/deep");
    assert_eq!(names(&rig.part), ["file"]);
    rig.unmount();
    rig.refused("/other", "there is no such directory");

    // On the way to these is a directory with a stripe on each MDT.
    lfs(&rig.whole, &["mkdir", "-c", "2", "other/wide"]);
    for n in 0..4 {
        sh(&rig.whole, &format!("mkdir other/wide/{n}; echo {n} > other/wide/{n}/file"));
        fileset(&format!("/other/wide/{n}"));
        rig.mount("");
        assert_eq!(read(&rig.part.join("file")), format!("{n}\n"));
        rig.unmount();
    }

    fileset("/absent");
    let is_absent = || {
        let output = rig.cluster.many().try_mount_directory(1, "");
        if output.status.success() {
            rig.unmount();
        }
        text(&output).contains("has a fileset that is no directory")
    };
    soon(&true, is_absent);
    fileset("clear");
    soon(&true, || {
        let output = rig.cluster.many().try_mount_directory(1, "");
        output.status.success() && names(&rig.part).contains(&"other".to_owned())
    });
    assert!(rig.cluster.many().fsck(&[]).status.success());
}
