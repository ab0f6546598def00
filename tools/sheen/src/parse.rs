//! Arguments to checked values; wrong ones to one sentence and exit code 64.

use crate::outcome::Failure;
use crate::output;
use clap::ArgMatches;
use std::ffi::OsString;

/// Parses. Help and version are printed and end the command well.
///
/// # Errors
/// [`Failure::Usage`] with one sentence; [`Failure::Helped`] after help.
pub fn matches(command: clap::Command, args: Vec<OsString>) -> Result<ArgMatches, Failure> {
    command.try_get_matches_from(args).map_err(|error| {
        if error.use_stderr() {
            return failure(&error);
        }
        match output::data(&error.render().to_string()) {
            Ok(()) => Failure::Helped,
            Err(failure) => failure,
        }
    })
}

/// The sentence of a parse error: what clap says before "Usage:", on one line, and where to read on.
pub fn failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::talk(text.trim_end());
        return Failure::UsageShown;
    }
    let (said, after) = text.split_once("\nUsage:").unwrap_or((&text, ""));
    let said = said.split("\nFor more information").next().unwrap_or(said);
    let said = said.trim().strip_prefix("error: ").unwrap_or(said);
    let paragraph = |p: &str| p.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = said.split("\n\n").map(paragraph).collect::<Vec<_>>().join("; ");
    // "Usage: sheen up [OPTIONS] [DIR]": the words before the first argument are the command.
    let command =
        after.split_whitespace().take_while(|w| !w.starts_with(['[', '<', '-'])).collect::<Vec<_>>().join(" ");
    match command.as_str() {
        "" => Failure::Usage(sentence),
        command => Failure::Usage(format!("{sentence}; see: {command} --help")),
    }
}
