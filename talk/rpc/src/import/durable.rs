//! What is durable at the target, and the changes that are kept until they are.

use crate::error::RpcError;
use crate::import::kept::{Kept, synced_by};
use crate::import::remote::{Outcome, RemoteSession};
use crate::import::{Import, Session};
use env::clock::Monotonic;
use futures_util::future::{Either, select};
use lnet::peer::Ask;
use observe::mutant::{Mutant, is_mutant};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::credentials::Credentials;
use types::limits::PING_INTERVAL;
use types::session::Transno;
use types::target::TargetKind;
use wire::message::{Op, Reply};

/// Bytes on a line for which more is kept than usual.
const LINE_BYTES_MAX: u64 = 256 << 20;
/// Pause between two questions what is durable.
const COMMIT_PAUSE: Duration = Duration::from_millis(5);

impl Import {
    /// Newest transno known to be durable there.
    pub fn last_committed(&self) -> Transno {
        Transno(self.last_committed.load(Ordering::Acquire))
    }

    /// Newest transno that any answer of this session named. Of an MDT: once it is durable, all
    /// that was answered so far is.
    pub fn newest(&self) -> Transno {
        Transno(self.newest.load(Ordering::Acquire))
    }

    /// Bytes of changes that are kept because they may not be durable.
    pub fn kept_bytes(&self) -> usize {
        self.link.lock().machine.bytes()
    }

    /// Notes what a reply reports as durable, and keeps the changes that it brings, with the data
    /// of these operations that belongs to them.
    pub(crate) fn keep(&self, reply: &Reply, ops: &[Op]) {
        self.newest.fetch_max(reply.transno.0, Ordering::AcqRel);
        self.learn_committed(reply.last_committed);
        if !reply.redo.is_empty() && self.target.kind != TargetKind::Ost {
            let mut link = self.link.lock();
            for redo in &reply.redo {
                let op = redo.data_in(ops).cloned().map(Box::new);
                let kept = Kept::Redo(redo.bytes.clone(), op);
                let bytes = kept.bytes();
                link.machine.keep(redo.transno, kept, bytes);
            }
        }
    }

    /// An OST sends no redo: the changes are the operations that it was sent, one transno for each.
    /// `false`: the connection was lost since the reply came, so kept changes may have been brought
    /// back without these, and they must be sent again.
    pub(crate) fn keep_sent(
        &self,
        remote: &Arc<RemoteSession>,
        reply: &Reply,
        ops: &mut Vec<Op>,
    ) -> bool {
        let misses = reply.redo.len() != ops.len() || is_mutant(Mutant::KeptDroppedEarly);
        if self.target.kind != TargetKind::Ost || misses {
            return true;
        }
        let mut link = self.link.lock();
        if !matches!(&link.session, Some(Session::Remote(current)) if Arc::ptr_eq(current, remote))
        {
            // Ended in order: nothing will be brought back.
            return link.machine.boot() == 0;
        }
        for (op, redo) in
            ops.drain(..).zip(&reply.redo).filter(|(_, redo)| redo.transno != Transno(0))
        {
            let kept = Kept::Op(op);
            match kept.is_synced() {
                true => link.machine.durable(redo.transno, |older| older.object() == kept.object()),
                false => {
                    let bytes = kept.bytes();
                    link.machine.keep(redo.transno, kept, bytes);
                }
            }
        }
        true
    }

    /// Newest kept change before a sync of single objects is sent; 0 = nothing is kept, or the
    /// request is something else.
    pub(crate) fn newest_kept(&self, ops: &[Op]) -> Transno {
        if synced_by(ops).is_empty() { Transno(0) } else { self.link.lock().machine.newest() }
    }

    /// Changes of synced objects up to `newest` are not brought back: they are on the disk, and if
    /// the client died half-way through, an older state would remain there.
    pub(crate) fn drop_synced(&self, ops: &[Op], reply: &Reply, newest: Transno) {
        if reply.results.iter().all(Result::is_ok) {
            let objects = synced_by(ops);
            let is_synced =
                |kept: &Kept| kept.object().is_some_and(|object| objects.contains(&object));
            self.link.lock().machine.durable(newest, is_synced);
        }
    }

    pub(crate) fn set_committed(&self, last_committed: Transno) {
        self.last_committed.store(last_committed.0, Ordering::Release);
        self.newest.store(last_committed.0, Ordering::Release);
    }

    pub(crate) fn learn_committed(&self, last_committed: Transno) {
        if self.last_committed.fetch_max(last_committed.0, Ordering::AcqRel) < last_committed.0 {
            self.link.lock().machine.committed(last_committed);
        }
    }

    /// Bytes of data that are kept beyond the usual bound, because the answer that they are durable
    /// comes late over a long line.
    fn room_for_line(&self) -> usize {
        match self.target.kind {
            TargetKind::Ost => {
                usize::try_from(2 * self.in_flight().min(LINE_BYTES_MAX)).unwrap_or(0)
            }
            TargetKind::Mdt | TargetKind::Mgt => 0,
        }
    }

    /// Asks what is durable there. However many callers wait for a target that says nothing, one
    /// question is on its way: a caller that comes meanwhile gets its answer, which may be of a
    /// moment before this call.
    ///
    /// # Errors
    /// The target does not answer.
    pub async fn ask_durable(&self) -> Result<(), RpcError> {
        let Some(import) = self.me.upgrade() else { return Ok(()) };
        // The answer says it, whatever the request.
        let ask = async move { import.one(&Credentials::root(), Op::Ping).await.map(drop) };
        self.what_is_durable.answer(ask).await
    }

    /// Waits until one more change can be kept.
    ///
    /// # Errors
    /// The target does not answer, or makes nothing durable until `deadline`.
    pub(crate) async fn room_to_keep(
        &self,
        remote: &Arc<RemoteSession>,
        deadline: Monotonic,
    ) -> Result<(), RpcError> {
        while self.link.lock().machine.is_full(self.room_for_line()) {
            let left = deadline.saturating_sub(self.rpc.env().clock.now());
            if left.is_zero() {
                tracing::error!(target = %self.target, bytes = self.kept_bytes(), "the target makes nothing durable");
                let seconds = self.rpc.timings().request_timeout.as_secs();
                return Err(RpcError::Timeout { target: self.target, seconds });
            }
            let Some(import) = self.me.upgrade() else { return Ok(()) };
            let answer = self.room.answer(import.ask_for_room(remote.clone()));
            match select(answer, self.rpc.env().clock.sleep(left)).await {
                // The request itself will find that out.
                Either::Left((Ok(ControlFlow::Break(())), _)) => return Ok(()),
                Either::Left((Ok(ControlFlow::Continue(())), _)) | Either::Right(_) => {}
                Either::Left((Err(error), _)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks over one session what is durable; `Break`: it is lost. Past the window: no other
    /// request holds this one up.
    async fn ask_for_room(
        self: Arc<Import>,
        remote: Arc<RemoteSession>,
    ) -> Result<ControlFlow<()>, RpcError> {
        let request = self.request_of(self.xids.begin(true).xid, vec![Op::Ping]);
        let ask = Ask {
            reply_bulk: 0,
            limit: Some(PING_INTERVAL * 3),
            outside_window: true,
            background: false,
        };
        match self.exchange(&remote, &request, ask, false).await {
            Outcome::Reply(reply) => self.learn_committed(reply.last_committed),
            Outcome::Lost => return Ok(ControlFlow::Break(())),
            Outcome::Failed(error) => return Err(error),
        }
        self.rpc.env().clock.sleep(COMMIT_PAUSE).await;
        Ok(ControlFlow::Continue(()))
    }
}
