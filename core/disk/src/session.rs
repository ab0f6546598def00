//! What an MDT keeps of its clients' sessions: the clients that had one, and the replies that they
//! may not have seen.
//!
//! A client's record is durable before its session is used, so a restarted MDT knows which clients
//! to wait for. A reply is written in the transaction of the change that it answers. Both are
//! removed with the session.

use crate::damaged::{Damaged, known, seal, unseal};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of both records. 1: first version.
pub const VERSION: u8 = 1;
const CLIENT: &str = "client";
const REPLY: &str = "reply";
/// Longest description that is kept, bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// | at | size | field   | meaning                                      |
/// |----|------|---------|----------------------------------------------|
/// |  0 |    4 | crc     | crc32c of the rest                           |
/// |  4 |    1 | version | 1                                            |
/// |  5 |    3 | zero    | must be 0                                    |
/// |  8 |    8 | boot    | boot number of the target when it came first |
/// | 16 |      | text    | its description of itself, for people        |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawClient {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    boot: U64,
}

const _: () = assert!(size_of::<RawClient>() == 16);

/// | at | size | field   | meaning                                      |
/// |----|------|---------|----------------------------------------------|
/// |  0 |    4 | crc     | crc32c of the rest                           |
/// |  4 |    1 | version | 1                                            |
/// |  5 |    3 | zero    | must be 0                                    |
/// |  8 |    8 | xid     | number of the request                        |
/// | 16 |      | reply   | the reply as it is sent, or its first part   |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawReply {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    xid: U64,
}

const _: () = assert!(size_of::<RawReply>() == 16);

/// The record of a client.
pub fn encode_client(boot: u64, description: &str) -> Vec<u8> {
    let mut end = description.len().min(DESCRIPTION_BYTES_MAX);
    while !description.is_char_boundary(end) {
        end -= 1;
    }
    let head = RawClient { crc: U32::ZERO, version: VERSION, zero: [0; 3], boot: boot.into() };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(&description.as_bytes()[..end]);
    seal(&mut bytes);
    bytes
}

/// Reads it: boot number, description.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_client(bytes: &[u8]) -> Result<(u64, String), Damaged> {
    unseal(CLIENT, bytes)?;
    let (head, text) =
        RawClient::ref_from_prefix(bytes).map_err(|_| Damaged::Short { record: CLIENT, found: bytes.len() })?;
    known(CLIENT, head.version, VERSION)?;
    Ok((head.boot.get(), String::from_utf8_lossy(text).into_owned()))
}

/// The record of a reply, into `out`.
pub fn encode_reply(xid: u64, reply: &[u8], out: &mut Vec<u8>) {
    let head = RawReply { crc: U32::ZERO, version: VERSION, zero: [0; 3], xid: xid.into() };
    out.clear();
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(reply);
    seal(out);
}

/// Reads it: number of the request, the reply.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_reply(bytes: &[u8]) -> Result<(u64, &[u8]), Damaged> {
    unseal(REPLY, bytes)?;
    let (head, reply) =
        RawReply::ref_from_prefix(bytes).map_err(|_| Damaged::Short { record: REPLY, found: bytes.len() })?;
    known(REPLY, head.version, VERSION)?;
    Ok((head.xid.get(), reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let client = encode_client(7, "host:/mnt");
        crate::golden::check("session_client", &client);
        assert_eq!(decode_client(&client), Ok((7, "host:/mnt".to_owned())));
        let mut reply = vec![1, 2, 3];
        encode_reply(99, b"an answer", &mut reply);
        crate::golden::check("session_reply", &reply);
        assert_eq!(decode_reply(&reply), Ok((99, &b"an answer"[..])));
        for len in 0..16 {
            assert!(decode_client(&client[..len]).is_err() && decode_reply(&reply[..len]).is_err());
        }
        let long = encode_client(1, &"\u{e9}".repeat(DESCRIPTION_BYTES_MAX));
        assert_eq!(decode_client(&long).unwrap().1.len(), DESCRIPTION_BYTES_MAX);
    }
}
