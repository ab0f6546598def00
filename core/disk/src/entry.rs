//! An entry of a shared log: the value under its key (docs/ownership.md).
//!
//! An entry that is too large for one value begins in parts, under keys of their own; this value
//! has the rest of it. Or all its changes are in a blob, and this value is a head alone. Head and
//! changes are those of a journal record, without its padding.
//!
//! The changes may be compressed: then parts, value and blob have their length, 4 bytes, and behind
//! it one block of LZ4.

use crate::checksum::crc32c;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"SLE1";
/// Of an entry whose changes are in a blob: programs that know of no blobs must not take it for one
/// without changes.
const MAGIC_BLOB: [u8; 4] = *b"SLE2";
/// The same two with compressed changes: programs that cannot expand them must not read them.
const MAGIC_PACKED: [u8; 4] = *b"SLE3";
const MAGIC_PACKED_BLOB: [u8; 4] = *b"SLE4";

/// Head of an entry. 64 bytes.
///
/// | at | size | field       | meaning                                              |
/// |----|------|-------------|------------------------------------------------------|
/// |  0 |    4 | crc         | crc32c of bytes 4..64                                |
/// |  4 |    4 | magic       | `SLE1`; `SLE2`: the changes are in a blob; `SLE3`, `SLE4`: likewise, compressed |
/// |  8 |   16 | store       | uuid of the store                                    |
/// | 24 |    8 | number      | number of the entry, from 1, without gaps            |
/// | 32 |    8 | transno     | newest transno in it                                 |
/// | 40 |    8 | fence       | epoch of the owner that wrote it                     |
/// | 48 |    4 | parts       | how many parts come before this value                |
/// | 52 |    4 | changes     | how many                                             |
/// | 56 |    4 | payload_crc | crc32c of all changes as they are kept, those in parts first |
/// | 60 |    4 | blob_bytes  | bytes of the blob; 0: there is none                  |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryHead {
    /// Uuid of the store.
    pub store: u128,
    /// Number of the entry.
    pub number: u64,
    /// Newest transno in it.
    pub transno: u64,
    /// Epoch of the owner.
    pub fence: u64,
    /// Number of parts.
    pub parts: u32,
    /// Number of changes.
    pub changes: u32,
    /// The crc32c of all changes, as they are kept: compressed, if they are.
    pub payload_crc: u32,
    /// Bytes of the blob that has the changes; 0: there is none.
    pub blob_bytes: u32,
    /// The changes are compressed.
    pub packed: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    crc: U32,
    magic: [u8; 4],
    store: U128,
    number: U64,
    transno: U64,
    fence: U64,
    parts: U32,
    changes: U32,
    payload_crc: U32,
    blob_bytes: U32,
}

const _: () = assert!(size_of::<Raw>() == EntryHead::SIZE);

impl EntryHead {
    /// Encoded size, bytes.
    pub const SIZE: usize = 64;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let raw = Raw {
            crc: U32::new(0),
            magic: match (self.packed, self.blob_bytes) {
                (false, 0) => MAGIC,
                (false, _) => MAGIC_BLOB,
                (true, 0) => MAGIC_PACKED,
                (true, _) => MAGIC_PACKED_BLOB,
            },
            store: self.store.into(),
            number: self.number.into(),
            transno: self.transno.into(),
            fence: self.fence.into(),
            parts: self.parts.into(),
            changes: self.changes.into(),
            payload_crc: self.payload_crc.into(),
            blob_bytes: U32::new(self.blob_bytes),
        };
        let mut bytes: [u8; Self::SIZE] = zerocopy::transmute!(raw);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The head, and what stands behind it; `None` if no whole head is there.
    pub fn decode(bytes: &[u8]) -> Option<(EntryHead, &[u8])> {
        let (raw, rest) = Raw::ref_from_prefix(bytes).ok()?;
        let (in_blob, packed) = match raw.magic {
            MAGIC => (false, false),
            MAGIC_BLOB => (true, false),
            MAGIC_PACKED => (false, true),
            MAGIC_PACKED_BLOB => (true, true),
            _ => return None,
        };
        let is_blob = raw.blob_bytes.get() != 0;
        if in_blob != is_blob || raw.crc.get() != crc32c(&bytes[4..Self::SIZE]) {
            return None;
        }
        let head = EntryHead {
            store: raw.store.get(),
            number: raw.number.get(),
            transno: raw.transno.get(),
            fence: raw.fence.get(),
            parts: raw.parts.get(),
            changes: raw.changes.get(),
            payload_crc: raw.payload_crc.get(),
            blob_bytes: raw.blob_bytes.get(),
            packed,
        };
        Some((head, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> EntryHead {
        EntryHead {
            store: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
            number: 7,
            transno: 9,
            fence: 3,
            parts: 2,
            changes: 4,
            payload_crc: 0xdead_beef,
            blob_bytes: 0,
            packed: false,
        }
    }

    fn of_blob() -> EntryHead {
        EntryHead { parts: 0, blob_bytes: 70_000, ..sample() }
    }

    #[test]
    fn bytes_never_change() {
        let hex = |head: EntryHead| -> String {
            head.encode().iter().map(|b| format!("{b:02x}")).collect()
        };
        assert_eq!(hex(sample()), include_str!("golden/entry_head.hex").trim());
        assert_eq!(hex(of_blob()), include_str!("golden/entry_head_blob.hex").trim());
        let packed = |head| EntryHead { packed: true, ..head };
        assert_eq!(hex(packed(sample())), include_str!("golden/entry_head_packed.hex").trim());
        let of_blob = hex(packed(of_blob()));
        assert_eq!(of_blob, include_str!("golden/entry_head_packed_blob.hex").trim());
    }

    #[test]
    fn a_blob_and_its_magic_belong_together() {
        assert_eq!(EntryHead::decode(&of_blob().encode()), Some((of_blob(), &b""[..])));
        for (head, other) in [(sample(), MAGIC_BLOB), (of_blob(), MAGIC)] {
            let mut bytes = head.encode();
            bytes[4..8].copy_from_slice(&other);
            let crc = crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(EntryHead::decode(&bytes), None);
        }
    }

    #[test]
    fn compressed_changes_are_told_apart() {
        for head in [sample(), of_blob()] {
            let head = EntryHead { packed: true, ..head };
            assert_eq!(EntryHead::decode(&head.encode()), Some((head, &b""[..])));
        }
        for (head, other) in [(sample(), MAGIC_PACKED_BLOB), (of_blob(), MAGIC_PACKED)] {
            let mut bytes = head.encode();
            bytes[4..8].copy_from_slice(&other);
            let crc = crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(EntryHead::decode(&bytes), None);
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut bytes = sample().encode().to_vec();
        bytes.extend_from_slice(b"changes");
        assert_eq!(EntryHead::decode(&bytes), Some((sample(), &b"changes"[..])));
        for bit in 0..EntryHead::SIZE * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(EntryHead::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(EntryHead::decode(&bytes[..63]), None);
    }
}
