//! `lctl nodemap_*`: the ids as which the users of clients act. The MGS keeps nodemaps, one set for
//! each cluster.
//!
//! A change is tried on what the MGS has first, so that what it would refuse is told in a sentence.

use crate::cli::nodemap::{
    NodemapIdmapArgs, NodemapModifyArgs, NodemapRangeArgs, NodemapSetFilesetArgs, NodemapTestIdArgs,
};
use crate::daemons::{self, Answered, Daemons};
use idmap::nodemap::{IdKind, Members, Nodemap, NodemapName};
use idmap::property::Property;
use idmap::set::{NodemapChange, Nodemaps};
use idmap::spans::Span;
use node::manage::control::{Answer, Request};
use report::{Report, strerror};
use std::fmt::Display;
use std::io::{self, Write};
use std::str::FromStr;
use types::errno::Errno;
use types::nid::Nid;

/// What the MGS has. `None`: that is reported.
fn known(daemons: &Daemons, report: &mut Report<'_>) -> Option<Nodemaps> {
    if !daemons.are_of_one_cluster(report) {
        return None;
    }
    let mut failed = None;
    for Answered { answer, .. } in daemons.ask_first(&Request::Nodemaps, report) {
        match answer {
            Answer::Nodemaps { nodemaps } => return Some(*nodemaps),
            Answer::Failed { errno, .. } => failed = Some(Errno(errno)),
            other => daemons::unexpected(&other, report),
        }
    }
    match failed {
        Some(Errno::EACCES) => {
            report.sentence(&daemons::on_a_server("the nodemaps"), Errno::EACCES);
        }
        Some(errno) => report.errno("asking for the nodemaps", errno),
        None => report.sentence("no daemon of this host can be asked", Errno::ENOENT),
    }
    None
}

/// Parses a word; what is wrong with it is reported.
fn parsed<T: FromStr>(text: &str, report: &mut Report<'_>) -> Option<T>
where
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| report.sentence(&error.to_string(), Errno::EINVAL)).ok()
}

/// Makes a change.
///
/// # Errors
/// Never: what it says goes to standard error.
pub fn change(
    change: &NodemapChange,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(mut nodemaps) = known(daemons, report) else { return Ok(()) };
    match nodemaps.change(change) {
        Err(refused) => {
            report.sentence(&refused.to_string(), refused.errno());
            return Ok(());
        }
        Ok(false) => return Ok(()),
        Ok(true) => {}
    }
    let request = Request::Nodemap { change: Box::new(change.clone()) };
    for Answered { answer, .. } in daemons.ask_first(&request, report) {
        match answer {
            Answer::Done => return Ok(()),
            Answer::Failed { errno, .. } if errno == Errno::EACCES.0 => {
                report.sentence(&daemons::on_a_server("the nodemaps"), Errno::EACCES);
            }
            Answer::Failed { errno, .. } => {
                let errno = Errno(errno);
                report.sentence(&format!("the MGS refuses: {}", strerror(errno)), errno);
            }
            other => daemons::unexpected(&other, report),
        }
    }
    Ok(())
}

/// `nodemap_modify`.
///
/// # Errors
/// As [`change`].
pub fn modify(
    args: &NodemapModifyArgs,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    match Property::parse(&args.property, &args.value) {
        Ok(property) => {
            change(&NodemapChange::Modify(args.name.clone(), property), daemons, report)
        }
        Err(bad) => {
            let absent = matches!(bad, idmap::property::BadProperty::Absent(_));
            let errno = if absent { Errno::EOPNOTSUPP } else { Errno::EINVAL };
            report.sentence(&bad.to_string(), errno);
            Ok(())
        }
    }
}

/// `nodemap_add_range`, `nodemap_del_range`.
///
/// # Errors
/// As [`change`].
pub fn range(
    args: &NodemapRangeArgs,
    adds: bool,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(members) = parsed::<Members>(&args.range, report) else { return Ok(()) };
    let name = args.name.clone();
    let wanted = match adds {
        true => NodemapChange::AddMembers(name, members),
        false => NodemapChange::DelMembers(name, members),
    };
    change(&wanted, daemons, report)
}

/// `nodemap_add_idmap`, `nodemap_del_idmap`.
///
/// # Errors
/// As [`change`].
pub fn idmap(
    args: &NodemapIdmapArgs,
    adds: bool,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(kind) = kind(&args.idtype, report) else { return Ok(()) };
    let Some(span) = parsed::<Span>(&args.idmap, report) else { return Ok(()) };
    let name = args.name.clone();
    let wanted = match adds {
        true => NodemapChange::AddIds(name, kind, span),
        false => NodemapChange::DelIds(name, kind, span),
    };
    change(&wanted, daemons, report)
}

/// `nodemap_set_fileset`.
///
/// # Errors
/// As [`change`].
pub fn set_fileset(
    args: &NodemapSetFilesetArgs,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let path = if args.fileset == "clear" { "" } else { args.fileset.as_str() };
    change(&NodemapChange::SetFileset(args.name.clone(), path.to_owned()), daemons, report)
}

fn kind(text: &str, report: &mut Report<'_>) -> Option<IdKind> {
    let parsed = text.parse::<IdKind>();
    parsed
        .map_err(|bad| {
            let absent = bad == idmap::nodemap::BadIdKind::Project;
            let errno = if absent { Errno::EOPNOTSUPP } else { Errno::EINVAL };
            report.sentence(&bad.to_string(), errno);
        })
        .ok()
}

/// `nodemap_info`: names, or one nodemap, or all of them.
///
/// # Errors
/// `out` cannot be written.
pub fn info(
    which: &str,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(nodemaps) = known(daemons, report) else { return Ok(()) };
    match which {
        "list" => nodemaps.iter().try_for_each(|(name, _)| writeln!(out, "{name}")),
        "all" => {
            writeln!(out, "nodemap.active={}", u8::from(nodemaps.active))?;
            nodemaps.iter().try_for_each(|(name, nodemap)| show(name.as_str(), nodemap, out))
        }
        name => match nodemaps.get(name) {
            Some(nodemap) => show(name, nodemap, out),
            None => {
                report.sentence(&format!("there is no nodemap {name}"), Errno::ENOENT);
                Ok(())
            }
        },
    }
}

/// As `lctl get_param nodemap.NAME.*` of Lustre.
fn show(name: &str, nodemap: &Nodemap, out: &mut dyn Write) -> io::Result<()> {
    let flag = u8::from;
    writeln!(out, "nodemap.{name}.admin_nodemap={}", flag(nodemap.admin))?;
    writeln!(out, "nodemap.{name}.audit_mode={}", flag(nodemap.audit))?;
    writeln!(out, "nodemap.{name}.deny_unknown={}", flag(nodemap.deny_unknown))?;
    writeln!(out, "nodemap.{name}.fileset={}", nodemap.fileset)?;
    writeln!(out, "nodemap.{name}.fileset_realm={}", nodemap.realm)?;
    writeln!(out, "nodemap.{name}.idmap=\n[")?;
    for (kind, map) in [(IdKind::Uid, &nodemap.uids), (IdKind::Gid, &nodemap.gids)] {
        for span in map.spans() {
            let range = |first: u32| match span.count() {
                1 => first.to_string(),
                count => format!("{first}-{}", first + (count - 1)),
            };
            let (client, fs) = (range(span.client()), range(span.fs()));
            writeln!(out, " {{ idtype: {kind}, client_id: {client}, fs_id: {fs} }},")?;
        }
    }
    writeln!(out, "]\nnodemap.{name}.map_mode={}", nodemap.map_mode)?;
    writeln!(out, "nodemap.{name}.ranges=\n[")?;
    nodemap.members.iter().try_for_each(|range| writeln!(out, " {{ range: {range} }},"))?;
    writeln!(out, "]\nnodemap.{name}.readonly_mount={}", flag(nodemap.readonly))?;
    writeln!(out, "nodemap.{name}.squash_gid={}", nodemap.squash_gid)?;
    writeln!(out, "nodemap.{name}.squash_uid={}", nodemap.squash_uid)?;
    writeln!(out, "nodemap.{name}.trusted_nodemap={}", flag(nodemap.trusted))
}

/// `nodemap_test_nid`: the nodemap of a client.
///
/// # Errors
/// `out` cannot be written.
pub fn test_nid(
    nid: &str,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(nodemaps) = known(daemons, report) else { return Ok(()) };
    let Some((name, _)) = of(nid, &nodemaps, report) else { return Ok(()) };
    writeln!(out, "{name}")
}

/// The nodemap of `NID`, or of `NAME@key`.
fn of<'a>(
    client: &str,
    nodemaps: &'a Nodemaps,
    report: &mut Report<'_>,
) -> Option<(&'a NodemapName, &'a Nodemap)> {
    let (name, nodemap) = match client.strip_suffix("@key") {
        Some(key) => nodemaps.of(Nid::Loopback, Some(&parsed(key, report)?)),
        None => nodemaps.of(parsed(client, report)?, None),
    };
    Some((name, nodemap))
}

/// `nodemap_test_id`: the id as which one of a client acts.
///
/// # Errors
/// `out` cannot be written.
pub fn test_id(
    args: &NodemapTestIdArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(kind) = kind(&args.idtype, report) else { return Ok(()) };
    let Some(nodemaps) = known(daemons, report) else { return Ok(()) };
    let Some((_, nodemap)) = of(&args.nid, &nodemaps, report) else { return Ok(()) };
    // While nodemaps do not hold, ids are what they are.
    let acts = if nodemaps.active { nodemap.to_fs(kind, args.id) } else { args.id };
    writeln!(out, "{acts}")
}
