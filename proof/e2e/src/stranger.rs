//! A process that speaks the protocol over raw sockets, and keeps to no rule.

use crate::site::SOON;
use bytes::Bytes;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::job::JobId;
use types::lock::InodeBits;
use types::name::Name;
use types::nid::Nid;
use types::proof::Proof;
use types::session::{ClientUuid, ClusterId, Pairing, Transno, Xid};
use types::target::TargetName;
use wire::checksum::crc32c;
use wire::codec::{decode_reply, encode_request};
use wire::envelope::{ENVELOPE_BYTES, Envelope, Refusal};
use wire::frame::{FrameKind, HEADER_BYTES, Header};
use wire::hello::{Hello, HelloReply, Purpose, Welcome};
use wire::mds::{Create, CreateKind, MdsOp};
use wire::message::{ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX, VERSION_MIN};
use wire::route::{ROUTE_BYTES, Route, Routed};

/// Makes a directory in the root: a change, so a restarted MDT waits for its author.
pub fn make_directory(name: &str) -> Op {
    Op::Mds(MdsOp::Create(Create {
        parent: Fid::ROOT,
        name: Name::new(name.as_bytes()).expect("a name"),
        kind: CreateKind::Directory { mdt: None },
        mode: 0o755,
        umask: 0,
        exclusive: true,
    }))
}

/// What stands before a body of so many bytes, from a node that says no name of its own.
fn header(kind: FrameKind, body_bytes: usize, target: Nid) -> Header {
    Header {
        version: VERSION_MAX,
        kind,
        tag: 0,
        body_bytes: body_bytes as u32,
        bulk_bytes: 0,
        body_crc: None,
        bulk_crc: None,
        cluster: ClusterId(0),
        source: Nid::Loopback,
        target,
    }
}

/// The bytes of a frame without a checksum.
pub fn frame(kind: FrameKind, body: &[u8], target: Nid) -> Vec<u8> {
    [&header(kind, body.len(), target).encode()[..], body].concat()
}

/// Asks a router for a way to a node over so many further routers: its answer, and the connection,
/// which is the way if the answer is yes.
pub fn ask_for_way(router: SocketAddr, target: Nid, hops: u16) -> (Routed, TcpStream) {
    let mut stream = TcpStream::connect(router).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    let asked = frame(FrameKind::Route, &Route { hops }.encode(), target);
    stream.write_all(&asked).expect("it reads");
    let mut answer = [0; HEADER_BYTES + ROUTE_BYTES];
    stream.read_exact(&mut answer).expect("it answers");
    let (header, body) = answer.split_first_chunk().expect("it is longer");
    assert_eq!(Header::decode(header).expect("a header").kind, FrameKind::Routed);
    (Routed::decode(body).expect("an answer"), stream)
}

/// A greeted connection.
pub struct Stranger {
    stream: TcpStream,
    cluster: ClusterId,
    /// Locks that its requests ask for beside; at first none.
    pub locks: InodeBits,
    xid: u64,
    /// What it shows to open a session.
    pub proof: Proof,
    /// What it shows to be believed a server.
    pub server: Proof,
}

impl Stranger {
    /// Connects from an address of this host, and greets.
    pub fn greet(from: IpAddr, to: &str, pairing: u128) -> Stranger {
        let (stranger, welcome) = Stranger::try_greet(from, to, pairing);
        assert_eq!(welcome, Welcome::Yes);
        stranger
    }

    /// As [`Stranger::greet`], and the answer.
    pub fn try_greet(from: IpAddr, to: &str, pairing: u128) -> (Stranger, Welcome) {
        let to: SocketAddr = to.parse().expect("an address");
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let raw = socket(family, SocketType::STREAM, None).expect("a socket");
        bind(&raw, &SocketAddr::new(from, 0)).expect("bind");
        connect(&raw, &to).expect("connect");
        let stream = TcpStream::from(raw);
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a time limit");
        let mut stranger = Stranger {
            stream,
            cluster: ClusterId(0),
            locks: InodeBits::NONE,
            xid: 1,
            proof: Proof(pairing),
            server: Proof(0),
        };
        let hello = Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            purpose: Purpose::Control,
            process: ClientUuid(pairing),
            cluster: ClusterId(0),
            pairing: Pairing(pairing),
        };
        stranger.frame(FrameKind::Hello, &hello.encode()).expect("hello");
        let (_, body) = stranger.receive().expect("an answer to the greeting");
        let reply = HelloReply::decode(&body).expect("a greeting");
        stranger.cluster = reply.cluster;
        (stranger, reply.welcome)
    }

    fn header(&self, kind: FrameKind, body_bytes: usize, body_crc: Option<u32>) -> Header {
        let plain = header(kind, body_bytes, Nid::Loopback);
        Header { tag: self.xid, body_crc, cluster: self.cluster, ..plain }
    }

    fn frame(&mut self, kind: FrameKind, body: &[u8]) -> std::io::Result<()> {
        let header = self.header(kind, body.len(), Some(crc32c(body))).encode();
        self.stream.write_all(&[&header[..], body].concat())
    }

    fn receive(&mut self) -> std::io::Result<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let header = Header::decode(&header).expect("a header");
        let mut body = vec![0; header.body_bytes as usize + header.bulk_bytes as usize];
        self.stream.read_exact(&mut body)?;
        Ok((header, body))
    }

    /// Announces a request of `announced` bytes and sends as many of them as are taken without
    /// waiting for long. How many were taken.
    pub fn begin_request(&mut self, announced: usize, sent: usize) -> usize {
        let header = self.header(FrameKind::Request, announced, None).encode();
        if self.stream.write_all(&header).is_err() {
            return 0;
        }
        let piece = vec![0x5a; 256 << 10];
        let mut taken = 0;
        while taken < sent {
            match self.stream.write(&piece[..piece.len().min(sent - taken)]) {
                Ok(n) => taken += n,
                Err(_) => break,
            }
        }
        taken
    }

    /// Sends one request of one operation. Returns the refusal, if any.
    ///
    /// # Errors
    /// The server hung up.
    pub fn ask(
        &mut self,
        client: ClientUuid,
        target: TargetName,
        op: Op,
    ) -> std::io::Result<Option<Refusal>> {
        Ok(self.exchange(client, target, op)?.0)
    }

    /// Sends one request of one operation. Returns its result, and all bytes of the answer.
    ///
    /// # Panics
    /// The request as a whole is refused, or the server hung up.
    pub fn result(
        &mut self,
        client: ClientUuid,
        target: TargetName,
        op: Op,
    ) -> (Result<OpReply, Errno>, Vec<u8>) {
        let (mut reply, body) = self.reply(client, target, op);
        (reply.results.remove(0), body)
    }

    /// As [`Stranger::result`], with all that comes with the result.
    ///
    /// # Panics
    /// As [`Stranger::result`].
    pub fn reply(&mut self, client: ClientUuid, target: TargetName, op: Op) -> (Reply, Vec<u8>) {
        let (refusal, bulk_at, answer) = self.exchange(client, target, op).expect("an answer");
        assert_eq!(refusal, None);
        let mut body = Bytes::copy_from_slice(&answer);
        let bulk = body.split_off(bulk_at);
        (decode_reply(body.slice(ENVELOPE_BYTES..), bulk).expect("a reply"), answer)
    }

    /// The refusal, where the bulk data in the answer begins, and the answer.
    fn exchange(
        &mut self,
        client: ClientUuid,
        target: TargetName,
        op: Op,
    ) -> std::io::Result<(Option<Refusal>, usize, Vec<u8>)> {
        self.xid += 1;
        let request = Request {
            target,
            xid: Xid(self.xid),
            xid_known: Xid(self.xid),
            resent: false,
            replay: Transno(0),
            slot: 0,
            locks: self.locks,
            credentials: Credentials::root(),
            job: JobId::NONE,
            ops: vec![op],
        };
        let message = encode_request(&request);
        let envelope = Envelope { client, ..Envelope::default() }.encode();
        self.frame(FrameKind::Request, &[&envelope[..], &message.body].concat())?;
        loop {
            let (header, body) = self.receive()?;
            if header.kind == FrameKind::Reply {
                let refusal = Envelope::decode(&body).expect("an envelope").refusal;
                return Ok((refusal, header.body_bytes as usize, body));
            }
        }
    }

    /// Asks for a session. Why it was refused, if it was.
    ///
    /// # Errors
    /// The server hung up.
    pub fn session(
        &mut self,
        client: ClientUuid,
        target: TargetName,
    ) -> std::io::Result<Option<Refusal>> {
        let hello = ConnectRequest {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            cluster: self.cluster,
            client,
            description: "stranger".to_owned(),
            boot: 0,
            proof: self.proof,
            server: self.server,
        };
        self.ask(client, target, Op::Connect(hello))
    }
}
