//! `lctl set_param`.

use crate::cli::SetParamArgs;
use crate::daemons::Daemons;
use crate::permanent;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Sets, and prints what was set.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &SetParamArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    if args.permanent {
        return permanent::set_param(args, daemons, report);
    }
    let settings =
        if args.file { from_files(&args.settings, report) } else { pairs(&args.settings, report) };
    for (pattern, value) in settings {
        set(daemons, &pattern, &value, args.no_name, out, report)?;
    }
    Ok(())
}

/// One setting, wherever it exists.
///
/// # Errors
/// `out` cannot be written.
pub fn set(
    daemons: &Daemons,
    pattern: &str,
    value: &str,
    quiet: bool,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(found) = daemons.set(pattern, value, report) else { return Ok(()) };
    if found.is_empty() {
        report.errno(&format!("param_path '{}'", pattern.replace('.', "/")), Errno::ENOENT);
    }
    for param in found.values() {
        match param.errno {
            Some(errno) => {
                let what = format!("setting {}={value}", param.name);
                match &param.reason {
                    Some(reason) => report.sentence(&format!("{what}: {reason}"), Errno(errno)),
                    None => report.errno(&what, Errno(errno)),
                }
            }
            None if quiet => {}
            None => writeln!(out, "{}={value}", param.name)?,
        }
    }
    Ok(())
}

/// Lines of files: `a: 1` or `a=1`; empty ones and those that begin with `#` say nothing.
fn from_files(files: &[String], report: &mut Report<'_>) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for file in files {
        match std::fs::read_to_string(file) {
            Ok(text) => {
                for line in text
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty() && !line.starts_with('#'))
                {
                    match line.split_once('=').or_else(|| line.split_once(": ")) {
                        Some((name, value)) => {
                            settings.push((name.trim().to_owned(), value.trim().to_owned()))
                        }
                        None => report
                            .sentence(&format!("{file}: {line}: write PARAM=VALUE"), Errno::EINVAL),
                    }
                }
            }
            Err(error) => report.failed(&format!("can't read '{file}'"), &error),
        }
    }
    settings
}

/// `a=1 b=2`, or the older `a 1`.
pub fn pairs(words: &[String], report: &mut Report<'_>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (word.split_once('='), words.len()) {
            (Some((name, value)), _) => pairs.push((name.to_owned(), value.to_owned())),
            (None, 0) => {
                report.sentence(&format!("{word}: no value; write PARAM=VALUE"), Errno::EINVAL)
            }
            (None, _) => pairs.extend(words.next().map(|value| (word.clone(), value.clone()))),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_write_a_setting() {
        let mut err = Vec::new();
        let mut report = Report::new("set_param", report::Style::Lctl, &mut err);
        let words = ["a.*.b=1", "c", "2", "d=x=y", "e"].map(str::to_owned);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            pairs(&words, &mut report),
            [pair("a.*.b", "1"), pair("c", "2"), pair("d", "x=y")]
        );
        assert_eq!(report.status(), 22);
    }
}
