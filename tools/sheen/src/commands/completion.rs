//! `sheen completion SHELL`, for the binary and all its applets.

use crate::called::applet::APPLETS;
use crate::cli::{Cli, CompletionArgs, ShellKind};
use crate::terminal::outcome::{Exit, Outcome};
use crate::terminal::output;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the script.
pub fn run(args: &CompletionArgs) -> Outcome {
    output::data(&script(args.shell))?;
    Ok(Exit::Done)
}

fn script(shell: ShellKind) -> String {
    let shell = match shell {
        ShellKind::Bash => Shell::Bash,
        ShellKind::Zsh => Shell::Zsh,
        ShellKind::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sheen", &mut text);
    // A zsh file completes the one command of its first line; other shells take several.
    if shell != Shell::Zsh {
        for applet in APPLETS {
            clap_complete::generate(shell, &mut (applet.command)(), applet.name, &mut text);
        }
    }
    String::from_utf8(text).expect("scripts are text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_commands_and_flags() {
        for (shell, names) in [
            (
                ShellKind::Bash,
                &["_sheen()", "--stripe-count", "mkfs.sheen", "mount.sheen", "_lfs()"][..],
            ),
            (ShellKind::Zsh, &["#compdef sheen", "--stripe-count"][..]),
            (ShellKind::Fish, &["complete -c sheen", "stripe-count", "mount.sheen"][..]),
        ] {
            let text = script(shell);
            for name in names {
                assert!(text.contains(name), "{shell:?}: {name}");
            }
        }
    }
}
