//! Writing: under WRITE into the cache (`writeback`), else through to the servers.
//!
//! A write that goes through is answered when objects and MDT have it, the objects first: a reader
//! in between must not find the new time with the old bytes, which its kernel would keep under it
//! for ever.

use crate::caller::Caller;
use crate::client::Client;
use crate::counters::{Operation, Way};
use crate::file::File;
use crate::finish::Finish;
use crate::locks::data_guards::{Admitted, DataAccess};
use crate::open::FileHandle;
use crate::writeback::absorb::{Absorbed, Write};
use bytes::Bytes;
use session::error::ClientError;
use session::targets::{misfit, two};
use std::sync::Arc;
use types::attr::WrittenAt;
use types::credentials::Credentials;
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, FILE_BYTES_MAX};
use wire::mds::{Append, MdsOp, MdsReply, Wrote};

/// How to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteFlags {
    /// O_APPEND: at the present end of the file; the given offset is ignored.
    pub append: bool,
    /// Clear set-id bits (FUSE_WRITE_KILL_SUIDGID).
    pub kill_suidgid: bool,
    /// O_SYNC, O_DSYNC: durable before the answer.
    pub sync: bool,
    /// Pages of the kernel that a mapping made dirty: only targets may be waited for, because a
    /// callback may wait for this.
    pub from_page_cache: bool,
}

/// Result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Where it went: the given offset, or for `append` the end of the file. If that differs from
    /// the kernel's offset, its cached pages and size of this inode must be dropped.
    pub offset: u64,
    /// Bytes from there on; fewer than given only if a target failed after some were stored.
    pub bytes: u32,
}

impl Client {
    /// Writes `data` (at most BULK_BYTES_MAX) at `offset`: under WRITE into the cache, without a
    /// round trip; one more to get WRITE, one more if a component of the layout is written for the
    /// first time. A write that does not fit the cache goes through: 2 round trips, 1 where it all
    /// lives on the MDT. Also reports a loss of earlier writes, once.
    pub async fn write(
        self: Arc<Self>,
        caller: Caller,
        handle: FileHandle,
        offset: u64,
        data: Bytes,
        flags: WriteFlags,
    ) -> Result<Written, ClientError> {
        let _timed = self.timed(Operation::Write);
        let open = self.files_open.get(handle)?;
        open.check()?;
        if !open.mode.flags.write {
            return Err(Errno::EBADF.into());
        }
        if !flags.from_page_cache {
            // Otherwise it is the kernel's own write, on behalf of a mapping: it is stored, and its
            // fsync reports the loss.
            open.failed_at_write(caller.pid)?;
        }
        let counters = self.counters.clone();
        let written = self.write_file(caller.credentials, open.file.clone(), offset, data, flags).await?;
        counters.moved(Way::Write, written.bytes as usize);
        Ok(written)
    }

    pub(crate) async fn write_file(
        self: Arc<Self>,
        credentials: Credentials,
        file: Arc<File>,
        offset: u64,
        data: Bytes,
        flags: WriteFlags,
    ) -> Result<Written, ClientError> {
        if data.is_empty() {
            return Ok(Written { offset, bytes: 0 });
        }
        if data.len() > BULK_BYTES_MAX {
            return Err(Errno::EINVAL.into());
        }
        let len = data.len() as u64;
        if !flags.append && offset.checked_add(len).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(ClientError::TooFar(offset));
        }
        if self.locks.no_open() {
            // The kernel was not told to bypass its pages.
            self.writeback.note_pages(file.fid);
        }
        let epoch = self.session.epoch(file.fid);
        let write = Write { credentials: &credentials, file: &file, offset, data: &data, flags, epoch };
        if let Some(written) = self.absorb_at_once(write)? {
            self.writeback.kernel_eof.written(file.fid, written.offset + u64::from(written.bytes));
            return Ok(written);
        }
        let tasks = self.session.env.tasks.clone();
        let work = async move {
            let write = |epoch| Write { credentials: &credentials, file: &file, offset, data: &data, flags, epoch };
            let written = self.session.in_epoch(file.fid, |epoch| self.write_in_turn(write(epoch))).await?;
            self.writeback.kernel_eof.written(file.fid, written.offset + u64::from(written.bytes));
            Ok(written)
        };
        Finish::new("write", &tasks, work).await
    }

    /// The fast path: the lock is held, there is room, and nothing is in the way.
    fn absorb_at_once(&self, write: Write<'_>) -> Result<Option<Written>, ClientError> {
        if write.flags.from_page_cache || write.file.tail_is_suspect() {
            return Ok(None);
        }
        let Some(_guard) = self.try_data_guard(write.file.fid, write.access()) else { return Ok(None) };
        let Ok(_shared) = write.file.gate.try_read() else { return Ok(None) };
        match self.try_absorb(write)? {
            Absorbed::Done(written) => Ok(Some(written)),
            _ => Ok(None),
        }
    }

    async fn write_in_turn(&self, write: Write<'_>) -> Result<Written, ClientError> {
        let Write { credentials, file, flags, epoch, .. } = write;
        let turn = loop {
            let access = write.access();
            let turn = match flags.from_page_cache {
                true => self.try_data_guard(file.fid, access).map_or(Admitted::Bypass(None), Admitted::Locked),
                // The kernel holds pages of it: it was not told that files open for writing bypass
                // them.
                false if self.locks.no_open() => self.admit_data(file, access).await?,
                false => Admitted::Locked(self.data_guard(file, access).await?),
            };
            // Objects are cut only under the whole lock: others may be writing beyond the known
            // end.
            if access == write.access() {
                break turn;
            }
        };
        let bypasses_others = matches!(turn, Admitted::Bypass(_)) && self.locks.is_shared(file.fid);
        if file.tail_is_suspect() && !bypasses_others {
            let _alone = file.gate.write().await;
            self.repair_tail(credentials, file, epoch).await?;
        }
        if matches!(turn, Admitted::Locked(_)) {
            let _shared = file.gate.read().await;
            if let Some(written) = self.absorb(write).await? {
                return Ok(written);
            }
        }
        // After the dirty data, and without anything new beside it.
        let _alone = file.gate.write().await;
        if !file.dirty.lock().is_clean() {
            self.flush_locked(file).await?;
        }
        let written = self.write_through(write, matches!(turn, Admitted::Locked(_))).await;
        if bypasses_others {
            self.let_others_read_anew(file);
        }
        written
    }

    /// Pages of a mapping were stored without a lock on them, in a file that is shared by extents:
    /// the MDT cannot know which extents that touches. So all of them are called back.
    fn let_others_read_anew(&self, file: &Arc<File>) {
        let Some(me) = self.strong() else { return };
        let file = file.clone();
        let call_back = async move {
            if let Err(error) = me.data_guard(&file, DataAccess::WRITE_ALL).await {
                tracing::debug!(fid = %file.fid, %error, "let others read mapped pages");
            }
        };
        self.session.env.tasks.spawn("let others read mapped pages", Box::pin(call_back));
    }

    /// `locked`: no other client can move the end of the file meanwhile, so it need not be moved
    /// before the bytes are stored. Should storing fail, the size is as before.
    async fn write_through(&self, write: Write<'_>, locked: bool) -> Result<Written, ClientError> {
        let Write { credentials, file, offset, data, mut flags, epoch } = write;
        let fid = file.fid;
        let mdc = self.session.mdc(fid)?;
        let offset = match flags.append {
            false => offset,
            true if locked => {
                flags.append = false;
                mdc.getattr(credentials, fid).await?.attr.size
            }
            true => {
                let (len, kill_suidgid) = (data.len() as u64, flags.kill_suidgid);
                mdc.append(credentials, Append { fid, len, kill_suidgid }).await?
            }
        };
        let end = offset.checked_add(data.len() as u64).ok_or(ClientError::TooFar(offset))?;
        let layout = self.layout_for(credentials, file, true, offset, end).await?;
        let room = layout.size_max().checked_sub(offset).filter(|room| *room > 0).ok_or(ClientError::TooFar(offset))?;
        let (data, len) = match usize::try_from(room) {
            Ok(room) if room < data.len() => (data.slice(..room), room),
            _ => (data.clone(), data.len()),
        };
        let end = offset + len as u64;
        if end > layout.mdt_bytes() {
            self.until_recorded(file).await?;
        }
        let connections = self.session.ost_connections();
        let stored = self.store(&layout, (fid, epoch), offset, &data, flags).await;
        self.note_reconnected(file, connections);
        let stored = stored?;
        if let Some(error) = &stored.error {
            tracing::warn!(%fid, offset, len, stored = stored.bytes, %error, "write");
            // Parts after the failed one may be stored, beyond the end that the file will have.
            file.mark_tail(true);
            if stored.bytes == 0 && stored.blocks_delta == 0 {
                return Err(error.clone());
            }
        }
        if let Some(attr) = stored.attr {
            file.learn(&attr);
            return Ok(Written { offset, bytes: stored.bytes as u32 });
        }
        let stored_end = if stored.bytes == 0 { 0 } else { offset + stored.bytes };
        let kill_suidgid = flags.kill_suidgid && !flags.append;
        let (blocks_delta, at) = (stored.blocks_delta, WrittenAt::Now);
        let wrote = Wrote { fid, end: stored_end, blocks_delta, at, kill_suidgid };
        let attr = match flags.sync {
            false => mdc.wrote(credentials, wrote).await.map(|e| e.attr),
            true => match two(&mdc, credentials, MdsOp::Wrote(wrote), MdsOp::Sync).await {
                Ok((MdsReply::Entry(entry), Ok(_))) => Ok(entry.attr),
                Ok((_, Err(error))) => return Err(error),
                Ok(other) => return Err(misfit(mdc.import(), &other)),
                Err(ClientError::Rpc(error)) => Err(error),
                Err(error) => return Err(error),
            },
        };
        match attr {
            Ok(attr) => file.learn(&attr),
            Err(error) => {
                // The objects have bytes of which the MDT does not know.
                file.mark_tail(true);
                return Err(error.into());
            }
        }
        match stored.error {
            Some(error) if stored.bytes == 0 => Err(error),
            _ => Ok(Written { offset, bytes: stored.bytes as u32 }),
        }
    }
}
