//! A block of a volume whose bytes are in the store of the OST until the device was synced
//! (`docs/volume.md`, "Small syncs").
//!
//! Key `ost/logged/`, then the place of its unit (4, big-endian) and its number there (1).
//!
//! | at | size | field   | meaning               |
//! |----|------|---------|-----------------------|
//! |  0 |    4 | crc     | crc32c of the rest    |
//! |  4 |    1 | version | 1                     |
//! |  5 |    3 | zero    | must be 0             |
//! |  8 | 4096 | bytes   | of the block          |

use crate::damaged::{Damaged, known, seal, unseal};
use crate::volume::{BLOCK_BYTES, FIRST_UNIT, UNIT_BLOCKS, UNITS_MAX};

/// Every key of a logged block begins with it.
pub const LOGGED_PREFIX: &[u8] = b"ost/logged/";
/// Behind every key of a logged block.
pub const LOGGED_END: &[u8] = b"ost/logged0";
/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const BLOCK: &str = "logged block of a volume";
const HEAD_BYTES: usize = 8;

/// Where a block lies on the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockPlace {
    /// Place of its unit on the device, in units.
    pub unit: u32,
    /// Its number in the unit, below [`UNIT_BLOCKS`].
    pub block: u8,
}

/// Key of a logged block.
pub fn logged_key(at: BlockPlace) -> Vec<u8> {
    let mut key = LOGGED_PREFIX.to_vec();
    key.extend_from_slice(&at.unit.to_be_bytes());
    key.push(at.block);
    key
}

/// The block of such a key; `None`: no volume has it.
pub fn logged_of(key: &[u8]) -> Option<BlockPlace> {
    let (unit, block) = key.strip_prefix(LOGGED_PREFIX)?.split_first_chunk()?;
    let at = BlockPlace { unit: u32::from_be_bytes(*unit), block: *block.first()? };
    let is_one = block.len() == 1
        && usize::from(at.block) < UNIT_BLOCKS
        && (u64::from(FIRST_UNIT)..UNITS_MAX).contains(&at.unit.into());
    is_one.then_some(at)
}

/// The record of a block with these [`BLOCK_BYTES`].
pub fn encode_logged(block: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[4] = VERSION;
    bytes.extend_from_slice(block);
    seal(&mut bytes);
    bytes
}

/// The bytes of the block in a record.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_logged(bytes: &[u8]) -> Result<&[u8], Damaged> {
    unseal(BLOCK, bytes)?;
    let short = Damaged::Short { record: BLOCK, found: bytes.len() };
    let (head, block) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(short)?;
    known(BLOCK, head[4], VERSION)?;
    if let Some(found) = head[5..].iter().find(|byte| **byte != 0) {
        return Err(Damaged::Field { record: BLOCK, field: "zero", found: (*found).into() });
    }
    if block.len() as u64 == BLOCK_BYTES { Ok(block) } else { Err(short) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: BlockPlace = BlockPlace { unit: 0x0a0b_0c0d, block: 15 };

    #[test]
    fn keys_are_in_the_order_of_places_and_say_which() {
        let key = logged_key(AT);
        assert_eq!(key, b"ost/logged/\x0a\x0b\x0c\x0d\x0f");
        assert_eq!(logged_of(&key), Some(AT));
        assert!(key.as_slice() < LOGGED_END && key.as_slice() > LOGGED_PREFIX);
        let no_unit = BlockPlace { unit: FIRST_UNIT - 1, block: 0 };
        for bad in [&key[..15], &[&key[..], &[0]].concat(), &logged_key(no_unit)] {
            assert_eq!(logged_of(bad), None, "{bad:?}");
        }
        assert_eq!(logged_of(&logged_key(BlockPlace { block: 16, ..AT })), None);
    }

    #[test]
    fn a_record_that_is_not_whole_says_why() {
        let block = vec![7; BLOCK_BYTES as usize];
        let record = encode_logged(&block);
        assert_eq!(decode_logged(&record), Ok(&block[..]));
        assert_eq!((&record[4..8], &record[8..]), (&[1, 0, 0, 0][..], &block[..]), "the format");
        let again = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut record = record.clone();
            change(&mut record);
            seal(&mut record);
            decode_logged(&record).expect_err("it is bad")
        };
        assert!(matches!(again(&|bytes| bytes[4] = 9), Damaged::Version { found: 9, .. }));
        assert!(matches!(again(&|bytes| bytes[6] = 1), Damaged::Field { field: "zero", .. }));
        assert!(matches!(again(&|bytes| bytes.truncate(100)), Damaged::Short { .. }));
        assert!(matches!(again(&|bytes| bytes.push(0)), Damaged::Short { .. }));
        let mut record = record;
        record[99] ^= 1;
        assert!(matches!(decode_logged(&record), Err(Damaged::Checksum { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
            let _ = (decode_logged(&bytes), logged_of(&bytes));
        }
    }
}
