//! Taps on every cable of a cluster with three servers and two routers, while clients behind the
//! routers build, write and read what is marked: without keys they hear each mark, with keys none,
//! in no form.
//!
//! `TAP_MIB` sets the size of the large file (16).

use super::heard::disguises;
use e2e::hosts::Hosts;
use e2e::process::text;
use e2e::programs::sh;
use e2e::site::{Site, client_file, mgs, routing, start_router};
use e2e::tap::Tap;
use memchr::memmem::Finder;
use seal::token::Token;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// With the MGS and the MDT.
const MDS: usize = 1;
const ROUTERS: [usize; 2] = [2, 3];
const CLIENTS: [usize; 2] = [4, 5];
const OSS: [usize; 2] = [6, 7];
/// The networks: of clients and of servers; routers are on both.
const NETWORKS: [&[usize]; 2] = [&[2, 3, 4, 5], &[1, 2, 3, 6, 7]];
/// The first bytes of each frame.
const MAGIC: &[u8] = b"SHEE";
/// So often random bytes may be these four: a tap hears less than 4 GiB, so once is expected.
const MAGIC_BY_CHANCE: usize = 8;
/// Frames by which circuits through routers begin, in the clear, on all cables.
const MAGIC_OF_CIRCUITS: usize = 400;

/// What is marked, each with 16 letters of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    FileName,
    DirectoryName,
    Content,
    Source,
    AttributeName,
    AttributeValue,
    LinkTarget,
    Parameter,
}

const MARKS: [Mark; 8] = [
    Mark::FileName,
    Mark::DirectoryName,
    Mark::Content,
    Mark::Source,
    Mark::AttributeName,
    Mark::AttributeValue,
    Mark::LinkTarget,
    Mark::Parameter,
];

struct Marked {
    letters: [String; MARKS.len()],
    mib: usize,
}

impl Marked {
    fn new() -> Marked {
        let letters = MARKS.map(|_| format!("{:016x}", fastrand::u64(..)));
        Marked { letters, mib: e2e::number_of("TAP_MIB", 16) }
    }

    fn of(&self, mark: Mark) -> &str {
        &self.letters[mark as usize]
    }

    /// Writes it all through one mount, and reads it through the other one.
    fn travels(&self, site: &Site, [one, other]: [&Path; 2]) {
        let [name, dir, source] =
            [Mark::FileName, Mark::DirectoryName, Mark::Source].map(|mark| self.of(mark));
        let piece = self.of(Mark::Content).repeat((1 << 20) / 16);
        let mut file = File::create(one.join(name)).expect("create");
        for _ in 0..self.mib {
            file.write_all(piece.as_bytes()).expect("write");
        }
        file.sync_all().expect("sync");
        let mut file = File::open(other.join(name)).expect("open");
        let mut read = vec![0; piece.len()];
        for _ in 0..self.mib {
            file.read_exact(&mut read).expect("read");
            assert!(read == piece.as_bytes(), "other bytes");
        }
        let build = format!(
            "mkdir {dir}; cd {dir}
             for n in $(seq 12); do echo \"int f$n(void) {{ return $n; }} /* {source} */\" > f$n.c; done
             for n in $(seq 12); do cc -c f$n.c; done; ar rcs all.a *.o; cp -r . ../copy; rm *.o; sync *"
        );
        sh(one, &build);
        sh(other, &format!("grep -q {source} {dir}/*.c copy/*.c && rm -r {dir} copy"));
        let (attribute, value) = (self.of(Mark::AttributeName), self.of(Mark::AttributeValue));
        sh(one, &format!("setfattr -n user.{attribute} -v {value} {name}"));
        let shown = sh(other, &format!("getfattr -n user.{attribute} {name}"));
        assert!(shown.contains(value), "{shown}");
        let target = self.of(Mark::LinkTarget);
        std::os::unix::fs::symlink(target, one.join("link")).expect("symlink");
        assert_eq!(fs::read_link(other.join("link")).expect("readlink"), Path::new(target));
        let parameter = self.of(Mark::Parameter);
        site.must(MDS, &["lctl", "set_param", "-P", &format!("jobid_name={parameter}")]);
        for host in CLIENTS {
            site.wait_for("clients are told of a parameter", || {
                let told = site.must(host, &["lctl", "get_param", "-n", "jobid_name"]);
                told.trim() == parameter
            });
        }
    }
}

/// All cables: network and host.
fn cables() -> impl Iterator<Item = (usize, usize)> {
    NETWORKS
        .into_iter()
        .enumerate()
        .flat_map(|(at, hosts)| hosts.iter().map(move |host| (at, *host)))
}

/// What taps on all cables hear while `work` is done, a cable each: at least 9 of 10 bytes.
fn heard(site: &Site, work: impl FnOnce()) -> Vec<Vec<u8>> {
    let names: Vec<String> = cables().map(|(at, host)| site.hosts.interface_on(at, host)).collect();
    let taps: Vec<Tap> = names.iter().map(|name| Tap::on(name).expect("a tap")).collect();
    let before: Vec<u64> = names.iter().map(|name| Hosts::carried(name)).collect();
    work();
    let carried: Vec<u64> =
        names.iter().zip(before).map(|(name, before)| Hosts::carried(name) - before).collect();
    let heard: Vec<Vec<u8>> = taps.into_iter().map(Tap::heard).collect();
    for ((name, carried), heard) in names.iter().zip(carried).zip(&heard) {
        let bytes = heard.len() as u64;
        assert!(bytes * 10 >= carried * 9, "{name}: {bytes} of {carried} bytes were heard");
    }
    heard
}

/// How often each of these is in what was heard.
fn counted(heard: &[Vec<u8>], what: &[u8]) -> usize {
    let finder = Finder::new(what);
    heard.iter().map(|bytes| finder.find_iter(bytes).count()).sum()
}

/// Servers, routers and mounts.
fn started(has_keys: bool) -> Option<(Site, [PathBuf; 2])> {
    let mut site = Site::on_networks(&NETWORKS)?;
    let (nid, [mgt, mdt]) = (mgs(&site), ["mgt", "mdt"].map(|name| site.at(name)));
    site.must(MDS, &["mkfs", "--mgs", &mgt]);
    site.must(MDS, &["mkfs", "--mdt", "--index", "0", &mdt]);
    let serve = ["serve", &mgt, &mdt, "--networks", "tcp(eth1)"];
    if has_keys {
        site.must(MDS, &["auth", "init", &mgt, "--mgsnode", &nid]);
        site.start(MDS, "server", &serve);
    } else {
        site.start(MDS, "server", &[&serve[..], &["--security", "off"]].concat());
    }
    site.wait_in_service("server");
    let protection = |site: &Site, name: &str, role: &str| match has_keys {
        true => ["--key".to_owned(), site.key(name, &["--role", role])],
        false => ["--security", "off"].map(str::to_owned),
    };
    for (index, host) in OSS.into_iter().enumerate() {
        let (ost, name) = (site.at(&format!("ost{index}")), format!("oss{index}"));
        site.must(host, &["mkfs", "--ost", "--index", &index.to_string(), "--mgsnode", &nid, &ost]);
        let [option, value] = protection(&site, &name, "server");
        let serve = ["serve", &ost, "--networks", "tcp(eth1)", "--mgsnode", &nid, &option, &value];
        site.start(host, &name, &serve);
        site.wait_in_service(&name);
    }
    for host in ROUTERS {
        let name = format!("router{host}");
        let [option, value] = protection(&site, &name, "client");
        start_router(&mut site, host, &[&option, &value]);
        site.wait_in_service(&name);
    }
    let file = client_file(&site, &ROUTERS);
    let mounts = CLIENTS.map(|host| {
        let mut options = format!("config={file}");
        if has_keys {
            options += &format!(",key={}", site.key(&format!("client{host}"), &[]));
        }
        site.mount(host, &format!("{nid}:/sheen"), &options)
    });
    Some((site, mounts))
}

#[test]
fn every_cable_is_tapped_and_none_shows_a_mark_or_a_token() {
    // The twin, without keys.
    let marked = Marked::new();
    let Some((site, mounts)) = started(false) else { return };
    let all = heard(&site, || marked.travels(&site, mounts.each_ref().map(PathBuf::as_path)));
    for mark in MARKS {
        let count = counted(&all, marked.of(mark).as_bytes());
        assert!(count > 0, "without keys the taps do not hear {mark:?}: they are broken");
    }
    // Over two cables of a client and a router each, and one of an OSS, in both directions.
    let pieces = counted(&all, marked.of(Mark::Content).as_bytes());
    assert!(pieces >= marked.mib << 18, "{pieces} pieces of {} MiB are heard", marked.mib);
    let magic = counted(&all, MAGIC);
    assert!(magic > 5 * MAGIC_OF_CIRCUITS, "{magic} frames");
    let bytes: usize = all.iter().map(Vec::len).sum();
    println!("without keys: {bytes} bytes on {} cables, {pieces} marks, {magic} frames", all.len());
    drop((all, site));

    let marked = Marked::new();
    let (site, mounts) = started(true).expect("as before");
    let word = site.must(MDS, &["auth", "token", &site.at("mgt")]);
    let word = word.trim();
    let token: Token = word.parse().expect("a token");
    let all = heard(&site, || {
        marked.travels(&site, mounts.each_ref().map(PathBuf::as_path));
        let file = site.at("client.toml");
        let mut join = site.command(CLIENTS[0]);
        join.args(["auth", "join", word, "--name", "joined", "--config", &file]);
        let output = join.env("SHEEN_KEYS_DIR", site.at("keys")).output().expect("sheen runs");
        assert!(output.status.success(), "{}", text(&output));
    });
    let secrets = MARKS.map(|mark| (format!("{mark:?}"), marked.of(mark).as_bytes().to_vec()));
    let tokens = [("token".to_owned(), word.as_bytes().to_vec())];
    let secret = [("secret".to_owned(), token.secret.to_vec())];
    for (name, what) in secrets.into_iter().chain(tokens).chain(secret) {
        for form in [disguises(&what), vec![what]].concat() {
            let count = counted(&all, &form);
            assert_eq!(count, 0, "{name} travels as {:?}", String::from_utf8_lossy(&form));
        }
    }
    let magic = counted(&all, MAGIC);
    let bytes: usize = all.iter().map(Vec::len).sum();
    println!("with keys: {bytes} bytes on {} cables, no mark, {magic} times the magic", all.len());
    let through = ROUTERS.map(|host| routing(&site, host, "route_length"));
    // Each byte of the large file went through a router twice, written and read.
    let least = (marked.mib as u64) << 21;
    assert!(through.iter().sum::<u64>() > least, "{through:?} bytes went through routers");
    assert!(magic <= MAGIC_BY_CHANCE + MAGIC_OF_CIRCUITS, "{magic} frames in the clear");
}
