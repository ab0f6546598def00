//! Sessions with targets: `import`, `state` and what goes with them.

use crate::manage::flavor;
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

/// How the connections of the session are protected, in Lustre's words: flavour, then whose key the
/// other end showed, the cipher, and the connections that stand.
pub(super) fn srpc_info(report: &ImportReport) -> String {
    let flavor = match report.current {
        Some(_) => flavor::holds(report.sealed.is_some()),
        None => "none, there is no connection",
    };
    let mut text = format!("rpc flavor:     {flavor}\nbulk flavor:    {flavor}\n");
    if let Some((owner, how, links)) = &report.sealed {
        write!(
            text,
            "peer:           {owner}\ncipher:         {}\nconnections:    {links}\n",
            how.cipher
        )
        .expect("a string takes all");
    }
    text
}

/// The key by which the connections of the session are sealed, a line; none where they are plain.
/// `now`: seconds since 1970.
pub(super) fn srpc_contexts(report: &ImportReport, now: i64) -> String {
    let Some((owner, how, links)) = &report.sealed else { return String::new() };
    let expires = how.expires.map_or_else(
        || "expire unknown".to_owned(),
        |at| format!("expire {at}({:+})", at.saturating_sub(now)),
    );
    format!("{owner}: ref {links}, {expires}, fl uptodate, mech: {}\n", how.cipher)
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
    use lnet::seal::Protection;
    use types::principal::{KeyHash, Principal};
    use types::session::ClusterId;

    fn report() -> ImportReport {
        ImportReport {
            state: ImportState::Full,
            nids: vec![Nid::Loopback, "10.0.0.1@tcp".parse().unwrap()],
            current: Some(Nid::Loopback),
            sealed: None,
            window: None,
            attempts: 2,
            boot: 7,
            evictions: 0,
            in_flight: 3,
            reads_in_flight: 0,
            writes_in_flight: 0,
            changes_in_flight: 0,
            timeouts: 1,
        }
    }

    #[test]
    fn connections_say_whose_key_seals_them_and_how_long() {
        let key = KeyHash([0; 32]);
        let owner = Principal::from_uri(&format!("spiffe://{}/server/oss1", ClusterId(7)), key);
        let (cipher, expires) = ("TLS13_AES_128_GCM_SHA256", Some(1_000_060));
        let how = Protection { cipher, expires, authority: None };
        let sealed = ImportReport { sealed: Some((owner.unwrap().into(), how, 3)), ..report() };
        assert_eq!(
            srpc_info(&sealed),
            "rpc flavor:     skpi\nbulk flavor:    skpi\npeer:           server oss1\n\
             cipher:         TLS13_AES_128_GCM_SHA256\nconnections:    3\n"
        );
        let line = |now| srpc_contexts(&sealed, now);
        let end = ", fl uptodate, mech: TLS13_AES_128_GCM_SHA256\n";
        assert_eq!(line(1_000_000), format!("server oss1: ref 3, expire 1000060(+60){end}"));
        assert_eq!(line(1_000_061), format!("server oss1: ref 3, expire 1000060(-1){end}"));
        assert_eq!(srpc_info(&report()), "rpc flavor:     null\nbulk flavor:    null\n");
        assert_eq!(srpc_contexts(&report(), 0), "");
        let lost = ImportReport { current: None, ..report() };
        assert!(srpc_info(&lost).starts_with("rpc flavor:     none, there is no connection\n"));
    }

    #[test]
    fn an_import_is_yaml_as_lustre_writes_it() {
        let report = report();
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
