//! `sheen lfs`, and the binary called as `lfs`: crate `lfs` does the work; here are its streams and
//! its usage errors.

use crate::called::{self, Program};
use crate::terminal::outcome::{Exit, Outcome};
use clap::Args;
use lfs::cli::Lfs;
use std::ffi::OsString;
use std::io;

/// The definition under its own name.
pub fn definition() -> clap::Command {
    let bare = clap::Command::new("lfs").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    Lfs::augment_args(bare).arg_required_else_help(true)
}

/// Called as `lfs`: wrong usage, too, is reported in Lustre's way. Without a command it reads
/// commands.
pub fn called(args: Vec<OsString>) -> Outcome {
    called::play(&Program { definition: definition(), run, devices: false }, args)
}

/// Runs one command.
pub fn run(lfs: &Lfs) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout());
    Ok(Exit::Status(lfs::run(lfs, &mut out, &mut io::stderr().lock())))
}
