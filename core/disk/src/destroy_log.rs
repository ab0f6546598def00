//! Destroy log: the objects of a removed file, until their OSTs have reported that they are gone,
//! too.
//!
//! Written in the same transaction that removes the inode; removed when all OSTs have answered. A
//! crash in between destroys again, which is no error.

use crate::damaged::{Damaged, known, seal, unseal};
use types::fid::Fid;
use types::object::ObjectId;
use types::target::TargetIndex;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the record. 1: first version.
pub const VERSION: u8 = 1;
const RECORD: &str = "destroy log";

/// 24 bytes, then 12 for each object.
///
/// | at | size | field    | meaning                                  |
/// |----|------|----------|------------------------------------------|
/// |  0 |    4 | crc      | crc32c of the rest, objects included     |
/// |  4 |    1 | version  | 1                                        |
/// |  5 |    3 | zero     | must be 0                                |
/// |  8 |   16 | fid      | the file, big endian                     |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    crc: U32,
    version: u8,
    zero: [u8; 3],
    fid: [u8; 16],
}

/// | at | size | field    | meaning                                  |
/// |----|------|----------|------------------------------------------|
/// |  0 |    2 | ost      | index of the OST that has it             |
/// |  2 |    2 | zero     | must be 0                                |
/// |  4 |    4 | instance | layout component instance                |
/// |  8 |    4 | stripe   | stripe within it                         |
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Object {
    ost: U16,
    zero: U16,
    instance: U32,
    stripe: U32,
}

const _: () = assert!(size_of::<Fixed>() == 24 && size_of::<Object>() == 12);

/// Writes a record into `out`, which is emptied first. All objects belong to `fid`.
pub fn encode(fid: Fid, objects: impl Iterator<Item = (TargetIndex, ObjectId)>, out: &mut Vec<u8>) {
    let fixed = Fixed { crc: U32::ZERO, version: VERSION, zero: [0; 3], fid: fid.to_be_bytes() };
    out.clear();
    out.extend_from_slice(fixed.as_bytes());
    for (ost, object) in objects {
        let object = Object {
            ost: ost.0.into(),
            zero: U16::ZERO,
            instance: object.instance.into(),
            stripe: object.stripe.into(),
        };
        out.extend_from_slice(object.as_bytes());
    }
    seal(out);
}

/// The objects, and their OSTs.
///
/// # Errors
/// Everything that [`Damaged`] names.
pub fn decode(bytes: &[u8]) -> Result<Vec<(TargetIndex, ObjectId)>, Damaged> {
    unseal(RECORD, bytes)?;
    let short = Damaged::Short { record: RECORD, found: bytes.len() };
    let (f, rest) = Fixed::ref_from_prefix(bytes).map_err(|_| short)?;
    known(RECORD, f.version, VERSION)?;
    let fid = Fid::from_be_bytes(f.fid);
    let objects = <[Object]>::ref_from_bytes(rest).map_err(|_| short)?;
    let object = |o: &Object| {
        (
            TargetIndex(o.ost.get()),
            ObjectId { fid, instance: o.instance.get(), stripe: o.stripe.get() },
        )
    };
    Ok(objects.iter().map(object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change_and_round_trip() {
        let objects: Vec<_> = (0..2)
            .map(|n| {
                (TargetIndex(n + 5), ObjectId { fid: Fid::ROOT, instance: 1, stripe: n.into() })
            })
            .collect();
        let mut bytes = Vec::new();
        encode(Fid::ROOT, objects.iter().copied(), &mut bytes);
        crate::golden::check("destroy_log", &bytes);
        assert_eq!(decode(&bytes), Ok(objects));
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
