//! Whatever people type or do to the files: one clear sentence, a non-zero exit, nothing harmed.

use e2e::cluster::Cluster;
use e2e::process::text;
use e2e::programs::{manifest, sh, try_sh};
use e2e::{can_mount, sheen};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn run(args: &[&str]) -> Output {
    Command::new(sheen()).args(args).stdin(Stdio::null()).output().expect("sheen runs")
}

/// Fails with `code`, says something with `words` on stderr, nothing on stdout, and does not panic.
fn refused(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    assert!(output.stdout.is_empty(), "talk belongs on stderr: {}", text(output));
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

#[test]
fn wrong_arguments_are_usage_errors() {
    refused(&run(&["--no-such-flag"]), 64, &["--no-such-flag"]);
    refused(&run(&["no-such-command"]), 64, &["no-such-command"]);
    refused(&run(&["up", "--osts", "many"]), 64, &["many"]);
    refused(&run(&["up", "--osts", "0"]), 64, &["0"]);
    refused(&run(&["mkfs"]), 64, &[]);
    refused(&run(&["mount", "not a source", "/mnt"]), 64, &["not a source"]);
    refused(&run(&["mkfs", "--ost", "--mgsnode", "nowhere", "/tmp/x"]), 64, &["nowhere"]);
    refused(
        &run(&["up", "--fsname", "much-too-long-a-name", "/tmp/x"]),
        64,
        &["much-too-long-a-name"],
    );
    refused(
        &run(&["up", "--listen", "0.0.0.0:988", "/tmp/x"]),
        64,
        &["0.0.0.0", "others can reach"],
    );
    refused(&run(&["up", "--stripe-count", "0", "/tmp/x"]), 64, &["stripe-count"]);
    refused(&run(&["mount", "127.0.0.1@tcp:/", "/mnt"]), 64, &["file system name"]);
    refused(
        &run(&["mount", "-o", "bad", "127.0.0.1@tcp:/sheen", "/mnt"]),
        64,
        &["\"bad\"", "nochecksum"],
    );
    refused(&run(&["completion", "tcsh"]), 64, &["tcsh", "bash"]);
}

#[test]
fn folders_that_are_no_sheenfs_are_told_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("UTF-8");
    refused(&run(&["status", path]), 1, &[path]);
    refused(&run(&["down", path]), 1, &[path]);
    refused(&run(&["serve", path]), 2, &[path]);
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("write");
    let file = file.to_str().expect("UTF-8");
    refused(&run(&["up", file]), 2, &[file, "no directory"]);
    refused(&run(&["mkfs", "--mgs", file]), 2, &[file, "no directory"]);
    refused(&run(&["mkfs", "--mgs", "--replace", file]), 2, &[file, "no directory"]);
    refused(&run(&["man", file]), 2, &[file]);
    refused(&run(&["status", &format!("{path}/nowhere")]), 1, &["nowhere"]);
    assert_eq!(fs::read_to_string(file).expect("read"), "x");
}

/// Runs `sheen` as the user `nobody`.
fn as_nobody(args: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(sheen())
        .args(args);
    command.stdin(Stdio::null()).output().expect("setpriv runs")
}

#[test]
fn others_are_kept_out() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    sh(&cluster.mount(), "umask 077; seq 1000 > secret; sync secret");
    let home = cluster.dir();
    sh(home.parent().expect("a parent"), "chmod 755 .");
    let path = home.to_str().expect("UTF-8");
    refused(&as_nobody(&["status", path]), 2, &["Permission denied"]);
    refused(&as_nobody(&["down", path]), 2, &["Permission denied"]);
    refused(&as_nobody(&["up", &format!("{path}-2")]), 2, &["only root may mount"]);
    for target in ["mgt", "mdt0000", "ost0000", "ost0001", "run"] {
        let mode = fs::metadata(home.join(target)).expect("stat").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{target} is open to others: {mode:o}");
    }
    assert_eq!(fs::read(cluster.mount().join("secret")).expect("still up").len(), 3893);
}

#[test]
fn an_mgs_that_is_away_is_named_in_bounded_time() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let at = dir.path().to_str().expect("UTF-8");
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a free port");
    let source = format!("{free}@tcp:/sheen");
    let log = format!("log={}", dir.path().join("log").display());
    let began = Instant::now();
    refused(&run(&["mount", "-o", &log, &source, at]), 2, &["MGS", &free.to_string()]);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(!e2e::process::is_mounted(dir.path()));
    refused(&run(&["mount", &source, &format!("{at}/nowhere")]), 2, &["nowhere"]);
}

#[test]
fn a_target_of_another_file_system_is_refused() {
    if !can_mount() {
        return;
    }
    let mut ours = Cluster::up(&[]);
    let mut theirs = Cluster::up(&[]);
    fs::write(ours.mount().join("file"), "ours").expect("write");
    ours.stop();
    theirs.stop();
    let (target, aside) = (ours.dir().join("ost0001"), ours.dir().join("aside"));
    fs::rename(&target, &aside).expect("move");
    fs::rename(theirs.dir().join("ost0001"), &target).expect("move");
    let mount = ours.mount();
    let arguments = ["up", "--mount", mount.to_str().expect("UTF-8"), "--listen", "127.0.0.1:0"];
    refused(&ours.command(&arguments), 2, &["ost0001", "another cluster"]);
    fs::rename(&target, theirs.dir().join("ost0001")).expect("move back");
    fs::rename(&aside, &target).expect("move back");
    ours.start();
    assert_eq!(fs::read_to_string(mount.join("file")).expect("read"), "ours");
}

#[test]
fn a_port_in_use_is_named() {
    if !can_mount() {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let output = run(&["up", dir.path().join("fs").to_str().expect("UTF-8"), "--listen", &address]);
    refused(&output, 2, &[&address, "--listen"]);
}

#[test]
fn garbage_on_the_port_harms_nobody() {
    use std::io::{Read, Write};
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let listen = cluster.listens_at();
    for len in [1_usize, 100, 5_000, 1_000_000] {
        let mut stream = std::net::TcpStream::connect(&listen).expect("connects");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a time limit");
        let garbage: Vec<u8> = (0..len).map(|i| ((i * 73) ^ (i >> 8)) as u8).collect();
        // The server may hang up in the middle of it; that is allowed.
        let written =
            stream.write_all(&garbage).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        assert!(
            answer.len() < 4096,
            "{len} bytes of garbage: {written:?} {read:?}, {} bytes came",
            answer.len()
        );
    }
    fs::write(cluster.mount().join("file"), "still here").expect("the mount works");
    assert_eq!(fs::read_to_string(cluster.mount().join("file")).expect("read"), "still here");
}

#[test]
fn a_target_is_served_once() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let target = cluster.dir().join("mdt0000");
    refused(
        &run(&["serve", target.to_str().expect("UTF-8"), "--listen", "127.0.0.1:0"]),
        2,
        &["mdt0000"],
    );
    fs::write(cluster.mount().join("file"), "x").expect("the first one still serves");
}

#[test]
fn formatting_over_a_target_needs_a_word() {
    let dir = tempfile::tempdir().expect("a folder");
    let target = dir.path().join("mgt");
    let path = target.to_str().expect("UTF-8");
    assert!(run(&["mkfs", "--mgs", path]).status.success());
    let before = manifest(dir.path());
    refused(&run(&["mkfs", "--mgs", path]), 2, &["--replace"]);
    assert_eq!(before, manifest(dir.path()), "a refused mkfs changed something");
    assert!(run(&["mkfs", "--mgs", "--replace", path]).status.success());
    fs::write(dir.path().join("precious"), "x").expect("write");
    let whole = dir.path().to_str().expect("UTF-8");
    refused(&run(&["mkfs", "--mgs", "--replace", whole]), 2, &[whole]);
    assert!(dir.path().join("precious").exists());
}

/// Makes a small stopped file system, damages one file of one target, and expects `up` to refuse
/// with these words.
fn damaged(file: &str, words: &[&str], damage: impl Fn(&Path)) {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&[]);
    sh(&cluster.mount(), "mkdir d && seq 1000 > d/file && ln -s file d/link");
    let before = manifest(&cluster.mount());
    cluster.stop();
    let path = cluster.dir().join(file);
    let saved = fs::read(&path).expect("the file to damage");
    damage(&path);
    let mount = cluster.mount();
    let arguments = ["up", "--mount", mount.to_str().expect("UTF-8"), "--listen", "127.0.0.1:0"];
    refused(&cluster.command(&arguments), 2, words);
    fs::write(&path, &saved).expect("put it back");
    cluster.start();
    assert_eq!(before, manifest(&cluster.mount()), "the attempt on the damaged store harmed it");
}

#[test]
fn a_flipped_bit_in_a_superblock_is_found() {
    damaged("mdt0000/superblock", &["mdt0000"], |path| {
        let file = fs::File::options().read(true).write(true).open(path).expect("open");
        let mut byte = [0];
        file.read_exact_at(&mut byte, 40).expect("read");
        file.write_all_at(&[byte[0] ^ 0x10], 40).expect("write");
    });
}

#[test]
fn a_truncated_superblock_is_found() {
    damaged("ost0000/superblock", &["ost0000"], |path| {
        fs::File::options().write(true).open(path).and_then(|f| f.set_len(100)).expect("cut");
    });
}

/// crc32c as the specification of iSCSI has it, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
    !bytes.iter().fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn a_superblock_from_the_future_asks_for_a_newer_program() {
    damaged("mdt0000/superblock", &["mdt0000", "format version 9", "update"], |path| {
        // docs/formats.md: checksum of the rest, version, magic.
        let mut bytes = fs::read(path).expect("read");
        assert_eq!(bytes[..4], crc32c(&bytes[4..]).to_le_bytes());
        bytes[4] = 9;
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        fs::write(path, bytes).expect("write");
    });
}

#[test]
fn a_tree_with_flipped_bits_is_found() {
    damaged("mdt0000/tree/data.mdb", &["data.mdb", "damaged"], |path| {
        let mut bytes = fs::read(path).expect("read");
        bytes[2 * 4096..].iter_mut().skip(20).step_by(97).for_each(|byte| *byte ^= 0xff);
        fs::write(path, bytes).expect("write");
    });
    damaged("ost0000/tree/data.mdb", &["data.mdb", "damaged"], |path| {
        let file = fs::File::options().write(true).open(path).expect("open");
        file.set_len(2 * 4096).expect("cut");
    });
}

#[test]
fn a_full_disk_is_enospc_and_nothing_is_lost() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "2", "--stripe-count", "2", "--ost-size", "32M"]);
    let mount = cluster.mount();
    fs::write(mount.join("before"), vec![7; 1_000_000]).expect("room for a little");
    let output = try_sh(&mount, "head -c 200000000 /dev/zero > big");
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("No space left on device"),
        "{}",
        text(&output)
    );
    assert_eq!(fs::read(mount.join("before")).expect("read"), vec![7; 1_000_000]);
    let size = fs::metadata(mount.join("big")).expect("stat").len();
    let bytes = fs::read(mount.join("big")).expect("read");
    assert!(bytes.len() as u64 == size && bytes.iter().all(|b| *b == 0));
    fs::create_dir(mount.join("names still work")).expect("mkdir on full OSTs");
    fs::remove_file(mount.join("big")).expect("a full file system can be emptied");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while fs::write(mount.join("after"), vec![9; 20_000_000]).is_err() {
        assert!(
            std::time::Instant::now() < deadline,
            "the space of a removed file does not come back"
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
