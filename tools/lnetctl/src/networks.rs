//! What daemons say of their networks, as one; and changes of them.

use crate::yaml::{self, Out, entry};
use lctl::daemons::{self, Answered, Daemons};
use lctl::network::resolved;
use node::manage::control::{Answer, Request};
use node::manage::lnet::{
    LOCAL, LnetAnswer, LnetAsked, NetAnswer, PeerAnswer, PeerNidAnswer, RouteAnswer, RoutingAnswer,
    TrafficAnswer,
};
use report::{Report, strerror};
use std::io::{self, Write};
use types::errno::Errno;
use types::nid::Nid;

/// A part of what is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// Networks and NIDs.
    Net,
    /// Nodes at the other ends.
    Peer,
    /// Ways to other networks.
    Route,
    /// What routers forward.
    Routing,
}

/// What is to be shown.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Only this network.
    pub net: Option<&'a str>,
    /// Only this peer, or gateway.
    pub nid: Option<Nid>,
    /// Say more.
    pub verbose: u8,
    /// Say what is set, not how it goes.
    pub only_settings: bool,
}

impl Wanted<'_> {
    /// Everything, with so many words.
    pub fn verbose(verbose: u8) -> Wanted<'static> {
        Wanted { verbose, ..Wanted::default() }
    }
}

/// What all daemons say, each thing once.
pub fn ask(daemons: &Daemons, report: &mut Report<'_>) -> LnetAnswer {
    let mut all = LnetAnswer::default();
    let request = Request::Lnet { lnet: LnetAsked::Show };
    for Answered { answer, .. } in daemons.ask_all(&request, report) {
        match answer {
            Answer::Lnet { lnet } => merge(&mut all, *lnet),
            other => daemons::unexpected(&other, report),
        }
    }
    let within = |net: &NetAnswer| net.net == "lo" || net.net == LOCAL;
    all.nets.sort_by_key(|net| (net.net != "lo", !within(net), net.net.clone(), net.nid.clone()));
    all
}

fn merge(all: &mut LnetAnswer, more: LnetAnswer) {
    for net in more.nets {
        let same = |known: &&mut NetAnswer| (&known.net, &known.nid) == (&net.net, &net.nid);
        match all.nets.iter_mut().find(same) {
            Some(known) => {
                known.accepts |= net.accepts;
                add(&mut known.traffic, net.traffic);
            }
            None => all.nets.push(net),
        }
    }
    for peer in more.peers {
        match all.peers.iter_mut().find(|known| known.nid == peer.nid) {
            Some(known) => {
                known.links += peer.links;
                known.accepted += peer.accepted;
                known.accepted_local += peer.accepted_local;
                known.up |= peer.up;
                known.window = known.window.max(peer.window);
                known.round_trip_us = known.round_trip_us.max(peer.round_trip_us);
                add(&mut known.traffic, peer.traffic);
                peer.nids.into_iter().for_each(|nid| merge_nid(&mut known.nids, nid));
            }
            None => all.peers.push(peer),
        }
    }
    for route in more.routes {
        let same =
            |known: &&mut RouteAnswer| (&known.net, &known.gateway) == (&route.net, &route.gateway);
        match all.routes.iter_mut().find(same) {
            Some(known) => known.up |= route.up,
            None => all.routes.push(route),
        }
    }
    if let Some(more) = more.routing {
        let all = all.routing.get_or_insert_default();
        all.circuits += more.circuits;
        all.made += more.made;
        all.refused += more.refused;
        all.bytes += more.bytes;
    }
}

fn merge_nid(all: &mut Vec<PeerNidAnswer>, more: PeerNidAnswer) {
    match all.iter_mut().find(|known| known.nid == more.nid) {
        Some(known) => {
            known.up |= more.up;
            known.links += more.links;
            known.local += more.local;
            add(&mut known.traffic, more.traffic);
        }
        None => all.push(more),
    }
}

fn add(all: &mut TrafficAnswer, more: TrafficAnswer) {
    all.sent += more.sent;
    all.sent_bytes += more.sent_bytes;
    all.received += more.received;
    all.received_bytes += more.received_bytes;
}

/// Prints a section.
///
/// # Errors
/// `out` cannot be written.
pub fn show(
    section: Section,
    wanted: &Wanted<'_>,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let found = ask(daemons, report);
    match section_of(section, wanted, &found) {
        Some(entry) => yaml::print(out, &[entry]),
        None if wanted.net.is_some() || wanted.nid.is_some() => {
            report.errno("nothing fits", Errno::ENOENT);
            Ok(())
        }
        None => Ok(()),
    }
}

/// A section as it is printed; `None`: nothing is in it.
pub fn section_of(
    section: Section,
    wanted: &Wanted<'_>,
    found: &LnetAnswer,
) -> Option<(String, Out)> {
    let (name, list) = match section {
        Section::Net => ("net", nets(wanted, &found.nets)),
        Section::Peer => ("peer", peers(wanted, &found.peers)),
        Section::Route => ("route", routes(wanted, &found.routes)),
        Section::Routing => return Some(entry("routing", routing(found.routing.as_ref()))),
    };
    (!list.is_empty()).then(|| entry(name, Out::List(list)))
}

/// `tcp0` is another name of `tcp`.
fn same_net(a: &str, b: &str) -> bool {
    let short = |net: &str| {
        net.strip_suffix('0')
            .filter(|rest| *rest == "tcp" || *rest == "o2ib")
            .map_or(net.to_owned(), str::to_owned)
    };
    short(a) == short(b)
}

fn nets(wanted: &Wanted<'_>, nets: &[NetAnswer]) -> Vec<Out> {
    let mut list: Vec<(String, Vec<Out>)> = Vec::new();
    for net in nets.iter().filter(|net| wanted.net.is_none_or(|wanted| same_net(wanted, &net.net)))
    {
        let mut ni = vec![entry("nid", Out::text(&net.nid)), entry("status", Out::text("up"))];
        if let Some(interface) = &net.interface {
            ni.push(entry("interfaces", Out::Map(vec![entry("0", Out::text(interface))])));
        }
        if wanted.verbose > 0 && net.net != "lo" {
            ni.push(entry("lnd", Out::text(if net.net == LOCAL { "unix" } else { "tcp" })));
            let accepts = Out::text(if net.accepts { "yes" } else { "no" });
            ni.push(entry("accepts connections", accepts));
            if !wanted.only_settings {
                ni.push(statistics(net.traffic));
            }
        }
        match list.iter_mut().find(|(name, _)| *name == net.net) {
            Some((_, nis)) => nis.push(Out::Map(ni)),
            None => list.push((net.net.clone(), vec![Out::Map(ni)])),
        }
    }
    let of = |(net, nis)| {
        Out::Map(vec![entry("net type", Out::Text(net)), entry("local NI(s)", Out::List(nis))])
    };
    list.into_iter().map(of).collect()
}

/// What was counted, in Lustre's words.
fn statistics(traffic: TrafficAnswer) -> (String, Out) {
    let figures = [
        ("send_count", traffic.sent),
        ("recv_count", traffic.received),
        ("send_length", traffic.sent_bytes),
        ("recv_length", traffic.received_bytes),
    ];
    let figures = figures.map(|(name, figure)| entry(name, Out::text(figure)));
    entry("statistics", Out::Map(figures.into()))
}

fn peers(wanted: &Wanted<'_>, peers: &[PeerAnswer]) -> Vec<Out> {
    let wanted_nid = wanted.nid.map(|nid| nid.to_string());
    let is_meant = |peer: &&PeerAnswer| match &wanted_nid {
        None => true,
        Some(nid) => peer.nid == *nid || peer.nids.iter().any(|known| known.nid == *nid),
    };
    let verbose = wanted.verbose > 0 && !wanted.only_settings;
    let of = |peer: &PeerAnswer| {
        let mut nids = peer.nids.clone();
        if nids.is_empty() {
            let (nid, up, links) = (peer.nid.clone(), peer.up, peer.links);
            nids.push(PeerNidAnswer { nid, up, links, ..PeerNidAnswer::default() });
        }
        // What it sent over connections of its own came from where it is.
        add(&mut nids[0].traffic, peer.traffic);
        nids[0].up |= peer.up;
        let ni = |(at, nid): (usize, &PeerNidAnswer)| {
            let mut ni = vec![entry("nid", Out::text(&nid.nid))];
            if !wanted.only_settings {
                ni.push(entry("state", Out::text(if nid.up { "up" } else { "down" })));
            }
            if verbose {
                ni.push(entry("links", Out::text(nid.links)));
                if nid.local > 0 {
                    ni.push(entry("local links", Out::text(nid.local)));
                }
            }
            if verbose && at == 0 {
                ni.push(entry("accepted links", Out::text(peer.accepted)));
                if peer.accepted_local > 0 {
                    ni.push(entry("accepted local links", Out::text(peer.accepted_local)));
                }
                if peer.window > 0 {
                    ni.push(entry("max_ni_tx_credits", Out::text(peer.window)));
                }
                if peer.round_trip_us > 0 {
                    ni.push(entry("round trip (us)", Out::text(peer.round_trip_us)));
                }
            }
            if verbose {
                ni.push(statistics(nid.traffic));
            }
            Out::Map(ni)
        };
        Out::Map(vec![
            entry("primary nid", Out::text(&peer.nid)),
            entry("Multi-Rail", Out::text(if nids.len() > 1 { "True" } else { "False" })),
            entry("peer ni", Out::List(nids.iter().enumerate().map(ni).collect())),
        ])
    };
    peers.iter().filter(is_meant).map(of).collect()
}

fn routes(wanted: &Wanted<'_>, routes: &[RouteAnswer]) -> Vec<Out> {
    let wanted_nid = wanted.nid.map(|nid| nid.to_string());
    let meant = routes.iter().filter(|route| {
        wanted.net.is_none_or(|net| same_net(net, &route.net))
            && wanted_nid.as_ref().is_none_or(|nid| *nid == route.gateway)
    });
    let of = |route: &RouteAnswer| {
        let mut map =
            vec![entry("net", Out::text(&route.net)), entry("gateway", Out::text(&route.gateway))];
        if wanted.verbose > 0 {
            map.push(entry("hop", Out::text(route.hops.map_or(-1, i64::from))));
            map.push(entry("priority", Out::text(route.priority)));
        }
        if wanted.verbose > 0 && !wanted.only_settings {
            map.push(entry("state", Out::text(if route.up { "up" } else { "down" })));
        }
        Out::Map(map)
    };
    meant.map(of).collect()
}

fn routing(found: Option<&RoutingAnswer>) -> Out {
    let Some(found) = found else { return Out::Map(vec![entry("enable", Out::text(0))]) };
    Out::Map(vec![
        entry("enable", Out::text(1)),
        entry("circuits", Out::text(found.circuits)),
        entry("route_count", Out::text(found.made)),
        entry("refused", Out::text(found.refused)),
        entry("route_length", Out::text(found.bytes)),
    ])
}

/// Changes the networks of all daemons. `false`: not of all, and that is reported.
pub fn change(asked: LnetAsked, daemons: &Daemons, report: &mut Report<'_>) -> bool {
    if !daemons.are_of_one_cluster(report) {
        return false;
    }
    let answers = daemons.ask_all(&Request::Lnet { lnet: asked }, report);
    let mut failed: Vec<(i32, String)> = Vec::new();
    let mut done = false;
    for Answered { answer, .. } in answers {
        match answer {
            Answer::Done => done = true,
            Answer::Failed { errno, reason } => failed.push((errno, reason)),
            other => daemons::unexpected(&other, report),
        }
    }
    // Daemons that it does not concern: they have no such thing, or are on the network themselves,
    // or not on that of the router.
    let elsewhere = [Errno::ENOENT, Errno::EEXIST, Errno::EHOSTUNREACH];
    failed.retain(|(errno, _)| !done || !elsewhere.contains(&Errno(*errno)));
    failed.dedup();
    match failed.first() {
        Some(_) => {
            failed.iter().for_each(|(errno, why)| report.sentence(why, Errno(*errno)));
            false
        }
        None if !done => {
            let none = Errno(rustix::io::Errno::NETDOWN.raw_os_error());
            report.sentence("no daemon runs on this host", none);
            false
        }
        None => true,
    }
}

/// Asks each daemon until one reaches the node; for all nodes.
///
/// # Errors
/// `out` cannot be written.
pub fn ping(
    command: &str,
    nids: &[String],
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let mut reached = Vec::new();
    for text in nids {
        let Some(nid) = resolved(text, report) else { continue };
        match ping_one(nid, daemons, report) {
            Ok(told) => {
                let ni = |nid: &String| Out::Map(vec![entry("nid", Out::text(nid))]);
                reached.push(Out::Map(vec![
                    entry("primary nid", Out::text(nid)),
                    entry("Multi-Rail", Out::text(if told.len() > 1 { "True" } else { "False" })),
                    entry("peer ni", Out::List(told.iter().map(ni).collect())),
                ]));
            }
            Err(errno) => {
                report.sentence(&format!("failed to {command} {nid}: {}", strerror(errno)), errno);
            }
        }
    }
    match reached.is_empty() {
        true => Ok(()),
        false => yaml::print(out, &[entry(command, Out::List(reached))]),
    }
}

fn ping_one(nid: Nid, daemons: &Daemons, report: &mut Report<'_>) -> Result<Vec<String>, Errno> {
    let mut errno = None;
    let request = Request::Ping { nid: nid.to_string() };
    for Answered { answer, .. } in daemons.ask_all(&request, report) {
        match answer {
            Answer::Nids { nids } => {
                let lo = Nid::Loopback.to_string();
                return Ok(nids
                    .into_iter()
                    .filter(|told| *told != lo || nid == Nid::Loopback)
                    .collect());
            }
            Answer::Failed { errno: why, .. } => errno = errno.or(Some(Errno(why))),
            other => daemons::unexpected(&other, report),
        }
    }
    Err(errno.unwrap_or(Errno(rustix::io::Errno::NETDOWN.raw_os_error())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_with_several_nids_shows_what_went_to_each() {
        let nid = |nid: &str, up, sent_bytes| PeerNidAnswer {
            nid: nid.into(),
            up,
            links: 2,
            local: 0,
            traffic: TrafficAnswer { sent: 7, sent_bytes, ..TrafficAnswer::default() },
        };
        let peer = |up, bytes| PeerAnswer {
            nid: "10.0.0.1@tcp".into(),
            up: true,
            nids: vec![nid("10.0.0.1@tcp", true, bytes), nid("10.1.0.1@tcp", up, bytes)],
            ..PeerAnswer::default()
        };
        let mut all = LnetAnswer { peers: vec![peer(false, 100)], ..LnetAnswer::default() };
        merge(&mut all, LnetAnswer { peers: vec![peer(true, 11)], ..LnetAnswer::default() });
        let wanted = Wanted { nid: "10.1.0.1@tcp".parse().ok(), ..Wanted::verbose(1) };
        let mut out = Vec::new();
        let entries = section_of(Section::Peer, &wanted, &all);
        yaml::print(&mut out, entries.as_slice()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\
peer:
    - primary nid: 10.0.0.1@tcp
      Multi-Rail: True
      peer ni:
        - nid: 10.0.0.1@tcp
          state: up
          links: 4
          accepted links: 0
          statistics:
              send_count: 14
              recv_count: 0
              send_length: 111
              recv_length: 0
        - nid: 10.1.0.1@tcp
          state: up
          links: 4
          statistics:
              send_count: 14
              recv_count: 0
              send_length: 111
              recv_length: 0
"
        );
    }

    #[test]
    fn what_several_daemons_say_is_shown_once() {
        let net = |net: &str, nid: &str| NetAnswer {
            net: net.into(),
            nid: nid.into(),
            interface: (net != "lo").then(|| "eth0".into()),
            accepts: net != "lo",
            traffic: TrafficAnswer::default(),
        };
        let peer = |nid: &str, up| PeerAnswer {
            nid: nid.into(),
            up,
            links: 3,
            window: 8,
            ..PeerAnswer::default()
        };
        let mut all = LnetAnswer::default();
        let one = LnetAnswer {
            nets: vec![net("lo", "0@lo"), net("tcp", "10.0.0.1@tcp")],
            peers: vec![peer("10.0.0.2@tcp", false)],
            ..LnetAnswer::default()
        };
        let other = LnetAnswer {
            nets: vec![net("lo", "0@lo"), net("tcp", "10.0.0.1:7988@tcp")],
            peers: vec![peer("10.0.0.2@tcp", true)],
            ..LnetAnswer::default()
        };
        merge(&mut all, one);
        merge(&mut all, other);
        let sections = [Section::Net, Section::Peer, Section::Route];
        let entries: Vec<_> = sections
            .into_iter()
            .filter_map(|section| section_of(section, &Wanted::verbose(0), &all))
            .collect();
        let mut out = Vec::new();
        yaml::print(&mut out, &entries).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\
net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.1@tcp
          status: up
          interfaces:
              0: eth0
        - nid: 10.0.0.1:7988@tcp
          status: up
          interfaces:
              0: eth0
peer:
    - primary nid: 10.0.0.2@tcp
      Multi-Rail: False
      peer ni:
        - nid: 10.0.0.2@tcp
          state: up
"
        );
        let of_net = Wanted { net: Some("tcp0"), ..Wanted::default() };
        assert!(section_of(Section::Net, &of_net, &all).is_some());
        let of_net = Wanted { net: Some("tcp1"), ..Wanted::default() };
        assert_eq!(section_of(Section::Net, &of_net, &all), None);
    }
}
