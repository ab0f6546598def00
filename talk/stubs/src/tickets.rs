//! Tickets between the calls to MDTs, which give them, and those to targets that ask for them
//! (docs/security.md, "Object tickets").

use rpc::error::RpcError;
use std::future::Future;
use std::pin::Pin;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::object_ticket::{ObjectTicket, Rights};
use types::target::TargetIndex;
use wire::mds::{AskTickets, MdsOp, MdsReply};

/// Tickets to show, or why there are none.
pub type ToShow<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<ObjectTicket>, RpcError>> + Send + 'a>>;

/// Tickets that are asked for.
pub type Asked<'a> = Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + 'a>>;

/// Files after which objects are named, each once, and the rights that are needed to them; `NONE`:
/// any right.
pub type Uses = Vec<(Fid, Rights)>;

/// Why an OST is to be shown tickets again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It does not know them any more.
    Forgotten,
    /// It does not believe them: others are needed.
    NotBelieved,
}

/// Keeper of the tickets of one client. As long as no target has asked for tickets it is only asked
/// [`TicketKeeper::is_wanted`].
pub trait TicketKeeper: Send + Sync {
    /// True if a target has asked this client for tickets.
    fn is_wanted(&self) -> bool;

    /// Tickets for these uses of objects that the OST was not shown yet. Asks MDTs for those that
    /// are missing.
    fn to_show(&self, ost: TargetIndex, uses: Uses) -> ToShow<'_>;

    /// The OST took them.
    fn shown(&self, ost: TargetIndex, tickets: &[ObjectTicket]);

    /// The OST is to be shown tickets for these uses again.
    fn refused(&self, ost: TargetIndex, uses: &Uses, why: Refused);

    /// An MDT has given this client no such rights to the bytes of these files that are there, or
    /// has forgotten it: asks for tickets anew. A caller is about to use them.
    fn ask_again(&self, credentials: &Credentials, files: Uses) -> Asked<'_>;

    /// The tickets to ask for behind these operations of a caller, in the same request.
    fn behind(&self, credentials: &Credentials, ops: &[MdsOp]) -> Option<AskTickets>;

    /// The answers to those operations, and what was answered to [`TicketKeeper::behind`].
    fn learn(
        &self,
        credentials: &Credentials,
        asked: &AskTickets,
        results: &[Result<MdsReply, Errno>],
        answer: Result<MdsReply, Errno>,
    );
}
