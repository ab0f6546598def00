//! A cluster with keys: what travels is sealed, and a host without a good key is told so. The tap
//! and the clock of expired keys are this test's; all else is the program.

mod half_open;
mod heard;
mod resumed;
mod revoked;
mod rotated;
mod short_lived;
mod site_keys;
mod tapped;

use e2e::can_mount;
use e2e::hosts::Hosts;
use e2e::process::{detach, is_mounted, kill_and_wait, text};
use e2e::sheen;
use e2e::stranger::frame;
use heard::{
    CONTENT, MARKER, disguises, finds, is_in, needs_no_key_and_has_none, no_token_is_heard,
};
use seal::authority::{Authority, Subject};
use seal::credentials::Credentials;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use types::nid::Nid;
use types::principal::Role;
use types::session::{ClientUuid, ClusterId, Pairing};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{Hello, Purpose};
use wire::message::{VERSION_MAX, VERSION_MIN};

/// Hosts, folders, daemons. Host 1: MGS and MDS; 2: OSS; 3 and 4: clients.
struct Site {
    hosts: Hosts,
    dir: tempfile::TempDir,
    servers: Vec<(&'static str, Child)>,
    mounts: Vec<PathBuf>,
}

impl Site {
    fn new() -> Option<Site> {
        let hosts = Hosts::new(4)?;
        let site = Site {
            hosts,
            dir: tempfile::tempdir().unwrap(),
            servers: Vec::new(),
            mounts: Vec::new(),
        };
        site.must(1, &["mkfs", "--mgs", &site.at("mgt")]);
        site.must(1, &["mkfs", "--mdt", "--index", "0", &site.at("mdt"), "--mgsnode", &site.mgs()]);
        site.must(2, &["mkfs", "--ost", "--index", "0", &site.at("ost"), "--mgsnode", &site.mgs()]);
        Some(site)
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn mgs(&self) -> String {
        format!("{}@tcp", self.hosts.address(1))
    }

    /// Runs `sheen` on a host.
    fn sheen(&self, host: usize, args: &[&str]) -> Output {
        let mut command = self.hosts.command(host, &sheen());
        command
            .args(args)
            .env(e2e::cluster::RUN_DIR, self.dir.path().join("run"))
            .stdin(Stdio::null());
        command.output().expect("sheen runs")
    }

    fn must(&self, host: usize, args: &[&str]) -> Output {
        let output = self.sheen(host, args);
        assert!(output.status.success(), "sheen {args:?}: {}\n{}", text(&output), self.logs());
        output
    }

    /// What `lctl` says on the host of the MGS.
    fn lctl(&self, args: &[&str]) -> String {
        let output = self.must(1, &[&["lctl"], args].concat());
        String::from_utf8(output.stdout).expect("text")
    }

    /// Makes a key and keeps it as a file, as `sheen auth install` would.
    fn key(&self, name: &str, role: &str) -> String {
        let output =
            self.must(1, &["auth", "issue", &self.at("mgt"), "--name", name, "--role", role]);
        self.keep(name, &String::from_utf8(output.stdout).expect("text"))
    }

    fn keep(&self, name: &str, key: &str) -> String {
        let path = self.at(&format!("{name}.pem"));
        fs::write(&path, key).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn serve(&mut self, host: usize, name: &'static str, targets: &[&str], more: &[&str]) {
        let address = format!("{}:988", self.hosts.address(host));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.at(&format!("{name}.log")))
            .unwrap();
        let mut command = self.hosts.command(host, &sheen());
        command.env(e2e::cluster::RUN_DIR, self.dir.path().join("run"));
        command
            .arg("serve")
            .args(targets.iter().map(|target| self.at(target)))
            .args(["--listen", &address]);
        command.args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.servers.push((name, command.spawn().expect("sheen runs")));
    }

    fn serve_all(&mut self, mds: &[&str], oss: &[&str]) {
        self.serve(1, "mds", &["mgt", "mdt"], mds);
        let mgs = self.mgs();
        self.serve(2, "oss", &["ost"], &[&["--mgsnode", &mgs], oss].concat());
    }

    fn logs(&self) -> String {
        let log = |name: &&str| {
            format!("== {name}\n{}", fs::read_to_string(self.at(name)).unwrap_or_default())
        };
        ["mds.log", "oss.log", "client1.log", "client2.log", "client3.log", "client4.log"]
            .iter()
            .map(log)
            .collect()
    }

    fn try_mount(&self, host: usize, options: &str) -> Output {
        self.try_mount_at(host, &format!("mnt{host}"), options)
    }

    fn try_mount_at(&self, host: usize, name: &str, options: &str) -> Output {
        let at = self.at(name);
        fs::create_dir_all(&at).unwrap();
        let log = self.at(&format!("client{host}.log"));
        let options =
            if options.is_empty() { format!("log={log}") } else { format!("{options},log={log}") };
        self.sheen(host, &["mount", "-o", &options, &format!("{}:/sheen", self.mgs()), &at])
    }

    fn mount(&mut self, host: usize, options: &str) -> PathBuf {
        self.mount_at(host, &format!("mnt{host}"), options)
    }

    fn mount_at(&mut self, host: usize, name: &str, options: &str) -> PathBuf {
        let output = self.try_mount_at(host, name, options);
        assert!(output.status.success(), "{}\n{}", text(&output), self.logs());
        let at = PathBuf::from(self.at(name));
        self.mounts.push(at.clone());
        at
    }

    /// Why a mount is refused: one sentence, and soon.
    fn refused(&self, host: usize, options: &str) -> String {
        let began = Instant::now();
        let output = self.try_mount(host, options);
        assert!(!output.status.success(), "{options}: it was let in");
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{options}: refused after {:?}",
            began.elapsed()
        );
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    fn stop(&mut self) {
        for mount in std::mem::take(&mut self.mounts) {
            let output = Command::new("umount").arg(&mount).output().expect("umount runs");
            assert!(output.status.success(), "umount: {}", text(&output));
        }
        for (name, mut child) in std::mem::take(&mut self.servers).into_iter().rev() {
            e2e::process::signal(child.id() as i32, libc::SIGTERM);
            assert!(child.wait().expect("it ends").success(), "{name}\n{}", self.logs());
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.mounts.iter().filter(|mount| is_mounted(mount)).for_each(|mount| detach(mount));
        self.servers.iter().for_each(|(_, child)| kill_and_wait(child.id() as i32));
    }
}

#[test]
fn what_travels_between_hosts_with_keys_is_sealed_and_nobody_else_gets_in() {
    if !can_mount() {
        return;
    }
    let Some(mut site) = Site::new() else { return };
    needs_no_key_and_has_none(&mut site);

    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    let oss = site.key("oss", "server");
    let [client3, client4] = ["client3", "client4"].map(|name| site.key(name, "client"));
    for file in ["authority.pem", "key.pem", "keys.json"] {
        assert_eq!(
            fs::metadata(site.dir.path().join("mgt/auth").join(file)).unwrap().mode() & 0o077,
            0,
            "{file}"
        );
    }
    site.serve_all(&[], &["--key", &oss]);
    let (one, other) =
        (site.mount(3, &format!("key={client3}")), site.mount(4, &format!("key={client4}")));

    let heard = site.marked_bytes_on_the_wire([&one, &other], 2);
    assert!(heard.len() > 2 * CONTENT, "the tap heard only {} bytes", heard.len());
    for what in [MARKER, "SHEE", "client3"] {
        assert!(!is_in(&heard, what), "{what} travels in the clear");
    }
    for form in disguises(MARKER.as_bytes()) {
        assert!(!finds(&heard, &form), "{MARKER} travels as {:?}", String::from_utf8_lossy(&form));
    }
    no_token_is_heard(&site);
    let status = text(&site.must(1, &["status", &mgt]));
    assert!(
        status.contains("secured: every connection must show a key")
            && status.contains("server mds"),
        "{status}"
    );

    // A program beside the daemons uses their key.
    let fsck = site.sheen(1, &["fsck", &site.mgs()]);
    assert!(fsck.status.success(), "{}\n{}", text(&fsck), site.logs());

    // Keys that are none here. Each is refused in one sentence that says what is wrong.
    fs::create_dir(site.at("away")).unwrap();
    site.must(1, &["mkfs", "--mgs", &site.at("away/mgt")]);
    site.must(
        1,
        &["auth", "init", &site.at("away/mgt"), "--mgsnode", &site.mgs(), "--name", "away"],
    );
    let foreign =
        site.must(1, &["auth", "issue", &site.at("away/mgt"), "--name", "x", "--role", "client"]);
    let foreign = site.keep("foreign", &String::from_utf8(foreign.stdout).unwrap());
    let own = Credentials::from_text(&fs::read_to_string(&client4).unwrap()).unwrap();
    let authority = fs::read_to_string(site.dir.path().join("mgt/auth/authority.pem")).unwrap();
    let authority = Authority::from_text(own.principal().cluster, &authority).unwrap();
    let expired = authority
        .issue_key(
            Subject { role: Role::Client, name: &"late".parse().unwrap(), nids: &[] },
            Vec::new(),
            (1_000_000_000, 60),
        )
        .unwrap();
    let expired = site.keep("expired", &expired.to_text());
    // Of this cluster in name, from an authority that a stranger made: alone, with the true one.
    let cluster = own.principal().cluster;
    let made = Authority::make(cluster, 1_000_000_000).unwrap();
    let name = "client4".parse().unwrap();
    let subject = || Subject { role: Role::Client, name: &name, nids: &[] };
    let ever = (1_000_000_000, 10_000_000_000);
    let made = made.issue_key(subject(), Vec::new(), ever).unwrap().to_text();
    let own_part = made.rsplit_once("-----BEGIN CERTIFICATE").unwrap().0;
    let true_authority = own.to_text();
    let true_authority = true_authority.rsplit_once("-----BEGIN CERTIFICATE").unwrap().1;
    let mixed = format!("{own_part}-----BEGIN CERTIFICATE{true_authority}");
    let [made, mixed] =
        [("made", &made), ("mixed", &mixed)].map(|(name, key)| site.keep(name, key));
    let early = authority.issue_key(subject(), Vec::new(), (5_000_000_000, 60)).unwrap();
    let early = site.keep("early", &early.to_text());
    let readable = site.keep("readable", &fs::read_to_string(&client3).unwrap());
    fs::set_permissions(&readable, Permissions::from_mode(0o644)).unwrap();
    let listed = text(&site.must(1, &["auth", "list", &mgt]));
    assert!(
        ["mds", "oss", "client3", "client4"].iter().all(|name| listed.contains(name)),
        "{listed}"
    );
    let umount = Command::new("umount").arg(&other).status().expect("umount runs");
    assert!(umount.success());
    for (options, why) in [
        (
            String::new(),
            "this cluster is secured, and this host has no key of it; `sheen auth issue`",
        ),
        (format!("key={foreign}"), "its key is of another cluster: another authority signed it"),
        (format!("key={made}"), "its key is of another cluster: another authority signed it"),
        (format!("key={mixed}"), "the key of this host is of another cluster"),
        (format!("key={expired}"), "the key of this host has expired"),
        (format!("key={early}"), "or the clock of one of the hosts is wrong"),
        (format!("key={readable}"), "chmod 600"),
        (format!("key={}", site.at("nothing.pem")), "No such file"),
    ] {
        let said = site.refused(4, &options);
        assert!(said.contains(why), "{options}: {said}");
    }
    // The key of a client does not serve a target.
    site.must(4, &["mkfs", "--ost", &site.at("false-ost"), "--mgsnode", &site.mgs()]);
    let listen = format!("{}:988", site.hosts.address(4));
    let said =
        site.sheen(4, &["serve", &site.at("false-ost"), "--listen", &listen, "--key", &client4]);
    assert!(
        !said.status.success() && text(&said).contains("needs that of a server"),
        "{}",
        text(&said)
    );

    // A connection that is lost is made again; a server that was killed comes back.
    site.hosts.cable(3, false);
    std::thread::sleep(Duration::from_secs(1));
    site.hosts.cable(3, true);
    fs::write(one.join("after"), "the cut").unwrap();
    let (_, killed) = site.servers.pop().expect("the OSS");
    kill_and_wait(killed.id() as i32);
    let mgs = site.mgs();
    site.serve(2, "oss", &["ost"], &["--mgsnode", &mgs, "--key", &oss]);
    fs::write(one.join("large"), vec![7; 3 << 20]).unwrap();
    File::open(one.join("large")).unwrap().sync_all().unwrap();

    // A revoked key is out within two seconds, and its host is told why; others notice nothing.
    let other = site.mount(4, &format!("key={client4},soft"));
    fs::write(other.join("mine"), "before").unwrap();
    let began = Instant::now();
    site.must(1, &["auth", "revoke", &mgt, "--name", "client4"]);
    let until = loop {
        match fs::write(other.join(format!("mine{}", began.elapsed().as_millis())), "after") {
            Ok(()) if began.elapsed() < Duration::from_secs(10) => {
                std::thread::sleep(Duration::from_millis(20))
            }
            Ok(()) => panic!("it still writes\n{}", site.logs()),
            Err(_) => break began.elapsed(),
        }
    };
    eprintln!("revoked after {until:?}");
    assert!(until < Duration::from_secs(2), "revoked after {until:?}");
    fs::write(one.join("theirs"), "goes on").unwrap();
    detach(&other);
    site.mounts.retain(|mount| *mount == one);
    let said = site.refused(4, &format!("key={client4}"));
    assert!(said.contains("the key of this host was revoked"), "{said}");
    // Also after every server was started again.
    site.stop();
    site.serve_all(&[], &["--key", &oss]);
    let said = site.refused(4, &format!("key={client4}"));
    assert!(said.contains("the key of this host was revoked"), "{said}");
    let one = site.mount(3, &format!("key={client3}"));
    assert_eq!(fs::read_to_string(one.join("theirs")).unwrap(), "goes on");
    site.stop();
}

/// What another implementation of TLS 1.3 (openssl) gets for a greeting, with these arguments.
fn greeted_by_openssl(site: &Site, more: &[&str]) -> Vec<u8> {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        purpose: Purpose::Control,
        process: ClientUuid(7),
        cluster: ClusterId(0),
        pairing: Pairing(9),
    };
    let target: Nid = site.mgs().parse().expect("a NID");
    let greeting = frame(FrameKind::Hello, &hello.encode(), target);
    let address = format!("{}:988", site.hosts.address(1));
    let mut command = site.hosts.command(3, Path::new("openssl"));
    command.args(["s_client", "-connect", &address, "-tls1_3", "-alpn", "sheen/1", "-quiet"]);
    command.args(["-servername", "server.sheenfs.internal", "-verify_return_error"]);
    command.args(["-verify_hostname", "server.sheenfs.internal"]).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut openssl = command.spawn().expect("openssl runs");
    let mut to = openssl.stdin.take().expect("a pipe");
    to.write_all(&greeting).expect("it is read");
    let mut answer = [0; HEADER_BYTES];
    let read = openssl.stdout.take().expect("a pipe").read_exact(&mut answer);
    drop(to);
    kill_and_wait(openssl.id() as i32);
    // It was just killed.
    let _ = openssl.wait();
    read.map(|()| answer.to_vec()).unwrap_or_default()
}

/// The private key of a key file in the first version of PKCS #8: openssl 3.0 reads no second one,
/// which has the public key, too.
fn key_for_openssl(text: &str) -> Vec<u8> {
    let start = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let lines = text.lines().skip_while(|line| *line != "-----BEGIN PRIVATE KEY-----").skip(1);
    let lines: String = lines.take_while(|line| !line.starts_with("-----")).collect();
    let mut decode = Command::new("base64");
    decode.arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut decode = decode.spawn().expect("base64 runs");
    decode.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it is read");
    let key = decode.wait_with_output().expect("it ends").stdout;
    let at = key.windows(4).position(|bytes| bytes == &start[12..]).expect("an Ed25519 key") + 4;
    [&start[..], &key[at..at + 32]].concat()
}

#[test]
fn another_implementation_of_tls_is_answered_if_it_shows_a_key() {
    let there = Command::new("openssl").arg("version").output().is_ok_and(|o| o.status.success());
    if !can_mount() || !there {
        eprintln!("skipped: no mounts here, or no openssl");
        return;
    }
    let Some(mut site) = Site::new() else { return };
    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    let key = site.key("client3", "client");
    site.serve(1, "mds", &["mgt", "mdt"], &[]);
    let text = fs::read_to_string(&key).unwrap();
    let [own, all] = ["client3.der", "certificates.pem"].map(|name| site.at(name));
    fs::write(&own, key_for_openssl(&text)).unwrap();
    // Its certificate, then that of the authority.
    fs::write(&all, &text[text.find("-----BEGIN CERTIFICATE").expect("one")..]).unwrap();
    let shows = ["-CAfile", &all, "-cert", &all, "-keyform", "DER", "-key", &own];
    let deadline = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        let answer = greeted_by_openssl(&site, &shows);
        if !answer.is_empty() || Instant::now() > deadline {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let header = Header::decode(answer.first_chunk().expect("an answer")).expect("a header");
    assert_eq!(header.kind, FrameKind::HelloReply);
    assert!(greeted_by_openssl(&site, &shows[..2]).is_empty(), "without a key");
}
