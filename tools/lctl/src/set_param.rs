//! `lctl set_param`.

use crate::cli::SetParamArgs;
use crate::daemons;
use crate::failure::Report;
use node::control::Request;
use std::io::{self, Write};
use types::errno::Errno;

/// Sets, and prints what was set.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &SetParamArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    for (pattern, value) in pairs(&args.settings, report) {
        set(&pattern, &value, args.no_name, out, report)?;
    }
    Ok(())
}

/// One setting everywhere.
///
/// # Errors
/// `out` cannot be written.
pub fn set(pattern: &str, value: &str, quiet: bool, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let request = Request::Set { pattern: pattern.to_owned(), value: value.to_owned() };
    let found = daemons::params(&request, report);
    if found.is_empty() {
        report.errno(&format!("param_path '{}'", pattern.replace('.', "/")), Errno::ENOENT);
    }
    for param in found.values() {
        match param.errno {
            Some(errno) => report.errno(&format!("setting {}={value}", param.name), Errno(errno)),
            None if quiet => {}
            None => writeln!(out, "{}={value}", param.name)?,
        }
    }
    Ok(())
}

/// `a=1 b=2`, or the older `a 1`.
pub fn pairs(words: &[String], report: &mut Report<'_>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (word.split_once('='), words.len()) {
            (Some((name, value)), _) => pairs.push((name.to_owned(), value.to_owned())),
            (None, 0) => report.sentence(&format!("{word}: no value; write PARAM=VALUE"), Errno::EINVAL),
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
        let mut report = Report::new("set_param", &mut err);
        let words = ["a.*.b=1", "c", "2", "d=x=y", "e"].map(str::to_owned);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(pairs(&words, &mut report), [pair("a.*.b", "1"), pair("c", "2"), pair("d", "x=y")]);
        assert_eq!(report.status(), 22);
    }
}
