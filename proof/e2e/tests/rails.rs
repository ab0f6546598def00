//! Multi-Rail: a server and a client with two interfaces use both, and go on with one.

use e2e::hosts::Hosts;
use e2e::site::{Site, under_load};
use std::fs;
use std::path::{Path, PathBuf};

/// Server on host 1, client on host 2, both on both networks.
struct Rails {
    site: Site,
    mnt: PathBuf,
}

/// `networks`: of both hosts; `second`: what the second network is called.
fn rails(networks: &str, second: &str) -> Option<Rails> {
    let mut site = Site::new(&[1, 2], &[1, 2])?;
    // Bytes of objects go over all links; what goes to the MDT does over one.
    site.serve(networks, &["--security", "off", "--dom-size", "0"]);
    site.wait_in_service("server");
    let file = site.at("client.toml");
    fs::write(&file, format!("networks = \"{networks}\"\n")).expect("write");
    let (a, b) = (site.hosts.address(1), site.hosts.second_address(1));
    let source = format!("{a}@tcp,{b}@{second}:/sheen");
    let mnt = site.mount(2, &source, &format!("config={file}"));
    Some(Rails { site, mnt })
}

impl Rails {
    /// Bytes that the client's two cables carried.
    fn carried(&self) -> [u64; 2] {
        carried(&self.site)
    }
}

fn carried(site: &Site) -> [u64; 2] {
    [site.hosts.interface(2), site.hosts.second_interface(2)].map(|name| Hosts::carried(&name))
}

/// Writes so many MiB and syncs them.
fn write(mnt: &Path, name: &str, mib: usize) {
    let data: Vec<u8> = (0..mib << 20).map(|n| (n % 253) as u8).collect();
    fs::write(mnt.join(name), data).expect("write");
    e2e::programs::sh(mnt, &format!("sync {name}"));
}

/// Each cable carried at least 40 % of what both did, and both at least this much.
fn is_shared(before: [u64; 2], after: [u64; 2], least: u64) {
    let [a, b] = [after[0] - before[0], after[1] - before[1]];
    assert!(a + b >= least, "{a} + {b} bytes");
    let share = a * 100 / (a + b);
    assert!((40..=60).contains(&share), "{share} % of {} bytes on the first cable", a + b);
}

/// The figure of a NID in what `lnetctl ... show -v` prints.
fn figure(shown: &str, nid: &str, name: &str) -> u64 {
    let (_, of) = shown.split_once(&format!("- nid: {nid}\n")).expect("it is listed");
    let of = of.split("- nid:").next().expect("there is one");
    let line = of.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{nid} {name}: {shown}"))
}

#[test]
fn two_interfaces_share_the_load_and_each_goes_on_alone() {
    let Some(Rails { mut site, mnt }) = rails("tcp(eth0,eth1)", "tcp") else { return };
    for host in [1, 2] {
        site.hosts.limit(host, 400_000_000);
    }
    let [a, b] =
        [site.hosts.address(1), site.hosts.second_address(1)].map(|ip| format!("{ip}@tcp"));
    // The first request that wants a bulk link makes all of them.
    write(&mnt, "first", 2);
    let before = carried(&site);
    write(&mnt, "data", 64);
    is_shared(before, carried(&site), 64 << 20);

    let peers = site.lnetctl(2, &["peer", "show", "-v"]);
    assert!(peers.contains(&format!("primary nid: {a}\n      Multi-Rail: True")), "{peers}");
    let nets = site.lnetctl(2, &["net", "show", "-v"]);
    let own = [site.hosts.address(2), site.hosts.second_address(2)].map(|ip| format!("{ip}@tcp"));
    for (theirs, ours) in [&a, &b].into_iter().zip(&own) {
        assert!(figure(&peers, theirs, "links") >= 2, "{peers}");
        assert!(figure(&peers, theirs, "send_length") > 24 << 20, "{peers}");
        assert!(figure(&nets, ours, "send_length") > 24 << 20, "{nets}");
    }
    let nets = site.lnetctl(1, &["net", "show", "-v"]);
    for nid in [&a, &b] {
        assert!(figure(&nets, nid, "recv_length") > 24 << 20, "{nets}");
    }

    let written = under_load(&mut site, &mnt, |site, more| {
        // The second cable, then the first one, which the control connections use.
        for second in [true, false, true] {
            let cable = |site: &Site, plugged| match second {
                true => site.hosts.second_cable(2, plugged),
                false => site.hosts.cable(2, plugged),
            };
            cable(site, false);
            more(site);
            more(site);
            let before = carried(site)[usize::from(second)];
            cable(site, true);
            site.wait_for("the cable is used again", || {
                carried(site)[usize::from(second)] > before + (4 << 20)
            });
        }
    });
    assert!(written >= 200, "{written} files");
    let before = carried(&site);
    write(&mnt, "last", 64);
    is_shared(before, carried(&site), 64 << 20);
}

#[test]
fn two_networks_are_as_good_as_two_interfaces_of_one() {
    let Some(rails) = rails("tcp(eth0),tcp1(eth1)", "tcp1") else { return };
    let Rails { site, mnt } = &rails;
    for host in [1, 2] {
        site.hosts.limit(host, 400_000_000);
    }
    write(mnt, "first", 2);
    let before = rails.carried();
    write(mnt, "data", 64);
    is_shared(before, rails.carried(), 64 << 20);
}

#[test]
fn one_interface_reaches_both_of_a_server() {
    // The client has one cable, and names nothing: the routes of its host lead to both addresses.
    let Some(mut site) = Site::new(&[1, 2], &[1]) else { return };
    let (a, b) = (site.hosts.address(1), site.hosts.second_address(1));
    let router = format!("ip -n {} route add {b}/32 via {a}", site.hosts.namespace(2));
    e2e::programs::sh(Path::new("/"), &router);
    site.serve("tcp(eth0,eth1)", &["--security", "off", "--dom-size", "0"]);
    site.wait_in_service("server");
    let mnt = site.mount(2, &format!("{a}@tcp:/sheen"), "network=tcp");
    write(&mnt, "first", 2);
    write(&mnt, "data", 32);
    let peers = site.lnetctl(2, &["peer", "show", "-v"]);
    let nids = [a, b].map(|ip| format!("{ip}@tcp"));
    for nid in &nids {
        assert!(figure(&peers, nid, "send_length") > 8 << 20, "{peers}");
    }
    // The server loses the second NID: what stands goes on, and what is made anew leaves it out.
    site.lnetctl(1, &["net", "del", "--net", "tcp", "--if", "eth1"]);
    write(&mnt, "more", 8);
    site.lnetctl(2, &["peer", "del", "--prim_nid", &nids[0], "--nid", &nids[0]]);
    write(&mnt, "last", 8);
    let peers = site.lnetctl(2, &["peer", "show", "-v"]);
    assert!(!peers.contains(&format!("nid: {}\n", nids[1])), "{peers}");
}
