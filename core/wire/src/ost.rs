//! Operations of an object target.

use bytes::Bytes;
use types::attr::Statfs;
use types::fid::Fid;
use types::object::{ObjectId, ObjectOffset};

/// What to do to a range of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PunchKind {
    /// Cut the object at `start` (`end` is ignored); longer objects only, a shorter one stays as it
    /// is.
    Truncate = 0,
    /// Deallocate `[start, end)`; reads give zeros; the size stays.
    Hole = 1,
    /// Zeros in `[start, end)`, allocated; the object grows if need be.
    Zero = 2,
    /// Allocate `[start, end)` without changing data; the object grows if need be.
    Allocate = 3,
}

/// One operation.
#[derive(Clone, PartialEq, Debug)]
pub enum OstOp {
    /// Bytes at `offset`; shorter (even empty) where the object ends. An object that was never
    /// written reads empty.
    Read { object: ObjectId, offset: ObjectOffset, len: u32 },
    /// Store `data`; the object is made if need be. `sync`: durable before the reply.
    Write { object: ObjectId, offset: ObjectOffset, data: Bytes, sync: bool },
    /// Change the allocation of a range.
    Punch { object: ObjectId, start: ObjectOffset, end: ObjectOffset, kind: PunchKind },
    /// Size and blocks.
    Getattr { object: ObjectId },
    /// Next data or hole at or after `offset`; answers `Offset`, None beyond the end.
    Seek { object: ObjectId, offset: ObjectOffset, hole: bool },
    /// Remove these; absent ones are no error. Durable when it answers.
    Destroy { objects: Vec<ObjectId> },
    /// These objects (empty = all) are durable when it answers.
    Sync { objects: Vec<ObjectId> },
    /// Totals.
    Statfs,
    /// Granted space (docs/locks/protocol.md, "Data"), bytes. The writes behind this in the same
    /// request are paid from the client's grant, up to `spend`; what they leave of it is free for
    /// all. `back` is given back, and up to `want` more is asked for. Answers `Granted`.
    Grant { spend: u64, back: u64, want: u64 },
    /// Objects behind `after` (None: from the first), at most `limit`, in an order of the OST's
    /// own; for checkers. Answers `Objects`.
    List { after: Option<ObjectId>, limit: u32 },
}

impl OstOp {
    /// The inode whose object it is about; NONE: there is no such, or there are many.
    pub const fn fid(&self) -> Fid {
        match self {
            OstOp::Read { object, .. }
            | OstOp::Write { object, .. }
            | OstOp::Punch { object, .. }
            | OstOp::Getattr { object }
            | OstOp::Seek { object, .. } => object.fid,
            OstOp::Destroy { .. } | OstOp::Sync { .. } | OstOp::Statfs | OstOp::Grant { .. } | OstOp::List { .. } => {
                Fid::NONE
            }
        }
    }
}

/// What an operation answered.
#[derive(Clone, PartialEq, Debug)]
pub enum OstReply {
    /// Done.
    Done,
    /// Bytes read.
    Data(Bytes),
    /// Stored, cut or allocated: by how many 512-byte blocks the object's allocation grew.
    Changed { blocks_delta: i64 },
    /// Size in bytes, 512-byte blocks; zeros for an object that was never written.
    Attr { size: u64, blocks: u64 },
    /// Position found.
    Offset(Option<ObjectOffset>),
    /// Totals.
    Statfs(Statfs),
    /// `more` bytes more are granted. `paid` bytes of `spend` had been granted; the rest had not
    /// (or the session is a new one).
    Granted { more: u64, paid: u64 },
    /// Objects with their sizes in bytes and their 512-byte blocks; `more` if there are others
    /// behind.
    Objects { objects: Vec<(ObjectId, u64, u64)>, more: bool },
}
