//! Under which NID a server knows a node behind routers, in virtual time and without keys.

use bytes::Bytes;
use lnet::link::{Handler, Link, Work};
use lnet::nets::Route;
use lnet::node::Lnet;
use lnet::payload::{Frame, Payload};
use lnet::peer::Ask;
use parking_lot::Mutex;
use simenv::machine::{MachineId, Process};
use simenv::world::World;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::net::Net;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId, Pairing};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{Hello, Purpose};
use wire::message::{VERSION_MAX, VERSION_MIN};
use wire::route::{ROUTE_BYTES, Route as RouteBody};

const CLUSTER: ClusterId = ClusterId(0xc1);
const TIME_MAX: Duration = Duration::from_secs(1000);

/// Notes under which NID each request came.
#[derive(Default)]
struct Notes(Mutex<Vec<Nid>>);

impl Handler for Notes {
    fn request(&self, link: &Arc<Link>, frame: Frame) -> Work {
        link.has_session();
        self.0.lock().push(link.origin());
        let answer = Payload { body: Bytes::from_static(b"ok"), ..Payload::default() };
        Work { future: Box::pin(std::future::ready(Some(answer))), waits: false, room: frame.room }
    }
}

fn net(text: &str) -> Net {
    text.parse().unwrap()
}

/// The NID of a machine on the network of this number, which has its own cable.
fn nid(machine: MachineId, number: u8) -> Nid {
    let net = Net { number, ..Net::TCP };
    Nid::new(net, SocketAddr::new(machine.ip_on(number), 988))
}

fn route(to: &str, gateway: Nid) -> Route {
    Route { net: net(to), gateway, hops: None, priority: 0 }
}

/// Server on tcp, routers from tcp to tcp1 and from tcp1 to tcp2, client on tcp2.
struct Chain {
    server: Lnet,
    seen: Arc<Notes>,
    /// From the server on.
    routers: [Lnet; 2],
    client: Lnet,
    /// Of server, routers and client.
    machines: [MachineId; 4],
    /// A process at the client's machine, beside it.
    beside: env::Env,
}

impl Chain {
    async fn new(envs: Vec<env::Env>, machines: [MachineId; 4], beside: env::Env) -> Chain {
        let seen = Arc::<Notes>::default();
        let [s, r1, r2, _] = machines;
        let mut envs = envs.into_iter();
        let mut lnet =
            |handler: Arc<Notes>| Lnet::new(envs.next().expect("four"), CLUSTER, false, handler);
        let server = lnet(seen.clone());
        let routers = [lnet(Arc::default()), lnet(Arc::default())];
        let client = lnet(Arc::default());
        server.listen_on(net("tcp"), nid(s, 0).address().unwrap()).await.unwrap();
        for (router, machine, nets) in [(&routers[0], r1, [0, 1]), (&routers[1], r2, [1, 2])] {
            router.set_nets(&nets.map(|number| Net { number, ..Net::TCP }));
            for number in nets {
                let at = nid(machine, number);
                router.listen_on(at.net().unwrap(), at.address().unwrap()).await.unwrap();
            }
            router.forward(true);
            router.allow_forwarding("all", vec![nid(s, 0)]);
        }
        assert!(routers[1].add_route(route("tcp", nid(r1, 1))));
        client.set_nets(&[net("tcp2")]);
        assert!(client.add_route(Route { hops: Some(2), ..route("tcp", nid(r2, 2)) }));
        Chain { server, seen, routers, client, machines, beside }
    }

    /// Under which NID a new connection of the client is seen, without its port.
    async fn seen(&self) -> Nid {
        let at = nid(self.machines[0], 0);
        self.client.hang_up(at);
        let peer = self.client.peer(at).await.unwrap();
        let ask = Ask { reply_bulk: 0, limit: None, outside_window: false, background: false };
        peer.request(Payload::default(), ask).await.unwrap();
        lnet::traffic::address(*self.seen.0.lock().last().unwrap())
    }

    async fn end(self) {
        let Chain { server, routers: [a, b], client, .. } = self;
        for lnet in [client, b, a, server] {
            lnet.shutdown().await;
        }
    }
}

fn with_chain<F: Future<Output = ()> + Send + 'static>(
    seed: u64,
    test: impl FnOnce(Chain) -> F + Send + 'static,
) {
    let world = World::new(seed);
    let started: Vec<(env::Env, Arc<Process>)> =
        (0..4).map(|_| world.start(world.machine(0))).collect();
    let machines = [0, 1, 2, 3].map(|n: usize| started[n].1.machine());
    let (beside, process) = world.start(machines[3]);
    let (envs, processes): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let run = async move { test(Chain::new(envs, machines, beside).await).await };
    world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
    drop((processes, process));
}

#[test]
fn routers_that_a_server_knows_are_believed() {
    with_chain(1, |chain| async move {
        let [_, r1, r2, client] = chain.machines;
        assert_eq!(chain.seen().await, nid(r1, 0), "the server knows no router");
        assert!(chain.server.add_route(route("tcp2", nid(r1, 0))));
        // The first router does not know that the second one leads there.
        assert_eq!(chain.seen().await, nid(r1, 0), "of tcp1 the server knows nothing");
        assert!(chain.server.add_route(route("tcp1", nid(r1, 0))));
        assert_eq!(chain.seen().await, nid(r2, 1));
        assert!(chain.routers[0].add_route(route("tcp2", nid(r2, 1))));
        assert_eq!(chain.seen().await, nid(client, 2));
        let accepted: Vec<Nid> = chain.server.accepted().into_keys().collect();
        assert_eq!(accepted, [nid(client, 2)], "it is listed so");
        assert!(chain.server.remove_route(net("tcp2"), nid(r1, 0)));
        assert_eq!(chain.seen().await, nid(r1, 0));
        chain.end().await;
    });
}

/// Greets the server as another node, over this connection.
async fn greet_as(
    (mut read, mut write): (lnet::seal::Read, lnet::seal::Write),
    told: Nid,
    to: Nid,
) {
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        purpose: Purpose::Control,
        process: ClientUuid(7),
        cluster: CLUSTER,
        pairing: Pairing(9),
    };
    let header = |kind, tag, bytes: usize| Header {
        version: VERSION_MAX,
        kind,
        tag,
        body_bytes: bytes as u32,
        bulk_bytes: 0,
        body_crc: None,
        bulk_crc: None,
        cluster: CLUSTER,
        source: told,
        target: to,
    };
    let body = hello.encode();
    let greeting = [&header(FrameKind::Hello, 0, body.len()).encode()[..], &body].concat();
    write.write_all(&greeting).await.unwrap();
    let request = [0; lnet::payload::HEAD_BYTES];
    let asked = [&header(FrameKind::Request, 1, request.len()).encode()[..], &request].concat();
    write.write_all(&asked).await.unwrap();
    for _ in 0..2 {
        let mut bytes = [0; HEADER_BYTES];
        read.read_exact(&mut bytes).await.unwrap();
        let header = Header::decode(&bytes).unwrap();
        let mut body = vec![0; (header.body_bytes + header.bulk_bytes) as usize];
        read.read_exact(&mut body).await.unwrap();
    }
}

#[test]
fn a_node_that_lies_is_seen_where_it_is() {
    with_chain(2, |chain| async move {
        let [server, r1, r2, client] = chain.machines;
        for to in ["tcp1", "tcp2"] {
            assert!(chain.server.add_route(route(to, nid(r1, 0))));
        }
        assert!(chain.routers[0].add_route(route("tcp2", nid(r2, 1))));
        // A liar beside the client, by a router that believes it nothing.
        let to = nid(server, 0);
        for told in ["10.2.0.77@tcp2", "10.1.0.77@tcp1", "10.0.0.77@tcp", "0@lo", "127.0.0.1@tcp2"]
        {
            let stream = chain.client.stream(to).await.unwrap();
            greet_as(stream, told.parse().unwrap(), to).await;
            let seen = lnet::traffic::address(*chain.seen.0.lock().last().unwrap());
            assert_eq!(seen, nid(client, 2), "it said {told}");
        }
        // One that comes directly.
        let stream = chain.beside.net.connect(to.address().unwrap()).await.unwrap();
        greet_as(stream.split(), nid(r2, 2), to).await;
        let seen = lnet::traffic::address(*chain.seen.0.lock().last().unwrap());
        assert_eq!(seen, nid(client, 0));
        // One that makes its way through the first router, and speaks for others.
        let gateway = nid(r1, 1).address().unwrap();
        let (mut read, mut write) = chain.beside.net.connect(gateway).await.unwrap().split();
        let body = RouteBody { hops: 4 }.encode();
        let route = Header {
            version: VERSION_MAX,
            kind: FrameKind::Route,
            tag: 0,
            body_bytes: body.len() as u32,
            bulk_bytes: 0,
            body_crc: None,
            bulk_crc: None,
            cluster: CLUSTER,
            source: nid(client, 1),
            target: to,
        };
        write.write_all(&[&route.encode()[..], &body].concat()).await.unwrap();
        read.read_exact(&mut [0; HEADER_BYTES + ROUTE_BYTES]).await.unwrap();
        greet_as((read, write), nid(r2, 2), to).await;
        let seen = lnet::traffic::address(*chain.seen.0.lock().last().unwrap());
        assert_eq!(seen, nid(client, 1));
        chain.end().await;
    });
}
