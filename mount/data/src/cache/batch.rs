//! Requests out of dirty ranges: split by object, gathered by target. Pure.
//!
//! One request carries many writes, adjacent or not. It ends at [`BATCH_BYTES`], over a long line
//! at [`BATCH_BYTES_FAR`], or at [`BATCH_WRITES_MAX`], and takes in the rest of the block in which
//! that ends. So small random writes of a file become few requests. A block is never spread over
//! two requests, so its space is paid for once.

use crate::cache::DataTarget;
use crate::cache::dirty::block_start;
use crate::parts::{Where, parts};
use layout::layout::Layout;
use session::error::ClientError;
use types::fid::Fid;
use types::limits::GRANT_UNIT;
use types::object::{ObjectId, ObjectOffset};
use types::target::TargetIndex;

/// Bytes of one request: enough to keep a disk and a line busy.
pub const BATCH_BYTES: u64 = 4 << 20;
/// As [`BATCH_BYTES`], over a long line: many connections carry the data there, and a request holds
/// receive memory of the OST for as long as it takes to arrive.
pub const BATCH_BYTES_FAR: u64 = 1 << 20;
/// Writes of one request.
pub(crate) const BATCH_WRITES_MAX: usize = 1024;

/// One write of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte in the file.
    pub file: u64,
    /// Bytes.
    pub len: u64,
    /// Object of the write, and offset in it; `None`: the bytes live on the MDT.
    pub object: Option<(ObjectId, ObjectOffset)>,
}

impl Piece {
    /// The first `len` bytes, or as many as there are, and the bytes after them.
    fn split(self, len: u64) -> (Piece, Piece) {
        let len = len.min(self.len);
        let rest = Piece {
            file: self.file + len,
            len: self.len - len,
            object: self.object.map(|(object, at)| (object, ObjectOffset(at.0 + len))),
        };
        (Piece { len, ..self }, rest)
    }
}

/// One request to one target.
#[derive(PartialEq, Eq, Debug)]
pub struct Batch {
    /// The target.
    pub target: DataTarget,
    /// The writes, in file order.
    pub pieces: Vec<Piece>,
    /// Sum of the pieces.
    pub bytes: u64,
    /// Blocks ([`GRANT_UNIT`]) that the pieces touch.
    pub blocks: u64,
}

impl Batch {
    fn new(target: DataTarget) -> Batch {
        Batch { target, pieces: Vec::new(), bytes: 0, blocks: 0 }
    }

    /// Bytes that still fit, from `at` in the file on: to the end of the block in which the request
    /// reaches its bound. If it has reached it, the missing rest of the last piece's block. 0:
    /// none.
    fn room(&self, at: u64, bytes_max: u64) -> u64 {
        let block_end = |byte| block_start(byte) + GRANT_UNIT;
        let left = bytes_max.saturating_sub(self.bytes);
        if left > 0 && self.pieces.len() < BATCH_WRITES_MAX {
            return block_end(at + left - 1) - at;
        }
        let begun = self.pieces.last().map(|last| block_start(last.file + last.len - 1));
        if begun == Some(block_start(at)) { block_end(at) - at } else { 0 }
    }

    fn push(&mut self, piece: Piece) {
        let first = piece.file / GRANT_UNIT;
        let last = (piece.file + piece.len - 1) / GRANT_UNIT;
        let counted =
            self.pieces.last().is_some_and(|p| (p.file + p.len - 1) / GRANT_UNIT == first);
        self.blocks += last + 1 - first - u64::from(counted);
        self.bytes += piece.len;
        self.pieces.push(piece);
    }
}

/// Requests for these ranges (in order, without overlap) of a file whose layout is instantiated
/// there. `bytes_max`: where a request to this target ends.
///
/// # Errors
/// The layout has no object for one of them.
pub fn plan(
    layout: &Layout,
    fid: Fid,
    ranges: &[(u64, u64)],
    bytes_max: impl Fn(DataTarget) -> u64,
) -> Result<Vec<Batch>, ClientError> {
    let (mut done, mut open): (Vec<Batch>, Vec<Batch>) = (Vec::new(), Vec::new());
    for (start, end) in ranges {
        for part in parts(layout, fid, *start, *end) {
            let (target, object) = match part.place {
                Where::Object(ost, object, at) => (DataTarget::Ost(ost), Some((object, at))),
                Where::Mdt => (DataTarget::Mdt(TargetIndex(fid.mdt())), None),
                Where::Nowhere => {
                    let reason = "dirty bytes where the layout has no object";
                    tracing::error!(%fid, offset = part.file, reason);
                    return Err(ClientError::Layout { fid, reason });
                }
            };
            let at = open.iter().position(|batch| batch.target == target).unwrap_or_else(|| {
                open.push(Batch::new(target));
                open.len() - 1
            });
            let mut piece = Piece { file: part.file, len: part.len as u64, object };
            while piece.len > 0 {
                let room = open[at].room(piece.file, bytes_max(target));
                if room == 0 {
                    done.push(std::mem::replace(&mut open[at], Batch::new(target)));
                    continue;
                }
                let (fits, rest) = piece.split(room);
                open[at].push(fits);
                piece = rest;
            }
        }
    }
    done.extend(open);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::layout::{Component, EOF, Pattern};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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
            wanted: Vec::new(),
        };
        Layout { generation: 1, components: vec![component], ..Layout::default() }
    }

    fn plan(layout: &Layout, fid: Fid, ranges: &[(u64, u64)]) -> Result<Vec<Batch>, ClientError> {
        super::plan(layout, fid, ranges, |_| BATCH_BYTES)
    }

    #[test]
    fn a_far_ost_gets_smaller_requests() {
        let far = DataTarget::Ost(TargetIndex(1));
        let max = |target| if target == far { BATCH_BYTES_FAR } else { BATCH_BYTES };
        let plan = super::plan(&striped(2), FID, &[(0, 16 << 20)], max).unwrap();
        let of = |ost| {
            plan.iter()
                .filter(|batch| batch.target == DataTarget::Ost(TargetIndex(ost)))
                .map(|b| b.bytes >> 20)
                .collect::<Vec<_>>()
        };
        assert_eq!((of(0), of(1)), (vec![4, 4], vec![1; 8]));
    }

    #[test]
    fn ranges_are_split_by_object_and_gathered_by_ost() {
        let plan =
            plan(&striped(2), FID, &[(10, 20), (30, 40), (STRIPE - 5, 2 * STRIPE + 5)]).unwrap();
        assert_eq!(plan.len(), 2);
        let at = |piece: &Piece| piece.object.map_or(0, |(_, offset)| offset.0);
        let of =
            |batch: &Batch| batch.pieces.iter().map(|p| (p.file, p.len, at(p))).collect::<Vec<_>>();
        assert_eq!(
            of(&plan[0]),
            [(10, 10, 10), (30, 10, 30), (STRIPE - 5, 5, STRIPE - 5), (2 * STRIPE, 5, STRIPE)]
        );
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
        let small: Vec<_> =
            (0..BATCH_WRITES_MAX as u64 + 40).map(|n| (n * 64, n * 64 + 1)).collect();
        let plan = plan(&one, FID, &small).unwrap();
        // 1024 writes end with a block; one more block has the rest.
        assert_eq!(
            plan.iter().map(|b| (b.pieces.len(), b.blocks)).collect::<Vec<_>>(),
            [(1024, 16), (40, 1)]
        );
    }

    #[test]
    fn pieces_that_share_blocks_do_not_make_a_request_endless() {
        let unaligned: Vec<_> = (0..40).map(|n| (10 + (n << 20), 10 + ((n + 1) << 20))).collect();
        let plan = plan(&striped(1), FID, &unaligned).unwrap();
        assert_eq!(plan.len(), 10, "40 MiB, each request to the end of a block");
        assert!(plan.iter().all(|batch| batch.bytes < BATCH_BYTES + GRANT_UNIT));
        assert_eq!(plan.iter().map(|batch| batch.bytes).sum::<u64>(), 40 << 20);
    }

    proptest! {
        #[test]
        fn every_byte_is_sent_once_and_every_block_in_one_request(
            stripes in 1u16..4,
            ranges in vec((0u64..200 << 10, 1u64..6 << 20), 1..12),
            dense in 0u64..3000,
        ) {
            // Gaps and lengths, one after the other, and then many small ones.
            let mut end = 0;
            let mut all: Vec<(u64, u64)> = Vec::new();
            for (gap, len) in ranges.into_iter().chain((0..dense).map(|n| (n % 3, 1 + n % 2))) {
                all.push((end + gap, end + gap + len));
                end += gap + len;
            }
            let plan = plan(&striped(stripes), FID, &all).unwrap();
            let mut sent: Vec<(u64, u64)> = Vec::new();
            let mut blocks = BTreeSet::new();
            for batch in &plan {
                let touched: BTreeSet<u64> = batch
                    .pieces
                    .iter()
                    .flat_map(|p| p.file / GRANT_UNIT..=(p.file + p.len - 1) / GRANT_UNIT)
                    .collect();
                prop_assert_eq!(touched.len() as u64, batch.blocks);
                prop_assert!(touched.iter().all(|block| blocks.insert(*block)), "a block in two requests");
                prop_assert_eq!(batch.pieces.iter().map(|p| p.len).sum::<u64>(), batch.bytes);
                prop_assert!(batch.bytes < BATCH_BYTES + GRANT_UNIT);
                prop_assert!(batch.pieces.len() <= BATCH_WRITES_MAX + GRANT_UNIT as usize / 2);
                sent.extend(batch.pieces.iter().map(|p| (p.file, p.file + p.len)));
            }
            let joined = |mut ranges: Vec<(u64, u64)>| {
                ranges.sort_unstable();
                ranges.into_iter().fold(Vec::new(), |mut joined: Vec<(u64, u64)>, (start, end)| {
                    match joined.last_mut() {
                        Some(last) if last.1 == start => last.1 = end,
                        _ => joined.push((start, end)),
                    }
                    joined
                })
            };
            prop_assert_eq!(sent.iter().map(|(s, e)| e - s).sum::<u64>(), all.iter().map(|(s, e)| e - s).sum::<u64>());
            prop_assert_eq!(joined(sent), joined(all));
        }
    }

    #[test]
    fn what_lives_on_the_mdt_goes_there() {
        let mut mixed = striped(1);
        mixed.components[0].start = STRIPE;
        let on_mdt = Component {
            id: 2,
            start: 0,
            end: STRIPE,
            pattern: Pattern::Mdt,
            stripe_count: 0,
            stripes: Vec::new(),
            ..mixed.components[0].clone()
        };
        mixed.components.insert(0, on_mdt);
        let plan = plan(&mixed, FID, &[(5, 9), (STRIPE - 3, STRIPE + 3)]).unwrap();
        let mdt = DataTarget::Mdt(TargetIndex(FID.mdt()));
        assert_eq!(
            plan.iter().map(|batch| (batch.target, batch.bytes, batch.blocks)).collect::<Vec<_>>(),
            [(mdt, 7, 2), (DataTarget::Ost(TargetIndex(0)), 3, 1)]
        );
        assert!(plan[0].pieces.iter().all(|piece| piece.object.is_none()));
    }

    #[test]
    fn what_has_no_object_is_refused() {
        let mut absent = striped(1);
        absent.components[0].stripes.clear();
        assert!(matches!(plan(&absent, FID, &[(0, 1)]), Err(ClientError::Layout { .. })));
    }
}
