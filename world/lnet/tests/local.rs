//! Processes of one machine, in virtual time: when they use its local sockets, and when the
//! network.

use bytes::Bytes;
use env::Env;
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, Payload};
use lnet::peer::{Ask, Peer};
use parking_lot::Mutex;
use simenv::machine::{Kill, MachineId};
use simenv::world::World;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use types::net::Net;
use types::nid::Nid;
use types::session::ClusterId;

const CLUSTER: ClusterId = ClusterId(0xc1);
const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(1000);

/// Has a session with everybody, takes what comes, and notes from where.
#[derive(Default)]
struct Sink(Mutex<Vec<Nid>>);

impl Handler for Sink {
    fn request(&self, link: &Arc<Link>, frame: Frame) -> Work {
        link.has_session();
        self.0.lock().push(link.origin());
        let answer = Payload { body: Bytes::from_static(b"ok"), ..Payload::default() };
        Work { future: Box::pin(std::future::ready(Some(answer))), waits: false, room: frame.room }
    }
}

fn folder() -> Option<PathBuf> {
    Some("/run/sheen/local".into())
}

fn lnet(env: &Env, sink: &Arc<Sink>, local: bool) -> Lnet {
    let lnet = Lnet::new(env.clone(), CLUSTER, true, sink.clone());
    lnet.set_local(folder().filter(|_| local));
    lnet
}

async fn put(peer: &Peer, bytes: usize) -> bool {
    let bulk = if bytes == 0 { Vec::new() } else { vec![Bytes::from(vec![7; bytes])] };
    let payload = Payload { bulk, ..Payload::default() };
    let ask = Ask { reply_bulk: 0, limit: None, outside_window: false, background: false };
    peer.request(payload, ask).await.is_ok()
}

/// MiB that it sent: through the kernel, over networks.
fn sent(lnet: &Lnet) -> (u64, u64) {
    let network: u64 = lnet.traffic().values().map(|one| one.sent_bytes).sum();
    (lnet.local().traffic.sent_bytes >> 20, network >> 20)
}

/// Sends a few MiB to a NID; what it then has sent, and how many of the peer's links are local.
async fn send(env: &Env, lnet: &Lnet, nid: Nid) -> ((u64, u64), Vec<(usize, usize)>) {
    let peer = lnet.peer(nid).await.unwrap();
    assert!(put(&peer, 0).await && put(&peer, MIB).await);
    env.clock.sleep(SECOND).await;
    assert!(put(&peer, MIB).await && put(&peer, 0).await);
    let links = peer.nids().iter().map(|one| (one.local, one.links)).collect();
    (sent(lnet), links)
}

fn nids(machine: MachineId) -> [Nid; 2] {
    let at = |cable| SocketAddr::new(machine.ip_on(cable), 988);
    [Nid::Tcp(at(0)), Nid::new("tcp1".parse().unwrap(), at(1))]
}

async fn listen(lnet: &Lnet, machine: MachineId) {
    for nid in nids(machine) {
        lnet.listen_on(nid.net().unwrap(), nid.address().unwrap()).await.unwrap();
    }
}

#[test]
fn a_node_of_the_own_machine_is_reached_locally_over_one_path_and_known_by_its_address() {
    let world = World::new(1);
    let machine = world.machine(0);
    let ((server, _s), (client, _c)) = (world.start(machine), world.start(machine));
    let (far, _f) = world.start(world.machine(0));
    let run = async move {
        let (heard, mute) = (Arc::new(Sink::default()), Arc::default());
        let served = lnet(&server, &heard, true);
        listen(&served, machine).await;
        let [nid, _] = nids(machine);
        let near = lnet(&client, &mute, true);
        near.join(nids(machine)[1].net().unwrap());
        assert_eq!(send(&client, &near, nid).await, ((2, 0), vec![(3, 3)]));
        let known = Nid::Tcp(SocketAddr::new(machine.ip(), 0));
        assert!(heard.0.lock().iter().all(|nid| *nid == known), "{:?}", heard.0.lock());
        let accepted = served.accepted();
        assert_eq!(
            accepted.values().map(|one| (one.local, one.links)).collect::<Vec<_>>(),
            [(3, 3)]
        );
        // With both NIDs there are two paths over networks.
        let away = lnet(&far, &mute, true);
        away.join(nids(machine)[1].net().unwrap());
        assert_eq!(send(&far, &away, nid).await, ((0, 2), vec![(0, 3), (0, 2)]));
        let without = lnet(&client, &mute, false);
        assert_eq!(send(&client, &without, nid).await, ((0, 2), vec![(0, 3)]));
        // A NID of a network that this process is not on is as unreachable as over TCP.
        let other = lnet(&client, &mute, true);
        assert!(other.peer(nids(machine)[1]).await.is_err());
        other.set_nets(&[Net::TCP, nids(machine)[1].net().unwrap()]);
        assert!(other.peer(nids(machine)[1]).await.is_ok());
        for lnet in [near, away, without, other, served] {
            lnet.shutdown().await;
        }
    };
    world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
}

#[test]
fn it_can_be_switched_off_and_on_while_connections_stand() {
    let world = World::new(2);
    let machine = world.machine(0);
    let ((server, _s), (client, _c)) = (world.start(machine), world.start(machine));
    let run = async move {
        let sink: Arc<Sink> = Arc::default();
        let served = lnet(&server, &sink, false);
        listen(&served, machine).await;
        let [nid, _] = nids(machine);
        let near = lnet(&client, &sink, true);
        assert_eq!(send(&client, &near, nid).await.0, (0, 2), "the server does not offer it");
        served.set_local(folder());
        client.clock.sleep(SECOND).await;
        assert!(near.hang_up(nid));
        assert_eq!(send(&client, &near, nid).await, ((2, 2), vec![(3, 3)]));
        served.set_local(None);
        client.clock.sleep(SECOND).await;
        assert!(put(&near.peer(nid).await.unwrap(), MIB).await, "it goes on");
        assert_eq!(sent(&near), (3, 2));
        assert!(near.hang_up(nid));
        assert_eq!(send(&client, &near, nid).await.0, (3, 4));
        served.set_local(folder());
        client.clock.sleep(SECOND).await;
        near.set_local(None);
        assert!(near.hang_up(nid));
        assert_eq!(send(&client, &near, nid).await.0, (3, 6), "the client does not use it");
        near.shutdown().await;
        served.shutdown().await;
        assert_eq!((near.tasks(), served.tasks()), (0, 0));
    };
    world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
}

#[test]
fn a_server_that_is_killed_and_started_again_is_found_again() {
    for seed in 0..20 {
        let world = Arc::new(World::new(seed));
        let machine = world.machine(0);
        let ((server, process), (client, _c)) = (world.start(machine), world.start(machine));
        let here = world.clone();
        let run = async move {
            let sink: Arc<Sink> = Arc::default();
            let served = lnet(&server, &sink, true);
            listen(&served, machine).await;
            let [nid, _] = nids(machine);
            let near = lnet(&client, &sink, true);
            let peer = near.peer(nid).await.unwrap();
            assert!(put(&peer, 0).await);
            here.kill(&process, Kill::Process);
            drop((served, server));
            assert!(!put(&peer, 0).await);
            drop(peer);
            assert!(near.peer(nid).await.is_err(), "there is no server");
            let (server, _s) = here.start(machine);
            let served = lnet(&server, &sink, true);
            listen(&served, machine).await;
            assert_eq!(send(&client, &near, nid).await.1, [(3, 3)]);
            near.shutdown().await;
            served.shutdown().await;
        };
        world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
    }
}

#[test]
fn a_seed_is_repeated() {
    let hash = |seed| {
        let world = World::new(seed);
        let machine = world.machine(0);
        let ((server, _s), (client, _c)) = (world.start(machine), world.start(machine));
        let run = async move {
            let sink: Arc<Sink> = Arc::default();
            let served = lnet(&server, &sink, true);
            listen(&served, machine).await;
            let near = lnet(&client, &sink, true);
            send(&client, &near, nids(machine)[0]).await;
            near.shutdown().await;
            served.shutdown().await;
        };
        world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
        world.hash().value()
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
