//! `sheen lnetctl` and `sheen lshowmount`, and the binary called by these names: crate `lnetctl`
//! does the work; here are its streams and its usage errors.

use crate::called::{self, Program};
use crate::terminal::outcome::{Exit, Outcome};
use clap::Args;
use lnetctl::cli::{Lnetctl, Lshowmount};
use std::ffi::OsString;
use std::io;

/// The definition under its own name.
pub fn definition() -> clap::Command {
    let bare = clap::Command::new("lnetctl").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    Lnetctl::augment_args(bare).arg_required_else_help(true)
}

/// The definition of `lshowmount` under its own name.
pub fn showmount_definition() -> clap::Command {
    let bare =
        clap::Command::new("lshowmount").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    Lshowmount::augment_args(bare)
}

/// Called as `lnetctl`: wrong usage, too, is reported in Lustre's way. Without a command it reads
/// commands.
pub fn called(args: Vec<OsString>) -> Outcome {
    called::play(&Program { definition: definition(), run, devices: false }, args)
}

/// Called as `lshowmount`.
pub fn showmount_called(args: Vec<OsString>) -> Outcome {
    called::as_lustre(showmount_definition(), args, showmount)
}

/// Runs one command.
pub fn run(lnetctl: &Lnetctl) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout().lock());
    Ok(Exit::Status(lnetctl::run(lnetctl, &mut out, &mut io::stderr().lock())))
}

/// Lists the clients of this host's targets.
pub fn showmount(args: &Lshowmount) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout().lock());
    Ok(Exit::Status(lnetctl::showmount::run(args, &mut out, &mut io::stderr().lock())))
}
