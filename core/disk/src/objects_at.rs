//! The record that says which file has the objects named after another one: the two swapped layouts
//! (`docs/layout.md`).
//!
//! | at | size | field   | meaning                              |
//! |----|------|---------|--------------------------------------|
//! |  0 |    4 | crc     | crc32c of the rest                   |
//! |  4 |    1 | version | 1                                    |
//! |  5 |    3 | zero    | must be 0                            |
//! |  8 |   16 | fid     | the file that has them, big endian   |

use crate::damaged::{Damaged, known, seal, unseal};
use types::fid::Fid;

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "place of objects";
/// Bytes of a record.
pub const BYTES: usize = 24;

/// The record.
pub fn encode(file: Fid) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[4] = VERSION;
    bytes[8..].copy_from_slice(&file.to_be_bytes());
    seal(&mut bytes);
    bytes
}

/// The file.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Fid, Damaged> {
    unseal(RECORD, bytes)?;
    let bytes: &[u8; BYTES] =
        bytes.try_into().map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })?;
    let [_, _, _, _, version, a, b, c, fid @ ..] = *bytes;
    known(RECORD, version, VERSION)?;
    let zero = a | b | c;
    if zero != 0 {
        return Err(Damaged::Field { record: RECORD, field: "zero", found: zero.into() });
    }
    Ok(Fid::from_be_bytes(fid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_every_flipped_bit_and_cut_is_noticed() {
        let fid = Fid { seq: Fid::SEQ_NORMAL, oid: 9, ver: 0 };
        let bytes = encode(fid);
        crate::golden::check("objects_at", &bytes);
        assert_eq!(decode(&bytes), Ok(fid));
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode(&bad).is_err(), "bit {at}");
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let mut zero = bytes;
        zero[6] = 1;
        seal(&mut zero);
        assert_eq!(decode(&zero), Err(Damaged::Field { record: RECORD, field: "zero", found: 1 }));
    }
}
