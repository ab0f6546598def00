//! A mount that ends while its MDT is away.

use crate::mounts::{MDT, begin, client, end, f, open, run, started, unlink};
use client::caller::Caller;
use client::node::NodeId;
use simenv::machine::Kill;
use std::time::Duration;
use types::errno::Errno;

/// As in seed 10401173 of the simulation: a mount that ended did not wait until the MDT had back
/// what it had told programs of and lost in a power cut.
#[test]
fn an_unmount_loses_nothing_of_an_mdt_that_restarts() {
    let (cluster, a, b) = started();
    open(&cluster, &a);
    run(&cluster, Duration::from_secs(10));
    unlink(&cluster, &a);
    cluster.kill_server(MDT, Kill::Power);
    let a_client = client(&a);
    let unmounted = begin(&a, async move { a_client.unmount().await });
    run(&cluster, Duration::from_secs(7));
    cluster.start_server(MDT);
    end(&cluster, &unmounted, Duration::from_secs(120));
    let lookup = client(&b).lookup(Caller::root(), NodeId::ROOT, f());
    let found = end(&cluster, &begin(&b, lookup), Duration::from_secs(60));
    assert_eq!(found.map(|found| found.ino).map_err(|error| error.errno()), Err(Errno::ENOENT));
}
