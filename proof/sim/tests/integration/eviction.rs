//! An eviction, and what dies just after it.

use crate::mounts::{MDT, OSTS, cut_off, end, open, read, run, started, write};
use mds::recovery::window::Phase;
use sim::cluster::Cluster;
use simenv::machine::Kill;
use std::time::Duration;
use types::target::TargetIndex;

/// The MDT dies and comes back at once, to clients that all hear it.
fn restart(cluster: &Cluster) {
    cluster.kill_server(MDT, Kill::Process);
    cluster.world.network().heal();
    cluster.start_server(MDT);
    run(cluster, Duration::from_secs(60));
}

/// As in seed 9610131 of the simulation: the MDT gave what an evicted client had to another one,
/// and died before the eviction was durable. The next life took the client for one that had only
/// missed the restart: it got its lock back, and stored what it had written over the other's bytes.
#[test]
fn an_eviction_is_not_undone_by_a_restart() {
    let (cluster, a, b) = started();
    let (by_a, by_b) = (open(&cluster, &a), open(&cluster, &b));
    // Both are known to the MDT.
    run(&cluster, Duration::from_secs(10));
    assert!(end(&cluster, &write(&a, by_a, b'a'), Duration::from_secs(5)));
    cut_off(&cluster, &a, 0);
    let written = write(&b, by_b, b'b');
    assert!(end(&cluster, &written, Duration::from_secs(35)), "the silent client is evicted");
    restart(&cluster);
    assert_eq!((read(&cluster, &b, by_b), read(&cluster, &a, by_a)), (b'b', b'b'));
}

/// As above, of a client that came back to a restarted MDT, and then did not bring back its locks.
#[test]
fn an_eviction_of_a_late_client_is_not_undone_by_another_restart() {
    let (cluster, a, b) = started();
    let (by_a, by_b) = (open(&cluster, &a), open(&cluster, &b));
    // The OSTs grant it room.
    assert!(end(&cluster, &write(&a, by_a, b'x'), Duration::from_secs(5)));
    run(&cluster, Duration::from_secs(5));
    cut_off(&cluster, &a, OSTS);
    assert!(end(&cluster, &write(&a, by_a, b'a'), Duration::from_secs(5)));
    cluster.kill_server(MDT, Kill::Process);
    cluster.start_server(MDT);
    let restores = || {
        let mdt = cluster.mdt(TargetIndex(0));
        mdt.is_some_and(|mdt| mdt.recovery().phase == Phase::Restoring)
    };
    while !restores() {
        run(&cluster, Duration::from_micros(5));
    }
    cut_off(&cluster, &a, 0);
    let written = write(&b, by_b, b'b');
    assert!(end(&cluster, &written, Duration::from_secs(35)), "the late client is evicted");
    restart(&cluster);
    assert_eq!((read(&cluster, &b, by_b), read(&cluster, &a, by_a)), (b'b', b'b'));
}
