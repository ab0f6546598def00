//! The greeting at the start of a connection: version, cluster, and the two processes.

use crate::accepted::Accepted;
use crate::error::LinkError;
use crate::link::Ends;
use crate::rails::Path;
use crate::seal::{IT_IS_OPEN, KeyRefused, Protection, Reach, Read, START_BYTES, Sealed, Write};
use crate::shared::Shared;
use env::net::PeerOwner;
use futures_util::future::{Either, select};
use observe::mutant::{Mutant, is_mutant};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::limits::CONNECT_TIMEOUT;
use types::nid::Nid;
use types::principal::Principal;
use types::session::{ClusterId, Pairing};
use wire::frame::{FrameError, FrameKind, HEADER_BYTES, Header, MAGIC};
use wire::hello::{Hello, HelloReply, Purpose, Welcome, common_version};
use wire::message::{VERSION_MAX, VERSION_MIN};

/// A connection before its greeting.
pub(crate) struct Line {
    /// Whose the other end is; `None`: it is plain.
    pub(crate) principal: Option<Arc<Principal>>,
    /// How it is sealed; `None`: it is plain.
    pub(crate) protection: Option<Protection>,
    /// The header of its first frame, if it was read already.
    pub(crate) header: Option<[u8; HEADER_BYTES]>,
    pub(crate) reach: Reach,
    pub(crate) read: Read,
    pub(crate) write: Write,
}

impl Line {
    /// One without keys.
    pub(crate) fn plain(
        header: Option<[u8; HEADER_BYTES]>,
        read: Read,
        write: Write,
        reach: Reach,
    ) -> Line {
        Line { principal: None, protection: None, header, reach, read, write }
    }

    /// One whose other end proved its key.
    pub(crate) fn sealed(sealed: Sealed, reach: Reach) -> Line {
        let Sealed { principal, protection, read, write } = sealed;
        let (principal, protection) = (Some(principal), Some(protection));
        Line { principal, protection, header: None, reach, read, write }
    }
}

/// A connection after its greeting.
pub(crate) struct Greeted {
    pub(crate) ends: Ends,
    pub(crate) read: Read,
    pub(crate) write: Write,
}

/// Runs something for at most CONNECT_TIMEOUT.
pub(crate) async fn in_time<T>(
    shared: &Shared,
    nid: Nid,
    future: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    match select(pin!(future), shared.env.clock.sleep(CONNECT_TIMEOUT)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(LinkError::NoAnswer { nid, seconds: CONNECT_TIMEOUT.as_secs() }),
    }
}

/// It asks for a key, and this process has none.
const KEY_NEEDED: &str = "this cluster is secured, and this host has no key of it; `sheen auth issue` on the host of the \
                          MGS prints one";
/// It knows that the key of this process was revoked.
const OWN_KEY_REVOKED: &str =
    "the key of this host was revoked; `sheen auth issue` on the host of the MGS prints another";
/// The side that connected.
pub(crate) async fn call(
    shared: &Shared,
    (source, nid): (Nid, Nid),
    (purpose, pairing): (Purpose, Pairing),
    Line { principal, protection, header, reach, mut read, mut write }: Line,
) -> Result<Greeted, LinkError> {
    let (cluster, process) = (shared.cluster(), shared.process);
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        purpose,
        process,
        cluster,
        pairing,
    };
    send(FrameKind::Hello, &hello.encode(), cluster, source, nid, &mut write).await?;
    let (_, body) = receive(FrameKind::HelloReply, nid, header, &mut read).await?;
    let reply = HelloReply::decode(&body)
        .map_err(|e| LinkError::Protocol { nid, reason: e.to_string() })?;
    match reply.welcome {
        Welcome::Yes if (VERSION_MIN..=VERSION_MAX).contains(&reply.version) => {
            let HelloReply { process, version, .. } = reply;
            let ends = Ends {
                nid,
                source,
                process,
                version,
                purpose,
                round_trip: None,
                pairing,
                group: None,
                principal,
                protection,
                origin: nid,
                paths: match reach {
                    Reach::Network => shared.nets.paths(nid, &HelloReply::nids(&body)),
                    // No network is faster.
                    Reach::Host => vec![Path::any(nid)],
                },
                reach,
            };
            Ok(Greeted { ends, read, write })
        }
        Welcome::Yes | Welcome::NoCommonVersion => Err(LinkError::Version {
            nid,
            theirs_min: reply.version_min,
            theirs_max: reply.version_max,
            ours_min: VERSION_MIN,
            ours_max: VERSION_MAX,
        }),
        Welcome::OtherCluster => {
            Err(LinkError::Cluster { nid, theirs: reply.cluster, ours: cluster })
        }
        Welcome::OtherUser => Err(LinkError::OtherUser { nid }),
        Welcome::KeyNeeded => Err(LinkError::Key { nid, reason: KEY_NEEDED.to_owned() }),
        Welcome::Revoked => Err(LinkError::Key { nid, reason: OWN_KEY_REVOKED.to_owned() }),
        // Only an answer to a sealed connection says so.
        Welcome::NoKey if shared.seal().is_none() => Err(LinkError::Busy { nid }),
        Welcome::NoKey => Err(LinkError::Key { nid, reason: IT_IS_OPEN.to_owned() }),
        Welcome::Busy | Welcome::Stopping => Err(LinkError::Busy { nid }),
    }
}

/// A process of another user of this host may not connect: it could act as anybody.
pub(crate) fn may_connect(nid: Nid, owner: io::Result<PeerOwner>) -> Result<(), LinkError> {
    let reason = match owner {
        Ok(PeerOwner::Trusted) => return Ok(()),
        // What comes to another address may come from any host.
        Ok(PeerOwner::Elsewhere) | Err(_) if !nid.is_loopback() => return Ok(()),
        Ok(PeerOwner::User(_)) if is_mutant(Mutant::AnyUser) => return Ok(()),
        Ok(PeerOwner::User(uid)) => {
            format!("belongs to user {uid}; only root and the user of this daemon may connect")
        }
        Ok(PeerOwner::Elsewhere | PeerOwner::Gone) => "has closed the connection".to_owned(),
        Err(error) => format!("the kernel does not tell whose it is (sock_diag: {error})"),
    };
    Err(LinkError::Local { nid, reason })
}

/// The NID under which a node is known that came from `nid` and says that it is at `told`. It is
/// believed if its certificate bears that NID. Where no keys are asked for, it is believed if it
/// came from a router by which this process itself has a route to that network: the router has seen
/// to it that it is true ([`crate::circuit`]).
fn origin_of(shared: &Shared, nid: Nid, told: Nid, principal: Option<&Principal>) -> Nid {
    let is_true = match principal {
        Some(principal) => principal.bears(told),
        None => shared.nets.is_gateway(nid, told),
    };
    if is_true && !told.is_loopback() { told } else { nid }
}

/// The side that accepted. A refusal is sent before it is returned as the error.
pub(crate) async fn answer(
    shared: &Shared,
    accepted: &Accepted,
    (source, nid): (Nid, Nid),
    owner: io::Result<PeerOwner>,
    Line { principal, protection, header, reach, mut read, mut write }: Line,
) -> Result<Greeted, LinkError> {
    let (header, body) = receive(FrameKind::Hello, nid, header, &mut read).await?;
    let hello =
        Hello::decode(&body).map_err(|e| LinkError::Protocol { nid, reason: e.to_string() })?;
    let cluster = shared.cluster();
    let version = common_version(hello.version_min, hello.version_max);
    let unknown = ClusterId(0);
    let other_cluster = cluster != unknown && hello.cluster != unknown && cluster != hello.cluster;
    let seal = shared.seal();
    let is_revoked =
        |principal: &Arc<Principal>| seal.is_some_and(|seal| seal.is_revoked(principal));
    let (welcome, result) = match (may_connect(nid, owner), version) {
        (Err(error), _) => (Welcome::OtherUser, Err(error)),
        _ if seal.is_some() && principal.is_none() => {
            (Welcome::KeyNeeded, Err(LinkError::Key { nid, reason: "it shows no key".to_owned() }))
        }
        _ if principal.as_ref().is_some_and(is_revoked) => {
            let reason = principal.map_or_else(String::new, |p| {
                format!("it shows the key of {p}, which was revoked")
            });
            (Welcome::Revoked, Err(LinkError::Key { nid, reason }))
        }
        _ if shared.is_stopping() => (Welcome::Stopping, Err(LinkError::Shutdown)),
        (Ok(()), None) => {
            let (theirs_min, theirs_max) = (hello.version_min, hello.version_max);
            let (ours_min, ours_max) = (VERSION_MIN, VERSION_MAX);
            let error = LinkError::Version { nid, theirs_min, theirs_max, ours_min, ours_max };
            (Welcome::NoCommonVersion, Err(error))
        }
        (Ok(()), Some(_)) if other_cluster => (
            Welcome::OtherCluster,
            Err(LinkError::Cluster { nid, theirs: hello.cluster, ours: cluster }),
        ),
        (Ok(()), Some(version)) => {
            let group = Some(accepted.group(hello.pairing));
            let Hello { process, purpose, pairing, .. } = hello;
            (
                Welcome::Yes,
                Ok(Ends {
                    nid,
                    source,
                    process,
                    version,
                    purpose,
                    round_trip: None,
                    pairing,
                    group,
                    origin: origin_of(shared, nid, header.source, principal.as_deref()),
                    principal,
                    protection,
                    paths: Vec::new(),
                    reach,
                }),
            )
        }
    };
    let version = result.as_ref().map_or(0, |ends| ends.version);
    send_reply(shared, (source, nid), (version, welcome), &mut write).await?;
    match result {
        Ok(ends) => Ok(Greeted { ends, read, write }),
        Err(error) => {
            linger(shared, &mut read).await;
            Err(error)
        }
    }
}

/// A process that has no key says so to one that wants a sealed connection.
pub(crate) async fn refuse_sealed(
    shared: &Shared,
    (source, nid): (Nid, Nid),
    mut read: Read,
    mut write: Write,
) -> Result<Greeted, LinkError> {
    send_reply(shared, (source, nid), (0, Welcome::NoKey), &mut write).await?;
    linger(shared, &mut read).await;
    Err(LinkError::Key {
        nid,
        reason: "it asks for a key, and this process is open and has none".to_owned(),
    })
}

pub(crate) async fn send_reply(
    shared: &Shared,
    (source, nid): (Nid, Nid),
    (version, welcome): (u16, Welcome),
    write: &mut Write,
) -> Result<(), LinkError> {
    let cluster = shared.cluster();
    let (version_min, version_max, process) = (VERSION_MIN, VERSION_MAX, shared.process);
    let reply = HelloReply { version_min, version_max, version, welcome, process, cluster };
    // A peer that is refused is not told where else this process is.
    let nids = match welcome {
        Welcome::Yes => shared.nids.lock().iter().filter(|n| !n.is_loopback()).copied().collect(),
        _ => Vec::new(),
    };
    let body = reply.encode_with(&nids);
    send(FrameKind::HelloReply, &body, cluster, source, nid, write).await
}

/// Closing with unread bytes would reset the connection, and the peer might never see why.
pub(crate) async fn linger(shared: &Shared, read: &mut Read) {
    let mut rest = [0; 64];
    let until_closed = async { while let Ok(1..) = read.read(&mut rest).await {} };
    select(pin!(until_closed), shared.env.clock.sleep(Duration::from_secs(1))).await;
}

pub(crate) async fn send(
    kind: FrameKind,
    body: &[u8],
    cluster: ClusterId,
    source: Nid,
    target: Nid,
    write: &mut Write,
) -> Result<(), LinkError> {
    let header = Header {
        version: VERSION_MAX,
        kind,
        tag: 0,
        body_bytes: body.len() as u32,
        bulk_bytes: 0,
        body_crc: Some(wire::checksum::crc32c(body)),
        bulk_crc: None,
        cluster,
        source,
        target,
    };
    let frame = [&header.encode()[..], body].concat();
    write.write_all(&frame).await.map_err(|error| lost(target, &error))?;
    write.flush().await.map_err(|error| lost(target, &error))
}

/// The rest of a header, of which the start was read.
pub(crate) async fn header(
    nid: Nid,
    start: [u8; START_BYTES],
    read: &mut Read,
) -> Result<[u8; HEADER_BYTES], LinkError> {
    // A foreign client may send less than a header and wait for an answer: look at the magic first.
    if start[4..] != MAGIC {
        let found = [start[4], start[5], start[6], start[7]];
        return Err(LinkError::Frame { nid, error: FrameError::Magic { found } });
    }
    let mut bytes = [0; HEADER_BYTES];
    let (first, rest) = bytes.split_at_mut(START_BYTES);
    first.copy_from_slice(&start);
    read.read_exact(rest).await.map_err(|error| lost(nid, &error))?;
    Ok(bytes)
}

/// A frame of this kind. `before`: its header, if it was read already.
pub(crate) async fn receive(
    kind: FrameKind,
    nid: Nid,
    before: Option<[u8; HEADER_BYTES]>,
    read: &mut Read,
) -> Result<(Header, Vec<u8>), LinkError> {
    let frame_error = |error| LinkError::Frame { nid, error };
    let bytes = match before {
        Some(bytes) => bytes,
        None => {
            let mut start = [0; START_BYTES];
            read.read_exact(&mut start).await.map_err(|error| lost(nid, &error))?;
            header(nid, start, read).await?
        }
    };
    let header = Header::decode(&bytes).map_err(frame_error)?;
    if header.kind != kind || header.bulk_bytes != 0 {
        return Err(LinkError::Protocol {
            nid,
            reason: format!("sent {:?} instead of {kind:?}", header.kind),
        });
    }
    // At most HELLO_BYTES_MAX: the header was decoded as a greeting.
    let mut body = vec![0; header.body_bytes as usize];
    read.read_exact(&mut body).await.map_err(|error| lost(nid, &error))?;
    header.check_body(&body).map_err(frame_error)?;
    Ok((header, body))
}

/// The end of a connection.
pub(crate) fn lost(nid: Nid, error: &io::Error) -> LinkError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<KeyRefused>()) {
        Some(KeyRefused(reason)) => LinkError::Key { nid, reason: reason.clone() },
        None => LinkError::Lost { nid, reason: error.to_string() },
    }
}
