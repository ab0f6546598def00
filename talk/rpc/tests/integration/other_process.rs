//! A session is that of the process that made it, and a process that serves no target may send only
//! what clients may.

use crate::support::*;
use rpc::Rpc;
use rpc::callbacks::Callbacks;
use rpc::error::RpcError;
use rpc::import::Import;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::job::JobId;
use types::lock::InodeBits;
use types::nid::Nid;
use types::proof::{Proof, ServerKey};
use types::session::{ClientUuid, Pairing, Transno, Xid};
use wire::client::ClientOp;
use wire::codec::encode_request;
use wire::envelope::{Envelope, Refusal};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{HELLO_REPLY_BYTES, Hello, HelloReply, Purpose, Welcome};
use wire::message::{Op, Request, VERSION_MAX, VERSION_MIN};
use wire::ost::{ObjectGetattr, ObjectList, OstOp};

const VICTIM: ClientUuid = ClientUuid(77);

fn victim_of(
    rpc: &Arc<Rpc>,
    addr: SocketAddr,
    callbacks: Option<Arc<dyn Callbacks>>,
) -> Arc<Import> {
    rpc.import(ost(0), vec![Nid::Tcp(addr)], VICTIM, "victim".to_owned(), callbacks)
}

fn statfs(env: &env::Env, import: &Arc<Import>) -> Result<(), RpcError> {
    let import = import.clone();
    run(env, async move { simple(&import, OstOp::Statfs).await.map(drop) })
}

/// A connection past its greeting, which shows this pairing.
fn greeted(addr: SocketAddr, pairing: u128) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        purpose: Purpose::Control,
        process: ClientUuid(3),
        cluster: CLUSTER,
        pairing: Pairing(pairing),
    };
    stream.write_all(&frame(FrameKind::Hello, &hello.encode())).unwrap();
    let mut reply = [0; HEADER_BYTES + HELLO_REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(HelloReply::decode(&reply[HEADER_BYTES..]).unwrap().welcome, Welcome::Yes);
    stream
}

/// Sends an operation in the name of the victim; why it is refused.
fn asks(stream: &mut TcpStream, op: Op) -> Option<Refusal> {
    let request = Request {
        target: ost(0),
        xid: Xid(1),
        xid_known: Xid(1),
        resent: false,
        replay: Transno(0),
        slot: 0,
        locks: InodeBits::NONE,
        credentials: Credentials::root(),
        job: JobId::NONE,
        ops: vec![op],
    };
    let envelope = Envelope { client: VICTIM, ..Envelope::default() }.encode();
    let body = [&envelope[..], &encode_request(&request).body].concat();
    stream.write_all(&frame(FrameKind::Request, &body)).unwrap();
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    let header = Header::decode(&header).unwrap();
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body).unwrap();
    Envelope::decode(&body).unwrap().refusal
}

#[test]
fn who_knows_the_uuid_of_a_client_cannot_take_its_session() {
    let (env, _guard) = machine();
    let (server, victims, thief) = (process(&env), process(&env), process(&env));
    let service = Ost::new(ost(0), 1);
    server.add_service(service.clone());
    let addr = listen(&env, &server);
    let cable = Cable::new(&env, addr);
    let victim = victim_of(&victims, cable.addr, None);
    statfs(&env, &victim).unwrap();

    let error = statfs(&env, &victim_of(&thief, addr, None)).unwrap_err();
    assert_eq!(error, RpcError::OtherProcess { target: ost(0) });
    // A pairing of another process, and none.
    for pairing in [5, 0] {
        let mut stream = greeted(addr, pairing);
        for op in [Op::Ost(OstOp::Statfs), Op::Ping, Op::Disconnect] {
            assert_eq!(asks(&mut stream, op), Some(Refusal::OtherProcess));
        }
    }
    assert!(service.gone.lock().is_empty());
    statfs(&env, &victim).unwrap();
    assert_eq!(victim.connections(), 1, "the victim noticed nothing");

    // It comes back over other connections.
    cable.cut();
    statfs(&env, &victim).unwrap();
    assert_eq!(server.exports(ost(0)).len(), 1);
    assert!(service.gone.lock().is_empty());
    // Over another way to the server, too, and then the connections of the first way are not those
    // of the session any more.
    victim.set_nids(vec![Nid::Tcp(addr)]);
    cable.cut();
    statfs(&env, &victim).unwrap();
    assert_eq!((server.exports(ost(0)).len(), victim.evictions()), (1, 0));
    [&victims, &thief, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn a_restarted_target_knows_the_process_of_a_recorded_client() {
    let (env, _guard) = machine();
    let (server, victims, thief) = (process(&env), process(&env), process(&env));
    server.add_service(Ost::new(ost(0), 1));
    let addr = listen(&env, &server);
    let victim = victim_of(&victims, addr, None);
    statfs(&env, &victim).unwrap();
    let claim = server.exports(ost(0))[0].claim();
    assert_ne!(claim.proof, Proof(0));
    // The session is gone, what it was recorded with is not.
    let restarted = Ost::new(ost(0), 2);
    restarted.recorded.lock().insert(VICTIM, claim.clone());
    server.add_service(restarted.clone());
    let error = statfs(&env, &victim_of(&thief, addr, None)).unwrap_err();
    assert_eq!(error, RpcError::OtherProcess { target: ost(0) });
    statfs(&env, &victim).unwrap();
    assert_eq!(server.exports(ost(0))[0].claim(), claim);
    [&victims, &thief, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn the_session_of_a_client_of_this_process_is_not_reached_from_outside() {
    let (env, _guard) = machine();
    let server = process(&env);
    server.add_service(Ost::new(ost(0), 1));
    let addr = listen(&env, &server);
    let local = server.import(ost(0), vec![Nid::Loopback], VICTIM, "local".to_owned(), None);
    statfs(&env, &local).unwrap();
    let mut stream = greeted(addr, 5);
    assert_eq!(asks(&mut stream, Op::Ost(OstOp::Statfs)), Some(Refusal::OtherProcess));
    let thief = process(&env);
    let error = statfs(&env, &victim_of(&thief, addr, None)).unwrap_err();
    assert_eq!(error, RpcError::OtherProcess { target: ost(0) });
    assert!(server.exports(ost(0))[0].nid() == Nid::Loopback, "its callbacks still go to it");
    [&thief, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn callbacks_come_from_the_server_that_has_the_target_only() {
    let (env, _guard) = machine();
    let (server, client) = (process(&env), process(&env));
    server.add_service(Ost::new(ost(0), 1));
    let addr = listen(&env, &server);
    let answers = Arc::new(Answers::default());
    let victim = victim_of(&client, addr, Some(answers.clone()));
    let first = victim.clone();
    run(&env, async move {
        simple(&first, OstOp::Getattr(ObjectGetattr { object: object(1) })).await.unwrap()
    });
    assert_eq!(answers.count.load(Ordering::SeqCst), 1);

    let revoke = || Op::Client(ClientOp::Revoke { locks: vec![(Fid::ROOT, InodeBits::LOOKUP)] });
    // A stranger that connects to the client's process.
    let open = listen(&env, &client);
    assert_eq!(asks(&mut greeted(open, 5), revoke()), Some(Refusal::OtherProcess));
    // Another server that the client is connected to.
    let listener = std::net::TcpListener::bind(any_port()).unwrap();
    let rogue = listener.local_addr().unwrap();
    let reaching = client.clone();
    let accepted = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; HEADER_BYTES + wire::hello::HELLO_BYTES];
        stream.read_exact(&mut hello).unwrap();
        let reply = HelloReply {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            version: VERSION_MAX,
            welcome: Welcome::Yes,
            process: ClientUuid(1),
            cluster: CLUSTER,
        };
        stream.write_all(&frame(FrameKind::HelloReply, &reply.encode())).unwrap();
        stream
    });
    run(&env, async move { reaching.reach(Nid::Tcp(rogue)).await.unwrap() });
    let mut stream = accepted.join().unwrap();
    assert_eq!(asks(&mut stream, revoke()), Some(Refusal::OtherProcess));
    assert_eq!(answers.count.load(Ordering::SeqCst), 1, "neither was heard");
    let again = victim.clone();
    run(&env, async move {
        simple(&again, OstOp::Getattr(ObjectGetattr { object: object(1) })).await.unwrap()
    });
    assert_eq!(answers.count.load(Ordering::SeqCst), 2);
    drop(stream);
    [&client, &server].into_iter().for_each(|rpc| shutdown(&env, rpc));
}

#[test]
fn only_a_process_with_the_key_of_the_servers_sends_what_is_theirs() {
    let (env, _guard) = machine();
    let list = |import: &Arc<Import>| {
        let import = import.clone();
        let op = Op::Ost(OstOp::List(ObjectList { after: None, limit: 1 }));
        // The objects of the test are not listed, but the question comes through.
        match run(&env, async move { import.one(&Credentials::root(), op).await }) {
            Err(RpcError::Errno(Errno::EOPNOTSUPP)) => true,
            Err(RpcError::Errno(Errno::EACCES)) => false,
            other => panic!("{other:?}"),
        }
    };
    let server = process(&env);
    server.add_service(Ost::new(ost(0), 1));
    let addr = listen(&env, &server);
    let asks = |key: u128| {
        let rpc = process(&env);
        rpc.set_server_key(ServerKey(key));
        let import = client_of(&rpc, ost(0), vec![Nid::Tcp(addr)], None);
        let heard = list(&import);
        shutdown(&env, &rpc);
        heard
    };
    assert!(!asks(9), "a target without the key believes nobody");
    server.set_server_key(ServerKey(9));
    assert_eq!([0, 8, 9].map(asks), [false, false, true]);
    let local = server.import(ost(0), vec![Nid::Loopback], ClientUuid(1), "local".to_owned(), None);
    assert!(list(&local), "a client of the very process");
    shutdown(&env, &server);
}
