//! A directory that is split and merged again and again, as two clients see it meanwhile.

use crate::by_hand::{name, run, start};
use crate::stripes_seen::{does, mounted, names};
use bytes::Bytes;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use layout::lmv_ea;
use parking_lot::Mutex;
use sim::cluster::{Cluster, Mount};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use types::dir_stripes::DirDefault;
use types::errno::Errno;
use wire::mds::{RenameFlags, SetxattrFlags};

/// Names that stay, and names that come and go.
pub(crate) const STAY: usize = 60;
const ROUNDS: usize = 150;

pub(crate) fn stays(n: usize) -> String {
    format!("stays{n:02}")
}

/// Splits and merges until it is told to end; counts how often.
async fn restripe(client: Arc<Client>, dir: NodeId, ends: Arc<AtomicBool>, done: Arc<AtomicU32>) {
    let counts = [3, 1, 2, 3, 2, 1];
    for count in counts.into_iter().cycle() {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        let wanted = DirDefault { count, ..DirDefault::default() };
        let value = Bytes::from(lmv_ea::encode_default(&wanted));
        let (lmv, flags) = (Bytes::from_static(b"lustre.lmv"), SetxattrFlags::default());
        loop {
            let set =
                client.clone().setxattr(Caller::root(), dir, lmv.clone(), value.clone(), flags);
            match set.await {
                Ok(()) => break,
                Err(error) if error.errno() == Errno::EBUSY => {}
                Err(error) => panic!("{error}"),
            }
            client.session().env.clock.sleep(Duration::from_millis(2)).await;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Names of its own come, move and go; each is there exactly when it should be. All that stay are
/// listed, each once.
pub(crate) async fn uses(client: Arc<Client>, dir: NodeId, who: &'static str) {
    let caller = Caller::root;
    let mode = libc::S_IFREG | 0o644;
    let look = |text: String| {
        let client = client.clone();
        async move {
            match client.lookup(caller(), dir, name(&text)).await {
                Ok(found) => Some(found.ino),
                Err(error) if error.errno() == Errno::ENOENT => None,
                Err(error) => panic!("{text}: {error}"),
            }
        }
    };
    for round in 0..ROUNDS {
        let (one, two) = (format!("{who}{round}"), format!("{who}{round}.moved"));
        assert_eq!(look(one.clone()).await, None, "{one} is not there yet");
        let made = client.clone().mknod(caller(), dir, name(&one), mode, 0).await;
        let ino = made.expect("it is made").ino;
        assert_eq!(look(one.clone()).await, Some(ino), "{one}");
        let again = client.clone().mknod(caller(), dir, name(&one), mode, 0).await;
        assert_eq!(again.expect_err("it is there").errno(), Errno::EEXIST);
        let (from, to) = ((dir, name(&one)), (dir, name(&two)));
        client.clone().rename(caller(), from, to, RenameFlags::default()).await.expect("it moves");
        assert_eq!([look(one).await, look(two.clone()).await], [None, Some(ino)]);
        let below = format!("{who}{round}.d");
        client.clone().mkdir(caller(), dir, name(&below), 0o755).await.expect("a directory");
        let listed = names(client.clone(), dir).await.expect("names");
        let staying = listed.iter().filter(|text| text.starts_with("stays")).count();
        assert_eq!(staying, STAY, "{who}, round {round}: all that stay are listed");
        assert!(listed.contains(&two) && listed.contains(&below), "{who}, round {round}");
        for n in (round % 7..STAY).step_by(7) {
            assert!(look(stays(n)).await.is_some(), "{}", stays(n));
        }
        client.clone().unlink(caller(), dir, name(&two)).await.expect("it goes");
        client.clone().rmdir(caller(), dir, name(&below)).await.expect("it goes");
        assert_eq!([look(two).await, look(below).await], [None, None]);
    }
}

fn seen(seed: u64) {
    let (cluster, _) = start(seed, 3);
    let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
    let client = one.clone();
    let dir = does(&cluster, &first, async move {
        let made = client.clone().mkdir(Caller::root(), NodeId::ROOT, name("d"), 0o755).await;
        let dir = made.expect("a directory");
        for n in 0..STAY {
            let (text, mode) = (name(&stays(n)), libc::S_IFREG | 0o644);
            client.clone().mknod(Caller::root(), dir.node, text, mode, 0).await.expect("a file");
        }
        dir
    });
    let client = two.clone();
    let there = does(&cluster, &second, async move {
        client.lookup(Caller::root(), NodeId::ROOT, name("d")).await.expect("it is there")
    });
    let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let life = restripe(one.clone(), dir.node, ends.clone(), done.clone());
    first.env.tasks.spawn("restripe", Box::pin(life));
    let left = Arc::new(Mutex::new(2));
    for (mount, client, node, who) in
        [(&first, &one, dir.node, "one"), (&second, &two, there.node, "two")]
    {
        let (client, left) = (client.clone(), left.clone());
        let life = async move {
            uses(client, node, who).await;
            *left.lock() -= 1;
        };
        mount.env.tasks.spawn("program", Box::pin(life));
    }
    for _ in 0..6000 {
        run(&cluster, Duration::from_millis(10));
        if *left.lock() == 0 {
            break;
        }
    }
    assert_eq!(*left.lock(), 0, "seed {seed}: not done in a minute");
    ends.store(true, Ordering::Relaxed);
    let restriped = done.load(Ordering::Relaxed);
    println!("seed {seed}: split or merged {restriped} times in {:?}", cluster.world.now());
    assert!(restriped > 4, "seed {seed}: split or merged {restriped} times only");
    identity(&cluster, &first, &one, &dir);
}

/// FID and inode number are as before.
fn identity(cluster: &Cluster, mount: &Mount, client: &Arc<Client>, dir: &client::caller::Found) {
    let (client, node) = (client.clone(), dir.node);
    let now = does(cluster, mount, async move {
        client.clone().getattr(Caller::root(), node, None).await.expect("attributes")
    });
    assert_eq!((now.attr.fid, now.ino, now.attr.nlink), (dir.attr.fid, dir.ino, 2));
}

#[test]
fn two_clients_use_a_directory_that_is_split_and_merged_all_the_time() {
    (1..=6).for_each(seen);
}
