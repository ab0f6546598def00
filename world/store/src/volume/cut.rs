//! Truncation, holes, removal.
//!
//! Nothing of it needs the device, but zeros in the blocks of which a part goes. Where a few
//! regions change, they change in memory, and the next round puts them. Where many go whole, their
//! records are deleted at once, [`REGIONS_AT_ONCE`] in a transaction: that may be durable before
//! changes that were made earlier and are not synced, as with any file after a power cut, and the
//! clients that made these bring them back in their order. The thread that deletes records has the
//! turn, so that no round puts one of them again.

use super::inner::{BLOCK, Volume};
use super::map::within;
use crate::error::StoreError;
use disk::volume::{
    BLOCK_BYTES, ObjectRecord, REGION_BYTES, REGION_UNITS, UNIT_BYTES, decode_units, object_key,
    units_key, units_of,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use types::object::ObjectId;

/// Regions whose records are deleted in one transaction: 1 GiB of an object.
const REGIONS_AT_ONCE: usize = 1024;
/// Regions that are changed in memory; more than this are deleted at once.
const REGIONS_IN_MEMORY: u64 = 16;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

impl Volume {
    pub(super) fn cut(&self, id: ObjectId, len: u64) -> Result<(), StoreError> {
        self.check()?;
        let size = {
            let mut shard = self.shard(id).write();
            let size = self.entry(&mut shard, id, true)?.map_or(0, |entry| entry.record.size);
            if len >= size {
                self.set_size(&mut shard, id, len)?;
            }
            size
        };
        if len >= size {
            return Ok(());
        }
        self.clear(id, len, size, false)?;
        let mut shard = self.shard(id).write();
        self.set_size(&mut shard, id, len)
    }

    fn set_size(
        &self,
        shard: &mut super::inner::Shard,
        id: ObjectId,
        len: u64,
    ) -> Result<(), StoreError> {
        if let Some(entry) = self.entry(shard, id, true)? {
            entry.record.size = len;
            entry.dirty = true;
        }
        Ok(())
    }

    /// Makes `[start, end)` zeros; units that have nothing else are given up, unless they are kept.
    /// The end of the object counts as the end of its last unit.
    pub(super) fn clear(
        &self,
        id: ObjectId,
        start: u64,
        end: u64,
        keep: bool,
    ) -> Result<(), StoreError> {
        self.check()?;
        let size = {
            let shard = self.shard(id).read();
            self.object(shard.get(&id), id)?.map_or(0, |object| object.size)
        };
        if start >= end.min(size) {
            return Ok(());
        }
        let end = if end >= size { size.next_multiple_of(UNIT_BYTES) } else { end };
        // Blocks of which a part stays.
        let first = start.next_multiple_of(BLOCK_BYTES);
        let last = end / BLOCK_BYTES * BLOCK_BYTES;
        self.zero_part(id, start, end.min(first).min(size))?;
        if last >= first {
            self.zero_part(id, last, end.min(size))?;
        }
        if first >= last {
            return Ok(());
        }
        // Regions that go whole.
        let (from, to) = (first.div_ceil(REGION_BYTES), last / REGION_BYTES);
        let to = if end >= size { last.div_ceil(REGION_BYTES) } else { to };
        if !keep && to > from && to - from > REGIONS_IN_MEMORY {
            {
                let _turn = self.turn.lock();
                self.remove_regions(id, from, to)?;
            }
            self.clear_blocks(id, first, last.min(from * REGION_BYTES), keep)?;
            return self.clear_blocks(id, first.max(to * REGION_BYTES), last, keep);
        }
        self.clear_blocks(id, first, last, keep)
    }

    /// Writes zeros to a part of a block, if it has data.
    fn zero_part(&self, id: ObjectId, start: u64, end: u64) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let has = {
            let shard = self.shard(id).read();
            let units = self.units(shard.get(&id), id, start / REGION_BYTES)?;
            let index = (start % REGION_BYTES / UNIT_BYTES) as usize;
            let unit = units.and_then(|units| units[index]);
            unit.is_some_and(|unit| unit.data & 1 << (start % UNIT_BYTES / BLOCK_BYTES) != 0)
        };
        match has {
            true => self.write_at(id, &ZEROS[..(end - start) as usize], start),
            false => Ok(()),
        }
    }

    /// Takes the data of whole blocks away, in memory.
    fn clear_blocks(
        &self,
        id: ObjectId,
        start: u64,
        end: u64,
        keep: bool,
    ) -> Result<(), StoreError> {
        let mut region = start / REGION_BYTES;
        while region * REGION_BYTES < end {
            self.bound_memory()?;
            let mut shard = self.shard(id).write();
            let Some(entry) = self.entry(&mut shard, id, false)? else { return Ok(()) };
            // Regions without units are passed over.
            if self.units(Some(entry), id, region)?.is_none() {
                match self.next_region(Some(entry), id, region)? {
                    Some(next) => region = next,
                    None => return Ok(()),
                }
                continue;
            }
            let cleared = self.region(entry, id, region)?;
            let mut lost = 0;
            for index in 0..REGION_UNITS {
                let at = region * REGION_BYTES + index as u64 * UNIT_BYTES;
                let part = |edge: u64| edge.saturating_sub(at).min(UNIT_BYTES) as usize;
                let Some(mapped) = &mut cleared.units[index] else { continue };
                let whole = within(part(start), part(end), BLOCK);
                if whole == 0 {
                    continue;
                }
                // A part of what was allocated and not written stays allocated.
                let gives_up = !keep && (whole == u16::MAX || mapped.unit.data != 0);
                mapped.unit.data &= !whole;
                if mapped.unit.data == 0 && gives_up {
                    self.gave_up(cleared.give_up(index));
                    lost += 1;
                }
            }
            entry.record.units -= lost;
            entry.dirty = true;
            region += 1;
        }
        Ok(())
    }

    /// Removes regions of an object in steps. The caller has the turn.
    fn remove_regions(&self, id: ObjectId, from: u64, to: u64) -> Result<(), StoreError> {
        let mut from = from;
        while let Some(next) = self.remove_some(id, from, to)? {
            from = next;
            let crowded = self.space.lock().is_crowded();
            if crowded {
                let committed = self.store.commit_blocking()?;
                self.space.lock().committed(committed);
            }
        }
        Ok(())
    }

    /// Returns where to go on, if there is more.
    fn remove_some(&self, id: ObjectId, from: u64, to: u64) -> Result<Option<u64>, StoreError> {
        let shard = &mut *self.shard(id).write();
        let entry = shard.get_mut(&id);
        let mut tx = self.store.begin();
        let mut recorded = Vec::new();
        tx.scan(&units_key(id, from), &units_key(id, to), |key, value| {
            match (units_of(key), decode_units(value)) {
                (Some((_, region)), Ok(units)) => recorded.push((region, units)),
                // Its units are lost until fsck finds them.
                (region, damaged) => {
                    tracing::error!(?region, ?damaged, "a record of the volume is damaged")
                }
            }
            match recorded.len() {
                REGIONS_AT_ONCE => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })?;
        let record = tx.get(&object_key(id), ObjectRecord::decode)?;
        let next = recorded.last().filter(|_| recorded.len() == REGIONS_AT_ONCE);
        let next = next.map(|(region, _)| region + 1);
        let mut places = BTreeSet::new();
        let (mut lost, mut lost_recorded, mut superseded) = (0, 0, 0);
        let in_memory = entry.map(|entry| {
            debug_assert!(entry.frozen.is_empty(), "the caller has the turn");
            let keys: Vec<u64> =
                entry.now.range(from..next.unwrap_or(to)).map(|(region, _)| *region).collect();
            (entry, keys)
        });
        let mut known = BTreeSet::new();
        let entry = in_memory.map(|(entry, keys)| {
            for key in keys {
                let Some(region) = entry.now.remove(&key) else { continue };
                self.regions.fetch_sub(1, Ordering::Relaxed);
                known.insert(key);
                superseded += region.superseded.len() as u64;
                for mapped in region.units.iter().flatten() {
                    places.insert(mapped.unit.place);
                    lost += 1;
                }
            }
            entry
        });
        for (region, units) in recorded {
            tx.delete(&units_key(id, region));
            for unit in units.iter().flatten() {
                places.insert(unit.place);
                lost_recorded += 1;
                lost += u64::from(!known.contains(&region));
            }
        }
        if let Some(Ok(mut record)) = record.filter(|_| lost_recorded > 0) {
            record.units = record.units.saturating_sub(lost_recorded);
            tx.put(&object_key(id), &record.encode());
        }
        let transno = tx.finish();
        if let Some(entry) = entry {
            entry.record.units = entry.record.units.saturating_sub(lost);
            entry.dirty = true;
        }
        let mut space = self.space.lock();
        space.unsupersede(superseded);
        space.free_after(transno, places.into_iter());
        Ok(next)
    }

    /// Removes an object. Durable with the next commit of the store.
    pub(super) fn remove(&self, id: ObjectId) -> Result<bool, StoreError> {
        self.check()?;
        let _turn = self.turn.lock();
        {
            let shard = self.shard(id).read();
            if self.object(shard.get(&id), id)?.is_none() {
                return Ok(false);
            }
        }
        self.remove_regions(id, 0, u64::MAX)?;
        let mut shard = self.shard(id).write();
        shard.remove(&id);
        let mut tx = self.store.begin();
        tx.delete(&object_key(id));
        tx.finish();
        self.space.lock().objects -= 1;
        Ok(true)
    }
}
