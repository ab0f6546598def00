//! The `sheen` command: parse, run, say how it went.
//!
//! Called as `mkfs.sheen`, `mount.sheen`, `mkfs.lustre`, `mount.lustre`, `lctl`, `lfs`, `lnetctl`
//! or `lshowmount` it plays that program (see [`called`]). Standard output carries data, standard
//! error talk; a failure is one sentence.

mod busy;
mod called;
mod cli;
mod commands;
mod inside;
mod log;
#[cfg(feature = "mutants")]
mod mutants;
mod parse;
mod spawn;
mod terminal;

use called::applet;
use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use commands::{
    auth, bench, completion, dash, down, fsck, lctl, lfs, lnetctl, man, mkfs, mount, router, scrub,
    serve, status, top, up, why,
};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use terminal::outcome::{Failure, Outcome};
use terminal::output;

fn main() -> ExitCode {
    // The background process is started as /proc/self/exe; ps and top shall not call it "exe". Only
    // a name: no harm if not.
    let _ = rustix::thread::set_name(c"sheen");
    #[cfg(feature = "mutants")]
    mutants::choose();
    let args: Vec<OsString> = std::env::args_os().collect();
    let argv0 = args.first().map(Path::new).unwrap_or(Path::new("sheen"));
    let (name, outcome) = match applet::called_by(argv0) {
        Some(applet) => (applet.name, (applet.run)(args)),
        None => ("sheen", sheen(args)),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            match &failure {
                Failure::Helped | Failure::UsageShown | Failure::PipeClosed => {}
                failure => output::talk(&format!("{name}: {failure}")),
            }
            failure.exit().into()
        }
    }
}

fn sheen(args: Vec<OsString>) -> Outcome {
    let args = if args.get(1).is_some_and(|word| word == "lctl") {
        ::lctl::cli::normalized(args)
    } else {
        args
    };
    let matches = parse::matches(Cli::command(), args)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|e| parse::failure(&e))?;
    match cli.command {
        Command::Up(args) => up::run(&args),
        Command::Down(args) => down::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Dash(args) => dash::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Router(args) => router::run(&args),
        Command::Mkfs(args) => mkfs::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::MountDaemon(args) => mount::daemon(&args),
        Command::EndLeases => serve::end_leases(),
        Command::Fsck(args) => fsck::run(&args),
        Command::Scrub(args) => scrub::run(&args),
        Command::Auth(args) => auth::run(&args),
        Command::Lctl(args) => lctl::run(&args),
        Command::Lfs(args) => lfs::run(&args),
        Command::Lnetctl(args) => lnetctl::run(&args),
        Command::Lshowmount(args) => lnetctl::showmount(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
