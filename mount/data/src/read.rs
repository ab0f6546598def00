//! Reading: under DATA, size and layout are known, so only the objects are asked, and dirty data
//! lies over their bytes.
//!
//! Without the lock (a callback is under way, and the kernel waits for this read before it drops
//! its pages) the MDT is asked for the size. A reader must not take bytes beyond the size that it
//! knew *before* it asked the objects. A writer stores its bytes first and reports to the MDT then,
//! so a size that came later may cover bytes that the objects did not have yet.

use crate::file::File;
use crate::kernel_view::timers::GIVES_WAY;
use crate::locks::data_guards::{Admitted, BypassGuard, DataAccess, DataGuard};
use crate::parts::{clip, push_zeros};
use crate::path::DataPath;
use crate::read_ahead::{Ahead, Reader};
use crate::writeback::overlay::{covers, merge_dirty};
use bytes::Bytes;
use session::error::ClientError;
use std::sync::Arc;
use tokio::sync::RwLockReadGuard;
use types::credentials::Credentials;
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, FILE_BYTES_MAX};
use types::ranges::ByteRange;

/// How often the end of a file that is shared by extents is asked for. If it changed hands before
/// each answer could be used, the whole file is asked for: its lock comes with the size, and in
/// its turn.
const ASKS_MAX: usize = 4;

/// A read may begin.
pub enum Ready<'f> {
    /// Under a lock.
    Locked {
        /// Callbacks wait for it.
        guard: DataGuard,
        /// Truncates of this mount wait for it.
        gate: RwLockReadGuard<'f, ()>,
        /// Size of the file under that lock; for a file that is shared by extents it is a lower
        /// bound.
        size: u64,
    },
    /// Through to the servers: see [`Admitted::Bypass`].
    Bypass {
        /// The callback under way drops the pages once more when it goes.
        _guard: Option<BypassGuard>,
        /// Truncates of this mount wait for it.
        _gate: RwLockReadGuard<'f, ()>,
    },
}

impl DataPath {
    /// Up to `len` bytes at `offset`, as `Client::read` has it.
    ///
    /// # Errors
    /// EINVAL: more than BULK_BYTES_MAX. Those of the targets.
    pub async fn read_file(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
        (offset, len): (u64, u32),
        reader: Reader,
    ) -> Result<Vec<Bytes>, ClientError> {
        if len as usize > BULK_BYTES_MAX {
            return Err(Errno::EINVAL.into());
        }
        let end = offset.saturating_add(u64::from(len)).min(FILE_BYTES_MAX);
        self.session
            .in_epoch(file.fid, |_| self.read_in_turn(credentials, file, (offset, end), reader))
            .await
    }

    async fn read_in_turn(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
        (offset, end): (u64, u64),
        Reader { handle, from_page_cache }: Reader,
    ) -> Result<Vec<Bytes>, ClientError> {
        let access = match from_page_cache && !self.locks.no_open() {
            // The kernel does not say when a mapped page becomes dirty. So a mount that has the
            // file mapped for writing must have it to itself.
            true if file.is_open_to_write() => DataAccess::WRITE_ALL,
            true => DataAccess::PAGES,
            false => DataAccess::read(offset, end),
        };
        loop {
            match self.ready_to_read(credentials, file, access, end, from_page_cache).await? {
                Ready::Locked { guard, gate, size } => {
                    let span = (offset, end.min(size));
                    let whole = guard.shared().is_none();
                    let ahead = whole.then_some(Ahead { tenure: guard.tenure(), size, handle });
                    let read = self.read_held(credentials, file, span, whole, ahead);
                    if from_page_cache {
                        // The kernel holds the pages until then: a callback waits for these, too.
                        return read.await;
                    }
                    // If its OST is away a callback must not wait for it: this client would be
                    // evicted.
                    tokio::select! {
                        biased;
                        read = read => return read,
                        () = self.locks.data_wanted(file.fid, GIVES_WAY) => {}
                    }
                    drop((gate, guard));
                    // Otherwise it would begin again under the old lock, whenever the kernel is
                    // admitted to read there.
                    self.locks.data_unstopped(file.fid).await;
                }
                Ready::Bypass { _guard, _gate } => {
                    return self.read_bypassing(credentials, file, offset, end).await;
                }
            }
        }
    }

    /// Gets the lock, shares the gate, and asks for the size unless it is known to be at least
    /// `wanted`.
    pub(crate) async fn ready_to_read<'f>(
        &self,
        credentials: &Credentials,
        file: &'f Arc<File>,
        access: DataAccess,
        wanted: u64,
        from_page_cache: bool,
    ) -> Result<Ready<'f>, ClientError> {
        let (mut access, mut answered, mut asks) = (access, None, 0);
        loop {
            if asks == ASKS_MAX {
                access.range = None;
            }
            asks += 1;
            let turn = match from_page_cache {
                // A callback may wait for the pages that the kernel holds for it.
                true => self.admit_data(file, access).await?,
                false => Admitted::Locked(self.data_guard(file, access).await?),
            };
            // The kernel may keep what it reads; it is told when that is old.
            self.writeback.note_pages(file.fid, from_page_cache);
            // The kernel fills up a read that is shorter than the size it knows: not while it cuts
            // the file.
            let gate = file.gate.read().await;
            let guard = match turn {
                Admitted::Locked(guard) => guard,
                Admitted::Bypass(_guard) => return Ok(Ready::Bypass { _guard, _gate: gate }),
            };
            let size = match guard.shared() {
                None => Some(self.size_held(credentials, file).await?),
                Some(number) => self.size_shared(file, number, answered, wanted),
            };
            if let Some(size) = size {
                return Ok(Ready::Locked { guard, gate, size });
            }
            let number = guard.shared();
            // Callbacks wait for uses under an extent, and this request may wait for callbacks of
            // others.
            drop((gate, guard));
            let entry = self.session.mdc(file.fid)?.getattr(credentials, file.fid).await?;
            let size = self.locks.with_dirty(entry.attr).size;
            if let Some(number) = number {
                self.locks.table.lock().note_shared_size(file.fid, number, size);
                answered = Some((number, size));
            }
        }
    }

    pub(crate) async fn read_held(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
        (offset, end): (u64, u64),
        whole: bool,
        ahead: Option<Ahead>,
    ) -> Result<Vec<Bytes>, ClientError> {
        if offset >= end {
            return Ok(Vec::new());
        }
        // Dirty data first, then the objects: data that is stored in between is seen there.
        let shared_so_far = self.locks.table.lock().shared_so_far();
        let (dirty, objects_end) = {
            let dirty = file.dirty.lock();
            (dirty.bytes.overlay(offset, end), dirty.objects_end(shared_so_far))
        };
        if covers(&dirty, offset, end) {
            return Ok(dirty.into_iter().map(|(_, bytes)| bytes).collect());
        }
        // Linkers and assemblers read holes of the files they write: no OST is asked for bytes that
        // no object has.
        let objects_end = objects_end
            .filter(|_| whole && !file.tail_is_suspect())
            .unwrap_or(end)
            .clamp(offset, end);
        let mut read = match self.read_prefetched(file, offset, end) {
            Some(bytes) => return Ok(merge_dirty(vec![bytes], offset, dirty)),
            None => match &dirty[..dirty.partition_point(|(over, _)| *over < objects_end)] {
                before if covers(before, offset, objects_end) => Vec::new(),
                _ => match ahead.filter(|_| dirty.is_empty() && objects_end == end) {
                    Some(ahead) => {
                        let range = ByteRange::new(offset, end);
                        self.read_ahead(credentials, file, range, ahead).await?
                    }
                    None => self.read_known(credentials, file, offset, objects_end).await?,
                },
            },
        };
        let len = read.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        push_zeros(&mut read, (end - offset - len) as usize);
        Ok(merge_dirty(read, offset, dirty))
    }

    /// The size, as it is under DATA and UPDATE.
    pub(crate) async fn size_held(
        &self,
        credentials: &Credentials,
        file: &Arc<File>,
    ) -> Result<u64, ClientError> {
        match self.locks.attr(file.fid) {
            Some(entry) => Ok(entry.attr.size),
            None => {
                let entry = self.session.mdc(file.fid)?.getattr(credentials, file.fid).await?;
                Ok(self.locks.with_dirty(entry.attr).size)
            }
        }
    }

    /// A size that is right for reading up to `end` under an extent: bytes that are known to exist
    /// need no request. `answered`: the MDT's answer, and the time that the file is shared in which
    /// it came. `None`: the MDT must be asked.
    fn size_shared(
        &self,
        file: &Arc<File>,
        number: u64,
        answered: Option<(u64, u64)>,
        end: u64,
    ) -> Option<u64> {
        // One after the other: a write that is absorbed takes the table under the lock of the dirty
        // file.
        let written = file.dirty.lock().size();
        let known = self.locks.table.lock().shared_size(file.fid, number).max(written);
        let answered = answered.filter(|(since, _)| *since == number).map(|(_, size)| size);
        known.filter(|size| *size >= end).or(answered.max(known.filter(|_| answered.is_some())))
    }

    async fn read_bypassing(
        &self,
        credentials: &Credentials,
        file: &File,
        offset: u64,
        end: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        // Other clients write it under extents: what they wrote before is stored first (R37).
        let shared = self.locks.is_shared(file.fid);
        let end = match shared {
            true => end.min(self.ask_size(credentials, file).await?),
            false => end,
        };
        if offset < end
            && let Some(data) = self.read_small(credentials, file, offset, end).await?
        {
            return Ok(data);
        }
        if shared {
            return self.read_known(credentials, file, offset, end).await;
        }
        let known_before = file.size().unwrap_or(0);
        let first_end = end.min(known_before);
        let (data, size) = futures_util::join!(
            self.read_known(credentials, file, offset, first_end),
            self.ask_size(credentials, file)
        );
        let (mut data, size) = (data?, size?);
        if size < first_end {
            clip(&mut data, size.saturating_sub(offset));
        } else if size > known_before && end > known_before {
            data.extend(
                self.read_known(credentials, file, offset.max(known_before), end.min(size)).await?,
            );
        }
        Ok(data)
    }

    pub(crate) async fn read_known(
        &self,
        credentials: &Credentials,
        file: &File,
        start: u64,
        end: u64,
    ) -> Result<Vec<Bytes>, ClientError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let layout = self.layout_for(credentials, file, false, start, end).await?;
        self.fetch(&layout, file.fid, start, end).await
    }

    /// The size that the MDT has now, for a read that no lock covers.
    pub(crate) async fn ask_size(
        &self,
        credentials: &Credentials,
        file: &File,
    ) -> Result<u64, ClientError> {
        let entry = self.session.mdc(file.fid)?.getattr_stored(credentials, file.fid).await?;
        file.learn(&entry.attr);
        Ok(entry.attr.size)
    }
}
