//! Read-ahead, seen from outside: bytes that arrive at the network card of the client's host, and
//! requests that its OSTs were asked.

use e2e::cluster::Cluster;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILES: usize = 200;
const FILE_BYTES: u64 = 256 << 10;
/// Where blocks are read anyhow: the kernel reads 16 KiB where a file begins.
const RANDOM_BYTES: u64 = 512 << 10;
const BLOCK: u64 = 4096;
/// Files younger than this are read past the kernel's page cache.
const OLD: Duration = Duration::from_millis(2500);

/// Bytes that the host of the first client received so far.
fn received(cluster: &Cluster) -> u64 {
    let table = cluster.many().on_client(0, || fs::read_to_string("/proc/thread-self/net/dev"));
    let table = table.expect("the kernel counts");
    let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
    let words = line.and_then(|rest| rest.split_whitespace().next());
    words.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no eth0 in {table}"))
}

/// Requests that a mount has made so far.
fn requests(mount: &Path) -> u64 {
    let mut value = vec![0u8; 65536];
    let len = rustix::fs::getxattr(mount, c"lustre.stats", &mut value).expect("getxattr");
    let stats = String::from_utf8_lossy(&value[..len]).into_owned();
    let line = stats.lines().find(|line| line.ends_with(" requests")).expect("they are counted");
    line.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

fn content(file: usize, at: u64) -> Vec<u8> {
    let word = |n: u64| (n ^ (file as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (at / 8..(at + BLOCK) / 8).flat_map(|n| word(n).to_le_bytes()).collect()
}

/// Another client makes files of so many bytes.
fn made(cluster: &Cluster, folder: &str, bytes: u64) -> Vec<PathBuf> {
    let [here, there] = [0, 1].map(|n| cluster.mounts()[n].join(folder));
    fs::create_dir(&there).expect("mkdir");
    for n in 0..FILES {
        let blocks = (0..bytes).step_by(BLOCK as usize).flat_map(|at| content(n, at));
        fs::write(there.join(format!("f{n:03}")), blocks.collect::<Vec<u8>>()).expect("write");
    }
    (0..FILES).map(|n| here.join(format!("f{n:03}"))).collect()
}

fn open(path: &Path, direct: bool) -> File {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    File::options().read(true).custom_flags(flags).open(path).expect("open")
}

#[repr(align(4096))]
struct Aligned([u8; BLOCK as usize]);

fn read(open: &File, file: usize, at: u64) {
    let mut buffer = Aligned([0; BLOCK as usize]);
    open.read_exact_at(&mut buffer.0, at).expect("read");
    assert!(buffer.0[..] == content(file, at), "f{file:03} at {at}");
}

fn in_order(files: &[PathBuf]) {
    for (n, path) in files.iter().enumerate() {
        let open = open(path, false);
        (0..FILE_BYTES).step_by(BLOCK as usize).for_each(|at| read(&open, n, at));
    }
}

fn by_turns(files: &[PathBuf], direct: bool) {
    let open: Vec<File> = files.iter().map(|path| open(path, direct)).collect();
    for at in (0..FILE_BYTES).step_by(BLOCK as usize) {
        open.iter().enumerate().for_each(|(n, open)| read(open, n, at));
    }
}

/// Reads that many blocks anywhere.
fn anyhow(open: &[File], count: u64) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (n, block) = (state as usize % FILES, state / 1000 % (RANDOM_BYTES / BLOCK));
        read(&open[n], n, block * BLOCK);
    }
}

#[test]
fn what_is_fetched_ahead_is_read_and_little_else_is_fetched() {
    if !e2e::can_mount() {
        return;
    }
    let Some(cluster) = Cluster::with_clients("1", &["", ""]) else { return };
    let all = FILES as u64 * FILE_BYTES;
    let [old, turns, direct] = ["old", "turns", "direct"].map(|f| made(&cluster, f, FILE_BYTES));
    let [random, past] = ["random", "past"].map(|folder| made(&cluster, folder, RANDOM_BYTES));
    std::thread::sleep(OLD);
    let mount = cluster.mount();
    let counted = |what: &str, least: u64, work: &dyn Fn()| {
        let (bytes, asked, began) = (received(&cluster), requests(&mount), Instant::now());
        work();
        let took = began.elapsed();
        let (bytes, asked) = (received(&cluster) - bytes, requests(&mount) - asked);
        let percent = bytes * 100 / least;
        eprintln!("{what}: {bytes} bytes for {least} ({percent} %), {asked} requests, {took:.2?}");
        (percent, asked / FILES as u64)
    };
    for (what, work) in [
        ("in order", &(|| in_order(&old)) as &dyn Fn()),
        ("by turns", &|| by_turns(&turns, false)),
        ("by turns, past the page cache", &|| by_turns(&direct, true)),
    ] {
        let (percent, asked) = counted(what, all, work);
        assert!((100..=105).contains(&percent), "{what}: {percent} %");
        // Lookup, open, lock, close, and the reads: 64 would be one for each block.
        assert!(asked <= 10, "{what}: {asked} requests per file");
    }
    // A tenth of what there is, so that few blocks are read twice. Messages cost something, too.
    let count = FILES as u64 * RANDOM_BYTES / BLOCK / 10;
    for (what, files, direct) in
        [("anyhow", &random, false), ("anyhow, past the page cache", &past, true)]
    {
        let open: Vec<File> = files.iter().map(|path| open(path, direct)).collect();
        let (percent, _) = counted(what, count * BLOCK, &|| anyhow(&open, count));
        assert!(percent <= 115, "{what}: {percent} %");
    }
    let young = made(&cluster, "young", FILE_BYTES);
    let (percent, asked) = counted("written a moment ago", all, &|| in_order(&young));
    assert!((100..=105).contains(&percent) && asked <= 10, "{percent} %, {asked} per file");
}
