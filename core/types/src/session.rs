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

/// Number that a process shows to the server at one address, and to no other
/// ([`Secret::pairing`](crate::proof::Secret::pairing)). Connections that show the same number
/// belong to one process. 0: none was shown. It is a secret, so it is never printed.
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

/// State of a session at a target, as the target tells it when the client connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Standing {
    /// This target keeps session state in memory only: nothing is replayed.
    #[default]
    Transient = 0,
    /// The session stands as before, or is new: nothing has to be replayed.
    Settled = 1,
    /// The target restarted, knows this client, and waits for what it brings back.
    Awaited = 2,
    /// The target restarted and lost changes. It no longer waits for this client's, or did not know
    /// the client.
    Missed = 3,
}

fn uuid(n: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let h = format!("{n:032x}");
    write!(f, "{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
}

impl ClientUuid {
    /// Its first eight digits, for log files: the full UUID would let its reader act as this
    /// client.
    pub fn brief(self) -> Brief {
        Brief((self.0 >> 96) as u32)
    }

    /// Its instance number, for reports, pages and names of devices: other processes are told this
    /// of a client, and not its UUID.
    pub fn instance(self) -> Instance {
        Instance(self.0 as u64)
    }
}

/// The second half of a [`ClientUuid`], as Lustre's names of devices have it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Instance(u64);

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
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
