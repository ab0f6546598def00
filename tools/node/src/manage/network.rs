//! The network of this process, for `lnetctl`: what it is, and changes until the next start.

use crate::host::interfaces::{self, NoAddress};
use crate::local;
use crate::manage::control::Answer;
use crate::manage::lnet::{
    LOCAL, LOCAL_NID, LnetAnswer, LnetAsked, NetAnswer, PeerAnswer, PeerNidAnswer, RouteAnswer,
    RoutingAnswer, TrafficAnswer,
};
use crate::role::registration;
use crate::watch::view::View;
use lnet::nets::Route;
use lnet::peer::PeerNid;
use lnet::rails::Rail;
use lnet::traffic::{self, Traffic};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::limits::{NETS_MAX, PEER_NIDS_MAX, ROUTES_MAX};
use types::net::{BadNet, Net};
use types::nid::{BadNid, Nid, PORT_DEFAULT};
use types::session::ClientUuid;

/// A node that is added as a peer answers within this time, or not at all.
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

/// The MGS takes the new NIDs within this time.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(4);
const EADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);

/// Answers.
pub async fn answer(view: &Arc<View>, asked: LnetAsked) -> Answer {
    match asked {
        LnetAsked::Show => Answer::Lnet { lnet: Box::new(show(view)) },
        LnetAsked::AddNet { net, on } => outcome(add_net(view, &net, &on).await),
        LnetAsked::DelNet { net, on } => outcome(del_net(view, &net, &on).await),
        LnetAsked::AddRoute { net, gateway, hops, priority } => {
            outcome(add_route(view, (&net, &gateway), hops, priority))
        }
        LnetAsked::DelRoute { net, gateway } => outcome(del_route(view, (&net, &gateway))),
        LnetAsked::AddPeer { nids } => outcome(add_peer(view, &nids).await),
        LnetAsked::DelPeer { nids } => outcome(del_peer(view, &nids)),
    }
}

type Failed = (Errno, String);

fn outcome(result: Result<(), Failed>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err((errno, reason)) => Answer::Failed { errno: errno.0, reason },
    }
}

fn show(view: &Arc<View>) -> LnetAnswer {
    let interfaces = interfaces::all().unwrap_or_default();
    let rpc = &view.parts().rpc;
    let counted = rpc.traffic();
    let traffic = |nid: Nid| counted.get(&traffic::address(nid)).copied().unwrap_or_default();
    let ni = |nid: Nid| NetAnswer {
        net: nid.net().map_or("lo".to_owned(), |net| net.to_string()),
        nid: nid.to_string(),
        interface: nid.address().and_then(|address| interfaces::name_of(&interfaces, address.ip())),
        accepts: nid != Nid::Loopback,
        traffic: traffic_of(traffic(nid)),
    };
    let mut nets: Vec<NetAnswer> = rpc.nids().into_iter().map(ni).collect();
    let within = rpc.local();
    nets.extend(within.folder.map(|folder| NetAnswer {
        net: LOCAL.to_owned(),
        nid: LOCAL_NID.to_owned(),
        interface: Some(folder.display().to_string()),
        accepts: rpc.nids().len() > 1,
        traffic: traffic_of(within.traffic),
    }));
    let accepts = |net: &Net| nets.iter().any(|known| known.net == net.to_string());
    let quiet: Vec<Net> = rpc.nets().into_iter().filter(|net| !accepts(net)).collect();
    // A process that only mounts is on networks, and accepts nothing.
    for named in quiet {
        nets.extend(rpc.rails(named).into_iter().map(|rail| {
            let nid = Nid::new(named, SocketAddr::new(rail.address, PORT_DEFAULT));
            NetAnswer {
                net: named.to_string(),
                nid: nid.to_string(),
                interface: interfaces::name_of(&interfaces, rail.address),
                accepts: false,
                traffic: traffic_of(traffic(nid)),
            }
        }));
    }
    let route = |(route, up): (Route, bool)| RouteAnswer {
        net: route.net.to_string(),
        gateway: route.gateway.to_string(),
        hops: route.hops,
        priority: route.priority,
        up,
    };
    let counts = rpc.relay_counts();
    let routing = rpc.forwards().then_some(RoutingAnswer {
        circuits: counts.circuits,
        made: counts.made,
        refused: counts.refused,
        bytes: counts.bytes,
    });
    let routes = rpc.routes().into_iter().map(route).collect();
    LnetAnswer { nets, peers: peers(view), routes, routing }
}

fn peers(view: &Arc<View>) -> Vec<PeerAnswer> {
    let mut all: BTreeMap<Nid, PeerAnswer> = BTreeMap::new();
    let mut known: BTreeMap<ClientUuid, Nid> = BTreeMap::new();
    let answer = |nid: Nid| PeerAnswer { nid: nid.to_string(), ..PeerAnswer::default() };
    for peer in view.parts().rpc.peers() {
        // Targets of one process may have been found at different NIDs of it.
        let primary = match peer.process {
            Some(process) => *known.entry(process).or_insert(peer.nid),
            None if known_at(&all, peer.nid) => continue,
            None => peer.nid,
        };
        let about = all.entry(primary).or_insert_with(|| answer(primary));
        about.up |= peer.up;
        about.links += peer.links as u64;
        about.window = about.window.max(peer.window as u64);
        about.round_trip_us = peer.round_trip.map_or(0, |time| time.as_micros() as u64);
        for more in peer.nids {
            add_nid(&mut about.nids, more);
        }
    }
    for (nid, accepted) in view.parts().rpc.accepted() {
        let about = all.entry(nid).or_insert_with(|| answer(nid));
        about.up = true;
        about.accepted += accepted.links as u64;
        about.accepted_local += accepted.local as u64;
        add(&mut about.traffic, traffic_of(accepted.traffic));
    }
    all.into_values().collect()
}

/// True if a node that is connected is reached at this NID, too.
fn known_at(all: &BTreeMap<Nid, PeerAnswer>, nid: Nid) -> bool {
    let nid = nid.to_string();
    all.values().any(|peer| peer.nids.iter().any(|known| known.nid == nid))
}

fn add_nid(all: &mut Vec<PeerNidAnswer>, more: PeerNid) {
    let nid = more.nid.to_string();
    let at = all.iter().position(|known| known.nid == nid).unwrap_or_else(|| {
        all.push(PeerNidAnswer { nid, ..PeerNidAnswer::default() });
        all.len() - 1
    });
    all[at].up |= more.up;
    all[at].links += more.links as u64;
    all[at].local += more.local as u64;
    add(&mut all[at].traffic, traffic_of(more.traffic));
}

fn traffic_of(traffic: Traffic) -> TrafficAnswer {
    let Traffic { sent, sent_bytes, received, received_bytes } = traffic;
    TrafficAnswer { sent, sent_bytes, received, received_bytes }
}

fn add(all: &mut TrafficAnswer, more: TrafficAnswer) {
    all.sent += more.sent;
    all.sent_bytes += more.sent_bytes;
    all.received += more.received;
    all.received_bytes += more.received_bytes;
}

/// Port at which this process accepts connections; `None`: it accepts none.
fn port(view: &Arc<View>) -> Option<u16> {
    view.parts().rpc.nids().iter().find_map(|nid| nid.address()).map(|address| address.port())
}

fn addresses(on: &[String], port: u16) -> Result<Vec<SocketAddr>, Failed> {
    interfaces::addresses(on, port).map_err(|error| failed(&error))
}

fn failed(error: &NoAddress) -> Failed {
    let errno = match error {
        NoAddress::Interface(_) => Errno::ENODEV,
        NoAddress::Unspecified(_) => Errno::EINVAL,
        NoAddress::List(system) => Errno::from(system),
    };
    (errno, error.to_string())
}

fn named(net: &str) -> Result<Net, Failed> {
    net.parse().map_err(|bad: BadNet| (Errno::EINVAL, bad.to_string()))
}

async fn add_net(view: &Arc<View>, net: &str, on: &[String]) -> Result<(), Failed> {
    if net == LOCAL {
        view.parts().rpc.set_local(Some(local::socket_dir()));
        tracing::info!("processes of this host connect within it");
        return Ok(());
    }
    let net = named(net)?;
    let rpc = &view.parts().rpc;
    let known = rpc.nets();
    if !known.contains(&net) && known.len() >= NETS_MAX {
        return Err((Errno::ENOSPC, format!("a daemon is on at most {NETS_MAX} networks")));
    }
    let mut added = false;
    // One that only mounts is on the network from now on, and accepts nothing.
    for address in addresses(on, port(view).unwrap_or(PORT_DEFAULT))? {
        let nid = Nid::new(net, address);
        if port(view).is_none() || rpc.nids().contains(&nid) {
            continue;
        }
        check_open(view, address)?;
        let listened = rpc.listen_on(net, address).await;
        listened.map_err(|e| (EADDRNOTAVAIL, e.to_string()))?;
        tracing::info!(%nid, "accepts connections here, too");
        added = true;
    }
    rpc.join(net);
    let mut rails = rpc.rails(net);
    let mut new = interfaces::rails(net, on).map_err(|error| failed(&error))?;
    if known.contains(&net) && rails.is_empty() && new.len() == 1 {
        // It has named none, so it uses all of them, as the routes of the host say.
        new.clear();
    }
    rails.extend(new.into_iter().filter(|rail| !rpc.rails(net).contains(rail)));
    rpc.set_rails(net, rails);
    if added { tell_mgs(view).await } else { Ok(()) }
}

/// A daemon that was started for this host only stays so.
fn check_open(view: &Arc<View>, address: SocketAddr) -> Result<(), Failed> {
    let nids = view.parts().rpc.nids();
    let is_local = nids.iter().all(|nid| nid.is_loopback());
    if is_local && !Nid::Tcp(address).is_loopback() {
        let sentence = format!(
            "{address}: this daemon was started for this host only; start it with --listen ADDRESS:PORT"
        );
        return Err((Errno::EACCES, sentence));
    }
    Ok(())
}

async fn del_net(view: &Arc<View>, net: &str, on: &[String]) -> Result<(), Failed> {
    if net == LOCAL {
        let rpc = &view.parts().rpc;
        if rpc.local().folder.is_none() {
            return Err((Errno::ENOENT, "it is off in this daemon".to_owned()));
        }
        rpc.set_local(None);
        tracing::info!("processes of this host connect over TCP from now on");
        return Ok(());
    }
    let net = named(net)?;
    let rpc = &view.parts().rpc;
    if !rpc.nets().contains(&net) {
        return Err((Errno::ENOENT, format!("this daemon is not on the network {net}")));
    }
    let nids: Vec<Nid> = rpc.nids().into_iter().filter(|nid| *nid != Nid::Loopback).collect();
    let meant: Vec<Nid> = match on.is_empty() {
        true => nids.iter().copied().filter(|nid| nid.net() == Some(net)).collect(),
        false => addresses(on, port(view).unwrap_or(PORT_DEFAULT))?
            .into_iter()
            .map(|address| Nid::new(net, address))
            .filter(|nid| nids.contains(nid))
            .collect(),
    };
    let leaves = |rail: &Rail| {
        let there = |at: SocketAddr| at.ip() == rail.address;
        on.is_empty() || addresses(on, PORT_DEFAULT).is_ok_and(|found| found.into_iter().any(there))
    };
    let (gone, stay): (Vec<Rail>, Vec<Rail>) = rpc.rails(net).into_iter().partition(leaves);
    if !on.is_empty() && meant.is_empty() && gone.is_empty() {
        return Err((Errno::ENOENT, "this daemon accepts no connections there".to_owned()));
    }
    let serves = !view.settings().targets.is_empty();
    if serves && nids.iter().all(|nid| meant.contains(nid)) {
        let sentence = "nobody could reach the targets of this daemon any more".to_owned();
        return Err((Errno::EBUSY, sentence));
    }
    for nid in &meant {
        rpc.stop_listening(*nid);
        tracing::info!(%nid, "accepts no connections here any more");
    }
    rpc.set_rails(net, stay);
    if on.is_empty() {
        rpc.leave(net);
    }
    if meant.is_empty() { Ok(()) } else { tell_mgs(view).await }
}

/// The MGS learns the NIDs of today, and tells all others.
async fn tell_mgs(view: &Arc<View>) -> Result<(), Failed> {
    let (parts, alive) = (view.parts(), view.alive());
    let mgc = parts.mgc();
    let mdts = alive.mdts().into_iter().map(|(_, target)| target);
    let targets: Vec<_> = mdts.chain(alive.osts().into_iter().map(|(_, target)| target)).collect();
    let tell = async {
        for target in &targets {
            registration::register(parts, &mgc, target)
                .await
                .map_err(|error| (Errno::EIO, error.to_string()))?;
        }
        Ok(())
    };
    tokio::select! {
        told = tell => told,
        () = parts.env.clock.sleep(REGISTER_TIMEOUT) => {
            Err((Errno::ETIMEDOUT, "the MGS was not told the new NIDs: it does not answer".to_owned()))
        }
    }
}

fn route_of((net, gateway): (&str, &str)) -> Result<(Net, Nid), Failed> {
    let net = named(net)?;
    let gateway: Nid = gateway.parse().map_err(|bad: BadNid| (Errno::EINVAL, bad.to_string()))?;
    Ok((net, gateway))
}

fn add_route(
    view: &Arc<View>,
    names: (&str, &str),
    hops: Option<u8>,
    priority: u32,
) -> Result<(), Failed> {
    let (net, gateway) = route_of(names)?;
    let rpc = &view.parts().rpc;
    let nets = rpc.nets();
    if nets.contains(&net) {
        return Err((Errno::EEXIST, format!("this daemon is itself on the network {net}")));
    }
    if !gateway.net().is_some_and(|net| nets.contains(&net)) {
        let sentence = format!("this daemon is not on the network of {gateway}");
        return Err((Errno::EHOSTUNREACH, sentence));
    }
    match rpc.add_route(Route { net, gateway, hops, priority }) {
        true => Ok(()),
        false => Err((Errno::ENOSPC, format!("a daemon has at most {ROUTES_MAX} routes"))),
    }
}

fn del_route(view: &Arc<View>, names: (&str, &str)) -> Result<(), Failed> {
    let (net, gateway) = route_of(names)?;
    match view.parts().rpc.remove_route(net, gateway) {
        true => Ok(()),
        false => Err((Errno::ENOENT, format!("there is no route to {net} by {gateway}"))),
    }
}

fn parsed(nids: &[String]) -> Result<Vec<Nid>, Failed> {
    if nids.len() > PEER_NIDS_MAX {
        return Err((Errno::EINVAL, format!("a peer has at most {PEER_NIDS_MAX} NIDs")));
    }
    let parse = |nid: &String| nid.parse::<Nid>().map_err(|bad| (Errno::EINVAL, bad.to_string()));
    nids.iter().map(parse).collect()
}

async fn add_peer(view: &Arc<View>, nids: &[String]) -> Result<(), Failed> {
    let rpc = &view.parts().rpc;
    for nid in parsed(nids)? {
        if rpc.nids().contains(&nid) {
            continue;
        }
        tokio::select! {
            reached = rpc.reach(nid) => {
                reached.map_err(|error| (Errno::EIO, error.to_string()))?;
            }
            () = view.parts().env.clock.sleep(REACH_TIMEOUT) => {
                return Err((Errno::ETIMEDOUT, format!("{nid}: no answer")));
            }
        }
    }
    Ok(())
}

fn del_peer(view: &Arc<View>, nids: &[String]) -> Result<(), Failed> {
    let mut gone = false;
    for nid in parsed(nids)? {
        gone |= view.parts().rpc.hang_up(nid);
    }
    match gone {
        true => Ok(()),
        false => Err((Errno::ENOENT, "this daemon has no connection to it".to_owned())),
    }
}
