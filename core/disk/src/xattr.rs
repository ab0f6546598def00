//! Extended attribute: its value. Inode and name are in the key.
//!
//! | at | size | field   | meaning                     |
//! |----|------|---------|-----------------------------|
//! |  0 |    4 | crc     | crc32c of the rest          |
//! |  4 |    1 | version | 1                           |
//! |  5 |    3 | zero    | must be 0                   |
//! |  8 |    n | value   |                             |

use crate::damaged::{Damaged, known, seal, unseal};

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "xattr";
/// Bytes in front of the value.
pub const HEAD_BYTES: usize = 8;

/// Writes a record into `out`, which is emptied first.
pub fn encode(value: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0, 0, 0, 0, VERSION, 0, 0, 0]);
    out.extend_from_slice(value);
    seal(out);
}

/// The value.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<&[u8], Damaged> {
    unseal(RECORD, bytes)?;
    let (head, value) = bytes
        .split_first_chunk::<HEAD_BYTES>()
        .ok_or(Damaged::Short { record: RECORD, found: bytes.len() })?;
    known(RECORD, head[4], VERSION)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let mut bytes = Vec::new();
        encode(b"value", &mut bytes);
        crate::golden::check("xattr", &bytes);
        assert_eq!(decode(&bytes), Ok(&b"value"[..]));
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
