//! Redo: a change of an MDT as bytes that make it again. A reply carries it, its client keeps it,
//! and a replay brings it back.
//!
//! Redo is physical: it holds the records as the change left them, whatever the operation was. So
//! redoing it needs neither clock nor randomness, and gives the same FIDs, times, layouts and
//! versions. The versions of the inodes that the change found stand in front. If one of them
//! differs now, an earlier change is missing, and the redo must not be applied.
//!
//! | at | size | field    | meaning                                               |
//! |----|------|----------|-------------------------------------------------------|
//! |  0 |    4 | crc      | crc32c of the rest                                    |
//! |  4 |    1 | version  | 1                                                     |
//! |  5 |    3 | zero     | must be 0                                             |
//! |  8 |    4 | found    | inodes that it changed                                |
//! | 12 |    4 | changes  | records that it put or deleted                        |
//! | 16 |      | inodes   | FID 16 (big endian), version 8; 0 = there was none    |
//! |    |      | records  | key length 2, zero 2, value length 4 (all ones = deleted), key, value |

use crate::damaged::{Damaged, known, seal, unseal};
use types::fid::Fid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the bytes. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "redo";
const DELETED: u32 = u32::MAX;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    found: U32,
    changes: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFound {
    fid: [u8; 16],
    version: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawChange {
    key: U16,
    zero: U16,
    value: U32,
}

const _: () = assert!(size_of::<RawHead>() == 16 && size_of::<RawFound>() == 24 && size_of::<RawChange>() == 8);

/// Records that a transaction puts and deletes, in order.
#[derive(Default, Debug)]
pub struct Log {
    bytes: Vec<u8>,
    count: u32,
}

impl Log {
    /// A record is put, or with `None` deleted.
    ///
    /// # Panics
    /// A key beyond 64 KiB or a value beyond 4 GiB, which is a bug of the caller: stores take
    /// neither.
    pub fn note(&mut self, key: &[u8], value: Option<&[u8]>) {
        let len = value.map_or(DELETED, |value| u32::try_from(value.len()).expect("values are below 4 GiB"));
        let key_len = u16::try_from(key.len()).expect("keys are below 64 KiB");
        self.bytes.extend_from_slice(RawChange { key: key_len.into(), zero: 0.into(), value: len.into() }.as_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.count += 1;
    }

    /// The whole, with the inodes that were found.
    pub fn encode(&self, found: &[(Fid, u64)]) -> Vec<u8> {
        let head = RawHead {
            crc: U32::ZERO,
            version: VERSION,
            zero: [0; 3],
            found: (found.len() as u32).into(),
            changes: self.count.into(),
        };
        let mut bytes =
            Vec::with_capacity(size_of::<RawHead>() + found.len() * size_of::<RawFound>() + self.bytes.len());
        bytes.extend_from_slice(head.as_bytes());
        for (fid, version) in found {
            bytes.extend_from_slice(RawFound { fid: fid.to_be_bytes(), version: (*version).into() }.as_bytes());
        }
        bytes.extend_from_slice(&self.bytes);
        seal(&mut bytes);
        bytes
    }
}

/// Bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub struct Redo<'a> {
    /// Inodes that it changed, and the versions in which it found them; 0 = there was none.
    pub found: Vec<(Fid, u64)>,
    /// Records, in order; `None`: deleted.
    pub changes: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

/// Reads.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Redo<'_>, Damaged> {
    let short = || Damaged::Short { record: RECORD, found: bytes.len() };
    unseal(RECORD, bytes)?;
    let (head, rest) = RawHead::ref_from_prefix(bytes).map_err(|_| short())?;
    known(RECORD, head.version, VERSION)?;
    let (inodes, mut rest) =
        <[RawFound]>::ref_from_prefix_with_elems(rest, head.found.get() as usize).map_err(|_| short())?;
    let found = inodes.iter().map(|raw| (Fid::from_be_bytes(raw.fid), raw.version.get())).collect();
    let count = head.changes.get() as usize;
    // Each takes its head at least: the promised count is not trusted when memory is taken.
    if count > rest.len() / size_of::<RawChange>() {
        return Err(short());
    }
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let (raw, after) = RawChange::ref_from_prefix(rest).map_err(|_| short())?;
        let (key, after) = after.split_at_checked(raw.key.get().into()).ok_or_else(short)?;
        let len = raw.value.get();
        let (value, after) = match len {
            DELETED => (None, after),
            len => after.split_at_checked(len as usize).map(|(value, after)| (Some(value), after)).ok_or_else(short)?,
        };
        if key.is_empty() {
            return Err(Damaged::Field { record: RECORD, field: "key length", found: 0 });
        }
        changes.push((key, value));
        rest = after;
    }
    match rest.len() {
        0 => Ok(Redo { found, changes }),
        more => Err(Damaged::Field { record: RECORD, field: "bytes behind the last record", found: more as u64 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: 0x2_0000_0400, oid: 1, ver: 0 };

    #[test]
    fn bytes_never_change_and_round_trip() {
        let mut log = Log::default();
        log.note(b"Ikey", Some(b"value"));
        log.note(b"Ename", None);
        log.note(b"X", Some(b""));
        let bytes = log.encode(&[(A, 7), (Fid::ROOT, 0)]);
        crate::golden::check("redo", &bytes);
        let redo = decode(&bytes).unwrap();
        assert_eq!(redo.found, [(A, 7), (Fid::ROOT, 0)]);
        let changes: &[(&[u8], Option<&[u8]>)] = &[(b"Ikey", Some(b"value")), (b"Ename", None), (b"X", Some(b""))];
        assert_eq!(redo.changes, changes);
        for len in 0..bytes.len() {
            let mut cut = bytes[..len].to_vec();
            assert!(decode(&cut).is_err());
            if len > 4 {
                seal(&mut cut);
                assert!(decode(&cut).is_err(), "{len} bytes with a good checksum");
            }
        }
        let mut more = bytes.clone();
        more.push(0);
        seal(&mut more);
        assert!(decode(&more).is_err());
    }

    #[test]
    fn counts_are_not_believed() {
        let mut bytes = Log::default().encode(&[]);
        for at in [8, 12] {
            bytes[at..at + 4].fill(0xff);
            seal(&mut bytes);
            assert!(matches!(decode(&bytes), Err(Damaged::Short { .. })));
        }
    }
}
