//! Marks: records whose key says everything (orphans, writers).
//!
//! | at | size | field   | meaning                                     |
//! |----|------|---------|---------------------------------------------|
//! |  0 |    4 | crc     | crc32c of the rest                          |
//! |  4 |    1 | version | 1                                           |
//! |  5 |    3 | zero    | must be 0                                   |
//! |  8 |    8 | boot    | boot number of the target when it was made  |

use crate::damaged::{Damaged, known, seal, unseal};

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "mark";
/// Bytes of a record.
pub const BYTES: usize = 16;

/// The record.
pub fn encode(boot: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[4] = VERSION;
    bytes[8..].copy_from_slice(&boot.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// The boot number.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<u64, Damaged> {
    unseal(RECORD, bytes)?;
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })?;
    known(RECORD, bytes[4], VERSION)?;
    let (_, boot) = bytes.split_last_chunk::<8>().expect("16 bytes");
    Ok(u64::from_le_bytes(*boot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        crate::golden::check("mark", &encode(5));
        assert_eq!(decode(&encode(5)), Ok(5));
        assert!(decode(&encode(5)[..15]).is_err());
    }
}
