//! Read-ahead acts: what is decided is asked of the objects, and reads are served from what came.
//!
//! A read that needs bytes which are on their way waits for them, and not a moment longer than it
//! may: when DATA is called back it asks for them itself. The callback waits for the read (the
//! kernel holds its pages meanwhile), so nothing that the callback holds up may hold up the read.

use crate::file::File;
use crate::handle::FileHandle;
use crate::locks::data_guards::DataAccess;
use crate::path::DataPath;
use crate::read_ahead::ledger::{self, Fetched, Share};
use crate::read_ahead::pieces::Segment;
use crate::read_ahead::readers::{Begins, Course, Wanted, Window};
use crate::read_ahead::{Ahead, State};
use bytes::Bytes;
use env::watch;
use futures_util::future::try_join_all;
use observe::cause::{self, follow_job};
use session::error::ClientError;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use types::credentials::Credentials;
use types::fid::Fid;
use types::ranges::ByteRange;
use types::target::TargetIndex;
use wire::mds::{MdsOp, MdsReply, Read};

/// Bytes ahead of a reader, of each target that the file has there: at least so many, over a short
/// line and over a long one. A short line carries less, but a target may have to ask its disk.
const REACH_MIN: u64 = 4 << 20;
const REACH_MIN_FAR: u64 = 16 << 20;
/// Largest request. A large one travels on one connection, and waits for it if that lost a packet:
/// many small ones are spread by what each connection has on its way.
const UNIT: u64 = 1 << 20;
/// First bytes of a file that a program is about to open, over a short line and over a long one.
const FIRST: u64 = 1 << 20;
const FIRST_FAR: u64 = 4 << 20;
/// The same of the first files of a directory: the pieces of each are spread over all connections,
/// so the files come one after the other and not all at last.
const UNIT_START: u64 = 256 << 10;
/// Smallest one that does not end with the file.
const UNIT_MIN: u64 = 32 << 10;
/// Files on an MDT that one request reads, and their bytes.
const TOGETHER_MAX: usize = 64;
const TOGETHER_BYTES_MAX: u64 = 1 << 20;
/// Targets of a file that are counted.
const TARGETS_MAX: usize = 64;

impl Fetched for File {
    fn last_use(&self) -> &AtomicU64 {
        &self.ahead.last_use
    }

    fn forget(&self) {
        self.ahead.forget();
    }
}

impl DataPath {
    /// `[start, end)` of the objects, under DATA of the whole file, the gate shared; the file ends
    /// at `end` or behind it.
    pub(crate) async fn read_ahead(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
        range: ByteRange,
        ahead: Ahead,
    ) -> Result<Vec<Bytes>, ClientError> {
        let share = self.ledger.share(file, self.session.env.clock.now());
        let (mut parts, course, begins) = {
            let State { readers, pieces } = &mut *file.ahead.state.lock();
            let how = (share.habit, share.eager);
            let (course, begins) = readers.read(ahead.handle.0, range, ahead.size, how);
            let parts = match pieces.is_of(ahead.tenure) {
                true => pieces.read(range),
                false => vec![Segment::Missing(range)],
            };
            (parts, course, begins)
        };
        if begins == Begins::Elsewhere && ahead.size <= share.whole {
            self.ledger.note_habit(false);
        }
        self.ledger.note(read_of(&parts, course));
        let wanted = self.plan(file, course, share, ahead.size);
        if let [Segment::Here(data)] = parts.as_mut_slice() {
            self.fetch_ahead(file, wanted, ahead.tenure);
            return Ok(std::mem::take(data));
        }
        let parts =
            parts.into_iter().map(|part| self.segment(credentials, file, part, ahead.tenure));
        // What the reader waits for is asked first.
        let (read, ()) = futures_util::join!(try_join_all(parts), async {
            self.fetch_ahead(file, wanted, ahead.tenure);
        });
        Ok(read?.concat())
    }

    /// Fetches the first bytes of files that a program is about to open, and will find open under
    /// locks. The results keep them. Not in them: files that are in use, or that locks do not
    /// cover. What lives on an MDT is asked for together.
    /// `starts`: the program will be there before all have come.
    pub fn fetch_first(&self, fids: &[Fid], starts: bool) -> Vec<(Fid, Arc<File>)> {
        let mut together = Together(Vec::new());
        let mut fetched = Vec::with_capacity(fids.len());
        for fid in fids.iter().filter(|fid| self.files.get_used(**fid).is_none()) {
            let file = self.fetch_first_of(*fid, starts, &mut together);
            fetched.extend(file.map(|file| (*fid, file)));
        }
        self.fetch_together(together);
        fetched
    }

    /// Fetches the first bytes of a file that a program has opened under locks, and will read. They
    /// go with its close.
    pub fn fetch_opened(&self, fid: Fid) {
        let mut together = Together(Vec::new());
        // The open file keeps them.
        _ = self.fetch_first_of(fid, true, &mut together);
        self.fetch_together(together);
    }

    fn fetch_together(&self, together: Together<Asked>) {
        for Batch { pieces, .. } in together.0 {
            let Some(me) = self.strong() else { break };
            let read = follow_job(cause::job(), async move { me.read_together(pieces).await });
            self.session.env.tasks.spawn("read ahead", Box::pin(read));
        }
    }

    fn fetch_first_of(
        &self,
        fid: Fid,
        starts: bool,
        together: &mut Together<Asked>,
    ) -> Option<Arc<File>> {
        let (layout, size) = {
            let mut table = self.locks.table.lock();
            (table.layout(fid).filter(|_| table.opens_to_read(fid))?, table.attr(fid)?.attr.size)
        };
        if self.writeback.has_pages(fid) {
            return None;
        }
        let guard = self.try_data_guard(fid, DataAccess::READ_ALL)?;
        let file = self.files.get(fid);
        let on_mdt = layout.mdt_bytes();
        file.learn_layout(layout);
        let Ok(gate) = file.gate.try_read() else { return None };
        let (_, most) = self.line(&file, 0);
        let first = ByteRange::new(0, size.min(most));
        if size > 0 && first.end <= on_mdt {
            if !self.locks.is_stopped(fid)
                && let Ask::Coming(asked) = self.ask_ahead(&file, first, guard.tenure())
            {
                together.add(fid.mdt(), first.end, asked);
            }
        } else if size > 0 {
            let unit = if starts { UNIT_START } else { first.end };
            let starts = (0..first.end).step_by(unit as usize);
            let pieces = starts.map(|at| ByteRange::new(at, first.end.min(at + unit)));
            self.fetch_ahead(&file, pieces.collect(), guard.tenure());
        }
        drop((gate, guard));
        Some(file)
    }

    /// Reads files of one MDT, all in one request. One that cannot be read ends a request: those
    /// behind it are asked for again.
    async fn read_together(&self, mut batch: VecDeque<Asked>) {
        while let Some(first) = batch.front() {
            let op = |asked: &Asked| {
                let (offset, end) = (asked.range.start, asked.range.end);
                MdsOp::Read(Read { fid: asked.file.fid, offset, len: (end - offset) as u32 })
            };
            let ops = batch.iter().map(op).collect();
            let answer = match self.session.mdc(first.file.fid) {
                Ok(mdc) => mdc.ask(&Credentials::root(), ops).await.map_err(ClientError::from),
                Err(error) => Err(error),
            };
            let results = answer.unwrap_or_else(|error| {
                tracing::debug!(fid = %first.file.fid, files = batch.len(), %error, "read ahead");
                Vec::new()
            });
            let done = results.iter().take_while(|result| result.is_ok()).count();
            // Without any answer nothing of it comes.
            let over = if results.is_empty() { batch.len() } else { (done + 1).min(batch.len()) };
            let mut results = results.into_iter();
            for asked in batch.drain(..over) {
                asked.arrived(match results.next() {
                    Some(Ok(MdsReply::Data { data, .. })) => Some(vec![data]),
                    _ => None,
                });
            }
        }
    }

    /// An open file is closed.
    pub fn closed(&self, file: &File, handle: FileHandle) {
        let (to_end, unread) = {
            let State { readers, pieces } = &mut *file.ahead.state.lock();
            let to_end = readers.closed(handle.0);
            if readers.is_empty() {
                pieces.clear();
            }
            (to_end, readers.is_empty())
        };
        if let Some(to_end) = to_end {
            self.ledger.note_habit(to_end);
        }
        if unread {
            self.ledger.left(file);
        }
    }

    async fn segment(
        &self,
        credentials: &Credentials,
        file: &File,
        part: Segment,
        tenure: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        let range = match part {
            Segment::Here(data) => return Ok(data),
            Segment::Missing(range) => range,
            Segment::Coming(range, mut done) => {
                tokio::select! {
                    biased;
                    () = self.locks.data_stopped(file.fid) => {}
                    // Its sender is gone, whether it came or not.
                    _over = done.changed() => {
                        let pieces = &mut file.ahead.state.lock().pieces;
                        if pieces.is_of(tenure)
                            && let [Segment::Here(data)] = pieces.read(range).as_mut_slice()
                        {
                            return Ok(std::mem::take(data));
                        }
                    }
                }
                range
            }
        };
        self.read_known(credentials, file, range.start, range.end).await
    }

    fn plan(&self, file: &File, course: Course, share: Share, size: u64) -> Wanted {
        let Some(at) = course.at().filter(|_| share.reach > 0) else { return Wanted::new() };
        let (line, _) = self.line(file, at);
        let reach = share.reach.min(line);
        let unit = (1 << (reach / 4).max(1).ilog2()).clamp(UNIT_MIN, UNIT);
        let Share { whole, careful, .. } = share;
        let window = Window { size, reach, whole, unit, careful };
        course.plan(window, &file.ahead.state.lock().pieces)
    }

    /// Bytes that the lines to the targets of the file carry at once, twice, and how many are
    /// fetched before the file is opened.
    fn line(&self, file: &File, at: u64) -> (u64, u64) {
        let layout = file.layout();
        let component = layout.as_deref().and_then(|layout| {
            layout.component_at(at).and_then(|index| layout.components.get(index))
        });
        let stripes = component.map_or(&[][..], |component| &component.stripes);
        let mut seen = SmallVec::<[TargetIndex; 8]>::new();
        let (mut reach, mut first) = (0, FIRST);
        for ost in stripes.iter().take(TARGETS_MAX) {
            let Ok(osc) = self.session.targets.osc(*ost) else { continue };
            if !seen.contains(ost) {
                seen.push(*ost);
                let far = osc.import().is_far();
                let least = if far { REACH_MIN_FAR } else { REACH_MIN };
                first = if far { FIRST_FAR } else { first };
                reach += osc.import().in_flight().saturating_mul(2).max(least);
            }
        }
        (reach.max(REACH_MIN), first)
    }

    /// The caller has a guard of DATA in this tenure, and shares the gate.
    fn fetch_ahead(&self, file: &Arc<File>, wanted: Wanted, tenure: u64) {
        // A callback that begins now waits for the guard, and drops what is asked for.
        if wanted.is_empty() || self.locks.is_stopped(file.fid) {
            return;
        }
        for range in wanted {
            let asked = match self.ask_ahead(file, range, tenure) {
                Ask::Coming(asked) => asked,
                Ask::Known => continue,
                Ask::Nothing => return,
            };
            let Some(me) = self.strong() else { return };
            let fetch = async move {
                let (root, file) = (Credentials::root(), &asked.file);
                let read = me.read_known(&root, file, range.start, range.end).await;
                if let Err(error) = &read {
                    // A reader that needs it asks for itself, and meets the error.
                    tracing::debug!(fid = %file.fid, offset = range.start, %error, "read ahead");
                }
                asked.arrived(read.ok());
            };
            let fetch = follow_job(cause::job(), fetch);
            self.session.env.tasks.spawn("read ahead", Box::pin(fetch));
        }
    }

    /// A piece of a file is about to be asked for.
    fn ask_ahead(&self, file: &Arc<File>, range: ByteRange, tenure: u64) -> Ask {
        let Some(mut charge) = self.ledger.charge(range.end - range.start) else {
            return Ask::Nothing;
        };
        // A write that is absorbed waits here, and drops what is asked for.
        let dirty = file.dirty.lock();
        let pieces = &mut file.ahead.state.lock().pieces;
        if !dirty.is_clean() || !pieces.is_of(tenure) {
            charge.brought_nothing();
            return Ask::Nothing;
        }
        match pieces.ask(range, charge) {
            None => Ask::Known,
            Some((number, done)) => {
                Ask::Coming(Asked { file: file.clone(), range, number, _done: done })
            }
        }
    }
}

/// What became of a piece that was to be asked for.
enum Ask {
    Coming(Asked),
    /// It was fetched already, or some of it.
    Known,
    /// Neither it nor others: there is no room, or the file is not as it was.
    Nothing,
}

/// A piece that is on its way. Readers wait until it is dropped.
struct Asked {
    file: Arc<File>,
    range: ByteRange,
    number: u64,
    _done: watch::Sender<()>,
}

impl Asked {
    /// It is here; `None`: it does not come.
    fn arrived(self, data: Option<Vec<Bytes>>) {
        self.file.ahead.state.lock().pieces.arrived(self.range.start, self.number, data);
    }
}

/// What one request asks an MDT for.
struct Batch<T> {
    mdt: u16,
    bytes: u64,
    pieces: VecDeque<T>,
}

/// Pieces to be asked for together, in any order of their MDTs.
struct Together<T>(Vec<Batch<T>>);

impl<T> Together<T> {
    fn add(&mut self, mdt: u16, bytes: u64, piece: T) {
        let fits = |batch: &&mut Batch<T>| {
            batch.mdt == mdt
                && batch.pieces.len() < TOGETHER_MAX
                && batch.bytes + bytes <= TOGETHER_BYTES_MAX
        };
        match self.0.iter_mut().find(fits) {
            Some(batch) => {
                batch.bytes += bytes;
                batch.pieces.push_back(piece);
            }
            None => self.0.push(Batch { mdt, bytes, pieces: VecDeque::from([piece]) }),
        }
    }
}

fn read_of(parts: &[Segment], course: Course) -> ledger::Read {
    let (mut hit, mut missed, mut waited) = (0, 0, false);
    for part in parts {
        match part {
            Segment::Here(data) => hit += data.iter().map(|bytes| bytes.len() as u64).sum::<u64>(),
            Segment::Missing(range) => missed += range.end - range.start,
            Segment::Coming(range, _) => {
                hit += range.end - range.start;
                waited = true;
            }
        }
    }
    ledger::Read { hit, missed, waited, anyhow: course == Course::Anyhow }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_mdt_come_together_whatever_stands_between_them() {
        let batches = |files: &[(u16, u64)]| {
            let mut together = Together(Vec::new());
            for (n, (mdt, bytes)) in files.iter().enumerate() {
                together.add(*mdt, *bytes, n);
            }
            together.0.into_iter().map(|batch| (batch.mdt, batch.pieces)).collect::<Vec<_>>()
        };
        let apart = batches(&[(0, 9), (1, 9), (0, 9), (1, 9)]);
        assert_eq!(apart, [(0, [0, 2].into()), (1, [1, 3].into())]);
        let many: Vec<usize> =
            batches(&[(0, 9); TOGETHER_MAX + 1]).iter().map(|(_, pieces)| pieces.len()).collect();
        assert_eq!(many, [TOGETHER_MAX, 1]);
        let large = batches(&[(0, TOGETHER_BYTES_MAX), (0, 1), (0, TOGETHER_BYTES_MAX), (0, 1)]);
        assert_eq!(large, [(0, [0].into()), (0, [1, 3].into()), (0, [2].into())]);
    }
}
