//! `lctl`: what an administrator asks of the daemons of a host: devices, parameters, NIDs.
//!
//! Options, output and exit status are Lustre's. All daemons of the host are found by their
//! registry (`node::local`) and asked over their control sockets, one after the other. Their
//! answers are shown as one tree. `docs/lctl.md` lists the commands and their differences. A
//! failure is one line on standard error and does not end the command; the exit status is the errno
//! of the first.

pub mod absent;
pub mod cli;
pub mod daemons;
pub mod debug;
pub mod device;
pub mod faults;
pub mod find_param;
pub mod get_param;
pub mod help_param;
mod hosts;
pub mod list_param;
pub mod network;
pub mod nodemap;
pub mod permanent;
pub mod pool;
pub mod pool_osts;
pub mod removal;
pub mod set_param;

use cli::{Lctl, LctlCommand, SetParamArgs};
use daemons::Daemons;
use idmap::set::NodemapChange;
use report::{Report, Style};
use std::io::Write;
use types::target::TargetKind;

/// Runs one command. Data goes to `out`, talk to `err`.
///
/// Returns the exit status: 0, or the errno of the first thing that failed.
pub fn run(lctl: &Lctl, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut report = Report::new(lctl.command.name(), Style::Lctl, err);
    let daemons = match &lctl.command {
        // These need none.
        LctlCommand::HelpParam(_) | LctlCommand::Other(_) => Daemons::none(),
        _ => match Daemons::find(lctl.cluster.as_deref(), &mut report) {
            Some(daemons) => daemons,
            None => return report.end(Ok(())),
        },
    };
    let daemons = &daemons;
    let written = match &lctl.command {
        LctlCommand::Dl(args) => device::list(args, daemons, out, &mut report),
        LctlCommand::Activate => {
            device::activate(lctl.device.as_deref(), true, daemons, &mut report)
        }
        LctlCommand::Deactivate => {
            device::activate(lctl.device.as_deref(), false, daemons, &mut report)
        }
        LctlCommand::AbortRecovery => {
            device::abort_recovery(lctl.device.as_deref(), "abort_recovery", daemons, &mut report)
        }
        LctlCommand::AbortRecoveryMdt => {
            let command = "abort_recovery_mdt";
            device::abort_recovery(lctl.device.as_deref(), command, daemons, &mut report)
        }
        LctlCommand::GetParam(args) => get_param::run(args, daemons, out, &mut report),
        LctlCommand::SetParam(args) => set_param::run(args, daemons, out, &mut report),
        LctlCommand::ListParam(args) => list_param::run(args, daemons, out, &mut report),
        LctlCommand::FindParam(args) => find_param::run(args, daemons, out, &mut report),
        LctlCommand::ApplyYaml(args) => {
            let settings = SetParamArgs {
                file: true,
                settings: args.files.clone(),
                ..SetParamArgs::default()
            };
            set_param::run(&settings, daemons, out, &mut report)
        }
        LctlCommand::HelpParam(args) => help_param::run(args, out, &mut report),
        LctlCommand::ConfParam(args) => permanent::conf_param(args, daemons, &mut report),
        LctlCommand::PoolNew(args) => pool::new(&args.pool, daemons, &mut report),
        LctlCommand::PoolAdd(args) => pool::add(&args.pool, &args.osts, daemons, &mut report),
        LctlCommand::PoolRemove(args) => pool::remove(&args.pool, &args.osts, daemons, &mut report),
        LctlCommand::PoolDestroy(args) => pool::destroy(&args.pool, daemons, &mut report),
        LctlCommand::PoolList(args) => pool::list(&args.name, daemons, out, &mut report),
        LctlCommand::NodemapActivate(args) => {
            nodemap::change(&NodemapChange::Activate(args.active()), daemons, &mut report)
        }
        LctlCommand::NodemapAdd(args) => {
            nodemap::change(&NodemapChange::Add(args.name.clone()), daemons, &mut report)
        }
        LctlCommand::NodemapDel(args) => {
            nodemap::change(&NodemapChange::Del(args.name.clone()), daemons, &mut report)
        }
        LctlCommand::NodemapModify(args) => nodemap::modify(args, daemons, &mut report),
        LctlCommand::NodemapAddRange(args) => nodemap::range(args, true, daemons, &mut report),
        LctlCommand::NodemapDelRange(args) => nodemap::range(args, false, daemons, &mut report),
        LctlCommand::NodemapAddIdmap(args) => nodemap::idmap(args, true, daemons, &mut report),
        LctlCommand::NodemapDelIdmap(args) => nodemap::idmap(args, false, daemons, &mut report),
        LctlCommand::NodemapSetFileset(args) => nodemap::set_fileset(args, daemons, &mut report),
        LctlCommand::NodemapInfo(args) => nodemap::info(&args.which, daemons, out, &mut report),
        LctlCommand::NodemapTestNid(args) => {
            nodemap::test_nid(&args.nid, daemons, out, &mut report)
        }
        LctlCommand::NodemapTestId(args) => nodemap::test_id(args, daemons, out, &mut report),
        LctlCommand::NetDropAdd(args) => faults::add_drop(args, daemons, out, &mut report),
        LctlCommand::NetDropDel(args) => faults::remove(args, false, daemons, out, &mut report),
        LctlCommand::NetDropReset => {
            faults::reset(false, daemons, &mut report);
            Ok(())
        }
        LctlCommand::NetDropList => faults::list(false, daemons, out, &mut report),
        LctlCommand::NetDelayAdd(args) => faults::add_delay(args, daemons, out, &mut report),
        LctlCommand::NetDelayDel(args) => faults::remove(args, true, daemons, out, &mut report),
        LctlCommand::NetDelayReset => {
            faults::reset(true, daemons, &mut report);
            Ok(())
        }
        LctlCommand::NetDelayList => faults::list(true, daemons, out, &mut report),
        LctlCommand::ListNids => network::list_nids(daemons, out, &mut report),
        LctlCommand::Ping(args) => network::ping(args, daemons, out, &mut report),
        LctlCommand::WhichNid(args) => network::which_nid(args, daemons, out, &mut report),
        LctlCommand::DelOst(args) => removal::run(args, TargetKind::Ost, daemons, &mut report),
        LctlCommand::DelMdt(args) => removal::run(args, TargetKind::Mdt, daemons, &mut report),
        LctlCommand::DelReplica(args) => hosts::del_replica(args, daemons, &mut report),
        LctlCommand::ReplaceNids(args) => hosts::replace_nids(args, daemons, &mut report),
        LctlCommand::Mark(args) => debug::mark(args, daemons, &mut report),
        LctlCommand::Dk(args) => debug::dump(args, daemons, out, &mut report),
        LctlCommand::Clear => {
            debug::clear(daemons, &mut report);
            Ok(())
        }
        LctlCommand::Other(words) => {
            absent::ABSENT.say(words, &mut report);
            Ok(())
        }
    };
    report.end(written.and_then(|()| out.flush()))
}
