//! Reading and writing objects. Everything here blocks.

use crate::ost::Ost;
use bytes::Bytes;
use types::errno::Errno;
use types::limits::{BULK_BYTES_MAX, FILE_BYTES_MAX};
use types::object::{ObjectId, ObjectOffset};
use types::session::Transno;

impl Ost {
    /// Bytes at `offset`; fewer where the object ends, none if there is no object.
    pub(crate) fn read(&self, object: ObjectId, offset: ObjectOffset, len: u32) -> Result<Bytes, Errno> {
        if len as usize > BULK_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        let _gate = self.gates.read(object);
        let size = self.objects().size_and_blocks(object)?.map_or(0, |(size, _)| size);
        let len = u64::from(len).min(size.saturating_sub(offset.0));
        if len == 0 {
            return Ok(Bytes::new());
        }
        // Zeroed memory comes from the allocator, for large reads straight from the kernel: no second pass.
        let mut bytes = vec![0; len as usize];
        let read = self.objects().read(object, &mut bytes, offset.0)?.unwrap_or(0);
        bytes.truncate(read);
        Ok(bytes.into())
    }

    /// Stores `data`; by how many blocks the object grew. The data is in the page cache then, and durable with `sync`.
    pub(crate) fn write(
        &self,
        object: ObjectId,
        offset: ObjectOffset,
        data: &Bytes,
        sync: bool,
    ) -> Result<(i64, Transno), Errno> {
        if data.len() > BULK_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        check_end(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok((0, Transno(0)));
        }
        let changed = self.change(object, None, || {
            self.check_room(object, offset.0, data.len() as u64)?;
            self.objects().write(object, data, offset.0)
        })?;
        if sync {
            self.sync_object(object)?;
        }
        Ok(changed)
    }
}

/// EFBIG if a file cannot reach so far.
pub(crate) fn check_end(offset: ObjectOffset, len: u64) -> Result<u64, Errno> {
    offset.0.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(Errno::EFBIG)
}
