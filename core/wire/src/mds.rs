//! Operations of a metadata target.

pub(crate) mod attributes;
pub(crate) mod check;
pub(crate) mod data;
pub(crate) mod layouts;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod opens;
pub(crate) mod peers;
pub(crate) mod realm;
pub(crate) mod reply;
pub(crate) mod root;
pub(crate) mod shared;
pub(crate) mod tickets;

pub use self::attributes::*;
pub use self::check::*;
pub use self::data::*;
pub use self::layouts::*;
pub use self::locks::*;
pub use self::names::*;
pub use self::opens::*;
pub use self::peers::{PeerApply, PeerAsk, PeerCancel, PeerExchange, PeerForget, PeerPrepare};
pub use self::realm::PeerMark;
pub use self::reply::*;
pub use self::root::Root;
pub use self::shared::*;
pub use self::tickets::AskTickets;
pub use crate::opcode::MdsOp;
pub use crate::ost::operations::GrantSpace;
use types::fid::Fid;
use types::object_ticket::Rights;

impl MdsOp {
    /// The file whose bytes it reads or changes, and the right that it needs to them; `NONE`: any
    /// right.
    pub fn bytes_used(&self) -> Option<(Fid, Rights)> {
        match self {
            MdsOp::Read(Read { fid, .. }) => Some((*fid, Rights::READ)),
            MdsOp::Write(Write { fid, .. })
            | MdsOp::Store(Store { fid, .. })
            | MdsOp::Punch(Punch { fid, .. }) => Some((*fid, Rights::WRITE)),
            MdsOp::Setattr(Setattr { fid, set }) if set.size.is_some() => {
                Some((*fid, Rights::WRITE))
            }
            MdsOp::Seek(Seek { fid, .. }) => Some((*fid, Rights::NONE)),
            _ => None,
        }
    }
}
