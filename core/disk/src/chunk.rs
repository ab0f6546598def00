//! Bytes of a file that live on its MDT. The key holds the FID that they are named after and the
//! number of the chunk. Chunk `n` begins at byte `n` times `DOM_CHUNK_BYTES` of the file.
//!
//! | at | size | field   | meaning                                                       |
//! |----|------|---------|---------------------------------------------------------------|
//! |  0 |    4 | crc     | crc32c of the rest                                            |
//! |  4 |    1 | version | 1                                                             |
//! |  5 |    3 | zero    | must be 0                                                     |
//! |  8 |    n | bytes   | 1 to `DOM_CHUNK_BYTES`; what lies behind them reads as zeros  |

use crate::damaged::{Damaged, known, seal, unseal};
use types::limits::DOM_CHUNK_BYTES;

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "chunk";
/// Bytes in front of the file's own.
pub const HEAD_BYTES: usize = 8;

/// Writes a record into `out`, which is emptied first.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0, 0, 0, 0, VERSION, 0, 0, 0]);
    out.extend_from_slice(bytes);
    seal(out);
}

/// The bytes.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(record: &[u8]) -> Result<&[u8], Damaged> {
    unseal(RECORD, record)?;
    let (head, bytes) = record
        .split_first_chunk::<HEAD_BYTES>()
        .ok_or(Damaged::Short { record: RECORD, found: record.len() })?;
    known(RECORD, head[4], VERSION)?;
    if bytes.is_empty() || bytes.len() > DOM_CHUNK_BYTES {
        return Err(Damaged::Field { record: RECORD, field: "bytes", found: bytes.len() as u64 });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let mut record = Vec::new();
        encode(b"some bytes", &mut record);
        crate::golden::check("chunk", &record);
        assert_eq!(decode(&record), Ok(&b"some bytes"[..]));
        for len in 0..record.len() {
            assert!(decode(&record[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_chunk_is_neither_empty_nor_too_long() {
        let mut record = Vec::new();
        for (len, good) in
            [(0, false), (1, true), (DOM_CHUNK_BYTES, true), (DOM_CHUNK_BYTES + 1, false)]
        {
            encode(&vec![7; len], &mut record);
            assert_eq!(decode(&record).is_ok(), good, "{len} bytes");
        }
    }
}
