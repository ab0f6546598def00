//! Where the data of objects is: the part of a target behind which back ends differ.
//!
//! `files` ([`crate::objects`]) keeps each object in a local file, `volume` ([`crate::volume`]) all
//! of them on one device. An object exists from its first write. Nothing is durable until `sync` or
//! `sync_all`; with [`ObjectStore::needs_commit`], until a commit of the target's store behind
//! that. After a failed sync every later one fails.
//!
//! All calls block; call them where that is allowed. Callers order a destroy against other calls on
//! the same object.

use crate::error::StoreError;
use types::limits::GRANT_UNIT;
use types::object::ObjectId;

/// Space for objects, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectsSpace {
    /// In all.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Inodes of the volume.
    pub files_total: u64,
    /// Inodes free.
    pub files_free: u64,
}

/// What a comparison of data with the back end's own checksums found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Blocks that were compared.
    pub blocks: u64,
    /// Offsets of bad ones in the object, ascending.
    pub bad: Vec<u64>,
}

/// A kind of back end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackEnd {
    /// A local file for each object.
    #[default]
    Files,
    /// One device.
    Volume,
}

impl BackEnd {
    /// Its name, as `mkfs.sheen --backfstype` has it.
    pub fn word(self) -> &'static str {
        match self {
            BackEnd::Files => "files",
            BackEnd::Volume => "volume",
        }
    }
}

/// The objects of one target.
pub trait ObjectStore: Send + Sync {
    /// Its kind.
    fn back_end(&self) -> BackEnd;

    /// Reads up to `buf.len()` bytes at `offset`, 0 at the end; `None`: no such object.
    ///
    /// # Errors
    /// The disk refuses; [`StoreError::Damaged`]: the bytes are not what was written.
    fn read(&self, id: ObjectId, buf: &mut [u8], offset: u64) -> Result<Option<usize>, StoreError>;

    /// Writes all of `data` at `offset`; creates the object if need be.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`]; else the disk refuses.
    fn write(&self, id: ObjectId, data: &[u8], offset: u64) -> Result<(), StoreError>;

    /// Cuts the object or grows it with a hole; creates it if need be.
    ///
    /// # Errors
    /// The disk refuses.
    fn truncate(&self, id: ObjectId, len: u64) -> Result<(), StoreError>;

    /// Deallocates a range; the size stays. Nothing happens to an object that does not exist.
    ///
    /// # Errors
    /// The disk refuses.
    fn punch(&self, id: ObjectId, start: u64, len: u64) -> Result<(), StoreError>;

    /// Allocates a range, with `zero` as zeros; creates and grows the object if need be.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`]; else the disk refuses.
    fn allocate(&self, id: ObjectId, start: u64, len: u64, zero: bool) -> Result<(), StoreError>;

    /// Next data (or hole) at or after `offset`; `None` beyond the end and for an object that does
    /// not exist.
    ///
    /// # Errors
    /// The disk refuses.
    fn seek(&self, id: ObjectId, offset: u64, hole: bool) -> Result<Option<u64>, StoreError>;

    /// (size in bytes, 512-byte blocks); `None`: no such object.
    ///
    /// # Errors
    /// The disk refuses.
    fn size_and_blocks(&self, id: ObjectId) -> Result<Option<(u64, u64)>, StoreError>;

    /// Removes the object; says whether there was one.
    ///
    /// # Errors
    /// The disk refuses.
    fn destroy(&self, id: ObjectId) -> Result<bool, StoreError>;

    /// The object's data, size and name are durable when this returns (or `needs_commit`).
    ///
    /// # Errors
    /// This sync or an earlier one failed.
    fn sync(&self, id: ObjectId) -> Result<(), StoreError>;

    /// Everything that was changed before the call is durable when this returns (or
    /// `needs_commit`).
    ///
    /// # Errors
    /// This sync or an earlier one failed.
    fn sync_all(&self) -> Result<(), StoreError>;

    /// True if what was synced or destroyed is durable only with the next commit of the target's
    /// store, and what was not synced is lost with the process.
    fn needs_commit(&self) -> bool {
        false
    }

    /// Starts to write a range out without waiting for it, so that a later sync waits for less.
    ///
    /// # Errors
    /// The disk refuses. The next sync reports what cannot be written.
    fn start_write_back(&self, id: ObjectId, start: u64, len: u64) -> Result<(), StoreError>;

    /// Space that objects have.
    ///
    /// # Errors
    /// The volume cannot be asked.
    fn space(&self) -> Result<ObjectsSpace, StoreError>;

    /// Bytes that space is given out in: a write takes at most the units that it touches.
    fn space_unit(&self) -> u64 {
        GRANT_UNIT
    }

    /// Bytes of space that a write of `[start, start + len)` takes, at most; 0: it has all of it.
    ///
    /// # Errors
    /// The disk refuses.
    fn takes(&self, id: ObjectId, start: u64, len: u64) -> Result<u64, StoreError>;

    /// Up to `limit` objects after `after` (`None`: from the first), in an order of the back end's
    /// own: size in bytes and 512-byte blocks of each.
    ///
    /// # Errors
    /// The disk refuses.
    fn list(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<(ObjectId, u64, u64)>, StoreError>;

    /// Bytes and objects in use, if the back end counts them; else the caller does.
    fn used(&self) -> Option<(u64, u64)> {
        None
    }

    /// The part of the objects in which this one is counted, one of 256.
    fn upper_folder(&self, _: ObjectId) -> u8 {
        0
    }

    /// Objects in one of the 256 parts, ascending. Not asked if `used` knows.
    ///
    /// # Errors
    /// The disk refuses.
    fn list_upper_folder(&self, _: u8) -> Result<Vec<ObjectId>, StoreError> {
        Ok(Vec::new())
    }

    /// Compares the blocks of `[start, start + len)`, a multiple of 1 MiB, with the checksums that
    /// the back end has of them; `None`: it has none.
    ///
    /// # Errors
    /// The disk refuses.
    fn compare(&self, _: ObjectId, _: u64, _: u64) -> Result<Option<Compared>, StoreError> {
        Ok(None)
    }

    /// Units of the device that they are on, used and unused; 0: they are on none.
    fn units_of_device(&self) -> u32 {
        0
    }

    /// Blocks so far that were read and were not what was written.
    fn bad_blocks(&self) -> u64 {
        0
    }
}

/// Bytes of the units of `unit` bytes that `[start, start + len)` touches.
pub fn whole_units(start: u64, len: u64, unit: u64) -> u64 {
    let end = start.saturating_add(len);
    end.checked_next_multiple_of(unit).unwrap_or(end) - start / unit * unit
}
