//! Messages that come over links: requests for targets of this process, callbacks for its clients.

use crate::Rpc;
use crate::callbacks::CallbackRoute;
use crate::deadline;
use crate::sealed::seal;
use crate::service::admission;
use crate::service::faults::{self, Coming};
use crate::service::reply_cache::Verdict;
use crate::service::served::{ConnectError, Served};
use crate::service::{Export, Gone, Origin};
use crate::weight;
use lnet::error::LinkError;
use lnet::link::{Handler, Link, Work};
use lnet::payload::{Frame, Payload};
use observe::fault;
use observe::mutant::{Mutant, is_mutant};
use std::future::ready;
use std::sync::{Arc, Weak};
use types::errno::Errno;
use types::principal::Role;
use types::session::{ClientUuid, Pairing, Transno, Xid};
use types::target::TargetName;
use wire::class::Changes;
use wire::client::{ClientOp, ClientReply};
use wire::codec::{Encoded, ReplyPieces, decode_request, encode_reply};
use wire::envelope::{ENVELOPE_BYTES, Envelope, Refusal};
use wire::mds::MdsOp;
use wire::message::{Op, OpReply, Reply, Request};

/// The handler of all links of a process.
pub(crate) struct Inbound {
    pub(crate) rpc: Weak<Rpc>,
}

fn refuse(client: ClientUuid, refusal: Refusal) -> Work {
    at_once(Some(refusal_of(client, refusal)))
}

fn refusal_of(client: ClientUuid, refusal: Refusal) -> Payload {
    seal(Envelope { client, refusal: Some(refusal), ..Envelope::default() }, Encoded::default())
}

fn at_once(payload: Option<Payload>) -> Work {
    Work { future: Box::pin(ready(payload)), waits: false, room: None }
}

fn reply_of(rpc: &Rpc, client: ClientUuid, reply: &Reply) -> Payload {
    let clock = deadline::shown(rpc.env().clock.now());
    seal(Envelope { client, clock, ..Envelope::default() }, encode_reply(reply))
}

/// As [`reply_of`], in a session.
fn reply_in(rpc: &Rpc, export: &Export, reply: &Reply) -> Payload {
    sealed_in(rpc, export, encode_reply(reply))
}

/// The same of a reply that may be large: what else waits for this thread gets its turns between
/// the pieces. The reply itself stands: locks that it grants are known to the table by now, and if
/// one is called back meanwhile, the client hears of that first, as it may of any reply.
async fn reply_in_pieces(rpc: &Rpc, export: &Export, reply: Reply) -> Payload {
    let mut pieces = ReplyPieces::of(reply);
    while pieces.next_piece() {
        tokio::task::yield_now().await;
    }
    sealed_in(rpc, export, pieces.finish())
}

fn sealed_in(rpc: &Rpc, export: &Export, reply: Encoded) -> Payload {
    let (clock, open_ms) = moment(rpc, export);
    seal(Envelope { client: export.client(), open_ms, clock, ..Envelope::default() }, reply)
}

/// A reply that was made before goes out once more: its envelope shows the present state.
fn reply_again(rpc: &Rpc, export: &Export, mut payload: Payload) -> Payload {
    let (clock, open_ms) = moment(rpc, export);
    match Envelope::decode(&payload.head) {
        Ok(envelope) if envelope.refusal.is_none() => {
            payload.head = Envelope { open_ms, clock, ..envelope }.encode();
        }
        // A refusal shows no time.
        _ => {}
    }
    payload
}

/// The clock, and what the client owes.
fn moment(rpc: &Rpc, export: &Export) -> (u64, u32) {
    let now = rpc.env().clock.now();
    (deadline::shown(now), export.open_ms(now))
}

fn single(xid: Xid, last_committed: Transno, result: Result<OpReply, Errno>) -> Reply {
    Reply::new(xid, Transno(0), last_committed, vec![result])
}

impl Handler for Inbound {
    fn request(&self, link: &Arc<Link>, mut frame: Frame) -> Work {
        let room = frame.room.take();
        let (mut work, gathers) = self.work(link, frame);
        // Changes that are brought back to a restarted target wait until all other clients have
        // brought theirs: they must not take the others' room. They have a bound of their own.
        work.room = room.filter(|_| !gathers);
        work
    }
}

impl Inbound {
    /// Also returns whether it brings something back to a restarted target.
    fn work(&self, link: &Arc<Link>, frame: Frame) -> (Work, bool) {
        let Some(rpc) = self.rpc.upgrade() else { return (at_once(None), false) };
        let envelope = match Envelope::decode(&frame.body) {
            Ok(envelope) => envelope,
            Err(error) => {
                link.close(LinkError::Protocol { nid: link.nid(), reason: error.to_string() });
                return (at_once(None), false);
            }
        };
        let client = envelope.client;
        let mut request = match decode_request(frame.body.slice(ENVELOPE_BYTES..), frame.bulk) {
            Ok(request) => request,
            Err(error) => {
                // Its checksum was good: the peer is another build, or a broken one. The link
                // itself is in order.
                if let Some(others) = rpc.complaints.pass(rpc.env().clock.now()) {
                    tracing::warn!(nid = %link.nid(), %error, others, "request cannot be understood");
                }
                return (refuse(client, Refusal::BadRequest), false);
            }
        };
        let gathers = matches!(request.ops.first(), Some(Op::Replay(_)));
        let work = match request.ops.first() {
            Some(Op::Connect(_)) => match request.ops.pop() {
                Some(Op::Connect(hello)) if request.ops.is_empty() && hello.client == client => {
                    let served = rpc.served().get(request.target);
                    let work = connect(&rpc, link, (&request, hello), served.as_ref());
                    if_owned(&rpc, client, served, work)
                }
                _ => refuse(client, Refusal::BadRequest),
            },
            _ if fault::armed() => under_watch(&rpc, link, envelope, request),
            _ => ordinary(&rpc, link, envelope, request),
        };
        (work, gathers)
    }
}

/// As [`ordinary`], past the fault points.
fn under_watch(rpc: &Arc<Rpc>, link: &Arc<Link>, envelope: Envelope, request: Request) -> Work {
    match faults::coming(link, &request) {
        Coming::GoesOn(watched) => {
            let work = ordinary(rpc, link, envelope, request);
            watched.work(rpc.env().clone(), link.clone(), work)
        }
        Coming::Fails(errno) => {
            let results = request.ops.iter().map(|_| Err(errno)).collect();
            let reply = Reply::new(request.xid, Transno(0), Transno(0), results);
            at_once(Some(reply_of(rpc, envelope.client, &reply)))
        }
        Coming::Lost => at_once(None),
    }
}

/// A callback, or a request for a target of this process.
fn ordinary(rpc: &Arc<Rpc>, link: &Link, envelope: Envelope, mut request: Request) -> Work {
    let client = envelope.client;
    match request.ops.first() {
        Some(Op::Client(_)) => match request.ops.pop() {
            Some(Op::Client(op)) if request.ops.is_empty() => {
                callback(rpc, link, client, (&request, op))
            }
            _ => refuse(client, Refusal::BadRequest),
        },
        _ => {
            let served = rpc.served().get(request.target);
            let work = serve(rpc, link, envelope, (request, served.clone()));
            if_owned(rpc, client, served, work)
        }
    }
}

/// What a target says that another process can take over: it is sent only if this process surely
/// still owns the target, now that it was worked out. If not, the client looks for the owner.
fn if_owned(rpc: &Arc<Rpc>, client: ClientUuid, served: Option<Arc<Served>>, work: Work) -> Work {
    let Some(ownership) = served.and_then(|served| served.ownership.clone()) else { return work };
    let (rpc, Work { future, waits, room }) = (rpc.clone(), work);
    let future = async move {
        let payload = future.await;
        match ownership.holds(rpc.env().clock.now()) || is_mutant(Mutant::AnswersWithoutLease) {
            true => payload,
            false => Some(refusal_of(client, Refusal::NoTarget)),
        }
    };
    Work { future: Box::pin(future), waits, room }
}

fn connect(
    rpc: &Arc<Rpc>,
    link: &Arc<Link>,
    (request, hello): (&Request, wire::message::ConnectRequest),
    served: Option<&Arc<Served>>,
) -> Work {
    let client = hello.client;
    let Some(served) = served else {
        return refuse(client, Refusal::NoTarget);
    };
    let pairing = link.pairing();
    if pairing == Pairing(0) || link.is_dialled() {
        // Nothing could be known to belong to the session.
        return refuse(client, Refusal::OtherProcess);
    }
    let principal = link.principal().cloned();
    let role = match &principal {
        Some(principal) => principal.role,
        None if rpc.server_key().made(hello.server, pairing, client, request.target) => {
            Role::Server
        }
        None => Role::Anonymous,
    };
    let route = CallbackRoute::Link(Arc::downgrade(link));
    let (nid, description) = (link.origin(), hello.description.clone());
    let origin = Origin { nid, description, route, pairing: Some(pairing), principal };
    match served.connect(&hello, origin, role) {
        Ok(connected) => {
            connected.export.replies().greeted(request.xid, request.xid_known);
            link.has_session();
            connected.export.heard(rpc.env().clock.now());
            rpc.watch_leases();
            let committed = connected.reply.last_committed;
            let reply = single(request.xid, committed, Ok(OpReply::Connect(connected.reply)));
            let payload = reply_in(rpc, &connected.export, &reply);
            match served.service.connected(&connected.export) {
                None => at_once(Some(payload)),
                Some(known) => {
                    let future = async move {
                        known.await;
                        Some(payload)
                    };
                    Work { future: Box::pin(future), waits: false, room: None }
                }
            }
        }
        Err(ConnectError::Refusal(admission::Refusal::Version)) => refuse(client, Refusal::Version),
        Err(ConnectError::Refusal(admission::Refusal::Cluster(_))) => {
            refuse(client, Refusal::Cluster)
        }
        Err(ConnectError::Refusal(admission::Refusal::OtherProcess)) => other_process(
            rpc,
            link,
            client,
            request.target,
            "asks for a session of another process",
        ),
        Err(ConnectError::Errno(errno)) => {
            match errno {
                Errno::EAGAIN => link.be_patient(),
                Errno::EBUSY => {
                    if let Some(others) = rpc.complaints.pass(rpc.env().clock.now()) {
                        let target = request.target;
                        tracing::warn!(%target, nid = %link.nid(), others, "no place for one more session");
                    }
                }
                _ => {}
            }
            refuse(client, Refusal::Errno(errno))
        }
    }
}

/// Refuses what only the other process may send, and says so in the log.
fn other_process(
    rpc: &Rpc,
    link: &Link,
    client: ClientUuid,
    target: TargetName,
    what: &str,
) -> Work {
    if let Some(others) = rpc.complaints.pass(rpc.env().clock.now()) {
        tracing::warn!(%target, client = %client.brief(), nid = %link.nid(), others, "refused: a peer {what}");
    }
    refuse(client, Refusal::OtherProcess)
}

/// A server calls back a client of this process.
fn callback(
    rpc: &Arc<Rpc>,
    link: &Link,
    client: ClientUuid,
    (request, op): (&Request, ClientOp),
) -> Work {
    let Some(import) = rpc.find_import(request.target, client) else {
        return refuse(client, Refusal::NoSession);
    };
    if !link.is_dialled() || !import.is_at(link.nid()) {
        return other_process(
            rpc,
            link,
            client,
            request.target,
            "calls back for a target that is not there",
        );
    }
    if let ClientOp::Squash(news) = op {
        import.learn_squash(news);
        let done = single(request.xid, Transno(0), Ok(OpReply::Client(ClientReply::Done)));
        return at_once(Some(reply_of(rpc, client, &done)));
    }
    let Some(callbacks) = import.callbacks.clone() else {
        return refuse(client, Refusal::Errno(Errno::EOPNOTSUPP));
    };
    let (rpc, xid, answer) = (rpc.clone(), request.xid, callbacks.callback(op));
    let future = async move {
        let result = answer.await.map(OpReply::Client);
        Some(reply_of(&rpc, client, &single(xid, Transno(0), result)))
    };
    Work { future: Box::pin(future), waits: false, room: None }
}

fn serve(
    rpc: &Arc<Rpc>,
    link: &Link,
    envelope: Envelope,
    (request, served): (Request, Option<Arc<Served>>),
) -> Work {
    let client = envelope.client;
    let Some(served) = served else {
        return refuse(client, Refusal::NoTarget);
    };
    let Some(export) = served.export(client).filter(|export| !export.is_gone()) else {
        return refuse(client, Refusal::NoSession);
    };
    let is_paired = export.is_paired(link.pairing(), link.principal());
    if link.is_dialled() || !is_paired && !is_mutant(Mutant::AnySession) {
        return other_process(
            rpc,
            link,
            client,
            request.target,
            "uses the session of another process",
        );
    }
    export.heard(rpc.env().clock.now());
    let done = |export: &Export| {
        let committed = export.last_committed().max(served.service.last_committed());
        at_once(Some(reply_in(rpc, export, &single(request.xid, committed, Ok(OpReply::Done)))))
    };
    match &request.ops[..] {
        [Op::Ping] => {
            served.service.pinged(&export, request.xid_known);
            return done(&export);
        }
        [Op::Disconnect] if export.replies().is_before_greeting(request.xid) => {
            return over(rpc, link, &request, client);
        }
        [Op::Disconnect] => {
            served.end(&export, Gone::Disconnected);
            return done(&export);
        }
        [Op::Mds(MdsOp::FlockSet(_))] if envelope.waits => {
            return flock_that_waits(rpc, served, export, (request, envelope.clock));
        }
        _ => {}
    }
    if weight::changes(&request.ops) == Changes::Nothing || envelope.waits {
        let answer = answer(rpc.clone(), served, export, request, envelope.clock);
        return Work {
            future: Box::pin(async move { Some(answer.await.0) }),
            waits: envelope.waits,
            room: None,
        };
    }
    match export.replies().begin(request.xid, request.xid_known) {
        Verdict::New => {
            let (kept, xid) = (export.clone(), request.xid);
            let answer = answer(rpc.clone(), served, export, request, envelope.clock);
            let future = async move {
                let (payload, begun) = answer.await;
                match begun {
                    true => kept.replies().done(xid, &payload),
                    // Sent again, with a new limit, it may be begun.
                    false => kept.replies().not_begun(xid, &payload),
                }
                Some(payload)
            };
            Work { future: Box::pin(future), waits: false, room: None }
        }
        Verdict::Done(payload) => at_once(Some(reply_again(rpc, &export, payload))),
        // An error: the task that ran it was dropped with its reactor; no answer will come any
        // more.
        Verdict::Running(later) => {
            Work { future: Box::pin(async move { later.await.ok() }), waits: false, room: None }
        }
        Verdict::Over => over(rpc, link, &request, client),
    }
}

/// A request came on a connection that its client gave up, after the client had seen the answer on
/// another one, or had ended the session that it was of. It does not wait for this answer.
fn over(rpc: &Rpc, link: &Link, request: &Request, client: ClientUuid) -> Work {
    if let Some(others) = rpc.complaints.pass(rpc.env().clock.now()) {
        let (target, client, nid) = (request.target, client.brief(), link.nid());
        tracing::info!(%target, %client, %nid, others, "a request came once more, too late: it is not done");
    }
    refuse(client, Refusal::BadRequest)
}

/// A lock of flock(2) or fcntl(2) that may wait: see [`super::reply_cache`].
fn flock_that_waits(
    rpc: &Arc<Rpc>,
    served: Arc<Served>,
    export: Arc<Export>,
    (request, limit): (Request, u64),
) -> Work {
    let (xid, clock) = (request.xid, rpc.env().clock.clone());
    if let Some(payload) = export.replies().waited(xid, clock.now()) {
        return at_once(Some(reply_again(rpc, &export, payload)));
    }
    let answer = answer(rpc.clone(), served, export.clone(), request, limit);
    let future = async move {
        let (payload, begun) = answer.await;
        if begun {
            export.replies().done_waiting(xid, clock.now(), &payload);
        }
        Some(payload)
    };
    Work { future: Box::pin(future), waits: true, room: None }
}

/// The answer, and whether the request was begun.
async fn answer(
    rpc: Arc<Rpc>,
    served: Arc<Served>,
    export: Arc<Export>,
    request: Request,
    limit: u64,
) -> (Payload, bool) {
    let client = export.client();
    let is_late = deadline::is_late(limit, rpc.env().clock.now())
        && !is_mutant(Mutant::FenceIgnored)
        && !is_mutant(Mutant::LimitIgnored);
    let is_fenced = served.service.is_fenced(&export, &request);
    if is_late || is_fenced {
        if let Some(others) = rpc.complaints.pass(rpc.env().clock.now()) {
            tracing::warn!(
                target = %request.target,
                client = %client.brief(),
                is_fenced,
                others,
                "a request was not begun: it came after its limit, or an MDT has evicted its client"
            );
        }
        return (refusal_of(client, Refusal::Late), false);
    }
    let reply = served.handle(&export, request, &rpc.env().clock).await;
    export.learn_committed(reply.last_committed);
    (reply_in_pieces(&rpc, &export, reply).await, true)
}
