//! The network of this process, for `lnetctl`: what it is, and changes until the next start.

use crate::host::interfaces;
use crate::manage::control::Answer;
use crate::manage::lnet::{LnetAnswer, LnetAsked, NetAnswer, PeerAnswer};
use crate::role::registration;
use crate::watch::view::View;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::limits::PEER_NIDS_MAX;
use types::nid::Nid;

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
    let net = |nid: Nid| match nid {
        Nid::Loopback => {
            NetAnswer { net: "lo".to_owned(), nid: nid.to_string(), ..NetAnswer::default() }
        }
        Nid::Tcp(address) => NetAnswer {
            net: "tcp".to_owned(),
            nid: nid.to_string(),
            interface: interfaces::name_of(&interfaces, address.ip()),
            accepts: true,
        },
    };
    LnetAnswer {
        nets: rpc.nids().into_iter().map(net).collect(),
        peers: peers(view),
        routes: Vec::new(),
    }
}

fn peers(view: &Arc<View>) -> Vec<PeerAnswer> {
    let mut all: BTreeMap<Nid, PeerAnswer> = BTreeMap::new();
    let answer = |nid: Nid| PeerAnswer { nid: nid.to_string(), ..PeerAnswer::default() };
    for peer in view.parts().rpc.peers() {
        let about = all.entry(peer.nid).or_insert_with(|| answer(peer.nid));
        about.up |= peer.up;
        about.links += peer.links as u64;
        about.window = peer.window as u64;
        about.round_trip_us = peer.round_trip.map_or(0, |time| time.as_micros() as u64);
    }
    for (nid, links) in view.parts().rpc.accepted() {
        let about = all.entry(nid).or_insert_with(|| answer(nid));
        about.up = true;
        about.accepted += links as u64;
    }
    all.into_values().collect()
}

/// Port at which this process accepts connections; `None`: it accepts none.
fn port(view: &Arc<View>) -> Option<u16> {
    view.parts().rpc.nids().iter().find_map(|nid| match nid {
        Nid::Tcp(address) => Some(address.port()),
        Nid::Loopback => None,
    })
}

/// The addresses that words mean: names of interfaces, addresses, addresses with a port.
fn addresses(on: &[String], port: u16) -> Result<Vec<SocketAddr>, Failed> {
    let interfaces = interfaces::all()
        .map_err(|e| (Errno::from(&e), format!("cannot list the interfaces: {e}")))?;
    let one = |word: &String| {
        let bare = word.trim_start_matches('[').trim_end_matches(']');
        let ip = bare.parse().ok().or_else(|| interfaces::address_of(&interfaces, word));
        match (word.parse::<SocketAddr>(), ip) {
            (Ok(address), _) => Ok(address),
            (Err(_), Some(ip)) => Ok(SocketAddr::new(ip, port)),
            (Err(_), None) => {
                let sentence = format!("{word}: no interface of this host, or it has no address");
                Err((Errno::ENODEV, sentence))
            }
        }
    };
    on.iter().map(one).collect()
}

fn check_net(net: &str) -> Result<(), Failed> {
    match net {
        "tcp" | "tcp0" => Ok(()),
        _ => Err((Errno::EINVAL, format!("{net}: the only network is tcp"))),
    }
}

async fn add_net(view: &Arc<View>, net: &str, on: &[String]) -> Result<(), Failed> {
    check_net(net)?;
    let Some(port) = port(view) else {
        return Err((Errno::ENOENT, "this daemon accepts no connections".to_owned()));
    };
    let mut added = false;
    for address in addresses(on, port)? {
        if view.parts().rpc.nids().contains(&Nid::Tcp(address)) {
            continue;
        }
        check_open(view, address)?;
        let listened = view.parts().rpc.listen(address).await;
        let bound = listened.map_err(|e| (EADDRNOTAVAIL, e.to_string()))?;
        tracing::info!(%bound, "accepts connections here, too");
        added = true;
    }
    if added { tell_mgs(view).await } else { Ok(()) }
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

/// A daemon that was started for this host only stays so.
fn check_open(view: &Arc<View>, address: SocketAddr) -> Result<(), Failed> {
    if address.ip().is_unspecified() {
        let sentence = format!("{address}: name an address that others can reach");
        return Err((Errno::EINVAL, sentence));
    }
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
    check_net(net)?;
    let nids: Vec<Nid> =
        view.parts().rpc.nids().into_iter().filter(|nid| *nid != Nid::Loopback).collect();
    let Some(port) = port(view) else {
        return Err((Errno::ENOENT, "this daemon accepts no connections".to_owned()));
    };
    let meant: Vec<Nid> = match on.is_empty() {
        true => nids.clone(),
        false => addresses(on, port)?
            .into_iter()
            .map(Nid::Tcp)
            .filter(|nid| nids.contains(nid))
            .collect(),
    };
    if meant.is_empty() {
        return Err((Errno::ENOENT, "this daemon accepts no connections there".to_owned()));
    }
    let serves = !view.settings().targets.is_empty();
    if serves && nids.iter().all(|nid| meant.contains(nid)) {
        let sentence = "nobody could reach the targets of this daemon any more".to_owned();
        return Err((Errno::EBUSY, sentence));
    }
    for nid in &meant {
        view.parts().rpc.stop_listening(*nid);
        tracing::info!(%nid, "accepts no connections here any more");
    }
    tell_mgs(view).await
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
