//! Typed calls to an object target.

use crate::misfit::unexpected;
use crate::tickets::{Refused, TicketKeeper, Uses};
use bytes::Bytes;
use rpc::error::RpcError;
use rpc::import::Import;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::TICKETS_PER_OP_MAX;
use types::object::{ObjectId, ObjectOffset};
use types::object_ticket::{ObjectTicket, Rights};
use types::session::ClientUuid;
use wire::message::{Op, OpReply};
use wire::ost::{
    FenceClients, GrantSpace, ObjectDestroy, ObjectGetattr, ObjectList, ObjectPunch, ObjectRead,
    ObjectSeek, ObjectSync, ObjectWrite, OstOp, OstReply, PunchKind, ShowTickets,
};

/// Client of one OST.
#[derive(Clone)]
pub struct Osc {
    import: Arc<Import>,
    tickets: Option<Arc<dyn TicketKeeper>>,
    /// Shared by all clones.
    active: Arc<watch::Sender<bool>>,
}

/// Objects with sizes in bytes and 512-byte blocks, and whether there are more.
pub type Listed = (Vec<(ObjectId, u64, u64)>, bool);

/// How often a request is repeated because of its tickets: the OST may have forgotten them, and
/// then they may be no good any more.
const SHOWN_AGAIN_MAX: usize = 2;

/// Why an OST has refused a whole request, if it has.
fn refusal(results: &[Result<OpReply, Errno>]) -> Option<Errno> {
    results.first().and_then(|result| result.as_ref().err().copied())
}

fn asks_for_tickets(results: &[Result<OpReply, Errno>]) -> bool {
    matches!(refusal(results), Some(Errno::ENOKEY | Errno::EKEYREJECTED))
}

fn ticket_op(tickets: &[ObjectTicket]) -> Op {
    Op::Ost(OstOp::Tickets(ShowTickets { tickets: tickets.to_vec() }))
}

fn uses_of(ops: &[Op]) -> Uses {
    let mut uses = BTreeMap::<Fid, Rights>::new();
    let ops = ops.iter().filter_map(|op| if let Op::Ost(op) = op { Some(op) } else { None });
    for op in ops {
        let noted = op.try_each_use(|fid, rights| {
            *uses.entry(fid).or_default() |= rights;
            Ok::<_, Infallible>(())
        });
        match noted {
            Ok(()) => {}
        }
    }
    uses.into_iter().collect()
}

/// Result of [`Osc::store`].
#[derive(Debug)]
pub struct Batch {
    /// Granted on top, bytes.
    pub more: u64,
    /// Of each piece: by how many 512-byte blocks its object grew, or why it is not stored.
    pub pieces: Vec<Result<i64, Errno>>,
    /// Whether all of it is durable, if that was asked for.
    pub durable: Result<(), Errno>,
}

impl Osc {
    /// Over this session.
    pub fn new(import: Arc<Import>) -> Osc {
        Osc { import, tickets: None, active: Arc::new(watch::Sender::new(true)) }
    }

    /// Over this session; shows the tickets of this keeper if the OST asks for them.
    pub fn with_tickets(import: Arc<Import>, keeper: Arc<dyn TicketKeeper>) -> Osc {
        Osc { tickets: Some(keeper), ..Osc::new(import) }
    }

    /// True if the OST is in use.
    pub fn is_active(&self) -> bool {
        *self.active.borrow()
    }

    /// Takes the OST out of use, or back into it. While it is out, all calls fail with EIO at once,
    /// also those that wait for an answer now. Whether a change of such a call takes effect is then
    /// unknown.
    pub fn set_active(&self, active: bool) {
        self.active.send_replace(active);
    }

    async fn ask(&self, ops: Vec<Op>) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        let Some(keeper) = self.tickets.as_ref().filter(|_| !self.import.is_local()) else {
            return self.send(ops).await;
        };
        if !keeper.is_wanted() {
            // It costs references to the data, and no copies.
            let again = ops.clone();
            let results = self.send(ops).await?;
            return match asks_for_tickets(&results) {
                false => Ok(results),
                true => Box::pin(self.ask_with_tickets(&**keeper, again)).await,
            };
        }
        Box::pin(self.ask_with_tickets(&**keeper, ops)).await
    }

    /// Shows in front of the operations the tickets that the OST does not know yet. If it has
    /// forgotten them, they are shown again; if it does not believe them, others are asked for,
    /// once.
    async fn ask_with_tickets(
        &self,
        keeper: &dyn TicketKeeper,
        ops: Vec<Op>,
    ) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        let (ost, uses) = (self.import.target().index, uses_of(&ops));
        if uses.is_empty() {
            return self.send(ops).await;
        }
        for _ in 0..=SHOWN_AGAIN_MAX {
            let shown = match keeper.to_show(ost, uses.clone()).await {
                Ok(shown) => shown,
                // Perhaps the OST asks for none any more.
                Err(RpcError::Errno(Errno::EACCES)) => {
                    let results = self.send(ops).await?;
                    return match asks_for_tickets(&results) {
                        false => Ok(results),
                        true => Err(RpcError::Errno(Errno::EACCES)),
                    };
                }
                Err(error) => return Err(error),
            };
            let mut chunks: Vec<&[ObjectTicket]> = shown.chunks(TICKETS_PER_OP_MAX).collect();
            let last = chunks.pop();
            let mut results = Vec::new();
            for tickets in chunks {
                results = self.send(vec![ticket_op(tickets)]).await?;
                if asks_for_tickets(&results) {
                    break;
                }
            }
            if !asks_for_tickets(&results) {
                let request = last.map(ticket_op).into_iter().chain(ops.iter().cloned());
                results = self.send(request.collect()).await?;
            }
            if !asks_for_tickets(&results) {
                if last.is_some() {
                    results.drain(..1);
                    keeper.shown(ost, &shown);
                }
                return Ok(results);
            }
            // What it was shown just now it has not forgotten.
            let is_shown = |(fid, _): &(Fid, _)| shown.iter().any(|ticket| ticket.fid == *fid);
            let forgotten = refusal(&results) == Some(Errno::ENOKEY) && !uses.iter().all(is_shown);
            let why = if forgotten { Refused::Forgotten } else { Refused::NotBelieved };
            keeper.refused(ost, &uses, why);
        }
        tracing::warn!(target = %self.import.target(), "the tickets of MDTs are refused");
        Err(RpcError::Errno(Errno::EACCES))
    }

    async fn send(&self, ops: Vec<Op>) -> Result<Vec<Result<OpReply, Errno>>, RpcError> {
        let credentials = Credentials::root();
        if !self.is_active() {
            return Err(RpcError::Errno(Errno::EIO));
        }
        let answer = self.import.call(&credentials, ops);
        // In this process it answers, and what it has begun it ends.
        if self.import.is_local() {
            return answer.await;
        }
        let mut active = self.active.subscribe();
        tokio::select! {
            biased;
            answer = answer => answer,
            _ = active.wait_for(|active| !active) => Err(RpcError::Errno(Errno::EIO)),
        }
    }

    /// The session.
    pub fn import(&self) -> &Arc<Import> {
        &self.import
    }

    async fn call(&self, op: OstOp) -> Result<OstReply, RpcError> {
        match self.ask(vec![Op::Ost(op)]).await?.pop() {
            Some(Ok(OpReply::Ost(reply))) => Ok(reply),
            Some(Err(errno)) => Err(RpcError::Errno(errno)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Bytes at `offset`, fewer where the object ends.
    pub async fn read(
        &self,
        object: ObjectId,
        offset: ObjectOffset,
        len: u32,
    ) -> Result<Bytes, RpcError> {
        match self.call(OstOp::Read(ObjectRead { object, offset, len })).await? {
            OstReply::Data(d) => Ok(d),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Stores bytes; by how many 512-byte blocks the object grew.
    pub async fn write(
        &self,
        object: ObjectId,
        offset: ObjectOffset,
        data: Bytes,
        sync: bool,
    ) -> Result<i64, RpcError> {
        match self.call(OstOp::Write(ObjectWrite { object, offset, data, sync })).await? {
            OstReply::Changed { blocks_delta } => Ok(blocks_delta),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Asks for a grant of up to `want` bytes, and gives `back` some: how many more were granted.
    pub async fn grant(&self, back: u64, want: u64) -> Result<u64, RpcError> {
        match self.call(OstOp::Grant(GrantSpace { spend: 0, back, want })).await? {
            OstReply::Granted { more, .. } => Ok(more),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Stores many pieces with one request, paid with `spend` granted bytes, and asks for `want`
    /// more. `durable`: all of it is durable when this returns. After the first piece that fails,
    /// the others fail with ECANCELED.
    pub async fn store(
        &self,
        (spend, want): (u64, u64),
        pieces: Vec<(ObjectId, ObjectOffset, Bytes)>,
        durable: bool,
    ) -> Result<Batch, RpcError> {
        let mut objects: Vec<ObjectId> = pieces.iter().map(|(object, ..)| *object).collect();
        objects.sort_unstable();
        objects.dedup();
        let writes = pieces.into_iter().map(|(object, offset, data)| {
            OstOp::Write(ObjectWrite { object, offset, data, sync: false })
        });
        let ops = [OstOp::Grant(GrantSpace { spend, back: 0, want })].into_iter().chain(writes);
        let ops = ops
            .chain(durable.then_some(OstOp::Sync(ObjectSync { objects })))
            .map(Op::Ost)
            .collect();
        let mut results = self.ask(ops).await?.into_iter();
        let more = match results.next() {
            Some(Ok(OpReply::Ost(OstReply::Granted { more, .. }))) => more,
            Some(Err(errno)) => return Err(RpcError::Errno(errno)),
            other => return Err(unexpected(&self.import, &other)),
        };
        let durable = match durable.then(|| results.next_back()).flatten() {
            None | Some(Ok(OpReply::Ost(OstReply::Done))) => Ok(()),
            Some(Err(errno)) => Err(errno),
            Some(Ok(other)) => return Err(unexpected(&self.import, &other)),
        };
        let mut pieces = Vec::with_capacity(results.len());
        for result in results {
            match result {
                Ok(OpReply::Ost(OstReply::Changed { blocks_delta })) => {
                    pieces.push(Ok(blocks_delta))
                }
                Ok(other) => return Err(unexpected(&self.import, &other)),
                Err(errno) => pieces.push(Err(errno)),
            }
        }
        Ok(Batch { more, pieces, durable })
    }

    /// Changes the allocation of a range; by how many 512-byte blocks the object grew.
    pub async fn punch(
        &self,
        object: ObjectId,
        start: ObjectOffset,
        end: ObjectOffset,
        kind: PunchKind,
    ) -> Result<i64, RpcError> {
        match self.call(OstOp::Punch(ObjectPunch { object, start, end, kind })).await? {
            OstReply::Changed { blocks_delta } => Ok(blocks_delta),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Size in bytes and 512-byte blocks.
    pub async fn getattr(&self, object: ObjectId) -> Result<(u64, u64), RpcError> {
        match self.call(OstOp::Getattr(ObjectGetattr { object })).await? {
            OstReply::Attr { size, blocks } => Ok((size, blocks)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Next data or hole.
    pub async fn seek(
        &self,
        object: ObjectId,
        offset: ObjectOffset,
        hole: bool,
    ) -> Result<Option<ObjectOffset>, RpcError> {
        match self.call(OstOp::Seek(ObjectSeek { object, offset, hole })).await? {
            OstReply::Offset(o) => Ok(o),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Removes objects.
    pub async fn destroy(&self, objects: Vec<ObjectId>) -> Result<(), RpcError> {
        match self.call(OstOp::Destroy(ObjectDestroy { objects })).await? {
            OstReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Objects (empty = all) are durable when this returns.
    pub async fn sync(&self, objects: Vec<ObjectId>) -> Result<(), RpcError> {
        match self.call(OstOp::Sync(ObjectSync { objects })).await? {
            OstReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Tells an OST which clients an MDT has evicted, or asks it what it was told: its boot number,
    /// and the clients. Also while the OST is out of use, for clients may use it.
    pub async fn fence(&self, fence: FenceClients) -> Result<(u64, Vec<ClientUuid>), RpcError> {
        let op = Op::Ost(OstOp::Fence(fence));
        match self.import.one(&Credentials::root(), op).await? {
            OpReply::Ost(OstReply::Fenced { boot, clients }) => Ok((boot, clients)),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Totals.
    pub async fn statfs(&self) -> Result<Statfs, RpcError> {
        match self.call(OstOp::Statfs).await? {
            OstReply::Statfs(s) => Ok(s),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Objects after `after` with sizes in bytes and 512-byte blocks, at most `limit`, and whether
    /// there are more.
    pub async fn list(&self, after: Option<ObjectId>, limit: u32) -> Result<Listed, RpcError> {
        match self.call(OstOp::List(ObjectList { after, limit })).await? {
            OstReply::Objects { objects, more } => Ok((objects, more)),
            other => Err(unexpected(&self.import, &other)),
        }
    }
}
