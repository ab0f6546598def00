//! Pieces of one file that were fetched ahead, or are on their way. Pure.
//!
//! They belong to one *tenure* of DATA: the time from the grant of the lock to its end. With
//! another tenure all of them go. A piece goes when it was read to its end, too: the kernel, or the
//! program, has it then.

use crate::read_ahead::ledger::Charge;
use bytes::Bytes;
use env::watch;
use observe::mutant::{Mutant, is_mutant};
use std::collections::BTreeMap;
use types::ranges::ByteRange;

/// A part of a range, as far as it was fetched ahead.
pub(crate) enum Segment {
    /// These bytes.
    Here(Vec<Bytes>),
    /// Fetched: to be looked at again when the sender is gone.
    Coming(ByteRange, watch::Receiver<()>),
    /// Not fetched.
    Missing(ByteRange),
}

enum State {
    Coming(watch::Receiver<()>),
    Here(Vec<Bytes>),
}

struct Piece {
    end: u64,
    number: u64,
    state: State,
    charge: Charge,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pieces {
    tenure: u64,
    by_start: BTreeMap<u64, Piece>,
    next: u64,
}

impl Pieces {
    /// DATA is held in this tenure; what was fetched under an earlier one goes. `false`: it is one
    /// that is over.
    pub(crate) fn is_of(&mut self, tenure: u64) -> bool {
        if is_mutant(Mutant::AheadUnlocked) {
            return true;
        }
        if tenure > self.tenure {
            self.clear();
            self.tenure = tenure;
        }
        tenure == self.tenure
    }

    /// All go; what is on its way is dropped when it comes.
    pub(crate) fn clear(&mut self) {
        self.by_start.clear();
    }

    /// True if there is none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// `[start, end)` in parts, in order. Bytes that are here count as read.
    pub(crate) fn read(&mut self, ByteRange { start, end }: ByteRange) -> Vec<Segment> {
        let mut parts = Vec::with_capacity(1);
        let mut at = start;
        while at < end {
            let before = self.by_start.range(..=at).next_back().filter(|(_, piece)| at < piece.end);
            let Some(first) = before.map(|(first, _)| *first) else {
                let next = self.by_start.range(at..end).next().map_or(end, |(next, _)| *next);
                parts.push(Segment::Missing(ByteRange::new(at, next)));
                at = next;
                continue;
            };
            let Some(piece) = self.by_start.get_mut(&first) else { break };
            let until = end.min(piece.end);
            match &piece.state {
                State::Coming(done) => {
                    parts.push(Segment::Coming(ByteRange::new(at, until), done.clone()));
                }
                State::Here(data) => {
                    parts.push(Segment::Here(slice(data, at - first, until - first)));
                    if piece.charge.read(until - at) {
                        self.by_start.remove(&first);
                    }
                }
            }
            at = until;
        }
        parts
    }

    /// `[start, end)` is asked for. The result ends, dropped, when it is here; `None`: some of it
    /// was fetched already.
    pub(crate) fn ask(
        &mut self,
        range: ByteRange,
        mut charge: Charge,
    ) -> Option<(u64, watch::Sender<()>)> {
        if self.overlaps(range.start, range.end) {
            charge.brought_nothing();
            return None;
        }
        self.next += 1;
        let (number, done) = (self.next, watch::Sender::new(()));
        let state = State::Coming(done.subscribe());
        self.by_start.insert(range.start, Piece { end: range.end, number, state, charge });
        Some((number, done))
    }

    /// The answer to what was asked for under this number; `None`: it failed.
    pub(crate) fn arrived(&mut self, start: u64, number: u64, data: Option<Vec<Bytes>>) {
        let Some(piece) = self.by_start.get_mut(&start).filter(|piece| piece.number == number)
        else {
            return;
        };
        let whole = |data: &Vec<Bytes>| {
            data.iter().map(|bytes| bytes.len() as u64).sum::<u64>() == piece.end - start
        };
        match data.filter(whole) {
            Some(data) => piece.state = State::Here(data),
            None => {
                piece.charge.brought_nothing();
                self.by_start.remove(&start);
            }
        }
    }

    /// Where the pieces end that lie behind each other from `at` on; `at` if none is there.
    pub(crate) fn covered_to(&self, at: u64) -> u64 {
        let before = self.by_start.range(..=at).next_back();
        let mut to = before.map_or(at, |(_, piece)| piece.end.max(at));
        for (start, piece) in self.by_start.range(at..) {
            if *start > to {
                break;
            }
            to = to.max(piece.end);
        }
        to
    }

    /// Where the pieces begin that lie before each other down from `at`; `at` if none is there.
    pub(crate) fn covered_from(&self, at: u64) -> u64 {
        let mut from = at;
        for (start, piece) in self.by_start.range(..at).rev() {
            if piece.end < from {
                break;
            }
            from = *start;
        }
        from
    }

    /// True if some of `[start, end)` is here or on its way.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.by_start.range(..end).next_back().is_some_and(|(_, piece)| piece.end > start)
    }
}

/// `[start, end)` of bytes in pieces.
fn slice(data: &[Bytes], start: u64, end: u64) -> Vec<Bytes> {
    let mut sliced = Vec::with_capacity(1);
    let mut at = 0;
    for bytes in data {
        let len = bytes.len() as u64;
        let (from, until) = (start.max(at), end.min(at + len));
        if from < until {
            sliced.push(bytes.slice((from - at) as usize..(until - at) as usize));
        }
        at += len;
    }
    sliced
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
