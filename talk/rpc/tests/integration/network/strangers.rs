//! Peers that are not what they should be.

use super::*;

#[test]
fn another_cluster_is_refused_by_name() {
    let p = pair();
    let theirs = ClusterId(0xbad);
    let stranger = Rpc::new(p.env.clone(), RpcConfig { cluster: theirs, checksums: true });
    let import = client_of(&stranger, ost(0), vec![Nid::Tcp(p.addr)], None);
    let error = run(&p.env, async move { simple(&import, OstOp::Statfs).await.unwrap_err() });
    assert_eq!(error, RpcError::Cluster { nid: Nid::Tcp(p.addr), theirs: CLUSTER, ours: theirs });
    // A process that does not know its cluster yet may connect, but have no session with an OST.
    let newcomer = Rpc::new(p.env.clone(), RpcConfig { cluster: ClusterId(0), checksums: true });
    let import = client_of(&newcomer, ost(0), vec![Nid::Tcp(p.addr)], None);
    let error = run(&p.env, async move { simple(&import, OstOp::Statfs).await.unwrap_err() });
    assert_eq!(
        error,
        RpcError::Cluster { nid: Nid::Tcp(p.addr), theirs: CLUSTER, ours: ClusterId(0) }
    );
    p.end();
}

#[test]
fn a_peer_of_another_version_is_named() {
    let p = pair();
    // A server of the future.
    let listener = std::net::TcpListener::bind(any_port()).unwrap();
    let addr = listener.local_addr().unwrap();
    let future = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; HEADER_BYTES + wire::hello::HELLO_BYTES];
        stream.read_exact(&mut hello).unwrap();
        let reply = HelloReply {
            version_min: 70,
            version_max: 80,
            version: 0,
            welcome: Welcome::NoCommonVersion,
            process: ClientUuid(1),
            cluster: CLUSTER,
        };
        stream.write_all(&frame(FrameKind::HelloReply, &reply.encode())).unwrap();
    });
    let import = client_of(&p.client, ost(0), vec![Nid::Tcp(addr)], None);
    let error = run(&p.env, async move { simple(&import, OstOp::Statfs).await.unwrap_err() });
    assert!(matches!(error, RpcError::Version { theirs_min: 70, theirs_max: 80, .. }), "{error}");
    future.join().unwrap();

    // A client of the future, at this server: it is told the server's versions.
    let mut stream = TcpStream::connect(p.addr).unwrap();
    let hello = wire::hello::Hello {
        version_min: 70,
        version_max: 80,
        purpose: wire::hello::Purpose::Control,
        process: ClientUuid(2),
        cluster: CLUSTER,
        pairing: Pairing(2),
    };
    stream.write_all(&frame(FrameKind::Hello, &hello.encode())).unwrap();
    let mut reply = [0; HEADER_BYTES + wire::hello::HELLO_REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    let reply = HelloReply::decode(&reply[HEADER_BYTES..]).unwrap();
    assert_eq!((reply.welcome, reply.version_max), (Welcome::NoCommonVersion, VERSION_MAX));
    p.end();
}

/// A connection past its greeting.
fn greeted(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let hello = wire::hello::Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        purpose: wire::hello::Purpose::Control,
        process: ClientUuid(3),
        cluster: CLUSTER,
        pairing: Pairing(3),
    };
    stream.write_all(&frame(FrameKind::Hello, &hello.encode())).unwrap();
    let mut reply = [0; HEADER_BYTES + wire::hello::HELLO_REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(HelloReply::decode(&reply[HEADER_BYTES..]).unwrap().welcome, Welcome::Yes);
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
fn garbage_harms_nobody() {
    let p = pair();
    let import = p.import();
    let check = |what: &str| {
        let import = import.clone();
        let data = pattern(9, 2000);
        let expected = data.clone();
        let back = run(&p.env, async move {
            write(&import, 1, 0, data).await.unwrap();
            read(&import, 1, 0, 10_000).await.unwrap()
        });
        assert_eq!(back, expected, "after {what}");
    };
    check("nothing");

    let mut seed = 0x1234_5678_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..20 {
        let bytes: Vec<u8> = (0..200 + random() % 2000).map(|_| random() as u8).collect();
        let mut stream = TcpStream::connect(p.addr).unwrap();
        // The server may have hung up in the middle.
        let _ = stream.write_all(&bytes);
        stream.set_read_timeout(Some(SOON)).unwrap();
        hung_up(stream);
        if round % 5 == 0 {
            check("random bytes");
        }
    }
    let mut web = TcpStream::connect(p.addr).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    hung_up(web);

    let mut long = greeted(p.addr);
    let mut header_bytes = header(FrameKind::Request, b"").encode();
    header_bytes[12..16].copy_from_slice(&(MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes());
    let crc = crc32c(&header_bytes[4..]);
    header_bytes[..4].copy_from_slice(&crc.to_le_bytes());
    long.write_all(&header_bytes).unwrap();
    hung_up(long);
    check("a length beyond the bound");

    let mut flipped = greeted(p.addr);
    let mut bytes = frame(FrameKind::Request, &[0; 100]);
    bytes[40] ^= 1;
    flipped.write_all(&bytes).unwrap();
    hung_up(flipped);

    let mut damaged = greeted(p.addr);
    let mut bytes = frame(FrameKind::Request, &[0; 100]);
    bytes[HEADER_BYTES + 50] ^= 1;
    damaged.write_all(&bytes).unwrap();
    hung_up(damaged);

    let mut short = greeted(p.addr);
    short.write_all(&frame(FrameKind::Request, b"shorter than it must be")).unwrap();
    hung_up(short);

    // A good envelope, then nonsense: refused, and the connection lives.
    let mut nonsense = greeted(p.addr);
    nonsense
        .write_all(&frame(FrameKind::Request, &[vec![0; 24], vec![0xff; 300]].concat()))
        .unwrap();
    let mut reply = [0; HEADER_BYTES + wire::envelope::ENVELOPE_BYTES];
    nonsense.read_exact(&mut reply).unwrap();
    let envelope = wire::envelope::Envelope::decode(&reply[HEADER_BYTES..]).unwrap();
    assert_eq!(envelope.refusal, Some(wire::envelope::Refusal::BadRequest));

    let mut cut_off = greeted(p.addr);
    cut_off.write_all(&frame(FrameKind::Request, &[0; 100])[..150]).unwrap();
    drop(cut_off);
    let mut twice = greeted(p.addr);
    twice.write_all(&frame(FrameKind::Hello, &[0; 40])).unwrap();
    hung_up(twice);
    check("everything");
    drop(nonsense);
    p.end();
}

#[test]
fn a_port_of_something_else_is_told_apart() {
    let p = pair();
    let listener = std::net::TcpListener::bind(any_port()).unwrap();
    let addr = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").unwrap();
        let mut rest = [0; 4096];
        while matches!(stream.read(&mut rest), Ok(1..)) {}
    });
    let import = client_of(&p.client, ost(0), vec![Nid::Tcp(addr)], None);
    let error = run(&p.env, async move { simple(&import, OstOp::Statfs).await.unwrap_err() });
    assert!(
        matches!(&error, RpcError::BadMessage { reason, .. } if reason.contains("does not speak")),
        "{error}"
    );
    other.join().unwrap();
    p.end();
}
