//! What an MDT keeps of its clients' sessions: the clients that had one, and the replies that they
//! may not have seen.
//!
//! A client's record is durable before its session is used, so a restarted MDT knows which clients
//! to wait for. A reply is written in the transaction of the change that it answers. Both are
//! removed with the session.

use crate::damaged::{Damaged, known, seal, unseal};
use types::principal::{Claim, Owner};
use types::proof::Proof;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of a client's record. 1: first version. 2: with the client's proof. 3: with the owner of
/// the session, so that no other host takes it over at a restart.
pub const CLIENT_VERSION: u8 = 3;
/// Version of a reply's record. 1: first version.
pub const REPLY_VERSION: u8 = 1;
const CLIENT: &str = "client";
const REPLY: &str = "reply";
/// The owner in a record, where an earlier version recorded none.
const UNKNOWN: &str = "?";
/// Longest owner, bytes: that of the longest name of a key.
const OWNER_BYTES_MAX: usize = 256;
/// Longest description that is kept, bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;

/// | at | size | field   | meaning                                      |
/// |----|------|---------|----------------------------------------------|
/// |  0 |    4 | crc     | crc32c of the rest                           |
/// |  4 |    1 | version | 3                                            |
/// |  5 |    1 | zero    | must be 0                                    |
/// |  6 |    2 | length  | bytes of the owner; 0: no key was asked for  |
/// |  8 |    8 | boot    | boot number of the target when it came first |
/// | 16 |   16 | proof   | what it shows when it comes back             |
/// | 32 |      | owner   | whose key it shows then                      |
/// |    |      | text    | its description of itself, for people        |
///
/// Version 2 had no owner: the text began at 32. Version 1 had no proof either: it began at 16.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawClient {
    crc: U32,
    version: u8,
    zero: u8,
    owner: U16,
    boot: U64,
    proof: U128,
}

const _: () = assert!(size_of::<RawClient>() == 32);
/// Where the text begins in a record of version 1.
const TEXT_AT_1: usize = 16;

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

/// What is recorded of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Boot number of the target when it came first.
    pub boot: u64,
    /// What it shows when it comes back. The proof is 0 in a record of version 1, and then it
    /// cannot.
    pub claim: Claim,
    /// Its description of itself.
    pub description: String,
}

/// The record of a client. An owner that is not known is recorded as none that any key could have.
pub fn encode_client(boot: u64, claim: &Claim, description: &str) -> Vec<u8> {
    let owner = match &claim.owner {
        Owner::Open => "",
        Owner::Key(uri) => uri,
        Owner::Unknown => UNKNOWN,
    };
    let owner = &owner.as_bytes()[..owner.len().min(OWNER_BYTES_MAX)];
    let mut end = description.len().min(DESCRIPTION_BYTES_MAX);
    while !description.is_char_boundary(end) {
        end -= 1;
    }
    let head = RawClient {
        crc: U32::ZERO,
        version: CLIENT_VERSION,
        zero: 0,
        owner: (owner.len() as u16).into(),
        boot: boot.into(),
        proof: claim.proof.0.into(),
    };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(owner);
    bytes.extend_from_slice(&description.as_bytes()[..end]);
    seal(&mut bytes);
    bytes
}

/// Reads it.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_client(bytes: &[u8]) -> Result<Client, Damaged> {
    unseal(CLIENT, bytes)?;
    let short = || Damaged::Short { record: CLIENT, found: bytes.len() };
    let client = |boot: U64, proof, owner, text| {
        let description = String::from_utf8_lossy(text).into_owned();
        Client { boot: boot.get(), claim: Claim { proof: Proof(proof), owner }, description }
    };
    if bytes.get(4) == Some(&1) {
        let (head, text) = bytes.split_at_checked(TEXT_AT_1).ok_or_else(short)?;
        let boot = U64::read_from_bytes(&head[8..]).map_err(|_| short())?;
        return Ok(client(boot, 0, Owner::Unknown, text));
    }
    let (head, text) = RawClient::ref_from_prefix(bytes).map_err(|_| short())?;
    if head.version == 2 {
        return Ok(client(head.boot, head.proof.get(), Owner::Unknown, text));
    }
    known(CLIENT, head.version, CLIENT_VERSION)?;
    let (owner, text) = text.split_at_checked(head.owner.get().into()).ok_or_else(short)?;
    let owner = match std::str::from_utf8(owner) {
        Ok("") => Owner::Open,
        Ok(UNKNOWN) => Owner::Unknown,
        // What is no text is the name of no key, and stays so.
        _ => Owner::Key(String::from_utf8_lossy(owner).into_owned()),
    };
    Ok(client(head.boot, head.proof.get(), owner, text))
}

/// The record of a reply, into `out`.
pub fn encode_reply(xid: u64, reply: &[u8], out: &mut Vec<u8>) {
    let head = RawReply { crc: U32::ZERO, version: REPLY_VERSION, zero: [0; 3], xid: xid.into() };
    out.clear();
    out.reserve(size_of::<RawReply>() + reply.len());
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
    let (head, reply) = RawReply::ref_from_prefix(bytes)
        .map_err(|_| Damaged::Short { record: REPLY, found: bytes.len() })?;
    known(REPLY, head.version, REPLY_VERSION)?;
    Ok((head.xid.get(), reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let claim = |proof, owner| Claim { proof: Proof(proof), owner };
        let of = |claim| Client { boot: 7, claim, description: "host:/mnt".to_owned() };
        let owner = Owner::Key("spiffe://1/client/node7".to_owned());
        let client = encode_client(7, &claim(0x1234, owner.clone()), "host:/mnt");
        crate::golden::check("session_client", &client);
        assert_eq!(decode_client(&client), Ok(of(claim(0x1234, owner))));
        for owner in [Owner::Open, Owner::Unknown] {
            let client = encode_client(7, &claim(5, owner.clone()), "host:/mnt");
            assert_eq!(decode_client(&client), Ok(of(claim(5, owner))));
        }
        let second = crate::golden::read("session_client_2");
        assert_eq!(decode_client(&second), Ok(of(claim(0x1234, Owner::Unknown))));
        let first = crate::golden::read("session_client_1");
        assert_eq!(decode_client(&first), Ok(of(claim(0, Owner::Unknown))));
        for len in 0..32 {
            assert!(decode_client(&client[..len]).is_err());
            assert!(decode_client(&second[..len]).is_err());
            assert!(decode_client(&first[..len.min(first.len() - 1)]).is_err());
        }
        let mut reply = vec![1, 2, 3];
        encode_reply(99, b"an answer", &mut reply);
        crate::golden::check("session_reply", &reply);
        assert_eq!(decode_reply(&reply), Ok((99, &b"an answer"[..])));
        for len in 0..16 {
            assert!(decode_reply(&reply[..len]).is_err());
        }
        let long =
            encode_client(1, &claim(1, Owner::Open), &"\u{e9}".repeat(DESCRIPTION_BYTES_MAX));
        assert_eq!(decode_client(&long).unwrap().description.len(), DESCRIPTION_BYTES_MAX);
    }
}
