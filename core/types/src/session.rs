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

/// Number that a process shows to the servers that it connects to, and to nobody else: connections that show the same
/// one belong to one process. 0: none was shown. It is a secret, so it is never printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pairing(pub u128);

impl fmt::Debug for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pairing(...)")
    }
}

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

impl ClientUuid {
    /// Its first eight digits, for log files: whoever knows all of it can act as this client.
    pub fn brief(self) -> Brief {
        Brief((self.0 >> 96) as u32)
    }
}

/// The beginning of a [`ClientUuid`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Brief(u32);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}...", self.0)
    }
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
