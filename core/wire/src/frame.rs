//! The frame header: what stands before every message on a connection.
//!
//! A frame is header, body, bulk. The header's own checksum is its first field and covers all the
//! rest, so the lengths are trusted only after it was verified. A stranger on the port is told
//! apart by the magic before that.
//!
//! **Invariant:** the header of `Hello`, `HelloReply`, `Route` and `Routed` keeps this form in
//! every version to come, so that two builds without a common version can still tell each other so.
//!
//! | at  | size | field      | meaning                                                        |
//! |-----|------|------------|----------------------------------------------------------------|
//! |   0 |    4 | header_crc | crc32c of bytes 4..104                                         |
//! |   4 |    4 | magic      | `SHEE`                                                         |
//! |   8 |    2 | version    | protocol version of this frame                                 |
//! |  10 |    1 | kind       | 1 Hello, 2 HelloReply, 3 Request, 4 Reply, 5 Goodbye, 6 Route, 7 Routed |
//! |  11 |    1 | flags      | 1: body_crc is meant, 2: bulk_crc is meant                     |
//! |  12 |    4 | body_bytes | length of the body                                             |
//! |  16 |    4 | bulk_bytes | length of the bulk data behind it                              |
//! |  20 |    4 | body_crc   | crc32c of the body, else 0                                     |
//! |  24 |    4 | bulk_crc   | crc32c of the bulk data, else 0                                |
//! |  28 |    4 | zero       | sent as 0, not looked at: room for a later version             |
//! |  32 |    8 | tag        | pairs a reply with its request on this connection              |
//! |  40 |   16 | cluster    | cluster of the sender, 0 = not known yet                       |
//! |  56 |   24 | source     | NID of the sender                                              |
//! |  80 |   24 | target     | NID it is for                                                  |
//!
//! A NID is kind u8 (0 `lo`, 1 `tcp` with IPv4, 2 with IPv6, 3 `o2ib` with IPv4, 4 with IPv6),
//! number of the network u8 (`tcp` and `tcp0`: 0), port u16, IPv6 scope u32, address 16 bytes.

use crate::checksum::crc32c;
use crate::message::{VERSION_MAX, VERSION_MIN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use types::limits::MESSAGE_BYTES_MAX;
use types::net::{Net, NetKind};
use types::nid::Nid;
use types::session::ClusterId;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of an encoded header.
pub const HEADER_BYTES: usize = 104;
/// Bytes 4..8 of every frame.
pub const MAGIC: [u8; 4] = *b"SHEE";
/// Longest body of a `Hello` or `HelloReply`: anybody may send one, so little is allocated for it.
pub const HELLO_BYTES_MAX: usize = 1024;

const FLAG_BODY_CRC: u8 = 1;
const FLAG_BULK_CRC: u8 = 2;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// First frame of a connection, from the side that made it; body: [`crate::hello::Hello`].
    Hello = 1,
    /// Its answer; body: [`crate::hello::HelloReply`].
    HelloReply = 2,
    /// Body: a request. Either side may send them (callbacks).
    Request = 3,
    /// Body: a reply; `tag` is that of the request.
    Reply = 4,
    /// The sender sends no more requests and closes when all its answers are out. No body.
    Goodbye = 5,
    /// To a router, before the greeting: the way to the header's target is wanted. Body:
    /// [`crate::route::Route`].
    Route = 6,
    /// Its answer; body: [`crate::route::Routed`].
    Routed = 7,
}

impl FrameKind {
    /// Reverse of `as u8`.
    pub const fn from_u8(n: u8) -> Option<FrameKind> {
        Some(match n {
            1 => FrameKind::Hello,
            2 => FrameKind::HelloReply,
            3 => FrameKind::Request,
            4 => FrameKind::Reply,
            5 => FrameKind::Goodbye,
            6 => FrameKind::Route,
            7 => FrameKind::Routed,
            _ => return None,
        })
    }

    /// The kind that the bytes of a header name, whatever else is in it.
    pub fn of_header(bytes: &[u8; HEADER_BYTES]) -> Option<FrameKind> {
        FrameKind::from_u8(bytes[10])
    }

    /// Does it belong to the greeting, or stand before it? Their form never changes.
    pub const fn is_hello(self) -> bool {
        use FrameKind::{Hello, HelloReply, Route, Routed};
        matches!(self, Hello | HelloReply | Route | Routed)
    }
}

/// A frame header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Protocol version; in a greeting the newest that the sender speaks.
    pub version: u16,
    /// What it is.
    pub kind: FrameKind,
    /// Pairs a reply with its request; 0 where there is nothing to pair.
    pub tag: u64,
    /// Length of the body.
    pub body_bytes: u32,
    /// Length of the bulk data.
    pub bulk_bytes: u32,
    /// crc32c of the body, if the sender made one.
    pub body_crc: Option<u32>,
    /// crc32c of the bulk data, if the sender made one.
    pub bulk_crc: Option<u32>,
    /// Cluster of the sender; 0 = not known yet.
    pub cluster: ClusterId,
    /// NID of the sender.
    pub source: Nid,
    /// NID that it is for.
    pub target: Nid,
}

/// The bytes are no good frame. Nothing behind them on this connection can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer does not speak this protocol at all.
    #[error("the peer does not speak the SheenFS protocol (its first bytes are {found:02x?})")]
    Magic {
        /// What the header says.
        found: [u8; 4],
    },
    /// Damaged on its way.
    #[error("header checksum is {found:#010x}, computed {computed:#010x}")]
    HeaderChecksum {
        /// What the header says.
        found: u32,
        /// Checksum of what arrived.
        computed: u32,
    },
    /// Not a version this build speaks.
    #[error("frame of protocol version {found}, this build speaks {VERSION_MIN} to {VERSION_MAX}")]
    Version {
        /// What the header says.
        found: u16,
    },
    /// Unknown kind.
    #[error("unknown frame kind {found}")]
    Kind {
        /// What the header says.
        found: u8,
    },
    /// Unknown flags.
    #[error("unknown frame flags {found:#x}")]
    Flags {
        /// What the header says.
        found: u8,
    },
    /// Longer than any message may be.
    #[error("frame of {found} bytes, at most {max} are allowed")]
    TooLong {
        /// What the header says.
        found: u64,
        /// Most bytes that are allowed.
        max: u64,
    },
    /// A NID of no known network.
    #[error("unknown network kind {found} in a NID")]
    Nid {
        /// What the header says.
        found: u8,
    },
    /// Body damaged on its way.
    #[error("body checksum is {found:#010x}, computed {computed:#010x}")]
    BodyChecksum {
        /// What the header says.
        found: u32,
        /// Checksum of what arrived.
        computed: u32,
    },
    /// Bulk data damaged on its way.
    #[error("data checksum is {found:#010x}, computed {computed:#010x}")]
    BulkChecksum {
        /// What the header says.
        found: u32,
        /// Checksum of what arrived.
        computed: u32,
    },
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawNid {
    kind: u8,
    number: u8,
    port: U16,
    scope: U32,
    address: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    header_crc: U32,
    magic: [u8; 4],
    version: U16,
    kind: u8,
    flags: u8,
    body_bytes: U32,
    bulk_bytes: U32,
    body_crc: U32,
    bulk_crc: U32,
    zero: U32,
    tag: U64,
    cluster: U128,
    source: RawNid,
    target: RawNid,
}

const _: () = assert!(size_of::<RawNid>() == 24);
const _: () = assert!(size_of::<Raw>() == HEADER_BYTES);

impl RawNid {
    pub(crate) fn new(nid: Nid) -> RawNid {
        let nothing =
            RawNid { kind: 0, number: 0, port: 0.into(), scope: 0.into(), address: [0; 16] };
        let (Some(net), Some(at)) = (nid.net(), nid.address()) else { return nothing };
        let of_net = match net.kind {
            NetKind::Tcp => 1,
            NetKind::O2ib => 3,
        };
        let (of_address, scope, address) = match at {
            SocketAddr::V4(a) => {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&a.ip().octets());
                (0, 0, address)
            }
            SocketAddr::V6(a) => (1, a.scope_id(), a.ip().octets()),
        };
        let (port, scope) = (at.port().into(), scope.into());
        RawNid { kind: of_net + of_address, number: net.number, port, scope, address }
    }

    pub(crate) fn nid(&self) -> Result<Nid, FrameError> {
        let [a, b, c, d, ..] = self.address;
        let port = self.port.get();
        let kind = match self.kind {
            0 => return Ok(Nid::Loopback),
            1 | 2 => NetKind::Tcp,
            3 | 4 => NetKind::O2ib,
            found => return Err(FrameError::Nid { found }),
        };
        let address = match self.kind % 2 {
            1 => SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port),
            _ => {
                let (ip, scope) = (Ipv6Addr::from(self.address), self.scope.get());
                SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))
            }
        };
        Ok(Nid::new(Net { kind, number: self.number }, address))
    }
}

impl Header {
    /// The bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let flag = |crc: Option<u32>, flag| if crc.is_some() { flag } else { 0 };
        let raw = Raw {
            header_crc: 0.into(),
            magic: MAGIC,
            version: self.version.into(),
            kind: self.kind as u8,
            flags: flag(self.body_crc, FLAG_BODY_CRC) | flag(self.bulk_crc, FLAG_BULK_CRC),
            body_bytes: self.body_bytes.into(),
            bulk_bytes: self.bulk_bytes.into(),
            body_crc: self.body_crc.unwrap_or(0).into(),
            bulk_crc: self.bulk_crc.unwrap_or(0).into(),
            zero: 0.into(),
            tag: self.tag.into(),
            cluster: self.cluster.0.into(),
            source: RawNid::new(self.source),
            target: RawNid::new(self.target),
        };
        let mut bytes: [u8; HEADER_BYTES] = zerocopy::transmute!(raw);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Checks and decodes. A greeting of another version is accepted: its body says more.
    ///
    /// # Errors
    /// The first error, in the order magic, header checksum, kind, version, flags, lengths, NIDs.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let raw: &Raw = zerocopy::transmute_ref!(bytes);
        if raw.magic != MAGIC {
            return Err(FrameError::Magic { found: raw.magic });
        }
        let (found, computed) = (raw.header_crc.get(), crc32c(&bytes[4..]));
        if found != computed {
            return Err(FrameError::HeaderChecksum { found, computed });
        }
        let kind = FrameKind::from_u8(raw.kind).ok_or(FrameError::Kind { found: raw.kind })?;
        let version = raw.version.get();
        if !kind.is_hello() && !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(FrameError::Version { found: version });
        }
        if !kind.is_hello() && raw.flags & !(FLAG_BODY_CRC | FLAG_BULK_CRC) != 0 {
            return Err(FrameError::Flags { found: raw.flags });
        }
        let (body_bytes, bulk_bytes) = (raw.body_bytes.get(), raw.bulk_bytes.get());
        let found = u64::from(body_bytes) + u64::from(bulk_bytes);
        let max = if kind.is_hello() { HELLO_BYTES_MAX } else { MESSAGE_BYTES_MAX } as u64;
        if found > max {
            return Err(FrameError::TooLong { found, max });
        }
        let crc = |crc: U32, flag| (raw.flags & flag != 0).then_some(crc.get());
        Ok(Header {
            version,
            kind,
            tag: raw.tag.get(),
            body_bytes,
            bulk_bytes,
            body_crc: crc(raw.body_crc, FLAG_BODY_CRC),
            bulk_crc: crc(raw.bulk_crc, FLAG_BULK_CRC),
            cluster: ClusterId(raw.cluster.get()),
            source: raw.source.nid()?,
            target: raw.target.nid()?,
        })
    }

    /// Verifies the body that came behind this header, if it has a checksum.
    ///
    /// # Errors
    /// [`FrameError::BodyChecksum`].
    pub fn check_body(&self, body: &[u8]) -> Result<(), FrameError> {
        match self.body_crc.map(|found| (found, crc32c(body))) {
            Some((found, computed)) if found != computed => {
                Err(FrameError::BodyChecksum { found, computed })
            }
            _ => Ok(()),
        }
    }

    /// Verifies the bulk data that came behind the body, if it has a checksum.
    ///
    /// # Errors
    /// [`FrameError::BulkChecksum`].
    pub fn check_bulk(&self, bulk: &[u8]) -> Result<(), FrameError> {
        match self.bulk_crc.map(|found| (found, crc32c(bulk))) {
            Some((found, computed)) if found != computed => {
                Err(FrameError::BulkChecksum { found, computed })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            version: VERSION_MAX,
            kind: FrameKind::Request,
            tag: 0x0102_0304_0506_0708,
            body_bytes: 300,
            bulk_bytes: 4096,
            body_crc: Some(0xaabb_ccdd),
            bulk_crc: None,
            cluster: ClusterId(0x1111_2222_3333_4444_5555_6666_7777_8888),
            source: "10.0.0.1:7988@tcp".parse().unwrap(),
            target: "[fe80::2]:988@tcp".parse().unwrap(),
        }
    }

    /// The sample with some bytes changed and the checksum made good again.
    fn forged(change: impl FnOnce(&mut [u8; HEADER_BYTES])) -> Result<Header, FrameError> {
        let mut bytes = sample().encode();
        change(&mut bytes);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        Header::decode(&bytes)
    }

    #[test]
    fn bytes_never_change() {
        crate::golden::check("frame_header", &sample().encode());
    }

    #[test]
    fn every_kind_round_trips() {
        for n in 0..=255u8 {
            let Some(kind) = FrameKind::from_u8(n) else { continue };
            assert_eq!(kind as u8, n);
            let (body_bytes, bulk_bytes) = if kind.is_hello() { (16, 0) } else { (5, 7) };
            let header = Header { kind, body_bytes, bulk_bytes, source: Nid::Loopback, ..sample() };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn every_network_round_trips() {
        for text in
            ["0@lo", "10.0.0.1@tcp", "10.0.0.1:7@tcp255", "10.0.0.1@o2ib", "[fd00::1]:7@o2ib7"]
        {
            let header = Header { source: text.parse().unwrap(), ..sample() };
            assert_eq!(Header::decode(&header.encode()), Ok(header), "{text}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = sample().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let in_magic = (4..8).contains(&(bit / 8));
            match Header::decode(&bytes) {
                Err(FrameError::Magic { .. }) => assert!(in_magic),
                Err(FrameError::HeaderChecksum { .. }) => assert!(!in_magic),
                other => panic!("bit {bit}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_forged_header_is_told_what_is_wrong() {
        assert_eq!(forged(|b| b[10] = 9), Err(FrameError::Kind { found: 9 }));
        assert_eq!(forged(|b| b[8] = 99), Err(FrameError::Version { found: 99 }));
        assert_eq!(forged(|b| b[11] = 4), Err(FrameError::Flags { found: 4 }));
        assert_eq!(forged(|b| b[56] = 5), Err(FrameError::Nid { found: 5 }));
        let max = MESSAGE_BYTES_MAX as u64;
        let too_long = |n: u64| Err(FrameError::TooLong { found: n, max });
        assert_eq!(forged(|b| b[12..20].fill(0xff)), too_long(2 * u64::from(u32::MAX)));
        let body = MESSAGE_BYTES_MAX as u32 - 4096;
        assert!(forged(|b| b[12..16].copy_from_slice(&body.to_le_bytes())).is_ok());
        assert_eq!(
            forged(|b| b[12..16].copy_from_slice(&(body + 1).to_le_bytes())),
            too_long(max + 1)
        );
    }

    #[test]
    fn a_greeting_of_another_version_is_heard_but_not_a_long_one() {
        let greeting = Header {
            kind: FrameKind::Hello,
            version: 0x7fff,
            body_bytes: 64,
            bulk_bytes: 0,
            ..sample()
        };
        assert_eq!(Header::decode(&greeting.encode()), Ok(greeting));
        let long = Header { body_bytes: HELLO_BYTES_MAX as u32 + 1, ..greeting };
        let max = HELLO_BYTES_MAX as u64;
        assert_eq!(
            Header::decode(&long.encode()),
            Err(FrameError::TooLong { found: max + 1, max })
        );
    }

    #[test]
    fn bodies_are_verified_if_they_have_a_checksum() {
        let header =
            Header { body_crc: Some(crc32c(b"body")), bulk_crc: Some(crc32c(b"bulk")), ..sample() };
        assert_eq!(header.check_body(b"body"), Ok(()));
        assert_eq!(header.check_bulk(b"bulk"), Ok(()));
        assert!(matches!(header.check_body(b"bodx"), Err(FrameError::BodyChecksum { .. })));
        assert!(matches!(header.check_bulk(b""), Err(FrameError::BulkChecksum { .. })));
        assert_eq!(Header { body_crc: None, ..header }.check_body(b"anything"), Ok(()));
    }
}
