//! `lctl`: what an administrator asks of the daemons of a host: devices, parameters, NIDs.
//!
//! Options, output and exit status are Lustre's. All daemons of the host are found by their registry (`node::local`) and
//! asked over their control sockets, one after the other; what they answer is shown as one tree. `docs/lctl.md` says
//! which commands there are and where they differ. A failure is one line on standard error and does not end the command;
//! the exit status is the errno of the first.

pub mod absent;
pub mod cli;
pub mod daemons;
pub mod device;
pub mod faults;
pub mod find_param;
pub mod get_param;
pub mod help_param;
pub mod list_param;
pub mod network;
pub mod permanent;
pub mod pool;
pub mod pool_osts;
pub mod set_param;

use cli::{Lctl, LctlCommand, SetParamArgs};
use report::{Report, Style};
use std::io::Write;

/// Runs one command. Data goes to `out`, talk to `err`.
///
/// Returns the exit status: 0, or the errno of the first thing that failed.
pub fn run(lctl: &Lctl, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut report = Report::new(lctl.command.name(), Style::Lctl, err);
    let written = match &lctl.command {
        LctlCommand::Dl(args) => device::list(args, out, &mut report),
        LctlCommand::Activate => device::activate(lctl.device.as_deref(), true, &mut report),
        LctlCommand::Deactivate => device::activate(lctl.device.as_deref(), false, &mut report),
        LctlCommand::AbortRecovery => device::abort_recovery(lctl.device.as_deref(), &mut report),
        LctlCommand::GetParam(args) => get_param::run(args, out, &mut report),
        LctlCommand::SetParam(args) => set_param::run(args, out, &mut report),
        LctlCommand::ListParam(args) => list_param::run(args, out, &mut report),
        LctlCommand::FindParam(args) => find_param::run(args, out, &mut report),
        LctlCommand::ApplyYaml(args) => {
            let settings = SetParamArgs { file: true, settings: args.files.clone(), ..SetParamArgs::default() };
            set_param::run(&settings, out, &mut report)
        }
        LctlCommand::HelpParam(args) => help_param::run(args, out, &mut report),
        LctlCommand::ConfParam(args) => permanent::conf_param(args, &mut report),
        LctlCommand::PoolNew(args) => pool::new(&args.pool, &mut report),
        LctlCommand::PoolAdd(args) => pool::add(&args.pool, &args.osts, &mut report),
        LctlCommand::PoolRemove(args) => pool::remove(&args.pool, &args.osts, &mut report),
        LctlCommand::PoolDestroy(args) => pool::destroy(&args.pool, &mut report),
        LctlCommand::PoolList(args) => pool::list(&args.name, out, &mut report),
        LctlCommand::NetDropAdd(args) => faults::add_drop(args, out, &mut report),
        LctlCommand::NetDropDel(args) => faults::remove(args, false, out, &mut report),
        LctlCommand::NetDropReset => {
            faults::reset(false, &mut report);
            Ok(())
        }
        LctlCommand::NetDropList => faults::list(false, out, &mut report),
        LctlCommand::NetDelayAdd(args) => faults::add_delay(args, out, &mut report),
        LctlCommand::NetDelayDel(args) => faults::remove(args, true, out, &mut report),
        LctlCommand::NetDelayReset => {
            faults::reset(true, &mut report);
            Ok(())
        }
        LctlCommand::NetDelayList => faults::list(true, out, &mut report),
        LctlCommand::ListNids => network::list_nids(out, &mut report),
        LctlCommand::Ping(args) => network::ping(args, out, &mut report),
        LctlCommand::WhichNid(args) => network::which_nid(args, out, &mut report),
        LctlCommand::Other(words) => {
            absent::ABSENT.say(words, &mut report);
            Ok(())
        }
    };
    report.end(written.and_then(|()| out.flush()))
}
