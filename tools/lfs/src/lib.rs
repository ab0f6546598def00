//! `lfs`: what a user asks of a mount that ordinary programs cannot: layouts, targets, space by
//! target, FIDs.
//!
//! Options, output and exit status are Lustre's, so scripts need not know the difference.
//! Everything goes through extended attributes of the mount, which any program may use:
//! `lustre.lov` for layouts, and the names in [`types::about`]. `docs/lfs.md` lists the commands
//! and their differences. A failure is one line on standard error,
//! `error: COMMAND: what: why (errno)`, and the errno is the exit status. The command goes on with
//! what can still be done.

pub mod absent;
pub mod by_fid;
pub mod check;
pub mod chosen;
pub mod cli;
pub mod data;
pub mod df;
pub mod dir_scan;
pub mod dirstripe;
pub mod find;
pub mod getname;
pub mod getstripe;
pub mod hints;
pub mod lov_fields;
pub mod lov_text;
pub mod migrate;
pub mod migrate_mdt;
pub mod path2fid;
mod patience;
pub mod pool_list;
pub mod project;
pub mod setstripe;
pub mod spec;
mod targets;
pub mod yaml;

use cli::{Lfs, LfsCommand};
use report::{Report, Style};
use std::io::Write;

/// Runs one command. Data goes to `out`, talk to `err`.
///
/// Returns the exit status: 0, or the errno of the first thing that failed.
pub fn run(lfs: &Lfs, out: &mut (dyn Write + Send), err: &mut dyn Write) -> u8 {
    let mut report = Report::new(lfs.command.name(), Style::Lfs, err);
    let written = match &lfs.command {
        LfsCommand::Setstripe(args) => {
            setstripe::run(args, &mut report);
            Ok(())
        }
        LfsCommand::Getstripe(args) => getstripe::run(args, out, &mut report),
        LfsCommand::Osts(args) => targets::osts(args, out, &mut report),
        LfsCommand::Mdts(args) => targets::mdts(args, out, &mut report),
        LfsCommand::Df(args) => df::run(args, out, &mut report),
        LfsCommand::Path2fid(args) => path2fid::run(args, out, &mut report),
        LfsCommand::Fid2path(args) => by_fid::fid2path(args, out, &mut report),
        LfsCommand::Rmfid(args) => {
            by_fid::rmfid(args, &mut report);
            Ok(())
        }
        LfsCommand::DataVersion(args) => data::show_version(args, out, &mut report),
        LfsCommand::SwapLayouts(args) => {
            data::swap_layouts(args, &mut report);
            Ok(())
        }
        LfsCommand::Migrate(args) => migrate::run(args, out, &mut report),
        LfsCommand::Find(args) => find::run(args, out, &mut report),
        LfsCommand::Mkdir(args) => {
            dirstripe::make(args, false, &mut report);
            Ok(())
        }
        LfsCommand::Setdirstripe(args) => {
            dirstripe::make(args, true, &mut report);
            Ok(())
        }
        LfsCommand::Getdirstripe(args) => dirstripe::show(args, out, &mut report),
        LfsCommand::Project(args) => project::run(args, out, &mut report),
        LfsCommand::Ladvise(args) => {
            hints::ladvise(args, &mut report);
            Ok(())
        }
        LfsCommand::Flushctx(args) => {
            hints::flushctx(args, &mut report);
            Ok(())
        }
        LfsCommand::Getsom(args) => hints::getsom(args, out, &mut report),
        LfsCommand::Other(words) => {
            absent::ABSENT.say(words, &mut report);
            Ok(())
        }
        LfsCommand::Check(args) => check::run(args, out, &mut report),
        LfsCommand::PoolList(args) => pool_list::run(args, out, &mut report),
        LfsCommand::Getname(args) => getname::run(args, out, &mut report),
    };
    report.end(written.and_then(|()| out.flush()))
}
