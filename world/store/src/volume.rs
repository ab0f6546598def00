//! Objects on a volume: a block device, or one big file (`docs/volume.md`).
//!
//! Space is given out in units of 64 KiB. What a record names is never written again: a change goes
//! to other units, or to blocks of a unit that no record names. A round ([`rounds`]) then syncs the
//! device once and puts records with the new places and their checksums; they are durable with the
//! next commit of the target's store, and the old places are free from then on. So records and
//! bytes always fit, whenever the power goes, and a block that does not is rot: reading it fails.
//! Where a round has little to sync, the bytes go into the store as well, and the device is synced
//! later ([`logged`]).
//!
//! [`device`] knows the device, [`allocator`] and [`space`] which units are free, [`map`] what
//! changed since the last round. [`change`], [`cut`] and [`look`] are the operations, [`check`] is
//! what fsck asks.
//!
//! Memory: a bit for each unit, and the regions that changed since the last round.

mod allocator;
mod change;
pub mod check;
mod cut;
pub mod device;
mod inner;
mod logged;
mod look;
mod map;
mod rounds;
mod space;

pub use device::{DEVICE, VolumeSpec, device_of};
pub use inner::Volume;

use crate::error::{DeviceFault, StoreError};
use crate::object_store::{BackEnd, Compared, ObjectStore, ObjectsSpace, whole_units};
use crate::store::Store;
use allocator::Allocator;
use disk::volume::{
    FIRST_UNIT, OBJECT_END, OBJECT_PREFIX, ObjectRecord, REGION_BYTES, UNIT_BYTES, UNITS_END,
    UNITS_PREFIX, decode_units, units_of,
};
use env::Env;
use inner::SHARDS;
use parking_lot::Mutex;
use space::{DOUBTFUL_MAX, Space};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use types::object::ObjectId;

/// Units of 512 bytes in a unit of space.
const BLOCKS_PER_UNIT: u64 = UNIT_BYTES / 512;

impl Volume {
    /// Opens the volume on a device, for the target with this store. Reads the records of all its
    /// units.
    ///
    /// # Errors
    /// The device holds no volume, or that of another target; another process has it; records name
    /// many units twice; the disk refuses.
    pub fn open(
        env: &Env,
        device: &Path,
        (uuid, store): (u128, &Arc<Store>),
    ) -> Result<Arc<Volume>, StoreError> {
        let (file, head) = device::open_volume(env, device, uuid)?;
        let lock = env.disk.lock(device).map_err(StoreError::io("lock", device))?;
        let fault = |fault| StoreError::Device { device: device.to_owned(), fault };
        let lock = lock.ok_or_else(|| fault(DeviceFault::InUse))?;
        let logged = logged::bring_back(&*file, device, head.units - 1, store)?;
        // The last unit has the second head.
        let mut space = Space::new(Allocator::new(FIRST_UNIT..head.units - 1));
        let (mut doubtful, mut damaged) = (0, 0u64);
        let tx = store.begin();
        let scanned = tx.scan(UNITS_PREFIX, UNITS_END, |key, value| {
            match (units_of(key), decode_units(value)) {
                (Some((id, region)), Ok(units)) => {
                    for unit in units.iter().flatten() {
                        let now = space.found(unit.place);
                        if now > doubtful {
                            let place = unit.place;
                            tracing::error!(object = ?id, region, place, "this unit of the volume has another owner, or is none: run sheen fsck");
                        }
                        doubtful = now;
                    }
                }
                (found, bad) => {
                    damaged += 1;
                    tracing::error!(?found, ?bad, "a record of the volume is damaged");
                }
            }
            ControlFlow::Continue(())
        });
        let counted = scanned.and_then(|()| {
            tx.scan(OBJECT_PREFIX, OBJECT_END, |_, _| {
                space.objects += 1;
                ControlFlow::Continue(())
            })
        });
        tx.finish();
        counted?;
        if doubtful > DOUBTFUL_MAX {
            return Err(fault(DeviceFault::Records));
        }
        tracing::info!(
            device = %device.display(), units = space.used(), of = space.units(),
            objects = space.objects, doubtful, damaged, logged, "the volume is open"
        );
        Ok(Arc::new(Volume {
            path: device.to_owned(),
            device: file,
            store: store.clone(),
            shards: (0..SHARDS).map(|_| parking_lot::RwLock::default()).collect(),
            hasher: foldhash::fast::FixedState::default(),
            space: Mutex::new(space),
            turn: Mutex::new(()),
            written: AtomicBool::new(false),
            logged: Mutex::default(),
            regions: AtomicUsize::new(0),
            bad: AtomicU64::new(0),
            failure: Mutex::new(None),
            _lock: lock,
        }))
    }

    /// Objects may have no more than so many bytes from now on, in units of 64 KiB. What is there
    /// already stays.
    pub fn limit(&self, bytes: u64) {
        self.space.lock().limit(bytes);
    }
}

impl ObjectStore for Volume {
    fn back_end(&self) -> BackEnd {
        BackEnd::Volume
    }

    fn read(&self, id: ObjectId, buf: &mut [u8], offset: u64) -> Result<Option<usize>, StoreError> {
        self.read_at(id, buf, offset)
    }

    fn write(&self, id: ObjectId, data: &[u8], offset: u64) -> Result<(), StoreError> {
        self.write_at(id, data, offset)
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<(), StoreError> {
        self.cut(id, len)
    }

    fn punch(&self, id: ObjectId, start: u64, len: u64) -> Result<(), StoreError> {
        self.clear(id, start, start.saturating_add(len), false)
    }

    fn allocate(&self, id: ObjectId, start: u64, len: u64, zero: bool) -> Result<(), StoreError> {
        let end = start.saturating_add(len);
        self.allocate_units(id, start, end)?;
        if zero { self.clear(id, start, end, true) } else { Ok(()) }
    }

    fn seek(&self, id: ObjectId, offset: u64, hole: bool) -> Result<Option<u64>, StoreError> {
        self.seek_from(id, offset, hole)
    }

    fn size_and_blocks(&self, id: ObjectId) -> Result<Option<(u64, u64)>, StoreError> {
        let shard = self.shard(id).read();
        let object = self.object(shard.get(&id), id)?;
        Ok(object.map(|ObjectRecord { size, units }| (size, units * BLOCKS_PER_UNIT)))
    }

    fn destroy(&self, id: ObjectId) -> Result<bool, StoreError> {
        self.remove(id)
    }

    fn sync(&self, id: ObjectId) -> Result<(), StoreError> {
        self.sync_object(id)
    }

    fn sync_all(&self) -> Result<(), StoreError> {
        self.sync_everything()
    }

    fn needs_commit(&self) -> bool {
        true
    }

    fn start_write_back(&self, id: ObjectId, start: u64, len: u64) -> Result<(), StoreError> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        {
            let shard = self.shard(id).read();
            let Some(entry) = shard.get(&id) else { return Ok(()) };
            for region in start / REGION_BYTES..start.saturating_add(len).div_ceil(REGION_BYTES) {
                let Some(region) = entry.now.get(&region) else { continue };
                for mapped in region.units.iter().flatten() {
                    let at = u64::from(mapped.unit.place) * UNIT_BYTES;
                    match runs.last_mut() {
                        Some((start, len)) if *start + *len == at => *len += UNIT_BYTES,
                        _ => runs.push((at, UNIT_BYTES)),
                    }
                }
            }
        }
        runs.into_iter().try_for_each(|(at, len)| {
            let started = self.device.start_write_back(at, len);
            started.map_err(StoreError::io("write back", &self.path))
        })
    }

    fn space(&self) -> Result<ObjectsSpace, StoreError> {
        let space = self.space.lock();
        let (total, free) = (space.total() * UNIT_BYTES, space.free() * UNIT_BYTES);
        // An object takes a unit at least.
        let (files_total, files_free) = (space.total(), space.free());
        Ok(ObjectsSpace { total, free, files_total, files_free })
    }

    fn space_unit(&self) -> u64 {
        UNIT_BYTES
    }

    fn takes(&self, id: ObjectId, start: u64, len: u64) -> Result<u64, StoreError> {
        Ok(self.missing(id, start, len)?.min(whole_units(start, len, UNIT_BYTES)))
    }

    fn list(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<(ObjectId, u64, u64)>, StoreError> {
        let (mut listed, mut after) = (Vec::new(), after);
        loop {
            let page = self.ids_after(after, limit)?;
            let more = page.len() == limit;
            after = page.last().copied();
            for id in page {
                // One that went meanwhile makes room for the next.
                if let Some((size, blocks)) = self.size_and_blocks(id)? {
                    listed.push((id, size, blocks));
                }
                if listed.len() == limit {
                    return Ok(listed);
                }
            }
            if !more {
                return Ok(listed);
            }
        }
    }

    fn used(&self) -> Option<(u64, u64)> {
        let space = self.space.lock();
        Some((space.used() * UNIT_BYTES, space.objects))
    }

    fn compare(&self, id: ObjectId, start: u64, len: u64) -> Result<Option<Compared>, StoreError> {
        self.compare_range(id, start, len).map(Some)
    }

    fn units_of_device(&self) -> u32 {
        // With the one that has the second head.
        self.space.lock().units() + 1
    }

    fn bad_blocks(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }
}
