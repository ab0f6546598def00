//! Names that lead to another MDT: which MDT is asked what, and how often.

use crate::cluster::Cluster;
use bytes::Bytes;
use client::Budget;
use client::caller::{Caller, Found};
use client::error::ClientError;
use client::node::NodeId;
use client::open::OpenMode;
use layout::dir_stripes::DirStripes;
use std::collections::BTreeMap;
use std::time::Duration;
use types::about;
use types::dir_stripes::{DirHash, DirSpec};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::mkdir_at::MkdirAt;
use types::name::Name;
use types::target::TargetIndex;
use wire::client::ClientOp;
use wire::mds::RenameFlags;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

async fn mkdir(
    cluster: &Cluster,
    parent: NodeId,
    text: &str,
    mdt: u16,
) -> Result<Found, ClientError> {
    let client = cluster.client.clone();
    client.mkdir_at(Caller::root(), parent, name(text), 0o755, TargetIndex(mdt)).await
}

async fn lookup(cluster: &Cluster, parent: NodeId, text: &str) -> Result<Found, ClientError> {
    cluster.client.clone().lookup(Caller::root(), parent, name(text)).await
}

/// The mount gives up these bits, at the request of the MDT that has the inode.
async fn call_back(cluster: &Cluster, fid: Fid, bits: InodeBits) {
    cluster.callback_of(fid.mdt(), ClientOp::Revoke { locks: vec![(fid, bits)] }).await;
}

#[tokio::test]
async fn a_remote_directory_costs_its_first_use_one_more_request_and_what_is_below_it_none() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let made = mkdir(&cluster, NodeId::ROOT, "d", 1).await.unwrap();
    assert_eq!(made.attr.fid.mdt(), 1);
    assert_eq!(cluster.asked(), ["Create"]);
    assert_eq!(made.attr_valid, Duration::ZERO, "no lock covers its attributes");
    assert_eq!(lookup(&cluster, NodeId::ROOT, "d").await.unwrap().node, made.node);
    assert_eq!(cluster.asked(), ["1 Getattr"]);
    // Locks of both MDTs cover it.
    assert_eq!(lookup(&cluster, NodeId::ROOT, "d").await.unwrap().node, made.node);
    assert_eq!(cluster.asked(), [""; 0]);
    // Its attributes are called back: the name is covered.
    call_back(&cluster, made.attr.fid, InodeBits::UPDATE).await;
    assert_eq!(lookup(&cluster, NodeId::ROOT, "d").await.unwrap().node, made.node);
    assert_eq!(cluster.asked(), ["1 Getattr"]);
    // The name is called back, too.
    call_back(&cluster, made.attr.fid, InodeBits::UPDATE).await;
    call_back(&cluster, Fid::ROOT, InodeBits::UPDATE).await;
    assert_eq!(lookup(&cluster, NodeId::ROOT, "d").await.unwrap().node, made.node);
    assert_eq!(cluster.asked(), ["Lookup", "1 Getattr"]);

    let mode = OpenMode::from_libc(libc::O_RDWR | libc::O_CREAT, false);
    let client = cluster.client.clone();
    let (file, handle) =
        client.create(Caller::root(), made.node, name("f"), 0o644, mode).await.unwrap();
    assert_eq!((file.attr.fid.mdt(), cluster.asked()), (1, vec!["1 Create".to_owned()]));
    cluster.client.clone().fsync(Caller::root(), handle, false).await.unwrap();
    assert_eq!(cluster.asked(), ["1 Sync", "0 Sync", "1 Sync"]);
    let sub = mkdir(&cluster, made.node, "sub", 1).await.unwrap();
    assert_eq!((sub.attr.fid.mdt(), cluster.asked()), (1, vec!["1 Create".to_owned()]));
    let back = mkdir(&cluster, made.node, "back", 0).await.unwrap();
    assert_eq!((back.attr.fid.mdt(), cluster.asked()), (0, vec!["1 Create".to_owned()]));
}

#[tokio::test]
async fn the_directory_above_may_be_on_another_mdt() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let made = mkdir(&cluster, NodeId::ROOT, "d", 1).await.unwrap();
    cluster.asked();
    let above = cluster.client.clone().lookup_parent(Caller::root(), made.node).await.unwrap();
    assert_eq!(
        (above.node, cluster.asked()),
        (NodeId::ROOT, vec!["1 GetParent".to_owned(), "Getattr".to_owned()])
    );
    let client = cluster.client.clone();
    let handle = client.clone().opendir(Caller::root(), made.node).await.unwrap();
    let budget = Budget { bytes: 4096, per_entry: 24 };
    let items = client.readdir(Caller::root(), handle, 0, budget, false).await.unwrap();
    let numbers: Vec<(&[u8], u64)> = items.iter().map(|item| (&item.name[..], item.ino)).collect();
    assert_eq!(numbers, [(&b"."[..], made.ino), (b"..", Fid::ROOT.ino())]);
}

#[tokio::test]
async fn a_listing_with_attributes_asks_each_mdt_once() {
    let cluster = Cluster::mounted_with_mdts(3).await;
    for (text, mdt) in [("a", 1), ("b", 2), ("c", 1), ("d", 0)] {
        mkdir(&cluster, NodeId::ROOT, text, mdt).await.unwrap();
        lookup(&cluster, NodeId::ROOT, text).await.unwrap();
    }
    let whole: Vec<Fid> = cluster.world.state.lock().inodes.keys().copied().collect();
    for fid in whole {
        call_back(&cluster, fid, InodeBits::UPDATE.union(InodeBits::LOOKUP)).await;
    }
    cluster.asked();
    let client = cluster.client.clone();
    let handle = client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let budget = Budget { bytes: 4096, per_entry: 152 };
    let items = client.clone().readdir(Caller::root(), handle, 0, budget, true).await.unwrap();
    let mut asked = cluster.asked();
    asked[2..].sort_unstable();
    assert_eq!(asked, ["Readdir", "GetParent", "1 GetattrMany", "2 GetattrMany"]);
    let found: BTreeMap<String, u16> = items
        .iter()
        .filter_map(|item| {
            Some((String::from_utf8_lossy(&item.name).into_owned(), item.found?.attr.fid.mdt()))
        })
        .collect();
    let expected =
        [("a", 1), ("b", 2), ("c", 1), ("d", 0)].map(|(text, mdt)| (text.to_owned(), mdt));
    assert_eq!(found, BTreeMap::from(expected));
    // Its lookups are answered by what came.
    lookup(&cluster, NodeId::ROOT, "a").await.unwrap();
    assert_eq!(cluster.asked(), [""; 0]);
}

#[tokio::test]
async fn one_mdt_loses_its_locks_and_the_other_keeps_its_own() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let there = mkdir(&cluster, NodeId::ROOT, "there", 1).await.unwrap();
    mkdir(&cluster, NodeId::ROOT, "here", 0).await.unwrap();
    mkdir(&cluster, there.node, "sub", 1).await.unwrap();
    cluster.asked();
    cluster.restart_mdt_at(1);
    // The mount hears of it by its next request.
    cluster.client.clone().statfs(Caller::root()).await.unwrap();
    while !cluster.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    lookup(&cluster, NodeId::ROOT, "here").await.unwrap();
    assert_eq!(cluster.asked(), [""; 0]);
    lookup(&cluster, NodeId::ROOT, "there").await.unwrap();
    assert_eq!(cluster.asked(), ["1 Getattr"], "the name is covered by the MDT that lives");
    lookup(&cluster, there.node, "sub").await.unwrap();
    assert_eq!(cluster.asked(), ["1 Lookup"]);
}

#[tokio::test]
async fn what_is_removed_between_two_requests_is_looked_up_again() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let made = mkdir(&cluster, NodeId::ROOT, "d", 1).await.unwrap();
    lookup(&cluster, NodeId::ROOT, "d").await.unwrap();
    let fid = made.attr.fid;
    for fid in [fid, Fid::ROOT] {
        call_back(&cluster, fid, InodeBits::UPDATE.union(InodeBits::LOOKUP)).await;
    }
    cluster.asked();
    let taken = cluster.world.state.lock().inodes.remove(&fid).unwrap();
    cluster.world.hold("Lookup");
    let looking = tokio::spawn({
        let client = cluster.client.clone();
        async move { client.lookup(Caller::root(), NodeId::ROOT, name("d")).await }
    });
    while cluster.world.state.lock().log.is_empty() {
        tokio::task::yield_now().await;
    }
    cluster.world.state.lock().inodes.get_mut(&Fid::ROOT).unwrap().names.remove(&name("d"));
    cluster.world.release("Lookup");
    assert_eq!(looking.await.unwrap(), Err(Errno::ENOENT.into()));
    assert_eq!(cluster.asked(), ["Lookup", "1 Getattr", "Lookup"]);
    drop(taken);

    // A name that leads nowhere for good is an error, not a loop.
    cluster.world.state.lock().inodes.get_mut(&Fid::ROOT).unwrap().names.insert(name("e"), fid);
    call_back(&cluster, Fid::ROOT, InodeBits::UPDATE).await;
    assert_eq!(
        lookup(&cluster, NodeId::ROOT, "e").await.map_err(|error| error.errno()),
        Err(Errno::ESTALE)
    );
    // The listing (2) shows the name, so the first try needs no lookup.
    assert_eq!(cluster.asked().len(), 2 + 15);
}

/// A program asks for the attributes of a directory that it has open, and that has a stripe on
/// another MDT. Each time when that is found out, the directory has left it for another one, so
/// many times, and then it is removed, or not. What is told, and what was asked.
async fn stat_while_stripes_go(left: u32, removed: bool) -> (Result<u32, Errno>, Vec<String>) {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let made = mkdir(&cluster, NodeId::ROOT, "d", 0).await.unwrap();
    let fid = made.attr.fid;
    let stripes = |n: u32| {
        let stripe = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 9 + n, ver: 0 };
        DirStripes::new(DirHash::Crush, vec![fid, stripe]).ok()
    };
    {
        let mut state = cluster.world.state.lock();
        state.stripe(fid, stripes(0));
        state.next_stripes = (1..=left).map(stripes).chain(removed.then_some(None)).collect();
    }
    for fid in [fid, Fid::ROOT] {
        call_back(&cluster, fid, InodeBits::UPDATE.union(InodeBits::LOOKUP)).await;
    }
    cluster.asked();
    let told = cluster.client.clone().getattr(Caller::root(), made.node, None).await;
    (told.map(|stat| stat.attr.nlink).map_err(|error| error.errno()), cluster.asked())
}

#[tokio::test]
async fn a_directory_whose_stripes_go_is_removed_if_its_mdt_says_so() {
    let asked = |stripes: u64| {
        let mut asked = vec!["Getattr"];
        (0..stripes).for_each(|_| asked.extend(["Getxattr", "1 Getattr"]));
        asked.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // Its MDT is asked once more, and says that there is none; so it does if it is asked whether
    // the directory has another inode.
    let (told, mut all) = stat_while_stripes_go(0, true).await;
    assert_eq!((told, all.drain(..3).collect::<Vec<_>>()), (Ok(0), asked(1)));
    assert_eq!(all, ["Getxattr"; 2]);
    // However often it goes on while it is asked, it is there.
    assert_eq!(stat_while_stripes_go(3, false).await, (Ok(2), asked(4)));
}

#[tokio::test]
async fn a_directory_that_another_client_removed_at_once_was_made() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    cluster.world.hold("Create");
    let making = tokio::spawn({
        let client = cluster.client.clone();
        async move {
            client.mkdir_at(Caller::root(), NodeId::ROOT, name("d"), 0o755, TargetIndex(1)).await
        }
    });
    while cluster.world.state.lock().log.is_empty() {
        tokio::task::yield_now().await;
    }
    {
        let mut state = cluster.world.state.lock();
        let fid = state.inodes.get_mut(&Fid::ROOT).unwrap().names.remove(&name("d")).unwrap();
        state.inodes.remove(&fid);
    }
    cluster.world.release("Create");
    let found = making.await.unwrap().unwrap();
    assert_eq!((found.attr.mode, found.attr.fid.mdt()), (libc::S_IFDIR | 0o755, 1));
    assert_eq!(cluster.asked(), ["Create"]);
}

#[tokio::test]
async fn an_mdt_that_is_not_there_is_named_in_vain() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let made = mkdir(&cluster, NodeId::ROOT, "d", 2).await;
    assert_eq!(made.map_err(|error| error.errno()), Err(Errno::ERANGE));
    assert_eq!(cluster.asked(), [""; 0]);
    // The form for programs leaves no lookup behind.
    let spec = DirSpec { mdts: vec![TargetIndex(1)], ..DirSpec::default() };
    let question = MkdirAt { spec, mode: 0o755, umask: 0o022, name: name("e") };
    cluster.client.clone().mkdir_unseen(Caller::root(), NodeId::ROOT, question).await.unwrap();
    assert_eq!(cluster.asked(), ["Create"]);
    let fid = cluster.world.state.lock().inodes[&Fid::ROOT].names[&name("e")];
    assert_eq!(fid.mdt(), 1);
}

#[tokio::test]
async fn the_mdt_of_the_new_name_is_asked_to_rename_and_to_link() {
    let cluster = Cluster::mounted_with_mdts(2).await;
    let there = mkdir(&cluster, NodeId::ROOT, "there", 1).await.unwrap();
    mkdir(&cluster, NodeId::ROOT, "here", 0).await.unwrap();
    cluster.asked();
    let (client, flags) = (cluster.client.clone(), RenameFlags::default());
    client
        .clone()
        .rename(Caller::root(), (NodeId::ROOT, name("here")), (there.node, name("x")), flags)
        .await
        .unwrap();
    assert_eq!(cluster.asked(), ["1 Rename"]);
    let found = lookup(&cluster, there.node, "x").await.unwrap();
    assert_eq!(found.attr.fid.mdt(), 0, "its name moved, and nothing else");
    let gone = lookup(&cluster, NodeId::ROOT, "here").await;
    assert_eq!(gone.map_err(|error| error.errno()), Err(Errno::ENOENT));
    let file = client.clone().mknod(Caller::root(), there.node, name("f"), 0o644, 0).await.unwrap();
    cluster.asked();
    client.link(Caller::root(), file.node, NodeId::ROOT, name("g")).await.unwrap();
    assert_eq!(cluster.asked(), ["Link"]);
}

/// FIDs are turned into paths while directories go to other MDTs (`lfs migrate -m`).
#[tokio::test]
async fn the_names_of_a_directory_are_found_as_often_as_it_goes_on() {
    let cluster = Cluster::mounted_with_mdts(3).await;
    let at = |mdt: u64| Fid { seq: Fid::SEQ_NORMAL + mdt * Fid::SEQ_WIDTH, oid: 9, ver: 0 };
    let links = async |of: Fid| {
        let name = Bytes::from(about::links(of));
        let told = cluster.client.clone().getxattr(Caller::root(), NodeId::ROOT, name).await;
        (told.map_err(|error| error.errno()), cluster.asked())
    };
    let name = Ok(Bytes::from(format!("{}/d\0", Fid::ROOT)));
    // The answer of each MDT is that it has gone on, and by then it is there no longer.
    cluster.world.state.lock().gone_on = BTreeMap::from([(at(0), at(1)), (at(1), at(2))]);
    let asked = ["Getxattr", "Getxattr", "1 Getxattr", "1 Getxattr", "2 Getxattr"];
    assert_eq!(links(at(0)).await, (name.clone(), asked.map(str::to_owned).to_vec()));
    // Where it is now is known.
    assert_eq!(links(at(0)).await, (name, vec!["2 Getxattr".to_owned()]));

    // It never stays.
    cluster.world.state.lock().gone_on.insert(at(2), at(0));
    assert_eq!(links(at(0)).await.0, Err(Errno::ESTALE));
}
