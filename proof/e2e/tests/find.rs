//! `lfs find` and the smaller commands, on a real mount.

use e2e::cluster::Cluster;
use e2e::lustre::{lfs, lfs_refuses, try_lfs};
use e2e::programs::sh;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Lines in order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn find<'a>(mnt: &Path, words: &str, into: &'a mut String) -> Vec<&'a str> {
    let args: Vec<&str> = ["find"].into_iter().chain(words.split_whitespace()).collect();
    *into = lfs(mnt, &args);
    sorted(into)
}

#[test]
fn files_are_found_by_name_attributes_and_layout() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4", "--dom-size", "0"]);
    let (mnt, mut text) = (cluster.mount(), String::new());
    sh(
        &mnt,
        "mkdir -p t/a/b; cd t; echo 12345 > f1; truncate -s 3M a/f2; ln -s f1 link; mkfifo a/pipe; chmod 600 a/f2",
    );
    lfs(&mnt, &["setstripe", "-c", "2", "-S", "1M", "-i", "1", "t/a/b/wide"]);
    lfs(&mnt, &["setstripe", "-E", "1M", "-c", "1", "-E", "-1", "-c", "4", "t/a/b/pfl"]);
    let all =
        ["t", "t/a", "t/a/b", "t/a/b/pfl", "t/a/b/wide", "t/a/f2", "t/a/pipe", "t/f1", "t/link"];
    assert_eq!(find(&mnt, "t", &mut text), all);
    // The same as find(1) says of what both can tell.
    for words in [
        "-type f",
        "-type d,l",
        "! -type d",
        "-name f*",
        "-name *i*",
        "-maxdepth 1",
        "-mindepth 2 -maxdepth 2",
        "-size +1k",
        "-size 3M",
        "-perm 600",
        "-perm -400",
        "-mtime -1",
        "-links +1",
        "-user root",
        "-newer f1",
        "-perm u=rw,g=",
        "-perm -u=rw",
        "-perm /u+x,g+x",
    ] {
        let plain =
            sh(&mnt, &format!("set -f; find t {}", words.replace("-newer f1", "-newer t/f1")));
        assert_eq!(
            find(&mnt, &format!("t {}", words.replace("-newer f1", "-newer t/f1")), &mut text),
            sorted(&plain),
            "{words}"
        );
    }
    // Paths and predicates stand in any order.
    assert_eq!(find(&mnt, "-type f t/a -name wide t/f1", &mut text), ["t/a/b/wide"]);
    assert_eq!(find(&mnt, "-maxdepth 0 t ! -type f t/f1", &mut text), ["t"]);
    // Flags, widths and precisions as find(1) has them, numbers as printf(3).
    let plain =
        sh(&mnt, "find t/a/f2 -printf '[%10s][%-10s][%.3p][%8.3p][%-8y][%#m][%05m][%5d]\\n'");
    let ours = lfs(
        &mnt,
        &["find", "t/a/f2", "-printf", "[%10s][%-10s][%.3p][%8.3p][%-8y][%#m][%05m][    0]\\n"],
    );
    assert_eq!(ours, plain);
    let padded = lfs(&mnt, &["find", "t/a/f2", "-printf", "%010s|%+s|% s|%-+9s|\\n"]);
    assert_eq!(padded, "0003145728|+3145728| 3145728|+3145728 |\n");
    // Facts that only layouts have.
    for (words, expected) in [
        ("t -stripe-count 2", &["t/a/b/wide"][..]),
        ("t -type f -stripe-count +1", &["t/a/b/pfl", "t/a/b/wide"]),
        ("t -stripe-size 1M", &["t/a/b/wide"]),
        ("t -stripe-index 1 -name wide", &["t/a/b/wide"]),
        ("t -ost 2 -name wide", &["t/a/b/wide"]),
        ("t --ost 2-3 -name wide", &["t/a/b/wide"]),
        ("t --ost 0,3-9 -name wide", &[]),
        ("t -ost sheen-OST0003_UUID -name wide", &[]),
        ("t -component-count 2", &["t/a/b/pfl"]),
        ("t -component-end eof -name pfl", &["t/a/b/pfl"]),
        ("t -component-start 1M", &["t/a/b/pfl"]),
        ("t -layout mdt", &[]),
        ("t -type f ! -stripe-count 1", &["t/a/b/wide"]),
        ("t/a -threads 1 -name wide -printf %Lc:%LS:%Li:%Lo:%s\\n", &["2:1048576:1:1,2:0"]),
    ] {
        assert_eq!(find(&mnt, words, &mut text), expected, "{words}");
    }
    let fid = lfs(&mnt, &["path2fid", "t/f1"]);
    assert_eq!(
        lfs(&mnt, &["find", "t/f1", "-printf", "%LF %p\\n"]),
        format!("{} t/f1\n", fid.trim())
    );
    assert_eq!(lfs(&mnt, &["find", "t/f1", "-print0"]), "t/f1\0");
    let said = "error: find: %f is nothing that can be printed\n";
    lfs_refuses(&mnt, &["find", "t", "-printf", "%f"], 22, said);
    lfs_refuses(&mnt, &["find", "none"], 2, "error: find: 'none': No such file or directory (2)\n");
    lfs_refuses(
        &mnt,
        &["find", "/proc"],
        95,
        "error: find: '/proc': it is on no SheenFS mount: Operation not supported (95)\n",
    );
    lfs_refuses(
        &mnt,
        &["find", "t", "-nmae", "x"],
        22,
        "error: find: -nmae is no predicate; see: lfs find --help\n",
    );
}

/// Requests to servers so far, and locks that are held.
fn costs(mount: &Path) -> (u64, u64) {
    let stats = sh(mount, "getfattr --only-values -n lustre.stats .");
    let of = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_suffix(name)).expect("it is counted");
        line.trim().parse::<u64>().expect("a number")
    };
    (of(" requests"), of(" locks"))
}

/// Attributes and layouts come with the names: a thousand files cost a few requests, and no locks.
#[test]
fn what_is_asked_of_many_files_is_asked_at_once() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let (mnt, mut text) = (cluster.mount(), String::new());
    sh(&mnt, "mkdir -p t/a; cd t/a; for n in $(seq 0 2999); do : > f$n; done; mkdir d; ln -s f1 l");
    lfs(&mnt, &["setstripe", "-c", "2", "t/a/wide"]);
    // The OSTs do not have this yet.
    let mut file = fs::File::create(mnt.join("t/a/dirty")).expect("create");
    file.write_all(&[1; 5000]).expect("write");
    sh(&mnt, "echo 2 > /proc/sys/vm/drop_caches");
    let before = costs(&mnt);
    assert_eq!(find(&mnt, "t -size +4k -type f", &mut text), ["t/a/dirty"]);
    assert_eq!(find(&mnt, "t -stripe-count 2", &mut text), ["t/a/wide"]);
    let shown = lfs(&mnt, &["getstripe", "-r", "-c", "t"]);
    assert_eq!(shown.lines().filter(|line| line.ends_with("f2999")).count(), 1);
    let after = costs(&mnt);
    assert!(after.0 - before.0 < 100, "{} requests", after.0 - before.0);
    assert!(after.1 < before.1 + 100, "{} more locks", after.1 - before.1);
    let plain = sh(&mnt, "find t -printf '%p %s %m %n %i %y\n'");
    let ours = lfs(&mnt, &["find", "t", "-printf", "%p %s %m %n %i %y\\n"]);
    assert_eq!(sorted(&ours), sorted(&plain));
    drop(file);
}

/// A directory is printed before what is in it, and nothing is lost or twice, however many threads
/// search.
#[test]
fn many_directories_are_found_whole() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mnt = cluster.mount();
    sh(
        &mnt,
        "for a in 0 1 2 3 4 5 6 7; do for b in 0 1 2 3 4 5 6 7; do mkdir -p t/$a/$b; touch t/$a/$b/x t/$a/$b/y; done; done",
    );
    let found = lfs(&mnt, &["find", "t", "-threads", "8"]);
    assert_eq!(sorted(&found), sorted(&sh(&mnt, "find t")));
    let mut seen: Vec<&Path> = Vec::new();
    for line in found.lines().map(Path::new) {
        let parent = line.parent().filter(|p| !p.as_os_str().is_empty());
        assert!(
            parent.is_none_or(|parent| seen.contains(&parent)),
            "{} before its directory",
            line.display()
        );
        seen.push(line);
    }
    let half = lfs(&mnt, &["find", "t", "-type", "f", "-skip", "50"]);
    assert_eq!(half.lines().count(), 64);
}

#[test]
fn layouts_travel_as_yaml_and_by_example() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4"]);
    let mnt = cluster.mount();
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
            "model",
        ],
    );
    fs::write(mnt.join("model"), vec![3; 2 << 20]).expect("write");
    let yaml = lfs(&mnt, &["getstripe", "--yaml", "model"]);
    fs::write(cluster.outside().join("t.yaml"), &yaml).expect("write");
    let template = cluster.outside().join("t.yaml");
    lfs(&mnt, &["setstripe", "--yaml", template.to_str().expect("text"), "by-yaml"]);
    lfs(&mnt, &["setstripe", "--copy", "model", "by-example"]);
    let shape = |file: &str| -> Vec<String> {
        let text = lfs(&mnt, &["getstripe", "--yaml", file]);
        let kept = ["e_start", "e_end", "stripe_count", "stripe_size", "pattern"];
        text.lines()
            .filter(|line| kept.iter().any(|k| line.contains(k)))
            .map(str::to_owned)
            .collect()
    };
    for file in ["by-yaml", "by-example"] {
        fs::write(mnt.join(file), vec![4; 2 << 20]).expect("write");
        assert_eq!(shape(file), shape("model"), "{file}");
    }
    // Directories take them, too, and files in them have them.
    fs::create_dir(mnt.join("d")).expect("a folder");
    lfs(&mnt, &["setstripe", "--copy", "model", "d"]);
    fs::write(mnt.join("d/f"), vec![5; 2 << 20]).expect("write");
    assert_eq!(shape("d/f"), shape("model"));
    let garbage = cluster.outside().join("g.yaml");
    fs::write(&garbage, "lmm_stripe_count: many\n").expect("write");
    let said = format!(
        "error: setstripe: {}: line 1: \"many\" is no value of lmm_stripe_count: Invalid argument (22)\n",
        garbage.display()
    );
    lfs_refuses(&mnt, &["setstripe", "--yaml", garbage.to_str().expect("text"), "x"], 22, &said);
    assert!(!mnt.join("x").exists());
}

#[test]
fn smaller_commands_and_what_is_not_there() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let mnt = cluster.mount();
    lfs(&mnt, &["mkdir", "-i", "0", "-c", "1", "d"]);
    assert_eq!(
        lfs(&mnt, &["getdirstripe", "d"]),
        "lmv_stripe_count: 0 lmv_stripe_offset: 0 lmv_hash_type: none\n"
    );
    assert_eq!(lfs(&mnt, &["getdirstripe", "-c", "d"]), "0\n");
    assert_eq!(lfs(&mnt, &["getdirstripe", "-m", "d"]), "0\n");
    assert_eq!(try_lfs(&mnt, &["mkdir", "-i", "1", "e"]).status.code(), Some(libc::ERANGE));
    assert!(!mnt.join("e").exists());
    fs::write(mnt.join("f"), b"0123456789").expect("write");
    let som = lfs(&mnt, &["getsom", "f"]);
    assert!(som.starts_with("file: f size: 10 blocks: ") && som.ends_with(" flags: 1\n"), "{som}");
    assert_eq!(lfs(&mnt, &["getsom", "-s", "f"]), "10\n");
    lfs(&mnt, &["ladvise", "-a", "willread", "f"]);
    lfs(&mnt, &["ladvise", "-a", "dontneed", "-s", "0", "-l", "4K", "f"]);
    let said = "error: ladvise: only -a willread and -a dontneed have an effect here\n";
    lfs_refuses(&mnt, &["ladvise", "-a", "lockahead", "f"], 95, said);
    let check = lfs(&mnt, &["check", "all", "."]);
    let words: Vec<&str> =
        check.lines().filter_map(|line| line.split_once(' ')).map(|(_, word)| word).collect();
    assert_eq!(words, ["active."; 3], "{check}");
    assert!(
        check.starts_with("sheen-MDT0000-mdc-") && check.contains("\nsheen-OST0001-osc-"),
        "{check}"
    );
    lfs_refuses(&mnt, &["mirror", "create", "x"], 95, "error: mirror: files have no mirrors yet\n");
    lfs_refuses(&mnt, &["quota", "-u", "root", "."], 95, "error: quota: there are no quotas yet\n");
    lfs_refuses(
        &mnt,
        &["setstrip", "x"],
        22,
        "error: lfs: unrecognized subcommand 'setstrip'; see: lfs --help\n",
    );
}
