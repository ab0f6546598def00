//! Typed calls to an object target.

use crate::misfit::unexpected;
use bytes::Bytes;
use rpc::error::RpcError;
use rpc::import::Import;
use std::sync::Arc;
use tokio::sync::watch;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::errno::Errno;
use types::object::{ObjectId, ObjectOffset};
use types::session::ClientUuid;
use wire::message::{Op, OpReply};
use wire::ost::{
    FenceClients, GrantSpace, ObjectDestroy, ObjectGetattr, ObjectList, ObjectPunch, ObjectRead,
    ObjectSeek, ObjectSync, ObjectWrite, OstOp, OstReply, PunchKind,
};

/// Client of one OST.
#[derive(Clone)]
pub struct Osc {
    import: Arc<Import>,
    /// Shared by all clones.
    active: Arc<watch::Sender<bool>>,
}

/// Objects with sizes in bytes and 512-byte blocks, and whether there are more.
pub type Listed = (Vec<(ObjectId, u64, u64)>, bool);

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
        Osc { import, active: Arc::new(watch::Sender::new(true)) }
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
