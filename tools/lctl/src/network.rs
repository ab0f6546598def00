//! `lctl list_nids`, `ping`, `which_nid`.

use crate::cli::{PingArgs, WhichNidArgs};
use crate::daemons::{self, Answered};
use node::control::{Answer, Request};
use report::{Report, strerror};
use std::io::{self, Write};
use types::errno::Errno;
use types::nid::Nid;

/// Process that Lustre's ping names; ours have none.
const PID: u32 = 12345;

fn nids(request: &Request, report: &mut Report<'_>) -> Vec<String> {
    let mut nids: Vec<String> = Vec::new();
    for Answered { answer, .. } in daemons::ask_all(request, report) {
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
pub fn list_nids(out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let all = nids(&Request::Nids, report);
    let loopback = Nid::Loopback.to_string();
    let network: Vec<&String> = all.iter().filter(|nid| **nid != loopback).collect();
    let shown = if network.is_empty() { all.iter().collect() } else { network };
    shown.into_iter().try_for_each(|nid| writeln!(out, "{nid}"))
}

/// Asks each daemon until one reaches the node.
///
/// # Errors
/// `out` cannot be written.
pub fn ping(args: &PingArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let request = Request::Ping { nid: args.nid.to_string() };
    let mut errno = None;
    for Answered { answer, .. } in daemons::ask_all(&request, report) {
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

/// The NID by which a node is best reached: our own, else the first.
///
/// # Errors
/// `out` cannot be written.
pub fn which_nid(args: &WhichNidArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let own = nids(&Request::Nids, report);
    let best = args.nids.iter().find(|nid| own.contains(&nid.to_string())).or(args.nids.first());
    best.map_or(Ok(()), |nid| writeln!(out, "{nid}"))
}
