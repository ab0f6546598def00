//! MDTs as clients of each other, over several lives.

use parking_lot::Mutex;
use rpc::import::ImportState;
use sim::cluster::Cluster;
use sim::fault_profile::Commits;
use simenv::machine::Kill;
use std::sync::Arc;
use std::time::Duration;
use types::credentials::Credentials;
use types::target::TargetIndex;

const COMMITS: Commits = Commits { interval: Duration::from_millis(50), pace_ms: (1, 100) };
const FIRST: TargetIndex = TargetIndex(0);
const SECOND: TargetIndex = TargetIndex(1);
/// Numbers of the servers of these MDTs: the MGS comes first.
const FIRST_SERVER: usize = 1;
const SECOND_SERVER: usize = 2;

fn run(cluster: &Cluster, time: Duration) {
    cluster.world.run_until(cluster.world.now() + time);
    assert_eq!(cluster.world.failures(), [] as [String; 0]);
}

/// One MDT asks another one for its space. `true`: it is told within two seconds.
fn asks(cluster: &Cluster, of: TargetIndex, peer: TargetIndex) -> bool {
    let mdc = cluster.mdt(of).expect("a served MDT").peers().get(peer).expect("a known peer");
    let told = Arc::new(Mutex::new(false));
    let slot = told.clone();
    let ask = async move { *slot.lock() = mdc.statfs(&Credentials::root()).await.is_ok() };
    cluster.spawn_at(of, Box::pin(ask));
    run(cluster, Duration::from_secs(2));
    *told.lock()
}

fn state(cluster: &Cluster, of: TargetIndex, peer: TargetIndex) -> ImportState {
    let mds = cluster.mdt(of).expect("a served MDT");
    mds.peers().get(peer).expect("a known peer").import().state()
}

#[test]
fn an_mdt_gets_its_session_with_another_back_in_its_next_life() {
    let cluster = Cluster::start(1, 3, COMMITS, false);
    run(&cluster, Duration::from_secs(5));
    let mds = cluster.mdt(FIRST).expect("a served MDT");
    assert_eq!(mds.peers().list(), [SECOND, TargetIndex(2)]);
    assert!(mds.peers().get(FIRST).is_none(), "an MDT is no peer of itself");
    assert_eq!(state(&cluster, FIRST, SECOND), ImportState::Disconn, "nothing was asked yet");
    let client = mds.peers().client();
    drop(mds);
    assert!(asks(&cluster, FIRST, SECOND));
    assert_eq!(state(&cluster, FIRST, SECOND), ImportState::Full);
    // The peer does not hear of the death: the session of the life before stands.
    cluster.kill_server(FIRST_SERVER, Kill::Power);
    cluster.start_server(FIRST_SERVER);
    run(&cluster, Duration::from_secs(5));
    assert_eq!(cluster.mdt(FIRST).expect("a served MDT").peers().client(), client);
    assert!(asks(&cluster, FIRST, SECOND), "it is believed to be the same client");
}

#[test]
fn an_mdt_that_is_away_delays_no_start() {
    let cluster = Cluster::start(2, 2, COMMITS, false);
    run(&cluster, Duration::from_secs(5));
    assert!(asks(&cluster, FIRST, SECOND));
    cluster.kill_server(SECOND_SERVER, Kill::Power);
    cluster.kill_server(FIRST_SERVER, Kill::Process);
    cluster.start_server(FIRST_SERVER);
    run(&cluster, Duration::from_secs(3));
    assert_eq!(cluster.mdt(FIRST).expect("in service without its peer").peers().list(), [SECOND]);
    assert!(!asks(&cluster, FIRST, SECOND), "its peer is away");
    cluster.start_server(SECOND_SERVER);
    run(&cluster, Duration::from_secs(3));
    assert!(asks(&cluster, FIRST, SECOND), "and back");
    assert!(asks(&cluster, SECOND, FIRST), "each is a client of the other");
}
