//! The keys under which an MDT seals the redo that clients keep (docs/recovery.md, "Sealed").
//!
//! A life of the MDT records its key in the transaction in which it recovers, so the key is durable
//! before the first redo leaves that is sealed with it. The record is with the others in the store,
//! so whichever host takes the target over has it.

use crate::damaged::{Damaged, known, seal, unseal};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
/// Lives whose keys are kept.
pub const LIVES_MAX: usize = 2;
/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
const RECORD: &str = "redo keys";

/// | at | size | field   | meaning                                    |
/// |----|------|---------|--------------------------------------------|
/// |  0 |    4 | crc     | crc32c of the rest                         |
/// |  4 |    1 | version | 1                                          |
/// |  5 |    1 | lives   | 1 or 2                                     |
/// |  6 |    2 | zero    | must be 0                                  |
/// |  8 |      | lives   | boot 8, key 32; of the newest life first   |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    crc: [u8; 4],
    version: u8,
    lives: u8,
    zero: [u8; 2],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLife {
    boot: U64,
    key: [u8; KEY_BYTES],
}

const _: () = assert!(size_of::<Head>() == 8 && size_of::<RawLife>() == 40);

/// The key of one life.
#[derive(Clone, PartialEq, Eq)]
pub struct LifeKey {
    /// Boot number of the life.
    pub boot: u64,
    /// Its key. A secret of the servers.
    pub key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for LifeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LifeKey").field("boot", &self.boot).finish_non_exhaustive()
    }
}

/// The record of these lives, the newest first; those beyond [`LIVES_MAX`] are left out.
pub fn encode(lives: &[LifeKey]) -> Vec<u8> {
    let lives = &lives[..lives.len().min(LIVES_MAX)];
    let head = Head { crc: [0; 4], version: VERSION, lives: lives.len() as u8, zero: [0; 2] };
    let mut bytes = head.as_bytes().to_vec();
    for life in lives {
        bytes.extend_from_slice(RawLife { boot: life.boot.into(), key: life.key }.as_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// Reads it: 1 to [`LIVES_MAX`] lives, the newest first.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Vec<LifeKey>, Damaged> {
    let short = || Damaged::Short { record: RECORD, found: bytes.len() };
    let field = |field, found| Damaged::Field { record: RECORD, field, found };
    unseal(RECORD, bytes)?;
    let (head, rest) = Head::ref_from_prefix(bytes).map_err(|_| short())?;
    known(RECORD, head.version, VERSION)?;
    let count = usize::from(head.lives);
    if count == 0 || count > LIVES_MAX {
        return Err(field("lives", count as u64));
    }
    let lives = <[RawLife]>::ref_from_bytes_with_elems(rest, count).map_err(|_| short())?;
    Ok(lives.iter().map(|raw| LifeKey { boot: raw.boot.get(), key: raw.key }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(boot: u64) -> LifeKey {
        LifeKey { boot, key: [boot as u8; KEY_BYTES] }
    }

    #[test]
    fn bytes_never_change_and_round_trip() {
        let both = [life(8), life(7)];
        let bytes = encode(&both);
        crate::golden::check("redo_keys", &bytes);
        assert_eq!(decode(&bytes).as_deref(), Ok(&both[..]));
        crate::golden::refuses_other_lengths(&bytes, |bytes| decode(bytes).is_err());
        assert_eq!(decode(&encode(&both[..1])).as_deref(), Ok(&both[..1]));
        assert_eq!(encode(&[life(8), life(7), life(6)]), bytes, "older ones are left out");
    }

    #[test]
    fn a_record_without_a_life_is_damaged_and_no_key_is_shown() {
        assert!(decode(&encode(&[])).is_err());
        let shown = format!("{:?}", LifeKey { boot: 1, key: [0xab; KEY_BYTES] });
        assert!(!shown.contains("171") && !shown.contains("ab,"), "{shown}");
    }
}
