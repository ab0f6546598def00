//! Programs that are called by Lustre's names: `lfs`, `lctl`. Their wrong usage is told in Lustre's way, with EINVAL.

use crate::outcome::{Exit, Failure, Outcome};
use crate::{output, parse};
use clap::FromArgMatches;
use std::ffi::OsString;

/// EINVAL: the exit status of a wrong call.
const WRONG_USAGE: u8 = 22;

/// Parses the arguments (the first is the program's name) and runs it.
pub fn as_lustre<A: FromArgMatches>(
    definition: clap::Command,
    args: Vec<OsString>,
    run: impl FnOnce(&A) -> Outcome,
) -> Outcome {
    let command = args.get(1).map(|word| word.to_string_lossy().into_owned());
    let parsed = parse::matches(definition.clone(), args)
        .and_then(|matches| A::from_arg_matches(&matches).map_err(|e| parse::failure(&e)));
    match parsed {
        Ok(asked) => run(&asked),
        Err(Failure::UsageShown) => Ok(Exit::Status(WRONG_USAGE)),
        Err(Failure::Usage(sentence)) => {
            // Only names of commands may stand where a command's name belongs.
            let named = command.filter(|word| definition.find_subcommand(word).is_some());
            output::talk(&format!("error: {}: {sentence}", named.as_deref().unwrap_or(definition.get_name())));
            Ok(Exit::Status(WRONG_USAGE))
        }
        Err(other) => Err(other),
    }
}
