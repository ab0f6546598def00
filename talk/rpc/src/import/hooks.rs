//! What the owner of an import registers: it is told what is lost, and brings back what is not a
//! change of records.

use std::collections::BTreeSet;
use std::sync::Arc;
use types::credentials::Credentials;
use types::fid::Fid;
use types::lock::InodeBits;
use wire::message::{Op, Reply};

/// Called when the target lost this client's session. Either it restarted and brings nothing back
/// (the argument is its boot number), or it evicted this client and accepted it again; then
/// [`Import::evictions`](crate::import::Import::evictions) grew. Open handles and locks of the old
/// session are gone. Runs where the reconnection was noticed, before waiting requests go on; must
/// not wait.
pub type OnRestart = Arc<dyn Fn(u64) + Send + Sync>;

/// Called with changes that the target had answered and that are lost: it restarted, and this
/// client could not bring them back in time. Runs before [`OnRestart`]; must not wait.
pub type OnLost = Arc<dyn Fn(&[Op]) + Send + Sync>;

/// Called when the target says for the first time, or anew, which ids this client's callers act as:
/// ask [`Import::squash`](crate::import::Import::squash). Must not wait.
pub type OnSquash = Arc<dyn Fn() + Send + Sync>;

/// State of a session that is no change of the target's records: opens, locks. It is brought back
/// to a restarted target after the target has redone this client's changes and before it is in
/// service.
pub trait Restore: Send + Sync {
    /// Operations to send, each as a request, before the changes of the objects that are named
    /// after these files. Must not wait.
    fn before_changes(&self, changed: &BTreeSet<Fid>) -> Vec<Op> {
        let _ = changed;
        Vec::new()
    }

    /// The requests to send, in any order; each is told its answer. Must not wait.
    fn restore(&self) -> Vec<Restoring>;
}

/// One request that brings something back.
pub struct Restoring {
    /// Caller of the request.
    pub credentials: Credentials,
    /// The operation.
    pub op: Op,
    /// Locks that its reply may grant.
    pub locks: InodeBits,
    /// Called with the answer. It is not called if the connection is lost: then everything begins
    /// again.
    pub answered: Box<dyn FnOnce(Reply) + Send>,
}
