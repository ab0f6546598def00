//! `lctl set_param -P` and `conf_param`: parameters that the MGS keeps and every node applies.
//!
//! Only parameters that exist and can be set are taken: a typing error must not wait at the MGS for
//! ever. Whether any device matches is not asked, as it may come later.

use crate::cli::{ConfParamArgs, GetParamArgs, SetParamArgs};
use crate::daemons::{self, Answered, Daemons};
use crate::set_param::pairs;
use idmap::scope::Scope;
use node::manage::control::{Answer, Request};
use node::manage::flavor;
use node::manage::kept::KeptParam;
use observe::catalog;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// `set_param -P`, `set_param -P -d`.
///
/// # Errors
/// Never: nothing is printed.
pub fn set_param(
    args: &SetParamArgs,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for (name, value) in named(&args.settings, args.delete, report) {
        keep(daemons, (scope(args), &name), value, report);
    }
    Ok(())
}

/// For which nodes; `None`: all.
fn scope(args: &SetParamArgs) -> Option<Scope> {
    let nodemap = args.nodemap.clone().map(Scope::Nodemap);
    let nids = || args.nid.clone().map(Scope::Nids);
    let host = || args.host.clone().map(Scope::Host);
    nodemap.or_else(nids).or_else(host)
}

/// `get_param -P`.
///
/// # Errors
/// `out` cannot be written.
pub fn list(
    args: &GetParamArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    // A daemon that serves a target knows all, others what concerns them.
    let mut longest: Vec<KeptParam> = Vec::new();
    let mut answered = false;
    for Answered { answer, .. } in daemons.ask_all(&Request::Kept, report) {
        match answer {
            Answer::Kept { params } => {
                answered = true;
                if params.len() > longest.len() {
                    longest = params;
                }
            }
            Answer::Failed { errno, .. } => {
                report.errno("asking the MGS for what it keeps", Errno(errno));
            }
            other => daemons::unexpected(&other, report),
        }
    }
    if !answered && report.status() == 0 {
        report.sentence("no daemon of this host can be asked", Errno::ENOENT);
    }
    let dotted: Vec<String> = args.patterns.iter().map(|name| name.replace('/', ".")).collect();
    for KeptParam { origin, name, value } in longest {
        if !dotted.is_empty() && !dotted.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        match args.no_name {
            true => writeln!(out, "{value}")?,
            false => writeln!(out, "{origin} {name}={value}")?,
        }
    }
    Ok(())
}

/// `conf_param`, `conf_param -d`.
///
/// # Errors
/// Never: nothing is printed.
pub fn conf_param(
    args: &ConfParamArgs,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for (name, value) in named(&args.settings, args.delete, report) {
        match &translated(&name)[..] {
            [] => report.sentence(
                &format!("{name}: write DEVICE.KIND.NAME=VALUE: sheen-OST0001.osc.active=0"),
                Errno::EINVAL,
            ),
            names => {
                names.iter().for_each(|name| keep(daemons, (None, name), value.clone(), report))
            }
        }
    }
    Ok(())
}

/// Names with values, or, to be deleted, without.
fn named(words: &[String], delete: bool, report: &mut Report<'_>) -> Vec<(String, Option<String>)> {
    if delete {
        let name =
            |word: &String| word.split_once('=').map_or(&**word, |(name, _)| name).to_owned();
        return words.iter().map(|word| (name(word), None)).collect();
    }
    pairs(words, report).into_iter().map(|(name, value)| (name, Some(value))).collect()
}

/// `sheen-OST0001.osc.checksums` as patterns: `osc.sheen-OST0001*.checksums`. None: it is nothing
/// of the kind.
fn translated(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.splitn(3, '.').collect();
    match parts[..] {
        // Of a file system in Lustre; here one cluster has one flavour.
        [_, "srpc", param] if param.starts_with("flavor.") => vec![format!("srpc.{param}")],
        [_, "", _] | [_, _, ""] => Vec::new(),
        // It gets no new objects, and no client asks for those that it has.
        [device, "osc", "active"] => {
            vec![format!("osp.{device}-osc-MDT*.active"), format!("osc.{device}-osc-*.active")]
        }
        [_, "sys", param] => vec![param.to_owned()],
        [device, "ost", param] => vec![format!("obdfilter.{device}*.{param}")],
        [device, kind, param] => vec![format!("{kind}.{device}*.{param}")],
        _ => Vec::new(),
    }
}

/// True if the pattern can mean a parameter with this path.
fn may_be(path: &str, pattern: &str) -> bool {
    let (levels, words): (Vec<_>, Vec<_>) =
        (path.split('.').collect(), pattern.split('.').collect());
    let same = |(level, word): (&&str, &&str)| {
        *level == "*" || level == word || word.contains(['*', '?', '[', '{'])
    };
    levels.len() == words.len() && levels.iter().zip(&words).all(same)
}

fn keep(
    daemons: &Daemons,
    (scope, name): (Option<Scope>, &str),
    value: Option<String>,
    report: &mut Report<'_>,
) {
    let dotted = name.replace('/', ".");
    let settable =
        catalog::ALL.iter().any(|param| param.access.writable() && may_be(param.path, &dotted));
    let governed =
        catalog::ALL.iter().find(|param| !param.governed.is_empty() && may_be(param.path, &dotted));
    if let (false, Some(param), Some(_)) = (settable, governed, &value) {
        return report.sentence(&format!("{name}: {}", param.governed), Errno::EOPNOTSUPP);
    }
    if !settable && value.is_some() {
        return report.sentence(
            &format!("{name}: there is no such parameter to be set; lctl help_param explains those that are"),
            Errno::ENOENT,
        );
    }
    if let Some(value) = &value
        && let Ok(Some(why)) = catalog::pattern_not_kept(&dotted, value)
    {
        return report.sentence(&format!("{name}: {why}"), Errno::EOPNOTSUPP);
    }
    if !daemons.are_of_one_cluster(report) {
        return;
    }
    let (mut kept, mut is_unheard) = (false, false);
    let request = match scope {
        None => Request::Persist { name: dotted.clone(), value: value.clone() },
        Some(scope) => Request::PersistFor { scope, name: dotted.clone(), value: value.clone() },
    };
    for Answered { answer, .. } in daemons.ask_all(&request, report) {
        match answer {
            Answer::Done => kept = true,
            // A daemon that only mounts. One server is enough.
            Answer::Failed { errno, .. } if errno == Errno::EACCES.0 => is_unheard = true,
            Answer::Failed { errno, reason } if name.starts_with(flavor::PREFIX) => {
                report.sentence(&reason, Errno(errno));
            }
            Answer::Failed { errno, .. } => {
                report.errno(&format!("keeping {name} at the MGS"), Errno(errno))
            }
            other => daemons::unexpected(&other, report),
        }
    }
    if !kept && is_unheard {
        report
            .sentence(&daemons::on_a_server(&format!("keeping {name} at the MGS")), Errno::EACCES);
    } else if !kept && report.status() == 0 {
        report.sentence(
            "no daemon runs on this host that could tell the MGS",
            Errno(rustix::io::Errno::SRCH.raw_os_error()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_is_kept() {
        assert!(may_be("osp.*.active", "osp.sheen-OST0001-osc-MDT*.active"));
        assert!(may_be("lod.*.stripecount", "lod.*.stripe*"));
        assert!(!may_be("lod.*.stripecount", "lod.*"));
        assert!(!may_be("lod.*.stripecount", "stripecount"));
        assert!(!may_be("lod.*.stripecount", "lod.*.stripecnt"));
    }

    #[test]
    fn the_older_spelling_becomes_a_pattern() {
        let both = ["osp.sheen-OST0001-osc-MDT*.active", "osc.sheen-OST0001-osc-*.active"];
        assert_eq!(translated("sheen-OST0001.osc.active"), both);
        let translated = |name| translated(name).join(" ");
        assert_eq!(translated("sheen.llite.max_read_ahead_mb"), "llite.sheen*.max_read_ahead_mb");
        assert_eq!(translated("sheen-MDT0000.lod.stripecount"), "lod.sheen-MDT0000*.stripecount");
        assert_eq!(translated("sheen.sys.timeout"), "timeout");
        let flavor = translated("sheen.srpc.flavor.default.cli2mdt");
        assert_eq!(flavor, "srpc.flavor.default.cli2mdt");
        assert_eq!(translated("sheen-OST0001.ost.brw_size"), "obdfilter.sheen-OST0001*.brw_size");
        for bad in ["x", "x.y", "x..z", "x.y."] {
            assert_eq!(translated(bad), "", "{bad}");
        }
    }
}
