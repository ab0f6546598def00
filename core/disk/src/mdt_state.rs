//! State of an MDT as a whole: which FID sequences it has used up.
//!
//! Written before the first sequence of a range is used, and durable then: so no FID is ever handed
//! out twice.

use crate::damaged::{Damaged, known, seal, unseal};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "MDT state";
/// Bytes of a record.
pub const BYTES: usize = size_of::<Fixed>();

/// 16 bytes.
///
/// | at | size | field    | meaning                                        |
/// |----|------|----------|------------------------------------------------|
/// |  0 |    4 | crc      | crc32c of the rest                             |
/// |  4 |    1 | version  | 1                                              |
/// |  5 |    3 | zero     | must be 0                                      |
/// |  8 |    8 | seq_next | sequences below this one may have been used    |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    seq_next: U64,
}

const _: () = assert!(BYTES == 16);

/// State that an MDT keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MdtState {
    /// Sequences below this one may have been used.
    pub seq_next: u64,
}

/// The record.
pub fn encode(state: &MdtState) -> [u8; BYTES] {
    let fixed =
        Fixed { crc: U32::ZERO, version: VERSION, zero: [0; 3], seq_next: state.seq_next.into() };
    let mut bytes: [u8; BYTES] = zerocopy::transmute!(fixed);
    seal(&mut bytes);
    bytes
}

/// Reads it.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<MdtState, Damaged> {
    unseal(RECORD, bytes)?;
    let f = Fixed::ref_from_bytes(bytes)
        .map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })?;
    known(RECORD, f.version, VERSION)?;
    Ok(MdtState { seq_next: f.seq_next.get() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let state = MdtState { seq_next: 0x2_0000_0500 };
        crate::golden::check("mdt_state", &encode(&state));
        assert_eq!(decode(&encode(&state)), Ok(state));
        assert!(decode(&encode(&state)[..15]).is_err());
    }
}
