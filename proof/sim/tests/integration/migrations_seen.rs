//! A directory that goes from one MDT to another again and again, as two clients see it meanwhile.
//! They know it by the inode that it had first.

use crate::by_hand::{run, start};
use crate::splits_seen::{STAY, stays, uses};
use crate::stripes_seen::{does, mounted};
use bytes::Bytes;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use layout::dir_stripes::MDTS_XATTR;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::target::TargetIndex;
use wire::mds::SetxattrFlags;

/// Has it go until it is told to end; counts how often.
async fn migrate(client: Arc<Client>, dir: NodeId, ends: Arc<AtomicBool>, done: Arc<AtomicU32>) {
    let ways: [&[u16]; 5] = [&[1], &[2], &[0, 1], &[2, 0, 1], &[0]];
    for mdts in ways.into_iter().cycle() {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        let spec = DirSpec {
            count: mdts.len() as u16,
            mdts: mdts.iter().copied().map(TargetIndex).collect(),
            ..DirSpec::default()
        };
        let (name, value) = (Bytes::from_static(MDTS_XATTR), Bytes::from(spec.encode()));
        loop {
            let (name, value, flags) = (name.clone(), value.clone(), SetxattrFlags::default());
            match client.clone().setxattr(Caller::root(), dir, name, value, flags).await {
                Ok(()) => break,
                Err(error) if error.errno() == Errno::EBUSY => {}
                Err(error) => panic!("{error}"),
            }
            client.session().env.clock.sleep(Duration::from_millis(2)).await;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn seen(seed: u64) {
    let (cluster, _) = start(seed, 3);
    let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
    let client = one.clone();
    let dir = does(&cluster, &first, async move {
        let name = crate::by_hand::name;
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
        let d = crate::by_hand::name("d");
        client.lookup(Caller::root(), NodeId::ROOT, d).await.expect("it is there")
    });
    let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let life = migrate(one.clone(), dir.node, ends.clone(), done.clone());
    first.env.tasks.spawn("migrate", Box::pin(life));
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
    let went = done.load(Ordering::Relaxed);
    println!("seed {seed}: it went {went} times in {:?}", cluster.world.now());
    assert!(went > 4, "seed {seed}: it went {went} times only");
}

#[test]
fn two_clients_use_a_directory_that_goes_from_mdt_to_mdt_all_the_time() {
    (1..=6).for_each(seen);
}
