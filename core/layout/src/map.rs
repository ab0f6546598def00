//! File range to object ranges, and back: the only way between the two.
//!
//! RAID0 as in Lustre: with `stripe = (off / size) % count`, byte `off` of the file is byte
//! `off / (size * count) * size + off % size` of that stripe's object. Offsets count from byte 0 of
//! the *file*, in every component, so an object of a later component begins with a hole that is
//! never written. Everything here iterates: a range of 16 TiB costs no more memory than one of 1
//! byte. Layouts must have passed [`crate::check::verify`].

use crate::layout::{Component, Layout, Pattern};
use types::fid::Fid;
use types::object::{FileOffset, ObjectId, ObjectOffset};
use types::target::TargetIndex;

/// Where a run of bytes lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In an object.
    Object {
        /// Index of the component in the layout.
        component: usize,
        /// Stripe within the component.
        stripe: u32,
        /// OST that has the object.
        ost: TargetIndex,
        /// The object.
        object: ObjectId,
        /// First byte within it.
        offset: ObjectOffset,
    },
    /// On the MDT, at the same offset as in the file.
    Mdt {
        /// Index of the component in the layout.
        component: usize,
    },
    /// Nowhere yet: reads as zeros. A write must first ask the MDT to instantiate.
    Absent {
        /// Index of the component that is not instantiated; `None` where no component reaches.
        component: Option<usize>,
    },
}

/// A run of bytes that are adjacent in the file and in their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte in the file.
    pub file: FileOffset,
    /// Bytes; at least 1.
    pub len: u64,
    /// Place of the bytes.
    pub place: Place,
}

/// The pieces of `[start, end)` in file order, without gap or overlap.
pub fn pieces(layout: &Layout, fid: Fid, start: FileOffset, end: FileOffset) -> Pieces<'_> {
    let component = layout.components.partition_point(|c| c.end <= start.0);
    Pieces { layout, fid: layout.names(fid), at: start.0, end: end.0, component }
}

/// See [`pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    layout: &'a Layout,
    fid: Fid,
    at: u64,
    end: u64,
    component: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let at = self.at;
        if at >= self.end {
            return None;
        }
        let index = self.component;
        let (limit, place) = match self.layout.components.get(index) {
            None => (self.end, Place::Absent { component: None }),
            Some(c) if at < c.start => (self.end.min(c.start), Place::Absent { component: None }),
            Some(c) => {
                let limit = self.end.min(c.end);
                match (c.pattern, c.stripes.len()) {
                    (Pattern::Mdt, _) => (limit, Place::Mdt { component: index }),
                    (Pattern::Extension, _) | (Pattern::Raid0, 0) => {
                        (limit, Place::Absent { component: Some(index) })
                    }
                    (Pattern::Raid0, count) => {
                        let (stripe, offset) = raid0_object(c, at);
                        let stripe_end = match count {
                            1 => limit,
                            _ => (at - at % u64::from(c.stripe_size))
                                .saturating_add(u64::from(c.stripe_size)),
                        };
                        let ost = c.stripes[stripe as usize];
                        let object = c.object(self.fid, stripe);
                        (
                            limit.min(stripe_end),
                            Place::Object { component: index, stripe, ost, object, offset },
                        )
                    }
                }
            }
        };
        self.at = limit;
        while self.layout.components.get(self.component).is_some_and(|c| limit >= c.end) {
            self.component += 1;
        }
        Some(Piece { file: FileOffset(at), len: limit - at, place })
    }
}

/// All bytes of one object that belong to a file range. They are adjacent in the object, not in the
/// file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectRange {
    /// Index of the component in the layout.
    pub component: usize,
    /// OST that has the object.
    pub ost: TargetIndex,
    /// The object.
    pub object: ObjectId,
    /// First byte.
    pub start: ObjectOffset,
    /// End, exclusive.
    pub end: ObjectOffset,
}

/// For every object that has bytes of `[start, end)`: those bytes. One item per object, however
/// long the range is.
pub fn object_ranges(
    layout: &Layout,
    fid: Fid,
    start: FileOffset,
    end: FileOffset,
) -> impl Iterator<Item = ObjectRange> + '_ {
    let (start, end, fid) = (start.0, end.0, layout.names(fid));
    let first = layout.components.partition_point(|c| c.end <= start);
    let covering =
        layout.components.iter().enumerate().skip(first).take_while(move |(_, c)| c.start < end);
    covering.flat_map(move |(component, c)| {
        let (from, to) = (start.max(c.start), end.min(c.end));
        (0u32..).zip(&c.stripes).filter_map(move |(stripe, ost)| {
            let (start, end) =
                (object_bytes_below(c, stripe, from), object_bytes_below(c, stripe, to));
            (start < end).then(|| ObjectRange {
                component,
                ost: *ost,
                object: c.object(fid, stripe),
                start: ObjectOffset(start),
                end: ObjectOffset(end),
            })
        })
    })
}

/// Place in the file of a byte of the object of stripe `stripe`.
///
/// `None` if the component is not instantiated, has no such stripe, or does not cover the place.
pub fn file_offset(component: &Component, stripe: u32, offset: ObjectOffset) -> Option<FileOffset> {
    let (size, count) = (u64::from(component.stripe_size), component.stripes.len() as u64);
    if component.pattern != Pattern::Raid0 || u64::from(stripe) >= count {
        return None;
    }
    let row = (offset.0 / size).checked_mul(size * count)?;
    let at = row.checked_add(u64::from(stripe) * size)?.checked_add(offset.0 % size)?;
    component.covers(at).then_some(FileOffset(at))
}

/// Stripe and object offset of byte `at` in an instantiated RAID0 component.
fn raid0_object(c: &Component, at: u64) -> (u32, ObjectOffset) {
    let (size, count) = (u64::from(c.stripe_size), c.stripes.len() as u64);
    let stripe = (at / size) % count;
    (stripe as u32, ObjectOffset(at / (size * count) * size + at % size))
}

/// Number of bytes of the object of `stripe` that lie before byte `at` of the file.
pub(crate) fn object_bytes_below(c: &Component, stripe: u32, at: u64) -> u64 {
    let (size, count) = (u64::from(c.stripe_size), c.stripes.len() as u64);
    let row = size * count;
    at / row * size + (at % row).saturating_sub(u64::from(stripe) * size).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::EOF;
    use crate::samples::{any_layout, pfl, plain, raid0};
    use proptest::prelude::*;
    use std::collections::HashMap;

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 5, ver: 0 };

    fn all(layout: &Layout, start: u64, end: u64) -> Vec<Piece> {
        pieces(layout, FID, FileOffset(start), FileOffset(end)).collect()
    }

    #[test]
    fn two_stripes_take_turns() {
        let l = plain(&[7, 9]);
        let short: Vec<_> = all(&l, 65535, 196_609)
            .into_iter()
            .map(|p| match p.place {
                Place::Object { ost, offset, .. } => (p.file.0, p.len, ost.0, offset.0),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            short,
            [
                (65535, 1, 7, 65535),
                (65536, 65536, 9, 0),
                (131_072, 65536, 7, 65536),
                (196_608, 1, 9, 65536)
            ]
        );
    }

    #[test]
    fn one_stripe_is_one_piece_however_long() {
        let pieces = all(&plain(&[3]), 5, EOF);
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].len, EOF - 5);
    }

    #[test]
    fn later_components_count_from_the_start_of_the_file() {
        // Byte 1 MiB in a component of 3 stripes of 128 KiB: stripe 8 % 3 = 2, row 8 / 3 = 2.
        let l = pfl();
        let piece = all(&l, 1 << 20, (1 << 20) + 1)[0];
        let Place::Object { component, stripe, ost, offset, .. } = piece.place else {
            panic!("{piece:?}")
        };
        assert_eq!((component, stripe, ost.0, offset.0), (2, 2, 1, 2 * (128 << 10)));
    }

    #[test]
    fn the_rest_is_reported_as_absent() {
        let tail = all(&pfl(), 8 << 20, 9 << 20);
        assert_eq!(tail.len(), 1);
        assert_eq!(tail[0].place, Place::Absent { component: Some(3) });
        let short = Layout { components: vec![raid0(1, 0, 100, 65536, &[0])], ..Layout::default() };
        assert_eq!(all(&short, 50, 200)[1].place, Place::Absent { component: None });
        assert_eq!(all(&Layout::default(), 3, 9)[0].place, Place::Absent { component: None });
        assert_eq!(all(&pfl(), 9, 9), []);
    }

    #[test]
    fn sixteen_tebibytes_are_walked_lazily() {
        let l = plain(&[0, 1, 2, 3]);
        let end = FileOffset(16 << 40);
        assert_eq!(pieces(&l, FID, FileOffset(0), end).take(3).count(), 3);
        let ranges: Vec<_> = object_ranges(&l, FID, FileOffset(0), end).collect();
        assert_eq!(ranges.len(), 4);
        assert!(ranges.iter().all(|r| (r.start.0, r.end.0) == (0, 4 << 40)));
    }

    #[test]
    fn the_last_byte_of_the_address_space_maps() {
        for l in [plain(&[1]), plain(&[1, 2, 3])] {
            let piece = all(&l, EOF - 1, EOF)[0];
            let Place::Object { stripe, offset, .. } = piece.place else { panic!("{piece:?}") };
            assert_eq!(file_offset(&l.components[0], stripe, offset), Some(FileOffset(EOF - 1)));
        }
        assert_eq!(file_offset(&plain(&[1, 2]).components[0], 0, ObjectOffset(EOF)), None);
        assert_eq!(file_offset(&plain(&[1, 2]).components[0], 2, ObjectOffset(0)), None);
    }

    /// A file kept in objects, by way of the map alone.
    fn write(objects: &mut HashMap<ObjectId, Vec<u8>>, layout: &Layout, start: u64, data: &[u8]) {
        for p in all(layout, start, start + data.len() as u64) {
            if let Place::Object { object, offset, .. } = p.place {
                let (from, to, len) =
                    ((p.file.0 - start) as usize, offset.0 as usize, p.len as usize);
                let bytes = objects.entry(object).or_default();
                bytes.resize(bytes.len().max(to + len), 0);
                bytes[to..to + len].copy_from_slice(&data[from..from + len]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn every_byte_has_one_place_and_the_way_back(
            layout in any_layout(), start in 0u64..12_000_000, len in 0u64..6_000_000,
        ) {
            let (mut at, end) = (start, start + len);
            for p in pieces(&layout, FID, FileOffset(start), FileOffset(end)) {
                prop_assert_eq!(p.file.0, at, "pieces follow each other");
                prop_assert!(p.len > 0);
                at += p.len;
                for probe in [0, p.len / 2, p.len - 1] {
                    match p.place {
                        Place::Object { component, stripe, ost, object, offset } => {
                            let c = &layout.components[component];
                            prop_assert_eq!(c.stripes[stripe as usize], ost);
                            prop_assert_eq!(object, ObjectId { fid: layout.names(FID), instance: c.id, stripe });
                            let back = file_offset(c, stripe, ObjectOffset(offset.0 + probe));
                            prop_assert_eq!(back, Some(FileOffset(p.file.0 + probe)));
                        }
                        Place::Mdt { component } => {
                            prop_assert_eq!(layout.components[component].pattern, Pattern::Mdt);
                        }
                        Place::Absent { component } => {
                            prop_assert_eq!(layout.component_at(p.file.0 + probe), component);
                            prop_assert!(component.is_none_or(|c| !layout.components[c].is_instantiated()));
                        }
                    }
                }
            }
            prop_assert_eq!(at, end, "pieces reach the end");
        }

        #[test]
        fn object_ranges_are_the_pieces_put_together(
            layout in any_layout(), start in 0u64..12_000_000, len in 0u64..6_000_000,
        ) {
            let (start, end) = (FileOffset(start), FileOffset(start + len));
            let mut joined: HashMap<ObjectId, (u64, u64)> = HashMap::new();
            for p in pieces(&layout, FID, start, end) {
                if let Place::Object { object, offset, .. } = p.place {
                    let range = joined.entry(object).or_insert((offset.0, offset.0));
                    prop_assert_eq!(range.1, offset.0, "no hole between the pieces of one object");
                    range.1 += p.len;
                }
            }
            let ranges: HashMap<_, _> =
                object_ranges(&layout, FID, start, end).map(|r| (r.object, (r.start.0, r.end.0))).collect();
            prop_assert_eq!(ranges, joined);
        }

        #[test]
        fn objects_hold_the_same_bytes_as_a_plain_file(
            layout in any_layout(),
            writes in proptest::collection::vec((0u64..400_000, 1usize..150_000, any::<u8>()), 1..5),
        ) {
            let mut plain = vec![0u8; 600_000];
            let mut objects = HashMap::new();
            for (start, len, seed) in writes {
                let data: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
                plain[start as usize..][..len].copy_from_slice(&data);
                write(&mut objects, &layout, start, &data);
            }
            for p in all(&layout, 0, plain.len() as u64) {
                if let Place::Object { object, offset, .. } = p.place {
                    let mut bytes = objects.get(&object).cloned().unwrap_or_default();
                    let (from, to, len) = (p.file.0 as usize, offset.0 as usize, p.len as usize);
                    bytes.resize(bytes.len().max(to + len), 0);
                    prop_assert!(bytes[to..to + len] == plain[from..from + len], "piece {:?}", p);
                }
            }
        }
    }
}
