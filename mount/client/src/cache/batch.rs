//! Requests out of dirty ranges: split by object, gathered by OST. Pure.
//!
//! One request carries many writes, neighbours or not, up to [`BATCH_BYTES`] or [`BATCH_WRITES_MAX`]: small random writes of
//! a file become few requests. A block is never spread over two requests, so its space is paid for once.

use crate::cache::dirty::block_start;
use crate::data::{Where, parts};
use crate::error::ClientError;
use layout::layout::Layout;
use types::fid::Fid;
use types::limits::{BULK_BYTES_MAX, GRANT_UNIT};
use types::object::{ObjectId, ObjectOffset};
use types::target::TargetIndex;

/// Bytes of one request: enough to keep a disk and a line busy.
pub const BATCH_BYTES: u64 = 4 << 20;
/// Writes of one request.
pub const BATCH_WRITES_MAX: usize = 1024;

/// One write of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte in the file.
    pub file: u64,
    /// Bytes.
    pub len: u64,
    /// Where it goes.
    pub object: ObjectId,
    /// Where in it.
    pub offset: ObjectOffset,
}

/// One request to one OST.
#[derive(PartialEq, Eq, Debug)]
pub struct Batch {
    /// To whom.
    pub ost: TargetIndex,
    /// What, in file order.
    pub pieces: Vec<Piece>,
    /// Sum of the pieces.
    pub bytes: u64,
    /// Blocks ([`GRANT_UNIT`]) that the pieces touch.
    pub blocks: u64,
}

impl Batch {
    fn new(ost: TargetIndex) -> Batch {
        Batch { ost, pieces: Vec::new(), bytes: 0, blocks: 0 }
    }

    /// Is it as large as it may get, before a piece of `len` bytes at `next`?
    fn is_full(&self, next: u64, len: u64) -> bool {
        let Some(last) = self.pieces.last() else { return false };
        let too_long = self.bytes + len > BULK_BYTES_MAX as u64;
        let full = too_long || self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_WRITES_MAX;
        full && block_start(last.file + last.len - 1) != block_start(next)
    }

    fn push(&mut self, piece: Piece) {
        let first = piece.file / GRANT_UNIT;
        let last = (piece.file + piece.len - 1) / GRANT_UNIT;
        let counted = self.pieces.last().is_some_and(|p| (p.file + p.len - 1) / GRANT_UNIT == first);
        self.blocks += last + 1 - first - u64::from(counted);
        self.bytes += piece.len;
        self.pieces.push(piece);
    }
}

/// Requests for these ranges (in order, without overlap) of a file whose layout is instantiated there.
///
/// # Errors
/// The layout has no object for one of them.
pub fn plan(layout: &Layout, fid: Fid, ranges: &[(u64, u64)]) -> Result<Vec<Batch>, ClientError> {
    let (mut done, mut open): (Vec<Batch>, Vec<Batch>) = (Vec::new(), Vec::new());
    for (start, end) in ranges {
        for part in parts(layout, fid, *start, *end) {
            let Where::Object(ost, object, offset) = part.place else {
                let reason = "dirty bytes where the layout has no object";
                tracing::error!(%fid, offset = part.file, reason);
                return Err(ClientError::Layout { fid, reason });
            };
            let at = open.iter().position(|batch| batch.ost == ost).unwrap_or_else(|| {
                open.push(Batch::new(ost));
                open.len() - 1
            });
            if open[at].is_full(part.file, part.len as u64) {
                done.push(std::mem::replace(&mut open[at], Batch::new(ost)));
            }
            open[at].push(Piece { file: part.file, len: part.len as u64, object, offset });
        }
    }
    done.extend(open);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::layout::{Component, EOF, Pattern};

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const STRIPE: u64 = 64 << 10;

    fn striped(stripes: u16) -> Layout {
        let stripes: Vec<_> = (0..stripes).map(TargetIndex).collect();
        let component = Component {
            id: 1,
            start: 0,
            end: EOF,
            pattern: Pattern::Raid0,
            stripe_size: STRIPE as u32,
            stripe_count: stripes.len() as u16,
            overstriped: false,
            pool: None,
            stripes,
        };
        Layout { generation: 1, components: vec![component], ..Layout::default() }
    }

    #[test]
    fn ranges_are_split_by_object_and_gathered_by_ost() {
        let plan = plan(&striped(2), FID, &[(10, 20), (30, 40), (STRIPE - 5, 2 * STRIPE + 5)]).unwrap();
        assert_eq!(plan.len(), 2);
        let of = |batch: &Batch| batch.pieces.iter().map(|p| (p.file, p.len, p.offset.0)).collect::<Vec<_>>();
        assert_eq!(of(&plan[0]), [(10, 10, 10), (30, 10, 30), (STRIPE - 5, 5, STRIPE - 5), (2 * STRIPE, 5, STRIPE)]);
        assert_eq!((plan[0].bytes, plan[0].blocks), (30, 3));
        assert_eq!(of(&plan[1]), [(STRIPE, STRIPE, 0)]);
        assert_eq!((plan[1].bytes, plan[1].blocks), (STRIPE, STRIPE / GRANT_UNIT));
    }

    #[test]
    fn a_request_is_bounded_and_no_block_is_spread_over_two() {
        let one = striped(1);
        let mib: Vec<_> = (0..9).map(|n| (n << 20, (n + 1) << 20)).collect();
        let whole = plan(&one, FID, &mib).unwrap();
        assert_eq!(whole.iter().map(|b| b.bytes >> 20).collect::<Vec<_>>(), [4, 4, 1]);
        let long = plan(&one, FID, &[(0, 3 << 20), (4 << 20, 20 << 20)]).unwrap();
        assert!(long.iter().all(|batch| batch.bytes <= BULK_BYTES_MAX as u64), "what no target would take");
        let small: Vec<_> = (0..BATCH_WRITES_MAX as u64 + 40).map(|n| (n * 64, n * 64 + 1)).collect();
        let plan = plan(&one, FID, &small).unwrap();
        // 1024 writes end with a block; one more block has the rest.
        assert_eq!(plan.iter().map(|b| (b.pieces.len(), b.blocks)).collect::<Vec<_>>(), [(1024, 16), (40, 1)]);
    }

    #[test]
    fn what_has_no_object_is_refused() {
        let mut absent = striped(1);
        absent.components[0].stripes.clear();
        assert!(matches!(plan(&absent, FID, &[(0, 1)]), Err(ClientError::Layout { .. })));
    }
}
