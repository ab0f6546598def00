//! Programs that are called by Lustre's names: `lfs`, `lctl`, `lnetctl`. Their wrong usage is
//! reported in Lustre's way, with EINVAL.

use crate::parse;
use crate::terminal::interactive::{self, Reader};
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use clap::FromArgMatches;
use std::ffi::OsString;

/// EINVAL: the exit status of a wrong call.
const WRONG_USAGE: u8 = 22;

/// A program of Lustre's.
pub struct Program<A> {
    /// Definition of the program, under its own name.
    pub definition: clap::Command,
    /// Runs one command.
    pub run: fn(&A) -> Outcome,
    /// See [`Reader::devices`].
    pub devices: bool,
}

/// Plays the program: one command from its arguments (the first is the program's name), or without
/// any those that it reads.
pub fn play<A: FromArgMatches>(program: &Program<A>, args: Vec<OsString>) -> Outcome {
    let Program { definition, run, devices } = program;
    let name = definition.get_name().to_owned();
    if args.len() == 2 && args[1] == "--list-commands" {
        return interactive::list_commands(definition);
    }
    if args.len() > 1 {
        return as_lustre(definition.clone(), args, run);
    }
    let one = |words: Vec<String>| {
        let args = std::iter::once(name.clone()).chain(words).map(OsString::from).collect();
        match as_lustre(definition.clone(), args, run) {
            Ok(Exit::Status(status)) => status,
            Ok(_) | Err(Failure::Helped) => 0,
            Err(failure) => {
                output::talk(&format!("{name}: {failure}"));
                WRONG_USAGE
            }
        }
    };
    Reader { name: &name, run: &one, devices: *devices }.read()
}

/// Parses the arguments (the first is the program's name) and runs it.
pub fn as_lustre<A: FromArgMatches>(
    definition: clap::Command,
    args: Vec<OsString>,
    run: impl FnOnce(&A) -> Outcome,
) -> Outcome {
    let args = if definition.get_name() == "lctl" { lctl::cli::normalized(args) } else { args };
    let command = args.get(1).map(|word| word.to_string_lossy().into_owned());
    let parsed = parse::matches(definition.clone(), args)
        .and_then(|matches| A::from_arg_matches(&matches).map_err(|e| parse::failure(&e)));
    match parsed {
        Ok(asked) => run(&asked),
        Err(Failure::UsageShown) => Ok(Exit::Status(WRONG_USAGE)),
        Err(Failure::Usage(sentence)) => {
            // Only names of commands may stand where a command's name belongs.
            let named = command.filter(|word| definition.find_subcommand(word).is_some());
            output::talk(&format!(
                "error: {}: {sentence}",
                named.as_deref().unwrap_or(definition.get_name())
            ));
            Ok(Exit::Status(WRONG_USAGE))
        }
        Err(other) => Err(other),
    }
}

pub(crate) mod applet;
pub(crate) mod lustre_names;
