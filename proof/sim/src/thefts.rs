//! What is done with keys in a run, and what thieves do: processes that use keys, or ask for what,
//! they must not.

use parking_lot::Mutex;
use rpc::error::RpcError;
use simenv::rng::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::fid::Fid;
use types::session::ClientUuid;
use types::target::{TargetKind, TargetName};
use wire::mds::{Getattr, MdsOp};
use wire::message::Op;
use wire::ost::{ObjectList, OstOp};

/// In so many of 1000 seeds connections show keys.
pub const OFTEN: u64 = 100;

/// What was done with keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeysSeen {
    /// Keys that were renewed.
    pub renewed: u64,
    /// Keys that were revoked.
    pub revoked: u64,
    /// Requests with revoked keys that were refused.
    pub late: u64,
    /// Requests for what the role may not ask, and for a session of another client, that were
    /// refused.
    pub forbidden: u64,
}

/// See the module.
pub struct Keys {
    /// Draws what is done.
    pub rng: Rng,
    /// What was done so far.
    pub seen: KeysSeen,
    /// When a server was started last.
    pub server_started: Duration,
    /// By revoked keys, until the end of the run.
    pub thefts: Vec<Arc<Mutex<Theft>>>,
}

impl Keys {
    /// Those of a seed.
    pub fn new(seed: u64) -> Keys {
        let (seen, server_started) = (KeysSeen::default(), Duration::ZERO);
        Keys { rng: Rng::new(seed, "trouble with keys"), seen, server_started, thefts: Vec::new() }
    }
}

/// What a process got that it must not get, after a while.
#[derive(Default)]
pub struct Theft {
    /// Targets that answered before.
    pub before: BTreeSet<TargetName>,
    /// From then on nothing may be answered. `None`: it may still be.
    pub limit: Option<Duration>,
    /// Requests that were refused since, for the right reason.
    pub refused: u64,
    /// What was answered since.
    pub answered: Vec<String>,
}

impl Theft {
    /// The result of a request that began then.
    pub fn note<T>(
        &mut self,
        began: Duration,
        target: TargetName,
        trick: Trick,
        result: &Result<T, RpcError>,
    ) {
        let is_late = self.limit.is_some_and(|limit| began >= limit);
        self.refused += u64::from(is_late && trick.is_refused(result));
        if trick.has_it(result) && is_late {
            let (what, limit) = (trick.text(), self.limit.unwrap_or_default());
            let text = format!("{what} is answered by {target} at {began:?}, after {limit:?}");
            self.answered.push(text);
        } else if trick.has_it(result) {
            self.before.insert(target);
        }
    }
}

/// True if the target has let the request in.
fn is_let_in<T>(result: &Result<T, RpcError>) -> bool {
    matches!(result, Ok(_) | Err(RpcError::Errno(_)))
}

/// What a thief does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trick {
    /// It uses a key that is another one's, in a session of its own.
    OtherKey,
    /// It lists the objects of OSTs, which only servers may.
    ForServers,
    /// It asks for the session of this client.
    Session(ClientUuid),
}

impl Trick {
    /// What it asks.
    pub fn request(self, kind: TargetKind) -> Op {
        match (self, kind) {
            (Trick::ForServers, _) => Op::Ost(OstOp::List(ObjectList { after: None, limit: 1 })),
            (_, TargetKind::Ost) => Op::Ost(OstOp::Statfs),
            (_, _) => Op::Mds(MdsOp::Getattr(Getattr::of(Fid::ROOT))),
        }
    }

    /// True if it got what it must not get.
    fn has_it<T>(self, result: &Result<T, RpcError>) -> bool {
        if self == Trick::ForServers { result.is_ok() } else { is_let_in(result) }
    }

    /// True if it was refused as it must be.
    fn is_refused<T>(self, result: &Result<T, RpcError>) -> bool {
        let Err(error) = result else { return false };
        match self {
            Trick::OtherKey => matches!(error, RpcError::Key { .. }),
            Trick::ForServers => *error == RpcError::Errno(Errno::EACCES),
            Trick::Session(_) => matches!(error, RpcError::OtherProcess { .. }),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Trick::OtherKey => "a request with a revoked key",
            Trick::ForServers => "a request that only servers may send",
            Trick::Session(_) => "a request in the session of another client",
        }
    }
}
