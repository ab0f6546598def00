//! `lctl del_ost`, `del_mdt`: a target that will never come back leaves the file system.

use crate::cli::DelTargetArgs;
use crate::daemons::{self, Answered, Daemons};
use node::manage::control::{Answer, ClusterAnswer, Request};
use report::{Report, strerror};
use std::io;
use types::errno::Errno;
use types::target::{TargetKind, TargetName};

/// Removes a target of this kind.
///
/// # Errors
/// Never: what it says goes to standard error.
pub fn run(
    args: &DelTargetArgs,
    kind: TargetKind,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let name = args.target.strip_suffix("_UUID").unwrap_or(&args.target);
    let Some(name) = name.parse::<TargetName>().ok().filter(|name| name.kind == kind) else {
        let sentence =
            format!("{:?} names no {}: write sheen-{}0001", args.target, kind.word(), kind.word());
        report.sentence(&sentence, Errno::EINVAL);
        return Ok(());
    };
    let fsname = name.fsname.to_string();
    let has =
        |cluster: Option<&ClusterAnswer>| cluster.is_some_and(|c| c.fsnames.contains(&fsname));
    let meant = daemons.only(|_, cluster| has(cluster));
    if !meant.are_of_one_cluster(report) {
        return Ok(());
    }
    // Any daemon of the file system can pass it on to the MGS: the first that reaches it does.
    let request =
        Request::Remove { target: name.to_string(), force: args.force, dry_run: args.dry_run };
    let mut failed = None;
    for Answered { answer, .. } in meant.ask_first(&request, report) {
        match answer {
            Answer::Done if args.dry_run => report.say(&format!("{name} would be removed")),
            Answer::Done => {
                report.say(&format!("{name} removed; its number will not be used again"))
            }
            Answer::Failed { errno, .. } => {
                // Another daemon may have been heard.
                failed = failed.filter(|before| *before != Errno::EACCES).or(Some(Errno(errno)));
                continue;
            }
            other => daemons::unexpected(&other, report),
        }
        return Ok(());
    }
    match failed {
        Some(errno) => report.sentence(&refused(name, errno), errno),
        None => report.sentence(
            &format!("no daemon of this host belongs to the file system {fsname}"),
            Errno::ENOENT,
        ),
    }
    Ok(())
}

/// Meaning of this errno from the MGS.
fn refused(name: TargetName, errno: Errno) -> String {
    match errno {
        Errno::EBUSY => {
            format!(
                "{name} is in service: stop its server first; --force removes it all the same, with what it holds"
            )
        }
        Errno::EPERM => format!("{name} holds the root of the file system and cannot be removed"),
        Errno::ENOENT => format!("there is no {name} in the configuration"),
        Errno::EACCES => daemons::on_a_server(&format!("removing {name}")),
        errno => format!("removing {name}: {}", strerror(errno)),
    }
}
