//! Parameters of the sessions of a mount.

use super::{ASK_TIMEOUT, device, options_of};
use crate::manage::params::session::{self, Waits};
use crate::manage::params::values::switch;
use crate::manage::params::{flags, locks, series};
use crate::watch::view::View;
use client::client::Client;
use data::lock_namespace::Whose;
use observe::param::Param;
use observe::registry::Registry;
use observe::rpc_text;
use observe::tree::Tree;
use rpc::import::Import;
use std::sync::Arc;
use std::time::Duration;
use stubs::mdc::Mdc;
use stubs::osc::Osc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::target::TargetKind;

/// Declarations of one kind of session.
pub(super) struct SessionParams {
    pub(super) stats: &'static Param,
    /// `import`, `srpc_info`, `srpc_contexts`.
    pub(super) import: [&'static Param; 3],
    pub(super) state: &'static Param,
    pub(super) timeouts: &'static Param,
    pub(super) server_uuid: &'static Param,
    pub(super) conn_uuid: &'static Param,
    pub(super) window: &'static Param,
    pub(super) in_flight: &'static Param,
    pub(super) ping: &'static Param,
    pub(super) connect_flags: &'static Param,
    /// Shown as the window is.
    pub(super) windows: &'static [&'static Param],
    pub(super) checksums: &'static Param,
    pub(super) checksum_type: &'static Param,
}

/// `import`, `srpc_info` and `srpc_contexts` of any session.
pub(in crate::manage::params) fn add_import(
    tree: &mut Tree,
    view: &Arc<View>,
    [param, info, contexts]: [&'static Param; 3],
    device: &str,
    import: &Arc<Import>,
    read_only: bool,
) {
    let (shown, name, registry) =
        (import.clone(), device.to_owned(), view.parts().rpc.metrics().clone());
    let rpc = view.parts().rpc.clone();
    tree.shows(param, &[device], move || {
        let flags = flags::of_session(shown.target().kind, read_only, rpc.checksums());
        Ok(session::import(&shown, &name, &flags, waits(&registry, shown.source())))
    });
    let shown = import.clone();
    tree.shows(info, &[device], move || Ok(session::srpc_info(&shown.report())));
    let (shown, clock) = (import.clone(), view.parts().env.clock.clone());
    tree.shows(contexts, &[device], move || {
        Ok(session::srpc_contexts(&shown.report(), clock.wall().sec))
    });
}

fn waits(registry: &Registry, source: &str) -> Waits {
    let histogram = rpc_text::histogram(&registry.snapshot(|s| s == source), "req_waittime");
    let mean = histogram.sum.checked_div(histogram.count()).unwrap_or(0);
    Waits { mean: Duration::from_micros(mean), max: Duration::from_micros(histogram.max) }
}

pub(super) fn add_session(
    tree: &mut Tree,
    view: &Arc<View>,
    client: &Arc<Client>,
    params: &SessionParams,
    import: &Arc<Import>,
) {
    let device = device(import);
    let devices = [device.as_str()];
    series::stats(tree, view, params.stats, &devices, import.source());
    let read_only = options_of(view, client).read_only;
    add_import(tree, view, params.import, &device, import, read_only);
    let (kind, rpc) = (import.target().kind, view.parts().rpc.clone());
    tree.shows(params.connect_flags, &devices, move || {
        Ok(flags::of_session(kind, read_only, rpc.checksums())
            .iter()
            .map(|flag| format!("{flag}\n"))
            .collect())
    });
    for param in params.windows {
        let shown = import.clone();
        tree.shows(param, &devices, move || Ok(shown.report().window.unwrap_or(0).to_string()));
    }
    let (shown, set) = (view.parts().rpc.clone(), view.parts().rpc.clone());
    tree.shows(params.checksums, &devices, move || Ok(u8::from(shown.checksums()).to_string()));
    tree.takes(params.checksums, &devices, move |value| {
        set.set_checksums(switch(value)?);
        Ok(())
    });
    tree.shows(params.checksum_type, &devices, || Ok("[crc32c]".to_owned()));
    tree.takes(params.checksum_type, &devices, |value| match value.trim() {
        "crc32c" | "[crc32c]" => Ok(()),
        _ => Err(Errno::EINVAL),
    });
    let index = import.target().index;
    let whose = if kind == TargetKind::Ost { Whose::Ost(index) } else { Whose::Mdt(index) };
    locks::add_session(tree, client, &device, whose);
    let shown = import.clone();
    tree.shows(params.state, &devices, move || {
        Ok(format!("current_state: {}\n", session::state_word(shown.state())))
    });
    let shown = import.clone();
    tree.shows(params.timeouts, &devices, move || Ok(shown.report().timeouts.to_string()));
    let shown = import.clone();
    tree.shows(params.server_uuid, &devices, move || Ok(session::server_uuid(&shown)));
    let shown = import.clone();
    tree.shows(params.conn_uuid, &devices, move || Ok(session::conn_uuid(&shown)));
    let shown = import.clone();
    tree.shows(params.window, &devices, move || Ok(shown.report().window.unwrap_or(0).to_string()));
    let shown = import.clone();
    tree.shows(params.in_flight, &devices, move || Ok(shown.report().in_flight.to_string()));
    let (asked, clock) = (import.clone(), view.parts().env.clock.clone());
    tree.does(params.ping, &devices, move |_| {
        let (import, clock) = (asked.clone(), clock.clone());
        Box::pin(async move {
            // Space is the cheapest question that every target answers, and that proves its service
            // alive.
            let answer = async {
                match import.target().kind {
                    TargetKind::Ost => Osc::new(import.clone()).statfs().await,
                    _ => Mdc::new(import.clone()).statfs(&Credentials::root()).await,
                }
            };
            tokio::select! {
                answer = answer => answer.map(drop).map_err(|error| error.errno()),
                () = clock.sleep(ASK_TIMEOUT) => Err(Errno::ETIMEDOUT),
            }
        })
    });
}
