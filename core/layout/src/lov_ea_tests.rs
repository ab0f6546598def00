use super::*;
use crate::samples::{any_layout, pfl, plain};
use proptest::prelude::*;

const FID: Fid = Fid { seq: 0x2_0000_0401, oid: 3, ver: 0 };

#[test]
fn a_plain_file_has_the_well_known_bytes() {
    let bytes = encode(&plain(&[1, 4]), FID);
    assert_eq!(bytes.len(), 32 + 2 * 24);
    assert_eq!(bytes[..8], [0xd0, 0x0b, 0xd1, 0x0b, 1, 0, 0, 0]);
    assert_eq!(bytes[8..24], [3, 0, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[24..32], [0, 0, 1, 0, 2, 0, 1, 0]);
    assert_eq!(
        bytes[32..56],
        [1, 4, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    );
    assert_eq!(bytes[68..72], [1, 8, 0, 0]);
}

#[test]
fn a_composite_file_has_header_entries_and_blobs() {
    let bytes = encode(&pfl(), FID);
    assert_eq!(get32(&bytes, 0), Ok(LOV_MAGIC_COMP_V1));
    assert_eq!(get32(&bytes, 4), Ok(bytes.len() as u32));
    assert_eq!((get16(&bytes, 14), get16(&bytes, 16)), (Ok(4), Ok(0)));
    // DoM: instantiated, no stripes. The last one: neither objects nor flag.
    assert_eq!((get32(&bytes, 32 + 4), get32(&bytes, 32 + 3 * 48 + 4)), (Ok(LCME_FL_INIT), Ok(0)));
    let third = get32(&bytes, 32 + 2 * 48 + 24).unwrap() as usize;
    assert_eq!(get32(&bytes, third), Ok(LOV_MAGIC_V3));
    assert_eq!(&bytes[third + 32..third + 38], b"flash\0");
}

#[test]
fn what_setstripe_sends_is_understood() {
    // lfs setstripe -c 2 -S 1M -i 3 -p ssd
    let mut bytes = encode(&plain(&[]), Fid::NONE);
    bytes[..4].copy_from_slice(&LOV_MAGIC_V3.to_le_bytes());
    bytes[24..28].copy_from_slice(&(1u32 << 20).to_le_bytes());
    bytes[28..32].copy_from_slice(&[2, 0, 3, 0]);
    bytes.extend_from_slice(b"ssd\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let ea = decode(&bytes).unwrap();
    let c = &ea.layout.components[0];
    assert_eq!(c.wanted, [TargetIndex(3)]);
    assert_eq!((c.stripe_size, c.stripe_count, c.stripes.len()), (1 << 20, 2, 0));
    assert_eq!(c.pool, Some(PoolName("ssd".into())));
    // lfs setstripe -o 5,1
    bytes[..4].copy_from_slice(&LOV_MAGIC_SPECIFIC.to_le_bytes());
    for ost in [5u8, 1] {
        let mut object = [0; 24];
        object[20] = ost;
        bytes.extend_from_slice(&object);
    }
    let c = decode(&bytes).unwrap().layout.components.remove(0);
    assert_eq!((c.wanted, c.stripes), (vec![TargetIndex(5), TargetIndex(1)], Vec::new()));
}

#[test]
fn a_layout_never_takes_more_bytes_than_was_said() {
    let mut layout = pfl();
    let said = bytes_at_most(&layout, 40);
    assert!(encode(&layout, FID).len() <= said);
    let last = layout.components.last_mut().unwrap();
    last.stripes = vec![TargetIndex(1); 8];
    assert_eq!(encode(&layout, FID).len(), said);
    let mut wide = plain(&[]);
    wide.components[0].stripe_count = ALL_OSTS;
    assert_eq!((bytes_at_most(&wide, 10), bytes_at_most(&wide, 0)), (32 + 240, 32));
    (wide.components[0].stripe_count, wide.components[0].overstriped) = (2000, true);
    assert_eq!(bytes_at_most(&wide, 4), 32 + 48_000);
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let good = encode(&pfl(), FID);
    let with = |at: usize, new: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        decode(&bytes)
    };
    assert_eq!(with(0, &0x0BD7_0BD0u32.to_le_bytes()), Err(LovEaError::Magic(0x0BD7_0BD0)));
    assert_eq!(with(16, &[1, 0]), Err(LovEaError::Mirrors(2)));
    assert!(matches!(with(14, &[65, 0]), Err(LovEaError::Field { .. })));
    assert!(matches!(with(4, &[255]), Err(LovEaError::Short(_) | LovEaError::Long(_))));
    assert!(matches!(with(32 + 24, &u32::MAX.to_le_bytes()), Err(LovEaError::Short(_))));
    let mut released = encode(&plain(&[1]), FID);
    released[7] = 0x80;
    assert_eq!(decode(&released), Err(LovEaError::Pattern(0x8000_0001)));
    let mut wide = encode(&plain(&[1]), FID);
    wide[32 + 22] = 1;
    assert!(matches!(decode(&wide), Err(LovEaError::Field { field: "l_ost_idx", .. })));
    assert_eq!(decode(&wide[..40]), Err(LovEaError::Short(40)));
    assert_eq!(decode(&[]).unwrap().layout, Layout::default());
}

proptest! {
    #[test]
    fn round_trips(mut layout in any_layout()) {
        // The form has no place for numbers and high generations of plain files, or for any
        // generation of bare ones.
        if layout.is_plain() {
            layout.components[0].id = 1;
            layout.generation &= if layout.components[0].stripes.is_empty() { 0 } else { 0xffff };
        }
        if layout.components.is_empty() {
            layout.generation = 0;
        }
        (layout.owner, layout.spent) = (Fid::NONE, 0);
        prop_assert_eq!(decode(&encode(&layout, FID)), Ok(LovEa { layout }));
    }

    #[test]
    fn of_a_file_nothing_is_lost(mut layout in any_layout()) {
        // The form does not hold components that were removed.
        layout.spent = 0;
        if layout.is_plain() {
            layout.generation &= if layout.components[0].stripes.is_empty() { 0 } else { 0xffff };
            if layout.components[0].stripes.is_empty() {
                layout.components[0].id = 1;
            }
        }
        if layout.components.iter().all(|c| c.stripes.is_empty()) {
            layout.owner = Fid::NONE;
        }
        if !layout.components.is_empty() {
            prop_assert_eq!(decode_of_file(&encode(&layout, FID)), Ok((LovEa { layout }, FID)));
        }
    }

    #[test]
    fn garbage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in 0usize..4) {
        let magic = [LOV_MAGIC_V1, LOV_MAGIC_V3, LOV_MAGIC_SPECIFIC, LOV_MAGIC_COMP_V1][magic];
        let n = bytes.len().min(4);
        bytes[..n].copy_from_slice(&magic.to_le_bytes()[..n]);
        let _ = decode_of_file(&bytes);
    }

    #[test]
    fn one_changed_byte_never_panics(layout in any_layout(), at: usize, value: u8) {
        let mut bytes = encode(&layout, FID);
        if !bytes.is_empty() {
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = decode_of_file(&bytes);
        }
    }

    #[test]
    fn object_fids_differ(a in (1u32..5000, 0u32..2000), b in (1u32..5000, 0u32..2000)) {
        prop_assert_eq!(object_fid(FID, a.0, a.1) == object_fid(FID, b.0, b.1), a == b);
    }
}
