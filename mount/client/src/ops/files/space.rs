//! Allocation: fallocate, lseek DATA and HOLE.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::Operation;
use crate::open::FileHandle;
use data::file::File;
use data::finish::Finish;
use data::locks::data_guards::DataAccess;
use env::BoxFuture;
use layout::layout::Layout;
use layout::map::{file_offset, object_ranges};
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};
use session::epoch::SessionEpoch;
use session::error::ClientError;
use session::fan_out::fan_out;
use session::targets::getattr_and_layout;
use std::ops::Range;
use std::sync::Arc;
use types::attr::WrittenAt;
use types::credentials::Credentials;
use types::errno::Errno;
use types::fid::Fid;
use types::limits::FILE_BYTES_MAX;
use types::object::FileOffset;
use wire::mds::{Punch, Wrote};
use wire::ost::PunchKind;

/// What a mode of fallocate(2) asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Change {
    kind: PunchKind,
    grows: bool,
}

impl Change {
    fn from_mode(mode: u32) -> Result<Change, Errno> {
        const KEEP: i32 = FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        const ZERO: i32 = FALLOC_FL_ZERO_RANGE;
        const ZERO_KEEP: i32 = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
        Ok(match mode as i32 {
            0 => Change { kind: PunchKind::Allocate, grows: true },
            KEEP => Change { kind: PunchKind::Allocate, grows: false },
            PUNCH => Change { kind: PunchKind::Hole, grows: false },
            ZERO => Change { kind: PunchKind::Zero, grows: true },
            ZERO_KEEP => Change { kind: PunchKind::Zero, grows: false },
            _ => return Err(Errno::EOPNOTSUPP),
        })
    }
}

impl Client {
    /// fallocate(2) with the kernel's `mode`: 0, KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE,
    /// ZERO_RANGE[|KEEP_SIZE]; others are EOPNOTSUPP. 2 round trips, one more to instantiate.
    pub async fn fallocate(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: u32,
    ) -> Result<(), ClientError> {
        let _timed = self.timed(Operation::Fallocate);
        let open = self.files_open.get(handle)?;
        open.check()?;
        if !open.mode.flags.write {
            return Err(Errno::EBADF.into());
        }
        let change = Change::from_mode(mode)?;
        if len == 0 {
            return Err(Errno::EINVAL.into());
        }
        let end = offset
            .checked_add(len)
            .filter(|end| *end <= FILE_BYTES_MAX)
            .ok_or(ClientError::TooFar(offset))?;
        let (tasks, file) = (self.session.env.tasks.clone(), open.file.clone());
        let work = async move {
            let by = &caller.credentials;
            self.session
                .in_epoch(file.fid, |epoch| {
                    self.change_space(by, &file, epoch, offset..end, change)
                })
                .await
        };
        Finish::new("fallocate", &tasks, work).await
    }

    async fn change_space(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
        epoch: SessionEpoch,
        Range { start, end }: Range<u64>,
        change: Change,
    ) -> Result<(), ClientError> {
        let _guard = self.data.data_guard(file, DataAccess::WRITE_ALL).await?;
        let _alone = file.alone().await;
        self.data.flush_locked(file).await?;
        self.data.repair_tail(credentials, file, epoch).await?;
        // A range without an object needs none to become a hole.
        let instantiate = change.kind != PunchKind::Hole;
        let layout = self.data.layout_for(credentials, file, instantiate, start, end).await?;
        if instantiate && end > layout.size_max() {
            return Err(ClientError::TooFar(end));
        }
        let fid = file.fid;
        let mut work: Vec<BoxFuture<'static, Result<i64, ClientError>>> = Vec::new();
        for range in object_ranges(&layout, fid, FileOffset(start), FileOffset(end)) {
            let (osc, kind) = (self.session.targets.osc(range.ost)?, change.kind);
            work.push(Box::pin(async move {
                Ok(osc.punch(range.object, range.start, range.end, kind).await?)
            }));
        }
        let (mut blocks_delta, mut failed) = (0, None);
        let on_mdt = end.min(layout.mdt_bytes());
        if start < on_mdt {
            // The MDT counts its own blocks; its part comes first in the file, and the size follows
            // below.
            let punch = Punch {
                fid,
                start,
                end: on_mdt,
                kind: change.kind,
                grows: false,
                kill_suidgid: false,
            };
            self.session.mdc(fid)?.punch(credentials, punch).await?;
        }
        let connections = self.session.ost_connections();
        if !work.is_empty() {
            self.data.until_recorded(file).await?;
        }
        let answers = self.session.while_trusted(fid, epoch, fan_out(work)).await;
        self.data.note_reconnected(file, connections);
        for answer in answers? {
            match answer {
                Ok(delta) => blocks_delta += delta,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // Finished parts count, even if another object failed (ENOSPC).
        let grown_to = if change.grows && failed.is_none() { end } else { 0 };
        let (at, kill_suidgid) = (WrittenAt::Now, credentials.uid != 0);
        let wrote = Wrote { fid, end: grown_to, blocks_delta, at, kill_suidgid };
        let entry = self.session.mdc(fid)?.wrote(credentials, wrote).await?;
        file.learn(&entry.attr);
        failed.map_or(Ok(()), Err)
    }

    /// Next data (or with `hole` next hole) at or after `offset`; ENXIO at or beyond the end of the
    /// file, or if no data follows. 2 round trips.
    pub async fn seek(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        offset: u64,
        hole: bool,
    ) -> Result<u64, ClientError> {
        let _timed = self.timed(Operation::Seek);
        let open = self.files_open.get(handle)?;
        open.check()?;
        let file = &open.file;
        let _guard = self.data.data_guard(file, DataAccess::READ_ALL).await?;
        if !file.dirty.lock().is_clean() {
            self.data.flush_locked(file).await?;
        }
        let mdc = self.session.mdc(file.fid)?;
        let (attr, layout) = getattr_and_layout(&mdc, &caller.credentials, file.fid).await?;
        file.learn(&attr);
        self.data.rest_on_answers(file);
        let layout = file.learn_layout(layout);
        if offset >= attr.size {
            return Err(Errno::ENXIO.into());
        }
        let found = self.nearest(&layout, file.fid, offset, attr.size, hole).await?;
        match hole {
            true => Ok(found.map_or(attr.size, |at| at.min(attr.size))),
            false => Ok(found.ok_or(Errno::ENXIO)?),
        }
    }

    /// The nearest data or hole in `[start, end)`: the smallest answer of the objects.
    async fn nearest(
        &self,
        layout: &Layout,
        fid: Fid,
        start: u64,
        end: u64,
        hole: bool,
    ) -> Result<Option<u64>, ClientError> {
        let (from, to) = (FileOffset(start), FileOffset(end));
        let mut ranges = Vec::new();
        let mut work: Vec<BoxFuture<'static, _>> = Vec::new();
        for range in object_ranges(layout, fid, from, to) {
            let osc = self.session.targets.osc(range.ost)?;
            ranges.push(range);
            work.push(Box::pin(async move { osc.seek(range.object, range.start, hole).await }));
        }
        let on_mdt = end.min(layout.mdt_bytes());
        if start < on_mdt {
            let found = self.session.mdc(fid)?.seek(&Credentials::root(), fid, start, hole).await?;
            if let Some(at) = found.filter(|at| *at < on_mdt) {
                return Ok(Some(at));
            }
        }
        let mut nearest = if hole { first_gap(layout, start, end) } else { None };
        for (range, answer) in ranges.iter().zip(fan_out(work).await) {
            let at = match answer? {
                Some(at) => at,
                // An object is all hole and no data beyond its end.
                None if hole => range.start,
                None => continue,
            };
            let component = &layout.components[range.component];
            if at >= range.end {
                continue;
            }
            if let Some(FileOffset(at)) = file_offset(component, range.object.stripe, at) {
                nearest = Some(nearest.map_or(at, |n: u64| n.min(at)));
            }
        }
        Ok(nearest)
    }
}

/// First byte of `[start, end)` that no component holds.
fn first_gap(layout: &Layout, start: u64, end: u64) -> Option<u64> {
    let mut at = start;
    for component in &layout.components {
        if component.end <= at {
            continue;
        }
        if component.start > at || !component.is_instantiated() {
            break;
        }
        at = component.end;
    }
    (at < end).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_fallocate_2() {
        assert_eq!(Change::from_mode(0), Ok(Change { kind: PunchKind::Allocate, grows: true }));
        assert_eq!(Change::from_mode(1), Ok(Change { kind: PunchKind::Allocate, grows: false }));
        assert_eq!(Change::from_mode(3), Ok(Change { kind: PunchKind::Hole, grows: false }));
        assert_eq!(Change::from_mode(0x10), Ok(Change { kind: PunchKind::Zero, grows: true }));
        assert_eq!(Change::from_mode(0x11), Ok(Change { kind: PunchKind::Zero, grows: false }));
        for refused in [2, 8, 0x20, 0x40, 0x13] {
            assert_eq!(Change::from_mode(refused), Err(Errno::EOPNOTSUPP));
        }
    }
}
