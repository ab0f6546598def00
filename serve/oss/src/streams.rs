//! Long sequential writes go to the disk while they go on.
//!
//! Left alone, the kernel keeps written pages for seconds, and the fsync at the end of a large file
//! waits for all of them. So an object that is written in sequence is handed to the disk in steps
//! of [`STEP_BYTES`]. Nothing waits for a step, and the next sync reports its errors. A file
//! smaller than a step is not affected.
//!
//! A fixed array of slots, an object's by hash: two streams that share one only lose the hint.
//! Bound: [`STEPS_MAX`] steps under way; a stream that meets the bound makes a longer step later.

use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use types::object::ObjectId;

/// Bytes handed over at once: enough for long transfers, and few enough that a sync finds little
/// left.
const STEP_BYTES: u64 = 8 << 20;
/// Writes of one stream may overtake each other by this much: several requests of one program are
/// under way.
const NEAR_BYTES: u64 = 4 << 20;
/// Steps under way at once.
const STEPS_MAX: usize = 4;
/// Streams that are told apart.
const SLOTS: usize = 256;

#[derive(Clone, Copy)]
struct Stream {
    object: ObjectId,
    /// First byte not handed over.
    from: u64,
    /// End of what was written.
    end: u64,
}

/// See the module.
pub(crate) struct Streams {
    slots: Vec<Mutex<Option<Stream>>>,
    hasher: foldhash::fast::FixedState,
    steps: Arc<AtomicUsize>,
}

/// A range to hand over. Dropping it makes room for another step.
pub(crate) struct Step {
    pub(crate) start: u64,
    pub(crate) len: u64,
    steps: Arc<AtomicUsize>,
}

impl Drop for Step {
    fn drop(&mut self) {
        self.steps.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
            hasher: foldhash::fast::FixedState::default(),
            steps: Arc::default(),
        }
    }
}

impl Streams {
    /// `[start, start + len)` was written. Returns the step that is due, if any.
    pub(crate) fn wrote(&self, object: ObjectId, start: u64, len: u64) -> Option<Step> {
        let mut slot = self.slots[self.hasher.hash_one(object) as usize % SLOTS].lock();
        let end = start.saturating_add(len);
        let Some(stream) =
            slot.as_mut().filter(|s| s.object == object && s.end.abs_diff(start) <= NEAR_BYTES)
        else {
            *slot = Some(Stream { object, from: start, end });
            return None;
        };
        stream.end = stream.end.max(end);
        let len = stream.end - stream.from;
        if len < STEP_BYTES || self.steps.fetch_add(1, Ordering::AcqRel) >= STEPS_MAX {
            if len >= STEP_BYTES {
                self.steps.fetch_sub(1, Ordering::AcqRel);
            }
            return None;
        }
        let start = std::mem::replace(&mut stream.from, stream.end);
        Some(Step { start, len, steps: self.steps.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::fid::Fid;

    const MIB: u64 = 1 << 20;

    fn object(stripe: u32) -> ObjectId {
        ObjectId { fid: Fid::ROOT, instance: 1, stripe }
    }

    fn steps(streams: &Streams, starts: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        starts
            .into_iter()
            .filter_map(|n| streams.wrote(object(0), n * MIB, MIB))
            .map(|s| (s.start, s.len))
            .collect()
    }

    #[test]
    fn every_step_is_handed_over_once() {
        let streams = Streams::default();
        assert_eq!(steps(&streams, 0..20), [(0, 8 * MIB), (8 * MIB, 8 * MIB)]);
        assert_eq!(steps(&streams, 20..24), [(16 * MIB, 8 * MIB)]);
    }

    #[test]
    fn writes_that_overtake_each_other_are_one_stream_and_scattered_ones_none() {
        let streams = Streams::default();
        assert_eq!(steps(&streams, [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]), [(MIB, 9 * MIB)]);
        assert_eq!(steps(&Streams::default(), (0..64).map(|n| n * 16)), []);
        // A database that rewrites its 4 MiB.
        assert_eq!(steps(&Streams::default(), (0..64).map(|n| n * 3 % 4)), []);
    }

    #[test]
    fn steps_under_way_are_bounded_and_nothing_is_left_out() {
        let streams = Streams::default();
        let held: Vec<_> = (0..40).filter_map(|n| streams.wrote(object(0), n * MIB, MIB)).collect();
        assert_eq!(held.len(), STEPS_MAX);
        assert!(streams.wrote(object(0), 40 * MIB, MIB).is_none());
        drop(held);
        let late = streams.wrote(object(0), 41 * MIB, MIB).unwrap();
        assert_eq!((late.start, late.len), (32 * MIB, 10 * MIB));
    }
}
