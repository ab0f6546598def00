//! Directory entry: where a name leads. The name is in the key.

use crate::damaged::{Damaged, known, seal, unseal};
use types::attr::FileType;
use types::fid::Fid;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "directory entry";
/// Bytes of a record.
pub const BYTES: usize = size_of::<Fixed>();

/// 24 bytes.
///
/// | at | size | field   | meaning                     |
/// |----|------|---------|-----------------------------|
/// |  0 |    4 | crc     | crc32c of the rest          |
/// |  4 |    1 | version | 1                           |
/// |  5 |    1 | d_type  | what is there               |
/// |  6 |    2 | zero    | must be 0                   |
/// |  8 |   16 | fid     | the inode, big endian       |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    crc: U32,
    version: u8,
    d_type: u8,
    zero: [u8; 2],
    fid: [u8; 16],
}

const _: () = assert!(BYTES == 24);

/// The record.
pub fn encode(fid: Fid, file_type: FileType) -> [u8; BYTES] {
    let fixed = Fixed {
        crc: U32::ZERO,
        version: VERSION,
        d_type: file_type as u8,
        zero: [0; 2],
        fid: fid.to_be_bytes(),
    };
    let mut bytes: [u8; BYTES] = zerocopy::transmute!(fixed);
    seal(&mut bytes);
    bytes
}

/// The inode that the name leads to, and its type.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<(Fid, FileType), Damaged> {
    unseal(RECORD, bytes)?;
    let f = Fixed::ref_from_bytes(bytes)
        .map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })?;
    known(RECORD, f.version, VERSION)?;
    let field = Damaged::Field { record: RECORD, field: "d_type", found: f.d_type.into() };
    Ok((Fid::from_be_bytes(f.fid), FileType::from_dtype(f.d_type).ok_or(field)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let bytes = encode(Fid::ROOT, FileType::Directory);
        crate::golden::check("dirent", &bytes);
        assert_eq!(decode(&bytes), Ok((Fid::ROOT, FileType::Directory)));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode(Fid::ROOT, FileType::Directory);
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode(&bad).is_err(), "bit {at}");
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
