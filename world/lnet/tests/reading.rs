//! What a link reads and what it refuses to read, with a raw connection at the other end.

use bytes::Bytes;
use env::Env;
use env::real::{RealConfig, RealEnv, RealGuard};
use lnet::link::{Handler, Link, Work};
use lnet::node::Lnet;
use lnet::payload::{Frame, HEAD_BYTES, Payload};
use lnet::peer::Ask;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId, Pairing};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{Hello, HelloReply, Purpose, Welcome};
use wire::message::{VERSION_MAX, VERSION_MIN};

const CLUSTER: ClusterId = ClusterId(0xc1);
/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(30);

/// Answers every request with its own body.
struct Echo;

impl Handler for Echo {
    fn request(&self, _: &Arc<Link>, frame: Frame) -> Work {
        let payload = Payload { body: frame.body.slice(HEAD_BYTES..), ..Payload::default() };
        Work { future: Box::pin(std::future::ready(Some(payload))), waits: false, room: frame.room }
    }
}

fn node() -> (Env, RealGuard, Arc<Lnet>) {
    let (env, guard) = RealEnv::start(RealConfig { reactors: 2, blocking_threads: 2 }).unwrap();
    let lnet = Lnet::new(env.clone(), CLUSTER, true, Arc::new(Echo));
    (env, guard, Arc::new(lnet))
}

fn run<T: Send + 'static>(env: &Env, future: impl Future<Output = T> + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    env.tasks.spawn("test", Box::pin(async move { send.send(future.await).unwrap() }));
    receive.recv_timeout(SOON).expect("it ends")
}

fn header(kind: FrameKind, tag: u64, body_bytes: usize) -> Header {
    Header {
        version: VERSION_MAX,
        kind,
        tag,
        body_bytes: body_bytes as u32,
        bulk_bytes: 0,
        body_crc: None,
        bulk_crc: None,
        cluster: CLUSTER,
        source: Nid::Loopback,
        target: Nid::Loopback,
    }
}

fn frame(kind: FrameKind, tag: u64, body: &[u8]) -> Vec<u8> {
    [&header(kind, tag, body.len()).encode()[..], body].concat()
}

fn read_header(stream: &mut TcpStream) -> Header {
    let mut bytes = [0; HEADER_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    Header::decode(&bytes).unwrap()
}

/// Accepts a connection and greets it.
fn welcome(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut hello = vec![0; read_header(&mut stream).body_bytes as usize];
    stream.read_exact(&mut hello).unwrap();
    let reply = HelloReply {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        version: VERSION_MAX,
        welcome: Welcome::Yes,
        process: ClientUuid(1),
        cluster: CLUSTER,
    };
    stream.write_all(&frame(FrameKind::HelloReply, 0, &reply.encode())).unwrap();
    stream
}

/// A server that reads no requests for now still answers, and its answers must be read: it may wait
/// for just that before it reads on.
#[test]
fn replies_are_read_also_while_requests_wait_to_be_sent() {
    let (env, guard, lnet) = node();
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let addr = listener.local_addr().unwrap();
    let (asked, first) = mpsc::channel();
    let (answer_now, wanted) = mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let mut stream = welcome(&listener);
        let tag = read_header(&mut stream).tag;
        stream.read_exact(&mut [0; HEAD_BYTES]).unwrap();
        asked.send(()).unwrap();
        // From here on nothing is read.
        wanted.recv().unwrap();
        stream.write_all(&frame(FrameKind::Reply, tag, b"here it is")).unwrap();
        stream
    });
    let ask = Ask { reply_bulk: 0, limit: None, outside_window: true, background: false };
    let peer = run(&env, {
        let lnet = lnet.clone();
        async move { lnet.peer(Nid::Tcp(addr)).await.unwrap() }
    });
    let (answered, answer) = mpsc::channel();
    {
        let peer = peer.clone();
        let small =
            async move { answered.send(peer.request(Payload::default(), ask).await).unwrap() };
        env.tasks.spawn("test", Box::pin(small));
    }
    first.recv_timeout(SOON).unwrap();
    // Far more than sockets and queues hold, in requests that are small enough for this link.
    let piece = Bytes::from(vec![7; 60 << 10]);
    for _ in 0..1200 {
        let (peer, body) = (peer.clone(), piece.clone());
        let large = async move {
            // The request ends with the connection.
            let _ = peer.request(Payload { body, ..Payload::default() }, ask).await;
        };
        env.tasks.spawn("test", Box::pin(large));
    }
    run(&env, {
        let clock = env.clock.clone();
        async move { clock.sleep(Duration::from_millis(500)).await }
    });
    answer_now.send(()).unwrap();
    let reply = answer.recv_timeout(SOON).expect("the answer is read").unwrap();
    assert_eq!(&reply.body[..], b"here it is");
    drop(server.join().unwrap());
    drop(peer);
    run(&env, async move { lnet.shutdown().await });
    drop(guard);
}

fn listen(env: &Env, lnet: &Arc<Lnet>) -> SocketAddr {
    let lnet = lnet.clone();
    run(env, async move { lnet.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap() })
}

/// A connection past its greeting.
fn greeted(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        purpose: Purpose::Control,
        process: ClientUuid(3),
        cluster: CLUSTER,
        pairing: Pairing(0),
    };
    stream.write_all(&frame(FrameKind::Hello, 0, &hello.encode())).unwrap();
    let mut reply = vec![0; read_header(&mut stream).body_bytes as usize];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(HelloReply::decode(&reply).unwrap().welcome, Welcome::Yes);
    stream
}

/// The server hangs up.
fn hung_up(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn before_a_session_only_small_frames_are_read() {
    let (env, guard, lnet) = node();
    let addr = listen(&env, &lnet);
    let mut stream = greeted(addr);
    stream.write_all(&frame(FrameKind::Request, 1, &[0; 4096])).unwrap();
    assert_eq!(read_header(&mut stream).kind, FrameKind::Reply);
    let mut stream = greeted(addr);
    stream.write_all(&header(FrameKind::Request, 1, 4097).encode()).unwrap();
    hung_up(stream);
    run(&env, async move { lnet.shutdown().await });
    drop(guard);
}

#[test]
fn a_connection_that_gets_no_session_is_closed() {
    let (env, guard, lnet) = node();
    let addr = listen(&env, &lnet);
    hung_up(greeted(addr));
    run(&env, async move { lnet.shutdown().await });
    drop(guard);
}

#[test]
fn one_address_has_few_connections_without_a_session() {
    let (env, guard, lnet) = node();
    let addr = listen(&env, &lnet);
    let all: Vec<TcpStream> = (0..100).map(|_| greeted(addr)).collect();
    let open = all
        .iter()
        .filter(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut stream = *stream;
            matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        })
        .count();
    assert!(open <= 64, "{open} are open");
    assert!(open >= 60, "only {open} are open");
    // The newest is among them.
    let mut last = all.last().unwrap();
    last.write_all(&frame(FrameKind::Request, 1, &[0; 32])).unwrap();
    last.set_read_timeout(Some(SOON)).unwrap();
    last.read_exact(&mut [0; HEADER_BYTES]).unwrap();
    drop(all);
    run(&env, async move { lnet.shutdown().await });
    drop(guard);
}
