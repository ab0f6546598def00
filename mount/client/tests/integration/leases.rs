//! Leases of open files: what other open files of the same mount do to them, and what they cost.

use crate::cluster::Cluster;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use std::sync::Arc;
use std::time::Duration;
use types::attr::SetAttr;
use types::errno::Errno;
use types::lock::LeaseMode;
use types::name::Name;

const READ: LeaseMode = LeaseMode::Read;
const WRITE: LeaseMode = LeaseMode::Write;

/// A mount with a file that is open to read.
async fn with_a_file() -> (Cluster, NodeId, FileHandle) {
    let cluster = Cluster::mounted().await;
    let client = &cluster.client;
    let name = Name::new(b"file").unwrap();
    let made = client.clone().mknod(Caller::root(), NodeId::ROOT, name, 0o644, 0).await.unwrap();
    let open = open(client, made.node, libc::O_RDONLY).await;
    cluster.asked();
    (cluster, made.node, open)
}

async fn open(client: &Arc<Client>, node: NodeId, flags: i32) -> FileHandle {
    client.clone().open(Caller::root(), node, OpenMode::from_libc(flags, false)).await.unwrap()
}

async fn acquire(client: &Arc<Client>, open: FileHandle, mode: LeaseMode) -> Result<(), Errno> {
    client.clone().lease_acquire(Caller::root(), open, mode).await.map_err(|error| error.errno())
}

async fn check(client: &Arc<Client>, open: FileHandle) -> Option<LeaseMode> {
    client.clone().lease_check(Caller::root(), open).await.unwrap()
}

async fn close(client: &Arc<Client>, open: FileHandle) {
    client.clone().release(Caller::root(), open).await.unwrap();
}

#[tokio::test]
async fn other_open_files_of_the_mount_are_in_the_way_and_break_it() {
    let (cluster, node, file) = with_a_file().await;
    let client = &cluster.client;
    let reader = open(client, node, libc::O_RDONLY).await;
    assert_eq!(acquire(client, file, WRITE).await, Err(Errno::EBUSY));
    assert_eq!(acquire(client, file, READ).await, Ok(()));
    assert_eq!(acquire(client, file, READ).await, Err(Errno::EBUSY), "it has one");
    let writer = open(client, node, libc::O_WRONLY).await;
    assert_eq!(check(client, file).await, None);
    assert_eq!(acquire(client, file, READ).await, Err(Errno::EBUSY));
    close(client, writer).await;
    close(client, reader).await;

    assert_eq!(acquire(client, file, WRITE).await, Ok(()));
    assert_eq!(check(client, file).await, Some(WRITE));
    let reader = open(client, node, libc::O_RDONLY).await;
    assert_eq!(client.clone().lease_release(file).await, Ok(None), "broken meanwhile");
    close(client, reader).await;

    // Of another file of the mount it knows nothing; its own truncate is its own, one by path is
    // not.
    assert_eq!(acquire(client, file, READ).await, Ok(()));
    let set = SetAttr { size: Some(3), ..SetAttr::default() };
    client.clone().setattr(Caller::root(), node, Some(file), set).await.unwrap();
    assert_eq!(check(client, file).await, Some(READ));
    client.clone().setattr(Caller::root(), node, None, set).await.unwrap();
    assert_eq!(check(client, file).await, None);
    client.unmount().await;
}

#[tokio::test]
async fn who_opens_while_a_lease_is_asked_for_is_noticed() {
    let (cluster, node, file) = with_a_file().await;
    let client = cluster.client.clone();
    cluster.world.hold_leases.send_replace(true);
    let asks = tokio::spawn({
        let client = client.clone();
        async move { acquire(&client, file, WRITE).await }
    });
    while cluster.world.state.lock().leases.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let reader = open(&client, node, libc::O_RDONLY).await;
    cluster.world.hold_leases.send_replace(false);
    assert_eq!(asks.await.unwrap(), Err(Errno::EBUSY), "the MDT gave it, this mount did not");
    assert_eq!(check(&client, file).await, None);
    close(&client, reader).await;
    assert_eq!(acquire(&client, file, WRITE).await, Ok(()));
    client.unmount().await;
}

#[tokio::test]
async fn what_the_mdt_says_counts_and_what_is_known_costs_nothing() {
    let (cluster, node, file) = with_a_file().await;
    let client = &cluster.client;
    assert_eq!(check(client, file).await, None);
    assert_eq!(client.clone().lease_release(file).await, Ok(None));
    assert_eq!(cluster.asked(), Vec::<String>::new(), "there is none");
    assert_eq!(acquire(client, file, READ).await, Ok(()));
    assert_eq!(check(client, file).await, Some(READ));
    assert_eq!(client.clone().lease_release(file).await, Ok(Some(READ)));
    assert_eq!(cluster.asked(), ["Lease", "Lease", "Lease"]);
    assert_eq!(acquire(client, file, READ).await, Ok(()));
    cluster.world.state.lock().leases.clear();
    assert_eq!((check(client, file).await, check(client, file).await), (None, None));
    assert_eq!(cluster.asked(), ["Lease", "Lease"], "a broken one is not asked for twice");
    let known = open(client, node, libc::O_WRONLY).await;
    assert_eq!(cluster.asked(), ["Open"], "no more than without leases");
    close(client, known).await;

    // Closing ends it.
    assert_eq!(acquire(client, file, WRITE).await, Ok(()));
    assert_eq!(cluster.world.state.lock().leases.len(), 1);
    close(client, file).await;
    for _ in 0..1000 {
        if cluster.world.state.lock().leases.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(cluster.world.state.lock().leases.is_empty());
    client.unmount().await;
}
