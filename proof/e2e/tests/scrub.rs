//! A bit that flips on the disk of an OST: programs get EIO, the log says where, and `sheen scrub`
//! finds it at rest and at work.

use e2e::can_mount;
use e2e::cluster::Cluster;
use e2e::process::text;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

/// Object files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("list").flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn scrub(cluster: &Cluster, status: i32, says: &str) -> Output {
    let output = cluster.command(&["scrub"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(says), "no {says:?} in: {said}");
    output
}

fn set(cluster: &Cluster, value: &str) {
    let output = cluster.lctl(&["set_param", &format!("obdfilter.*.checksum_at_rest={value}")]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_flipped_bit_is_never_read_as_data() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--osts", "1"]);
    set(&cluster, "1");
    let path = cluster.mount().join("file");
    let good: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    let mut file = File::create(&path).expect("create");
    file.write_all(&good).expect("write");
    file.sync_all().expect("fsync");
    drop(file);
    cluster.stop();
    scrub(&cluster, 0, "clean");

    let objects = files(&cluster.dir().join("ost0000/objects"));
    assert_eq!(objects.len(), 1, "objects of one file");
    let object = File::options().read(true).write(true).open(&objects[0]).expect("open the object");
    let mut byte = [0];
    object.read_exact_at(&mut byte, 2_000_003).expect("read");
    object.write_all_at(&[byte[0] ^ 4], 2_000_003).expect("flip a bit");
    let block = 2_000_003 / 4096 * 4096;
    scrub(&cluster, 4, &format!("the block at byte {block} is not what was written"));

    cluster.start();
    set(&cluster, "1");
    let error = fs::read(&path).expect_err("a flipped bit is no data");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert!(
        cluster.log().contains(&format!("offset={block}")),
        "the log names the block:\n{}",
        cluster.log()
    );
    scrub(&cluster, 4, "1 bad block");
    let json = cluster.command(&["scrub", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["targets"][0]["bad"][0]["offset"], block);

    set(&cluster, "0");
    let read = fs::read(&path).expect("nothing is compared");
    assert_eq!(read.iter().zip(&good).filter(|(read, good)| read != good).count(), 1);
    set(&cluster, "1");

    // Written again it is good, and soon known again.
    fs::write(&path, &good).expect("write");
    assert!(fs::read(&path).expect("read") == good);
    let began = Instant::now();
    while !text(&cluster.command(&["scrub"])).contains(" 0 without a checksum; clean") {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{}",
            text(&cluster.command(&["scrub"]))
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}
