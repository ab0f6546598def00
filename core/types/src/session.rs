//! Numbers that order requests and changes.

use std::fmt;

/// Transaction number: order of changes on one target, from 1; 0 = changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Transno(pub u64);

/// Request number, unique per client and never reused by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Xid(pub u64);

/// Identity of a client (one mount, or one server acting as a client).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ClientUuid(pub u128);

/// Identity of a cluster, made with its MGS.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ClusterId(pub u128);

/// Open handle at an MDT; unique within the target's boot; 0 = none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct OpenHandle(pub u64);

/// What a target says about a session when a client connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Standing {
    /// This target keeps nothing that belongs to sessions beyond its memory: nothing is replayed.
    #[default]
    Transient = 0,
    /// It stands as before, or is a new one: nothing is expected.
    Settled = 1,
    /// The target restarted, knows this client, and waits for what it brings back.
    Awaited = 2,
    /// It restarted and lost changes, and waits for this client's no more, or did not know of any.
    Missed = 3,
}

fn uuid(n: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let h = format!("{n:032x}");
    write!(f, "{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
}

impl fmt::Display for ClientUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid(self.0, f)
    }
}

impl fmt::Debug for ClientUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid(self.0, f)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid(self.0, f)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid(self.0, f)
    }
}
