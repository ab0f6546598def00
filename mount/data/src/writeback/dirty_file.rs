//! Traces of one file's writes: bytes that no object has, size and times that the MDT does not
//! know. Pure.
//!
//! **Invariants:** every block with fresh bytes was reserved of a grant once. A report to the MDT
//! is forgotten here only after the MDT has answered, so at every moment either the table of locks
//! (which reads answers first) or this has the newest size and times. The MDT is told of no byte
//! that is not stored, nor of one behind an earlier write that is not: requests overtake one
//! another, but a client that dies leaves a prefix of its sequential writes.

use crate::cache::batch::Batch;
use crate::cache::dirty::DirtyBytes;
use crate::writeback::failures::Failures;
use crate::writeback::under_way::UnderWay;
use bytes::Bytes;
use env::clock::Monotonic;
use rpc::error::RpcError;
use std::collections::BTreeSet;
use types::attr::{Attr, WrittenAt};
use types::credentials::Credentials;
use types::errno::Errno;
use types::job::JobId;
use types::ranges::{ByteRange, Ranges};
use types::time::Timestamp;

/// See the module.
#[derive(Default)]
pub struct DirtyFile {
    /// The bytes.
    pub bytes: DirtyBytes,
    /// Blocks with fresh bytes; this many are reserved.
    pub blocks: u64,
    /// Since when something waits to be sent.
    pub since: Option<Monotonic>,
    /// What is being sent.
    pub under_way: UnderWay,
    /// Those of the requests under way that go to the MDT: one after the other, in this order.
    on_mdt: BTreeSet<u64>,
    /// Last writer, and its job.
    pub writer: (Credentials, JobId),
    /// How often all of it was discarded: work begun before is then void.
    pub discards: u64,
    /// While anything below is unreported: size of the file with these writes, bytes.
    size: u64,
    /// As `size`: of the newest write.
    mtime: Timestamp,
    /// The newest of these times that another client may have seen.
    shown: Timestamp,
    size_unreported: bool,
    time_unreported: bool,
    /// End of the unreported writes.
    written_end: u64,
    /// While anything is unreported: size that the MDT showed, bytes.
    known: u64,
    /// As `known`, but the size that is certainly in the MDT's record. For a file that several
    /// clients write, the MDT may have shown bytes that another client has not stored, and may
    /// lose.
    recorded: u64,
    /// While anything is unreported: see [`Base::alone`].
    alone: Option<u64>,
    /// Data beyond `recorded` that is stored.
    stored: Ranges,
    /// How often unreported writes began anew.
    begins: u64,
    /// When the writes ended here, everything that was written so far, at any offset, came to be
    /// stored since.
    sure_end: u64,
    /// Once all requests up to this number are answered, that is so of this mark.
    next_sure: Option<(u64, Mark)>,
    /// Since when something is stored that the MDT does not know.
    stored_since: Option<Monotonic>,
    /// While anything is unreported: the largest end ever sent to objects beyond `known`.
    sent_end: u64,
    /// Growth of objects, 512-byte blocks.
    grown: i64,
    /// Losses.
    pub failures: Failures,
}

/// State of a file when it is written.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// Attributes from the MDT.
    pub attr: Attr,
    /// If only this mount writes the file: how often any file came to be shared by extents here so
    /// far. While that count stays, this mount is still the only one.
    pub alone: Option<u64>,
}

/// A moment in the unreported writes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    begins: u64,
    /// Where they ended.
    end: u64,
}

/// A report to the MDT that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WroteReport {
    /// Of `MdsOp::Wrote`.
    pub end: u64,
    /// Of `MdsOp::Wrote`.
    pub grown: i64,
    /// Of `MdsOp::Wrote`.
    pub at: WrittenAt,
    /// When it was made.
    made: Monotonic,
    discards: u64,
}

impl DirtyFile {
    /// Nothing dirty, for a file with these losses.
    pub fn with(failures: Failures) -> DirtyFile {
        DirtyFile { failures, ..DirtyFile::default() }
    }

    /// Size with these writes, if the MDT does not know all; else `None`.
    pub fn size(&self) -> Option<u64> {
        (self.size_unreported || self.time_unreported).then_some(self.size)
    }

    /// Time of the newest write, if the MDT does not know it.
    pub fn mtime(&self) -> Option<Timestamp> {
        self.time_unreported.then_some(self.mtime)
    }

    /// As [`DirtyFile::mtime`], for another client: a later write has a later time.
    pub(crate) fn show_mtime(&mut self) -> Option<Timestamp> {
        self.shown = self.mtime;
        self.mtime()
    }

    /// True if there is nothing to store and nothing to report.
    pub fn is_clean(&self) -> bool {
        self.bytes.is_clean() && !self.has_unreported()
    }

    /// True if there is anything to report.
    pub(crate) fn has_unreported(&self) -> bool {
        self.size_unreported || self.time_unreported || self.grown != 0
    }

    /// Bytes were written, `blocks` blocks of them reserved now. `base`: attributes from the MDT;
    /// unreported ones take precedence.
    pub fn wrote(
        &mut self,
        start: u64,
        data: &Bytes,
        blocks: u64,
        base: &Base,
        now: (Monotonic, Timestamp),
    ) {
        let Base { attr: base, alone } = base;
        let (size, mtime) = match self.size() {
            Some(size) => (size, if self.time_unreported { self.mtime } else { base.mtime }),
            None => {
                // Data stored earlier lies within that, and others may have cut the file since.
                (self.known, self.stored, self.written_end) = (base.size, Ranges::default(), 0);
                (self.begins, self.sure_end, self.next_sure) = (self.begins + 1, 0, None);
                self.alone = *alone;
                self.recorded = if alone.is_some() { base.size } else { 0 };
                if self.bytes.is_clean() {
                    self.sent_end = 0;
                }
                (base.size, base.mtime)
            }
        };
        let end = start + data.len() as u64;
        self.bytes.insert(start, data);
        self.blocks += blocks;
        self.since.get_or_insert(now.0);
        self.size = size.max(end);
        self.written_end = self.written_end.max(end);
        self.size_unreported |= end > self.recorded;
        self.alone = self.alone.filter(|_| self.alone == *alone);
        // Other kernels see by a new mtime that their pages are old.
        let seen = mtime == self.shown || !self.time_unreported;
        self.mtime = now.1.max(Timestamp::from_nanos(mtime.as_nanos() + i128::from(seen)));
        self.time_unreported = true;
    }

    /// The offset from which on objects hold nothing: all bytes written there are here. `None`:
    /// unknown. Only for a mount that holds the whole file for writing, and did so when it wrote
    /// these bytes (`alone`: as [`Base::alone`], now). Then objects hold nothing beyond the size
    /// that the MDT knows, except bytes that were sent since.
    pub(crate) fn objects_end(&self, alone: u64) -> Option<u64> {
        let known =
            self.size().is_some() && self.failures.count() == 0 && self.alone == Some(alone);
        known.then(|| self.recorded.max(self.sent_end))
    }

    /// A request's bytes go on their way.
    pub fn send(&mut self, batch: &Batch) -> Vec<Bytes> {
        self.sent_end =
            batch.pieces.iter().map(|piece| piece.file + piece.len).fold(self.sent_end, u64::max);
        self.blocks = self.blocks.saturating_sub(batch.blocks);
        let bytes = batch
            .pieces
            .iter()
            .map(|piece| self.bytes.send(piece.file, piece.file + piece.len))
            .collect();
        if !self.bytes.has_fresh() {
            self.since = None;
        }
        bytes
    }

    /// The request of this number goes to the MDT.
    pub(crate) fn goes_to_mdt(&mut self, number: u64) {
        self.on_mdt.insert(number);
    }

    /// True if a request to the MDT is under way. What was written since waits for it, so that the
    /// MDT has the bytes in the order in which they were written.
    pub(crate) fn is_on_mdt(&self) -> bool {
        !self.on_mdt.is_empty()
    }

    /// True if it is this request's turn.
    pub(crate) fn is_next_on_mdt(&self, number: u64) -> bool {
        self.on_mdt.first().is_none_or(|first| *first >= number)
    }

    /// Everything that waited is on its way now.
    pub(crate) fn all_sent(&mut self) {
        let mark = self.mark();
        self.next_sure.get_or_insert((self.under_way.last(), mark));
    }

    /// A request ended; `unanswered`: its bytes wait again.
    pub(crate) fn request_ended(&mut self, number: u64, unanswered: Option<RpcError>) {
        if unanswered.is_some() {
            self.next_sure = None;
        }
        self.on_mdt.remove(&number);
        self.under_way.ended(number, unanswered);
        if let Some((_, mark)) = self.next_sure.take_if(|(last, _)| self.under_way.is_over(*last)) {
            self.is_sure_of(mark);
        }
    }

    /// Everything that was written up to this moment is stored, or lost.
    pub(crate) fn is_sure_of(&mut self, mark: Mark) {
        if mark.begins == self.begins {
            self.sure_end = self.sure_end.max(mark.end);
        }
    }

    /// This moment.
    pub(crate) fn mark(&self) -> Mark {
        Mark { begins: self.begins, end: self.written_end }
    }

    /// A request's bytes are not stored and wait again; returns by how many blocks the waiting ones
    /// grew.
    pub(crate) fn unsend(&mut self, batch: &Batch, now: Monotonic) -> u64 {
        batch.pieces.iter().for_each(|piece| self.bytes.unsend(piece.file));
        let before = std::mem::replace(&mut self.blocks, self.bytes.fresh_blocks());
        if self.bytes.has_fresh() {
            self.since.get_or_insert(now);
        }
        self.blocks.saturating_sub(before)
    }

    /// `[start, end)` is stored.
    pub fn stored(&mut self, start: u64, end: u64, now: Monotonic) {
        self.stored.insert(ByteRange::new(start.max(self.recorded), end));
        self.stored_since.get_or_insert(now);
    }

    /// Objects grew by so many 512-byte blocks.
    pub fn grew(&mut self, blocks: i64) {
        self.grown += blocks;
    }

    /// Since when something is stored that the MDT does not know; `None`: nothing is.
    pub fn stored_since(&self) -> Option<Monotonic> {
        self.stored_since.filter(|_| self.has_unreported())
    }

    /// End of the data that is stored and not reported.
    fn stored_end(&self) -> u64 {
        self.stored.iter().next_back().map_or(0, |last| last.end)
    }

    /// End of the stored data without a byte before it that was written earlier and never stored;
    /// 0: not beyond the end that is recorded.
    fn stored_prefix(&self) -> u64 {
        let missing = |(start, end): (u64, u64)| {
            let range = ByteRange::new(start.max(self.recorded), end);
            match self.stored.overlapping(range).next() {
                _ if range.is_empty() || self.stored.covers(range) => None,
                Some(first) if first.start <= range.start => Some(first.end),
                _ => Some(range.start),
            }
        };
        let missing = self.bytes.dirty_from(self.recorded).filter_map(missing).min();
        // What is missing before the sure end was written later.
        let prefix = missing.unwrap_or(u64::MAX).max(self.sure_end);
        let within = self.stored.overlapping(ByteRange::new(self.recorded, prefix)).last();
        within.map_or(0, |last| last.end.min(prefix))
    }

    /// The report to make to the MDT now; `None`: none.
    pub fn report(&mut self, now: Monotonic) -> Option<WroteReport> {
        self.shown = self.mtime;
        let all_stored = self.bytes.is_clean();
        let end = match self.size_unreported {
            true if all_stored => self.written_end,
            true => self.stored_prefix(),
            false => 0,
        };
        let at = if self.time_unreported { WrittenAt::At(self.mtime) } else { WrittenAt::Told };
        let worth = end > 0 || self.grown != 0 || (self.time_unreported && all_stored);
        worth.then_some(WroteReport {
            end,
            grown: self.grown,
            at,
            made: now,
            discards: self.discards,
        })
    }

    /// What the MDT learns with bytes up to `end` that it stores itself: one change has both.
    pub(crate) fn report_with(&mut self, end: u64, now: Monotonic) -> WroteReport {
        self.shown = self.mtime;
        let at = if self.time_unreported { WrittenAt::At(self.mtime) } else { WrittenAt::Told };
        WroteReport { end, grown: 0, at, made: now, discards: self.discards }
    }

    /// The report to make before a change of attributes, so that it comes after the time of the
    /// newest write.
    pub(crate) fn report_time(&mut self, now: Monotonic) -> Option<WroteReport> {
        self.shown = self.mtime;
        let (at, discards) = (WrittenAt::At(self.mtime), self.discards);
        self.time_unreported.then_some(WroteReport { end: 0, grown: 0, at, made: now, discards })
    }

    /// The MDT has answered.
    pub fn reported(&mut self, what: &WroteReport) {
        if what.discards != self.discards {
            return;
        }
        self.grown -= what.grown;
        self.known = self.known.max(what.end);
        self.recorded = self.recorded.max(what.end);
        self.stored.remove(ByteRange::new(0, self.recorded));
        if what.end > 0 || what.grown != 0 {
            // What was stored since then has waited since then at most.
            let more = self.grown != 0 || !self.stored.is_empty();
            self.stored_since = more.then_some(what.made);
        }
        if what.end >= self.written_end {
            self.size_unreported = false;
        }
        if what.at == WrittenAt::At(self.mtime) {
            self.time_unreported = false;
        }
    }

    /// Everything is lost, or of no use any more.
    pub fn drop_all(&mut self) {
        self.bytes.forget();
        self.discards += 1;
        (self.size_unreported, self.time_unreported, self.stored, self.sent_end, self.grown) =
            (false, false, Ranges::default(), 0, 0);
        (self.sure_end, self.next_sure) = (0, None);
        (self.since, self.stored_since, self.blocks) = (None, None, 0);
    }

    /// Something that was answered is lost: see [`super::failures`].
    pub fn fail(&mut self, errno: Errno) {
        self.failures.fail(errno);
        // The file ends at its known end, or at that of the remaining data.
        let remains = self.stored_end().max(self.bytes.end());
        self.size = self.size.min(self.known.max(remains));
        self.written_end = self.written_end.min(self.recorded.max(remains));
        self.size_unreported &= self.written_end > self.recorded;
    }
}

#[cfg(test)]
mod tests;
