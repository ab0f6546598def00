//! `lctl del_replica`, `replace_nids`: hosts that may serve a target.

use crate::cli::{DelReplicaArgs, ReplaceNidsArgs};
use crate::daemons::{self, Answered, Daemons};
use node::config::mount_source::nids_apart;
use node::manage::control::{Answer, ClusterAnswer, Request};
use report::{Report, strerror};
use std::io;
use types::errno::Errno;
use types::nid::Nid;
use types::target::{TargetKind, TargetName};

/// The log of a target is not kept for a host any more.
///
/// # Errors
/// Never: what it says goes to standard error.
pub fn del_replica(
    args: &DelReplicaArgs,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let name = args.target.strip_suffix("_UUID").unwrap_or(&args.target);
    let Ok(name) = name.parse::<TargetName>() else {
        let sentence = format!("{:?} names no target: write MGS or sheen-MDT0000", args.target);
        report.sentence(&sentence, Errno::EINVAL);
        return Ok(());
    };
    let request = Request::DelReplica { target: name.to_string(), host: args.host.clone() };
    let done = format!("the log of {name} is not kept for {} any more", args.host);
    ask(name, &request, &done, daemons, report);
    Ok(())
}

/// A target is at other NIDs.
///
/// # Errors
/// Never: what it says goes to standard error.
pub fn replace_nids(
    args: &ReplaceNidsArgs,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let name = args.target.strip_suffix("_UUID").unwrap_or(&args.target);
    let Some(name) = name.parse::<TargetName>().ok().filter(|n| n.kind != TargetKind::Mgt) else {
        let sentence = format!("{:?} names no MDT or OST: write sheen-OST0001", args.target);
        report.sentence(&sentence, Errno::EINVAL);
        return Ok(());
    };
    let nids: Result<Vec<Nid>, _> = nids_apart(&args.nids).into_iter().map(str::parse).collect();
    let nids = match nids {
        Ok(nids) => nids,
        Err(bad) => {
            report.sentence(&bad.to_string(), Errno::EINVAL);
            return Ok(());
        }
    };
    let nids = nids.iter().map(Nid::to_string).collect();
    let request = Request::ReplaceNids { target: name.to_string(), nids };
    let done = format!("{name} is looked for at {}", args.nids);
    ask(name, &request, &done, daemons, report);
    Ok(())
}

/// Asks the daemons of the file system until one does it.
fn ask(
    name: TargetName,
    request: &Request,
    done: &str,
    daemons: &Daemons,
    report: &mut Report<'_>,
) {
    let fsname = name.fsname.to_string();
    let has = |cluster: Option<&ClusterAnswer>| {
        cluster.is_some_and(|c| name.kind == TargetKind::Mgt || c.fsnames.contains(&fsname))
    };
    let meant = daemons.only(|_, cluster| has(cluster));
    if !meant.are_of_one_cluster(report) {
        return;
    }
    let answers = match request {
        // Only those that serve it, or may, can.
        Request::DelReplica { .. } => meant.ask_all(request, report),
        _ => meant.ask_first(request, report),
    };
    if answers.iter().any(|answered| matches!(answered.answer, Answer::Done)) {
        return report.say(done);
    }
    let mut failed = None;
    for Answered { answer, .. } in answers {
        match answer {
            Answer::Failed { errno, reason } => {
                // Another daemon may have been heard, or have the log.
                let worth = |errno: i32| ![Errno::EACCES.0, Errno::ENOENT.0].contains(&errno);
                failed = failed.filter(|(before, _)| worth(*before)).or(Some((errno, reason)));
            }
            other => return daemons::unexpected(&other, report),
        }
    }
    match failed {
        Some((errno, _)) if Errno(errno) == Errno::EACCES => {
            report.sentence(&daemons::on_a_server("this"), Errno(errno));
        }
        Some((errno, reason)) => {
            let sentence = format!("{name}: {reason} ({})", strerror(Errno(errno)));
            report.sentence(&sentence, Errno(errno));
        }
        None => report.sentence(
            &format!("no daemon of this host belongs to the file system {fsname}"),
            Errno::ENOENT,
        ),
    }
}
