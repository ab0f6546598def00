//! Checksums of data at rest: the OST's record of the bytes in its object files (`docs/scrub.md`).
//!
//! An object is divided into regions of 1 MiB, a region into blocks of 4 KiB. Key `ost/sums/`, then
//! the object (FID 16, instance 4, stripe 4) and the number of the region (8), big-endian:
//!
//! | at | size  | field   | meaning                                                                      |
//! |----|-------|---------|------------------------------------------------------------------------------|
//! |  0 |     4 | crc     | crc32c of the rest                                                           |
//! |  4 |     1 | version | 1                                                                            |
//! |  5 |     3 | zero    | must be 0                                                                    |
//! |  8 | 4 * n | sums    | crc32c of each block from the first, n = 1 to 256; what lies beyond the end of the object counts as zeros |
//!
//! Key `ost/changing/`, then the object: version 1 is crc 4, version 1, zero 3. The object may have
//! been changed since its sums were recorded: none of them counts.

use crate::checksum::{crc32c, crc32c_parts};
use crate::damaged::{Damaged, known, seal, unseal};
use types::fid::Fid;
use types::object::ObjectId;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of a region.
pub const REGION_BLOCKS: usize = 256;
/// Bytes of a region.
pub const REGION_BYTES: u64 = (BLOCK_BYTES * REGION_BLOCKS) as u64;
/// Every key of sums begins with it.
pub const SUMS_PREFIX: &[u8] = b"ost/sums/";
/// Behind every key of sums.
pub const SUMS_END: &[u8] = b"ost/sums0";
/// Every key of an object that is being changed begins with it.
pub const CHANGING_PREFIX: &[u8] = b"ost/changing/";
/// Behind every such key.
pub const CHANGING_END: &[u8] = b"ost/changing0";
/// Version of both records. 1: first version.
pub const VERSION: u8 = 1;
const SUMS: &str = "checksums of data";
const CHANGING: &str = "changing object";
const HEAD_BYTES: usize = 8;
const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Key of something of an object: the prefix, and the object.
pub(crate) fn with_object(prefix: &[u8], object: ObjectId) -> Vec<u8> {
    let mut key = prefix.to_vec();
    key.extend_from_slice(&object.fid.to_be_bytes());
    key.extend_from_slice(&object.instance.to_be_bytes());
    key.extend_from_slice(&object.stripe.to_be_bytes());
    key
}

/// The object with which a key goes on behind its prefix, and the rest.
pub(crate) fn split_object(bytes: &[u8]) -> Option<(ObjectId, &[u8])> {
    let (fid, rest) = bytes.split_first_chunk()?;
    let (instance, rest) = rest.split_first_chunk()?;
    let (stripe, rest) = rest.split_first_chunk()?;
    let (instance, stripe) = (u32::from_be_bytes(*instance), u32::from_be_bytes(*stripe));
    Some((ObjectId { fid: Fid::from_be_bytes(*fid), instance, stripe }, rest))
}

/// Key of the sums of a region.
pub fn sums_key(object: ObjectId, region: u64) -> Vec<u8> {
    let mut key = with_object(SUMS_PREFIX, object);
    key.extend_from_slice(&region.to_be_bytes());
    key
}

/// Object and region of such a key.
pub fn sums_of(key: &[u8]) -> Option<(ObjectId, u64)> {
    let (object, region) = split_object(key.strip_prefix(SUMS_PREFIX)?)?;
    Some((object, u64::from_be_bytes(region.try_into().ok()?)))
}

/// From the first to behind the last key of sums that an object can have, from this region on.
pub fn sums_range(object: ObjectId, from: u64) -> (Vec<u8>, Vec<u8>) {
    let mut end = sums_key(object, u64::MAX);
    end.push(0);
    (sums_key(object, from), end)
}

/// Key of an object that is being changed.
pub fn changing_key(object: ObjectId) -> Vec<u8> {
    with_object(CHANGING_PREFIX, object)
}

/// The object of such a key.
pub fn changing_of(key: &[u8]) -> Option<ObjectId> {
    let (object, rest) = split_object(key.strip_prefix(CHANGING_PREFIX)?)?;
    rest.is_empty().then_some(object)
}

/// The record of an object that is being changed.
pub fn encode_changing() -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[4] = VERSION;
    seal(&mut bytes);
    bytes
}

/// The sum of a block of at most [`BLOCK_BYTES`] bytes, of which the object ends in the last one.
pub fn block_sum(bytes: &[u8]) -> u32 {
    match ZEROS.get(bytes.len().min(BLOCK_BYTES)..) {
        Some([]) | None => crc32c(bytes),
        Some(rest) => crc32c_parts(&[bytes, rest]),
    }
}

/// The sums of a region of at most [`REGION_BYTES`] bytes.
pub fn sums(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(BLOCK_BYTES).map(block_sum).collect()
}

/// The record of a region with these sums, 1 to [`REGION_BLOCKS`].
pub fn encode(sums: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[4] = VERSION;
    sums.iter().for_each(|sum| bytes.extend_from_slice(&sum.to_le_bytes()));
    seal(&mut bytes);
    bytes
}

/// The sums in a record.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Vec<u32>, Damaged> {
    unseal(SUMS, bytes)?;
    let short = Damaged::Short { record: SUMS, found: bytes.len() };
    let (head, sums) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(short)?;
    check_head(SUMS, head)?;
    let (sums, []) = sums.as_chunks::<4>() else { return Err(short) };
    match sums.len() {
        1..=REGION_BLOCKS => Ok(sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect()),
        found => Err(Damaged::Field { record: SUMS, field: "number of sums", found: found as u64 }),
    }
}

/// True if the key is a record of an object that is being changed.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_changing(bytes: &[u8]) -> Result<(), Damaged> {
    unseal(CHANGING, bytes)?;
    let head =
        bytes.try_into().map_err(|_| Damaged::Short { record: CHANGING, found: bytes.len() })?;
    check_head(CHANGING, head)
}

fn check_head(record: &'static str, head: &[u8; HEAD_BYTES]) -> Result<(), Damaged> {
    known(record, head[4], VERSION)?;
    match head[5] | head[6] | head[7] {
        0 => Ok(()),
        found => Err(Damaged::Field { record, field: "zero", found: found.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectId =
        ObjectId { fid: Fid { seq: 0x2_0000_0401, oid: 7, ver: 0 }, instance: 3, stripe: 9 };

    #[test]
    fn bytes_never_change_and_every_flipped_bit_and_cut_is_noticed() {
        let sums = [0x0102_0304, 0, u32::MAX];
        let bytes = encode(&sums);
        crate::golden::check("sums", &bytes);
        crate::golden::check("sums_key", &sums_key(OBJECT, 0x0a0b));
        crate::golden::check("changing", &encode_changing());
        assert_eq!(decode(&bytes), Ok(sums.to_vec()));
        assert_eq!(decode_changing(&encode_changing()), Ok(()));
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode(&bad).is_err(), "bit {at}");
        }
        assert!((0..bytes.len()).all(|len| decode(&bytes[..len]).is_err()));
        assert!((0..HEAD_BYTES).all(|len| decode_changing(&encode_changing()[..len]).is_err()));
        assert!(decode(&encode(&[])).is_err() && decode(&encode(&[1; REGION_BLOCKS + 1])).is_err());
        assert_eq!(decode(&encode(&[1; REGION_BLOCKS])).map(|sums| sums.len()), Ok(REGION_BLOCKS));
    }

    #[test]
    fn keys_lie_within_their_ranges() {
        let key = sums_key(OBJECT, 5);
        assert_eq!(sums_of(&key), Some((OBJECT, 5)));
        assert_eq!(sums_of(&key[..key.len() - 1]), None);
        let (start, end) = sums_range(OBJECT, 5);
        assert!(start <= key && sums_key(OBJECT, u64::MAX) < end && sums_key(OBJECT, 4) < start);
        assert!(sums_key(ObjectId { stripe: 10, ..OBJECT }, 0) > end);
        assert!(key.as_slice() > SUMS_PREFIX && key.as_slice() < SUMS_END);
        let key = changing_key(OBJECT);
        assert_eq!(changing_of(&key), Some(OBJECT));
        assert!(key.as_slice() > CHANGING_PREFIX && key.as_slice() < CHANGING_END);
    }

    #[test]
    fn bytes_beyond_the_end_count_as_zeros() {
        let mut block = vec![7; 100];
        let short = block_sum(&block);
        block.resize(BLOCK_BYTES, 0);
        assert_eq!(block_sum(&block), short);
        assert_eq!(block_sum(&block), crc32c(&block));
        block.extend([1, 2]);
        assert_eq!(sums(&block), [short, block_sum(&[1, 2])]);
    }
}
