//! Three networks, and two routers between them that are killed and cut off under load. No program
//! sees an error, nothing that was answered is missing, and the checker finds nothing
//! (docs/networks.md).
//!
//! `ROUTER_ROUNDS` sets the number of rounds; if it is not set, there are two short ones, without
//! the loads that need other programs. `ROUTER_SEED` repeats an order, `ROUTER_REPORT` names a file
//! for the figures, which are printed as well. `ROUTER_IPV6=1`: all of it over IPv6.
//! `ROUTER_ROUNDS=20 cargo test -p e2e --test networks -- --nocapture routers::`.

use e2e::callers::Callers;
use e2e::hosts::Hosts;
use e2e::load::{LOADS, Load, Work};
use e2e::process::text;
use e2e::site::{Site, mgs, routing};
use e2e::stalls::{Kill, histogram, longest_operations};
use e2e::stranger::ask_for_way;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::route::Routed;

/// The networks, of which routers are on all.
const NETWORKS: [&str; 3] = ["tcp1", "tcp", "o2ib"];
/// With the MGS; on `tcp`.
const MDS: usize = 1;
const ROUTERS: [usize; 2] = [2, 3];
/// On `tcp1`.
const CLIENTS: [usize; 2] = [4, 5];
/// On `o2ib` and `tcp`.
const OSS: usize = 6;
const OPEN: [&str; 2] = ["--security", "off"];
/// A silent router is left sooner than a silent host (30 s), also on a busy machine.
const SILENT_MAX: Duration = Duration::from_secs(20);
/// Rounds of a short run.
const USUAL: u64 = 2;
/// For so long a router is away in a long run, and a cable cut.
const AWAY: Duration = Duration::from_secs(20);
const CUT: Duration = Duration::from_secs(5);
/// How many of the longest operations are printed.
const LONGEST: usize = 10;

/// Something that happens to a router.
#[derive(Clone, Copy)]
enum Fault {
    Killed(usize),
    /// Its cable to a network, of [`NETWORKS`].
    Cut(usize, usize),
}

impl Fault {
    const NAMES: [&str; 2] = ["killed", "cut"];

    fn name(self) -> &'static str {
        match self {
            Fault::Killed(_) => Fault::NAMES[0],
            Fault::Cut(..) => Fault::NAMES[1],
        }
    }
}

/// One router is killed, and a cable of the other one cut, in either order.
fn round(rng: &mut fastrand::Rng) -> [Fault; 2] {
    let mut routers = ROUTERS;
    rng.shuffle(&mut routers);
    let mut faults =
        [Fault::Killed(routers[0]), Fault::Cut(routers[1], rng.usize(0..NETWORKS.len()))];
    rng.shuffle(&mut faults);
    faults
}

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

fn start_router(site: &mut Site, host: usize) {
    let nid = mgs(site);
    let networks: Vec<String> =
        NETWORKS.iter().enumerate().map(|(at, name)| format!("{name}(eth{at})")).collect();
    let networks = networks.join(",");
    let args = ["router", "--networks", &networks, "--mgsnode", &nid];
    site.start(host, &format!("router{host}"), &[&args[..], &OPEN].concat());
}

/// With all servers and routers.
fn three_networks() -> Option<Site> {
    let mut site = Site::on_networks(&[&[2, 3, 4, 5], &[1, 2, 3, 6], &[2, 3, 6]])?;
    if std::env::var_os("ROUTER_IPV6").is_some_and(|value| value == "1") {
        site.hosts.leave_ipv4();
    }
    let (nid, [mgt, mdt]) = (mgs(&site), ["mgt", "mdt"].map(|name| site.at(name)));
    site.must(MDS, &["mkfs", "--mgs", &mgt]);
    site.must(MDS, &["mkfs", "--mdt", &mdt]);
    let serve = ["serve", &mgt, &mdt, "--networks", "tcp(eth1)"];
    site.start(MDS, "server", &[&serve[..], &OPEN].concat());
    let osts = ["ost0", "ost1"].map(|name| site.at(name));
    for (index, ost) in ["0", "1"].iter().zip(&osts) {
        site.must(OSS, &["mkfs", "--ost", "--index", *index, "--mgsnode", &nid, ost]);
    }
    site.wait_in_service("server");
    let serve = ["serve", &osts[0], &osts[1], "--networks", "o2ib(eth2),tcp(eth1)"];
    site.start(OSS, "oss", &[&serve[..], &OPEN].concat());
    site.wait_in_service("oss");
    ROUTERS.iter().for_each(|host| start_router(&mut site, *host));
    ROUTERS.iter().for_each(|host| site.wait_in_service(&format!("router{host}")));
    Some(site)
}

/// Mounts on both clients; there is no way to the servers but the routers.
fn mounts(site: &mut Site) -> [PathBuf; 2] {
    for client in CLIENTS {
        for (network, host) in [(1, MDS), (1, OSS), (2, OSS)] {
            let mut way = site.hosts.command(client, Path::new("ip"));
            way.args(["route", "get", &site.hosts.address_on(network, host)]);
            let way = way.output().expect("ip runs");
            assert!(!way.status.success(), "{}", text(&way));
        }
    }
    let source = format!("{}:/sheen", mgs(site));
    let alone = site.at("alone.toml");
    fs::write(&alone, "networks = \"tcp1(eth0)\"\n").expect("write");
    let at = site.path().join("nowhere");
    let output = site.try_mount(CLIENTS[0], &source, &format!("config={alone}"), &at);
    assert!(!output.status.success() && text(&output).contains("no route"), "{}", text(&output));

    let ways = ROUTERS.map(|host| format!("{}@tcp1", site.hosts.address(host))).join(" ");
    let file = site.at("client.toml");
    let routes = format!("networks = \"tcp1(eth0)\"\nroutes = \"tcp {ways}; o2ib {ways}\"\n");
    fs::write(&file, routes).expect("write");
    let mounts = CLIENTS.map(|host| site.mount(host, &source, &format!("config={file}")));
    let routes = site.lnetctl(CLIENTS[0], &["route", "show", "-v"]);
    for net in ["tcp", "o2ib"] {
        assert_eq!(routes.matches(&format!("net: {net}\n")).count(), 2, "{routes}");
    }
    assert_eq!(routes.matches("state: up").count(), 4, "{routes}");
    mounts
}

/// What routers have forwarded since they were started, bytes.
fn forwarded(site: &Site, host: usize) -> u64 {
    routing(site, host, "route_length")
}

/// Bytes on the cables of the clients.
fn carried(site: &Site) -> u64 {
    CLIENTS.map(|host| Hosts::carried(&site.hosts.interface(host))).iter().sum()
}

/// Waits until all callers go on; for how long.
fn all_go_on(site: &Site, callers: &Callers) -> Duration {
    let mark = Instant::now();
    site.wait_for("all callers go on", || callers.has_ended() || callers.went_on(mark));
    mark.elapsed()
}

/// Does it, and undoes it; what a router that was killed had forwarded.
fn inflict(site: &mut Site, callers: &Callers, fault: Fault, is_long: bool) -> u64 {
    let began = Instant::now();
    let rest = |of: Duration| {
        std::thread::sleep(if is_long {
            of.saturating_sub(began.elapsed())
        } else {
            Duration::ZERO
        });
    };
    match fault {
        Fault::Killed(host) => {
            let bytes = forwarded(site, host);
            site.kill(&format!("router{host}"));
            all_go_on(site, callers);
            rest(AWAY);
            start_router(site, host);
            // Connections go through it again once it is used: the other one may be next.
            site.wait_for("the router answers", || {
                let address = site.hosts.listens_on(0, host);
                site.hosts.on(CLIENTS[0], || TcpStream::connect(address).is_ok())
            });
            bytes
        }
        // Nothing is reset, and a router that was merely slow would be waited for half a minute.
        Fault::Cut(host, network) => {
            site.hosts.cable_on(network, host, false);
            let waited = all_go_on(site, callers);
            assert!(waited < SILENT_MAX, "{waited:?} without router {host} on {network}");
            rest(CUT);
            site.hosts.cable_on(network, host, true);
            0
        }
    }
}

#[test]
fn routers_that_are_killed_and_cut_off_under_load_cost_no_error() {
    let (rounds, seed) = (number("ROUTER_ROUNDS"), number("ROUTER_SEED"));
    let (seed, is_long) = (seed.unwrap_or_else(|| fastrand::u64(..)), rounds.is_some());
    println!("ROUTER_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let Some(mut site) = three_networks() else { return };
    let before = carried(&site);
    let mounts = mounts(&mut site);
    let needs_none = |kind: &str| is_long || !["build", "fsx"].contains(&kind);
    let loads = LOADS.into_iter().filter(|(kind, _)| needs_none(kind));
    let loads: Vec<(&str, Load)> = loads.chain([("dd", Work::dd as Load)]).collect();
    let callers = Callers::begin(mounts.into(), &site.path().join("outside"), &loads, &mut rng);
    all_go_on(&site, &callers);
    let (mut faults, mut bytes, began) = (Vec::new(), 0, Instant::now());
    let rounds = rounds.unwrap_or(USUAL);
    for n in 0..rounds {
        for fault in round(&mut rng) {
            if callers.has_ended() {
                break;
            }
            let at = Instant::now();
            bytes += inflict(&mut site, &callers, fault, is_long);
            faults.push(Kill { at, restart: at.elapsed(), server: fault.name() });
            let (at, took) = ((at - began).as_secs_f64(), at.elapsed().as_secs_f64());
            let on = match fault {
                Fault::Killed(host) => format!("router {host}"),
                Fault::Cut(host, network) => format!("router {host} on {}", NETWORKS[network]),
            };
            println!("{n:>3} at {at:>6.1} s: {on} {}, {took:.1} s", fault.name());
            // So that no caller's wait is counted for the next one.
            all_go_on(&site, &callers);
        }
    }
    let took = began.elapsed();
    let ended = callers.end(|| site.logs());
    let all = ended.spans.iter().flat_map(|(_, spans)| longest_operations(&faults, spans));
    let stalls: Vec<_> = all.collect();
    let mut figures =
        histogram("a caller's longest operation after a fault", &stalls, &Fault::NAMES);
    figures += &ended.longest(LONGEST, began);
    bytes += ROUTERS.iter().map(|host| forwarded(&site, *host)).sum::<u64>();
    let carried = carried(&site) - before;
    let over_o2ib = Hosts::carried(&site.hosts.interface_on(2, OSS));
    let operations: usize = ended.spans.iter().map(|(_, spans)| spans.len()).sum();
    figures += &format!(
        "{} faults in {took:.0?}, {operations} timed operations; {carried} bytes on the cables of \
         the clients, {bytes} forwarded ({:.1} %), {over_o2ib} on o2ib\n",
        faults.len(),
        bytes as f64 / carried as f64 * 100.0
    );
    println!("{figures}");
    if let Some(path) = std::env::var_os("ROUTER_REPORT") {
        fs::write(path, &figures).expect("write the figures");
    }
    ended.check();
    assert_eq!(faults.len() as u64, 2 * rounds);
    assert!(bytes * 10 >= carried * 9, "{figures}");
    assert!(ROUTERS.iter().any(|host| routing(&site, *host, "circuits") > 0));
    let checked = site.must(MDS, &["fsck", &mgs(&site)]);
    assert!(checked.contains("clean"), "{checked}");
    only_servers_are_reached(&site);
}

/// A router is no door to anything but servers of its file systems.
fn only_servers_are_reached(site: &Site) {
    let server = site.hosts.second_address(1);
    let at_server = site.hosts.listens_on(1, MDS);
    let router = site.hosts.listens_on(0, 2);
    let refused = routing(site, 2, "refused");
    let ssh = SocketAddr::new(at_server.ip(), 22);
    let cases = [
        (format!("{ssh}@tcp"), 4, Routed::NotAllowed),
        ("127.0.0.1@tcp".to_owned(), 4, Routed::NotAllowed),
        ("0@lo".to_owned(), 4, Routed::NotAllowed),
        (format!("{}@tcp", site.hosts.second_address(2)), 4, Routed::NotAllowed),
        (format!("{}@tcp1", site.hosts.address(3)), 4, Routed::NotAllowed),
        (format!("{server}@tcp"), 0, Routed::TooFar),
        (format!("{server}@tcp"), 4, Routed::Yes),
    ];
    for (target, hops, expected) in &cases {
        let target = target.parse().expect("a NID");
        let answer = site.hosts.on(4, || ask_for_way(router, target, *hops)).0;
        assert_eq!(answer, *expected, "{target}");
    }
    assert_eq!(routing(site, 2, "refused") - refused, cases.len() as u64 - 1);
    // A server forwards nothing.
    let target = mgs(site).parse().expect("a NID");
    assert_eq!(site.hosts.on(2, || ask_for_way(at_server, target, 4)).0, Routed::NoRouter);
}
