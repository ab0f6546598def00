//! Reading and writing objects. Everything here blocks.

use crate::ledger::Author;
use crate::ost::Ost;
use bytes::Bytes;
use observe::fault;
use target::room::Payment;
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, FILE_BYTES_MAX};
use types::object::{ObjectId, ObjectOffset};
use types::session::Transno;

impl Ost {
    /// Bytes at `offset`; fewer where the object ends, none if there is no object.
    pub(crate) fn read(
        &self,
        object: ObjectId,
        offset: ObjectOffset,
        len: u32,
    ) -> Result<Bytes, Errno> {
        if len as usize > BULK_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        let _gate = self.gates.read(object);
        let size = self.objects().size_and_blocks(object)?.map_or(0, |(size, _)| size);
        if self.sums.is_on() {
            return self.read_checked(object, offset.0, len.into(), size);
        }
        let len = u64::from(len).min(size.saturating_sub(offset.0));
        if len == 0 {
            return Ok(Bytes::new());
        }
        let read =
            |bytes: &mut [u8]| Ok(self.objects().read(object, bytes, offset.0)?.unwrap_or(0));
        self.buffers.fill(len as usize, read)
    }

    /// Stores `data`; returns the blocks that the object grew by. The data is in the page cache
    /// then. `sync`: a sync comes next.
    pub(crate) fn write(
        &self,
        (author, payment): (Author, &mut Payment),
        object: ObjectId,
        offset: ObjectOffset,
        data: &Bytes,
        sync: bool,
    ) -> Result<(i64, Transno), Errno> {
        if data.len() > BULK_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        check_end(offset, data.len() as u64)?;
        for point in [&fault::OST_EROFS, &fault::OST_MAPBLK_ENOSPC] {
            fault::hit_blocking(point).map_err(Errno)?;
        }
        if data.is_empty() {
            return Ok((0, Transno(0)));
        }
        let changed = self.change(object, None, (author, data.len() as u64), || {
            let _room = self.check_room(payment, object, offset.0, data.len() as u64)?;
            self.objects().write(object, data, offset.0)
        })?;
        if !sync {
            self.write_back_streams(object, offset.0, data.len() as u64);
        }
        Ok(changed)
    }
}

impl Ost {
    /// A long sequential write goes to the disk meanwhile; see `streams`.
    fn write_back_streams(&self, object: ObjectId, start: u64, len: u64) {
        let Some(step) = self.streams.wrote(object, start, len) else { return };
        let objects = self.objects_shared();
        let work = move || {
            // The whole step moves in: its room is free again at the end of this.
            let step = step;
            if let Err(error) = objects.start_write_back(object, step.start, step.len) {
                // The bytes are still dirty, or the next sync fails: nothing is lost here.
                tracing::warn!(%error, "write-back could not be started");
            }
        };
        self.env().tasks.spawn_blocking("ost write-back", Box::new(work));
    }
}

/// EFBIG if a file cannot reach so far.
pub(crate) fn check_end(offset: ObjectOffset, len: u64) -> Result<u64, Errno> {
    offset.0.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::EFBIG)
}
