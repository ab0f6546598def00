//! Arguments to checked values; wrong ones to one sentence and exit code 64. A value may stand
//! right behind a short option.

use crate::terminal::outcome::Failure;
use crate::terminal::output;
use clap::ArgMatches;
use std::ffi::OsString;

/// Parses. Help and version are printed and end the command well.
///
/// # Errors
/// [`Failure::Usage`] with one sentence; [`Failure::Helped`] after help.
pub fn matches(command: clap::Command, args: Vec<OsString>) -> Result<ArgMatches, Failure> {
    let args = attached(&command, args);
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

/// The arguments with `-I=2` for `-I2`, where the value of the option may be absent. getopt(3)
/// takes text right after such an option for its value, the parser only text after an equals sign.
fn attached(command: &clap::Command, args: Vec<OsString>) -> Vec<OsString> {
    let mut command = command;
    let mut out = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    out.extend(args.next());
    while let Some(word) = args.next() {
        if let Some(sub) = word.to_str().and_then(|word| command.find_subcommand(word)) {
            command = sub;
            out.push(word);
            continue;
        }
        // The words that follow are not for the parser.
        if word == "--" || command.get_positionals().any(clap::Arg::is_trailing_var_arg_set) {
            out.push(word);
            out.extend(args.by_ref());
            break;
        }
        out.push(
            match word.to_str().and_then(|text| equals_sign_at(command, text).map(|at| (text, at)))
            {
                Some((text, at)) => format!("{}={}", &text[..at], &text[at..]).into(),
                None => word,
            },
        );
    }
    out
}

/// Position of the missing equals sign in `-vI2`.
fn equals_sign_at(command: &clap::Command, word: &str) -> Option<usize> {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
    for (at, letter) in letters.char_indices() {
        let is = |arg: &&clap::Arg| {
            arg.get_short_and_visible_aliases().is_some_and(|all| all.contains(&letter))
        };
        let arg = command.get_arguments().find(is)?;
        let rest = 1 + at + letter.len_utf8();
        match arg.get_action().takes_values() {
            false => {}
            true if arg.is_require_equals_set()
                && rest < word.len()
                && !word[rest..].starts_with('=') =>
            {
                return Some(rest);
            }
            true => return None,
        }
    }
    None
}

/// The sentence of a parse error: what clap says before "Usage:", on one line, and where to read
/// on.
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
    let command = after
        .split_whitespace()
        .take_while(|w| !w.starts_with(['[', '<', '-']))
        .collect::<Vec<_>>()
        .join(" ");
    match command.as_str() {
        "" => Failure::Usage(sentence),
        command => Failure::Usage(format!("{sentence}; see: {command} --help")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::lfs;

    fn words(text: &str) -> String {
        let args = text.split(' ').map(OsString::from).collect();
        attached(&lfs::definition(), args).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn a_value_may_stand_right_behind_its_option() {
        for (given, meant) in [
            ("lfs getstripe -I2 f", "lfs getstripe -I=2 f"),
            ("lfs getstripe -vI2 f", "lfs getstripe -vI=2 f"),
            ("lfs getstripe -E+1M f", "lfs getstripe -E=+1M f"),
            ("lfs setstripe -N2 f", "lfs setstripe -N=2 f"),
            ("lfs df -m0 -ho1", "lfs df -m=0 -ho=1"),
        ] {
            assert_eq!(words(given), meant);
        }
        for same in [
            "lfs getstripe -I f",
            "lfs getstripe -I=2 f",
            "lfs getstripe -cI f",
            "lfs setstripe -c4 -i-1 -S64K f",
            "lfs setstripe -c -1 f",
            "lfs getstripe -- -I2",
            "lfs find -I2 f",
            "lfs",
        ] {
            assert_eq!(words(same), same);
        }
    }

    #[test]
    fn every_short_option_takes_its_value_without_a_space() {
        let definition = lfs::definition();
        for sub in definition.get_subcommands() {
            for arg in sub.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let Some(letter) = arg.get_short() else { continue };
                let word = format!("-{letter}7");
                let at = equals_sign_at(sub, &word);
                assert_eq!(at.is_some(), arg.is_require_equals_set(), "{} {word}", sub.get_name());
            }
        }
    }
}
