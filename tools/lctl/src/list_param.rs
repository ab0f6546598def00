//! `lctl list_param`.

use crate::cli::ListParamArgs;
use crate::daemons::Daemons;
use crate::get_param::classified;
use ask::params::ParamRequest;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Prints the names that match.
///
/// # Errors
/// `out` cannot be written.
pub fn run(
    args: &ListParamArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    for pattern in &args.patterns {
        let request = ParamRequest::Get {
            patterns: vec![pattern.clone()],
            recursive: args.recursive,
            values: false,
        };
        let found = daemons.params(&request, report);
        if found.is_empty() {
            report.errno(&format!("param_path '{}'", pattern.replace('.', "/")), Errno::ENOENT);
        }
        for param in found.values() {
            let wanted = if param.level {
                !args.readable && !args.writable
            } else {
                !args.levels
                    && (param.readable || !args.readable)
                    && (param.writable || !args.writable)
            };
            if wanted {
                writeln!(out, "{}", classified(param, args.classify, args.path))?;
            }
        }
    }
    Ok(())
}
