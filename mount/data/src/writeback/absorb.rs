//! Absorbing a write: it goes into the cache if there is room for it, on this mount and on its
//! targets.

use super::Writeback;
use crate::cache::DataTarget;
use crate::cache::batch::BATCH_BYTES;
use crate::file::File;
use crate::kernel_view::timers::MTIME_GRAIN;
use crate::locks::data_guards::DataAccess;
use crate::path::DataPath;
use crate::writeback::dirty_file::Base;
use crate::writeback::flags::{WriteFlags, Written};
use bytes::Bytes;
use layout::layout::Layout;
use layout::map::{Place, pieces};
use namespace::setattr::without_setid;
use rpc::error::RpcError;
use session::epoch::SessionEpoch;
use session::error::ClientError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use types::credentials::Credentials;
use types::fid::Fid;
use types::limits::{FILE_BYTES_MAX, GRANT_UNIT};
use types::object::FileOffset;
use types::target::TargetIndex;

/// How often something that is missing is fetched before a write goes through.
const TRIES: usize = 8;
/// How often a write waits for others to be stored before it goes through.
const WAITS_MAX: usize = 1024;

/// One write that may be absorbed. The caller has a guard of WRITE and shares the gate.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// Caller of the write.
    pub credentials: &'a Credentials,
    /// The file.
    pub file: &'a Arc<File>,
    /// First byte; ignored to append.
    pub offset: u64,
    /// The bytes.
    pub data: &'a Bytes,
    /// Flags of the write.
    pub flags: WriteFlags,
    /// Of which locks.
    pub epoch: SessionEpoch,
}

impl Write<'_> {
    /// The access it asks for: its bytes; or all of the file, if it goes to the end of the file, or
    /// if its objects must be cut before.
    pub fn access(&self) -> DataAccess {
        match self.flags.append || self.file.tail_is_suspect() {
            true => DataAccess::WRITE_ALL,
            false => {
                DataAccess::write(self.offset, self.offset.saturating_add(self.data.len() as u64))
            }
        }
    }
}

/// Result of one attempt.
pub(crate) enum Absorbed {
    /// It is in the cache, and dirty.
    Done(Written),
    /// Too much is dirty already.
    Full,
    /// The layout is not known there, or has no objects.
    NoLayout(u64, u64),
    /// Attributes are not known.
    NoAttr,
    /// This target granted too little.
    NoRoom(DataTarget),
    /// This write is not for the cache.
    Through,
    /// The lock was lost with the session.
    Lost,
}

impl DataPath {
    /// Takes a write into the cache, and fetches what is missing for it. `None`: it must go
    /// through.
    ///
    /// # Errors
    /// The layout cannot be fetched; the file is gone; TooFar.
    pub(crate) async fn absorb(&self, write: Write<'_>) -> Result<Option<Written>, ClientError> {
        let Write { credentials, file, .. } = write;
        let (mut tries, mut waits) = (0, 0);
        while tries < TRIES && waits < WAITS_MAX {
            tries += 1;
            match self.try_absorb(write)? {
                Absorbed::Done(written) => return Ok(Some(written)),
                Absorbed::Full => {
                    if self.make_progress(None).await? {
                        (tries, waits) = (tries - 1, waits + 1);
                    }
                }
                Absorbed::NoLayout(start, end) => {
                    self.layout_for(credentials, file, true, start, end).await?;
                }
                Absorbed::NoAttr => {
                    self.session.mdc(file.fid)?.getattr(credentials, file.fid).await?;
                }
                Absorbed::NoRoom(target) if self.await_grant(target).await => {
                    (tries, waits) = (tries - 1, waits + 1)
                }
                Absorbed::NoRoom(target) if self.make_room(target, file).await? => {}
                Absorbed::NoRoom(_) | Absorbed::Through => return Ok(None),
                Absorbed::Lost => {
                    return Err(RpcError::Evicted {
                        target: self.session.mdc(file.fid)?.import().target(),
                    }
                    .into());
                }
            }
        }
        Ok(None)
    }

    /// Takes a write into the cache if nothing is missing for that.
    ///
    /// # Errors
    /// TooFar.
    pub(crate) fn try_absorb(&self, write: Write<'_>) -> Result<Absorbed, ClientError> {
        let absorbed = self.absorb_now(write);
        if !matches!(absorbed, Ok(Absorbed::Done(_))) {
            self.writeback.forget_if_clean(write.file);
        }
        absorbed
    }

    fn absorb_now(&self, write: Write<'_>) -> Result<Absorbed, ClientError> {
        let Write { credentials, file, offset, data, flags, epoch } = write;
        if flags.sync {
            return Ok(Absorbed::Through);
        }
        let len = data.len() as u64;
        if self.writeback.bytes() + len > self.writeback.dirty_max() {
            return Ok(Absorbed::Full);
        }
        let clock = &self.session.env.clock;
        let Writeback { grants, blocks: all_blocks, .. } = &self.writeback;
        // It is noted first: an eviction that is not seen here finds it, and its dirty data.
        let mut dirty = self.writeback.begin(file);
        if self.session.epoch(file.fid) != epoch {
            return Ok(Absorbed::Lost);
        }
        // Under the lock of the dirty file: a report that comes meanwhile is in the table before it
        // is forgotten here.
        let base = {
            let mut table = self.locks.table.lock();
            let alone = Some(table.shared_so_far()).filter(|_| !table.is_shared(file.fid));
            let attr = table
                .attr(file.fid)
                .map(|entry| entry.attr)
                .or_else(|| table.shared_base(file.fid));
            attr.map(|attr| Base { attr, alone })
        };
        let Some(base) = base else { return Ok(Absorbed::NoAttr) };
        if flags.kill_suidgid && without_setid(base.attr.mode) != base.attr.mode {
            return Ok(Absorbed::Through);
        }
        let start = if flags.append { dirty.size().unwrap_or(base.attr.size) } else { offset };
        let end = start
            .checked_add(len)
            .filter(|end| *end <= FILE_BYTES_MAX)
            .ok_or(ClientError::TooFar(start))?;
        let Some(layout) = file.layout() else { return Ok(Absorbed::NoLayout(start, end)) };
        if start < layout.size_max() && layout.size_max() < end {
            // As much as there is room for, if the layout is still this one.
            return Ok(Absorbed::Through);
        }
        if start < layout.mdt_bytes() && base.alone.is_none() {
            // Other clients write the file, too: the MDT has their bytes in the order in which they
            // came.
            return Ok(Absorbed::Through);
        }
        let needs =
            match needs(&layout, file.fid, start, end, |from, to| dirty.bytes.new_blocks(from, to))
            {
                Ok(needs) => needs,
                Err(refused) => return Ok(refused),
            };
        if let Err(target) = grants.reserve(clock.now(), &needs) {
            return Ok(Absorbed::NoRoom(target));
        }
        let blocks = needs.iter().map(|(_, blocks)| blocks).sum();
        all_blocks.fetch_add(blocks, Ordering::Relaxed);
        let wall = match self.locks.no_open() {
            true => clock.wall().floor(MTIME_GRAIN),
            false => clock.wall(),
        };
        dirty.wrote(start, data, blocks, &base, (clock.now(), wall));
        dirty.writer = (credentials.clone(), observe::cause::job());
        let much = dirty.blocks * GRANT_UNIT >= BATCH_BYTES;
        drop(dirty);
        if much {
            self.flush_later(file);
        }
        Ok(Absorbed::Done(Written { offset: start, bytes: data.len() as u32 }))
    }

    /// A target granted too little. It is asked for more; if that was done already, something is
    /// stored, because that brings new grants. `false`: no grant can be had.
    async fn make_room(&self, target: DataTarget, file: &Arc<File>) -> Result<bool, ClientError> {
        let grants = &self.writeback.grants;
        let asked = grants.ask(target, self.grant_wanted(target));
        if asked.want > 0 {
            let more = self.ask_grant(target, 0, asked.want).await;
            // The target does not answer: then the write goes through, and reports it.
            grants.answered(target, asked, *more.as_ref().unwrap_or(&0));
            self.writeback.answers.send_modify(|count| *count += 1);
            if more.is_ok_and(|more| more > 0) {
                return Ok(true);
            }
        }
        if file.dirty.lock().bytes.has_fresh() {
            self.flush_locked(file).await?;
            return Ok(true);
        }
        self.make_progress(Some(target)).await
    }
}

/// Blocks that a write needs of each target.
fn needs(
    layout: &Layout,
    fid: Fid,
    start: u64,
    end: u64,
    new_blocks: impl Fn(u64, u64) -> u64,
) -> Result<Vec<(DataTarget, u64)>, Absorbed> {
    let mut needs: Vec<(DataTarget, u64)> = Vec::new();
    let mut at = start;
    for piece in pieces(layout, fid, FileOffset(start), FileOffset(end)) {
        let target = match piece.place {
            Place::Object { ost, .. } => DataTarget::Ost(ost),
            Place::Absent { .. } => return Err(Absorbed::NoLayout(start, end)),
            Place::Mdt { .. } => DataTarget::Mdt(TargetIndex(fid.mdt())),
        };
        at = piece.file.0 + piece.len;
        let blocks = new_blocks(piece.file.0, at);
        match needs.iter_mut().find(|(known, _)| *known == target) {
            Some((_, sum)) => *sum += blocks,
            None => needs.push((target, blocks)),
        }
    }
    if at < end { Err(Absorbed::NoLayout(start, end)) } else { Ok(needs) }
}
