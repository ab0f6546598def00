//! Routers that are all gone for a while, and routers with circuits that are not read.

use e2e::site::{Site, client_file, mgs, routed, routing, start_router, under_load};
use e2e::stranger::ask_for_way;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use types::limits::{CIRCUITS_MAX, CIRCUITS_PER_ADDRESS_MAX};
use types::nid::Nid;
use wire::route::Routed;

/// Less than the lease of a client, and more.
const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(40);
/// Of a stalled circuit, bytes that are sent: more than a router and the kernel take.
const STALLED: usize = 512 << 10;
/// What a router with all its circuits stalled may have resident, bytes.
const RESIDENT_MAX: usize = 256 << 20;
/// First byte of a connection that is read.
const READ: u8 = b'r';
/// Bytes sent over one that is.
const AMOUNT: usize = 64 << 20;

fn start_both(site: &mut Site) {
    for host in [2, 3] {
        start_router(site, host, &["--security", "off"]);
        site.wait_in_service(&format!("router{host}"));
    }
}

#[test]
fn programs_wait_for_routers_and_a_client_that_is_cut_off_for_long_harms_no_other() {
    let Some(mut site) = routed(&["--security", "off"]) else { return };
    site.wait_in_service("server");
    start_both(&mut site);
    let source = format!("{}:/sheen", mgs(&site));
    let options = format!("config={}", client_file(&site, &[2, 3]));
    let far = site.mount(4, &source, &options);
    let near = site.mount(2, &source, "network=tcp");
    let written = under_load(&mut site, &far, |site, more| {
        site.kill("router2");
        site.kill("router3");
        std::thread::sleep(SHORT);
        start_both(site);
        more(site);
    });
    assert!(written >= 60, "{written} files");

    // It holds locks of the file that others change meanwhile.
    fs::write(far.join("held"), "before").expect("write");
    assert_eq!(fs::read(far.join("held")).expect("read"), b"before");
    let mut lost = File::create(far.join("lost")).expect("create");
    let written = under_load(&mut site, &near, |site, more| {
        lost.write_all(&[7; 64 << 10]).expect("it is kept");
        site.kill("router2");
        site.kill("router3");
        let began = Instant::now();
        // Their locks are taken from the client that is gone.
        fs::write(near.join("held"), "after").expect("write");
        fs::write(near.join("lost"), "of another").expect("write");
        more(site);
        std::thread::sleep(LONG.saturating_sub(began.elapsed()));
        more(site);
    });
    assert!(written >= 60, "{written} files");
    start_both(&mut site);
    site.wait_for("the mount works again", || {
        fs::read(far.join("held")).is_ok_and(|data| data == b"after")
    });
    fs::write(far.join("new"), "written").expect("write");
    assert_eq!(fs::read(near.join("new")).expect("read"), b"written");
    // Its programs hear of what is lost, and its log says why.
    assert!(lost.sync_all().is_err());
    assert_eq!(fs::read(far.join("lost")).expect("read"), b"of another");
    let log = site.log("client4");
    assert!(log.contains("evicted: what was written and not stored is lost"), "{log}");
}

/// A circuit through a router to a NID; what it says if there is none.
fn circuit(router: SocketAddr, target: Nid) -> Result<TcpStream, Routed> {
    let (answer, stream) = ask_for_way(router, target, 4);
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, 64 << 10).expect("a buffer");
    stream.set_read_timeout(None).expect("no limit");
    match answer {
        Routed::Yes => Ok(stream),
        why => Err(why),
    }
}

/// Bytes sent before the router takes no more.
fn fill(stream: &mut TcpStream) -> usize {
    stream.set_nonblocking(true).expect("a socket");
    let (mut sent, piece) = (0, [7; 64 << 10]);
    while sent < STALLED {
        match stream.write(&piece[..piece.len().min(STALLED - sent)]) {
            Ok(bytes) => sent += bytes,
            Err(_) => break,
        }
    }
    sent
}

/// Reads what begins so, and nothing else of what comes; keeps all.
fn serve_some(listener: &TcpListener) {
    let mut kept = Vec::new();
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut first = [0];
        if stream.read_exact(&mut first).is_ok() && first[0] == READ {
            std::thread::spawn(move || {
                let mut left = AMOUNT - 1;
                let mut buffer = vec![0; 256 << 10];
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    left -= bytes;
                    if left == 0 {
                        // The sender waits for that.
                        let _ = stream.write_all(&[READ]);
                    }
                }
            });
        } else {
            kept.push(stream);
        }
    }
}

/// Bytes a second over a circuit that is read.
fn rate(router: SocketAddr, target: Nid) -> f64 {
    let mut stream = circuit(router, target).expect("there is room");
    let (began, piece) = (Instant::now(), [READ; 256 << 10]);
    for _ in 0..AMOUNT / piece.len() {
        stream.write_all(&piece).expect("it is read");
    }
    stream.read_exact(&mut [0]).expect("all arrived");
    AMOUNT as f64 / began.elapsed().as_secs_f64()
}

/// Resident memory that is no file's, bytes.
fn resident(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn circuits_that_nobody_reads_cost_a_router_little_and_others_nothing() {
    let Some(mut site) = Site::new(&[2, 4, 5], &[1, 2]) else { return };
    let raised = Rlimit {
        current: getrlimit(Resource::Nofile).maximum,
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    if raised.current.is_some_and(|most| most < 8 * CIRCUITS_MAX as u64) {
        eprintln!("skipped: this process may have {raised:?} files");
        return;
    }
    setrlimit(Resource::Nofile, raised).expect("up to the maximum");
    site.serve("tcp(eth1)", &["--security", "off"]);
    site.wait_in_service("server");
    start_router(&mut site, 2, &["--security", "off"]);
    site.wait_in_service("router2");
    // From now on what listens there reads only some.
    let address: SocketAddr =
        format!("{}:988", site.hosts.second_address(1)).parse().expect("an address");
    let target: Nid = mgs(&site).parse().expect("a NID");
    let router: SocketAddr = format!("{}:988", site.hosts.address(2)).parse().expect("an address");
    site.wait_for("the router knows the server", || {
        site.hosts.on(4, || circuit(router, target).is_ok())
    });
    site.kill("server");
    let listener = site.hosts.on(1, || TcpListener::bind(address).expect("the port is free"));
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 64 << 10).expect("a buffer");
    rustix::net::listen(&listener, 4096).expect("a longer queue");
    std::thread::spawn(move || serve_some(&listener));

    let alone = site.hosts.on(4, || rate(router, target));
    let before = resident(site.pid("router2"));
    site.wait_for("its circuit ends", || routing(&site, 2, "circuits") == 0);
    let refused = routing(&site, 2, "refused");
    let mut held: Vec<TcpStream> = Vec::new();
    for host in [4, 5] {
        held.extend(site.hosts.on(host, || {
            // One place of the last ones is for the circuit that is read.
            let count = CIRCUITS_PER_ADDRESS_MAX - usize::from(host == 5);
            let mut made: Vec<TcpStream> =
                (0..count).map(|_| circuit(router, target).expect("there is room")).collect();
            for stream in &mut made {
                assert!(fill(stream) > 0, "it takes some");
            }
            made
        }));
    }
    // What the kernel holds goes on until all is full.
    std::thread::sleep(Duration::from_secs(2));
    for stream in &mut held {
        fill(stream);
    }
    let beside = site.hosts.on(5, || rate(router, target));
    let more = resident(site.pid("router2")).saturating_sub(before);
    println!(
        "{} stalled circuits: {} MiB resident; {:.0} MB/s alone, {:.0} MB/s beside them",
        held.len(),
        more >> 20,
        alone / 1e6,
        beside / 1e6
    );
    assert!(more <= RESIDENT_MAX, "{more} bytes");
    // The first one has all its places, and so has the table when the second one has.
    let why = site.hosts.on(4, || circuit(router, target).err());
    assert_eq!(why, Some(Routed::NoRoom));
    assert_eq!(routing(&site, 2, "refused"), refused + 1);
    drop(held);
    site.wait_for("places are free again", || site.hosts.on(4, || circuit(router, target).is_ok()));
}
