//! What tickets cost, counted on the wire: they ride along in requests that are sent without them,
//! too, and the messages of clients that may do everything are what they were.

use super::nodemap::{MAP, says_nothing, tenant_among};
use super::tickets::{as_user, on_mdt};
use e2e::cluster::Cluster;
use e2e::many::KEYS;
use e2e::overheard::{Overheard, requests};
use e2e::programs::sh;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

/// Files of each kind.
const FILES: usize = 10;
/// After so long nothing is sent of what a program has written or closed.
const QUIET: Duration = Duration::from_secs(3);
const TICKETS: [&str; 2] = ["mds_ticket", "ost_ticket"];
/// What a mount also asks by itself, at times of its own.
const BY_ITSELF: [&str; 5] = ["mds_accessed", "mds_grant", "ost_grant", "mds_sync", "ost_sync"];

/// Names of the operations of a request, and bytes of its frame.
type Shape = (Vec<&'static str>, usize);
/// What was heard of each work, by its name.
type Heard = Vec<(String, Vec<Overheard>)>;

/// The works, each by its name: a script for all numbers, in the directory.
const WORKS: [(&str, &str); 4] = [
    ("create, write, close", "head -c 8192 /dev/zero > new$n"),
    ("open, read", "cat read$n > /dev/null"),
    ("stat", "stat stat$n > /dev/null"),
    // The next ones are opened and read ahead. What shares a request then depends on the time.
    (AHEAD, "test $n != 10 || ls > /dev/null; cat ahead$n > /dev/null"),
];
const AHEAD: &str = "list, open, read";
/// Files in objects, and files whose bytes are on the MDT.
const KINDS: [&str; 2] = ["o", "m"];

fn each(dir: &str, script: &str) -> String {
    format!("cd {dir} && for n in $(seq 10 {}); do {script}; done", 9 + FILES)
}

/// A directory for each client and kind of file, with what the works read and look at. Another
/// client made it.
fn prepare(cluster: &Cluster, phase: &str) {
    let maker = cluster.mounts()[2].clone();
    for client in 0..2 {
        for kind in KINDS {
            let dir = format!("{phase}{client}{kind}");
            sh(&maker, &format!("mkdir -m 777 {dir}"));
            if kind == "m" {
                on_mdt(cluster, &maker.join(&dir));
            }
            for made in ["read", "stat", "ahead"] {
                sh(&maker, &each(&dir, &format!("head -c 8192 /dev/zero > {made}$n")));
            }
        }
    }
    sh(&maker, "sync");
}

/// The restricted client and the other one do a work at the same time.
fn work(cluster: &Cluster, phase: &str, kind: &str, script: &str) {
    let script = |client: usize| each(&format!("{phase}{client}{kind}"), script);
    let mounts = cluster.mounts();
    std::thread::scope(|scope| {
        scope.spawn(|| as_user(&mounts[0], &script(0)));
        sh(&mounts[1], &script(1));
    });
}

/// What each of the two clients sends for each kind of file and work.
fn measure(cluster: &Cluster, phase: &str) -> [Heard; 2] {
    // What a mount learns of its first files makes no difference then, and the targets have asked
    // for tickets.
    let before = format!("{phase}before");
    for phase in [&*before, phase] {
        prepare(cluster, phase);
    }
    for kind in KINDS {
        for (_, script) in WORKS {
            work(cluster, &before, kind, script);
        }
    }
    sleep(QUIET);
    let mut all = [Vec::new(), Vec::new()];
    for kind in KINDS {
        for (name, script) in WORKS {
            let taps = [0, 1].map(|client| cluster.many().tap_client(client));
            work(cluster, phase, kind, script);
            sleep(QUIET);
            for (client, tap) in taps.into_iter().enumerate() {
                let from = cluster.many().client_address(client).parse().expect("an address");
                let mut heard = requests(tap, from);
                let is_own = |name: &&str| BY_ITSELF.contains(name);
                heard.retain(|request| !request.operations().iter().all(&is_own));
                all[client].push((format!("{name}, {kind}"), heard));
            }
        }
    }
    all
}

fn has_tickets(heard: &Overheard) -> bool {
    heard.operations().iter().any(|name| TICKETS.contains(name))
}

/// How often each operation was sent.
fn operations(heard: &[Overheard]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for name in heard.iter().flat_map(Overheard::operations) {
        *counts.entry(name).or_default() += 1;
    }
    BY_ITSELF.iter().for_each(|name| _ = counts.remove(name));
    counts
}

/// The requests with one operation, or two different ones: whether more share one depends on the
/// time.
fn shapes(heard: &[Overheard]) -> BTreeSet<Shape> {
    let shape = |heard: &Overheard| (heard.operations(), heard.bytes);
    let is_sure = |names: &[&str]| names.len() <= 2 && names.first() != names.get(1);
    heard.iter().map(shape).filter(|(names, _)| is_sure(names)).collect()
}

fn active(cluster: &Cluster, active: bool) {
    says_nothing(cluster, &["nodemap_activate", if active { "1" } else { "0" }]);
    // Clients hear of it, and ask for what they gave back.
    sleep(QUIET);
}

#[test]
fn tickets_ride_along_and_no_message_of_others_changes() {
    if std::env::var_os(KEYS).is_some() {
        eprintln!("skipped: a tap understands nothing with keys");
        return;
    }
    let Some(cluster) = tenant_among(MAP, 3) else { return };
    active(&cluster, false);
    let [without, alone] = measure(&cluster, "a");
    active(&cluster, true);
    let [with, beside] = measure(&cluster, "b");
    for ((work, with), (_, without)) in with.iter().zip(&without) {
        eprintln!("{work}: {} requests with tickets, {} without", with.len(), without.len());
        let mut counts = operations(with);
        let [asked, shown] = TICKETS.map(|name| counts.remove(name).unwrap_or_default());
        let told = format!("{work}: {counts:?}, and without {:?}", operations(without));
        assert!(!without.iter().any(has_tickets), "{told}");
        let is_alone =
            |heard: &&Overheard| heard.operations().iter().all(|op| TICKETS.contains(op));
        assert_eq!(with.iter().filter(is_alone).count(), 0, "{told}");
        if work.starts_with(AHEAD) {
            assert!(asked > 0, "{told}");
            continue;
        }
        assert_eq!(counts, operations(without), "{told}");
        // Each of these files needs a ticket; MDTs remember those that they gave.
        let needs = !work.starts_with("stat");
        let expected = [needs, needs && work.ends_with('o')].map(|is| if is { FILES } else { 0 });
        assert_eq!([asked, shown], expected, "{told}");
    }
    for ((work, beside), (_, alone)) in beside.iter().zip(&alone) {
        assert!(!beside.iter().any(has_tickets), "{work}");
        if work.starts_with(AHEAD) {
            continue;
        }
        assert_eq!(operations(beside), operations(alone), "{work}: of one that may do everything");
        assert_eq!(shapes(beside), shapes(alone), "{work}: of one that may do everything");
    }
}
