//! The error for bytes in a store that SheenFS did not write, and the checksum that finds them.

use crate::checksum::crc32c;

/// A record is not what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damaged {
    /// Shorter than its fixed part, or its tail ends in the middle of an item.
    #[error("{record} record of {found} bytes is too short")]
    Short {
        /// Kind of record.
        record: &'static str,
        /// Length that was found, bytes.
        found: usize,
    },
    /// The checksum does not fit the bytes.
    #[error("{record} record has checksum {found:#010x}, its bytes say {expected:#010x}")]
    Checksum {
        /// Kind of record.
        record: &'static str,
        /// In the record.
        found: u32,
        /// Of its bytes.
        expected: u32,
    },
    /// Written by a newer program.
    #[error("{record} record has version {found}, this program knows up to {newest}")]
    Version {
        /// Kind of record.
        record: &'static str,
        /// In the record.
        found: u8,
        /// Newest known version.
        newest: u8,
    },
    /// A field holds what it cannot.
    #[error("{record} record: {field} cannot be {found}")]
    Field {
        /// Kind of record.
        record: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Value that was found.
        found: u64,
    },
}

impl Damaged {
    /// A key that stands among those of a kind of record, and that none of them has.
    pub fn key(record: &'static str, key: &[u8]) -> Damaged {
        Damaged::Field { record, field: "length of the key", found: key.len() as u64 }
    }
}

/// Bytes of the checksum in front of every record.
pub const CRC_BYTES: usize = 4;

/// Writes the checksum of everything after it into the first four bytes of a record.
///
/// # Panics
/// If the record is shorter than that, which is a bug of the caller.
pub(crate) fn seal(record: &mut [u8]) {
    let crc = crc32c(&record[CRC_BYTES..]);
    record[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Checks the checksum of a record and returns the bytes after it.
pub(crate) fn unseal<'a>(record: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], Damaged> {
    let (crc, rest) = bytes
        .split_first_chunk::<CRC_BYTES>()
        .ok_or(Damaged::Short { record, found: bytes.len() })?;
    let (found, expected) = (u32::from_le_bytes(*crc), crc32c(rest));
    if found == expected { Ok(rest) } else { Err(Damaged::Checksum { record, found, expected }) }
}

/// Checks a version.
pub(crate) fn known(record: &'static str, found: u8, newest: u8) -> Result<(), Damaged> {
    if found == 0 || found > newest {
        Err(Damaged::Version { record, found, newest })
    } else {
        Ok(())
    }
}
