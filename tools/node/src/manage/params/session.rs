//! Sessions with targets: `import`, `state` and what goes with them.

use rpc::import::report::ImportReport;
use rpc::import::{Import, ImportState};
use std::fmt::Write;
use std::time::Duration;
use types::nid::Nid;

/// Lustre's word: `ReplayLocks` is `REPLAY_LOCKS`.
pub(crate) fn state_word(state: ImportState) -> String {
    let mut word = String::new();
    for letter in format!("{state:?}").chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    word
}

/// UUID, a tab, `FULL`.
pub(super) fn server_uuid(import: &Import) -> String {
    format!("{}_UUID\t{}", import.target(), state_word(import.state()))
}

/// NID at which the target answers, or would be looked for first.
pub(super) fn conn_uuid(import: &Import) -> String {
    let report = import.report();
    report.current.or(report.nids.first().copied()).unwrap_or(Nid::Loopback).to_string()
}

/// Figures of the session's requests.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// Mean time of a request.
    pub mean: Duration,
    /// Longest.
    pub max: Duration,
}

/// The `import` parameter, YAML.
pub(super) fn import(import: &Import, name: &str, flags: &[&str], waits: Waits) -> String {
    body(
        &import.report(),
        name,
        flags,
        &import.target().to_string(),
        import.last_committed().0,
        waits,
    )
}

fn body(
    report: &ImportReport,
    name: &str,
    flags: &[&str],
    target: &str,
    committed: u64,
    waits: Waits,
) -> String {
    let nids: Vec<String> = report.nids.iter().map(Nid::to_string).collect();
    let current = report.current.map_or_else(|| "<none>".to_owned(), |nid| nid.to_string());
    // The estimate of a wait is the longest wait so far, in whole seconds.
    let seconds = waits.max.as_secs() + u64::from(waits.max.subsec_nanos() > 0);
    let mut text = String::new();
    write!(
        text,
        "import:\n    name: {name}\n    target: {target}_UUID\n    state: {}\n    connect_flags: [ {} ]\n    connection:\n       \
         failover_nids: [ {} ]\n       current_connection: {current}\n       connection_attempts: {}\n       generation: {}\n       \
         in-progress_invalidations: 0\n    rpcs:\n       inflight: {}\n       unregistering: 0\n       timeouts: {}\n       \
         avg_waittime: {} usec\n    service_estimates:\n       services: {seconds} sec\n       network: {seconds} sec\n    \
         transactions:\n       last_replay: 0\n       peer_committed: {committed}\n       last_checked: {committed}\n",
        state_word(report.state),
        flags.join(", "),
        nids.join(", "),
        report.attempts,
        report.boot,
        report.in_flight,
        report.timeouts,
        waits.mean.as_micros(),
    )
    .expect("a string takes all");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_yaml_as_lustre_writes_it() {
        let report = ImportReport {
            state: ImportState::Full,
            nids: vec![Nid::Loopback, "10.0.0.1@tcp".parse().unwrap()],
            current: Some(Nid::Loopback),
            window: None,
            attempts: 2,
            boot: 7,
            evictions: 0,
            in_flight: 3,
            reads_in_flight: 0,
            writes_in_flight: 0,
            changes_in_flight: 0,
            timeouts: 1,
        };
        let waits = Waits { mean: Duration::from_micros(250), max: Duration::from_millis(1200) };
        let expected = "\
import:
    name: sheen-OST0000-osc-00ff
    target: sheen-OST0000_UUID
    state: FULL
    connect_flags: [ version, write_grant ]
    connection:
       failover_nids: [ 0@lo, 10.0.0.1@tcp ]
       current_connection: 0@lo
       connection_attempts: 2
       generation: 7
       in-progress_invalidations: 0
    rpcs:
       inflight: 3
       unregistering: 0
       timeouts: 1
       avg_waittime: 250 usec
    service_estimates:
       services: 2 sec
       network: 2 sec
    transactions:
       last_replay: 0
       peer_committed: 99
       last_checked: 99
";
        assert_eq!(
            body(
                &report,
                "sheen-OST0000-osc-00ff",
                &["version", "write_grant"],
                "sheen-OST0000",
                99,
                waits
            ),
            expected
        );
    }
}
