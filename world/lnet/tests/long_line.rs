//! Links of a peer over lines of different length, in virtual time.

use bytes::Bytes;
use env::Env;
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, HEAD_BYTES, Payload};
use lnet::peer::{Ask, Peer};
use simenv::network::Delays;
use simenv::world::World;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::nid::Nid;
use types::session::ClusterId;

const CLUSTER: ClusterId = ClusterId(0xc1);
const MIB: usize = 1 << 20;
const TIME_MAX: Duration = Duration::from_secs(1000);

/// Has a session with everybody, and answers a request with its own body.
struct Echo;

impl Handler for Echo {
    fn request(&self, link: &Arc<Link>, frame: Frame) -> Work {
        link.has_session();
        let payload = Payload { body: frame.body.slice(HEAD_BYTES..), ..Payload::default() };
        Work { future: Box::pin(std::future::ready(Some(payload))), waits: false, room: frame.room }
    }
}

async fn ask(peer: &Peer, bulk: usize, background: bool) {
    let bulk = if bulk == 0 { Vec::new() } else { vec![Bytes::from(vec![7; bulk])] };
    let payload = Payload { body: Bytes::from_static(b"hello"), bulk, ..Payload::default() };
    let ask = Ask { reply_bulk: 0, limit: None, outside_window: false, background };
    assert_eq!(&peer.request(payload, ask).await.unwrap().body[HEAD_BYTES..], b"hello");
}

/// Runs a client on a line with this one-way delay; `rate`: bytes per microsecond.
fn over<F: Future<Output = ()> + Send + 'static>(
    us: u64,
    rate: u64,
    test: impl FnOnce(Env, Arc<Peer>) -> F + Send + 'static,
) {
    let world = World::new(us);
    world.network().set_delays(Delays { min_us: us, max_us: us, late: 0, late_us: us, rate });
    let (server, serving) = world.start(world.machine(0));
    let (client, process) = world.start(world.machine(0));
    let to = SocketAddr::new(serving.machine().ip(), 988);
    let run = async move {
        let near = Lnet::new(server, CLUSTER, false, Arc::new(Echo));
        near.listen(to).await.unwrap();
        let far = Lnet::new(client.clone(), CLUSTER, false, Arc::new(Echo));
        let peer = far.peer(Nid::Tcp(to)).await.unwrap();
        ask(&peer, 0, false).await;
        test(client, peer.clone()).await;
        assert!(peer.is_open(), "closing a link that is not needed ends nothing else");
    };
    world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
    drop((serving, process));
}

/// Begins requests of 1 MiB each; ready when they are answered.
async fn stream(env: &Env, peer: &Arc<Peer>, count: usize) {
    let (done, mut all) = env::watch::channel(0);
    let done = Arc::new(done);
    for _ in 0..count {
        let (peer, done) = (peer.clone(), done.clone());
        let one = async move {
            ask(&peer, MIB, true).await;
            done.send_modify(|done| *done += 1);
        };
        env.tasks.spawn("one", Box::pin(one));
    }
    all.wait_for(|done| *done == count).await.unwrap();
}

#[test]
fn a_near_peer_has_two_bulk_links_once_it_needs_one() {
    over(50, 1000, |env, peer| async move {
        env.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(peer.bulk_links(), 0, "nothing large was asked for");
        stream(&env, &peer, 64).await;
        assert_eq!(peer.bulk_links(), 2);
    });
}

#[test]
fn a_far_peer_has_two_at_once_sixteen_under_load_and_two_a_minute_later() {
    over(100_000, 1000, |env, peer| async move {
        assert_eq!(peer.round_trip(), Some(Duration::from_millis(200)));
        env.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(peer.bulk_links(), 2, "before they are needed");
        stream(&env, &peer, 64).await;
        assert_eq!(peer.bulk_links(), 16);
        env.clock.sleep(Duration::from_secs(121)).await;
        assert_eq!(peer.bulk_links(), 2);
        stream(&env, &peer, 64).await;
        assert_eq!(peer.bulk_links(), 16);
    });
}

#[test]
fn a_question_does_not_queue_behind_data_in_the_background() {
    over(100_000, 100, |env, peer| async move {
        // The first bulk links stand by then.
        env.clock.sleep(Duration::from_secs(1)).await;
        let (streaming, flooded) = (peer.clone(), env.clone());
        env.tasks.spawn("stream", Box::pin(async move { stream(&flooded, &streaming, 400).await }));
        env.clock.sleep(Duration::from_secs(1)).await;
        let begun = env.clock.now();
        ask(&peer, 0, false).await;
        assert!(env.clock.now() - begun < Duration::from_millis(210), "one round trip");
    });
}
