//! `sheen lfs`, and the binary called as `lfs`: crate `lfs` does the work; here are its streams and its usage errors.

use crate::outcome::{Exit, Failure, Outcome};
use crate::{output, parse};
use clap::{Args, FromArgMatches};
use lfs::cli::Lfs;
use std::ffi::OsString;
use std::io;

/// EINVAL: what `lfs` exits with if it was called wrongly.
const WRONG_USAGE: u8 = 22;

/// The definition under its own name.
pub fn definition() -> clap::Command {
    let bare = clap::Command::new("lfs").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    Lfs::augment_args(bare).arg_required_else_help(true)
}

/// Called as `lfs`: wrong usage, too, is told in Lustre's way.
pub fn called(args: Vec<OsString>) -> Outcome {
    let command = args.get(1).map(|word| word.to_string_lossy().into_owned());
    let parsed = parse::matches(definition(), args)
        .and_then(|matches| Lfs::from_arg_matches(&matches).map_err(|e| parse::failure(&e)));
    match parsed {
        Ok(lfs) => run(&lfs),
        Err(Failure::UsageShown) => Ok(Exit::Status(WRONG_USAGE)),
        Err(Failure::Usage(sentence)) => {
            // Only names of commands may stand where a command's name belongs.
            let named = command.filter(|word| definition().find_subcommand(word).is_some());
            output::talk(&format!("error: {}: {sentence}", named.as_deref().unwrap_or("lfs")));
            Ok(Exit::Status(WRONG_USAGE))
        }
        Err(other) => Err(other),
    }
}

/// Runs one command.
pub fn run(lfs: &Lfs) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout().lock());
    Ok(Exit::Status(lfs::run(lfs, &mut out, &mut io::stderr().lock())))
}
