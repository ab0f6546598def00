//! Ranges of a file split by its layout, and pieces of bytes put together. Pure.

use bytes::Bytes;
use layout::layout::Layout;
use layout::map::{Place, pieces};
use types::errno::Errno;
use types::fid::Fid;
use types::limits::BULK_BYTES_MAX;
use types::object::{FileOffset, ObjectId, ObjectOffset};
use types::target::TargetIndex;

/// Zeros to answer holes with, without copying.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// Place of a part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// In an object.
    Object(TargetIndex, ObjectId, ObjectOffset),
    /// On the MDT.
    Mdt,
    /// Nowhere yet: zeros.
    Nowhere,
}

/// A part of a file range that one request to one target can carry, or that lives nowhere yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// First byte in the file.
    pub file: u64,
    /// Bytes; 1..=BULK_BYTES_MAX.
    pub len: usize,
    /// Place of the bytes.
    pub place: Where,
}

/// Splits `[start, end)` into parts, in file order without gaps.
pub fn parts(layout: &Layout, fid: Fid, start: u64, end: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in pieces(layout, fid, FileOffset(start), FileOffset(end)) {
        let mut done = 0;
        while done < piece.len {
            let len = (piece.len - done).min(BULK_BYTES_MAX as u64);
            let place = match piece.place {
                Place::Object { ost, object, offset, .. } => {
                    Where::Object(ost, object, ObjectOffset(offset.0 + done))
                }
                Place::Absent { .. } => Where::Nowhere,
                Place::Mdt { .. } => Where::Mdt,
            };
            parts.push(Part { file: piece.file.0 + done, len: len as usize, place });
            done += len;
        }
    }
    parts
}

/// True if all of `[start, end)` lies in components that have objects, or live on the MDT.
pub fn is_instantiated(layout: &Layout, start: u64, end: u64) -> bool {
    // One look per component, not per stripe.
    let mut at = start;
    for component in &layout.components {
        if component.end <= at {
            continue;
        }
        if at >= end {
            break;
        }
        if component.start > at || !component.is_instantiated() {
            return false;
        }
        at = component.end;
    }
    at >= end
}

/// Appends `count` zero bytes.
pub(crate) fn push_zeros(data: &mut Vec<Bytes>, mut count: usize) {
    while count > 0 {
        let len = count.min(ZEROS.len());
        data.push(Bytes::from_static(&ZEROS[..len]));
        count -= len;
    }
}

/// Drops what lies beyond the first `len` bytes.
pub fn clip(data: &mut Vec<Bytes>, len: u64) {
    let mut left = len;
    data.retain_mut(|bytes| {
        bytes.truncate(left.min(bytes.len() as u64) as usize);
        left -= bytes.len() as u64;
        !bytes.is_empty()
    });
}

/// All pieces as one.
///
/// # Errors
/// EINVAL beyond BULK_BYTES_MAX.
pub fn join(mut data: Vec<Bytes>) -> Result<Bytes, Errno> {
    if data.len() == 1 {
        return Ok(data.remove(0));
    }
    let len = data.iter().map(Bytes::len).sum();
    if len > BULK_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let mut all = Vec::with_capacity(len);
    data.iter().for_each(|bytes| all.extend_from_slice(bytes));
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::layout::{Component, EOF, Pattern};

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const STRIPE: u64 = 64 << 10;

    fn component(id: u32, start: u64, end: u64, stripes: &[u16]) -> Component {
        Component {
            id,
            start,
            end,
            pattern: Pattern::Raid0,
            stripe_size: STRIPE as u32,
            stripe_count: stripes.len() as u16,
            overstriped: false,
            pool: None,
            stripes: stripes.iter().map(|n| TargetIndex(*n)).collect(),
            wanted: Vec::new(),
        }
    }

    fn layout(components: Vec<Component>) -> Layout {
        Layout { generation: 1, components, ..Layout::default() }
    }

    /// OST and offset.
    fn object(part: &Part) -> (u16, u64) {
        match part.place {
            Where::Object(ost, _, offset) => (ost.0, offset.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_lives_on_the_mdt_comes_first() {
        let mut dom = component(1, 0, STRIPE, &[]);
        dom.pattern = Pattern::Mdt;
        let split =
            parts(&layout(vec![dom, component(2, STRIPE, EOF, &[3])]), FID, STRIPE - 7, STRIPE + 9);
        assert_eq!((split[0].file, split[0].len, split[0].place), (STRIPE - 7, 7, Where::Mdt));
        assert_eq!((split[1].file, split[1].len, object(&split[1])), (STRIPE, 9, (3, STRIPE)));
    }

    #[test]
    fn a_long_range_is_split_at_stripes_and_at_the_bulk_limit() {
        let two = layout(vec![component(1, 0, EOF, &[0, 1])]);
        let split: Vec<_> = parts(&two, FID, STRIPE - 10, 2 * STRIPE + 5);
        assert_eq!(split.iter().map(|p| p.len).collect::<Vec<_>>(), [10, STRIPE as usize, 5]);
        assert_eq!(split.iter().map(|p| object(p).0).collect::<Vec<_>>(), [0, 1, 0]);
        let one = layout(vec![component(1, 0, EOF, &[0])]);
        let bulk = BULK_BYTES_MAX as u64;
        let split = parts(&one, FID, 7, 7 + 2 * bulk + 1);
        let offsets: Vec<_> = split.iter().map(|p| (p.file, p.len as u64, object(p).1)).collect();
        assert_eq!(
            offsets,
            [(7, bulk, 7), (7 + bulk, bulk, 7 + bulk), (7 + 2 * bulk, 1, 7 + 2 * bulk)]
        );
    }

    #[test]
    fn what_is_not_instantiated_has_no_place() {
        let half = layout(vec![component(1, 0, STRIPE, &[0]), component(2, STRIPE, EOF, &[])]);
        let split = parts(&half, FID, STRIPE - 1, STRIPE + 1);
        assert!(matches!(split[0].place, Where::Object(..)) && split[1].place == Where::Nowhere);
        assert!(is_instantiated(&half, 0, STRIPE));
        assert!(!is_instantiated(&half, 0, STRIPE + 1));
        assert!(!is_instantiated(&layout(Vec::new()), 0, 1));
        assert!(
            !is_instantiated(&layout(vec![component(1, 0, STRIPE, &[0])]), 0, STRIPE + 1),
            "beyond the last"
        );
    }

    #[test]
    fn pieces_are_clipped_and_joined() {
        let mut data = vec![Bytes::from_static(b"abc"), Bytes::from_static(b"def")];
        push_zeros(&mut data, 2);
        assert_eq!(join(data.clone()).unwrap(), &b"abcdef\0\0"[..]);
        clip(&mut data, 4);
        assert_eq!(data, [&b"abc"[..], b"d"]);
        clip(&mut data, 0);
        assert!(data.is_empty());
        let mut zeros = Vec::new();
        push_zeros(&mut zeros, ZEROS.len() * 2 + 1);
        assert_eq!(zeros.iter().map(Bytes::len).sum::<usize>(), ZEROS.len() * 2 + 1);
    }
}
