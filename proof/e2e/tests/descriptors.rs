//! Few file descriptors: a process divides them, works with more objects than it can keep open, and
//! says so if they are too few.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::sheen;
use std::fs;
use std::process::{Command, Stdio};

/// More than a process may open, on four OSTs.
const FILES: usize = 1_700;

#[test]
fn a_process_with_few_descriptors_serves_more_objects_than_it_can_keep_open() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up_with_descriptors(1024, &["--osts", "4", "--stripe-count", "4"]);
    let dir = cluster.mount().join("many");
    fs::create_dir(&dir).expect("mkdir");
    // A small file has one object; each fiftieth has an object on each OST.
    let text_of = |n: usize| {
        format!("{n:06}").repeat(if n.is_multiple_of(50) { 700_000 } else { 1 }).into_bytes()
    };
    let path = |n: usize| dir.join(format!("f{n}"));
    for n in 0..FILES {
        fs::write(path(n), text_of(n)).unwrap_or_else(|error| panic!("write file {n}: {error}"));
    }
    sync(&cluster);
    // Caches of the kernel and the client must not answer.
    cluster.stop();
    cluster.start();
    for n in (0..FILES).rev() {
        let read = fs::read(path(n)).unwrap_or_else(|error| panic!("read file {n}: {error}"));
        assert!(read == text_of(n), "file {n} is not what was written");
    }
    let log = cluster.log();
    assert!(!log.contains("Too many open files") && !log.contains("EMFILE"), "{log}");
}

#[test]
fn a_process_with_too_few_descriptors_says_what_to_do() {
    let dir = tempfile::Builder::new().prefix("sheen-e2e-").tempdir().expect("a folder");
    let mut command = Command::new("prlimit");
    command.arg("--nofile=100:100").arg(sheen()).arg("up").arg(dir.path().join("fs"));
    command
        .args(["--listen", "127.0.0.1:0", "--osts", "4"])
        .env("SHEEN_RUN_DIR", dir.path().join("run"));
    let output = command.stdin(Stdio::null()).output().expect("prlimit runs");
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("may open 100 files (RLIMIT_NOFILE)") && said.contains("ulimit -Hn"),
        "{said}"
    );
}

fn sync(cluster: &Cluster) {
    let output = Command::new("sync").arg("-f").arg(cluster.mount()).output().expect("sync runs");
    assert!(output.status.success(), "{}", text(&output));
}
