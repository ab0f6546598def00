//! The client's requests to its targets, their order, and its use of the answers.

mod space;

use crate::cluster::{Cluster, STRIPE};
use bytes::Bytes;
use client::Budget;
use client::caller::{Caller, Found};
use client::client::Client;
use client::error::ClientError;
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use client::{WriteFlags, Written};
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use types::attr::SetAttr;
use types::errno::Errno;
use types::lock::{Flock, FlockFlavor, FlockKind, InodeBits};
use types::name::Name;
use wire::client::{ClientOp, ClientReply, Glimpse, Glimpsed};
use wire::mds::{DirEntry, OpenFlags};

const RDWR: OpenMode = OpenMode {
    flags: OpenFlags { read: true, write: true, exec: false, append: false, lasting: false },
    truncate: false,
    exclusive: false,
};

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

async fn create(cluster: &Cluster, text: &str) -> (Found, FileHandle) {
    let (client, who) = (cluster.client.clone(), Caller::root());
    let made = client.create(who, NodeId::ROOT, name(text), 0o644, RDWR).await.unwrap();
    cluster.asked();
    made
}

async fn write(
    client: &Arc<Client>,
    handle: FileHandle,
    offset: u64,
    data: &[u8],
) -> Result<Written, ClientError> {
    let data = Bytes::copy_from_slice(data);
    client.clone().write(Caller::root(), handle, offset, data, WriteFlags::default()).await
}

async fn read(client: &Arc<Client>, handle: FileHandle, offset: u64, len: u32) -> Vec<u8> {
    client.clone().read(Caller::root(), handle, offset, len, true).await.unwrap().concat()
}

async fn truncate(cluster: &Cluster, found: &Found, size: u64) -> Result<u64, ClientError> {
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    let stat = cluster.client.clone().setattr(Caller::root(), found.node, None, set).await?;
    Ok(stat.attr.size)
}

/// Waits until something is so; a second at most.
async fn until(mut so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to that");
}

#[tokio::test]
async fn a_write_is_kept_and_reaches_the_objects_before_the_mdt_hears_of_it() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    let data = vec![7; STRIPE as usize + 10];
    let written = write(&cluster.client, file, STRIPE - 5, &data).await.unwrap();
    assert_eq!(written, Written { offset: STRIPE - 5, bytes: data.len() as u32 });
    let asked = cluster.asked();
    assert_eq!(asked, ["Lock", "0 Grant", "1 Grant"], "once");
    assert_eq!(read(&cluster.client, file, STRIPE - 5, 10 + STRIPE as u32 + 100).await, data);
    assert_eq!(cluster.asked(), [""; 0], "what is kept is read from here");
    assert_eq!(read(&cluster.client, file, 0, 10).await, [0; 10], "before it there are zeros");
    cluster.asked();
    cluster.client.clone().fsync(Caller::root(), file, false).await.unwrap();
    let asked = cluster.asked();
    let place = |what: &str| {
        asked.iter().position(|a| a == what).unwrap_or_else(|| panic!("{what} in {asked:?}"))
    };
    assert!(place("0 Write").max(place("1 Write")) < place("Wrote"), "{asked:?}");
    assert_eq!(place("Wrote") + 1, place("Sync"), "in one request: {asked:?}");
    assert!(
        place("0 Write").max(place("1 Write")) < place("0 Sync").min(place("1 Sync")),
        "{asked:?}"
    );
    assert_eq!(
        asked.iter().filter(|a| a.ends_with("Write")).count(),
        3,
        "one per piece of an object: {asked:?}"
    );
    assert_eq!(read(&cluster.client, file, STRIPE - 5, 10 + STRIPE as u32 + 100).await, data);
}

#[tokio::test]
async fn what_is_on_its_way_is_read_and_told_of() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"old").await.unwrap();
    cluster.world.hold_writes.send_replace(true);
    let client = cluster.client.clone();
    let syncing = tokio::spawn(async move { client.fsync(Caller::root(), file, false).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    write(&cluster.client, file, 2, b"der").await.unwrap();
    assert_eq!(read(&cluster.client, file, 0, 100).await, b"older");
    let glimpse =
        cluster.callback(ClientOp::Glimpse { fids: vec![found.attr.fid], store: false }).await;
    let ClientReply::Glimpses(sizes) = glimpse else { panic!("{glimpse:?}") };
    assert!(matches!(sizes[..], [Glimpsed::Dirty(Glimpse { size: 5, .. })]), "{sizes:?}");
    cluster.world.hold_writes.send_replace(false);
    syncing.await.unwrap().unwrap();
    let all = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
    cluster.callback(ClientOp::Revoke { locks: vec![(found.attr.fid, all)] }).await;
    assert_eq!(
        cluster.world.state.lock().inodes[&found.attr.fid].attr.size,
        5,
        "told before the lock is given"
    );
    let glimpse =
        cluster.callback(ClientOp::Glimpse { fids: vec![found.attr.fid], store: false }).await;
    assert_eq!(glimpse, ClientReply::Glimpses(vec![Glimpsed::Reported]), "it is open for writing");
    cluster.client.clone().release(Caller::root(), file).await.unwrap();
    let glimpse =
        cluster.callback(ClientOp::Glimpse { fids: vec![found.attr.fid], store: false }).await;
    assert_eq!(glimpse, ClientReply::Glimpses(vec![Glimpsed::Idle]));
}

#[tokio::test]
async fn what_was_written_is_stored_for_a_client_that_reads_without_a_lock() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    let fids = vec![found.attr.fid];
    cluster.callback(ClientOp::Glimpse { fids: fids.clone(), store: false }).await;
    assert!(cluster.world.state.lock().objects.is_empty(), "a look at the size stores nothing");
    let glimpse = cluster.callback(ClientOp::Glimpse { fids, store: true }).await;
    assert_eq!(glimpse, ClientReply::Glimpses(vec![Glimpsed::Reported]));
    let state = cluster.world.state.lock();
    assert_eq!((state.objects.len(), state.inodes[&found.attr.fid].attr.size), (1, 3));
}

#[tokio::test]
async fn a_truncate_that_the_mdt_did_has_happened_though_the_file_is_freed_before_its_end() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    cluster.client.clone().fsync(Caller::root(), file, false).await.unwrap();
    // Another client removes it after the MDT has answered this one.
    cluster.world.state.lock().broken_ost = Some((0, Errno::ENOENT));
    let cut = SetAttr { size: Some(1), ..SetAttr::default() };
    let cut = cluster.client.clone().setattr(Caller::root(), found.node, Some(file), cut).await;
    assert_eq!(cut.unwrap().attr.size, 1);
    // The file is gone for what comes later.
    cluster.world.state.lock().inodes.remove(&found.attr.fid);
    let cut = SetAttr { size: Some(2), ..SetAttr::default() };
    let cut = cluster.client.clone().setattr(Caller::root(), found.node, Some(file), cut).await;
    assert_eq!(cut.unwrap_err().errno(), Errno::ESTALE);
}

#[tokio::test]
async fn what_is_lost_is_told_once_to_each_open_file() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    let other = cluster.client.clone().open(Caller::root(), found.node, RDWR).await.unwrap();
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    cluster.world.state.lock().broken_ost = Some((0, Errno::EIO));
    let sync = |handle| cluster.client.clone().fsync(Caller::root(), handle, false);
    assert_eq!(sync(file).await.unwrap_err().errno(), Errno::EIO);
    cluster.world.state.lock().broken_ost = None;
    sync(file).await.unwrap();
    assert_eq!(write(&cluster.client, other, 0, b"x").await.unwrap_err().errno(), Errno::EIO);
    write(&cluster.client, other, 0, b"x").await.unwrap();
    let later = cluster.client.clone().open(Caller::root(), found.node, RDWR).await.unwrap();
    sync(later).await.unwrap();
}

#[tokio::test]
async fn what_was_kept_of_a_file_that_is_gone_is_not_tried_for_ever() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    // The layout must be asked for to store it, and that is refused.
    cluster.callback(ClientOp::Revoke { locks: vec![(found.attr.fid, InodeBits::LAYOUT)] }).await;
    cluster.world.state.lock().inodes.remove(&found.attr.fid);
    let locks =
        vec![(found.attr.fid, InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE))];
    let answer =
        tokio::time::timeout(Duration::from_secs(10), cluster.callback(ClientOp::Revoke { locks }))
            .await;
    assert_eq!(answer.expect("it ends"), ClientReply::Done);
    let glimpse =
        cluster.callback(ClientOp::Glimpse { fids: vec![found.attr.fid], store: false }).await;
    assert_eq!(glimpse, ClientReply::Glimpses(vec![Glimpsed::Reported]));
}

#[tokio::test]
async fn a_reader_sees_no_zeros_where_a_writer_is_still_storing() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"old").await.unwrap();
    cluster.world.state.lock().stingy = true;
    cluster.client.clone().fsync(Caller::root(), file, false).await.unwrap();
    let sync = WriteFlags { sync: true, ..WriteFlags::default() };
    cluster.world.hold_writes.send_replace(true);
    let client = cluster.client.clone();
    let writing = tokio::spawn(async move {
        client.write(Caller::root(), file, 3, Bytes::from_static(b"new"), sync).await
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let reading = Box::pin(read(&cluster.client, file, 0, 100));
    assert!(reading.now_or_never().is_none(), "it waits for what is stored");
    cluster.world.hold_writes.send_replace(false);
    writing.await.unwrap().unwrap();
    assert_eq!(read(&cluster.client, file, 0, 100).await, b"oldnew");
}

#[tokio::test]
async fn what_another_client_did_to_the_size_is_seen_by_the_next_read() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"0123456789").await.unwrap();
    cluster.resize_elsewhere(found.attr.fid, 4).await;
    assert_eq!(read(&cluster.client, file, 0, 100).await, b"0123");
    cluster.resize_elsewhere(found.attr.fid, 10).await;
    assert_eq!(read(&cluster.client, file, 2, 100).await, b"23456789", "grown again");
    assert_eq!(read(&cluster.client, file, 10, 100).await, b"");
}

#[tokio::test]
async fn an_append_goes_behind_what_others_appended() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    // Another client has appended meanwhile; the kernel here believes in 3.
    cluster.resize_elsewhere(found.attr.fid, 5).await;
    let flags = WriteFlags { append: true, ..WriteFlags::default() };
    let append = |data| {
        cluster.client.clone().write(Caller::root(), file, 3, Bytes::from_static(data), flags)
    };
    let (one, two) = futures_util::join!(append(b"xy"), append(b"z"));
    assert_eq!(one.unwrap(), Written { offset: 5, bytes: 2 });
    assert_eq!(two.unwrap(), Written { offset: 7, bytes: 1 });
    assert_eq!(read(&cluster.client, file, 0, 100).await, b"abc\0\0xyz");
}

#[tokio::test]
async fn a_component_is_instantiated_by_its_first_write() {
    let cluster = Cluster::mounted().await;
    cluster.world.state.lock().lazy_layout = true;
    let (_, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    assert_eq!(cluster.asked(), ["Lock", "GetLayout", "0 Grant"]);
    write(&cluster.client, file, 3, b"def").await.unwrap();
    assert_eq!(cluster.asked(), [""; 0], "once");
    assert_eq!(read(&cluster.client, file, 0, 9).await, b"abcdef");
}

#[tokio::test]
async fn a_write_that_fails_in_the_middle_is_short() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    cluster.world.state.lock().broken_ost = Some((1, Errno::EIO));
    cluster.world.state.lock().stingy = true;
    let written = write(&cluster.client, file, 0, &vec![5; 3 * STRIPE as usize]).await.unwrap();
    assert_eq!(u64::from(written.bytes), STRIPE, "up to the stripe that failed");
    assert_eq!(cluster.world.state.lock().inodes[&found.attr.fid].attr.size, STRIPE);
    assert_eq!(write(&cluster.client, file, STRIPE, b"abc").await.unwrap_err().errno(), Errno::EIO);
}

/// A file that this mount wrote, closed and removed, without knowing where the name led, before its
/// data was stored; with `elsewhere` another mount has it open. Returns whether its data was
/// reported in the end.
async fn told_of_what_was_removed(elsewhere: bool) -> bool {
    let cluster = Cluster::mounted().await;
    let client = || cluster.client.clone();
    let (found, file) = create(&cluster, "f").await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    cluster.world.hold_writes.send_replace(true);
    client().release(Caller::root(), file).await.unwrap();
    cluster.world.state.lock().open_elsewhere = elsewhere;
    let fid = found.attr.fid;
    client().unlink(Caller::root(), NodeId::ROOT, name("f")).await.unwrap();
    cluster.world.hold_writes.send_replace(false);
    let all = InodeBits::DATA.union(InodeBits::UPDATE).union(InodeBits::WRITE);
    cluster.callback(ClientOp::Revoke { locks: vec![(fid, all)] }).await;
    assert_eq!(
        cluster.world.state.lock().inodes.get(&fid).map(|inode| inode.attr.size),
        elsewhere.then_some(3)
    );
    cluster.asked().contains(&"Wrote".to_owned())
}

#[tokio::test]
async fn what_is_removed_is_stored_if_somebody_else_has_it_open() {
    assert!(told_of_what_was_removed(true).await);
    assert!(!told_of_what_was_removed(false).await, "nobody can read it");
}

#[tokio::test]
async fn a_dropped_write_is_finished() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    cluster.world.state.lock().stingy = true;
    cluster.world.hold_writes.send_replace(true);
    let client = cluster.client.clone();
    let mut writing = Box::pin(async move { write(&client, file, 0, b"abc").await });
    assert!(writing.as_mut().now_or_never().is_none());
    drop(writing);
    cluster.world.hold_writes.send_replace(false);
    until(|| cluster.world.state.lock().inodes[&found.attr.fid].attr.size == 3).await;
    assert_eq!(read(&cluster.client, file, 0, 9).await, b"abc");
}

#[tokio::test]
async fn what_a_dropped_create_or_open_opened_is_closed() {
    let cluster = Cluster::mounted().await;
    let client = || cluster.client.clone();
    let (found, file) = create(&cluster, "f").await;
    client().release(Caller::root(), file).await.unwrap();
    client().forget(found.node, 1);
    let found = client().lookup(Caller::root(), NodeId::ROOT, name("f")).await.unwrap();
    cluster.world.hold_opens.send_replace(true);
    let mut creating =
        Box::pin(client().create(Caller::root(), NodeId::ROOT, name("g"), 0o644, RDWR));
    let mut opening = Box::pin(client().open(Caller::root(), found.node, RDWR));
    assert!(creating.as_mut().now_or_never().is_none());
    assert!(opening.as_mut().now_or_never().is_none());
    drop((creating, opening));
    assert_eq!(cluster.world.state.lock().open.len(), 2);
    cluster.world.hold_opens.send_replace(false);
    until(|| cluster.world.state.lock().open.is_empty()).await;
    until(|| client().open_count() == 0 && client().nodes().count() == 2).await;
}

/// A call moves from the thread that first polled it to a reactor.
fn moves<T: Send + 'static>(future: T) -> T {
    future
}

#[tokio::test]
async fn calls_move_between_threads_and_may_be_polled_anywhere_first() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    cluster.world.state.lock().stingy = true;
    cluster.world.hold_writes.send_replace(true);
    let client = cluster.client.clone();
    let mut writing = Box::pin(moves(async move { write(&client, file, 0, b"abc").await }));
    assert!(writing.as_mut().now_or_never().is_none(), "polled with a waker that does nothing");
    let finished = Arc::new(tokio::sync::Notify::new());
    let tell = finished.clone();
    cluster.env.tasks.spawn(
        "the rest",
        Box::pin(async move {
            writing.await.unwrap();
            tell.notify_one();
        }),
    );
    tokio::time::sleep(Duration::from_millis(5)).await;
    cluster.world.hold_writes.send_replace(false);
    tokio::time::timeout(Duration::from_secs(5), finished.notified()).await.unwrap();
    let dir = cluster.client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let budget = Budget { bytes: 4096, per_entry: 24 };
    let items =
        moves(cluster.client.clone().readdir(Caller::root(), dir, 0, budget, false)).await.unwrap();
    assert_eq!(items.len(), 3);
    let copied =
        moves(cluster.client.clone().copy_file_range(Caller::root(), (file, 0), (file, 10), 3))
            .await
            .unwrap();
    assert_eq!(copied, 3);
}

#[tokio::test]
async fn fsync_asks_each_target_once() {
    let cluster = Cluster::mounted().await;
    let (found, file) = create(&cluster, "f").await;
    let sync = async || {
        cluster.client.clone().fsync(Caller::root(), file, false).await.unwrap();
        let mut asked = cluster.asked();
        asked.sort();
        asked
    };
    assert_eq!(sync().await, ["0 Sync", "1 Sync", "Sync"]);
    cluster.callback(ClientOp::Revoke { locks: vec![(found.attr.fid, InodeBits::LAYOUT)] }).await;
    assert_eq!(
        sync().await,
        ["0 Sync", "1 Sync", "GetLayout", "Sync"],
        "where its objects are is asked"
    );
}

#[tokio::test]
async fn fsync_of_what_is_not_stored_is_two_round_trips() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    write(&cluster.client, file, STRIPE - 5, &[7; 10]).await.unwrap();
    cluster.asked();
    cluster.world.hold("Wrote");
    let syncing = tokio::spawn(cluster.client.clone().fsync(Caller::root(), file, false));
    let log = || cluster.world.state.lock().log.clone();
    until(|| log().iter().filter(|asked| asked.ends_with("Sync")).count() >= 2).await;
    assert!(!syncing.is_finished(), "the MDT has not answered");
    let asked = log();
    assert!(
        asked.contains(&"0 Sync".to_owned()) && asked.contains(&"1 Sync".to_owned()),
        "beside it: {asked:?}"
    );
    cluster.world.release("Wrote");
    syncing.await.unwrap().unwrap();
    assert_eq!(cluster.asked().iter().filter(|asked| *asked == "Sync").count(), 1);
}

#[tokio::test]
async fn each_simple_operation_is_one_question() {
    let cluster = Cluster::mounted().await;
    let client = || cluster.client.clone();
    let who = Caller::root;
    let (found, file) = client().create(who(), NodeId::ROOT, name("f"), 0o644, RDWR).await.unwrap();
    assert_eq!(cluster.asked(), ["Create"]);
    let again = client().lookup(who(), NodeId::ROOT, name("f")).await.unwrap();
    assert_eq!((again.node, again.ino), (found.node, found.attr.fid.ino()));
    assert_eq!(cluster.asked(), ["Lookup"]);
    client().getattr(who(), found.node, Some(file)).await.unwrap();
    assert_eq!(cluster.asked(), ["Getattr"]);
    let missing = client().lookup(who(), NodeId::ROOT, name("g")).await.unwrap_err();
    assert_eq!(missing.errno(), Errno::ENOENT);
    assert_eq!(cluster.asked(), ["Lookup"]);
    client().flush(who(), file, 1).await.unwrap();
    assert_eq!(cluster.asked(), [""; 0], "nobody took a lock");
    client().release(who(), file).await.unwrap();
    assert_eq!(cluster.asked(), ["Close"]);
    client().unlink(who(), NodeId::ROOT, name("f")).await.unwrap();
    assert_eq!(cluster.asked(), ["Unlink"]);
    client().statfs(who()).await.unwrap();
    assert_eq!(cluster.asked().len(), 3);
    assert_eq!(client().open_count(), 0);
    client().forget(found.node, 2);
    assert_eq!(client().nodes().count(), 1);
    let gone = client().getattr(who(), found.node, None).await.unwrap_err();
    assert_eq!(gone, ClientError::UnknownNode(found.node.0));
}

#[tokio::test]
async fn listing_with_attributes_counts_lookups() {
    let cluster = Cluster::mounted().await;
    let client = || cluster.client.clone();
    for n in 0..5 {
        let (found, file) = create(&cluster, &format!("f{n}")).await;
        client().release(Caller::root(), file).await.unwrap();
        client().forget(found.node, 1);
    }
    assert_eq!(client().nodes().count(), 1);
    cluster.asked();
    let dir = client().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    assert_eq!(cluster.asked(), [""; 0]);
    let budget = Budget { bytes: 4 * (152 + 8), per_entry: 152 };
    let first = client().readdir(Caller::root(), dir, 0, budget, true).await.unwrap();
    let names: Vec<_> =
        first.iter().map(|i| String::from_utf8_lossy(&i.name).into_owned()).collect();
    assert_eq!(names, [".", "..", "f0", "f1"]);
    assert_eq!(cluster.asked(), ["Readdir", "GetParent"], "one request");
    assert_eq!(client().nodes().count(), 3, "f0 and f1 were told, the others not");
    let (mut cookie, mut rest) = (first[3].next, Vec::new());
    loop {
        let items = client().readdir(Caller::root(), dir, cookie, budget, false).await.unwrap();
        let Some(last) = items.last() else { break };
        cookie = last.next;
        rest.extend(items);
    }
    assert_eq!(rest.len(), 3);
    assert!(rest.iter().all(|i| i.found.is_none()));
    assert_eq!(client().nodes().count(), 3);
    client().releasedir(dir);
    assert_eq!(client().open_count(), 0);
}

fn lock(owner: u64, kind: FlockKind) -> Flock {
    Flock { flavor: FlockFlavor::Posix, kind, owner, pid: 1, start: 0, end: u64::MAX }
}

#[tokio::test]
async fn a_close_drops_the_locks_of_its_owner_only() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    let client = || cluster.client.clone();
    client().setlk(Caller::root(), file, lock(1, FlockKind::Write), false).await.unwrap();
    let refused =
        client().setlk(Caller::root(), file, lock(2, FlockKind::Write), false).await.unwrap_err();
    assert_eq!(refused.errno(), Errno::EAGAIN);
    cluster.asked();
    client().flush(Caller::root(), file, 3).await.unwrap();
    assert_eq!(cluster.asked(), [""; 0]);
    client().flush(Caller::root(), file, 1).await.unwrap();
    assert_eq!(cluster.asked(), ["FlockSet Unlock"]);
    assert_eq!(
        client().getlk(Caller::root(), file, lock(2, FlockKind::Write)).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn a_wait_for_a_lock_can_be_given_up() {
    let cluster = Cluster::mounted().await;
    let (_, file) = create(&cluster, "f").await;
    let client = || cluster.client.clone();
    client().setlk(Caller::root(), file, lock(1, FlockKind::Write), false).await.unwrap();
    // By dropping the future.
    let mut waiting =
        Box::pin(client().setlk(Caller::root(), file, lock(2, FlockKind::Write), true));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    until(|| cluster.asked().iter().any(|a| a == "FlockCancel")).await;
    // By asking.
    let waiting =
        tokio::spawn(client().setlk(Caller::root(), file, lock(2, FlockKind::Write), true));
    until(|| cluster.asked().iter().any(|a| a == "FlockSet Write")).await;
    client().cancel_lock(Caller::root(), file, lock(2, FlockKind::Write)).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().errno(), Errno::EINTR);
    client().setlk(Caller::root(), file, lock(1, FlockKind::Unlock), false).await.unwrap();
    assert_eq!(cluster.world.state.lock().lock, None, "nobody got it by accident");
}

#[tokio::test]
async fn open_files_survive_a_restart_of_their_mdt() {
    let cluster = Cluster::mounted().await;
    let (kept, file) = create(&cluster, "kept").await;
    let (lost, orphan) = create(&cluster, "lost").await;
    cluster.restart_mdt();
    cluster.world.state.lock().inodes.remove(&lost.attr.fid);
    // Any question makes the client notice.
    cluster.client.clone().getattr(Caller::root(), NodeId::ROOT, None).await.unwrap();
    until(|| cluster.world.state.lock().open.values().any(|fid| *fid == kept.attr.fid)).await;
    write(&cluster.client, file, 0, b"abc").await.unwrap();
    let stale = |error: ClientError| error.errno() == Errno::ESTALE;
    let mut tried = 0;
    while !write(&cluster.client, orphan, 0, b"abc").await.is_err_and(stale) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tried += 1;
        assert!(tried < 1000);
    }
    cluster.client.clone().release(Caller::root(), file).await.unwrap();
    cluster.client.clone().release(Caller::root(), orphan).await.unwrap();
    until(|| cluster.world.state.lock().open.is_empty()).await;
}

#[tokio::test]
async fn after_an_estale_what_names_lead_to_is_held_until_the_kernel_opened_it() {
    let cluster = Cluster::mounted().await;
    let (gone, _) = create(&cluster, "gone").await;
    create(&cluster, "there").await;
    let lookup = || cluster.client.clone().lookup(Caller::root(), NodeId::ROOT, name("there"));
    let count = || cluster.world.state.lock().open.len();
    let before = count();
    lookup().await.unwrap();
    assert_eq!(count(), before, "mostly nothing is held");
    cluster.world.state.lock().inodes.remove(&gone.attr.fid);
    let error = cluster
        .client
        .clone()
        .open(Caller::root(), gone.node, OpenMode::from_libc(libc::O_RDWR, false))
        .await;
    assert_eq!(error.unwrap_err().errno(), Errno::ESTALE);
    lookup().await.unwrap();
    assert_eq!(count(), before + 1);
    cluster.client.clone().lookup(Caller::root(), NodeId::ROOT, name("absent")).await.unwrap_err();
    let held = tokio::time::timeout(Duration::from_secs(10), until(|| count() == before)).await;
    assert!(held.is_ok(), "and let go soon");
}

#[tokio::test]
async fn after_an_estale_of_link_what_names_lead_to_is_held_too() {
    let cluster = Cluster::mounted().await;
    let (gone, _) = create(&cluster, "gone").await;
    create(&cluster, "there").await;
    let before = cluster.world.state.lock().open.len();
    cluster.world.state.lock().inodes.remove(&gone.attr.fid);
    let client = || cluster.client.clone();
    let link = client().link(Caller::root(), gone.node, NodeId::ROOT, name("second")).await;
    assert_eq!(link.unwrap_err().errno(), Errno::ESTALE);
    client().lookup(Caller::root(), NodeId::ROOT, name("there")).await.unwrap();
    assert_eq!(cluster.world.state.lock().open.len(), before + 1);
}

#[tokio::test]
async fn a_mount_without_its_file_system_says_so() {
    let cluster = Cluster::mounted().await;
    let options = client::client::ClientOptions {
        opens: true,
        access_times: types::attr::AccessTimes::default(),
        nodiratime: false,
        mgs: vec![types::nid::Nid::Loopback],
        fsname: "other".parse().unwrap(),
        directory: Default::default(),
        description: String::new(),
        soft: false,
    };
    let error =
        Client::mount(cluster.env.clone(), cluster.rpc.clone(), options).await.err().unwrap();
    assert!(matches!(error, ClientError::NoFileSystem { .. }), "{error}");
    cluster.client.unmount().await;
}

#[tokio::test]
async fn a_directory_is_the_root_of_its_mount() {
    let cluster = Cluster::mounted().await;
    let mkdir = |parent, text: &str| {
        cluster.client.clone().mkdir(Caller::root(), parent, name(text), 0o755)
    };
    let outer = mkdir(NodeId::ROOT, "outer").await.unwrap();
    let inner = mkdir(outer.node, "inner").await.unwrap();
    let options = |path: &str| client::client::ClientOptions {
        opens: true,
        access_times: types::attr::AccessTimes::default(),
        nodiratime: false,
        mgs: vec![types::nid::Nid::Loopback],
        fsname: Default::default(),
        directory: path.parse().unwrap(),
        description: String::new(),
        soft: false,
    };
    let mount = |path: &str| Client::mount(cluster.env.clone(), cluster.rpc.clone(), options(path));
    let client = mount("/outer/inner").await.unwrap();
    let fid = client.nodes().fid(NodeId::ROOT).unwrap();
    assert_eq!((fid, fid.ino()), (client.nodes().root(), inner.ino));
    // What is above is not shown.
    let up = client.clone().lookup_parent(Caller::root(), NodeId::ROOT).await.unwrap();
    assert_eq!((up.node, up.ino), (NodeId::ROOT, inner.ino));
    let dir = client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let budget = Budget { bytes: 4096, per_entry: 24 };
    let listed = client.clone().readdir(Caller::root(), dir, 0, budget, false).await.unwrap();
    let dots: Vec<_> = listed.iter().map(|item| (&*item.name, item.ino)).collect();
    assert_eq!(dots, [(&b"."[..], inner.ino), (&b".."[..], inner.ino)]);
    client.releasedir(dir);
    client.unmount().await;
    let error = mount("/outer/absent").await.err().unwrap();
    let said = "sheen/outer/absent cannot be mounted: there is no such directory";
    assert_eq!((error.to_string(), error.errno()), (said.to_owned(), types::errno::Errno::ENOENT));
    cluster.client.unmount().await;
}

#[tokio::test]
async fn a_dir_scan_that_begins_anew_sees_what_is_there_now() {
    let cluster = Cluster::mounted().await;
    let client = &cluster.client;
    let (_, file) = create(&cluster, "a").await;
    write(client, file, 0, b"abc").await.unwrap();
    // One handle for all, as where the kernel reports no opens.
    let dir = client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let dir_scan = || async {
        let mut seen = Vec::new();
        let take = |position: u64, entry: &DirEntry| {
            let size = entry.entry.as_ref().map_or(0, |shown| shown.attr.size);
            seen.push((position, entry.name.to_string(), size));
            true
        };
        client.clone().dir_scan(Caller::root(), NodeId::ROOT, dir, (0, false), take).await.unwrap();
        seen
    };
    assert_eq!(dir_scan().await, [(3, "a".to_owned(), 3)], "what is written and not stored counts");
    write(client, file, 3, b"de").await.unwrap();
    create(&cluster, "b").await;
    assert_eq!(dir_scan().await, [(3, "a".to_owned(), 5), (4, "b".to_owned(), 0)]);
}

#[tokio::test]
async fn questions_by_ioctl_are_counted() {
    let cluster = Cluster::mounted().await;
    assert_eq!(cluster.client.mdt_of(NodeId::ROOT).unwrap(), 0);
    let times = cluster.client.counters().times();
    assert_eq!(
        times.iter().find(|(name, _)| *name == "ioctl").map(|(_, times)| times.count()),
        Some(1)
    );
}
