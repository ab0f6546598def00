//! Typed calls to an object target.

use crate::misfit::unexpected;
use bytes::Bytes;
use rpc::error::RpcError;
use rpc::import::Import;
use std::sync::Arc;
use types::attr::Statfs;
use types::credentials::Credentials;
use types::object::{ObjectId, ObjectOffset};
use wire::message::{Op, OpReply};
use wire::ost::{OstOp, OstReply, PunchKind};

/// Client of one OST.
#[derive(Clone)]
pub struct Osc {
    import: Arc<Import>,
}

impl Osc {
    /// Over this session.
    pub fn new(import: Arc<Import>) -> Osc {
        Osc { import }
    }

    /// The session.
    pub fn import(&self) -> &Arc<Import> {
        &self.import
    }

    async fn call(&self, op: OstOp) -> Result<OstReply, RpcError> {
        match self.import.one(&Credentials::root(), Op::Ost(op)).await? {
            OpReply::Ost(reply) => Ok(reply),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Bytes at `offset`, fewer where the object ends.
    pub async fn read(&self, object: ObjectId, offset: ObjectOffset, len: u32) -> Result<Bytes, RpcError> {
        match self.call(OstOp::Read { object, offset, len }).await? {
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
        match self.call(OstOp::Write { object, offset, data, sync }).await? {
            OstReply::Changed { blocks_delta } => Ok(blocks_delta),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Changes the allocation of a range; by how many 512-byte blocks the object grew.
    pub async fn punch(
        &self,
        object: ObjectId,
        start: ObjectOffset,
        end: ObjectOffset,
        kind: PunchKind,
    ) -> Result<i64, RpcError> {
        match self.call(OstOp::Punch { object, start, end, kind }).await? {
            OstReply::Changed { blocks_delta } => Ok(blocks_delta),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Size in bytes and 512-byte blocks.
    pub async fn getattr(&self, object: ObjectId) -> Result<(u64, u64), RpcError> {
        match self.call(OstOp::Getattr { object }).await? {
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
        match self.call(OstOp::Seek { object, offset, hole }).await? {
            OstReply::Offset(o) => Ok(o),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Removes objects.
    pub async fn destroy(&self, objects: Vec<ObjectId>) -> Result<(), RpcError> {
        match self.call(OstOp::Destroy { objects }).await? {
            OstReply::Done => Ok(()),
            other => Err(unexpected(&self.import, &other)),
        }
    }

    /// Objects (empty = all) are durable when this returns.
    pub async fn sync(&self, objects: Vec<ObjectId>) -> Result<(), RpcError> {
        match self.call(OstOp::Sync { objects }).await? {
            OstReply::Done => Ok(()),
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
}
