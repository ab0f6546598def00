//! What an OST keeps in its store besides object files: how far its changes are durable, and which
//! client writes must not be redone.
//!
//! Key `ost/state`:
//!
//! | at | size | field          | meaning                                                                  |
//! |----|------|----------------|--------------------------------------------------------------------------|
//! |  0 |    4 | crc            | crc32c of the rest                                                       |
//! |  4 |    1 | version        | 2                                                                        |
//! |  5 |    8 | last_committed | every change up to this transno was on disk when this was written        |
//! | 13 |   16 | kernel_run     | the run of the machine's kernel in which this was written, 0 = not known |
//! | 29 |    8 | lost_boot      | the newest start of the target before which changes may have been lost   |
//! | 37 |    1 | clean          | 1: nothing was changed behind `last_committed`                           |
//!
//! Version 1 ends after `last_committed`; it holds nothing else. The record is written after the
//! data it speaks of was synced, never before. So after a crash it may say too little (clients then
//! replay changes that are there already), but never too much.
//!
//! Key `ost/settled/`, then the object (FID 16, instance 4, stripe 4, big-endian). Value of version
//! 1: crc 4, version 1, zero 3, transno 8. Changes of this object up to that transno are durable,
//! or the object was destroyed: they must not be redone, although `last_committed` is below it. The
//! record is removed with a state that covers it.

use crate::checksum::crc32c;
use crate::damaged::{Damaged, known, seal, unseal};
use types::fid::Fid;
use types::object::ObjectId;
use types::session::Transno;

/// Key of the state.
pub const STATE_KEY: &[u8] = b"ost/state";
/// Every key of what is settled begins with it.
pub const SETTLED_PREFIX: &[u8] = b"ost/settled/";
/// Behind every key of what is settled.
pub const SETTLED_END: &[u8] = b"ost/settled0";
/// Format version of the state. 1: first version. 2: what was lost.
pub const VERSION: u8 = 2;
const SETTLED: &str = "settled object";
const SETTLED_VERSION: u8 = 1;

/// State of an object target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OstState {
    /// See above.
    pub last_committed: Transno,
    /// See above.
    pub kernel_run: u128,
    /// See above.
    pub lost_boot: u64,
    /// See above.
    pub clean: bool,
}

/// The bytes are no such record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadOstState {
    /// Wrong length.
    #[error("the OST's state record has {0} bytes instead of {size}", size = OstState::SIZE)]
    Size(usize),
    /// Bits were flipped.
    #[error(
        "the OST's state record has checksum {found:08x}, its bytes say {computed:08x}: it is damaged"
    )]
    Checksum {
        /// The checksum in the record.
        found: u32,
        /// The checksum of what was read.
        computed: u32,
    },
    /// From a newer program.
    #[error(
        "the OST's state record has version {0}, this program knows up to {VERSION}: update this program"
    )]
    Version(u8),
}

impl OstState {
    /// Encoded size, bytes.
    pub const SIZE: usize = OstState::SIZE_1 + 16 + 8 + 1;
    /// Size of version 1, bytes.
    const SIZE_1: usize = 4 + 1 + 8;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[4] = VERSION;
        bytes[5..13].copy_from_slice(&self.last_committed.0.to_le_bytes());
        bytes[13..29].copy_from_slice(&self.kernel_run.to_le_bytes());
        bytes[29..37].copy_from_slice(&self.lost_boot.to_le_bytes());
        bytes[37] = self.clean.into();
        seal(&mut bytes);
        bytes
    }

    /// From bytes. The checksum is judged before the version.
    ///
    /// # Errors
    /// [`BadOstState`].
    pub fn decode(bytes: &[u8]) -> Result<OstState, BadOstState> {
        let (Some((crc, rest)), true) =
            (bytes.split_first_chunk(), bytes.len() >= OstState::SIZE_1)
        else {
            return Err(BadOstState::Size(bytes.len()));
        };
        let (found, computed) = (u32::from_le_bytes(*crc), crc32c(rest));
        if found != computed {
            return Err(BadOstState::Checksum { found, computed });
        }
        let u64_at =
            |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let last_committed = Transno(u64_at(5));
        match (bytes[4], bytes.len()) {
            (1, OstState::SIZE_1) => Ok(OstState { last_committed, ..OstState::default() }),
            (VERSION, OstState::SIZE) => Ok(OstState {
                last_committed,
                kernel_run: u128::from(u64_at(13)) | u128::from(u64_at(21)) << 64,
                lost_boot: u64_at(29),
                clean: bytes[37] != 0,
            }),
            (1 | VERSION, len) => Err(BadOstState::Size(len)),
            (version, _) => Err(BadOstState::Version(version)),
        }
    }
}

/// Key of what is settled of an object.
pub fn settled_key(object: ObjectId) -> Vec<u8> {
    let mut key = SETTLED_PREFIX.to_vec();
    key.extend_from_slice(&object.fid.to_be_bytes());
    key.extend_from_slice(&object.instance.to_be_bytes());
    key.extend_from_slice(&object.stripe.to_be_bytes());
    key
}

/// The object of such a key.
pub fn settled_object(key: &[u8]) -> Option<ObjectId> {
    let (fid, rest) = key.strip_prefix(SETTLED_PREFIX)?.split_first_chunk()?;
    let (instance, stripe) = rest.split_first_chunk()?;
    Some(ObjectId {
        fid: Fid::from_be_bytes(*fid),
        instance: u32::from_be_bytes(*instance),
        stripe: u32::from_be_bytes(stripe.try_into().ok()?),
    })
}

/// The record of what is settled.
pub fn encode_settled(transno: Transno) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4] = SETTLED_VERSION;
    bytes[8..].copy_from_slice(&transno.0.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// Reads it.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_settled(bytes: &[u8]) -> Result<Transno, Damaged> {
    unseal(SETTLED, bytes)?;
    let bytes: &[u8; 16] =
        bytes.try_into().map_err(|_| Damaged::Short { record: SETTLED, found: bytes.len() })?;
    known(SETTLED, bytes[4], SETTLED_VERSION)?;
    Ok(Transno(bytes[8..].first_chunk().map_or(0, |transno| u64::from_le_bytes(*transno))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn bytes_never_change_and_every_fault_is_found() {
        let state = OstState {
            last_committed: Transno(0x0102_0304_0506_0708),
            kernel_run: 0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20,
            lost_boot: 7,
            clean: true,
        };
        let bytes = state.encode();
        assert_eq!(bytes[4..13], [2, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!((bytes[13], bytes[28], bytes[29], bytes[37]), (0x20, 0x11, 7, 1));
        assert_eq!(bytes[..4], crc32c(&bytes[4..]).to_le_bytes());
        assert_eq!(OstState::decode(&bytes), Ok(state));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert!(
                matches!(OstState::decode(&bad), Err(BadOstState::Checksum { .. })),
                "byte {at}"
            );
            assert!(OstState::decode(&bytes[..at]).is_err());
            let short = sealed(bytes[..at.max(13)].to_vec());
            assert_eq!(OstState::decode(&short), Err(BadOstState::Size(short.len())));
        }
        let newer = sealed([&bytes[..4], &[3], &bytes[5..]].concat());
        assert_eq!(OstState::decode(&newer), Err(BadOstState::Version(3)));
    }

    #[test]
    fn the_first_version_is_read() {
        let bytes = sealed(vec![0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            OstState::decode(&bytes),
            Ok(OstState { last_committed: Transno(9), ..OstState::default() })
        );
    }

    #[test]
    fn what_is_settled_round_trips() {
        let object =
            ObjectId { fid: Fid { seq: 0x2_0000_0401, oid: 7, ver: 0 }, instance: 3, stripe: 9 };
        let key = settled_key(object);
        assert_eq!(settled_object(&key), Some(object));
        assert!(key.as_slice() > SETTLED_PREFIX && key.as_slice() < SETTLED_END);
        assert_eq!(settled_object(&key[1..]), None);
        assert_eq!(settled_object(&key[..key.len() - 1]), None);
        let bytes = encode_settled(Transno(0x0102));
        assert_eq!(bytes[4..], [1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_settled(&bytes), Ok(Transno(0x0102)));
        assert!((0..16).all(|len| decode_settled(&bytes[..len]).is_err()));
    }
}
