//! A directory that goes from one MDT to another again and again, as two clients see it meanwhile.
//! They know it by the inode that it had first.

use crate::by_hand::{Client as Hand, FIRST_MDT, run, start};
use crate::splits_seen::{STAY, stays, uses};
use crate::stripes_seen::{does, mounted};
use bytes::Bytes;
use client::caller::Caller;
use client::client::Client;
use client::node::NodeId;
use env::Env;
use layout::dir_stripes::MDTS_XATTR;
use parking_lot::Mutex;
use rpc::import::Import;
use simenv::machine::Kill;
use simenv::network::Delays;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use types::credentials::Credentials;
use types::dir_stripes::DirSpec;
use types::errno::Errno;
use types::fid::Fid;
use types::target::TargetIndex;
use wire::mds::{Getattr, Lookup, MdsOp, MdsReply, SetxattrFlags};
use wire::message::{Op, OpReply};

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
                // Its names move.
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

/// A directory goes to these MDTs, and is whole there.
async fn goes(client: &Arc<Client>, dir: NodeId, mdts: &[u16]) {
    for mdt in mdts {
        let spec = DirSpec { count: 1, mdts: vec![TargetIndex(*mdt)], ..DirSpec::default() };
        let (name, value) = (Bytes::from_static(MDTS_XATTR), Bytes::from(spec.encode()));
        let set = client.clone();
        let set = set.setxattr(Caller::root(), dir, name, value, SetxattrFlags::default()).await;
        set.expect("it goes");
        client.session().env.clock.sleep(Duration::from_secs(2)).await;
    }
}

/// What a thread is told that makes this name, time after time.
async fn makes(client: &Arc<Client>, thread: u32, dir: NodeId, text: &str) -> [Errno; 3] {
    let mut told = [Errno(0); 3];
    for told in &mut told {
        let (caller, name) = (Caller { pid: thread, ..Caller::root() }, crate::by_hand::name(text));
        let made = client.clone().mknod(caller, dir, name, libc::S_IFREG | 0o644, 0).await;
        *told = made.map_or_else(|error| error.errno(), |_| Errno(0));
    }
    told
}

#[test]
fn the_kernel_looks_again_for_a_directory_that_no_mdt_knows() {
    let (cluster, _) = start(1, 3);
    let ((first, one), (second, two)) = (mounted(&cluster), mounted(&cluster));
    let d = || crate::by_hand::name("d");
    let client = one.clone();
    let dir = does(&cluster, &first, async move {
        client.mkdir(Caller::root(), NodeId::ROOT, d(), 0o755).await.expect("a directory")
    });
    let find = move |client: Arc<Client>| async move {
        client.lookup(Caller::root(), NodeId::ROOT, d()).await.expect("it is there")
    };
    let old = does(&cluster, &second, find(two.clone()));
    assert_eq!(old.attr.fid, dir.attr.fid);
    let client = one.clone();
    does(&cluster, &first, async move { goes(&client, dir.node, &[1, 2]).await });
    // The MDT of the first inode has nothing left that says where the directory went.
    run(&cluster, Duration::from_secs(60));
    cluster.kill_server(FIRST_MDT, Kill::Power);
    run(&cluster, Duration::from_millis(300));
    cluster.start_server(FIRST_MDT);
    run(&cluster, Duration::from_secs(10));
    let (again, gone, made, there) = (Errno::ESTALE, Errno::ENOENT, Errno(0), Errno::EEXIST);
    let client = two.clone();
    let told = does(&cluster, &second, async move {
        let unnumbered = makes(&client, 0, old.node, "f").await;
        let by_path = makes(&client, 7, old.node, "f").await;
        let now = find(client.clone()).await;
        (unnumbered, by_path, now, makes(&client, 7, now.node, "f").await)
    });
    assert_eq!((told.0, told.1, told.3), ([again; 3], [again, gone, gone], [made, there, there]));
    let now = told.2;
    assert_ne!(now.attr.fid, old.attr.fid);
    let client = one.clone();
    does(&cluster, &first, async move {
        let now = find(client.clone()).await;
        let caller = Caller::root;
        client.clone().unlink(caller(), now.node, crate::by_hand::name("f")).await.expect("unlink");
        client.rmdir(caller(), NodeId::ROOT, d()).await.expect("it goes");
    });
    let client = two.clone();
    let told = does(&cluster, &second, async move { makes(&client, 7, now.node, "f").await });
    assert_eq!(told, [again, gone, gone], "it was removed");
}

/// Asks MDTs by hand: nothing is asked again, as a client would.
struct Asks {
    env: Env,
    imports: Vec<Arc<Import>>,
}

impl Asks {
    async fn one(&self, mdt: u16, op: MdsOp) -> Result<MdsReply, Errno> {
        match self.imports[usize::from(mdt)].one(&Credentials::root(), Op::Mds(op)).await {
            Ok(OpReply::Mds(reply)) => Ok(reply),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.errno()),
        }
    }

    /// The inode that the name leads to; `None`: that is on the MDT of the root.
    async fn leads(&self) -> Option<Fid> {
        let look = Lookup { parent: Fid::ROOT, name: crate::by_hand::name("d") };
        match self.one(0, MdsOp::Lookup(look)).await {
            Ok(MdsReply::Remote { fid, .. }) => Some(fid),
            other => other.map(|_| None).expect("it is there"),
        }
    }

    /// Looks until it is told to end; counts how often it was on another MDT.
    async fn look(self, ends: Arc<AtomicBool>, done: Arc<AtomicU32>) {
        while !ends.load(Ordering::Relaxed) {
            self.env.clock.sleep(Duration::from_micros(300)).await;
            let Some(fid) = self.leads().await else { continue };
            match self.one(fid.mdt(), MdsOp::Getattr(Getattr::of(fid))).await {
                // It may have gone on since, but then its name leads to where it is.
                Err(Errno::ESTALE) => {
                    assert_ne!(self.leads().await, Some(fid), "its name leads to what is not there")
                }
                told => drop(told.expect("its attributes")),
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Messages are late: for a long time some MDTs have done their part, and others have not.
fn found(seed: u64) {
    let (cluster, hand) = start(seed, 3);
    let (first, one) = mounted(&cluster);
    let client = one.clone();
    let dir = does(&cluster, &first, async move {
        let d = crate::by_hand::name("d");
        client.mkdir(Caller::root(), NodeId::ROOT, d, 0o755).await.expect("a directory")
    });
    let late = Delays { min_us: 20, max_us: 200, late: 250, late_us: 80_000, rate: 1000 };
    cluster.world.network().set_delays(late);
    let ends = Arc::new(AtomicBool::new(false));
    let (went, looked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let life = migrate(one.clone(), dir.node, ends.clone(), went.clone());
    first.env.tasks.spawn("migrate", Box::pin(life));
    let env = hand.env.clone();
    let imports = (0..3).map(|mdt| Hand::import(&cluster, &env, 2, mdt)).collect();
    let look = Asks { env, imports }.look(ends.clone(), looked.clone());
    hand.env.tasks.spawn("look", Box::pin(look));
    run(&cluster, Duration::from_secs(20));
    ends.store(true, Ordering::Relaxed);
    assert!(cluster.world.failures().is_empty(), "seed {seed}: {:?}", cluster.world.failures());
    let (went, looked) = (went.load(Ordering::Relaxed), looked.load(Ordering::Relaxed));
    println!("seed {seed}: it went {went} times, and was looked up {looked} times");
    assert!(went > 4 && looked > 20, "seed {seed}: {went}, {looked}");
}

#[test]
fn its_name_leads_to_it_though_messages_are_late() {
    (1..=4).for_each(found);
}
