//! An eviction, and what dies just after it.

use client::WriteFlags;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use mds::recovery::window::Phase;
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use sim::fault_profile::Commits;
use simenv::machine::Kill;
use std::sync::Arc;
use std::time::Duration;
use types::name::Name;
use types::target::TargetIndex;

/// Hardly anything is durable, unless it is asked for.
const COMMITS: Commits = Commits { interval: Duration::from_secs(5), pace_ms: (20, 50) };
/// Number of the server of the MDT: the MGS comes first.
const MDT: usize = 1;
/// Number of the first server of an OST.
const OSTS: usize = 2;
const BYTES: usize = 1024;

fn run(cluster: &Cluster, time: Duration) {
    cluster.world.run_until(cluster.world.now() + time);
    assert_eq!(cluster.world.failures(), [] as [String; 0]);
}

/// A program on a mount begins with something; where its result will be.
fn begin<T: Send + 'static>(
    mount: &Mount,
    work: impl Future<Output = T> + Send + 'static,
) -> Arc<Mutex<Option<T>>> {
    let slot = Arc::new(Mutex::new(None));
    let result = slot.clone();
    let work = async move { *slot.lock() = Some(work.await) };
    mount.env.tasks.spawn("program", Box::pin(work));
    result
}

/// Waits for a program.
fn end<T>(cluster: &Cluster, result: &Mutex<Option<T>>, within: Duration) -> T {
    let limit = cluster.world.now() + within;
    loop {
        if let Some(result) = result.lock().take() {
            return result;
        }
        assert!(cluster.world.now() < limit, "not in {within:?}");
        run(cluster, Duration::from_millis(1));
    }
}

fn client(mount: &Mount) -> Arc<Client> {
    mount.client.lock().clone().expect("a mounted client")
}

fn open(cluster: &Cluster, mount: &Mount) -> FileHandle {
    let mode = OpenMode::from_libc(libc::O_RDWR, false);
    let name = Name::new(b"f").unwrap();
    let opened = client(mount).create(Caller::root(), NodeId::ROOT, name, 0o644, mode);
    let opened = end(cluster, &begin(mount, opened), Duration::from_secs(5));
    opened.unwrap().1
}

/// Writes a block of this byte; where its result will be.
fn write(mount: &Mount, handle: FileHandle, byte: u8) -> Arc<Mutex<Option<bool>>> {
    let (client, data) = (client(mount), vec![byte; BYTES].into());
    let flags = WriteFlags::default();
    begin(mount, async move { client.write(Caller::root(), handle, 0, data, flags).await.is_ok() })
}

fn read(cluster: &Cluster, mount: &Mount, handle: FileHandle) -> u8 {
    let read = client(mount).read(Caller::root(), handle, 0, BYTES as u32, false);
    let read = end(cluster, &begin(mount, read), Duration::from_secs(60)).unwrap().concat();
    assert!(read.len() == BYTES && read.iter().all(|byte| *byte == read[0]), "{read:?}");
    read[0]
}

/// A client and the servers from this one on do not hear each other.
fn cut_off(cluster: &Cluster, mount: &Mount, from: usize) {
    for server in &cluster.servers[from..] {
        cluster.world.network().cut(server.machine, mount.machine);
        cluster.world.network().cut(mount.machine, server.machine);
    }
}

/// A cluster with two mounts.
fn started() -> (Cluster, Mount, Mount) {
    let cluster = Cluster::start(1, 1, COMMITS, false);
    let (a, b) = (cluster.mount(None), cluster.mount(None));
    run(&cluster, Duration::from_secs(5));
    (cluster, a, b)
}

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
