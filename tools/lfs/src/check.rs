//! `lfs check`: whether each target answers.

use crate::chosen;
use crate::cli::{CheckArgs, Kinds};
use ask::mounts::Mount;
use ask::params::{self, ParamRequest};
use report::{Report, strerror};
use std::collections::BTreeMap;
use std::io::{self, Write};
use types::about::SpaceLine;
use types::errno::Errno;
use types::target::{TargetKind, TargetName};

/// Prints a line for each target. One that does not answer is reported and counts as a failure.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &CheckArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let kinds: &[TargetKind] = match args.kinds {
        Kinds::Mgts => return sessions(out, report),
        Kinds::Osts => &[TargetKind::Ost],
        Kinds::Mdts => &[TargetKind::Mdt],
        Kinds::All => &[TargetKind::Mdt, TargetKind::Ost],
    };
    for mount in chosen::mounts(&args.path.iter().cloned().collect::<Vec<_>>(), report) {
        for kind in kinds {
            // Space is what every target answers.
            match mount.space(*kind) {
                Ok(lines) => {
                    lines.iter().try_for_each(|line| told(&mount, *kind, line, out, report))?
                }
                Err(error) => report
                    .failed(&format!("can't check targets of '{}'", mount.dir.display()), &error),
            }
        }
    }
    Ok(())
}

/// The session of each daemon of this host with its MGS.
fn sessions(out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let patterns = vec!["mgc.*.import".to_owned()];
    let (found, refused) =
        params::ask(&ParamRequest::Get { patterns, recursive: false, values: true });
    refused.iter().for_each(|refused| report.sentence(&refused.sentence, refused.errno));
    if found.is_empty() && refused.is_empty() {
        report.sentence(
            "no daemon of this host can be asked for its session with the MGS",
            Errno::ENOENT,
        );
    }
    // Several daemons may have a session with the same MGS: it is active if all have.
    let mut servers: BTreeMap<String, bool> = BTreeMap::new();
    for param in found.values() {
        let import = param.value.as_deref().unwrap_or_default();
        *servers.entry(device(import)).or_insert(true) &= is_in_session(import);
    }
    let word = |active: bool| if active { "active" } else { "inactive" };
    servers.into_iter().try_for_each(|(name, active)| writeln!(out, "{name} {}.", word(active)))
}

/// The name of the device as `lctl dl` has it: `MGC10.0.0.1@tcp`.
fn device(import: &str) -> String {
    let nids = import.lines().find_map(|line| line.trim().strip_prefix("failover_nids: ["));
    let first = nids.and_then(|nids| nids.trim_end_matches(']').split(',').next());
    format!("MGC{}", first.unwrap_or_default().trim())
}

/// True if this value of `import` shows a session.
fn is_in_session(import: &str) -> bool {
    let state = import.lines().find_map(|line| line.trim().strip_prefix("state: "));
    matches!(state, Some("FULL" | "IDLE"))
}

fn told(
    mount: &Mount,
    kind: TargetKind,
    line: &SpaceLine,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let target = TargetName { fsname: mount.names.fsname, kind, index: line.index };
    let role = if kind == TargetKind::Mdt { "mdc" } else { "osc" };
    let name = format!("{target}-{role}-{:016x}", mount.names.instance);
    match line.space {
        Ok(_) => writeln!(out, "{name} active."),
        Err(Errno::ESHUTDOWN) => writeln!(out, "{name} inactive."),
        Err(errno) => {
            report.say(&format!("{name}: check error: {}", strerror(errno)));
            report.count(errno);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_stand_or_do_not() {
        assert!(is_in_session("import:\n    name: MGC\n    state: FULL\n"));
        assert!(!is_in_session("import:\n    state: DISCONN\n") && !is_in_session(""));
        let import =
            "import:\n    connection:\n       failover_nids: [ 10.0.0.1@tcp, 10.0.0.2@tcp ]\n";
        assert_eq!((device(import), device("")), ("MGC10.0.0.1@tcp".to_owned(), "MGC".to_owned()));
    }
}
