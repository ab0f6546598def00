//! `lctl list_nids`, `ping`, `which_nid`.

use crate::cli::{PingArgs, WhichNidArgs};
use crate::daemons::{self, Answered, Daemons};
use node::manage::control::{Answer, Request};
use report::{Report, strerror};
use std::io::{self, Write};
use std::net::ToSocketAddrs;
use types::errno::Errno;
use types::net::Net;
use types::nid::{Nid, PORT_DEFAULT};

/// Process that Lustre's ping names; SheenFS has no such number.
const PID: u32 = 12345;

fn nids(daemons: &Daemons, request: &Request, report: &mut Report<'_>) -> Vec<String> {
    let mut nids: Vec<String> = Vec::new();
    for Answered { answer, .. } in daemons.ask_all(request, report) {
        match answer {
            Answer::Nids { nids: more } => {
                nids.extend(more.into_iter().filter(|nid| !nids.contains(nid)).collect::<Vec<_>>())
            }
            other => daemons::unexpected(&other, report),
        }
    }
    nids
}

/// Prints the NIDs of all daemons, each once; `0@lo` only if there is no other.
///
/// # Errors
/// `out` cannot be written.
pub fn list_nids(
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let all = nids(daemons, &Request::Nids, report);
    let loopback = Nid::Loopback.to_string();
    let network: Vec<&String> = all.iter().filter(|nid| **nid != loopback).collect();
    let shown = if network.is_empty() { all.iter().collect() } else { network };
    shown.into_iter().try_for_each(|nid| writeln!(out, "{nid}"))
}

/// Asks each daemon until one reaches the node.
///
/// # Errors
/// `out` cannot be written.
pub fn ping(
    args: &PingArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(nid) = resolved(&args.nid, report) else { return Ok(()) };
    let request = Request::Ping { nid: nid.to_string() };
    let mut errno = None;
    for Answered { answer, .. } in daemons.ask_all(&request, report) {
        match answer {
            Answer::Nids { nids } => {
                return nids.iter().try_for_each(|nid| writeln!(out, "{PID}-{nid}"));
            }
            Answer::Failed { errno: why, .. } => errno = errno.or(Some(Errno(why))),
            other => daemons::unexpected(&other, report),
        }
    }
    let errno = errno.unwrap_or(Errno(rustix::io::Errno::NETDOWN.raw_os_error()));
    report.say(&format!("failed to ping {}: {}", args.nid, strerror(errno)));
    report.count(errno);
    Ok(())
}

/// The NID by which a node is best reached: one of this host, else the first on a network of this
/// host, else the first.
///
/// # Errors
/// `out` cannot be written.
pub fn which_nid(
    args: &WhichNidArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let own = nids(daemons, &Request::Nids, report);
    let Some(nids) =
        args.nids.iter().map(|nid| resolved(nid, report)).collect::<Option<Vec<Nid>>>()
    else {
        return Ok(());
    };
    let own_nets: Vec<Net> = own.iter().filter_map(|nid| nid.parse::<Nid>().ok()?.net()).collect();
    let near = |nid: &&Nid| nid.net().is_some_and(|net| own_nets.contains(&net));
    let own_nid = nids.iter().find(|nid| own.contains(&nid.to_string()));
    let best = own_nid.or(nids.iter().find(near)).or(nids.first());
    best.map_or(Ok(()), |nid| writeln!(out, "{nid}"))
}

/// A NID, also one with the name of a host: `server1@tcp`, `server1:7988@tcp`. `None`, with a
/// report, if it is none.
pub fn resolved(text: &str, report: &mut Report<'_>) -> Option<Nid> {
    let bad = match text.parse::<Nid>() {
        Ok(nid) => return Some(nid),
        Err(bad) => bad,
    };
    let host = text
        .rsplit_once('@')
        .and_then(|(host, net)| Some((host, net.parse::<Net>().ok()?)))
        .filter(|(host, _)| !host.is_empty());
    let Some((host, net)) = host else {
        report.sentence(&bad.to_string(), Errno::EINVAL);
        return None;
    };
    let (name, port) = match host.rsplit_once(':').map(|(name, port)| (name, port.parse::<u16>())) {
        Some((name, Ok(port))) => (name, port),
        Some((_, Err(_))) => {
            report.sentence(&bad.to_string(), Errno::EINVAL);
            return None;
        }
        None => (host, PORT_DEFAULT),
    };
    match (name, port).to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(address)) => Some(Nid::new(net, address)),
        Ok(None) => {
            report.sentence(&format!("the host {name} has no address"), Errno::EINVAL);
            None
        }
        Err(error) => {
            report.sentence(
                &format!("cannot find the address of the host {name}: {error}"),
                Errno::EINVAL,
            );
            None
        }
    }
}
