//! An OST's data on a volume (`docs/volume.md`): the head of the device, and the records that say
//! where the bytes of an object are.
//!
//! Head, at byte 0 of the device and in its last 4 KiB:
//!
//! | at | size  | field   | meaning                                             |
//! |----|-------|---------|-----------------------------------------------------|
//! |  0 |     4 | crc     | crc32c of the rest                                  |
//! |  4 |     4 | version | 1                                                   |
//! |  8 |     8 | magic   | `SHEENVOL`                                          |
//! | 16 |    16 | volume  | UUID of this volume                                 |
//! | 32 |    16 | store   | UUID of the store of the OST that it belongs to     |
//! | 48 |     4 | units   | units of 64 KiB, the first 1 MiB and the last one included |
//! | 52 |  4044 | zero    | must be 0                                           |
//!
//! Key `ost/object/`, then the object (FID 16, instance 4, stripe 4, big-endian):
//!
//! | at | size | field   | meaning                       |
//! |----|------|---------|-------------------------------|
//! |  0 |    4 | crc     | crc32c of the rest            |
//! |  4 |    1 | version | 1                             |
//! |  5 |    3 | zero    | must be 0                     |
//! |  8 |    8 | size    | of the object, bytes          |
//! | 16 |    8 | units   | units that the object has     |
//!
//! Key `ost/units/`, then the object and the number of a region of 1 MiB (8, big-endian):
//!
//! | at | size | field   | meaning                       |
//! |----|------|---------|-------------------------------|
//! |  0 |    4 | crc     | crc32c of the rest            |
//! |  4 |    1 | version | 1                             |
//! |  5 |    1 | units   | number of units, 1 to 16      |
//! |  6 |    2 | zero    | must be 0                     |
//! |  8 |      |         | the units, ascending by place in the region |
//!
//! A unit: index in the region (1), zero (1), used (2), data (2), zero (2), place on the device in
//! units (4), then a crc32c (4) for each bit of data. Bit n is the n-th block of 4 KiB. A block
//! that is used was written since the unit has this place, and is never written again there; one
//! that has data is what the object holds, and any other block reads as zeros.

use crate::checksum::crc32c;
use crate::damaged::{Damaged, known, seal, unseal};
use crate::sums::{split_object, with_object};
use types::object::ObjectId;

/// Bytes of a unit of space.
pub const UNIT_BYTES: u64 = 64 << 10;
/// Bytes of a block, which has a checksum of its own.
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks of a unit.
pub const UNIT_BLOCKS: usize = (UNIT_BYTES / BLOCK_BYTES) as usize;
/// Units of a region.
pub const REGION_UNITS: usize = 16;
/// Bytes of a region.
pub const REGION_BYTES: u64 = REGION_UNITS as u64 * UNIT_BYTES;
/// The first unit that objects may have: before it is the head.
pub const FIRST_UNIT: u32 = 16;
/// Fewest units of a volume: 64 MiB.
pub const UNITS_MIN: u64 = 1 << 10;
/// Most units of a volume: 64 TiB. The map of free space has a bit for each in memory: 128 MiB.
pub const UNITS_MAX: u64 = 1 << 30;
/// Every key of an object begins with it.
pub const OBJECT_PREFIX: &[u8] = b"ost/object/";
/// Behind every key of an object.
pub const OBJECT_END: &[u8] = b"ost/object0";
/// Every key of units begins with it.
pub const UNITS_PREFIX: &[u8] = b"ost/units/";
/// Behind every key of units.
pub const UNITS_END: &[u8] = b"ost/units0";
/// Version of head and records. 1: first version.
pub const VERSION: u8 = 1;
const MAGIC: &[u8; 8] = b"SHEENVOL";
const HEAD: &str = "head of a volume";
const OBJECT: &str = "object on a volume";
const UNITS: &str = "units of an object";
const HEAD_BYTES: usize = 8;
const UNIT_HEAD_BYTES: usize = 12;

/// Head of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeHead {
    /// UUID of the volume.
    pub volume: u128,
    /// UUID of the store of its OST.
    pub store: u128,
    /// Units.
    pub units: u32,
}

/// What the device's first bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadFound {
    /// No head of a volume at all.
    Foreign,
    /// A volume.
    Volume(VolumeHead),
    /// A head that is not what was written.
    Damaged(Damaged),
}

impl VolumeHead {
    /// Encoded size, bytes.
    pub const SIZE: usize = BLOCK_BYTES as usize;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[4..8].copy_from_slice(&u32::from(VERSION).to_le_bytes());
        bytes[8..16].copy_from_slice(MAGIC);
        bytes[16..32].copy_from_slice(&self.volume.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.store.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.units.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Looks at the first [`VolumeHead::SIZE`] bytes of a device.
    pub fn decode(bytes: &[u8]) -> HeadFound {
        match VolumeHead::read(bytes) {
            Err(damaged) => HeadFound::Damaged(damaged),
            Ok(None) => HeadFound::Foreign,
            Ok(Some(head)) => HeadFound::Volume(head),
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<VolumeHead>, Damaged> {
        if bytes.get(8..16) != Some(MAGIC) {
            return Ok(None);
        }
        let short = Damaged::Short { record: HEAD, found: bytes.len() };
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| short)?;
        unseal(HEAD, bytes)?;
        let version = u32_at(bytes, 4);
        known(HEAD, u8::try_from(version).unwrap_or(u8::MAX), VERSION)?;
        if let Some(found) = bytes[52..].iter().find(|byte| **byte != 0) {
            return Err(Damaged::Field { record: HEAD, field: "zero", found: (*found).into() });
        }
        let units = u32_at(bytes, 48);
        if !(UNITS_MIN..=UNITS_MAX).contains(&units.into()) {
            return Err(Damaged::Field { record: HEAD, field: "units", found: units.into() });
        }
        Ok(Some(VolumeHead { volume: u128_at(bytes, 16), store: u128_at(bytes, 32), units }))
    }
}

/// An object on a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectRecord {
    /// Size, bytes.
    pub size: u64,
    /// Units that it has.
    pub units: u64,
}

impl ObjectRecord {
    /// Encoded size, bytes.
    pub const SIZE: usize = 24;

    /// Encodes to bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[4] = VERSION;
        bytes[8..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.units.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// Everything that [`Damaged`] names.
    pub fn decode(bytes: &[u8]) -> Result<ObjectRecord, Damaged> {
        unseal(OBJECT, bytes)?;
        let short = Damaged::Short { record: OBJECT, found: bytes.len() };
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| short)?;
        known(OBJECT, bytes[4], VERSION)?;
        is_zero(OBJECT, &bytes[5..8])?;
        Ok(ObjectRecord { size: u64_at(bytes, 8), units: u64_at(bytes, 16) })
    }
}

/// A unit of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unit {
    /// Its place on the device, in units.
    pub place: u32,
    /// Blocks that were written at this place.
    pub used: u16,
    /// Blocks of them that the object has.
    pub data: u16,
    /// Checksum of each block that has data.
    pub sums: [u32; UNIT_BLOCKS],
}

/// The units of a region, by their index in it.
pub type RegionUnits = [Option<Unit>; REGION_UNITS];

/// The record of a region with at least one unit.
pub fn encode_units(region: &RegionUnits) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[4] = VERSION;
    for (index, unit) in region.iter().enumerate() {
        let Some(unit) = unit else { continue };
        bytes[5] += 1;
        bytes.extend_from_slice(&[index as u8, 0]);
        bytes.extend_from_slice(&unit.used.to_le_bytes());
        bytes.extend_from_slice(&unit.data.to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&unit.place.to_le_bytes());
        let has = |block: &usize| unit.data & 1 << block != 0;
        let sums = (0..UNIT_BLOCKS).filter(has).map(|block| unit.sums[block]);
        sums.for_each(|sum| bytes.extend_from_slice(&sum.to_le_bytes()));
    }
    seal(&mut bytes);
    bytes
}

/// The units in a record.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode_units(bytes: &[u8]) -> Result<RegionUnits, Damaged> {
    unseal(UNITS, bytes)?;
    let short = Damaged::Short { record: UNITS, found: bytes.len() };
    let (head, mut rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(short)?;
    known(UNITS, head[4], VERSION)?;
    is_zero(UNITS, &head[6..])?;
    let mut region = RegionUnits::default();
    let (mut next, mut count) = (0, 0);
    while !rest.is_empty() {
        let (unit, behind) = rest.split_first_chunk::<UNIT_HEAD_BYTES>().ok_or(short)?;
        is_zero(UNITS, &[unit[1], unit[6], unit[7]])?;
        let index = usize::from(unit[0]);
        let field = |field, found| Damaged::Field { record: UNITS, field, found };
        if index < next || index >= REGION_UNITS {
            return Err(field("index", index as u64));
        }
        let (used, data) = (u16_at(unit, 2), u16_at(unit, 4));
        if data & !used != 0 {
            return Err(field("data", data.into()));
        }
        let place = u32_at(unit, 8);
        if place < FIRST_UNIT || u64::from(place) >= UNITS_MAX {
            return Err(field("place", place.into()));
        }
        let mut sums = [0; UNIT_BLOCKS];
        rest = behind;
        for block in (0..UNIT_BLOCKS).filter(|block| data & 1 << block != 0) {
            let (sum, behind) = rest.split_first_chunk().ok_or(short)?;
            sums[block] = u32::from_le_bytes(*sum);
            rest = behind;
        }
        region[index] = Some(Unit { place, used, data, sums });
        (next, count) = (index + 1, count + 1);
    }
    if count == 0 || count != head[5] {
        let found = u64::from(head[5]);
        return Err(Damaged::Field { record: UNITS, field: "number of units", found });
    }
    Ok(region)
}

fn is_zero(record: &'static str, bytes: &[u8]) -> Result<(), Damaged> {
    match bytes.iter().find(|byte| **byte != 0) {
        None => Ok(()),
        Some(found) => Err(Damaged::Field { record, field: "zero", found: (*found).into() }),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    bytes[at..].first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

/// The checksum of a block.
pub fn block_sum(block: &[u8]) -> u32 {
    crc32c(block)
}

/// Key of an object.
pub fn object_key(object: ObjectId) -> Vec<u8> {
    with_object(OBJECT_PREFIX, object)
}

/// The object of such a key.
pub fn object_of(key: &[u8]) -> Option<ObjectId> {
    let (object, rest) = split_object(key.strip_prefix(OBJECT_PREFIX)?)?;
    rest.is_empty().then_some(object)
}

/// Key of the units of a region.
pub fn units_key(object: ObjectId, region: u64) -> Vec<u8> {
    let mut key = with_object(UNITS_PREFIX, object);
    key.extend_from_slice(&region.to_be_bytes());
    key
}

/// Object and region of such a key.
pub fn units_of(key: &[u8]) -> Option<(ObjectId, u64)> {
    let (object, region) = split_object(key.strip_prefix(UNITS_PREFIX)?)?;
    Some((object, u64::from_be_bytes(region.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::fid::Fid;

    const ID: ObjectId =
        ObjectId { fid: Fid { seq: 0x2_0000_0401, oid: 7, ver: 0 }, instance: 3, stripe: 9 };

    fn region() -> RegionUnits {
        let mut sums = [0; UNIT_BLOCKS];
        (sums[0], sums[15]) = (0x0102_0304, u32::MAX);
        let mut region = RegionUnits::default();
        region[0] = Some(Unit { place: 0x0a0b0c, used: 0x8003, data: 0x8001, sums });
        region[15] = Some(Unit { place: FIRST_UNIT, used: 0, data: 0, sums: [0; UNIT_BLOCKS] });
        region
    }

    #[test]
    fn bytes_never_change_and_every_flipped_bit_and_cut_is_noticed() {
        let bytes = encode_units(&region());
        crate::golden::check("volume_units", &bytes);
        crate::golden::check("volume_units_key", &units_key(ID, 0x0a0b));
        let object = ObjectRecord { size: 0x0102_0304_0506, units: 9 };
        crate::golden::check("volume_object", &object.encode());
        let head = VolumeHead { volume: 0x1112, store: 0x2122, units: 4096 };
        crate::golden::check("volume_head", &head.encode()[..64]);
        assert_eq!(decode_units(&bytes), Ok(region()));
        assert_eq!(ObjectRecord::decode(&object.encode()), Ok(object));
        assert_eq!(VolumeHead::decode(&head.encode()), HeadFound::Volume(head));
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(decode_units(&bad).is_err(), "bit {at}");
        }
        crate::golden::refuses_other_lengths(&bytes, |bytes| decode_units(bytes).is_err());
        crate::golden::refuses_other_lengths(&object.encode(), |bytes| {
            ObjectRecord::decode(bytes).is_err()
        });
        for at in 0..VolumeHead::SIZE {
            let mut bad = head.encode();
            bad[at] ^= 1;
            assert_ne!(VolumeHead::decode(&bad), HeadFound::Volume(head), "byte {at}");
        }
        assert_eq!(VolumeHead::decode(&[0; VolumeHead::SIZE]), HeadFound::Foreign);
        assert!(
            (0..64).all(|len| !matches!(
                VolumeHead::decode(&head.encode()[..len]),
                HeadFound::Volume(_)
            ))
        );
    }

    #[test]
    fn keys_lie_within_their_ranges() {
        let (key, object) = (units_key(ID, 5), object_key(ID));
        assert_eq!((units_of(&key), object_of(&object)), (Some((ID, 5)), Some(ID)));
        assert_eq!((units_of(&key[..key.len() - 1]), object_of(&object[1..])), (None, None));
        assert!(key.as_slice() > UNITS_PREFIX && key.as_slice() < UNITS_END);
        assert!(object.as_slice() > OBJECT_PREFIX && object.as_slice() < OBJECT_END);
        assert!(units_key(ID, 6) > key && units_key(ObjectId { stripe: 10, ..ID }, 0) > key);
    }

    fn any_unit() -> impl Strategy<Value = Option<Unit>> {
        let unit = (FIRST_UNIT..UNITS_MAX as u32, any::<[u16; 2]>(), any::<[u32; UNIT_BLOCKS]>());
        proptest::option::of(unit.prop_map(|(place, [used, data], mut sums)| {
            let data = data & used;
            let without = |block: &usize| data & 1 << block == 0;
            (0..UNIT_BLOCKS).filter(without).for_each(|block| sums[block] = 0);
            Unit { place, used, data, sums }
        }))
    }

    proptest! {
        #[test]
        fn every_region_round_trips(units in proptest::collection::vec(any_unit(), REGION_UNITS)) {
            let region: RegionUnits = units.try_into().unwrap();
            let decoded = decode_units(&encode_units(&region));
            if region.iter().all(Option::is_none) {
                prop_assert!(decoded.is_err());
            } else {
                prop_assert_eq!(decoded, Ok(region));
            }
        }

        #[test]
        fn foreign_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 8..400)) {
            seal(&mut bytes);
            // Whatever it says: no panic.
            let _ = (decode_units(&bytes), ObjectRecord::decode(&bytes), VolumeHead::decode(&bytes));
        }
    }
}
