//! The default set-up is one process, which connects to nothing but itself (docs/ownership.md):
//! logs that other hosts share cost those nothing that have none.

use e2e::can_mount;
use e2e::cluster::{Cluster, RUN_DIR};
use e2e::programs::write_and_sync;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// Processes that were started for this cluster: its registry is in what they inherited.
fn processes_of(cluster: &Cluster) -> BTreeSet<i32> {
    let mut mark = format!("{RUN_DIR}=").into_bytes();
    mark.extend(cluster.run_dir().as_os_str().as_bytes());
    let is_of_it = |pid: &i32| {
        // Others may end meanwhile.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|word| word == mark)
    };
    let entries = fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_of_it).collect()
}

/// Inodes of the sockets of a process.
fn sockets_of(pid: i32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let socket = |entry: std::io::Result<fs::DirEntry>| {
        let to = fs::read_link(entry.ok()?.path()).ok()?;
        let inode = to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(inode.to_owned())
    };
    entries.filter_map(socket).collect()
}

/// TCP and UDP sockets of a process: address, peer, state.
fn connections_of(pid: i32) -> Vec<[String; 3]> {
    let (sockets, mut found) = (sockets_of(pid), Vec::new());
    for protocol in ["tcp", "tcp6", "udp", "udp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{protocol}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, at, to, state, ..] = words[..] else { continue };
            if words.get(9).is_some_and(|inode| sockets.contains(*inode)) {
                found.push([at, to, state].map(str::to_owned));
            }
        }
    }
    found
}

fn work(mnt: &Path, round: u32) {
    let dir = mnt.join(format!("dir {round}"));
    fs::create_dir(&dir).expect("mkdir");
    write_and_sync(&dir.join("file"), &vec![round as u8; 300_000]).expect("write");
    fs::rename(dir.join("file"), dir.join("renamed")).expect("rename");
    assert_eq!(fs::read(dir.join("renamed")).expect("read").len(), 300_000);
}

#[test]
fn it_is_one_process_that_connects_to_nothing() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&[]);
    let pid = cluster.pid();
    for round in 0..20 {
        work(&cluster.mount(), round);
        assert_eq!(processes_of(&cluster), BTreeSet::from([pid]), "its only process");
        let connections = connections_of(pid);
        let listens = |[_, _, state]: &[String; 3]| state == LISTENS;
        assert!(connections.iter().all(listens), "it has a connection: {connections:?}");
        assert!(!connections.is_empty(), "it listens, at one address at least");
    }
    cluster.stop();
    assert_eq!(processes_of(&cluster), BTreeSet::new(), "it has ended");
}
