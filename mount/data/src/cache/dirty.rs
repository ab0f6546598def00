//! Bytes of one file that were written and are not stored yet. Pure.
//!
//! *Fresh* bytes wait, *sending* ones are on their way; where both have a byte, the fresh one is
//! newer. Small writes are copied into growing buffers, so that adjacent ones become one extent;
//! large ones are kept as they came.
//!
//! **Invariant:** extents of a kind do not overlap. No block ([`GRANT_UNIT`]) is on its way twice
//! at once, so two requests never write the same bytes in an arbitrary order. Space is counted in
//! blocks that hold fresh bytes.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use types::limits::GRANT_UNIT;

/// Writes below this are copied, so that they can be merged with adjacent ones.
const COPY_BYTES_MAX: usize = 128 << 10;
/// A buffer of copied writes grows to this.
const BUFFER_BYTES_MAX: usize = 1 << 20;

enum Body {
    /// Copied; may grow and be overwritten.
    Own(BytesMut),
    /// The bytes as they came.
    Given(Bytes),
}

impl Body {
    fn len(&self) -> u64 {
        match self {
            Body::Own(bytes) => bytes.len() as u64,
            Body::Given(bytes) => bytes.len() as u64,
        }
    }

    /// Keeps the first `at` bytes, returns the rest.
    fn split_off(&mut self, at: u64) -> Body {
        match self {
            Body::Own(bytes) => Body::Own(bytes.split_off(at as usize)),
            Body::Given(bytes) => Body::Given(bytes.split_off(at as usize)),
        }
    }

    fn freeze(self) -> Bytes {
        match self {
            Body::Own(bytes) => bytes.freeze(),
            Body::Given(bytes) => bytes,
        }
    }

    fn copy(&self, start: u64, end: u64) -> Bytes {
        match self {
            Body::Own(bytes) => Bytes::copy_from_slice(&bytes[start as usize..end as usize]),
            Body::Given(bytes) => bytes.slice(start as usize..end as usize),
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct DirtyBytes {
    fresh: BTreeMap<u64, Body>,
    sending: BTreeMap<u64, Bytes>,
}

/// First byte of the block of `at`.
pub(crate) fn block_start(at: u64) -> u64 {
    at / GRANT_UNIT * GRANT_UNIT
}

/// End of the block before `end`.
pub(crate) fn block_end(end: u64) -> u64 {
    end.checked_next_multiple_of(GRANT_UNIT).unwrap_or(end)
}

impl DirtyBytes {
    /// True if nothing is dirty.
    pub fn is_clean(&self) -> bool {
        self.fresh.is_empty() && self.sending.is_empty()
    }

    /// End of the last dirty byte; 0 if there is none.
    pub fn end(&self) -> u64 {
        let fresh = self.span().map_or(0, |(_, end)| end);
        let sending =
            self.sending.last_key_value().map_or(0, |(at, bytes)| at + bytes.len() as u64);
        fresh.max(sending)
    }

    /// True if there are bytes that wait to be sent.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// True if any byte of `[start, end)` is on its way.
    #[cfg(test)]
    pub(crate) fn is_sending(&self, start: u64, end: u64) -> bool {
        self.sending
            .range(..end)
            .next_back()
            .is_some_and(|(at, bytes)| at + bytes.len() as u64 > start)
    }

    /// Blocks of the range that would hold fresh bytes and do not yet.
    pub(crate) fn new_blocks(&self, start: u64, end: u64) -> u64 {
        let (start, end) = (block_start(start), block_end(end));
        (end - start).div_ceil(GRANT_UNIT) - self.touched(start, end)
    }

    /// Blocks of the range (rounded to whole ones) that hold fresh bytes.
    pub fn touched(&self, start: u64, end: u64) -> u64 {
        let (start, end) = (block_start(start), block_end(end));
        let (mut count, mut next) = (0, 0);
        for (from, to) in self.ranges(start, end) {
            let (first, last) = ((from / GRANT_UNIT).max(next), (to - 1) / GRANT_UNIT);
            count += (last + 1).saturating_sub(first);
            next = last + 1;
        }
        count
    }

    /// These bytes were written.
    pub fn insert(&mut self, start: u64, data: &Bytes) {
        let end = start + data.len() as u64;
        if data.len() >= COPY_BYTES_MAX {
            self.clear(start, end);
            self.fresh.insert(start, Body::Given(data.clone()));
            return;
        }
        let before = self.fresh.range_mut(..=start).next_back();
        if let Some((at, Body::Own(bytes))) = before
            && at + bytes.len() as u64 >= end
        {
            let from = (start - at) as usize;
            bytes[from..from + data.len()].copy_from_slice(data);
            return;
        }
        self.clear(start, end);
        match self.fresh.range_mut(..start).next_back() {
            Some((at, Body::Own(bytes)))
                if at + bytes.len() as u64 == start
                    && bytes.len() + data.len() <= BUFFER_BYTES_MAX =>
            {
                // A run of adjacent writes: more of them will come.
                if bytes.capacity() < bytes.len() + data.len() {
                    let grown =
                        (4 * bytes.len()).max(data.len()).min(BUFFER_BYTES_MAX - bytes.len());
                    bytes.reserve(grown);
                }
                bytes.extend_from_slice(data);
            }
            _ => {
                self.fresh.insert(start, Body::Own(BytesMut::from(&data[..])));
            }
        }
    }

    /// Fresh bytes of the range are dropped: they were cut, or overwritten in another way.
    pub fn clear(&mut self, start: u64, end: u64) {
        for at in [start, end] {
            if let Some((from, body)) = self.fresh.range_mut(..at).next_back()
                && from + body.len() > at
            {
                let rest = body.split_off(at - from);
                self.fresh.insert(at, rest);
            }
        }
        let gone: Vec<u64> = self.fresh.range(start..end).map(|(at, _)| *at).collect();
        for at in gone {
            self.fresh.remove(&at);
        }
    }

    /// Dirty bytes of `[start, end)`, in order and without overlap: a reader lays them over the
    /// stored bytes.
    pub(crate) fn overlay(&self, start: u64, end: u64) -> Vec<(u64, Bytes)> {
        let mut pieces = Vec::new();
        let mut at = start;
        for (from, to) in self.ranges(start, end) {
            self.overlay_sending(at, from, &mut pieces);
            let (base, body) =
                self.fresh.range(..=from).next_back().expect("the extent of a range");
            pieces.push((from, body.copy(from - base, to - base)));
            at = to;
        }
        self.overlay_sending(at, end, &mut pieces);
        pieces
    }

    fn overlay_sending(&self, start: u64, end: u64, pieces: &mut Vec<(u64, Bytes)>) {
        if start >= end {
            return;
        }
        let first = self.sending.range(..=start).next_back().map_or(start, |(at, _)| *at);
        for (at, bytes) in self.sending.range(first..end) {
            let (from, to) = (start.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                pieces.push((from, bytes.slice((from - at) as usize..(to - at) as usize)));
            }
        }
    }

    /// Fresh ranges that may be sent now, in order: a block that is on its way must arrive first.
    pub fn ready(&self) -> Vec<(u64, u64)> {
        let mut ready = Vec::new();
        for (mut from, to) in self.ranges(0, u64::MAX) {
            while from < to {
                let window = (block_start(from), block_end(to));
                let Some((busy_start, busy_end)) = self.first_sending(window.0, window.1) else {
                    ready.push((from, to));
                    break;
                };
                if from < busy_start.min(to) {
                    ready.push((from, busy_start.min(to)));
                }
                from = busy_end;
            }
        }
        ready
    }

    /// The first blocks in the range that are on their way.
    fn first_sending(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let before =
            self.sending.range(..start).next_back().filter(|(at, b)| *at + b.len() as u64 > start);
        let (at, bytes) = before.or_else(|| self.sending.range(start..end).next())?;
        Some((block_start(*at), block_end(at + bytes.len() as u64)))
    }

    /// These fresh bytes go on their way; all of them are fresh.
    pub fn send(&mut self, start: u64, end: u64) -> Bytes {
        for at in [start, end] {
            if let Some((from, body)) = self.fresh.range_mut(..at).next_back()
                && from + body.len() > at
            {
                let rest = body.split_off(at - from);
                self.fresh.insert(at, rest);
            }
        }
        let extents: Vec<u64> = self.fresh.range(start..end).map(|(at, _)| *at).collect();
        let mut bodies = extents.iter().filter_map(|at| self.fresh.remove(at));
        let bytes = match (bodies.next(), extents.len()) {
            (Some(only), 1) => only.freeze(),
            (first, _) => {
                let mut all = BytesMut::with_capacity((end - start) as usize);
                first
                    .into_iter()
                    .chain(bodies)
                    .for_each(|body| all.extend_from_slice(&body.freeze()));
                all.freeze()
            }
        };
        debug_assert_eq!(bytes.len() as u64, end - start);
        self.sending.insert(start, bytes.clone());
        bytes
    }

    /// The bytes that [`DirtyBytes::send`] gave out from `start` on are stored, or lost.
    pub fn sent(&mut self, start: u64) {
        self.sending.remove(&start);
    }

    /// The bytes that [`DirtyBytes::send`] gave out from `start` on are not stored. They wait
    /// again, except where newer bytes wait.
    pub(crate) fn unsend(&mut self, start: u64) {
        let Some(bytes) = self.sending.remove(&start) else { return };
        let (end, mut at) = (start + bytes.len() as u64, start);
        let newer: Vec<(u64, u64)> = self.ranges(start, end).collect();
        for (from, to) in newer.into_iter().chain([(end, end)]) {
            if at < from {
                let gap = bytes.slice((at - start) as usize..(from - start) as usize);
                self.fresh.insert(at, Body::Given(gap));
            }
            at = to;
        }
    }

    /// The first waiting byte, and the end of the last one.
    pub fn span(&self) -> Option<(u64, u64)> {
        let (last, body) = self.fresh.last_key_value()?;
        Some((*self.fresh.first_key_value()?.0, last + body.len()))
    }

    /// Waiting ranges, in order; adjacent ones are not joined.
    pub fn fresh(&self) -> Vec<(u64, u64)> {
        self.ranges(0, u64::MAX).collect()
    }

    /// Dirty ranges with a byte at or beyond `start`: those that wait, then those on their way.
    pub(crate) fn dirty_from(&self, start: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let end = |at: &u64, bytes: &Bytes| at + bytes.len() as u64;
        let before = self
            .sending
            .range(..start)
            .next_back()
            .filter(move |(at, bytes)| end(at, bytes) > start);
        let sending = before.into_iter().chain(self.sending.range(start..));
        self.ranges(start, u64::MAX).chain(sending.map(move |(at, bytes)| (*at, end(at, bytes))))
    }

    /// Blocks with fresh bytes.
    pub(crate) fn fresh_blocks(&self) -> u64 {
        self.touched(0, u64::MAX)
    }

    /// All fresh bytes are lost.
    pub fn forget(&mut self) {
        self.fresh.clear();
    }

    /// Fresh ranges within `[start, end)`, neighbours not joined.
    fn ranges(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let before =
            self.fresh.range(..start).next_back().filter(|(at, body)| *at + body.len() > start);
        let within = self.fresh.range(start..end.max(start));
        before
            .into_iter()
            .chain(within)
            .map(move |(at, body)| (start.max(*at), end.min(at + body.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: u64 = 64 << 10;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, u64, u8),
        Cut(u64),
        Clear(u64, u64),
        /// Send the n-th of what is ready.
        Send(usize),
        /// The n-th that is on its way arrives.
        Sent(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = (0..LEN, 1..20_000u64);
        prop_oneof![
            4 => (range.clone(), any::<u8>()).prop_map(|((at, len), n)| Step::Write(at, len.min(LEN - at), n)),
            1 => (0..LEN).prop_map(Step::Cut),
            1 => range.prop_map(|(at, len)| Step::Clear(at, len.min(LEN - at))),
            3 => any::<usize>().prop_map(Step::Send),
            3 => any::<usize>().prop_map(Step::Sent),
        ]
    }

    fn shown(dirty: &DirtyBytes, stored: &[u8], start: u64, end: u64) -> Vec<u8> {
        let mut bytes = stored[start as usize..end as usize].to_vec();
        let mut at = start;
        for (from, piece) in dirty.overlay(start, end) {
            assert!(from >= at, "in order");
            at = from + piece.len() as u64;
            assert!(at <= end);
            bytes[(from - start) as usize..(at - start) as usize].copy_from_slice(&piece);
        }
        bytes
    }

    proptest! {
        /// Compared with a plain array: every write is shown, whatever arrives in whatever order.
        #[test]
        fn it_is_a_byte_array(steps in prop::collection::vec(step(), 1..80), look in (0..LEN, 0..LEN)) {
            let (mut model, mut stored) = (vec![0u8; LEN as usize], vec![0u8; LEN as usize]);
            let mut fresh = vec![false; LEN as usize];
            let mut dirty = DirtyBytes::default();
            let mut on_the_way: Vec<(u64, Bytes)> = Vec::new();
            for step in steps {
                match step {
                    Step::Write(at, len, n) => {
                        let (from, to) = (at as usize, (at + len) as usize);
                        let touched = |fresh: &[bool]| fresh.chunks(GRANT_UNIT as usize).filter(|b| b.contains(&true)).count();
                        let before = touched(&fresh);
                        fresh[from..to].fill(true);
                        prop_assert_eq!(dirty.new_blocks(at, at + len), (touched(&fresh) - before) as u64);
                        dirty.insert(at, &vec![n; len as usize].into());
                        model[from..to].fill(n);
                    }
                    Step::Clear(at, len) => {
                        // Bytes that were overwritten in another way, once none of them is on its
                        // way.
                        if !dirty.is_sending(at, at + len) {
                            let range = at as usize..(at + len) as usize;
                            dirty.clear(at, at + len);
                            fresh[range.clone()].fill(false);
                            stored[range.clone()].fill(0xee);
                            model[range].fill(0xee);
                        }
                    }
                    Step::Cut(at) => {
                        if !dirty.is_sending(at, u64::MAX) {
                            dirty.clear(at, u64::MAX);
                            for bytes in [&mut model, &mut stored] {
                                bytes[at as usize..].fill(0);
                            }
                            fresh[at as usize..].fill(false);
                        }
                    }
                    Step::Send(n) => {
                        let ready = dirty.ready();
                        if let Some((from, to)) = ready.get(n % ready.len().max(1)).copied() {
                            let apart = on_the_way.iter().all(|(at, bytes)| {
                                let busy = (block_start(*at), block_end(at + bytes.len() as u64));
                                block_end(to) <= busy.0 || block_start(from) >= busy.1
                            });
                            prop_assert!(apart, "a block on its way twice");
                            let bytes = dirty.send(from, to);
                            fresh[from as usize..to as usize].fill(false);
                            on_the_way.push((from, bytes));
                        }
                    }
                    Step::Sent(n) => {
                        if !on_the_way.is_empty() {
                            let (from, bytes) = on_the_way.swap_remove(n % on_the_way.len());
                            stored[from as usize..from as usize + bytes.len()].copy_from_slice(&bytes);
                            dirty.sent(from);
                        }
                    }
                }
                let all = dirty.touched(0, LEN);
                prop_assert_eq!(all, fresh.chunks(GRANT_UNIT as usize).filter(|b| b.contains(&true)).count() as u64);
                prop_assert_eq!(dirty.has_fresh(), fresh.contains(&true));
                let (start, end) = (look.0.min(look.1), look.0.max(look.1));
                prop_assert_eq!(shown(&dirty, &stored, start, end), &model[start as usize..end as usize]);
            }
            prop_assert_eq!(shown(&dirty, &stored, 0, LEN), model);
        }
    }

    #[test]
    fn what_was_not_stored_waits_again_below_what_is_newer() {
        let mut dirty = DirtyBytes::default();
        dirty.insert(0, &Bytes::from(vec![1; 10]));
        dirty.send(0, 10);
        dirty.insert(3, &Bytes::from(vec![2; 2]));
        dirty.unsend(0);
        assert!(!dirty.is_sending(0, 100));
        assert_eq!(shown(&dirty, &[0; 10], 0, 10), [1, 1, 1, 2, 2, 1, 1, 1, 1, 1]);
        assert_eq!(dirty.ready(), [(0, 3), (3, 5), (5, 10)]);
    }

    #[test]
    fn neighbours_become_one_and_large_writes_stay_as_they_came() {
        let mut dirty = DirtyBytes::default();
        for n in 0..100u64 {
            dirty.insert(n * 1000, &vec![n as u8; 1000].into());
        }
        assert_eq!(dirty.ready(), [(0, 100_000)]);
        let large = Bytes::from(vec![1; COPY_BYTES_MAX]);
        dirty.insert(1 << 20, &large);
        assert_eq!(dirty.send(1 << 20, (1 << 20) + COPY_BYTES_MAX as u64).as_ptr(), large.as_ptr());
        assert!(dirty.is_sending(0, 2 << 20) && !dirty.is_sending(0, 1 << 20));
        dirty.forget();
        dirty.sent(1 << 20);
        assert!(dirty.is_clean());
    }
}
