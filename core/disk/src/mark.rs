//! Marks: records that say nearly everything in their key (orphans, writers, directories whose
//! names move).
//!
//! | at | size | field   | meaning                                                                  |
//! |----|------|---------|--------------------------------------------------------------------------|
//! |  0 |    4 | crc     | crc32c of the rest                                                       |
//! |  4 |    1 | version | 2; 1 had no flags                                                        |
//! |  5 |    1 | flags   | 1: the file was cut, its objects perhaps not yet, or not durably         |
//! |  6 |    2 | zero    | must be 0                                                                |
//! |  8 |    8 | boot    | boot number of the target when it was made                               |

use crate::damaged::{Damaged, known, seal, unseal};

/// Version of the record. 1: first version. 2: flags.
pub const VERSION: u8 = 2;
const RECORD: &str = "mark";
/// Bytes of a record.
pub const BYTES: usize = 16;
const CUT: u8 = 1;

/// What a mark says besides its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// Boot number of the target when it was made.
    pub boot: u64,
    /// Writer marks: the file was cut, its objects perhaps not yet, or not durably.
    pub cut: bool,
}

/// The record.
pub fn encode(mark: Mark) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[4] = VERSION;
    bytes[5] = if mark.cut { CUT } else { 0 };
    bytes[8..].copy_from_slice(&mark.boot.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// Reads it.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Mark, Damaged> {
    unseal(RECORD, bytes)?;
    let bytes: &[u8; BYTES] =
        bytes.try_into().map_err(|_| Damaged::Short { record: RECORD, found: bytes.len() })?;
    let [_, _, _, _, version, flags, _, _, boot @ ..] = *bytes;
    known(RECORD, version, VERSION)?;
    if flags & !CUT != 0 {
        return Err(Damaged::Field { record: RECORD, field: "flags", found: flags.into() });
    }
    Ok(Mark { boot: u64::from_le_bytes(boot), cut: flags & CUT != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let cut = Mark { boot: 5, cut: true };
        crate::golden::check("mark", &encode(cut));
        for mark in [cut, Mark { cut: false, ..cut }] {
            assert_eq!(decode(&encode(mark)), Ok(mark));
        }
        assert!(decode(&encode(cut)[..15]).is_err());
    }

    #[test]
    fn the_first_version_is_read_and_unknown_flags_are_damage() {
        let mut first = encode(Mark { boot: 7, cut: false });
        first[4] = 1;
        seal(&mut first);
        assert_eq!(decode(&first), Ok(Mark { boot: 7, cut: false }));
        let mut flags = encode(Mark::default());
        flags[5] = 2;
        seal(&mut flags);
        assert_eq!(
            decode(&flags),
            Err(Damaged::Field { record: RECORD, field: "flags", found: 2 })
        );
    }
}
