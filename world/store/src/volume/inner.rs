//! A volume: its device, its space, what memory has of its objects.
//!
//! Objects are spread over [`SHARDS`] by their hash. A change holds its shard alone, a read shares
//! it, each while the device is read and written: units are freed, and frozen regions put, only by
//! a thread that holds the shard alone. So a read never meets a unit that was given to another
//! object.
//!
//! Order of locks: [`Volume::turn`], a shard, the store, [`Volume::logged`] or [`Volume::space`].

use super::map::{Changed, Region};
use super::space::{Reserved, Space};
use crate::error::StoreError;
use crate::store::Store;
use disk::logged_block::BlockPlace;
use disk::volume::{
    BLOCK_BYTES, ObjectRecord, RegionUnits, UNIT_BLOCKS, UNIT_BYTES, Unit, block_sum, decode_units,
    object_key, units_key,
};
use env::disk::File;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use types::object::ObjectId;

/// Locks over objects.
pub(super) const SHARDS: usize = 256;
/// Regions in memory beyond which a change begins a round: about 22 MB, and 16 GiB of changes.
const REGIONS_MAX: usize = 1 << 14;
/// How often a writer makes room by a round and a commit before the volume counts as full.
const ATTEMPTS: u32 = 64;
/// Bytes of a block.
pub(super) const BLOCK: usize = BLOCK_BYTES as usize;

/// Objects of a shard that memory knows more of than their records say.
pub(super) type Shard = BTreeMap<ObjectId, Changed>;

/// The objects of one target, on a device.
pub struct Volume {
    /// Name of the device.
    pub(super) path: PathBuf,
    pub(super) device: Arc<dyn File>,
    pub(super) store: Arc<Store>,
    pub(super) shards: Vec<RwLock<Shard>>,
    pub(super) hasher: foldhash::fast::FixedState,
    pub(super) space: Mutex<Space>,
    /// Held by a round, and by a thread that removes records.
    pub(super) turn: Mutex<()>,
    /// The device was written since its last sync began.
    pub(super) written: AtomicBool,
    /// Blocks whose bytes are in the store ([`super::logged`]).
    pub(super) logged: Mutex<BTreeSet<BlockPlace>>,
    /// Regions in memory.
    pub(super) regions: AtomicUsize,
    /// Blocks that were read and were not what was written.
    pub(super) bad: AtomicU64,
    pub(super) failure: Mutex<Option<StoreError>>,
    /// Keeps other servers away.
    pub(super) _lock: Box<dyn Send + Sync>,
}

/// Units that a writer may take; those that are left go back when it is dropped.
pub(super) struct Reservation<'a> {
    space: &'a Mutex<Space>,
    pub(super) left: u64,
    pub(super) new: u64,
    /// Taken for what is overwritten.
    moved: u64,
    /// Taken, not used yet.
    spare: (u32, u32),
}

impl Reservation<'_> {
    /// The next place; `want` more will be asked for, this one included.
    pub(super) fn place(&mut self, want: u64) -> Option<u32> {
        if self.spare.1 == 0 {
            let want = u32::try_from(want.min(self.left)).unwrap_or(u32::MAX);
            let extent = self.space.lock().take(want, self.new);
            let (len, new) = (u64::from(extent.len), self.new.min(u64::from(extent.len)));
            (self.left, self.new, self.moved) =
                (self.left - len, self.new - new, self.moved + len - new);
            self.spare = (extent.start, extent.len);
        }
        let (place, len) = self.spare;
        self.spare = (place + 1, len.checked_sub(1)?);
        Some(place)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut space = self.space.lock();
        (self.spare.0..self.spare.0 + self.spare.1).for_each(|unit| space.free_now(unit));
        space.end(self.left, self.new, self.moved);
    }
}

impl Volume {
    pub(super) fn shard(&self, id: ObjectId) -> &RwLock<Shard> {
        &self.shards[self.hasher.hash_one(id) as usize % SHARDS]
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    pub(super) fn fail(&self, error: StoreError) -> StoreError {
        tracing::error!("{error}; no sync is believed until the target is opened again");
        *self.failure.lock() = Some(StoreError::Poisoned { cause: error.to_string().into() });
        error
    }

    /// The object as it is now; `None`: there is none.
    pub(super) fn object(
        &self,
        entry: Option<&Changed>,
        id: ObjectId,
    ) -> Result<Option<ObjectRecord>, StoreError> {
        if let Some(entry) = entry {
            return Ok(Some(entry.record));
        }
        let tx = self.store.begin();
        let found = tx.get(&object_key(id), ObjectRecord::decode);
        tx.finish();
        found?.transpose().map_err(|damaged| self.damaged(id, 0, &damaged))
    }

    /// A region as it is now; `None`: it has no units.
    pub(super) fn units(
        &self,
        entry: Option<&Changed>,
        id: ObjectId,
        region: u64,
    ) -> Result<Option<RegionUnits>, StoreError> {
        if let Some(region) = entry.and_then(|entry| entry.region(region)) {
            return Ok(Some(region.content()));
        }
        let tx = self.store.begin();
        let found = tx.get(&units_key(id, region), decode_units);
        tx.finish();
        found?.transpose().map_err(|damaged| self.damaged(id, region, &damaged))
    }

    fn damaged(&self, id: ObjectId, region: u64, damaged: &disk::damaged::Damaged) -> StoreError {
        tracing::error!(object = ?id, region, %damaged, "a record of the volume is damaged: EIO");
        StoreError::Damaged { file: self.path.clone(), offset: 0, reason: damaged.to_string() }
    }

    /// The object's entry, for a change. `None`: there is no such object, and none is made.
    pub(super) fn entry<'a>(
        &self,
        shard: &'a mut Shard,
        id: ObjectId,
        make: bool,
    ) -> Result<Option<&'a mut Changed>, StoreError> {
        if let btree_map::Entry::Vacant(vacant) = shard.entry(id) {
            let record = self.object(None, id)?;
            if record.is_none() {
                if !make {
                    return Ok(None);
                }
                self.space.lock().objects += 1;
            }
            vacant.insert(Changed::of(record));
        }
        Ok(shard.get_mut(&id))
    }

    /// A region of an entry, for a change.
    pub(super) fn region<'a>(
        &self,
        entry: &'a mut Changed,
        id: ObjectId,
        region: u64,
    ) -> Result<&'a mut Region, StoreError> {
        if !entry.now.contains_key(&region) {
            let units = self.units(Some(entry), id, region)?.unwrap_or_default();
            entry.now.insert(region, Box::new(Region::of(&units)));
            self.regions.fetch_add(1, Ordering::Relaxed);
        }
        Ok(entry.now.entry(region).or_default())
    }

    /// A round, if memory has too much. The caller holds no lock.
    pub(super) fn bound_memory(&self) -> Result<(), StoreError> {
        if self.regions.load(Ordering::Relaxed) > REGIONS_MAX {
            let _turn = self.turn.lock();
            if self.regions.load(Ordering::Relaxed) > REGIONS_MAX {
                self.round()?;
            }
        }
        Ok(())
    }

    /// Reserves `all` units, `new` of which make objects larger. The caller holds no lock.
    pub(super) fn reserve(&self, all: u64, new: u64) -> Result<Reservation<'_>, StoreError> {
        for _ in 0..ATTEMPTS {
            {
                let mut space = self.space.lock();
                space.committed(self.store.last_committed());
                match space.reserve(all, new) {
                    Reserved::Yes => {
                        let space = &self.space;
                        return Ok(Reservation { space, left: all, new, moved: 0, spare: (0, 0) });
                    }
                    Reserved::Full => break,
                    Reserved::Later => {}
                }
            }
            {
                let _turn = self.turn.lock();
                self.round()?;
            }
            self.store.commit_blocking()?;
        }
        Err(self.no_space())
    }

    pub(super) fn no_space(&self) -> StoreError {
        let space = self.space.lock();
        let (used, capacity) = (space.used() * UNIT_BYTES, space.total() * UNIT_BYTES);
        StoreError::NoSpace { used, capacity, reserved: 0 }
    }

    /// Reads whole blocks of a unit into `buf`, beginning with block `first`, and compares those in
    /// `of` with their checksums.
    pub(super) fn read_blocks(
        &self,
        (id, at): (ObjectId, u64),
        unit: &Unit,
        first: usize,
        of: u16,
        buf: &mut [u8],
    ) -> Result<(), StoreError> {
        self.read_device(buf, u64::from(unit.place) * UNIT_BYTES + (first * BLOCK) as u64)?;
        for (n, block) in buf.chunks(BLOCK).enumerate() {
            let index = first + n;
            if of & 1 << index != 0 && block_sum(block) != unit.sums[index] {
                return Err(self.rot(id, at + (index * BLOCK) as u64, unit.place));
            }
        }
        Ok(())
    }

    /// Reads the device; zeros where it ends, which no checksum believes.
    pub(super) fn read_device(&self, buf: &mut [u8], offset: u64) -> Result<(), StoreError> {
        let mut done = 0;
        while done < buf.len() {
            let read = self.device.read_at(&mut buf[done..], offset + done as u64);
            match read.map_err(StoreError::io("read", &self.path))? {
                0 => break,
                n => done += n,
            }
        }
        buf[done..].fill(0);
        Ok(())
    }

    /// A block is not what was written.
    pub(super) fn rot(&self, id: ObjectId, at: u64, place: u32) -> StoreError {
        self.bad.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            device = %self.path.display(), object = ?id, offset = at, unit = place,
            "data on the volume is not what was written: EIO"
        );
        StoreError::Damaged {
            file: self.path.clone(),
            offset: u64::from(place) * UNIT_BYTES,
            reason: format!("a block of {id:?} at {at} has another checksum"),
        }
    }

    pub(super) fn write_device(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.written.store(true, Ordering::Release);
        self.device.write_all_at(bytes, offset).map_err(StoreError::io("write", &self.path))
    }
}

/// The blocks of `unit` from `first` on that have data without a gap.
pub(super) fn run_of(unit: &Unit, first: usize, end: usize) -> usize {
    (first..end.min(UNIT_BLOCKS)).take_while(|block| unit.data & 1 << block != 0).count()
}
