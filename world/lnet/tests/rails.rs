//! A peer on two cables, in virtual time.

use bytes::Bytes;
use env::Env;
use lnet::error::LinkError;
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, Payload};
use lnet::peer::{Ask, Peer};
use lnet::rails::Rail;
use simenv::machine::MachineId;
use simenv::world::World;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::net::Net;
use types::nid::Nid;
use types::session::ClusterId;

const CLUSTER: ClusterId = ClusterId(0xc1);
const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(1000);

/// Has a session with everybody, and takes what comes.
struct Sink;

impl Handler for Sink {
    fn request(&self, link: &Arc<Link>, frame: Frame) -> Work {
        link.has_session();
        let answer = Payload { body: Bytes::from_static(b"ok"), ..Payload::default() };
        Work { future: Box::pin(std::future::ready(Some(answer))), waits: false, room: frame.room }
    }
}

async fn put(peer: &Peer, bytes: usize) -> Result<(), LinkError> {
    let bulk = if bytes == 0 { Vec::new() } else { vec![Bytes::from(vec![7; bytes])] };
    let payload = Payload { bulk, ..Payload::default() };
    let ask = Ask { reply_bulk: 0, limit: None, outside_window: false, background: false };
    peer.request(payload, ask).await.map(drop)
}

/// Two machines on two cables.
struct Pair {
    world: Arc<World>,
    env: Env,
    far: Arc<Lnet>,
    near: Arc<Lnet>,
    /// The server, by each cable.
    nids: [Nid; 2],
    client: MachineId,
    server: MachineId,
}

fn with_two_cables<F: Future<Output = ()> + Send + 'static>(
    seed: u64,
    test: impl FnOnce(Pair) -> F + Send + 'static,
) {
    let world = Arc::new(World::new(seed));
    let (of_server, serving) = world.start(world.machine(0));
    let (env, process) = world.start(world.machine(0));
    let at = [0, 1].map(|cable| SocketAddr::new(serving.machine().ip_on(cable), 988));
    let (client, server, here) = (process.machine(), serving.machine(), world.clone());
    let run = async move {
        let near = Arc::new(Lnet::new(of_server, CLUSTER, false, Arc::new(Sink)));
        for at in at {
            near.listen(at).await.unwrap();
        }
        let far = Arc::new(Lnet::new(env.clone(), CLUSTER, false, Arc::new(Sink)));
        let pair = Pair {
            world: here,
            env,
            far,
            near: near.clone(),
            nids: at.map(Nid::Tcp),
            client,
            server,
        };
        test(pair).await;
        near.shutdown().await;
    };
    world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
    drop((serving, process));
}

/// MiB that each NID was sent.
fn sent(peer: &Peer, nids: [Nid; 2]) -> [u64; 2] {
    let all = peer.nids();
    nids.map(|nid| {
        let of = all.iter().find(|one| one.nid == nid);
        of.map_or(0, |one| one.traffic.sent_bytes >> 20)
    })
}

#[test]
fn large_requests_are_spread_and_small_ones_are_not() {
    with_two_cables(1, |Pair { far, nids, env, .. }| async move {
        let peer = far.peer(nids[0]).await.unwrap();
        put(&peer, 0).await.unwrap();
        assert_eq!(peer.bulk_links(), 0);
        put(&peer, MIB).await.unwrap();
        env.clock.sleep(SECOND).await;
        assert_eq!(peer.bulk_links(), 4, "two on each path");
        for _ in 0..100 {
            put(&peer, MIB).await.unwrap();
        }
        let [a, b] = sent(&peer, nids);
        assert!((49..=52).contains(&a) && (49..=52).contains(&b), "{a} {b}");
        assert_eq!(far.traffic().len(), 2, "{:?}", far.traffic());
        let all: u64 = far.traffic().values().map(|one| one.sent_bytes >> 20).sum();
        assert_eq!(all, 101);
    });
}

#[test]
fn a_cut_path_is_left_and_used_again() {
    with_two_cables(2, |Pair { world, far, nids, env, .. }| async move {
        let peer = far.peer(nids[0]).await.unwrap();
        put(&peer, 0).await.unwrap();
        put(&peer, MIB).await.unwrap();
        env.clock.sleep(SECOND).await;
        world.network().cut_cable(1);
        let (cut, mut failed) = (env.clock.now(), 0);
        // It is noticed, and those that were on it fail: the layer above sends them again.
        while env.clock.now() < cut + 30 * SECOND {
            failed += usize::from(put(&peer, MIB).await.is_err());
            env.clock.sleep(SECOND / 10).await;
        }
        assert!((1..=4).contains(&failed), "{failed} requests failed");
        assert!(peer.is_open(), "the control link goes on");
        let before = sent(&peer, nids);
        assert_eq!(peer.nids().iter().map(|one| one.up).collect::<Vec<_>>(), [true, false]);
        world.network().heal();
        let healed = env.clock.now();
        while !peer.nids()[1].up {
            put(&peer, MIB).await.unwrap();
            env.clock.sleep(SECOND / 10).await;
        }
        let waited = env.clock.now() - healed;
        assert!(waited < 7 * SECOND, "{waited:?}");
        for _ in 0..40 {
            put(&peer, MIB).await.unwrap();
        }
        assert!(sent(&peer, nids)[1] >= before[1].min(1) + 15, "{:?}", sent(&peer, nids));
        // The path of the control link: this peer is lost, and there is another one.
        world.network().cut_cable(0);
        peer.closed().await;
        let other = far.peer(nids[1]).await.unwrap();
        put(&other, 0).await.unwrap();
        put(&other, MIB).await.unwrap();
        env.clock.sleep(SECOND).await;
        put(&other, MIB).await.unwrap();
    });
}

#[test]
fn connections_begin_at_the_interfaces_that_were_named() {
    with_two_cables(3, |Pair { world, far, nids, env, client, .. }| async move {
        let rail = |cable: u8| Rail { net: Net::TCP, address: client.ip_on(cable), prefix: 16 };
        far.set_rails(Net::TCP, vec![rail(0), rail(1)]);
        let peer = far.peer(nids[1]).await.unwrap();
        put(&peer, 0).await.unwrap();
        for _ in 0..20 {
            put(&peer, MIB).await.unwrap();
            env.clock.sleep(SECOND / 20).await;
        }
        let here: Vec<Nid> = far.traffic().into_keys().collect();
        let own = [0, 1].map(|cable| Nid::Tcp(SocketAddr::new(client.ip_on(cable), 988)));
        assert_eq!(here, own);
        drop(world);
    });
}

#[test]
fn another_process_at_a_nid_of_the_peer_gets_nothing() {
    with_two_cables(4, |Pair { world, far, near, nids, env, server, .. }| async move {
        let peer = far.peer(nids[0]).await.unwrap();
        put(&peer, 0).await.unwrap();
        assert!(near.stop_listening(nids[1]));
        env.clock.sleep(SECOND).await;
        let (other, process) = world.start(server);
        let lnet = Lnet::new(other, CLUSTER, false, Arc::new(Sink));
        lnet.listen(SocketAddr::new(server.ip_on(1), 988)).await.unwrap();
        for _ in 0..20 {
            put(&peer, MIB).await.unwrap();
            env.clock.sleep(SECOND / 4).await;
        }
        assert!(peer.is_open());
        let there = peer.nids().into_iter().find(|one| one.nid == nids[1]).unwrap();
        assert_eq!((there.up, there.links, there.traffic.sent), (false, 0, 0));
        lnet.shutdown().await;
        drop(process);
    });
}
