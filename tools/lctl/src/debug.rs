//! `lctl mark`, `dk`, `clear`: the newest log lines of the daemons, which each keeps in memory.
//!
//! Lustre's nodes have a debug buffer in the kernel. A daemon of SheenFS keeps its newest log lines
//! instead, at most `node::watch::recent::LINES_MAX`; its log file has them all.

use crate::cli::{DkArgs, MarkArgs};
use crate::daemons::{self, Answered, Daemons};
use node::manage::control::{Answer, Request};
use report::Report;
use std::fs::File;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes a line to the log of each daemon.
///
/// # Errors
/// Never: nothing is printed.
pub fn mark(args: &MarkArgs, daemons: &Daemons, report: &mut Report<'_>) -> io::Result<()> {
    let text = match args.text[..] {
        [] => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{}.{:06}", now.as_secs(), now.subsec_micros())
        }
        _ => args.text.join(" "),
    };
    for Answered { answer, .. } in daemons.ask_all(&Request::Mark { text: text.clone() }, report) {
        if answer != Answer::Done {
            daemons::unexpected(&answer, report);
        }
    }
    Ok(())
}

/// Prints the lines of all daemons by their time, and takes them out of memory.
///
/// # Errors
/// `out`, or the file, cannot be written.
pub fn dump(
    args: &DkArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    // Before the lines leave the daemons' memory.
    let mut file = match &args.file {
        None => None,
        Some(path) => match File::create(path) {
            Ok(file) => Some(io::BufWriter::new(file)),
            Err(error) => {
                report.failed(&format!("cannot write '{}'", path.display()), &error);
                return Ok(());
            }
        },
    };
    let (mut all, mut dropped) = (Vec::new(), 0);
    for Answered { answer, .. } in daemons.ask_all(&Request::Recent { show: true }, report) {
        match answer {
            Answer::Recent { lines, dropped: more } => {
                all.extend(lines);
                dropped += more;
            }
            other => daemons::unexpected(&other, report),
        }
    }
    // Each begins with its time.
    all.sort();
    let target: &mut dyn Write = match &mut file {
        Some(file) => file,
        None => out,
    };
    all.iter().try_for_each(|line| writeln!(target, "{line}"))?;
    target.flush()?;
    let count = all.len();
    writeln!(
        out,
        "Debug log: {} lines, {count} kept, {dropped} dropped, 0 bad.",
        count as u64 + dropped
    )
}

/// Takes the lines out of the daemons' memory.
pub fn clear(daemons: &Daemons, report: &mut Report<'_>) {
    for Answered { answer, .. } in daemons.ask_all(&Request::Recent { show: false }, report) {
        if !matches!(answer, Answer::Recent { .. }) {
            daemons::unexpected(&answer, report);
        }
    }
}
