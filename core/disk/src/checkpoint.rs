//! A page of a checkpoint: records of a tree, as a blob (docs/ownership.md).
//!
//! Behind the head are the records, as changes of a journal record, in the order of their keys.

use crate::checksum::crc32c;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"SCB1";

/// Head of a page. 64 bytes.
///
/// | at | size | field       | meaning                                              |
/// |----|------|-------------|------------------------------------------------------|
/// |  0 |    4 | crc         | crc32c of bytes 4..64                                |
/// |  4 |    4 | magic       | `SCB1`                                               |
/// |  8 |   16 | store       | uuid of the store                                    |
/// | 24 |    8 | id          | drawn anew for each checkpoint                       |
/// | 32 |    8 | number      | entry up to which the checkpoint has the whole log   |
/// | 40 |    4 | page        | number of the page, from 0                           |
/// | 44 |    4 | more        | 1: other pages follow; 0: it is the last one         |
/// | 48 |    4 | records     | how many                                             |
/// | 52 |    4 | payload_crc | crc32c of the records                                |
/// | 56 |    8 | zero        |                                                      |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageHead {
    /// Uuid of the store.
    pub store: u128,
    /// Number of the checkpoint.
    pub id: u64,
    /// Number of the entry that it has everything up to.
    pub number: u64,
    /// Number of the page, from 0.
    pub page: u32,
    /// Other pages follow.
    pub more: bool,
    /// Number of records.
    pub records: u32,
    /// The crc32c of the records.
    pub payload_crc: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    crc: U32,
    magic: [u8; 4],
    store: U128,
    id: U64,
    number: U64,
    page: U32,
    more: U32,
    records: U32,
    payload_crc: U32,
    zero: [u8; 8],
}

const _: () = assert!(size_of::<Raw>() == PageHead::SIZE);

impl PageHead {
    /// Encoded size, bytes.
    pub const SIZE: usize = 64;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let raw = Raw {
            crc: U32::new(0),
            magic: MAGIC,
            store: self.store.into(),
            id: self.id.into(),
            number: self.number.into(),
            page: self.page.into(),
            more: u32::from(self.more).into(),
            records: self.records.into(),
            payload_crc: self.payload_crc.into(),
            zero: [0; 8],
        };
        let mut bytes: [u8; Self::SIZE] = zerocopy::transmute!(raw);
        let crc = crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The head, and the records behind it; `None` if one of them is damaged.
    pub fn decode(bytes: &[u8]) -> Option<(PageHead, &[u8])> {
        let (raw, records) = Raw::ref_from_prefix(bytes).ok()?;
        let sound = raw.magic == MAGIC
            && raw.crc.get() == crc32c(&bytes[4..Self::SIZE])
            && raw.more.get() <= 1
            && raw.payload_crc.get() == crc32c(records);
        let head = PageHead {
            store: raw.store.get(),
            id: raw.id.get(),
            number: raw.number.get(),
            page: raw.page.get(),
            more: raw.more.get() == 1,
            records: raw.records.get(),
            payload_crc: raw.payload_crc.get(),
        };
        sound.then_some((head, records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> PageHead {
        PageHead {
            store: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
            id: 0x0123_4567_89ab_cdef,
            number: 7,
            page: 3,
            more: true,
            records: 4,
            payload_crc: crc32c(b"records"),
        }
    }

    #[test]
    fn bytes_never_change() {
        let hex: String = sample().encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("golden/checkpoint_page.hex").trim());
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut bytes = sample().encode().to_vec();
        bytes.extend_from_slice(b"records");
        assert_eq!(PageHead::decode(&bytes), Some((sample(), &b"records"[..])));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PageHead::decode(&bad), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(PageHead::decode(&bytes[..cut]), None, "cut to {cut}");
        }
    }
}
