//! What a log says of itself and of its owner.

use crate::checkpoint::Checkpoint;
use crate::engine::Fence;
use crate::kv::LeaseId;
use std::fmt;

/// The process that owns a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Its lease.
    pub lease: LeaseId,
    /// Its epoch.
    pub fence: Fence,
    /// Its host and NIDs, for people.
    pub place: String,
}

impl Owner {
    pub(super) fn encode(&self) -> Vec<u8> {
        format!("{:016x} {:016x} {}", self.lease, self.fence.0, self.place).into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Owner> {
        let mut words = std::str::from_utf8(bytes).ok()?.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (lease, fence) = (number()?, Fence(number()?));
        Some(Owner { lease, fence, place: words.next()?.to_owned() })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

/// A host that has a copy of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostTree {
    /// Its host.
    pub host: String,
    /// Number of the newest entry that is durable in its tree.
    pub applied: u64,
}

/// State of a log, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The newest epoch.
    pub fence: Fence,
    /// Number of the oldest entry that is kept; one more than `head`: none is.
    pub first: u64,
    /// Number of the newest entry.
    pub head: u64,
    /// The owner; none: the target is not served.
    pub owner: Option<Owner>,
    /// Hosts with a copy of the tree.
    pub replicas: Vec<HostTree>,
    /// The newest checkpoint; none: there is none, or the log has no store of blobs.
    pub checkpoint: Option<Checkpoint>,
}

/// What a log was made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Founded {
    /// Uuid of the store.
    pub store: u128,
    /// What else all hosts of the target need before they serve it: see [`SharedLog::create`].
    pub identity: String,
}
