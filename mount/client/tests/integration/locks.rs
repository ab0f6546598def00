//! Requests that locks spare, and content that callbacks take away, as the requests that reach the
//! servers show.

use crate::cluster::Cluster;
use crate::kernel::{FIRST_PAGE, RecordedKernel};
use bytes::Bytes;
use client::WriteFlags;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use client::open::OpenMode;
use client::{Budget, Looked};
use data::lock_namespace::Whose;
use data::locks::table::Bounds;
use futures_util::poll;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use wire::client::{ClientOp, ClientReply};
use wire::mds::{OpenFlags, RenameFlags};

const SHOWN: InodeBits = InodeBits::LOOKUP.union(InodeBits::UPDATE);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn to_read() -> OpenMode {
    OpenMode::from_libc(libc::O_RDONLY, false)
}

async fn granting() -> (Cluster, Arc<RecordedKernel>) {
    let cluster = Cluster::mounted().await;
    cluster.world.grants.store(true, Ordering::Relaxed);
    let told = Arc::new(RecordedKernel::default());
    cluster.client.attach_kernel(told.clone());
    (cluster, told)
}

/// The inode that a name in the root leads to.
fn fid_at_mdt(cluster: &Cluster, text: &str) -> Fid {
    cluster.world.state.lock().inodes[&Fid::ROOT].names[&name(text)]
}

async fn make(client: &Arc<Client>, text: &str) -> NodeId {
    let open = OpenMode {
        flags: OpenFlags { write: true, ..OpenFlags::default() },
        truncate: false,
        exclusive: true,
    };
    let (found, handle) =
        client.clone().create(Caller::root(), NodeId::ROOT, name(text), 0o644, open).await.unwrap();
    client.clone().release(Caller::root(), handle).await.unwrap();
    found.node
}

async fn lookup(client: &Arc<Client>, text: &str) -> Looked {
    client.clone().lookup_name(Caller::root(), NodeId::ROOT, name(text)).await.unwrap()
}

type Step = Pin<Box<dyn Future<Output = ()>>>;

/// One line of the table: what, how to do it, requests when cold, requests with locks held.
struct Row(&'static str, Box<dyn Fn(Arc<Client>) -> Step>, u64, u64);

fn row<F: Future<Output = ()> + 'static>(
    what: &'static str,
    cold: u64,
    held: u64,
    step: impl Fn(Arc<Client>) -> F + 'static,
) -> Row {
    Row(what, Box::new(move |client| Box::pin(step(client))), cold, held)
}

fn table(file: NodeId, link: NodeId) -> Vec<Row> {
    let me = Caller::root;
    vec![
        row("lookup", 1, 0, |client| async move {
            assert!(matches!(lookup(&client, "file").await, Looked::Found(_)));
        }),
        row("lookup of what is not there", 1, 0, |client| async move {
            assert!(matches!(lookup(&client, "absent").await, Looked::Absent(_)));
        }),
        row("stat", 1, 0, move |client| async move {
            client.getattr(me(), file, None).await.unwrap();
        }),
        row("access", 1, 0, move |client| async move {
            client.access(me(), file, Default::default()).await.unwrap();
        }),
        row("getxattr of what is not there", 1, 0, move |client| async move {
            let capability = Bytes::from_static(b"security.capability");
            assert!(client.getxattr(me(), file, capability).await.is_err());
        }),
        row("listxattr", 1, 0, move |client| async move {
            client.listxattr(me(), file).await.unwrap();
        }),
        row("readlink", 1, 0, move |client| async move {
            assert_eq!(client.readlink(me(), link).await.unwrap(), "target");
        }),
        // The close of what the MDT opened counts; no program waits for it.
        row("open to read, close", 2, 0, move |client| async move {
            let handle = client.clone().open(me(), file, to_read()).await.unwrap();
            client.flush(me(), handle, 7).await.unwrap();
        }),
    ]
}

#[tokio::test]
async fn no_operation_costs_more_requests_than_it_may() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    let file = make(client, "file").await;
    let made = client.clone().symlink(
        Caller::root(),
        NodeId::ROOT,
        name("link"),
        Bytes::from_static(b"target"),
    );
    let link = made.await.unwrap().node;
    for Row(what, step, cold, held) in table(file, link) {
        // Everything is forgotten, as after a restart of the MDT; then twice.
        let all = [Fid::ROOT, fid_of(client, "file").await, fid_of(client, "link").await];
        let locks = all.into_iter().map(|fid| (fid, InodeBits::ALL)).collect();
        cluster.callback(ClientOp::Revoke { locks }).await;
        for (round, most) in [("cold", cold), ("held", held), ("held again", held)] {
            let before = client.requests().all;
            step(client.clone()).await;
            let cost = client.requests().all - before;
            assert!(
                cost <= most,
                "{what}, {round}: {cost} requests, {most} allowed: {:?}",
                cluster.asked()
            );
        }
    }
    client.unmount().await;
}

/// R32: what a page brought is as old as the page, what a lock covers is true.
#[tokio::test]
async fn a_listing_shows_what_locks_cover_now() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    let mut locks = vec![(Fid::ROOT, InodeBits::ALL)];
    for text in ["f0", "f1", "f2", "f3"] {
        make(client, text).await;
        locks.push((fid_of(client, text).await, InodeBits::ALL));
    }
    let last = locks[4].0;
    // As if another client had made them.
    cluster.callback(ClientOp::Revoke { locks }).await;
    let dir = client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    cluster.asked();
    let list = async |cookie: u64, count: usize| {
        let budget = Budget { bytes: count * (152 + 8), per_entry: 152 };
        let items =
            client.clone().readdir(Caller::root(), dir, cookie, budget, true).await.unwrap();
        let shown: Vec<_> =
            items.iter().map(|item| item.found.map(|found| found.attr.fid)).collect();
        (items.last().unwrap().next, shown, cluster.asked())
    };
    let (cookie, shown, asked) = list(0, 3).await;
    assert!(shown[2].is_some(), "this call fetched it");
    assert_eq!(asked, ["Readdir", "GetParent"]);
    let (cookie, shown, asked) = list(cookie, 2).await;
    assert!(shown.iter().all(Option::is_some), "locks cover what the page brought");
    assert_eq!(asked, [""; 0]);
    cluster.callback(ClientOp::Revoke { locks: vec![(last, InodeBits::UPDATE)] }).await;
    let (_, shown, asked) = list(cookie, 1).await;
    assert_eq!(shown, [None], "another client may have changed it since the page came");
    assert_eq!(asked, [""; 0]);
    client.releasedir(dir);
}

/// What `find -size` does: it reads all names, then looks at each.
#[tokio::test]
async fn names_of_a_listing_are_looked_up_in_one_request() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    let names: Vec<String> = (0..20).map(|n| format!("f{n:02}")).collect();
    let mut locks = vec![(Fid::ROOT, InodeBits::ALL)];
    for text in &names {
        make(client, text).await;
        locks.push((fid_of(client, text).await, InodeBits::ALL));
    }
    cluster.callback(ClientOp::Revoke { locks: locks.clone() }).await;
    let dir = client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    cluster.asked();
    let budget = Budget { bytes: 4096, per_entry: 24 };
    let items = client.clone().readdir(Caller::root(), dir, 0, budget, false).await.unwrap();
    assert_eq!(items.len(), 2 + names.len());
    assert_eq!(cluster.asked(), ["Readdir", "GetParent"]);
    for text in names.iter().rev() {
        fid_of(client, text).await;
    }
    assert_eq!(cluster.asked(), ["Lookup", "GetattrMany"], "the second miss fetches all others");
    let figures = client.statahead_figures();
    assert_eq!((figures.total, figures.lists, figures.misses), (19, 1, 1));
    // What was called back is asked for by itself.
    cluster.callback(ClientOp::Revoke { locks: vec![locks[5]] }).await;
    fid_of(client, &names[4]).await;
    assert_eq!(cluster.asked(), ["Lookup"]);
    client.releasedir(dir);
}

#[tokio::test]
async fn without_statahead_each_name_is_a_request() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    client.set_statahead_max(0);
    let mut locks = vec![(Fid::ROOT, InodeBits::ALL)];
    for text in ["a", "b", "c"] {
        make(client, text).await;
        locks.push((fid_of(client, text).await, InodeBits::ALL));
    }
    cluster.callback(ClientOp::Revoke { locks }).await;
    let dir = client.clone().opendir(Caller::root(), NodeId::ROOT).await.unwrap();
    let budget = Budget { bytes: 4096, per_entry: 24 };
    client.clone().readdir(Caller::root(), dir, 0, budget, false).await.unwrap();
    cluster.asked();
    for text in ["a", "b", "c"] {
        fid_of(client, text).await;
    }
    assert_eq!(cluster.asked(), ["Lookup"; 3]);
    client.releasedir(dir);
}

async fn fid_of(client: &Arc<Client>, text: &str) -> Fid {
    let Looked::Found(found) = lookup(client, text).await else { panic!("{text} is there") };
    found.attr.fid
}

#[tokio::test]
async fn changes_cost_one_request_and_their_directory_none() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    assert!(matches!(lookup(client, "dir").await, Looked::Absent(_)));
    cluster.asked();
    client.clone().mkdir(Caller::root(), NodeId::ROOT, name("dir"), 0o755).await.unwrap();
    client.clone().getattr(Caller::root(), NodeId::ROOT, None).await.unwrap();
    assert!(matches!(lookup(client, "dir").await, Looked::Found(_)));
    client.clone().unlink(Caller::root(), NodeId::ROOT, name("dir")).await.unwrap();
    client.clone().getattr(Caller::root(), NodeId::ROOT, None).await.unwrap();
    assert!(matches!(lookup(client, "dir").await, Looked::Absent(_)));
    assert_eq!(cluster.asked(), ["Create", "Unlink"]);
    client.unmount().await;
}

#[tokio::test]
async fn a_revoke_is_answered_when_the_kernel_has_forgotten() {
    let (cluster, told) = granting().await;
    let client = &cluster.client;
    let file = make(client, "file").await;
    let Looked::Found(found) = lookup(client, "file").await else { panic!() };
    assert!(
        found.entry_valid > Duration::from_secs(1 << 30) && found.attr_valid == found.entry_valid
    );
    told.take();
    let fid = found.attr.fid;
    let answer = cluster.callback(ClientOp::Revoke { locks: vec![(fid, SHOWN)] }).await;
    assert_eq!(answer, ClientReply::Done);
    let mut forgotten = told.take();
    forgotten.sort();
    assert_eq!(forgotten, [format!("attr {}", file.0), "drop 1 file".to_owned()]);
    cluster.asked();
    lookup(client, "file").await;
    assert_eq!(cluster.asked(), ["Lookup"]);
    client.unmount().await;
}

#[tokio::test]
async fn a_callback_waits_for_what_the_one_before_took() {
    let (cluster, told) = granting().await;
    let client = &cluster.client;
    assert!(matches!(lookup(client, "a").await, Looked::Absent(valid) if !valid.is_zero()));
    client.clone().getattr(Caller::root(), NodeId::ROOT, None).await.unwrap();
    told.hold("attr");
    told.take();
    // Two changes of one directory call back at once; the second one finds nothing that the kernel
    // was told of.
    let all = cluster.callback(ClientOp::Revoke { locks: vec![(Fid::ROOT, InodeBits::UPDATE)] });
    let one = cluster.callback(ClientOp::Changing { dir: Fid::ROOT, names: vec![name("a")] });
    let (mut all, mut one) = (std::pin::pin!(all), std::pin::pin!(one));
    for _ in 0..1000 {
        assert!(poll!(all.as_mut()).is_pending(), "the kernel has not forgotten");
        assert!(
            poll!(one.as_mut()).is_pending(),
            "the kernel has not forgotten what the other one took"
        );
        tokio::task::yield_now().await;
    }
    assert!(told.take().contains(&"attr 1".to_owned()));
    told.release("attr");
    assert_eq!((all.await, one.await), (ClientReply::Done, ClientReply::Dropped));
    client.unmount().await;
}

#[tokio::test]
async fn told_names_go_and_others_stay() {
    let (cluster, told) = granting().await;
    let client = &cluster.client;
    for text in ["a", "b"] {
        assert!(matches!(lookup(client, text).await, Looked::Absent(valid) if !valid.is_zero()));
    }
    told.take();
    let answer =
        cluster.callback(ClientOp::Changing { dir: Fid::ROOT, names: vec![name("a")] }).await;
    assert_eq!(answer, ClientReply::Done);
    assert!(told.take().contains(&"expire 1 a".to_owned()));
    cluster.asked();
    lookup(client, "b").await;
    assert_eq!(cluster.asked(), Vec::<String>::new());
    lookup(client, "a").await;
    assert_eq!(cluster.asked(), ["Lookup"]);
    client.unmount().await;
}

#[tokio::test]
async fn a_callback_while_a_lookup_is_in_flight_keeps_its_answer_out() {
    let (cluster, told) = granting().await;
    let client = cluster.client.clone();
    make(&client, "file").await;
    let fid = fid_of(&client, "file").await;
    cluster
        .callback(ClientOp::Revoke {
            locks: vec![(Fid::ROOT, InodeBits::ALL), (fid, InodeBits::ALL)],
        })
        .await;
    told.take();
    cluster.world.hold("Lookup");
    let looking = tokio::spawn({
        let client = client.clone();
        async move { lookup(&client, "file").await }
    });
    while !cluster.world.state.lock().log.iter().any(|line| line == "Lookup") {
        tokio::task::yield_now().await;
    }
    // The MDT has answered, the answer is on its way, and the callback overtakes it. A request is
    // in flight in the directory, so its names are forgotten without waiting for it.
    let revoke = ClientOp::Revoke { locks: vec![(Fid::ROOT, InodeBits::UPDATE), (fid, SHOWN)] };
    let answer = tokio::time::timeout(Duration::from_secs(10), cluster.callback(revoke)).await;
    assert_eq!(answer.expect("no callback waits for a request"), ClientReply::Done);
    cluster.world.release("Lookup");
    let Looked::Found(found) = looking.await.unwrap() else { panic!() };
    assert!(found.entry_valid.is_zero() && found.attr_valid.is_zero(), "not to be trusted");
    cluster.asked();
    lookup(&client, "file").await;
    assert_eq!(cluster.asked(), ["Lookup"]);
    client.unmount().await;
}

#[tokio::test]
async fn a_request_in_the_directory_makes_it_an_epoch() {
    let (cluster, told) = granting().await;
    let client = cluster.client.clone();
    assert!(matches!(lookup(&client, "a").await, Looked::Absent(_)));
    cluster.world.hold("Readdir");
    cluster.asked();
    let looking = tokio::spawn({
        let client = client.clone();
        async move { lookup(&client, "b").await }
    });
    while cluster.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    told.take();
    cluster.callback(ClientOp::Revoke { locks: vec![(Fid::ROOT, InodeBits::UPDATE)] }).await;
    assert!(told.take().contains(&"epoch".to_owned()), "dropping a name would wait for the lookup");
    cluster.world.release("Readdir");
    looking.await.unwrap();
    client.unmount().await;
}

#[tokio::test]
async fn a_file_that_is_open_here_only_is_kept_until_its_close() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    let file = make(client, "file").await;
    let first = client.clone().open(Caller::root(), file, to_read()).await.unwrap();
    cluster.asked();
    let second = client.clone().open(Caller::root(), file, to_read()).await.unwrap();
    assert_eq!(cluster.asked(), Vec::<String>::new(), "under OPEN and LAYOUT");
    client.clone().release(Caller::root(), first).await.unwrap();
    let fid = fid_of(client, "file").await;
    let answer = cluster.callback(ClientOp::Revoke { locks: vec![(fid, InodeBits::OPEN)] }).await;
    assert_eq!(answer, ClientReply::Kept(vec![(fid, InodeBits::OPEN)]));
    cluster.asked();
    client.clone().release(Caller::root(), second).await.unwrap();
    for _ in 0..1000 {
        if !cluster.world.state.lock().log.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(cluster.asked(), ["Unlock"]);
    let answer = cluster.callback(ClientOp::Revoke { locks: vec![(fid, InodeBits::OPEN)] }).await;
    assert_eq!(answer, ClientReply::Done, "nobody has it open any more");
    client.unmount().await;
}

/// R34, R41.
#[tokio::test]
async fn names_that_another_client_gave_away_are_not_changed_before_the_kernel_looks_again() {
    let (cluster, _) = granting().await;
    let client = cluster.client.clone();
    let thread = |pid| Caller { pid, ..Caller::root() };
    let root = NodeId::ROOT;
    let rename = |pid, from: &str, to: &str| {
        client.clone().rename(
            thread(pid),
            (root, name(from)),
            (root, name(to)),
            RenameFlags::default(),
        )
    };
    for (text, tries) in [("removed", 0), ("moved", 1), ("replaced", 2), ("directory", 3)] {
        make(&client, "other").await;
        make(&client, text).await;
        let attempt = |pid| -> Pin<Box<dyn Future<Output = _>>> {
            match tries {
                0 => Box::pin(client.clone().unlink(thread(pid), root, name(text))),
                1 => Box::pin(rename(pid, text, "new")),
                2 => Box::pin(rename(pid, "other", text)),
                _ => Box::pin(client.clone().rmdir(thread(pid), root, name(text))),
            }
        };
        let replace = || async {
            // Another client, which calls back what this one holds.
            let known = fid_at_mdt(&cluster, text);
            let locks = vec![(Fid::ROOT, InodeBits::UPDATE), (known, InodeBits::LOOKUP)];
            cluster.callback(ClientOp::Revoke { locks }).await;
            let fid = Fid { oid: known.oid + 1000, ..known };
            let state = &mut cluster.world.state.lock().inodes;
            let mut inode = state.remove(&known).expect("a file");
            inode.attr.fid = fid;
            state.insert(fid, inode);
            state.get_mut(&Fid::ROOT).expect("the root").names.insert(name(text), fid);
            fid
        };
        let second = replace().await;
        assert_eq!(attempt(7).await.unwrap_err().errno(), Errno::ESTALE, "{text}");
        assert_eq!(fid_at_mdt(&cluster, text), second, "{text}: nothing is changed");
        // Another thread, whose kernel has not looked again.
        assert_eq!(attempt(8).await.unwrap_err().errno(), Errno::ESTALE, "{text}");
        client.clone().lookup(Caller::root(), root, name(text)).await.unwrap();
        replace().await;
        attempt(7).await.unwrap_or_else(|error| panic!("{text}: no program sees ESTALE: {error}"));
        for left in ["other", "new", text] {
            // Whatever is left for the next round.
            let _ = client.clone().unlink(Caller::root(), root, name(left)).await;
        }
    }
    client.unmount().await;
}

/// As in seed 1795844618104 of the oracle: a directory that lived counted as removed.
#[tokio::test]
async fn a_rename_names_the_inode_that_its_own_thread_found() {
    let (cluster, _) = granting().await;
    let client = cluster.client.clone();
    make(&client, "moved").await;
    make(&client, "replaced").await;
    let thread = |pid| Caller { pid, ..Caller::root() };
    let look = |pid| client.clone().lookup(thread(pid), NodeId::ROOT, name("replaced"));
    look(7).await.unwrap();
    // Another client moves the file away, and another thread of the kernel sees that.
    let known = fid_at_mdt(&cluster, "replaced");
    let locks = vec![(Fid::ROOT, InodeBits::UPDATE), (known, InodeBits::LOOKUP)];
    cluster.callback(ClientOp::Revoke { locks }).await;
    cluster.world.state.lock().inodes.get_mut(&Fid::ROOT).unwrap().names.remove(&name("replaced"));
    assert_eq!(look(8).await.unwrap_err().errno(), Errno::ENOENT);
    let rename = |pid| {
        let places = ((NodeId::ROOT, name("moved")), (NodeId::ROOT, name("replaced")));
        client.clone().rename(thread(pid), places.0, places.1, RenameFlags::default())
    };
    assert_eq!(rename(7).await.unwrap_err().errno(), Errno::ESTALE, "the kernel looks again");
    rename(7).await.unwrap();
    client.unmount().await;
}

/// As in seed 9105575 of the simulation.
#[tokio::test]
async fn open_of_a_removed_file_is_given_back_though_its_grant_was_not_trusted() {
    let (cluster, _) = granting().await;
    let client = cluster.client.clone();
    let file = make(&client, "file").await;
    client.forget(file, 1);
    // While locks are given back, no grant of theirs is taken: the MDT may have served this before.
    cluster.world.hold("Unlock");
    let giver = client.lock_namespace();
    let giving = tokio::spawn(async move { giver.clear(Whose::Mount).await });
    while !cluster.world.state.lock().log.contains(&"Unlock".to_owned()) {
        tokio::task::yield_now().await;
    }
    cluster.asked();
    cluster.world.state.lock().holds_open_of_removed = true;
    client.clone().unlink(Caller::root(), NodeId::ROOT, name("file")).await.unwrap();
    for _ in 0..1000 {
        if cluster.world.state.lock().log.len() > 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(cluster.asked(), ["Unlink", "Unlock"]);
    cluster.world.release("Unlock");
    giving.await.unwrap();
    client.unmount().await;
}

/// A large listing may bring more than the MDT has room for until it answers. And an MDT that never
/// answers must not keep a mount from looking at leases.
#[tokio::test]
async fn locks_are_given_up_without_waiting_for_answers() {
    let (cluster, _) = granting().await;
    let client = &cluster.client;
    let file = make(client, "file").await;
    let fid = fid_of(client, "file").await;
    client.forget(file, 2);
    for n in 0..4 * 1024 {
        make(client, &format!("f{n}")).await;
    }
    cluster.world.hold("Unlock");
    let sent = async |count: usize| {
        let sent = || cluster.world.state.lock().log.iter().filter(|op| *op == "Unlock").count();
        for _ in 0..1000 {
            if sent() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(sent(), count);
    };
    // Another client removed its name, and nothing here needs it.
    cluster.callback(ClientOp::Revoke { locks: vec![(fid, InodeBits::LOOKUP)] }).await;
    let locks = client.lock_namespace();
    // What looks after the locks begins now.
    locks.set_bounds(locks.bounds()).unwrap();
    sent(1).await;
    locks.set_bounds(Bounds { locks: 100, ..locks.bounds() }).unwrap();
    sent(5).await;
    cluster.world.release("Unlock");
    client.clone().unmount().await;
}

#[tokio::test]
async fn a_restart_of_the_mdt_ends_all_trust_and_opens_local_opens_there() {
    let (cluster, told) = granting().await;
    let client = &cluster.client;
    let file = make(client, "file").await;
    let opened = client.clone().open(Caller::root(), file, to_read()).await.unwrap();
    client.clone().release(Caller::root(), opened).await.unwrap();
    let local = client.clone().open(Caller::root(), file, to_read()).await.unwrap();
    assert!(cluster.world.state.lock().open.is_empty(), "the MDT does not know");
    told.take();
    cluster.restart_mdt();
    // The next request that goes out finds the new session.
    client.clone().statfs(Caller::root()).await.unwrap();
    for _ in 0..1000 {
        if cluster.world.state.lock().open.len() == 1 && told.count("epoch") > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(cluster.world.state.lock().open.len(), 1, "opened again, now at the MDT");
    assert!(told.take().contains(&"epoch".to_owned()));
    client.clone().release(Caller::root(), local).await.unwrap();
    // A close that must ask goes on behind its release.
    for _ in 0..1000 {
        if cluster.world.state.lock().open.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(cluster.world.state.lock().open.is_empty());
    client.unmount().await;
}

#[tokio::test]
async fn a_callback_does_not_wait_for_a_page_that_a_waiting_write_holds() {
    let cluster = Cluster::mounted_as(false).await;
    cluster.world.grants.store(true, Ordering::Relaxed);
    let told = Arc::new(RecordedKernel::default());
    let client = &cluster.client;
    client.attach_kernel(told.clone());
    let node = make(client, "file").await;
    let fid = fid_of(client, "file").await;
    let handle = client.clone().no_open_file(node, true).await.unwrap();
    // It has pages, under DATA and without WRITE.
    client.clone().read(Caller::root(), handle, 0, 10, true).await.unwrap();
    cluster.callback(ClientOp::Revoke { locks: vec![(fid, InodeBits::WRITE)] }).await;
    cluster.world.hold_locks.send_replace(true);
    told.hold(FIRST_PAGE);
    let held = client.holds_page(node, 0, 4);
    let data = Bytes::from_static(b"text");
    let mut write =
        Box::pin(client.clone().write(Caller::root(), handle, 0, data, WriteFlags::default()));
    assert!(poll!(&mut write).is_pending(), "it waits for WRITE");
    let locks = vec![(fid, InodeBits::DATA.union(InodeBits::UPDATE))];
    tokio::select! {
        answer = cluster.callback(ClientOp::Revoke { locks }) => assert_eq!(answer, ClientReply::Done),
        _ = &mut write => panic!("it has no lock"),
        () = cluster.env.clock.sleep(Duration::from_secs(5)) => panic!("the callback waits for the write"),
    }
    let invalidated =
        told.take().iter().filter(|line| **line == format!("data {}", node.0)).count();
    assert!(invalidated >= 2, "the held page and all behind it");
    cluster.world.hold_locks.send_replace(false);
    assert_eq!(write.await.unwrap().bytes, 4);
    drop(held);
    told.release(FIRST_PAGE);
    client.unmount().await;
}
