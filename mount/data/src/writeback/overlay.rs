//! Dirty bytes, laid over what was read. Pure.

use bytes::Bytes;

/// Lays dirty bytes over the bytes that were read: `[start, end)` of the file, `dirty` in order.
pub(crate) fn merge_dirty(read: Vec<Bytes>, start: u64, dirty: Vec<(u64, Bytes)>) -> Vec<Bytes> {
    if dirty.is_empty() {
        return read;
    }
    let mut out = Vec::with_capacity(read.len() + 2 * dirty.len());
    let mut dirty = dirty.into_iter().peekable();
    let mut at = start;
    for piece in read {
        let (from, to) = (at, at + piece.len() as u64);
        while at < to {
            match dirty.peek() {
                Some((over, bytes)) if *over <= at => {
                    let (over, bytes) = (*over, bytes.clone());
                    let last = over + bytes.len() as u64;
                    let until = last.min(to);
                    if until > at {
                        out.push(bytes.slice((at - over) as usize..(until - over) as usize));
                        at = until;
                    }
                    if last <= to {
                        dirty.next();
                    }
                }
                next => {
                    let until = next.map_or(to, |(over, _)| to.min(*over));
                    out.push(piece.slice((at - from) as usize..(until - from) as usize));
                    at = until;
                }
            }
        }
    }
    out
}

/// True if all of `[start, end)` is dirty.
pub fn covers(dirty: &[(u64, Bytes)], start: u64, end: u64) -> bool {
    let reached = dirty
        .iter()
        .try_fold(start, |at, (over, bytes)| (*over <= at).then_some(over + bytes.len() as u64));
    reached.is_some_and(|at| at >= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: Vec<Bytes>) -> Vec<u8> {
        pieces.concat()
    }

    #[test]
    fn dirty_bytes_lie_over_what_was_read() {
        let read = vec![Bytes::from_static(b"0123"), Bytes::from_static(b"456789")];
        let dirty = vec![
            (101, Bytes::from_static(b"ab")),
            (103, Bytes::from_static(b"cd")),
            (109, Bytes::from_static(b"z")),
        ];
        assert_eq!(joined(merge_dirty(read.clone(), 100, dirty)), b"0abcd5678z");
        assert_eq!(joined(merge_dirty(read, 100, Vec::new())), b"0123456789");
    }

    #[test]
    fn a_gap_is_not_covered() {
        let dirty = vec![(10, Bytes::from_static(b"ab")), (12, Bytes::from_static(b"cd"))];
        assert!(covers(&dirty, 10, 14) && covers(&dirty, 10, 13));
        assert!(!covers(&dirty, 9, 14) && !covers(&dirty, 10, 15) && !covers(&dirty[..1], 10, 13));
        assert!(!covers(&[(10, Bytes::from_static(b"a")), (12, Bytes::from_static(b"b"))], 10, 13));
    }
}
