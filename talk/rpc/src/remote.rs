//! A session over the network, the client's side.

use crate::deadline::PeerClock;
use crate::error::RpcError;
use crate::import::{Import, Session};
use crate::inbound::seal;
use crate::weight;
use crate::xids::NO_SLOT;
use lnet::error::LinkError;
use lnet::payload::{Frame, Payload};
use lnet::peer::{Ask, Peer};
use replay::import::ImportAction;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use types::limits::CONNECT_TIMEOUT;
use types::lock::InodeBits;
use types::nid::Nid;
use types::session::{Transno, Xid};
use wire::codec::{decode_reply, encode_request};
use wire::envelope::{ENVELOPE_BYTES, Envelope, Refusal};
use wire::message::{ConnectRequest, Op, OpReply, Reply, Request, VERSION_MAX, VERSION_MIN};

/// A session with a target at a peer.
pub(crate) struct RemoteSession {
    pub(crate) peer: Arc<Peer>,
    /// Answers so far: a session that is busy needs no pings.
    answers: AtomicU64,
    clock: PeerClock,
}

/// Result of one exchange.
pub(crate) enum Outcome {
    Reply(Reply),
    /// The connection, or the session, is gone: make a new one and ask again.
    Lost,
    Failed(RpcError),
}

impl RemoteSession {
    pub(crate) fn new(peer: Arc<Peer>) -> RemoteSession {
        RemoteSession { peer, answers: AtomicU64::new(0), clock: PeerClock::default() }
    }

    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Sends a request, waits for the reply.
    pub(crate) async fn exchange(&self, import: &Import, request: &Request, ask: Ask, waits: bool) -> Outcome {
        let payload = payload_of(import, request, waits, self.clock.limit());
        let sent = import.rpc.env().clock.now();
        let frame = match self.peer.request(payload, ask).await {
            Ok(frame) => frame,
            Err(LinkError::NoAnswer { seconds, .. }) => {
                return Outcome::Failed(RpcError::Timeout { target: import.target, seconds });
            }
            // It would be too long each time.
            Err(why @ LinkError::TooLong { .. }) => {
                tracing::error!(target = %import.target, %why, "request not sent");
                return Outcome::Failed(RpcError::Errno(Errno::EMSGSIZE));
            }
            Err(why) => {
                tracing::debug!(target = %import.target, nid = %self.peer.nid(), %why, "request will be sent again");
                return Outcome::Lost;
            }
        };
        self.answers.fetch_add(1, Ordering::Relaxed);
        let (envelope, reply) = match open(self.peer.nid(), &frame) {
            Ok(opened) => opened,
            Err(Opened::Bad(error)) => return Outcome::Failed(error),
            // The session may have moved to other connections of this process.
            Err(Opened::Refused(Refusal::NoSession | Refusal::NoTarget | Refusal::OtherProcess)) => {
                return Outcome::Lost;
            }
            Err(Opened::Refused(Refusal::Late)) => return Outcome::Failed(RpcError::Late { target: import.target }),
            Err(Opened::Refused(refusal)) => {
                let reason = format!("refuses a request: {refusal:?}");
                return Outcome::Failed(RpcError::BadMessage { nid: self.peer.nid(), reason });
            }
        };
        import.prove(sent, envelope.open_ms);
        self.clock.learn(envelope.clock, import.rpc.env().clock.now());
        if reply.xid != request.xid {
            let reason = format!("answers {:?} instead of {:?}", reply.xid, request.xid);
            return Outcome::Failed(RpcError::BadMessage { nid: self.peer.nid(), reason });
        }
        Outcome::Reply(reply)
    }
}

impl Import {
    /// Opens (or renews) the session at a peer.
    pub(crate) async fn connect_remote(&self, nid: Nid, boot_before: u64) -> Result<(), RpcError> {
        let lnet = self.rpc.lnet();
        let mut peer = lnet.peer(nid).await.map_err(|error| self.link_error(error))?;
        let hello = self.hello(boot_before, Some(peer.pairing()));
        let request = self.request_of(self.xids.begin(true).xid, vec![Op::Connect(hello.clone())]);
        let ask = Ask { reply_bulk: 0, limit: Some(CONNECT_TIMEOUT), outside_window: true };
        let mut sent = self.rpc.env().clock.now();
        let mut answer = peer.request(payload_of(self, &request, false, 0), ask).await;
        if let Err(LinkError::Lost { .. }) = answer {
            // A connection without a session may have been closed for that while the request went
            // out.
            peer = lnet.peer(nid).await.map_err(|error| self.link_error(error))?;
            sent = self.rpc.env().clock.now();
            answer = peer.request(payload_of(self, &request, false, 0), ask).await;
        }
        let frame = answer.map_err(|error| self.link_error(error))?;
        let (envelope, mut reply) = open(nid, &frame).map_err(|opened| match opened {
            Opened::Bad(error) => error,
            Opened::Refused(refusal) => self.refusal(nid, &frame, &hello, refusal),
        })?;
        let connected = match reply.results.pop() {
            Some(Ok(OpReply::Connect(connected))) => connected,
            other => return Err(RpcError::BadMessage { nid, reason: format!("answers a connect with {other:?}") }),
        };
        if !(VERSION_MIN..=VERSION_MAX).contains(&connected.version) {
            return Err(RpcError::Version {
                nid,
                theirs_min: connected.version,
                theirs_max: connected.version,
                ours_min: VERSION_MIN,
                ours_max: VERSION_MAX,
            });
        }
        let remote = Arc::new(RemoteSession::new(peer));
        remote.clock.learn(envelope.clock, self.rpc.env().clock.now());
        let mut action = self.connected(&connected);
        if action == ImportAction::Replay {
            action = self.recover(&remote).await?;
        }
        self.enter_session(Session::Remote(remote.clone()), action, connected.boot);
        // Only now: if the session is a new one, grants of the previous one must not be trusted
        // again.
        self.prove(sent, envelope.open_ms);
        self.watch_session(&remote);
        self.rpc.start_pings();
        Ok(())
    }

    /// A request that carries no user's operations.
    pub(crate) fn request_of(&self, xid: Xid, ops: Vec<Op>) -> Request {
        Request {
            target: self.target,
            xid,
            xid_known: self.xids.known(),
            resent: false,
            replay: Transno(0),
            slot: NO_SLOT,
            locks: InodeBits::NONE,
            credentials: Credentials::root(),
            job: JobId::NONE,
            ops,
        }
    }

    fn refusal(&self, nid: Nid, frame: &Frame, hello: &ConnectRequest, refusal: Refusal) -> RpcError {
        match refusal {
            Refusal::NoTarget => RpcError::NoTarget { nid, target: self.target },
            Refusal::NoSession => RpcError::Evicted { target: self.target },
            Refusal::Version => crate::admission::Refusal::Version.error((nid, self.target), hello),
            Refusal::Cluster => {
                crate::admission::Refusal::Cluster(frame.header.cluster).error((nid, self.target), hello)
            }
            Refusal::Errno(errno) => RpcError::Refused { target: self.target, errno },
            Refusal::Late => RpcError::Late { target: self.target },
            Refusal::OtherProcess => RpcError::OtherProcess { target: self.target },
            Refusal::BadRequest => RpcError::Refused { target: self.target, errno: Errno::EPROTO },
        }
    }

    fn link_error(&self, error: LinkError) -> RpcError {
        match error {
            LinkError::Version { nid, theirs_min, theirs_max, ours_min, ours_max } => {
                RpcError::Version { nid, theirs_min, theirs_max, ours_min, ours_max }
            }
            LinkError::Cluster { nid, theirs, ours } => RpcError::Cluster { nid, theirs, ours },
            LinkError::Frame { nid, error } => RpcError::BadMessage { nid, reason: error.to_string() },
            LinkError::Protocol { nid, reason } => RpcError::BadMessage { nid, reason },
            LinkError::TooLong { .. } => RpcError::Errno(Errno::EMSGSIZE),
            LinkError::Shutdown => RpcError::Shutdown,
            error @ (LinkError::Connect { nid, .. }
            | LinkError::Busy { nid }
            | LinkError::Lost { nid, .. }
            | LinkError::NoAnswer { nid, .. }) => {
                RpcError::Unreachable { target: self.target, nids: vec![nid], reason: error.to_string() }
            }
        }
    }
}

fn payload_of(import: &Import, request: &Request, waits: bool, limit: u64) -> Payload {
    seal(Envelope { client: import.client, waits, clock: limit, ..Envelope::default() }, encode_request(request))
}

/// How a request with these operations is to be sent.
pub(crate) fn ask_of(ops: &[Op], limit: std::time::Duration) -> Ask {
    Ask {
        reply_bulk: weight::reply_bulk(ops),
        limit: weight::patience(ops).map(|more| limit + more),
        outside_window: weight::waits(ops),
    }
}

/// A message that is no reply.
enum Opened {
    Bad(RpcError),
    Refused(Refusal),
}

fn open(nid: Nid, frame: &Frame) -> Result<(Envelope, Reply), Opened> {
    let bad = |reason: String| Opened::Bad(RpcError::BadMessage { nid, reason });
    let envelope = Envelope::decode(&frame.body).map_err(|error| bad(error.to_string()))?;
    if let Some(refusal) = envelope.refusal {
        return Err(Opened::Refused(refusal));
    }
    let reply = decode_reply(frame.body.slice(ENVELOPE_BYTES..), frame.bulk.clone());
    Ok((envelope, reply.map_err(|error| bad(error.to_string()))?))
}
