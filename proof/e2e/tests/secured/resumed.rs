//! Processes come back to a server that was started again with tickets, without certificates; a
//! revoked key does not, and after a rotation of the authority all show certificates once. What
//! kind a handshake is this test sees on the wire: the ServerHello, which is not sealed, says
//! whether it goes on from an earlier one (RFC 8446, 4.2.11), and how long what follows it is.

use super::Site;
use e2e::can_mount;
use e2e::process::{detach, kill_and_wait, text};
use e2e::tap::Tap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// Extension of a ServerHello that takes a ticket.
const PRE_SHARED_KEY: u16 = 41;

/// The answer of a server to a handshake, as the tap sees it.
#[derive(Debug)]
struct Answer {
    to: Ipv4Addr,
    is_resumed: bool,
    /// Of the sealed records that came with it.
    sealed: usize,
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// The answer that an Ethernet packet holds, if its TCP segment begins with one.
fn answer(packet: &[u8], from: Ipv4Addr) -> Option<Answer> {
    let ip = packet.get(14..)?;
    if packet[12..14] != [8, 0] || ip.get(9) != Some(&6) {
        return None;
    }
    let address = |at| Some(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?));
    if address(12)? != from {
        return None;
    }
    let tcp = ip.get(usize::from(ip[0] & 15) * 4..number(&ip[2..4]))?;
    let mut rest = tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?;
    let (mut is_resumed, mut sealed) = (None, 0);
    while let [kind, 3, 3, high, low, after @ ..] = rest {
        let content = after.get(..number(&[*high, *low])).unwrap_or(after);
        match (kind, content) {
            (22, [2, ..]) => is_resumed = Some(extensions(content)?.contains(&PRE_SHARED_KEY)),
            (23, _) => sealed += number(&[*high, *low]),
            _ => {}
        }
        rest = &after[content.len()..];
    }
    Some(Answer { to: address(16)?, is_resumed: is_resumed?, sealed })
}

/// Numbers of the extensions of a ServerHello.
fn extensions(hello: &[u8]) -> Option<Vec<u16>> {
    // Kind and length, version, random; then session, cipher, compression.
    let session = 4 + 2 + 32;
    let mut rest = hello.get(session + 1 + usize::from(*hello.get(session)?) + 3 + 2..)?;
    let mut all = Vec::new();
    while let [high, low, more @ ..] = rest {
        all.push(u16::from_be_bytes([*high, *low]));
        rest = more.get(2 + number(more.get(..2)?)..)?;
    }
    Some(all)
}

impl Site {
    fn host(&self, n: usize) -> Ipv4Addr {
        self.hosts.address(n).parse().expect("an address")
    }

    /// What the OSS answered to handshakes until the tap ends.
    fn answers(&self, tap: Tap) -> Vec<Answer> {
        let from = self.host(2);
        tap.packets().iter().filter_map(|packet| answer(packet, from)).collect()
    }

    fn tap(&self) -> Tap {
        Tap::on(&self.hosts.interface(2)).expect("a tap")
    }

    /// The OSS dies and starts again; then bytes are written through each mount. Returns its
    /// answers to handshakes.
    fn comes_back(&mut self, oss: &str, mounts: &[&Path]) -> Vec<Answer> {
        let tap = self.tap();
        let at = self.servers.iter().position(|(name, _)| *name == "oss").expect("the OSS");
        let (_, mut killed) = self.servers.remove(at);
        kill_and_wait(killed.id() as i32);
        // It was just killed.
        let _ = killed.wait();
        let mgs = self.mgs();
        self.serve(2, "oss", &["ost"], &["--mgsnode", &mgs, "--key", oss]);
        for mount in mounts {
            write(mount, "back");
        }
        self.answers(tap)
    }
}

fn write(mount: &Path, name: &str) {
    fs::write(mount.join(name), vec![7; 300_000]).unwrap();
    File::open(mount.join(name)).unwrap().sync_all().unwrap();
}

fn wait(site: &Site, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not after {PATIENCE:?}\n{}", site.logs());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Both clients are there, and came with tickets; or first without one, if that is said.
fn came(site: &Site, what: &str, answers: &[Answer], resumed: bool) {
    eprintln!("{what}: {answers:?}");
    for host in [3, 4] {
        let to = site.host(host);
        let theirs = answers.iter().filter(|answer| answer.to == to).map(|one| one.is_resumed);
        let theirs: Vec<bool> = theirs.collect();
        assert!(!theirs.is_empty(), "{what}: host {host} does not come\n{}", site.logs());
        let as_said = if resumed { theirs.iter().all(|one| *one) } else { !theirs[0] };
        assert!(as_said, "{what}: {answers:?}");
    }
}

#[test]
fn after_a_restart_processes_come_back_with_tickets_and_revoked_ones_do_not() {
    if !can_mount() {
        return;
    }
    let Some(mut site) = Site::new() else { return };
    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    let [oss, client3, client4] = [("oss", "server"), ("client3", "client"), ("client4", "client")]
        .map(|(name, role)| site.key(name, role));
    let tap = site.tap();
    site.serve_all(&[], &["--key", &oss]);
    let one = site.mount(3, &format!("key={client3}"));
    let other = site.mount(4, &format!("key={client4},soft"));
    [&one, &other].iter().for_each(|mount| write(mount, "first"));
    let first = site.answers(tap);
    let full = first.iter().find(|answer| !answer.is_resumed).expect("a full handshake").sealed;
    let file = Path::new(&site.at("ost")).join("run/tickets.keys");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // The same ticket keys, so all come back, and no certificate travels.
    let keys = fs::read(&file).unwrap();
    let back = site.comes_back(&oss, &[&one, &other]);
    came(&site, "restarted", &back, true);
    assert_eq!(fs::read(&file).unwrap(), keys);
    let longest = back.iter().map(|answer| answer.sealed).max().expect("one");
    eprintln!(
        "the server's sealed answer: {full} bytes with certificates, {longest} with a ticket"
    );
    assert!(longest < 150 && full > 800, "{full} {longest}");
    // The twin: without its file it knows no ticket.
    fs::remove_file(&file).unwrap();
    let strange = site.comes_back(&oss, &[&one, &other]);
    came(&site, "without its ticket keys", &strange, false);
    let back = site.comes_back(&oss, &[&one, &other]);
    came(&site, "restarted again", &back, true);

    // A rotation gives all new keys: certificates once, then tickets again.
    site.must(1, &["auth", "rotate-ca", &mgt]);
    wait(&site, "all have new keys", || {
        text(&site.must(1, &["auth", "list", &mgt])).contains("all hosts have keys of the new one")
    });
    // A second for those whose file was renewed to read it again.
    std::thread::sleep(Duration::from_secs(2));
    let rotated = site.comes_back(&oss, &[&one, &other]);
    came(&site, "rotated", &rotated, false);
    let back = site.comes_back(&oss, &[&one, &other]);
    came(&site, "after the rotation", &back, true);

    // A revoked key: it has tickets, and none of them is taken two seconds later, and from then on.
    // It goes on trying.
    site.must(1, &["auth", "revoke", &mgt, "--name", "client4"]);
    std::thread::sleep(Duration::from_secs(2));
    let tries = |site: &Site| {
        let (tap, began) = (site.tap(), Instant::now());
        while began.elapsed() < Duration::from_secs(5) {
            let name = format!("mine{}", began.elapsed().as_millis());
            let written = fs::write(other.join(name), vec![7; 300_000]);
            assert!(written.is_err(), "it still writes\n{}", site.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
        let answers = site.answers(tap);
        let theirs: Vec<_> = answers.iter().filter(|one| one.to == site.host(4)).collect();
        assert!(theirs.iter().all(|one| !one.is_resumed), "{theirs:?}");
        theirs.len()
    };
    let before = tries(&site);
    // A server that starts knows what it knew.
    let back = site.comes_back(&oss, &[&one]);
    let theirs = |n: usize| back.iter().filter(|one| one.to == site.host(n)).collect::<Vec<_>>();
    assert!(!theirs(3).is_empty() && theirs(3).iter().all(|one| one.is_resumed), "{back:?}");
    assert!(theirs(4).iter().all(|one| !one.is_resumed), "{back:?}");
    let after = tries(&site);
    eprintln!("revoked: {before} tries before a restart, {after} after, without tickets");
    assert!(before + after > 0, "it does not try");
    detach(&other);
    site.mounts.retain(|mount| *mount == one);
    write(&one, "goes-on");
    site.stop();
}
