//! Blocks of a file that was written while an OST was connected anew (docs/recovery.md, section 4).

use crate::cluster::Cluster;
use bytes::Bytes;
use client::WriteFlags;
use client::caller::{Caller, Found};
use client::node::NodeId;
use client::open::{FileHandle, OpenMode};
use std::time::Duration;
use types::attr::SetAttr;
use types::name::Name;

const LEN: u64 = 5000;

/// Waits until something is so; five seconds at most.
async fn until(mut so: impl FnMut() -> bool) {
    for _ in 0..5000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to that");
}

/// A file with `LEN` bytes. An OST was connected anew before the answer to their write came, and
/// that answer says that the object did not grow.
async fn written_across_a_restart(cluster: &Cluster) -> (Found, FileHandle) {
    let client = || cluster.client.clone();
    let name = Name::new(b"file").unwrap();
    let mode = OpenMode::from_libc(libc::O_RDWR, false);
    let (file, handle) =
        client().create(Caller::root(), NodeId::ROOT, name, 0o644, mode).await.unwrap();
    cluster.world.hold_writes.send_replace(true);
    cluster.world.state.lock().answers_again = true;
    let data = Bytes::from(vec![7; LEN as usize]);
    client().write(Caller::root(), handle, 0, data, WriteFlags::default()).await.unwrap();
    let stored = tokio::spawn(client().fsync(Caller::root(), handle, false));
    // The write is at OST 0. That OST 1 is connected anew counts, too: the client counts the
    // connections with all.
    tokio::time::sleep(Duration::from_millis(20)).await;
    cluster.restart_ost(1);
    client().statfs(Caller::root()).await.unwrap();
    cluster.world.hold_writes.send_replace(false);
    stored.await.unwrap().unwrap();
    cluster.world.state.lock().answers_again = false;
    assert_eq!(cluster.world.state.lock().size_and_blocks(file.attr.fid), (LEN, 0));
    (file, handle)
}

#[tokio::test]
async fn blocks_that_no_answer_told_of_are_counted_at_close() {
    let cluster = Cluster::mounted().await;
    let (file, handle) = written_across_a_restart(&cluster).await;
    cluster.client.clone().release(Caller::root(), handle).await.unwrap();
    until(|| cluster.world.state.lock().open.is_empty()).await;
    assert_eq!(cluster.world.state.lock().size_and_blocks(file.attr.fid), (LEN, LEN.div_ceil(512)));
}

#[tokio::test]
async fn a_file_that_is_cut_while_its_blocks_are_counted_stays_cut() {
    let cluster = Cluster::mounted().await;
    let client = || cluster.client.clone();
    let (file, first) = written_across_a_restart(&cluster).await;
    let mode = OpenMode::from_libc(libc::O_RDWR, false);
    let second = client().open(Caller::root(), file.node, mode).await.unwrap();
    cluster.world.hold_counts.send_replace(true);
    cluster.asked();
    client().release(Caller::root(), first).await.unwrap();
    let asked = |what: &str| cluster.world.state.lock().log.iter().any(|line| line == what);
    until(|| asked("0 Getattr") && asked("1 Getattr")).await;
    let set = SetAttr { size: Some(700), ..SetAttr::default() };
    let cut = tokio::spawn(client().setattr(Caller::root(), file.node, Some(second), set));
    // Time for a truncate that would not wait for the count.
    tokio::time::sleep(Duration::from_millis(50)).await;
    cluster.world.hold_counts.send_replace(false);
    assert_eq!(cut.await.unwrap().unwrap().attr.size, 700);
    until(|| cluster.world.state.lock().open.len() == 1).await;
    let state = cluster.world.state.lock();
    assert_eq!(state.size_and_blocks(file.attr.fid), (700, state.blocks(file.attr.fid)));
}
