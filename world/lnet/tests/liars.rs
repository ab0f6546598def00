//! Routers that say what only a node with a key may say, in virtual time. The seal is a twin
//! without cryptography.

use bytes::Bytes;
use env::BoxFuture;
use lnet::error::LinkError;
use lnet::link::{Handler, Link, Work};
use lnet::nets::Route;
use lnet::node::Lnet;
use lnet::payload::{Frame, Payload};
use lnet::seal::{
    IT_IS_OPEN, Protection, Reach, Read, START_BYTES, Seal, Sealed, Write, is_sealed,
};
use simenv::machine::MachineId;
use simenv::world::World;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::net::Net;
use types::nid::Nid;
use types::principal::{KeyHash, Principal, Role};
use types::session::{ClientUuid, ClusterId};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{HelloReply, Welcome};
use wire::message::{VERSION_MAX, VERSION_MIN};
use wire::route::{ROUTE_BYTES, Routed};

const CLUSTER: ClusterId = ClusterId(0xc1);
const TIME_MAX: Duration = Duration::from_secs(1000);
const HELLO: [u8; START_BYTES] = [0x16, 0x03, 0, 0, 0, 1, 0, 0];

struct Nobody;

impl Handler for Nobody {
    fn request(&self, _link: &Arc<Link>, frame: Frame) -> Work {
        let answer = Payload { body: Bytes::from_static(b"ok"), ..Payload::default() };
        Work { future: Box::pin(std::future::ready(Some(answer))), waits: false, room: frame.room }
    }
}

/// Both ends say the same words; an end that says others has no key.
struct Twin;

fn sealed(read: Read, write: Write) -> Sealed {
    let principal = Principal {
        cluster: CLUSTER,
        role: Role::Server,
        name: "server".parse().unwrap(),
        key: KeyHash([1; 32]),
        nids: Vec::new(),
    };
    let protection = Protection { cipher: "none", expires: Some(7), authority: None };
    Sealed { principal: Arc::new(principal), protection, read, write }
}

impl Seal for Twin {
    fn call(
        &self,
        nid: Nid,
        mut read: Read,
        mut write: Write,
        _reach: Reach,
    ) -> BoxFuture<'_, Result<Sealed, LinkError>> {
        Box::pin(async move {
            let lost = |error: std::io::Error| LinkError::Lost { nid, reason: error.to_string() };
            write.write_all(&HELLO).await.map_err(lost)?;
            let mut start = [0; START_BYTES];
            read.read_exact(&mut start).await.map_err(lost)?;
            match is_sealed(&start) {
                true => Ok(sealed(read, write)),
                false => Err(LinkError::Key { nid, reason: IT_IS_OPEN.to_owned() }),
            }
        })
    }

    fn answer(
        &self,
        _nid: Nid,
        _start: [u8; START_BYTES],
        read: Read,
        mut write: Write,
        _reach: Reach,
    ) -> BoxFuture<'_, Result<Option<Sealed>, LinkError>> {
        Box::pin(async move {
            write.write_all(&HELLO).await.unwrap();
            Ok(Some(sealed(read, write)))
        })
    }

    fn is_revoked(&self, _principal: &Principal) -> bool {
        false
    }

    fn is_withdrawn(&self, _protection: &Protection) -> bool {
        false
    }
}

fn net(number: u8) -> Net {
    Net { number, ..Net::TCP }
}

/// The NID of a machine on the network of this number, which has its own cable.
fn nid(machine: MachineId, number: u8) -> Nid {
    Nid::new(net(number), SocketAddr::new(machine.ip_on(number), 988))
}

fn frame(kind: FrameKind, body: &[u8], target: Nid) -> Vec<u8> {
    let header = Header {
        version: VERSION_MAX,
        kind,
        tag: 0,
        body_bytes: body.len() as u32,
        bulk_bytes: 0,
        body_crc: None,
        bulk_crc: None,
        cluster: CLUSTER,
        source: target,
        target,
    };
    [&header.encode()[..], body].concat()
}

/// A router that says that there is a way, and then that the node at its end has no key.
async fn lie(env: env::Env, at: Nid, told: Arc<AtomicUsize>) {
    let listener = env.net.listen(at.address().unwrap()).await.unwrap();
    loop {
        let (mut read, mut write) = listener.accept().await.unwrap().0.split();
        read.read_exact(&mut [0; HEADER_BYTES + ROUTE_BYTES]).await.unwrap();
        write.write_all(&frame(FrameKind::Routed, &Routed::Yes.encode(), at)).await.unwrap();
        read.read_exact(&mut [0; START_BYTES]).await.unwrap();
        let reply = HelloReply {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            version: 0,
            welcome: Welcome::NoKey,
            process: ClientUuid(7),
            cluster: CLUSTER,
        };
        let body = reply.encode_with(&[]);
        write.write_all(&frame(FrameKind::HelloReply, &body, at)).await.unwrap();
        told.fetch_add(1, Ordering::SeqCst);
        // The client hangs up.
        let _ = read.read(&mut [0; 8]).await;
    }
}

#[test]
fn a_router_that_says_that_a_node_has_no_key_is_not_believed() {
    let world = World::new(3);
    let started: Vec<_> = (0..4).map(|_| world.start(world.machine(0))).collect();
    let [at_server, at_router, at_liar, _] = [0, 1, 2, 3].map(|n: usize| started[n].1.machine());
    let (envs, processes): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let run = async move {
        let told = Arc::<AtomicUsize>::default();
        let [server, router, client] =
            [0, 1, 3].map(|n: usize| Lnet::new(envs[n].clone(), CLUSTER, false, Arc::new(Nobody)));
        assert!(server.set_seal(Arc::new(Twin)) && client.set_seal(Arc::new(Twin)));
        let to = nid(at_server, 0);
        server.listen_on(net(0), to.address().unwrap()).await.unwrap();
        router.set_nets(&[net(0), net(1)]);
        router.listen_on(net(1), nid(at_router, 1).address().unwrap()).await.unwrap();
        router.forward(true);
        router.allow_forwarding("all", vec![to]);
        let liar = lie(envs[2].clone(), nid(at_liar, 1), told.clone());
        envs[2].tasks.spawn("lie", Box::pin(liar));
        client.set_nets(&[net(1)]);
        let by = |gateway| Route { net: net(0), gateway, hops: None, priority: 0 };

        // By the liar alone there is no way, and that is not for sure what the node says.
        assert!(client.add_route(by(nid(at_liar, 1))));
        let error = client.peer(to).await.err().expect("it lies");
        assert!(matches!(error, LinkError::Connect { .. }), "{error:?}");
        assert!(error.to_string().contains("it has no key"), "{error}");
        assert!(told.load(Ordering::SeqCst) > 0);

        // With an honest one beside it each attempt ends at the node, whichever is asked first.
        assert!(client.add_route(by(nid(at_router, 1))));
        for _ in 0..6 {
            envs[3].clock.sleep(Duration::from_secs(11)).await;
            let peer = client.peer(to).await.expect("the honest one leads there");
            let (owner, how) = peer.sealed().expect("with its key");
            assert_eq!((owner.name.as_str(), how.expires), ("server", Some(7)));
            client.hang_up(to);
        }
        assert!(told.load(Ordering::SeqCst) > 1, "the liar was asked, too");
        for lnet in [client, router, server] {
            lnet.shutdown().await;
        }
    };
    world.block_on(run, TIME_MAX).unwrap_or_else(|stuck| panic!("{stuck:?}"));
    drop(processes);
}
