//! Operations of an object target.

pub(crate) mod operations;
pub(crate) mod punch;
pub(crate) mod reply;

pub use self::operations::*;
pub use self::punch::*;
pub use self::reply::*;
pub use crate::opcode::OstOp;
use types::fid::Fid;
use types::object::ObjectId;
use types::object_ticket::Rights;

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

    /// Calls `each` with the files after which the objects are named that it is about, and with the
    /// right that it needs to each; `NONE`: any right. What clients may not send is not looked at.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn try_each_use<E>(
        &self,
        mut each: impl FnMut(Fid, Rights) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            OstOp::Read(ObjectRead { object, .. }) => each(object.fid, Rights::READ),
            OstOp::Write(ObjectWrite { object, .. }) | OstOp::Punch(ObjectPunch { object, .. }) => {
                each(object.fid, Rights::WRITE)
            }
            OstOp::Getattr(ObjectGetattr { object }) | OstOp::Seek(ObjectSeek { object, .. }) => {
                each(object.fid, Rights::NONE)
            }
            OstOp::Sync(ObjectSync { objects }) => {
                objects.iter().try_for_each(|object| each(object.fid, Rights::NONE))
            }
            OstOp::Destroy(_)
            | OstOp::Grant(_)
            | OstOp::Fence(_)
            | OstOp::Tickets(_)
            | OstOp::List(_)
            | OstOp::Statfs => Ok(()),
        }
    }
}
