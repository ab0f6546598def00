//! Writing: under WRITE into the cache (`writeback`), else through to the servers.
//!
//! A write that goes through is answered when objects and MDT have it, the objects first: a reader
//! in between must not find the new time with the old bytes, which its kernel would keep under it
//! for ever.

use crate::file::File;
use crate::finish::Finish;
use crate::locks::data_guards::{Admitted, DataAccess};
use crate::path::DataPath;
use crate::writeback::absorb::{Absorbed, Write};
use crate::writeback::flags::{WriteFlags, Written};
use bytes::Bytes;
use session::error::ClientError;
use session::targets::{misfit, two};
use std::sync::Arc;
use types::attr::WrittenAt;
use types::credentials::Credentials;
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, FILE_BYTES_MAX};
use wire::mds::{MdsOp, MdsReply, Wrote};

/// Where the kernel believes a file to end at least, after a write that it put at `offset`: an
/// append may have landed elsewhere.
fn end_in_kernel(offset: u64, written: Written) -> u64 {
    offset.min(written.offset) + u64::from(written.bytes)
}

impl DataPath {
    /// Writes `data` at `offset`, as `Client::write` has it.
    ///
    /// # Errors
    /// EINVAL: more than BULK_BYTES_MAX; TooFar; those of the targets.
    pub async fn write_file(
        self: &Arc<Self>,
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
            self.writeback.note_pages(file.fid, true);
        }
        file.quiet.lock().wrote(self.session.env.clock.now());
        let epoch = self.session.epoch(file.fid);
        let write =
            Write { credentials: &credentials, file: &file, offset, data: &data, flags, epoch };
        if let Some(written) = self.absorb_at_once(write)? {
            self.writeback.kernel_eof.written(file.fid, end_in_kernel(offset, written));
            return Ok(written);
        }
        let (me, tasks) = (self.clone(), self.session.env.tasks.clone());
        let work = async move {
            let write = |epoch| Write {
                credentials: &credentials,
                file: &file,
                offset,
                data: &data,
                flags,
                epoch,
            };
            let written =
                me.session.in_epoch(file.fid, |epoch| me.write_in_turn(write(epoch))).await?;
            me.writeback.kernel_eof.written(file.fid, end_in_kernel(offset, written));
            Ok(written)
        };
        Finish::new("write", &tasks, work).await
    }

    /// The fast path: the lock is held, there is room, and nothing is in the way.
    fn absorb_at_once(&self, write: Write<'_>) -> Result<Option<Written>, ClientError> {
        if write.flags.from_page_cache || write.file.tail_is_suspect() {
            return Ok(None);
        }
        let Some(_guard) = self.try_data_guard(write.file.fid, write.access()) else {
            return Ok(None);
        };
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
                true => self
                    .try_data_guard(file.fid, access)
                    .map_or(Admitted::Bypass(None), Admitted::Locked),
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
            let _alone = file.alone().await;
            self.repair_tail(credentials, file, epoch).await?;
        }
        if matches!(turn, Admitted::Locked(_)) {
            let _shared = file.gate.read().await;
            if let Some(written) = self.absorb(write).await? {
                return Ok(written);
            }
        }
        // After the dirty data, and without anything new beside it.
        let _alone = file.alone().await;
        if !file.dirty.lock().is_clean() {
            self.flush_locked(file).await?;
        }
        let written = self.write_through(write).await;
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

    /// An append is under WRITE: no other client can move the end of the file meanwhile. Should
    /// storing fail, the size is as before.
    async fn write_through(&self, write: Write<'_>) -> Result<Written, ClientError> {
        let Write { credentials, file, offset, data, mut flags, epoch } = write;
        let fid = file.fid;
        let mdc = self.session.mdc(fid)?;
        let offset = match std::mem::take(&mut flags.append) {
            false => offset,
            true => mdc.getattr(credentials, fid).await?.attr.size,
        };
        let end = offset.checked_add(data.len() as u64).ok_or(ClientError::TooFar(offset))?;
        let layout = self.layout_for(credentials, file, true, offset, end).await?;
        let room = layout
            .size_max()
            .checked_sub(offset)
            .filter(|room| *room > 0)
            .ok_or(ClientError::TooFar(offset))?;
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
        let (blocks_delta, at) = (stored.blocks_delta, WrittenAt::Now);
        let wrote =
            Wrote { fid, end: stored_end, blocks_delta, at, kill_suidgid: flags.kill_suidgid };
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
