//! A session over the network, the client's side.

use crate::deadline::PeerClock;
use crate::error::RpcError;
use crate::import::proved::Proved;
use crate::line::Estimate;
use crate::sealed::seal;
use crate::weight;
use env::clock::Clock;
use env::watch;
use lnet::error::LinkError;
use lnet::payload::{Frame, Payload};
use lnet::peer::{Ask, Peer};
use observe::cause;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use types::errno::Errno;
use types::nid::Nid;
use types::session::ClientUuid;
use wire::codec::{decode_reply, encode_request};
use wire::envelope::{ENVELOPE_BYTES, Envelope, Refusal};
use wire::message::{Op, Reply, Request};

/// A session with a target at a peer.
pub(crate) struct RemoteSession {
    pub(crate) peer: Arc<Peer>,
    client: ClientUuid,
    /// Answers so far: a session that is busy needs no pings.
    answers: AtomicU64,
    proved: Arc<Proved>,
    /// The clock of this process, and what is known of the peer's.
    own: Arc<dyn Clock>,
    clock: PeerClock,
    line: Arc<Mutex<Estimate>>,
    /// True once the target is served in a newer life.
    over: watch::Sender<bool>,
}

/// Result of one exchange.
pub(crate) enum Outcome {
    Reply(Reply),
    /// The connection, or the session, is gone: make a new one and ask again.
    Lost,
    Failed(RpcError),
}

impl RemoteSession {
    /// `proved`: what each answer proves; `line`: what each answer shows of the line.
    pub(crate) fn new(
        peer: Arc<Peer>,
        client: ClientUuid,
        own: Arc<dyn Clock>,
        proved: Arc<Proved>,
        line: Arc<Mutex<Estimate>>,
    ) -> RemoteSession {
        RemoteSession {
            peer,
            client,
            answers: AtomicU64::new(0),
            proved,
            own,
            clock: PeerClock::default(),
            line,
            over: watch::Sender::new(false),
        }
    }

    /// The peer's clock was shown just now.
    pub(crate) fn learn_clock(&self, shown: u64) {
        self.clock.learn(shown, self.own.now());
    }

    /// The target is served in a newer life: requests under way are to be sent there.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Sends a request, waits for the reply.
    pub(crate) async fn exchange(&self, request: &Request, ask: Ask, waits: bool) -> Outcome {
        let payload = payload_of(self.client, request, waits, self.clock.limit());
        let sent = self.own.now();
        let (begun, asked_bytes) = (self.line.lock().begin(sent), payload.total_len());
        let mut over = self.over.subscribe();
        let answer = tokio::select! {
            biased;
            answer = self.peer.request(payload, ask) => answer,
            _ = over.wait_for(|over| *over) => return Outcome::Lost,
        };
        let frame = match answer {
            Ok(frame) => frame,
            Err(LinkError::NoAnswer { seconds, .. }) => {
                return Outcome::Failed(RpcError::Timeout { target: request.target, seconds });
            }
            // It would be too long each time.
            Err(why @ LinkError::TooLong { .. }) => {
                tracing::error!(target = %request.target, %why, "request not sent");
                return Outcome::Failed(RpcError::Errno(Errno::EMSGSIZE));
            }
            Err(why) => {
                tracing::debug!(target = %request.target, nid = %self.peer.nid(), %why, "request will be sent again");
                return Outcome::Lost;
            }
        };
        self.answers.fetch_add(1, Ordering::Relaxed);
        let bytes = asked_bytes + frame.body.len() + frame.bulk.len();
        self.line.lock().answered(begun, bytes as u64, self.own.now());
        let (envelope, reply) = match open(self.peer.nid(), &frame) {
            Ok(opened) => opened,
            Err(Opened::Bad(error)) => return Outcome::Failed(error),
            // The session may have moved to other connections of this process.
            Err(Opened::Refused(
                Refusal::NoSession | Refusal::NoTarget | Refusal::OtherProcess,
            )) => {
                return Outcome::Lost;
            }
            Err(Opened::Refused(Refusal::Late)) => {
                return Outcome::Failed(RpcError::Late { target: request.target });
            }
            Err(Opened::Refused(refusal)) => {
                let reason = format!("refuses a request: {refusal:?}");
                return Outcome::Failed(RpcError::BadMessage { nid: self.peer.nid(), reason });
            }
        };
        self.proved.prove(sent, envelope.open_ms);
        self.learn_clock(envelope.clock);
        if reply.xid != request.xid {
            let reason = format!("answers {:?} instead of {:?}", reply.xid, request.xid);
            return Outcome::Failed(RpcError::BadMessage { nid: self.peer.nid(), reason });
        }
        Outcome::Reply(reply)
    }
}

pub(crate) fn payload_of(
    client: ClientUuid,
    request: &Request,
    waits: bool,
    limit: u64,
) -> Payload {
    seal(Envelope { client, waits, clock: limit, ..Envelope::default() }, encode_request(request))
}

/// How a request with these operations is to be sent.
pub(crate) fn ask_of(ops: &[Op], limit: std::time::Duration) -> Ask {
    Ask {
        reply_bulk: weight::reply_bulk(ops),
        limit: weight::patience(ops).map(|more| limit + more),
        outside_window: weight::waits(ops),
        background: cause::current() == 0,
    }
}

/// A message that is no reply.
pub(crate) enum Opened {
    Bad(RpcError),
    Refused(Refusal),
}

pub(crate) fn open(nid: Nid, frame: &Frame) -> Result<(Envelope, Reply), Opened> {
    let bad = |reason: String| Opened::Bad(RpcError::BadMessage { nid, reason });
    let envelope = Envelope::decode(&frame.body).map_err(|error| bad(error.to_string()))?;
    if let Some(refusal) = envelope.refusal {
        return Err(Opened::Refused(refusal));
    }
    let reply = decode_reply(frame.body.slice(ENVELOPE_BYTES..), frame.bulk.clone());
    Ok((envelope, reply.map_err(|error| bad(error.to_string()))?))
}
