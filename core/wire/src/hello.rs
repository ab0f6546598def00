//! The greeting: the first frame each way on a connection.
//!
//! The side that connects names itself and the versions that it speaks. The other side chooses one
//! or says why not. Later versions may add fields behind these, never change them: a longer body
//! than known is accepted.
//!
//! | at | size | `Hello`                    | `HelloReply`                                          |
//! |----|------|----------------------------|-------------------------------------------------------|
//! |  0 |    2 | oldest version it speaks   | the same                                              |
//! |  2 |    2 | newest version it speaks   | the same                                              |
//! |  4 |    2 | purpose of the connection  | version chosen, 0 if refused                          |
//! |  6 |    2 | zero                       | 0 welcome, 1 no common version, 2 other cluster, 3 busy, 4 stopping, 5 other user, 6 key needed, 7 key revoked, 8 no key here |
//! |  8 |   16 | process                    | process                                               |
//! | 24 |   16 | cluster, 0 = not known yet | cluster, 0 = not known yet                            |
//! | 40 |   16 | pairing; may be missing: 0 | number of NIDs that follow, 4 bytes; may be missing: 0 |
//! | 44 |   24 |                            | a NID at which the process accepts connections, as in the header of a frame; further ones behind it |

use crate::frame::RawNid;
use crate::message::{VERSION_MAX, VERSION_MIN};
use types::limits::PEER_NIDS_MAX;
use types::nid::Nid;
use types::session::{ClientUuid, ClusterId, Pairing};
use zerocopy::little_endian::{U16, U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of an encoded [`Hello`].
pub const HELLO_BYTES: usize = HELLO_REPLY_BYTES + 16;
/// Length of an encoded [`HelloReply`], and of the shortest [`Hello`].
pub const HELLO_REPLY_BYTES: usize = 40;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
pub enum Purpose {
    /// Small requests; also what a purpose of a later version is taken for.
    Control = 0,
    /// Requests and replies with much data.
    Bulk = 1,
}

/// Greeting of the side that connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Oldest version it speaks.
    pub version_min: u16,
    /// Newest version it speaks.
    pub version_max: u16,
    /// What the connection is for.
    pub purpose: Purpose,
    /// The process: connections of one process belong together.
    pub process: ClientUuid,
    /// Its cluster; 0 = not known yet.
    pub cluster: ClusterId,
    /// Proves that connections belong together: unlike `process` no other peer is told it. A
    /// session needs one.
    pub pairing: Pairing,
}

/// How a greeting was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
pub enum Welcome {
    /// The connection is open.
    Yes = 0,
    /// No version that both speak.
    NoCommonVersion = 1,
    /// Another cluster.
    OtherCluster = 2,
    /// Too many connections; try later. Also what a refusal of a later version is taken for.
    Busy = 3,
    /// Shutting down.
    Stopping = 4,
    /// It comes from a process of the same host, of a user that may not connect.
    OtherUser = 5,
    /// The cluster asks for keys, and the connection is plain.
    KeyNeeded = 6,
    /// The key that the connection shows was revoked.
    Revoked = 7,
    /// The connection was to be sealed, and this process has no key.
    NoKey = 8,
}

/// Answer to a greeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HelloReply {
    /// Oldest version it speaks.
    pub version_min: u16,
    /// Newest version it speaks.
    pub version_max: u16,
    /// Version of all further frames; 0 if refused.
    pub version: u16,
    /// Welcome, or why not.
    pub welcome: Welcome,
    /// The process.
    pub process: ClientUuid,
    /// Its cluster; 0 = not known yet.
    pub cluster: ClusterId,
}

/// The body of a greeting is shorter than every version's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("greeting of {found} bytes, at least {HELLO_REPLY_BYTES} are needed")]
pub struct ShortHello {
    /// Bytes there were.
    pub found: usize,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    version_min: U16,
    version_max: U16,
    purpose_or_version: U16,
    welcome: U16,
    process: U128,
    cluster: U128,
}

const _: () = assert!(size_of::<Raw>() == HELLO_REPLY_BYTES);

fn prefix(body: &[u8]) -> Result<&Raw, ShortHello> {
    Raw::ref_from_prefix(body).map(|(raw, _)| raw).map_err(|_| ShortHello { found: body.len() })
}

/// The newest version in both ranges.
pub fn common_version(their_min: u16, their_max: u16) -> Option<u16> {
    let newest = their_max.min(VERSION_MAX);
    (newest >= their_min.max(VERSION_MIN)).then_some(newest)
}

impl Hello {
    /// The bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let raw = Raw {
            version_min: self.version_min.into(),
            version_max: self.version_max.into(),
            purpose_or_version: (self.purpose as u16).into(),
            welcome: 0.into(),
            process: self.process.0.into(),
            cluster: self.cluster.0.into(),
        };
        let mut bytes = [0; HELLO_BYTES];
        let (start, pairing) = bytes.split_at_mut(HELLO_REPLY_BYTES);
        start.copy_from_slice(raw.as_bytes());
        pairing.copy_from_slice(&self.pairing.0.to_le_bytes());
        bytes
    }

    /// From a body; what a later version added behind is ignored.
    ///
    /// # Errors
    /// The body is too short.
    pub fn decode(body: &[u8]) -> Result<Hello, ShortHello> {
        let raw = prefix(body)?;
        let pairing =
            body[HELLO_REPLY_BYTES..].first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
        Ok(Hello {
            version_min: raw.version_min.get(),
            version_max: raw.version_max.get(),
            purpose: if raw.purpose_or_version.get() == Purpose::Bulk as u16 {
                Purpose::Bulk
            } else {
                Purpose::Control
            },
            process: ClientUuid(raw.process.get()),
            cluster: ClusterId(raw.cluster.get()),
            pairing: Pairing(pairing),
        })
    }
}

impl HelloReply {
    /// The bytes.
    pub fn encode(&self) -> [u8; HELLO_REPLY_BYTES] {
        zerocopy::transmute!(Raw {
            version_min: self.version_min.into(),
            version_max: self.version_max.into(),
            purpose_or_version: self.version.into(),
            welcome: (self.welcome as u16).into(),
            process: self.process.0.into(),
            cluster: self.cluster.0.into(),
        })
    }

    /// The bytes, with the NIDs at which the process accepts connections; the first PEER_NIDS_MAX
    /// of them. A process with one NID does not tell it: the side that connected knows it.
    pub fn encode_with(&self, nids: &[Nid]) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        if nids.len() > 1 {
            let nids = &nids[..nids.len().min(PEER_NIDS_MAX)];
            bytes.extend((nids.len() as u32).to_le_bytes());
            nids.iter().for_each(|nid| bytes.extend(RawNid::new(*nid).as_bytes()));
        }
        bytes
    }

    /// The NIDs that a body tells, PEER_NIDS_MAX at most. Those that a later version names in
    /// another way are left out; so is everything if the body is shorter than it says.
    pub fn nids(body: &[u8]) -> Vec<Nid> {
        let rest = body.get(HELLO_REPLY_BYTES..).unwrap_or_default();
        let Ok((count, rest)) = U32::ref_from_prefix(rest) else { return Vec::new() };
        let count = count.get().min(PEER_NIDS_MAX as u32) as usize;
        match <[RawNid]>::ref_from_prefix_with_elems(rest, count) {
            Ok((nids, _)) => nids.iter().filter_map(|nid| nid.nid().ok()).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// From a body; what a later version added behind is ignored, and NIDs are told by
    /// [`HelloReply::nids`].
    ///
    /// # Errors
    /// The body is too short.
    pub fn decode(body: &[u8]) -> Result<HelloReply, ShortHello> {
        let raw = prefix(body)?;
        Ok(HelloReply {
            version_min: raw.version_min.get(),
            version_max: raw.version_max.get(),
            version: raw.purpose_or_version.get(),
            welcome: match raw.welcome.get() {
                0 => Welcome::Yes,
                1 => Welcome::NoCommonVersion,
                2 => Welcome::OtherCluster,
                4 => Welcome::Stopping,
                5 => Welcome::OtherUser,
                6 => Welcome::KeyNeeded,
                7 => Welcome::Revoked,
                8 => Welcome::NoKey,
                _ => Welcome::Busy,
            },
            process: ClientUuid(raw.process.get()),
            cluster: ClusterId(raw.cluster.get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let (process, cluster, pairing) = (ClientUuid(7), ClusterId(9), Pairing(11));
        Hello { version_min: 1, version_max: 3, purpose: Purpose::Bulk, process, cluster, pairing }
    }

    fn reply(welcome: Welcome) -> HelloReply {
        let (process, cluster) = (ClientUuid(1), ClusterId(2));
        HelloReply { version_min: 1, version_max: 1, version: 1, welcome, process, cluster }
    }

    #[test]
    fn bytes_never_change() {
        crate::golden::check("hello", &hello().encode());
        crate::golden::check("hello_reply", &reply(Welcome::OtherCluster).encode());
    }

    #[test]
    fn round_trips_and_hears_longer_ones() {
        let mut bytes = hello().encode().to_vec();
        bytes.extend([1, 2, 3]);
        assert_eq!(Hello::decode(&bytes), Ok(hello()));
        assert_eq!(Hello::decode(&bytes[..39]), Err(ShortHello { found: 39 }));
        use Welcome::{
            Busy, KeyNeeded, NoCommonVersion, NoKey, OtherCluster, OtherUser, Revoked, Stopping,
            Yes,
        };
        for welcome in [
            Yes,
            NoCommonVersion,
            OtherCluster,
            Busy,
            Stopping,
            OtherUser,
            KeyNeeded,
            Revoked,
            NoKey,
        ] {
            assert_eq!(HelloReply::decode(&reply(welcome).encode()), Ok(reply(welcome)));
        }
    }

    #[test]
    fn a_process_with_several_nids_tells_them() {
        let nid = |text: &str| text.parse::<Nid>().unwrap();
        let nids = ["10.0.0.1@tcp", "10.1.0.1:7@tcp1", "[fd00::1]:988@o2ib"].map(nid);
        let reply = reply(Welcome::Yes);
        let bytes = reply.encode_with(&nids);
        crate::golden::check("hello_reply_nids", &bytes);
        assert_eq!(HelloReply::decode(&bytes), Ok(reply));
        assert_eq!(HelloReply::nids(&bytes), nids);
        assert_eq!(reply.encode_with(&nids[..1]), reply.encode(), "one goes without saying");
        assert!(HelloReply::nids(&reply.encode()).is_empty(), "an earlier version tells none");
        for short in [0, 39, 40, 43, 44, bytes.len() - 1] {
            assert!(HelloReply::nids(&bytes[..short]).is_empty(), "{short}");
        }
        let mut later = bytes.clone();
        later[HELLO_REPLY_BYTES + 4] = 77;
        assert_eq!(HelloReply::nids(&later), nids[1..], "a kind of NID of a later version");
        let many = vec![nids[0]; PEER_NIDS_MAX + 3];
        assert_eq!(HelloReply::nids(&reply.encode_with(&many)).len(), PEER_NIDS_MAX);
        let mut boast = bytes;
        boast[HELLO_REPLY_BYTES..][..4].fill(255);
        assert!(HelloReply::nids(&boast).is_empty(), "more than there are");
    }

    #[test]
    fn a_greeting_without_a_pairing_shows_none() {
        let bytes = hello().encode();
        assert_eq!(Hello::decode(&bytes), Ok(hello()));
        let older = Hello { pairing: Pairing(0), ..hello() };
        assert_eq!(Hello::decode(&bytes[..HELLO_REPLY_BYTES]), Ok(older));
        assert_eq!(Hello::decode(&bytes[..HELLO_BYTES - 1]), Ok(older));
    }

    #[test]
    fn words_of_a_later_version_have_a_safe_reading() {
        let mut bytes = hello().encode();
        bytes[4] = 77;
        assert_eq!(Hello::decode(&bytes).unwrap().purpose, Purpose::Control);
        bytes[6] = 77;
        assert_eq!(HelloReply::decode(&bytes).unwrap().welcome, Welcome::Busy);
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        assert_eq!(common_version(VERSION_MIN, VERSION_MAX + 5), Some(VERSION_MAX));
        assert_eq!(common_version(VERSION_MAX + 1, VERSION_MAX + 5), None);
        assert_eq!(common_version(0, VERSION_MIN - 1), None);
        assert_eq!(common_version(VERSION_MAX, VERSION_MIN - 1), None, "an empty range");
    }
}
