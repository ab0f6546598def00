//! A file whose close the MDT has not heard of when it dies.

use crate::mounts::{MDT, OSTS, begin, client, cut_off, end, open, run, started, unlink, write};
use client::caller::Caller;
use simenv::machine::Kill;
use std::time::Duration;

/// As in seed 10101757 of the simulation: a program closed a removed file whose data could not be
/// stored yet, and the MDT restarted. The mount did not tell it that the file was open, so the MDT
/// destroyed the objects, and the mount made one anew as it stored.
#[test]
fn a_file_that_is_being_closed_is_open_at_a_restarted_mdt() {
    let (cluster, a, b) = started();
    let by_a = open(&cluster, &a);
    // The OSTs grant room, and all of it is durable.
    assert!(end(&cluster, &write(&a, by_a, b'x'), Duration::from_secs(5)));
    run(&cluster, Duration::from_secs(10));
    unlink(&cluster, &b);
    cut_off(&cluster, &a, OSTS);
    assert!(end(&cluster, &write(&a, by_a, b'a'), Duration::from_secs(5)));
    let release = client(&a).release(Caller::root(), by_a);
    end(&cluster, &begin(&a, release), Duration::from_secs(5)).unwrap();
    run(&cluster, Duration::from_secs(1));
    cluster.kill_server(MDT, Kill::Process);
    cluster.start_server(MDT);
    run(&cluster, Duration::from_secs(10));
    assert!(!cluster.objects().is_empty(), "data is still to be stored in its objects");
    cluster.world.network().heal();
    run(&cluster, Duration::from_secs(60));
    assert_eq!(cluster.objects(), [] as [String; 0], "objects without a file are left");
}
