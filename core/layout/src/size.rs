//! Sizes: the meaning of a file's size for its objects, and of its objects for its size.
//!
//! The MDT keeps the size. Objects matter only in two cases: when a file is cut, each must lose its
//! bytes beyond the cut; and when a writer died, only the OSTs know how far it came. Growing a file
//! touches no object.

use crate::layout::Layout;
use crate::map::{file_offset, object_bytes_below};
use types::fid::Fid;
use types::object::{FileOffset, ObjectId, ObjectOffset};
use types::target::TargetIndex;

/// An object to cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Index of the component in the layout.
    pub component: usize,
    /// OST that has the object.
    pub ost: TargetIndex,
    /// The object.
    pub object: ObjectId,
    /// New end: what lies at or after it goes.
    pub at: ObjectOffset,
}

/// The cuts that make a file end at `size`. Objects that can have no byte beyond it are left out.
pub fn cuts(layout: &Layout, fid: Fid, size: FileOffset) -> impl Iterator<Item = Cut> + '_ {
    let fid = layout.names(fid);
    let reaching = layout.components.iter().enumerate().filter(move |(_, c)| c.end > size.0);
    reaching.flat_map(move |(component, c)| {
        (0u32..).zip(&c.stripes).map(move |(stripe, ost)| {
            // Wholly beyond the cut: nothing remains, not even the hole before the component's
            // first byte.
            let at = if size.0 <= c.start { 0 } else { object_bytes_below(c, stripe, size.0) };
            Cut { component, ost: *ost, object: c.object(fid, stripe), at: ObjectOffset(at) }
        })
    })
}

/// Size of the file by its objects: one more than the last byte that any of them has; 0 if none has
/// any.
///
/// `size_of` returns an object's size in bytes (0 if it was never written). The caller adds bytes
/// on the MDT (maximum of both).
pub fn file_size(
    layout: &Layout,
    fid: Fid,
    mut size_of: impl FnMut(TargetIndex, ObjectId) -> u64,
) -> u64 {
    let (mut end, fid) = (0, layout.names(fid));
    for c in &layout.components {
        for (stripe, ost) in (0u32..).zip(&c.stripes) {
            let last = size_of(*ost, c.object(fid, stripe)).checked_sub(1);
            // A last byte outside the component's range can hold no data of this file.
            if let Some(at) = last.and_then(|last| file_offset(c, stripe, ObjectOffset(last))) {
                end = end.max(at.0.saturating_add(1));
            }
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Place, pieces};
    use crate::samples::{any_layout, pfl, plain};
    use proptest::prelude::*;
    use std::collections::HashMap;

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 5, ver: 0 };

    #[test]
    fn a_cut_in_the_middle_of_a_stripe() {
        let at: Vec<_> =
            cuts(&plain(&[0, 1, 2]), FID, FileOffset(65536 * 4 + 10)).map(|c| c.at.0).collect();
        assert_eq!(at, [2 * 65536, 65536 + 10, 65536]);
    }

    #[test]
    fn components_beyond_the_cut_lose_everything_those_before_nothing() {
        let cuts: Vec<_> =
            cuts(&pfl(), FID, FileOffset(512 << 10)).map(|c| (c.component, c.at.0)).collect();
        assert_eq!(cuts, [(1, 512 << 10), (2, 0), (2, 0), (2, 0)]);
    }

    #[test]
    fn no_objects_no_size() {
        assert_eq!(file_size(&pfl(), FID, |_, _| 0), 0);
        assert_eq!(file_size(&Layout::default(), FID, |_, _| 9), 0);
    }

    proptest! {
        #[test]
        fn cuts_leave_exactly_the_bytes_before_the_size(layout in any_layout(), size in 0u64..9_000_000) {
            let cut: HashMap<_, _> = cuts(&layout, FID, FileOffset(size)).map(|c| (c.object, c.at.0)).collect();
            for p in pieces(&layout, FID, FileOffset(0), FileOffset(12_000_000)) {
                let Place::Object { object, offset, .. } = p.place else { continue };
                for probe in [0, p.len / 2, p.len - 1, size.saturating_sub(p.file.0).min(p.len - 1)] {
                    let kept = cut.get(&object).is_none_or(|at| offset.0 + probe < *at);
                    prop_assert_eq!(kept, p.file.0 + probe < size);
                }
            }
        }

        #[test]
        fn size_comes_back_from_the_objects(layout in any_layout(), writes in proptest::collection::vec((0u64..9_000_000, 1u64..100_000), 1..4)) {
            let (mut sizes, mut end) = (HashMap::<ObjectId, u64>::new(), 0);
            for (start, len) in writes {
                for p in pieces(&layout, FID, FileOffset(start), FileOffset(start + len)) {
                    let Place::Object { object, offset, .. } = p.place else { continue };
                    let size = sizes.entry(object).or_default();
                    *size = (*size).max(offset.0 + p.len);
                    end = end.max(p.file.0 + p.len);
                }
            }
            let found = file_size(&layout, FID, |_, o| sizes.get(&o).copied().unwrap_or(0));
            prop_assert_eq!(found, end);
        }
    }
}
