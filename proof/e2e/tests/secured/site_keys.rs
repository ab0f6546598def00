//! Hosts whose keys an authority of the site made, which openssl plays: let in as the mapping says,
//! over restarts of the servers; refused without a mapping, after the end of their certificate, of
//! another authority, as servers, when revoked, and when the mapping is removed.

use super::Site;
use e2e::can_mount;
use e2e::process::{detach, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is taken back is out by then.
const OUT: Duration = Duration::from_secs(2);
const MAP: &str = "spiffe://site.example/hpc/*=client:physics";

/// Certificates by openssl, in the folder of the test.
struct Pki<'a> {
    site: &'a Site,
    ca: &'static str,
}

impl<'a> Pki<'a> {
    fn new(site: &'a Site, ca: &'static str, algorithm: &str) -> Pki<'a> {
        let pki = Pki { site, ca };
        let [key, cert] = ["key", "pem"].map(|what| site.at(&format!("{ca}.{what}")));
        let new = format!(
            "req -x509 -newkey {algorithm} -nodes -keyout {key} -out {cert} -days 2 -subj /CN={ca} \
             -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
        );
        openssl(&new);
        pki
    }

    fn certificate(&self) -> String {
        self.site.at(&format!("{}.pem", self.ca))
    }

    /// Installs a key with this id; returns its file.
    fn host(&self, name: &str, id: &str, algorithm: &str, is_good: bool) -> String {
        let at = |what: &str| self.site.at(&format!("{name}.{what}"));
        let (key, cert, csr, ext) = (at("key"), at("crt"), at("csr"), at("ext"));
        openssl(&format!(
            "req -new -newkey {algorithm} -nodes -keyout {key} -out {csr} -subj /CN={name}"
        ));
        let extensions = format!(
            "subjectAltName=URI:{id}\nextendedKeyUsage=clientAuth,serverAuth\nbasicConstraints=CA:FALSE\n"
        );
        fs::write(&ext, extensions).unwrap();
        let (ca, ca_key) = (self.certificate(), self.site.at(&format!("{}.key", self.ca)));
        match is_good {
            true => openssl(&format!(
                "x509 -req -in {csr} -CA {ca} -CAkey {ca_key} -CAcreateserial -days 1 -extfile {ext} -out {cert}"
            )),
            // Only this command of openssl makes a certificate that has ended.
            false => {
                let (config, database) = (at("config"), at("database"));
                fs::write(&database, "").unwrap();
                let sections = format!(
                    "[ca]\ndefault_ca=d\n[d]\ndatabase={database}\ndefault_md=sha256\nrand_serial=yes\npolicy=p\n[p]\ncommonName=supplied\n"
                );
                fs::write(&config, sections).unwrap();
                openssl(&format!(
                    "ca -batch -notext -config {config} -outdir {} -cert {ca} -keyfile {ca_key} \
                     -startdate 20200101000000Z -enddate 20200201000000Z -extfile {ext} -in {csr} -out {cert}",
                    self.site.dir.path().display()
                ));
            }
        }
        let export = self.site.must(1, &["auth", "export", &self.site.at("mgt")]);
        let cluster = at("cluster");
        fs::write(&cluster, export.stdout).unwrap();
        let keys = at("keys");
        let mut install = self.site.hosts.command(1, &e2e::sheen());
        install.args(["auth", "install", "--cert", &cert, "--key", &key, &cluster]);
        let output = install.env("SHEEN_KEYS_DIR", &keys).output().expect("sheen runs");
        assert!(output.status.success(), "{}", text(&output));
        let mut files = fs::read_dir(keys).unwrap().map(|entry| entry.unwrap().path());
        files.next().expect("a key").display().to_string()
    }
}

fn openssl(arguments: &str) {
    let mut openssl = Command::new("openssl");
    let output = openssl.args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = output.expect("openssl runs");
    assert!(output.status.success(), "openssl {arguments}: {}", text(&output));
}

impl Site {
    fn auth(&self, what: &str, more: &[&str]) -> String {
        text(&self.must(1, &[&["auth", what, &self.at("mgt")], more].concat()))
    }

    /// The mount works, at the latest after a while.
    fn mounts(&mut self, name: &str, key: &str) -> PathBuf {
        let began = Instant::now();
        loop {
            let output = self.try_mount_at(4, name, &format!("key={key},soft"));
            if output.status.success() {
                let at = PathBuf::from(self.at(name));
                self.mounts.push(at.clone());
                return at;
            }
            assert!(began.elapsed() < OUT, "{}\n{}", text(&output), self.logs());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Writes end soon after what was just done.
    fn is_out(&mut self, mount: &Path, what: &str) {
        let began = Instant::now();
        while fs::write(mount.join(format!("late{}", began.elapsed().as_millis())), "x").is_ok() {
            assert!(began.elapsed() < PATIENCE, "{what}: it still writes\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{what}: out after {:?}", began.elapsed());
        assert!(began.elapsed() < OUT, "{what}: out after {:?}", began.elapsed());
        detach(mount);
        self.mounts.retain(|one| one != mount);
    }

    fn starts_again(&mut self, server: &'static str, oss: &str) {
        let at = self.servers.iter().position(|(name, _)| *name == server).expect("a server");
        let (_, mut killed) = self.servers.remove(at);
        e2e::process::kill_and_wait(killed.id() as i32);
        // It was just killed.
        let _ = killed.wait();
        let mgs = self.mgs();
        match server {
            "mds" => self.serve(1, "mds", &["mgt", "mdt"], &[]),
            _ => self.serve(2, "oss", &["ost"], &["--mgsnode", &mgs, "--key", oss]),
        }
    }
}

#[test]
fn keys_of_a_site_are_taken_as_its_mapping_says_and_no_others() {
    let there = Command::new("openssl").arg("version").output().is_ok_and(|o| o.status.success());
    if !can_mount() || !there {
        eprintln!("skipped: no mounts here, or no openssl");
        return;
    }
    let Some(mut site) = Site::new() else { return };
    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    let [oss, client3] =
        [("oss", "server"), ("client3", "client")].map(|(name, role)| site.key(name, role));
    site.serve_all(&[], &["--key", &oss]);
    let one = site.mount(3, &format!("key={client3}"));

    let ec = "ec -pkeyopt ec_paramgen_curve:P-256";
    let (rsa, other) = (Pki::new(&site, "site-ca", "rsa:2048"), Pki::new(&site, "other-ca", ec));
    let id = |name: &str| format!("spiffe://site.example/hpc/{name}");
    let node7 = rsa.host("node7", &id("node7"), ec, true);
    let [node8, ed] = [("node8", "rsa:2048"), ("node9", "ed25519")]
        .map(|(name, algorithm)| rsa.host(name, &id(name), algorithm, true));
    let unmapped = rsa.host("unmapped", "spiffe://site.example/lab/node7", ec, true);
    let expired = rsa.host("expired", &id("late"), ec, false);
    let foreign = other.host("foreign", &id("node7"), ec, true);
    let (ca, other_ca) = (rsa.certificate(), other.certificate());
    let no_site = site.refused(4, &format!("key={node7}"));
    assert!(no_site.contains("another authority signed it"), "{no_site}");

    // The mapping. Every kind of key comes, and what one writes the cluster's own client reads.
    site.auth("trust", &[&ca, "--map", MAP]);
    for (name, key) in [("rsa", &node8), ("ed", &ed)] {
        let mount = site.mounts(name, key);
        fs::write(mount.join(name), "of the site").unwrap();
        assert_eq!(fs::read_to_string(one.join(name)).unwrap(), "of the site");
        detach(&mount);
        site.mounts.retain(|other| *other != mount);
    }
    let list = site.auth("trust", &["--list"]);
    assert!(list.contains(MAP) && list.contains("\nauthority "), "{list}");
    for (key, why) in [
        (&unmapped, "no mapping lets it in"),
        (&expired, "has expired"),
        (&foreign, "another authority signed it"),
    ] {
        let said = site.refused(4, &format!("key={key}"));
        assert!(said.contains(why), "{said}");
    }
    // It serves nothing.
    site.must(4, &["mkfs", "--ost", &site.at("false-ost"), "--mgsnode", &site.mgs()]);
    let listen = format!("{}:988", site.hosts.address(4));
    let said =
        site.sheen(4, &["serve", &site.at("false-ost"), "--listen", &listen, "--key", &node7]);
    assert!(
        !said.status.success() && text(&said).contains("needs that of a server"),
        "{}",
        text(&said)
    );
    // Its client works over restarts of servers, as others do.
    let mount = site.mounts("site", &node7);
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = {
        let (stop, rounds, at) = (stop.clone(), rounds.clone(), mount.join("load"));
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let content = vec![rounds.load(Ordering::SeqCst) as u8; 300_000];
                fs::write(&at, &content)?;
                fs::File::open(&at)?.sync_all()?;
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            std::io::Result::Ok(())
        })
    };
    for server in ["oss", "mds", "oss"] {
        site.starts_again(server, &oss);
        let (began, from) = (Instant::now(), rounds.load(Ordering::SeqCst));
        while rounds.load(Ordering::SeqCst) < from + 3 && !load.is_finished() {
            assert!(began.elapsed() < PATIENCE, "{server}: it does not go on\n{}", site.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    stop.store(true, Ordering::SeqCst);
    let ended = load.join().expect("no panic");
    assert!(ended.is_ok(), "{ended:?}\n{}", site.logs());

    // A revoked name is out, with a new key of the same name, too, and after a restart.
    site.auth("revoke", &["--name", "physics+node7"]);
    site.is_out(&mount, "revoked");
    let again = Pki { site: &site, ca: "site-ca" }.host("again", &id("node7"), ec, true);
    for key in [&node7, &again] {
        let said = site.refused(4, &format!("key={key}"));
        assert!(said.contains("the key of this host was revoked"), "{said}");
    }
    // A mapping that is removed ends what came by it, and nothing else.
    let mount = site.mounts("site", &node8);
    fs::write(mount.join("before"), "x").unwrap();
    site.auth("trust", &["--remove", "physics"]);
    site.is_out(&mount, "removed");
    let said = site.refused(4, &format!("key={node8}"));
    assert!(said.contains("another authority signed it"), "{said}");
    fs::write(one.join("goes-on"), "x").unwrap();
    // So it is after everything was started again; another authority is not that.
    site.auth("trust", &[&other_ca, "--map", MAP]);
    site.stop();
    site.serve_all(&[], &["--key", &oss]);
    let mount = site.mounts("site", &foreign);
    assert_eq!(fs::read_to_string(mount.join("goes-on")).unwrap(), "x");
    let said = site.refused(4, &format!("key={node8}"));
    assert!(said.contains("another authority signed it"), "{said}");
    site.stop();
}
