//! `sheen router`: a process that forwards between networks.

use crate::cli::RouterArgs;
use crate::commands::up::absolute;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use node::config::settings::{Listen, Settings};
use node::host::announce::Silent;
use node::lifecycle;
use std::net::{Ipv4Addr, SocketAddr};

/// Forwards until told to stop.
pub fn run(args: &RouterArgs) -> Outcome {
    crate::log::start();
    if !args.networks.name_addresses() {
        let sentence = "a router accepts connections on its networks: name interfaces, for example \
                        --networks tcp0(eth0),tcp1(eth1)";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    let settings = Settings {
        // Only the port counts: the networks name the addresses.
        listen: Listen::At(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), args.port)),
        networks: args.networks.clone(),
        routes: args.routes.clone().unwrap_or_default(),
        forwards: args.fsname.clone(),
        mgs: args.mgsnode.clone(),
        security: args.security.unwrap_or_default(),
        key: args.key.as_deref().map(absolute).transpose()?,
        ..Settings::default()
    };
    lifecycle::run(settings, None, Box::new(Silent)).map_err(Failure::failed)?;
    Ok(Exit::Done)
}
