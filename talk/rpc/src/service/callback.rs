//! The way back: a target sends a client a callback, over the connection that the client made.

use crate::callbacks::CallbackRoute;
use crate::error::RpcError;
use crate::sealed::seal;
use crate::service::Export;
use futures_util::future::{Either, select};
use lnet::error::LinkError;
use lnet::link::Link;
use lnet::payload::{Frame, Payload};
use std::pin::pin;
use std::sync::Arc;
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use types::limits::LEASE;
use types::lock::InodeBits;
use types::session::{Transno, Xid};
use wire::client::{ClientOp, ClientReply};
use wire::codec::{decode_reply, encode_request};
use wire::envelope::{ENVELOPE_BYTES, Envelope, Refusal};
use wire::message::{Op, OpReply, Request};

impl Export {
    /// Sends the client a callback and waits for the answer. After a lost connection it is sent
    /// again over the next one, so the client must accept a repetition.
    ///
    /// # Errors
    /// No answer: the session ended, or the client did not come back within its lease.
    pub async fn callback(&self, op: ClientOp) -> Result<ClientReply, RpcError> {
        ask(self, op).await
    }
}

/// Asks and waits.
async fn ask(export: &Export, op: ClientOp) -> Result<ClientReply, RpcError> {
    let evicted = || RpcError::Evicted { target: export.target() };
    let mut payload = None;
    loop {
        // Before the route is looked at: a change after that is not missed.
        let mut renewals = export.renewals();
        if export.is_gone() {
            return Err(evicted());
        }
        let link = match export.route() {
            CallbackRoute::Local(Some(callbacks)) => return Ok(callbacks.callback(op).await?),
            CallbackRoute::Local(None) => return Err(RpcError::Errno(Errno::EOPNOTSUPP)),
            CallbackRoute::Link(link) => link.upgrade().filter(|link| link.is_open()),
        };
        if let Some(link) = link {
            let payload = payload.get_or_insert_with(|| question(export, &op)).clone();
            let moved = pin!(renewals.wait_for(|_| export.is_gone() || !is_route(export, &link)));
            match select(pin!(link.request(payload, Some(LEASE))), moved).await {
                Either::Right(_) if export.is_gone() => return Err(evicted()),
                // The client came back over another connection: this one may be silent for long
                // before it ends.
                Either::Right(_) => continue,
                Either::Left((Ok(frame), _)) => match understand(export, &link, &frame) {
                    // It has just begun to look for the target elsewhere.
                    Err(RpcError::OtherProcess { .. }) => {}
                    answer => return answer,
                },
                Either::Left((Err(LinkError::NoAnswer { seconds, .. }), _)) => {
                    return Err(RpcError::Timeout { target: export.target(), seconds });
                }
                Either::Left((Err(LinkError::Shutdown), _)) => return Err(RpcError::Shutdown),
                Either::Left((Err(why), _)) => {
                    tracing::debug!(client = %export.client().brief(), %why, "callback will be sent again");
                }
            }
            // The link may have been replaced during the request: wait only if it is still the
            // same.
            if !is_route(export, &link) {
                continue;
            }
        }
        // The client comes back, or its lease ends and the session with it. An error: the export
        // itself is going.
        if renewals.changed().await.is_err() {
            return Err(evicted());
        }
    }
}

/// True if callbacks go over this link.
fn is_route(export: &Export, link: &Arc<Link>) -> bool {
    matches!(export.route(), CallbackRoute::Link(now) if std::ptr::eq(now.as_ptr(), Arc::as_ptr(link)))
}

fn question(export: &Export, op: &ClientOp) -> Payload {
    let request = Request {
        target: export.target(),
        xid: Xid(0),
        xid_known: Xid(0),
        resent: false,
        replay: Transno(0),
        slot: 0,
        locks: InodeBits::NONE,
        credentials: Credentials::root(),
        job: JobId::NONE,
        ops: vec![Op::Client(op.clone())],
    };
    seal(Envelope { client: export.client(), ..Envelope::default() }, encode_request(&request))
}

fn understand(export: &Export, link: &Link, frame: &Frame) -> Result<ClientReply, RpcError> {
    let bad = |reason: String| RpcError::BadMessage { nid: link.nid(), reason };
    let envelope = Envelope::decode(&frame.body).map_err(|e| bad(e.to_string()))?;
    match envelope.refusal {
        None => {}
        Some(Refusal::NoSession) => return Err(RpcError::Evicted { target: export.target() }),
        Some(Refusal::Errno(errno)) => return Err(RpcError::Errno(errno)),
        Some(Refusal::OtherProcess) => {
            return Err(RpcError::OtherProcess { target: export.target() });
        }
        Some(other) => return Err(bad(format!("refuses a callback: {other:?}"))),
    }
    let mut reply = decode_reply(frame.body.slice(ENVELOPE_BYTES..), frame.bulk.clone())
        .map_err(|e| bad(e.to_string()))?;
    match reply.results.pop() {
        Some(Ok(OpReply::Client(answer))) if reply.results.is_empty() => Ok(answer),
        Some(Err(errno)) => Err(RpcError::Errno(errno)),
        _ => Err(bad("answers a callback with something else".to_owned())),
    }
}
