//! `lnetctl`: networks, peers and routes of the daemons of a host; `lshowmount`: the clients of its
//! targets.
//!
//! Options, output and exit status are Lustre's. All daemons of the host are asked over their
//! control sockets, as `lctl` does, and shown as one. `docs/lnetctl.md` lists the commands and
//! their differences.

mod absent;
pub mod cli;
mod import;
mod lookup;
mod networks;
pub mod showmount;
pub mod yaml;

use cli::{
    Lnetctl, LnetctlCommand, NetCommand, PeerCommand, PeerDelArgs, RouteAddArgs, RouteCommand,
    RouteDelArgs, RoutingCommand,
};
use lctl::daemons::Daemons;
use networks::Wanted;
use node::manage::lnet::{LOCAL, LnetAsked};
use report::{Report, Style};
use std::io::{self, Write};
use types::errno::Errno;
use types::nid::Nid;

/// Runs one command. Data goes to `out`, talk to `err`.
///
/// Returns the exit status: 0, or the errno of the first thing that failed.
pub fn run(lnetctl: &Lnetctl, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut report = Report::new(lnetctl.command.name(), Style::Lctl, err);
    if let LnetctlCommand::Other(words) = &lnetctl.command {
        absent::ABSENT.say(words, &mut report);
        return report.end(Ok(()));
    }
    let Some(daemons) = Daemons::find(lnetctl.cluster.as_deref(), &mut report) else {
        return report.end(Ok(()));
    };
    let written = command(&lnetctl.command, &daemons, out, &mut report);
    report.end(written.and_then(|()| out.flush()))
}

fn command(
    command: &LnetctlCommand,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    match command {
        LnetctlCommand::Net(args) => match &args.command {
            NetCommand::Show(args) => {
                let wanted = Wanted { net: args.net.as_deref(), ..Wanted::verbose(args.verbose) };
                networks::show(networks::Section::Net, &wanted, daemons, out, report)
            }
            NetCommand::Add(args) => {
                let (net, on) = (args.net.clone(), args.interfaces.clone());
                if on.is_empty() && net != LOCAL {
                    let sentence = "name the interfaces, or addresses, with --if";
                    report.sentence(sentence, Errno::EINVAL);
                    return Ok(());
                }
                networks::change(LnetAsked::AddNet { net, on }, daemons, report);
                Ok(())
            }
            NetCommand::Del(args) => {
                let (net, on) = (args.net.clone(), args.interfaces.clone());
                networks::change(LnetAsked::DelNet { net, on }, daemons, report);
                Ok(())
            }
        },
        LnetctlCommand::Peer(args) => match &args.command {
            PeerCommand::Show(args) => {
                let wanted = Wanted { nid: args.nid, ..Wanted::verbose(args.verbose) };
                networks::show(networks::Section::Peer, &wanted, daemons, out, report)
            }
            PeerCommand::Add(args) => {
                let nids = all(args.primary, &args.nids);
                networks::change(LnetAsked::AddPeer { nids }, daemons, report);
                Ok(())
            }
            PeerCommand::Del(PeerDelArgs { primary, nids }) => {
                let nids = all(*primary, nids);
                networks::change(LnetAsked::DelPeer { nids }, daemons, report);
                Ok(())
            }
        },
        LnetctlCommand::Route(args) => match &args.command {
            RouteCommand::Show(args) => {
                let (net, nid) = (args.net.as_deref(), args.gateway);
                let wanted = Wanted { net, nid, ..Wanted::verbose(args.verbose) };
                networks::show(networks::Section::Route, &wanted, daemons, out, report)
            }
            RouteCommand::Add(RouteAddArgs { net, gateway, hop, priority }) => {
                for gateway in gateway {
                    let asked = LnetAsked::AddRoute {
                        net: net.clone(),
                        gateway: gateway.to_string(),
                        hops: *hop,
                        priority: *priority,
                    };
                    networks::change(asked, daemons, report);
                }
                Ok(())
            }
            RouteCommand::Del(RouteDelArgs { net, gateway }) => {
                for gateway in gateway {
                    let (net, gateway) = (net.clone(), gateway.to_string());
                    networks::change(LnetAsked::DelRoute { net, gateway }, daemons, report);
                }
                Ok(())
            }
        },
        LnetctlCommand::Routing(args) => match args.command {
            RoutingCommand::Show => {
                let section = networks::Section::Routing;
                networks::show(section, &Wanted::verbose(0), daemons, out, report)
            }
        },
        LnetctlCommand::Ping(args) => networks::ping("ping", &args.nids, daemons, out, report),
        LnetctlCommand::Discover(args) => {
            networks::ping("discover", &args.nids, daemons, out, report)
        }
        LnetctlCommand::Export(args) => import::export(args, daemons, out, report),
        LnetctlCommand::Import(args) => import::import(args, daemons, out, report),
        LnetctlCommand::Other(_) => Ok(()),
    }
}

fn all(primary: Nid, others: &[Nid]) -> Vec<String> {
    std::iter::once(&primary).chain(others).map(Nid::to_string).collect()
}
