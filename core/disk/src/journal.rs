//! The journal of a store: one record per group of changes, and the note of how far the tree has
//! taken them over.
//!
//! The journal file is a ring of 4 KiB blocks. A record starts on a block and is padded to whole
//! blocks, so that writing the next one never touches a block of an acknowledged one. Sequence
//! number and store uuid tell a record from what an earlier lap, or an earlier store in the same
//! blocks, left behind.

use crate::checksum::crc32c;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Records start at multiples of this, bytes.
pub const BLOCK: usize = 4096;
/// Value length that says: the key is deleted.
const DELETED: u32 = u32::MAX;
const MAGIC: [u8; 4] = *b"SJR1";
const APPLIED_MAGIC: [u8; 4] = *b"SAP1";

/// Head of a record. 64 bytes.
///
/// | at | size | field         | meaning                                   |
/// |----|------|---------------|-------------------------------------------|
/// |  0 |    4 | crc           | crc32c of bytes 4..64                     |
/// |  4 |    4 | magic         | `SJR1`                                    |
/// |  8 |   16 | store         | uuid of the store                         |
/// | 24 |    8 | sequence      | number of the batch, from 1, without gaps |
/// | 32 |    8 | transno       | newest transno in it                      |
/// | 40 |    8 | fence         | epoch of the owner that wrote it          |
/// | 48 |    8 | payload_bytes | length of the changes behind this head    |
/// | 56 |    4 | payload_crc   | crc32c of the changes                     |
/// | 60 |    4 | changes       | how many                                  |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordHead {
    /// Uuid of the store.
    pub store: u128,
    /// Number of the batch.
    pub sequence: u64,
    /// Newest transno in it.
    pub transno: u64,
    /// Epoch of the owner.
    pub fence: u64,
    /// Bytes of changes.
    pub payload_bytes: u64,
    /// Their crc32c.
    pub payload_crc: u32,
    /// Their number.
    pub changes: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    crc: U32,
    magic: [u8; 4],
    store: U128,
    sequence: U64,
    transno: U64,
    fence: U64,
    payload_bytes: U64,
    payload_crc: U32,
    changes: U32,
}

impl RecordHead {
    /// Encoded size, bytes.
    pub const SIZE: usize = 64;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let raw = RawHead {
            crc: U32::new(0),
            magic: MAGIC,
            store: self.store.into(),
            sequence: self.sequence.into(),
            transno: self.transno.into(),
            fence: self.fence.into(),
            payload_bytes: self.payload_bytes.into(),
            payload_crc: self.payload_crc.into(),
            changes: self.changes.into(),
        };
        seal(zerocopy::transmute!(raw))
    }

    /// From the first bytes of a block; `None` if no whole head is there.
    pub fn decode(bytes: &[u8]) -> Option<RecordHead> {
        let (raw, _) = RawHead::ref_from_prefix(bytes).ok()?;
        if raw.magic != MAGIC || raw.crc.get() != crc32c(&bytes[4..Self::SIZE]) {
            return None;
        }
        Some(RecordHead {
            store: raw.store.get(),
            sequence: raw.sequence.get(),
            transno: raw.transno.get(),
            fence: raw.fence.get(),
            payload_bytes: raw.payload_bytes.get(),
            payload_crc: raw.payload_crc.get(),
            changes: raw.changes.get(),
        })
    }

    /// Bytes a record with this much payload takes in the journal; `None` if there is no such
    /// number.
    pub fn record_bytes(payload_bytes: u64) -> Option<u64> {
        payload_bytes.checked_add(Self::SIZE as u64)?.checked_next_multiple_of(BLOCK as u64)
    }
}

/// How far the tree has taken over the journal. It is kept in the tree, in the same transaction as
/// the records. 72 bytes.
///
/// | at | size | field    | meaning                                                    |
/// |----|------|----------|------------------------------------------------------------|
/// |  0 |    4 | crc      | crc32c of bytes 4..72                                      |
/// |  4 |    4 | magic    | `SAP1`                                                     |
/// |  8 |   16 | store    | uuid of the store                                          |
/// | 24 |    8 | sequence | newest batch in the tree                                   |
/// | 32 |    8 | transno  | its transno                                                |
/// | 40 |    8 | next     | where the record after it starts, bytes since the first lap |
/// | 48 |    8 | capacity | size of the journal file                                   |
/// | 56 |    8 | tree     | size of the tree's file before this transaction, bytes     |
/// | 64 |    1 | clean    | 1: closed in order, the journal holds nothing more         |
/// | 65 |    7 | fence    | epoch of the newest batch in the tree; 0: not noted        |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    /// Uuid of the store.
    pub store: u128,
    /// Newest batch in the tree.
    pub sequence: u64,
    /// Transno of the last batch that the tree holds.
    pub transno: u64,
    /// Where the next record starts, bytes since the first lap of the ring.
    pub next: u64,
    /// Size of the journal file, bytes.
    pub capacity: u64,
    /// Size of the tree's file before the transaction that wrote this, bytes: it never shrinks.
    pub tree_bytes: u64,
    /// Closed in order.
    pub clean: bool,
    /// Epoch of the owner that wrote the newest batch in the tree, below 2^56. 0 in the trees of
    /// versions that did not note it.
    pub fence: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawApplied {
    crc: U32,
    magic: [u8; 4],
    store: U128,
    sequence: U64,
    transno: U64,
    next: U64,
    capacity: U64,
    tree_bytes: U64,
    clean: u8,
    fence: [u8; 7],
}

impl Applied {
    /// Encoded size, bytes.
    pub const SIZE: usize = 72;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let [fence @ .., top] = self.fence.to_le_bytes();
        assert_eq!(top, 0, "a target is not opened 2^56 times");
        let raw = RawApplied {
            crc: U32::new(0),
            magic: APPLIED_MAGIC,
            store: self.store.into(),
            sequence: self.sequence.into(),
            transno: self.transno.into(),
            next: self.next.into(),
            capacity: self.capacity.into(),
            tree_bytes: self.tree_bytes.into(),
            clean: self.clean.into(),
            fence,
        };
        seal(zerocopy::transmute!(raw))
    }

    /// From bytes; `None` if they are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Applied> {
        let raw = RawApplied::ref_from_bytes(bytes).ok()?;
        if raw.magic != APPLIED_MAGIC || raw.crc.get() != crc32c(&bytes[4..]) || raw.clean > 1 {
            return None;
        }
        Some(Applied {
            store: raw.store.get(),
            sequence: raw.sequence.get(),
            transno: raw.transno.get(),
            next: raw.next.get(),
            capacity: raw.capacity.get(),
            tree_bytes: raw.tree_bytes.get(),
            clean: raw.clean == 1,
            fence: u64::from_le_bytes(std::array::from_fn(|at| {
                raw.fence.get(at).copied().unwrap_or_default()
            })),
        })
    }
}

const _: () =
    assert!(size_of::<RawHead>() == RecordHead::SIZE && size_of::<RawApplied>() == Applied::SIZE);

fn seal<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Head of a change: key length, 2 zero bytes, value length (`u32::MAX` = deleted); then key and
/// value.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawChange {
    key_len: U16,
    zero: U16,
    value_len: U32,
}

/// Size of a change's head, bytes.
pub const CHANGE_HEAD: usize = 8;
const _: () = assert!(size_of::<RawChange>() == CHANGE_HEAD);

/// Appends a change; `None` deletes the key. Keys are at most 65,535 bytes, values below 4 GiB - 1.
pub fn encode_change(key: &[u8], value: Option<&[u8]>, out: &mut Vec<u8>) {
    let key_len = U16::new(u16::try_from(key.len()).expect("a key is at most 511 bytes"));
    let value_len =
        value.map_or(DELETED, |v| u32::try_from(v.len()).expect("a value is at most some MiB"));
    let head = RawChange { key_len, zero: U16::new(0), value_len: U32::new(value_len) };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value.unwrap_or_default());
}

/// One change: a key and its new value, `None` = deleted.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// Takes the first change off `payload`; `None` if no whole change is there.
pub fn decode_change<'a>(payload: &mut &'a [u8]) -> Option<Change<'a>> {
    let (head, rest) = RawChange::ref_from_prefix(payload).ok()?;
    let (key, rest) = rest.split_at_checked(usize::from(head.key_len.get()))?;
    if head.zero.get() != 0 {
        return None;
    }
    let (value, rest) = match head.value_len.get() {
        DELETED => (None, rest),
        len => {
            let (value, rest) = rest.split_at_checked(len as usize)?;
            (Some(value), rest)
        }
    };
    *payload = rest;
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    fn head() -> RecordHead {
        RecordHead {
            store: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
            sequence: 7,
            transno: 9,
            fence: 3,
            payload_bytes: 1000,
            payload_crc: 0xdead_beef,
            changes: 4,
        }
    }

    fn applied() -> Applied {
        Applied {
            store: 5,
            sequence: 6,
            transno: 7,
            next: 8192,
            capacity: 1 << 20,
            tree_bytes: 40960,
            clean: true,
            fence: 0,
        }
    }

    #[test]
    fn bytes_never_change() {
        assert_eq!(hex(&head().encode()), include_str!("golden/journal_head.hex").trim());
        assert_eq!(hex(&applied().encode()), include_str!("golden/journal_applied.hex").trim());
        let fenced = Applied { fence: 0x0001_0203_0405_0607, ..applied() };
        assert_eq!(fenced.encode()[65..], [7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Applied::decode(&fenced.encode()), Some(fenced));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        assert_eq!(RecordHead::decode(&head().encode()), Some(head()));
        assert_eq!(Applied::decode(&applied().encode()), Some(applied()));
        for bit in 0..RecordHead::SIZE * 8 {
            let mut bytes = head().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHead::decode(&bytes), None, "bit {bit}");
        }
        for bit in 0..Applied::SIZE * 8 {
            let mut bytes = applied().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Applied::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(RecordHead::decode(&head().encode()[..63]), None);
    }

    #[test]
    fn changes_round_trip_and_cut_ones_are_refused() {
        let mut bytes = Vec::new();
        encode_change(b"key", Some(b"value"), &mut bytes);
        encode_change(b"gone", None, &mut bytes);
        encode_change(b"empty", Some(b""), &mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(decode_change(&mut rest), Some((&b"key"[..], Some(&b"value"[..]))));
        assert_eq!(decode_change(&mut rest), Some((&b"gone"[..], None)));
        assert_eq!(decode_change(&mut rest), Some((&b"empty"[..], Some(&b""[..]))));
        assert!(rest.is_empty());
        for cut in 0..16 {
            assert_eq!(decode_change(&mut &bytes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn record_sizes_are_whole_blocks() {
        assert_eq!(RecordHead::record_bytes(0), Some(4096));
        assert_eq!(RecordHead::record_bytes(4096 - 64), Some(4096));
        assert_eq!(RecordHead::record_bytes(4096 - 63), Some(8192));
        assert_eq!(RecordHead::record_bytes(u64::MAX), None);
    }
}
