//! Connections that never show a key: many of them cost a server little, and keep no host out.

use super::Site;
use e2e::can_mount;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 10_000;
/// Memory that they may cost the server, bytes.
const MEMORY_MAX: usize = 16 << 20;
/// Longest time that a mount may take beside them.
const MOUNT_MAX: Duration = Duration::from_secs(3);

/// Beginnings of a handshake after which nothing follows: nothing, the head of a record of TLS, and
/// a record of which a part is missing.
const BEGINNINGS: [&[u8]; 3] =
    [b"", &[0x16, 3, 1, 2, 0], &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7]];

/// Resident memory that is no file's, bytes.
fn resident(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn ten_thousand_half_open_connections_cost_little_and_keep_nobody_out() {
    if !can_mount() {
        return;
    }
    let most = getrlimit(Resource::Nofile).maximum;
    if most.is_some_and(|most| most < 2 * CONNECTIONS as u64) {
        return eprintln!("skipped: this process may have {most:?} files");
    }
    let raised = Rlimit { current: most, maximum: most };
    setrlimit(Resource::Nofile, raised).expect("up to the maximum");
    let Some(mut site) = Site::new() else { return };
    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    let [oss, client3, client4] = [("oss", "server"), ("client3", "client"), ("client4", "client")]
        .map(|(name, role)| site.key(name, role));
    site.serve_all(&[], &["--key", &oss]);
    // The server has done all of it once.
    let first = site.mount_at(4, "first", &format!("key={client4}"));
    fs::write(first.join("file"), "first").unwrap();

    let pid = site.servers[0].1.id();
    let before = resident(pid);
    let address = format!("{}:988", site.hosts.address(1));
    let held: Vec<TcpStream> = site.hosts.on(3, || {
        let open = |n: usize| {
            let mut stream = TcpStream::connect(&address).expect("it listens");
            // It may be closed by then: later ones took its place.
            let _ = stream.write_all(BEGINNINGS[n % BEGINNINGS.len()]);
            stream
        };
        (0..CONNECTIONS).map(open).collect()
    });
    // From another address, and from theirs.
    for (host, key) in [(4, &client4), (3, &client3)] {
        let began = Instant::now();
        let mount = site.mount(host, &format!("key={key}"));
        let took = began.elapsed();
        assert_eq!(fs::read_to_string(mount.join("file")).unwrap(), "first");
        let more = resident(pid).saturating_sub(before);
        eprintln!("host {host} mounted in {took:?}, {more} bytes more resident");
        assert!(took < MOUNT_MAX, "mounted after {took:?}");
        assert!(more < MEMORY_MAX, "{more} bytes");
    }
    assert_eq!(held.len(), CONNECTIONS);
    fs::write(first.join("file"), "goes on").unwrap();
    site.stop();
}
