//! A change that is kept until it is durable.

use bytes::Bytes;
use types::object::ObjectId;
use wire::message::Op;
use wire::ost::{ObjectSync, ObjectWrite, OstOp};

/// See the module.
#[allow(clippy::large_enum_variant, reason = "most are operations; a box for each costs a write")]
pub(crate) enum Kept {
    /// Redo of the change, from the MDT's reply; and the operation whose data belongs to it, which
    /// shares that with all others that have it.
    Redo(Bytes, Option<Box<Op>>),
    /// The operation that an OST was asked for; its data is shared with all others that have it.
    Op(Op),
}

impl Kept {
    /// Cost of keeping and of sending it, bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Kept::Redo(bytes, None) => bytes.len(),
            Kept::Redo(bytes, Some(op)) => bytes.len() + op.data().map(<[u8]>::len).sum::<usize>(),
            Kept::Op(Op::Ost(OstOp::Write(ObjectWrite { data, .. }))) => {
                size_of::<Kept>() + data.len()
            }
            Kept::Op(_) => size_of::<Kept>(),
        }
    }

    /// The object that it changed.
    pub(crate) fn object(&self) -> Option<ObjectId> {
        match self {
            Kept::Op(Op::Ost(op)) => op.object_changed(),
            _ => None,
        }
    }

    /// True if it was durable when it was answered, with all earlier changes of its object.
    pub(crate) fn is_synced(&self) -> bool {
        matches!(self, Kept::Op(Op::Ost(OstOp::Write(ObjectWrite { sync: true, .. }))))
    }

    pub(crate) fn into_op(self) -> Option<Op> {
        match self {
            Kept::Redo(..) => None,
            Kept::Op(op) => Some(op),
        }
    }
}

/// The objects that are durable when a request is answered.
pub(crate) fn synced_by(ops: &[Op]) -> &[ObjectId] {
    let sync = ops.iter().find_map(|op| match op {
        Op::Ost(OstOp::Sync(ObjectSync { objects })) => Some(&objects[..]),
        _ => None,
    });
    sync.unwrap_or_default()
}
