//! `sheen lctl`, and the binary called as `lctl`: crate `lctl` does the work; here are its streams
//! and its usage errors.

use crate::called::{self, Program};
use crate::terminal::outcome::{Exit, Outcome};
use clap::Args;
use lctl::cli::Lctl;
use std::ffi::OsString;
use std::io;

/// The definition under its own name.
pub fn definition() -> clap::Command {
    let bare = clap::Command::new("lctl").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    Lctl::augment_args(bare).arg_required_else_help(true)
}

/// Called as `lctl`: wrong usage, too, is reported in Lustre's way. Without a command it reads
/// commands.
pub fn called(args: Vec<OsString>) -> Outcome {
    called::play(&Program { definition: definition(), run, devices: true }, args)
}

/// Runs one command.
pub fn run(lctl: &Lctl) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout().lock());
    Ok(Exit::Status(lctl::run(lctl, &mut out, &mut io::stderr().lock())))
}
