//! `lctl find_param`: where a parameter is, by its last word.

use crate::cli::FindParamArgs;
use crate::daemons::Daemons;
use crate::get_param::classified;
use ask::params::ParamRequest;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Levels that the tree has at most above a parameter.
const LEVELS_MAX: usize = 8;

/// Prints the whole names of what has such a last word.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &FindParamArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for word in &args.words {
        let request =
            ParamRequest::Get { patterns: patterns(word), recursive: false, values: false };
        let found = daemons.params(&request, report);
        if found.is_empty() {
            report.errno(&format!("'{word}'"), Errno::ENOENT);
        }
        for param in found.values() {
            writeln!(out, "{}", classified(param, args.classify, false))?;
        }
    }
    Ok(())
}

/// The word at any level.
fn patterns(word: &str) -> Vec<String> {
    (0..=LEVELS_MAX).map(|levels| format!("{}{word}", "*.".repeat(levels))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_looked_for_at_every_level() {
        assert_eq!(patterns("stats")[..3], ["stats", "*.stats", "*.*.stats"]);
        assert_eq!(patterns("stats").len(), 1 + LEVELS_MAX);
    }
}
