//! Lines that are not what they seem: address translation, IPv6 only, a router that lies, and load
//! over routers for as long as one likes.

use e2e::hosts::enter;
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use e2e::site::{SOON, Site, client_file, mgs, start_router, under_load};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use types::session::{ClientUuid, ClusterId};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{HelloReply, Welcome};
use wire::message::{VERSION_MAX, VERSION_MIN};
use wire::route::{ROUTE_BYTES, Routed};

/// What must not be seen.
const MARKER: &str = "mArKeR-70u7e511e5";
/// What a lying router hears is kept up to so much.
const HEARD_MAX: usize = 64 << 20;

/// Mounts take turns to add lines to one file, and each sees all of them.
fn take_turns(mounts: &[&PathBuf], rounds: usize) {
    for round in 0..rounds {
        for (at, mnt) in mounts.iter().enumerate() {
            let open = OpenOptions::new().create(true).append(true).open(mnt.join("turns"));
            writeln!(open.expect("open"), "{round} {at}").expect("append");
        }
    }
    for mnt in mounts {
        let seen = fs::read_to_string(mnt.join("turns")).expect("read");
        assert_eq!(seen.lines().count(), rounds * mounts.len(), "{}", mnt.display());
    }
}

#[test]
fn clients_behind_translated_addresses_share_files_and_lose_nothing() {
    if try_sh(Path::new("/"), "nft --version").status.code() != Some(0) {
        eprintln!("skipped: there is no nft here");
        return;
    }
    // Host 2 translates addresses of the first network to its own one on the second.
    let Some(mut site) = Site::new(&[2, 4, 5, 6], &[1, 2, 3]) else { return };
    let (box_, outside) = (site.hosts.namespace(2), site.hosts.second_address(1));
    let rules = "add table ip t; add chain ip t c { type nat hook postrouting priority 100; }; \
                 add rule ip t c oifname eth1 masquerade";
    let set_up = format!(
        "nsenter --net=/run/netns/{box_} sysctl -qw net.ipv4.ip_forward=1\n\
         nsenter --net=/run/netns/{box_} nft '{rules}'\n"
    );
    let output = try_sh(Path::new("/"), &set_up);
    if !output.status.success() {
        eprintln!("skipped: no translation of addresses here: {}", text(&output));
        return;
    }
    for host in [4, 5, 6] {
        let (namespace, gateway) = (site.hosts.namespace(host), site.hosts.address(2));
        sh(Path::new("/"), &format!("ip -n {namespace} route add {outside}/32 via {gateway}"));
    }
    site.serve("tcp(eth1)", &["--security", "off"]);
    site.wait_in_service("server");
    let source = format!("{}:/sheen", mgs(&site));
    // Three behind one address, and one beside the server.
    let [a, b, c, d] = [4, 5, 6, 3].map(|host| site.mount(host, &source, "network=tcp"));
    let shown = site.must(1, &["lctl", "get_param", "-n", "mdt.*.num_exports"]);
    assert_eq!(shown.trim(), "4", "four sessions");
    take_turns(&[&a, &b, &c, &d], 10);
    let written = under_load(&mut site, &a, |site, more| {
        for _ in 0..3 {
            // The box forgets all connections that it translates.
            sh(Path::new("/"), &format!("ip -n {box_} link set eth1 down"));
            sh(Path::new("/"), &format!("ip -n {box_} link set eth1 up"));
            more(site);
        }
    });
    assert!(written > 100, "{written} files");
    fs::remove_file(d.join("turns")).expect("remove");
    take_turns(&[&a, &b, &c, &d], 10);
}

#[test]
fn a_cluster_can_have_ipv6_only() {
    let Some(mut site) = Site::new(&[1, 2, 3], &[]) else { return };
    site.hosts.leave_ipv4();
    let nid = format!("{}@tcp", site.hosts.address(1));
    site.secure(&nid);
    let keys = ["client2", "client3"].map(|name| site.key(name, &[]));
    site.serve("tcp(eth0)", &[]);
    site.wait_in_service("server");
    let shown = site.lnetctl(1, &["net", "show"]);
    assert!(shown.contains(&format!("- nid: {nid}\n")), "{shown}");
    let source = format!("{nid}:/sheen");
    let [a, b] = [2, 3]
        .map(|host| site.mount(host, &source, &format!("network=tcp,key={}", keys[host - 2])));
    take_turns(&[&a, &b], 10);
    let pinged = site.must(2, &["lnetctl", "ping", &nid]);
    assert!(pinged.contains(&nid), "{pinged}");
    let clients = site.must(1, &["lshowmount", "-e"]);
    for host in [2, 3] {
        let client = format!("{}@tcp", site.hosts.address(host));
        assert!(clients.lines().any(|line| line == client), "{clients}");
    }
    let fsck = site.must(1, &["fsck", &nid]);
    assert!(fsck.contains("clean"), "{fsck}");
    let written = under_load(&mut site, &a, |site, more| {
        site.kill("server");
        site.serve("tcp(eth0)", &[]);
        more(site);
    });
    assert!(written > 30, "{written} files");
}

/// What a lying router does next to a piece of what passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Lie {
    Nothing,
    FlipBit,
    Repeat,
    LeaveOut,
    SendBack,
    Invent,
    /// It goes to the server over the circuit of another client.
    Swap,
}

const LIES: [Lie; 6] =
    [Lie::FlipBit, Lie::Repeat, Lie::LeaveOut, Lie::SendBack, Lie::Invent, Lie::Swap];

/// What it says of the server at the other end of a new circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Server {
    /// It leads there.
    Itself,
    /// That it has no key, in the clear.
    WithoutKey,
    /// It leads to a server of another cluster instead.
    Another,
}

/// Where that one listens, on the host of the router.
const ANOTHER: &str = "127.0.0.1:989";

/// A router that reads and changes what it forwards. It shares no code with the real one.
#[derive(Default)]
struct Liar {
    next: AtomicU8,
    told: AtomicU64,
    server: AtomicU8,
    /// Circuits that did not lead to the server.
    astray: AtomicU64,
    heard: Mutex<Vec<u8>>,
    /// The newest way to the server of each client, by its address.
    ways: Mutex<BTreeMap<IpAddr, TcpStream>>,
}

impl Liar {
    /// Forwards for clients on the first network to the server on the second one.
    fn starts(site: &Site, host: usize) -> Arc<Liar> {
        let liar = Arc::<Liar>::default();
        let server = site.hosts.listens_on(1, 1);
        liar.clone().run(&site.hosts.namespace(host), &site.hosts.address(host), server);
        liar
    }

    fn has_heard(&self, what: &[u8]) -> bool {
        let heard = self.heard.lock().expect("nobody panics with it");
        assert!(heard.len() > 8 << 20, "it heard {} bytes", heard.len());
        heard.windows(what.len()).any(|bytes| bytes == what)
    }

    /// The way to the server of another client than this one.
    fn other_way(&self, client: IpAddr) -> io::Result<TcpStream> {
        let ways = self.ways.lock().expect("nobody panics with it");
        let other = ways.iter().find(|(known, _)| **known != client);
        other.ok_or_else(|| io::Error::other("there is no other client"))?.1.try_clone()
    }

    /// Forwards from a listener on the first network to `server`, as long as the test runs.
    fn run(self: Arc<Self>, namespace: &str, at: &str, server: SocketAddr) {
        let (namespace, at) = (namespace.to_owned(), format!("{at}:988"));
        let (ready, listens) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            enter(&namespace).expect("root enters");
            let listener = TcpListener::bind(at).expect("the port is free");
            ready.send(()).expect("the test waits");
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                let liar = self.clone();
                std::thread::spawn(move || liar.circuit(near, server));
            }
        });
        listens.recv().expect("it listens");
    }

    /// Errors are ends of connections.
    fn circuit(self: Arc<Self>, mut near: TcpStream, server: SocketAddr) -> io::Result<()> {
        let mut asked = [0; HEADER_BYTES + ROUTE_BYTES];
        near.read_exact(&mut asked)?;
        let header = asked.first_chunk().expect("it is longer");
        let header = Header::decode(header).map_err(io::Error::other)?;
        let answer = |kind, body: &[u8]| {
            let (source, target) = (header.target, header.source);
            let body_bytes = body.len() as u32;
            let answer = Header { kind, body_bytes, body_crc: None, source, target, ..header };
            [&answer.encode()[..], body].concat()
        };
        near.write_all(&answer(FrameKind::Routed, &Routed::Yes.encode()))?;
        let says = self.server.load(Ordering::Acquire);
        let is_astray = says != Server::Itself as u8;
        self.astray.fetch_add(u64::from(is_astray), Ordering::AcqRel);
        if says == Server::WithoutKey as u8 {
            let reply = HelloReply {
                version_min: VERSION_MIN,
                version_max: VERSION_MAX,
                version: 0,
                welcome: Welcome::NoKey,
                process: ClientUuid(7),
                cluster: ClusterId(0),
            };
            near.read_exact(&mut [0; 8])?;
            near.write_all(&answer(FrameKind::HelloReply, &reply.encode_with(&[])))?;
            return near.read_to_end(&mut Vec::new()).map(drop);
        }
        let far = match is_astray {
            true => TcpStream::connect(ANOTHER)?,
            false => TcpStream::connect(server)?,
        };
        let client = near.peer_addr()?.ip();
        if !is_astray {
            let way = far.try_clone()?;
            self.ways.lock().expect("nobody panics with it").insert(client, way);
        }
        let ends = [(near.try_clone()?, far.try_clone()?), (far, near)];
        for (from, to) in ends {
            let liar = self.clone();
            std::thread::spawn(move || {
                let ended = liar.copy(&from, &to, client);
                let both = [&from, &to].map(|end| end.shutdown(Shutdown::Both));
                (ended, both)
            });
        }
        Ok(())
    }

    /// One direction of the circuit of a client.
    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, client: IpAddr) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let bytes = from.read(&mut buffer)?;
            if bytes == 0 {
                return Ok(());
            }
            let piece = &mut buffer[..bytes];
            let mut heard = self.heard.lock().expect("nobody panics with it");
            if heard.len() < HEARD_MAX {
                heard.extend_from_slice(piece);
            }
            drop(heard);
            // Greetings are short; data is not.
            let lie = match bytes > 1000 {
                true => self.next.swap(Lie::Nothing as u8, Ordering::AcqRel),
                false => 0,
            };
            self.told.fetch_add(u64::from(lie != 0), Ordering::AcqRel);
            let middle = bytes / 2;
            match LIES.into_iter().find(|known| *known as u8 == lie).unwrap_or(Lie::Nothing) {
                Lie::Nothing => to.write_all(piece)?,
                Lie::FlipBit => {
                    piece[middle] ^= 4;
                    to.write_all(piece)?;
                }
                Lie::Repeat => to.write_all(&[&*piece, &*piece].concat())?,
                Lie::LeaveOut => {}
                Lie::SendBack => {
                    from.write_all(piece)?;
                    to.write_all(piece)?;
                }
                Lie::Invent => {
                    let (first, rest) = piece.split_at(middle);
                    to.write_all(&[first, &[7; 100], rest].concat())?;
                }
                Lie::Swap => self.other_way(client)?.write_all(piece)?,
            }
        }
    }
}

#[test]
fn a_router_that_lies_learns_nothing_and_changes_nothing() {
    let Some(mut site) = Site::new(&[2, 4, 5], &[1, 2]) else { return };
    let nid = mgs(&site);
    site.secure(&nid);
    let keys = ["client4", "client5"].map(|name| site.key(name, &[]));
    // The server believes that host 2 is a router.
    let routes = format!("tcp1 {}@tcp", site.hosts.second_address(2));
    site.serve("tcp(eth1)", &["--routes", &routes]);
    site.wait_in_service("server");
    // A server of another cluster, with the same names.
    let other = site.at("other");
    site.must(2, &["mkfs", "--mgs", &other]);
    site.must(2, &["auth", "init", &other, "--mgsnode", &nid]);
    site.start(2, "impostor", &["serve", &other, "--listen", ANOTHER, "--security", "on"]);
    site.wait_in_service("impostor");
    let liar = Liar::starts(&site, 2);
    let (file, source) = (client_file(&site, &[2]), format!("{nid}:/sheen"));
    let [mnt, other] = [(4, &keys[0]), (5, &keys[1])]
        .map(|(host, key)| site.mount(host, &source, &format!("config={file},key={key}")));
    fs::write(mnt.join(format!("{MARKER}-name")), MARKER.repeat(1 << 16)).expect("write");
    sh(&mnt, "sync *");
    fs::write(other.join("others"), "of the other client").expect("write");
    under_load(&mut site, &mnt, |site, more| {
        for lie in LIES {
            let before = liar.told.load(Ordering::Acquire);
            liar.next.store(lie as u8, Ordering::Release);
            site.wait_for("the lie was told", || liar.told.load(Ordering::Acquire) > before);
            more(site);
        }
        // Sessions stand, so their programs wait until circuits lead to the server again.
        for says in [Server::WithoutKey, Server::Another] {
            let before = liar.astray.load(Ordering::Acquire);
            liar.server.store(says as u8, Ordering::Release);
            liar.next.store(Lie::FlipBit as u8, Ordering::Release);
            site.wait_for("circuits go astray", || {
                liar.astray.load(Ordering::Acquire) > before + 3
            });
            liar.server.store(Server::Itself as u8, Ordering::Release);
            more(site);
        }
    });
    assert_eq!(
        fs::read_to_string(mnt.join(format!("{MARKER}-name"))).expect("read"),
        MARKER.repeat(1 << 16)
    );
    // The other client lost connections at most.
    assert_eq!(fs::read_to_string(other.join("others")).expect("read"), "of the other client");
    fs::write(other.join("others"), "goes on").expect("write");
    assert_eq!(fs::read_to_string(mnt.join("others")).expect("read"), "goes on");
    let fsck = site.must(1, &["fsck", &nid]);
    assert!(fsck.contains("clean"), "{fsck}");
    for what in [MARKER.as_bytes(), b"/mnt4", b"/mnt5"] {
        assert!(!liar.has_heard(what), "{} in the clear", String::from_utf8_lossy(what));
    }
}

/// The twin of the test above: without keys the same router hears all of it.
#[test]
fn a_router_hears_everything_without_keys() {
    let Some(mut site) = Site::new(&[2, 4], &[1, 2]) else { return };
    site.serve("tcp(eth1)", &["--security", "off"]);
    site.wait_in_service("server");
    let liar = Liar::starts(&site, 2);
    let options = format!("config={}", client_file(&site, &[2]));
    let mnt = site.mount(4, &format!("{}:/sheen", mgs(&site)), &options);
    fs::write(mnt.join(format!("{MARKER}-name")), MARKER.repeat(1 << 20)).expect("write");
    sh(&mnt, "sync *");
    for what in [format!("{MARKER}-name"), MARKER.repeat(2), "/mnt4".to_owned()] {
        assert!(liar.has_heard(what.as_bytes()), "{what} is not heard");
    }
}

/// Bytes that each client writes at a time.
const PIECE: u64 = 16 << 20;
/// Two on each of four hosts.
const CLIENTS: usize = 8;

/// What a client has done.
#[derive(Default)]
struct Done {
    rounds: AtomicU64,
    /// Pieces of [`STEP`] written or read, files synced, lines added.
    steps: AtomicU64,
}

/// Bytes that are written or read at a time.
const STEP: usize = 1 << 20;

/// Writes, reads and shares, until told to stop; counts what is done.
fn work(mounts: &[PathBuf], own: usize, stop: &AtomicBool, done: &Done) -> io::Result<()> {
    let data = |round: u64| -> Vec<u8> {
        (0..PIECE).map(|at| (at.wrapping_mul(7) ^ round ^ own as u64) as u8).collect()
    };
    let step = || done.steps.fetch_add(1, Ordering::AcqRel);
    let (mut round, mut read) = (0, vec![0; STEP]);
    while !stop.load(Ordering::Acquire) {
        let data = data(round);
        let mut file = File::create(mounts[own].join(format!("big{own}")))?;
        for piece in data.chunks(STEP) {
            file.write_all(piece)?;
            step();
        }
        file.sync_all()?;
        step();
        // Another mount reads it: the lock is called back, and the data comes the other way.
        let other = &mounts[(own + 1) % mounts.len()];
        let mut file = File::open(other.join(format!("big{own}")))?;
        for piece in data.chunks(STEP) {
            file.read_exact(&mut read[..piece.len()])?;
            assert!(read[..piece.len()] == *piece, "round {round}");
            step();
        }
        assert_eq!(file.read(&mut read)?, 0, "round {round}: it is longer");
        let shared = OpenOptions::new().create(true).append(true).open(other.join("shared"));
        writeln!(shared?, "{own} {round}")?;
        step();
        round += 1;
        done.rounds.fetch_add(1, Ordering::AcqRel);
    }
    Ok(())
}

/// ROUTER_LOAD: seconds that it takes, 10 if it is not set.
#[test]
fn routers_carry_load_both_ways_without_standing_still() {
    let Some(mut site) = Site::new(&[2, 3, 4, 5, 6, 7], &[1, 2, 3]) else { return };
    site.serve("tcp(eth1)", &["--security", "off"]);
    site.wait_in_service("server");
    for host in [2, 3] {
        start_router(&mut site, host, &["--security", "off"]);
        site.wait_in_service(&format!("router{host}"));
    }
    let (file, source) = (client_file(&site, &[2, 3]), format!("{}:/sheen", mgs(&site)));
    let options = format!("config={file}");
    let mounts: [PathBuf; CLIENTS] = std::array::from_fn(|own| {
        site.mount_as(4 + own % 4, &format!("mnt{own}"), &source, &options)
    });
    let began = Instant::now();
    let end = began + Duration::from_secs(e2e::number_of("ROUTER_LOAD", 10));
    let (stop, done) = (AtomicBool::new(false), [(); CLIENTS].map(|()| Done::default()));
    let mut longest = [Duration::ZERO; CLIENTS];
    std::thread::scope(|scope| {
        let (mounts, stop) = (&mounts, &stop);
        let workers: Vec<_> = done
            .iter()
            .enumerate()
            .map(|(own, done)| scope.spawn(move || work(mounts, own, stop, done)))
            .collect();
        let mut seen = [(0, Instant::now()); CLIENTS];
        let is_new = |done: &Done| done.rounds.load(Ordering::Acquire) == 0;
        // Each has come round, however short the time is.
        while Instant::now() < end || done.iter().any(is_new) {
            std::thread::sleep(Duration::from_millis(20));
            for (own, (count, since)) in seen.iter_mut().enumerate() {
                let now = done[own].steps.load(Ordering::Acquire);
                longest[own] = longest[own].max(since.elapsed());
                if now > *count {
                    (*count, *since) = (now, Instant::now());
                }
                if workers[own].is_finished() || since.elapsed() > SOON {
                    stop.store(true, Ordering::Release);
                    panic!("client {own} stands still after {count} steps\n{}", site.logs());
                }
            }
        }
        stop.store(true, Ordering::Release);
        for worker in workers {
            worker.join().expect("right data").expect("no error");
        }
    });
    let rounds = done.each_ref().map(|done| done.rounds.load(Ordering::Acquire));
    println!("rounds of each client in {:.0?}: {rounds:?}", began.elapsed());
    println!("the longest that each did nothing: {longest:.2?}");
    let lines = fs::read_to_string(mounts[0].join("shared")).expect("read").lines().count() as u64;
    assert_eq!(lines, rounds.iter().sum::<u64>(), "each line once");
}
