//! Recovery with a target that restarted: changes, then opens and locks are brought back
//! (docs/recovery.md).
//!
//! Runs within the attempt to connect, before the session is in service: callers wait as for a
//! connection. Whatever goes wrong ends the attempt; the next one begins again, which does no harm.

use crate::error::RpcError;
use crate::import::hooks::Restoring;
use crate::import::kept::Kept;
use crate::import::remote::{Outcome, RemoteSession};
use crate::import::{Import, Session};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream;
use lnet::peer::Ask;
use replay::import::{Event, ImportAction};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;
use types::limits::PING_INTERVAL;
use types::session::Transno;
use types::target::TargetKind;
use wire::message::{Op, Redo, Reply, Request};

/// Bytes of changes in one request.
const BATCH_BYTES: usize = 1 << 20;
/// Changes in one request.
const BATCH_CHANGES: usize = 1024;
/// Requests that restore something, under way at once.
const RESTORING_MAX: usize = 64;

/// Changes, ascending; to an OST, without bytes, and as many operations; to an MDT, the operations
/// whose data belongs to them.
#[derive(Default)]
struct Batch {
    changes: Vec<Redo>,
    ops: Vec<Op>,
}

impl Import {
    /// Brings everything back; ready when the target is in service.
    ///
    /// # Errors
    /// The connection is lost, or the target gave this client up.
    pub(crate) async fn recover(
        &self,
        remote: &Arc<RemoteSession>,
    ) -> Result<ImportAction, RpcError> {
        if let Some(restore) = self.restore.get().filter(|_| self.target.kind == TargetKind::Ost) {
            let changed: BTreeSet<Fid> = {
                let link = self.link.lock();
                let kept = link.machine.kept_after(Transno(0));
                kept.filter_map(|(_, kept)| kept.object()).map(|object| object.fid).collect()
            };
            for op in restore.before_changes(&changed) {
                self.exchange_in_recovery(remote, vec![op], Some(PING_INTERVAL * 3)).await?;
            }
        }
        let (mut after, mut count) = (Transno(0), 0);
        loop {
            let Batch { changes, ops } = self.batch_after(after);
            let Some(last) = changes.last() else { break };
            (after, count) = (last.transno, count + changes.len());
            // An OST redoes what it is brought, in its place among what others bring, before it
            // answers.
            let at_once = self.target.kind != TargetKind::Ost;
            let limit = at_once.then_some(PING_INTERVAL * 3);
            let ops = [Op::Replay(changes)].into_iter().chain(ops).collect();
            self.exchange_in_recovery(remote, ops, limit).await?;
        }
        tracing::info!(target = %self.target, changes = count, "the target restarted; brought back what it may have lost");
        self.exchange_in_recovery(remote, vec![Op::Replayed], None).await?;
        self.link.lock().machine.event(Event::Replayed);
        let things = self.restore.get().map(|restore| restore.restore()).unwrap_or_default();
        let mut asked = stream::iter(things)
            .map(|thing| self.bring_back(remote, thing))
            .buffer_unordered(RESTORING_MAX);
        while let Some(answer) = asked.next().await {
            answer?;
        }
        drop(asked);
        self.link.lock().machine.event(Event::Restored);
        self.exchange_in_recovery(remote, vec![Op::Restored], None).await?;
        match self.link.lock().machine.event(Event::Opened) {
            // It has nothing else that belongs to sessions: its grants are void.
            ImportAction::Serve if self.target.kind == TargetKind::Ost => Ok(ImportAction::Renewed),
            action => Ok(action),
        }
    }

    fn batch_after(&self, after: Transno) -> Batch {
        let link = self.link.lock();
        let (mut batch, mut bytes) = (Batch::default(), 0);
        for (transno, kept) in link.machine.kept_after(after).take(BATCH_CHANGES) {
            bytes += kept.bytes();
            if bytes > BATCH_BYTES && !batch.changes.is_empty() {
                break;
            }
            match kept {
                Kept::Redo(bytes, op) => {
                    batch.ops.extend(op.as_deref().cloned());
                    let data_of = op.as_ref().map_or(0, |_| batch.ops.len() as u32);
                    batch.changes.push(Redo { transno, bytes: bytes.clone(), data_of });
                }
                Kept::Op(op) => {
                    batch.changes.push(Redo::whole(transno, Bytes::new()));
                    batch.ops.push(op.clone());
                }
            }
        }
        batch
    }

    async fn exchange_in_recovery(
        &self,
        remote: &Arc<RemoteSession>,
        ops: Vec<Op>,
        limit: Option<Duration>,
    ) -> Result<Reply, RpcError> {
        let request = self.request_of(self.xids.begin(true).xid, ops);
        let ask = Ask { reply_bulk: 0, limit, outside_window: true, background: false };
        let reply = self.answered(self.exchange(remote, &request, ask, limit.is_none()).await)?;
        self.learn_committed(reply.last_committed);
        match reply.results.iter().find_map(|result| result.as_ref().err()) {
            None if !reply.results.is_empty() => Ok(reply),
            Some(errno) => Err(RpcError::Refused { target: self.target, errno: *errno }),
            None => Err(RpcError::BadMessage {
                nid: remote.peer.nid(),
                reason: "no result in recovery".to_owned(),
            }),
        }
    }

    async fn bring_back(
        &self,
        remote: &Arc<RemoteSession>,
        thing: Restoring,
    ) -> Result<(), RpcError> {
        let Restoring { credentials, op, locks, answered } = thing;
        let ticket = self.xids.begin_change();
        let request = Request {
            credentials,
            locks,
            slot: ticket.slot,
            replay: Transno(1),
            ..self.request_of(ticket.xid, vec![op])
        };
        let ask = Ask { reply_bulk: 0, limit: None, outside_window: true, background: false };
        let reply = self.answered(self.exchange(remote, &request, ask, true).await)?;
        self.keep(&reply, &[]);
        answered(reply);
        Ok(())
    }

    fn answered(&self, outcome: Outcome) -> Result<Reply, RpcError> {
        match outcome {
            Outcome::Reply(reply) => Ok(reply),
            Outcome::Failed(error) => Err(error),
            Outcome::Lost => Err(RpcError::Unreachable {
                target: self.target,
                nids: Vec::new(),
                reason: "the connection was lost in recovery".to_owned(),
            }),
        }
    }

    /// Connects again as soon as the connection is lost, even without a request: a restarted target
    /// waits for its clients. Ends with the connection, or when messaging stops.
    pub(crate) fn watch_session(&self, remote: &Arc<RemoteSession>) {
        let (import, closed, stopped) = (self.me.clone(), remote.peer.closed(), self.rpc.stopped());
        let session = Arc::downgrade(remote);
        let watch = async move {
            if let Either::Right(_) = select(pin!(closed), pin!(stopped)).await {
                return;
            }
            let (Some(import), Some(session)) = (import.upgrade(), session.upgrade()) else {
                return;
            };
            let current = matches!(import.session_and_history().0, Some(Session::Remote(now)) if Arc::ptr_eq(&now, &session));
            if !current {
                return;
            }
            import.lost_remote(&session);
            drop(session);
            if let Err(error) = import.connect().await {
                tracing::debug!(target = %import.target, %error, "no session");
            }
        };
        self.rpc.env().tasks.spawn("watch session", Box::pin(watch));
    }
}
