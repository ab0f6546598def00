//! Programs on mounts, in a cluster whose servers die when a test says so.

use client::WriteFlags;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use sim::fault_profile::Commits;
use std::sync::Arc;
use std::time::Duration;
use types::name::Name;

/// Hardly anything is durable, unless it is asked for.
pub const COMMITS: Commits = Commits { interval: Duration::from_secs(5), pace_ms: (20, 50) };
/// Number of the server of the MDT: the MGS comes first.
pub const MDT: usize = 1;
/// Number of the first server of an OST.
pub const OSTS: usize = 2;
/// Bytes that are written at once.
const BYTES: usize = 1024;

pub fn run(cluster: &Cluster, time: Duration) {
    cluster.world.run_until(cluster.world.now() + time);
    assert_eq!(cluster.world.failures(), [] as [String; 0]);
}

/// A program on a mount begins with something; where its result will be.
pub fn begin<T: Send + 'static>(
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
pub fn end<T>(cluster: &Cluster, result: &Mutex<Option<T>>, within: Duration) -> T {
    let limit = cluster.world.now() + within;
    loop {
        if let Some(result) = result.lock().take() {
            return result;
        }
        assert!(cluster.world.now() < limit, "not in {within:?}");
        run(cluster, Duration::from_millis(1));
    }
}

pub fn client(mount: &Mount) -> Arc<Client> {
    mount.client.lock().clone().expect("a mounted client")
}

pub fn open(cluster: &Cluster, mount: &Mount) -> FileHandle {
    let mode = OpenMode::from_libc(libc::O_RDWR, false);
    let name = f();
    let opened = client(mount).create(Caller::root(), NodeId::ROOT, name, 0o644, mode);
    let opened = end(cluster, &begin(mount, opened), Duration::from_secs(5));
    opened.unwrap().1
}

/// Writes a block of this byte; where its result will be.
pub fn write(mount: &Mount, handle: FileHandle, byte: u8) -> Arc<Mutex<Option<bool>>> {
    let (client, data) = (client(mount), vec![byte; BYTES].into());
    let flags = WriteFlags::default();
    begin(mount, async move { client.write(Caller::root(), handle, 0, data, flags).await.is_ok() })
}

pub fn read(cluster: &Cluster, mount: &Mount, handle: FileHandle) -> u8 {
    let read = client(mount).read(Caller::root(), handle, 0, BYTES as u32, false);
    let read = end(cluster, &begin(mount, read), Duration::from_secs(60)).unwrap().concat();
    assert!(read.len() == BYTES && read.iter().all(|byte| *byte == read[0]), "{read:?}");
    read[0]
}

/// The name of the file of the tests.
pub fn f() -> Name {
    Name::new(b"f").unwrap()
}

/// Takes the name of the file away.
pub fn unlink(cluster: &Cluster, mount: &Mount) {
    let unlink = client(mount).unlink(Caller::root(), NodeId::ROOT, f());
    end(cluster, &begin(mount, unlink), Duration::from_secs(60)).unwrap();
}

/// A client and the servers from this one on do not hear each other.
pub fn cut_off(cluster: &Cluster, mount: &Mount, from: usize) {
    for server in &cluster.servers[from..] {
        cluster.world.network().cut(server.machine, mount.machine);
        cluster.world.network().cut(mount.machine, server.machine);
    }
}

/// A cluster with two mounts.
pub fn started() -> (Cluster, Mount, Mount) {
    let cluster = Cluster::start(1, 1, COMMITS, false);
    let (a, b) = (cluster.mount(None), cluster.mount(None));
    run(&cluster, Duration::from_secs(5));
    (cluster, a, b)
}
