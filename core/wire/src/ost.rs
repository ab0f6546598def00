//! Operations of an object target.

pub(crate) mod operations;
pub(crate) mod punch;
pub(crate) mod reply;

pub use self::operations::*;
pub use self::punch::*;
pub use self::reply::*;
pub use crate::opcode::OstOp;
use types::object::ObjectId;

impl OstOp {
    /// The object whose data or size it changes; None: it changes no such, or removes objects.
    pub fn object_changed(&self) -> Option<ObjectId> {
        match self {
            OstOp::Write(ObjectWrite { object, .. }) | OstOp::Punch(ObjectPunch { object, .. }) => {
                Some(*object)
            }
            _ => None,
        }
    }
}
