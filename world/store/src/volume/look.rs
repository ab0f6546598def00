//! Reading, and looking for data and holes.

use super::inner::{BLOCK, Volume, run_of};
use super::map::Changed;
use crate::error::StoreError;
use crate::object_store::Compared;
use disk::volume::{
    BLOCK_BYTES, OBJECT_END, OBJECT_PREFIX, REGION_BYTES, REGION_UNITS, RegionUnits, UNIT_BLOCKS,
    UNIT_BYTES, Unit, block_sum, object_key, object_of, units_key, units_of,
};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use types::object::ObjectId;

/// Blocks that lie in one run on the device and in the buffer.
struct Run {
    at: u64,
    from: usize,
    /// Checksum, place and offset in the object of each.
    blocks: Vec<(u32, u32, u64)>,
}

impl Volume {
    pub(super) fn read_at(
        &self,
        id: ObjectId,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<Option<usize>, StoreError> {
        let shard = self.shard(id).read();
        let entry = shard.get(&id);
        let Some(object) = self.object(entry, id)? else { return Ok(None) };
        let end = object.size.min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return Ok(Some(0));
        }
        let len = (end - offset) as usize;
        let buf = &mut buf[..len];
        let mut run: Option<Run> = None;
        let mut at = offset;
        let mut known: Option<(u64, Option<RegionUnits>)> = None;
        while at < end {
            let region = at / REGION_BYTES;
            if known.as_ref().is_none_or(|(known, _)| *known != region) {
                known = Some((region, self.units(entry, id, region)?));
            }
            let units = known.as_ref().and_then(|(_, units)| units.as_ref());
            let unit_end = (at / UNIT_BYTES + 1) * UNIT_BYTES;
            let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let unit = units.and_then(|units| {
                units[(at % REGION_BYTES / UNIT_BYTES) as usize].filter(|unit| unit.data != 0)
            });
            let from = (at - offset) as usize;
            let block = (at % UNIT_BYTES / BLOCK_BYTES) as usize;
            let Some(unit) = unit.filter(|unit| unit.data & 1 << block != 0) else {
                let to = if unit.is_none() { unit_end } else { block_end }.min(end);
                buf[from..(to - offset) as usize].fill(0);
                at = to;
                continue;
            };
            let place = u64::from(unit.place) * UNIT_BYTES + (block * BLOCK) as u64;
            if !at.is_multiple_of(BLOCK_BYTES) || block_end > end {
                // A part of a block: all of it is read, for its checksum.
                let mut whole = [0; BLOCK];
                let start = at / UNIT_BYTES * UNIT_BYTES;
                self.read_blocks((id, start), &unit, block, unit.data, &mut whole)?;
                let (first, to) = ((at % BLOCK_BYTES) as usize, block_end.min(end));
                let part = (to - at) as usize;
                buf[from..from + part].copy_from_slice(&whole[first..first + part]);
                at = to;
                continue;
            }
            let entry = (unit.sums[block], unit.place, at);
            match &mut run {
                Some(run) if run.follows(place, from) => run.blocks.push(entry),
                _ => {
                    let next = Run { at: place, from, blocks: vec![entry] };
                    if let Some(before) = run.replace(next) {
                        self.read_run(id, &before, buf)?;
                    }
                }
            }
            at = block_end;
        }
        if let Some(run) = run {
            self.read_run(id, &run, buf)?;
        }
        Ok(Some(len))
    }

    fn read_run(&self, id: ObjectId, run: &Run, buf: &mut [u8]) -> Result<(), StoreError> {
        let buf = &mut buf[run.from..run.from + run.blocks.len() * BLOCK];
        self.read_device(buf, run.at)?;
        for (block, (sum, place, at)) in buf.chunks(BLOCK).zip(&run.blocks) {
            if block_sum(block) != *sum {
                return Err(self.rot(id, *at, *place));
            }
        }
        Ok(())
    }

    /// The next region from this one on that has units.
    pub(super) fn next_region(
        &self,
        entry: Option<&Changed>,
        id: ObjectId,
        from: u64,
    ) -> Result<Option<u64>, StoreError> {
        let mut recorded = None;
        let tx = self.store.begin();
        let mut end = units_key(id, u64::MAX);
        end.push(0);
        let scanned = tx.scan(&units_key(id, from), &end, |key, _| {
            recorded = units_of(key).map(|(_, region)| region);
            ControlFlow::Break(())
        });
        tx.finish();
        scanned?;
        let in_memory = entry.and_then(|entry| entry.next_region(from));
        Ok(recorded.into_iter().chain(in_memory).min())
    }

    pub(super) fn seek_from(
        &self,
        id: ObjectId,
        offset: u64,
        hole: bool,
    ) -> Result<Option<u64>, StoreError> {
        let shard = self.shard(id).read();
        let entry = shard.get(&id);
        let size = self.object(entry, id)?.map_or(0, |object| object.size);
        if offset >= size {
            return Ok(None);
        }
        let mut at = offset;
        while at < size {
            let region = at / REGION_BYTES;
            match (self.units(entry, id, region)?, hole) {
                (None, true) => return Ok(Some(at)),
                (None, false) => match self.next_region(entry, id, region + 1)? {
                    None => return Ok(None),
                    Some(next) => at = next * REGION_BYTES,
                },
                (Some(units), _) => {
                    if let Some(found) = find(&units, at, hole) {
                        return Ok((found < size || hole).then_some(found.min(size)));
                    }
                    at = (region + 1) * REGION_BYTES;
                }
            }
        }
        Ok(hole.then_some(size))
    }

    /// The first `limit` objects after `after`; some of them may be gone.
    pub(super) fn ids_after(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<BTreeSet<ObjectId>, StoreError> {
        let mut ids = self.changed_ids(after, limit);
        let from = match after {
            None => OBJECT_PREFIX.to_vec(),
            Some(after) => [&object_key(after)[..], &[0]].concat(),
        };
        let mut found = 0;
        let tx = self.store.begin();
        let scanned = tx.scan(&from, OBJECT_END, |key, _| {
            ids.extend(object_of(key));
            found += 1;
            if found < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        tx.finish();
        scanned?;
        while ids.len() > limit {
            ids.pop_last();
        }
        Ok(ids)
    }

    /// The first `limit` objects after `after` that memory has, ascending.
    fn changed_ids(&self, after: Option<ObjectId>, limit: usize) -> BTreeSet<ObjectId> {
        let mut ids = BTreeSet::new();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for shard in &self.shards {
            ids.extend(shard.read().range((from, Bound::Unbounded)).map(|(id, _)| *id).take(limit));
            while ids.len() > limit {
                ids.pop_last();
            }
        }
        ids
    }

    /// Bytes of units that a write takes because the object has none there.
    pub(super) fn missing(&self, id: ObjectId, start: u64, len: u64) -> Result<u64, StoreError> {
        let shard = self.shard(id).read();
        let entry = shard.get(&id);
        let end = start.saturating_add(len).div_ceil(UNIT_BYTES);
        let (mut number, mut missing) = (start / UNIT_BYTES, 0);
        while number < end {
            let region = number / REGION_UNITS as u64;
            let units = self.units(entry, id, region)?;
            let until = end.min((region + 1) * REGION_UNITS as u64);
            missing += (number..until)
                .filter(|number| {
                    let index = (number % REGION_UNITS as u64) as usize;
                    units.as_ref().is_none_or(|units| units[index].is_none())
                })
                .count() as u64;
            number = until;
        }
        Ok(missing * UNIT_BYTES)
    }

    /// Compares all blocks of a range with their checksums.
    pub(super) fn compare_range(
        &self,
        id: ObjectId,
        start: u64,
        len: u64,
    ) -> Result<Compared, StoreError> {
        let shard = self.shard(id).read();
        let entry = shard.get(&id);
        let mut compared = Compared::default();
        let mut buf = vec![0; UNIT_BYTES as usize];
        let end = start.saturating_add(len).div_ceil(REGION_BYTES);
        for region in start / REGION_BYTES..end {
            let Some(units) = self.units(entry, id, region)? else { continue };
            for (index, unit) in units.iter().enumerate() {
                let Some(unit) = unit.filter(|unit| unit.data != 0) else { continue };
                let at = region * REGION_BYTES + index as u64 * UNIT_BYTES;
                self.compare_unit(&unit, at, &mut buf, &mut compared)?;
            }
        }
        Ok(compared)
    }

    fn compare_unit(
        &self,
        unit: &Unit,
        at: u64,
        buf: &mut [u8],
        compared: &mut Compared,
    ) -> Result<(), StoreError> {
        let mut block = 0;
        while block < UNIT_BLOCKS {
            let run = run_of(unit, block, UNIT_BLOCKS);
            let buf = &mut buf[..run * BLOCK];
            let place = u64::from(unit.place) * UNIT_BYTES + (block * BLOCK) as u64;
            self.read_device(buf, place)?;
            for (n, bytes) in buf.chunks(BLOCK).enumerate() {
                compared.blocks += 1;
                if block_sum(bytes) != unit.sums[block + n] {
                    compared.bad.push(at + ((block + n) * BLOCK) as u64);
                }
            }
            block += run.max(1);
        }
        Ok(())
    }
}

impl Run {
    fn follows(&self, at: u64, from: usize) -> bool {
        let len = self.blocks.len() * BLOCK;
        self.at + len as u64 == at && self.from + len == from
    }
}

/// The first byte of the region from `at` on that is a hole, or data.
fn find(units: &RegionUnits, at: u64, hole: bool) -> Option<u64> {
    let region = at / REGION_BYTES * REGION_BYTES;
    let first = (at % REGION_BYTES / BLOCK_BYTES) as usize;
    let has = |block: usize| {
        units[block / UNIT_BLOCKS].is_some_and(|unit| unit.data & 1 << (block % UNIT_BLOCKS) != 0)
    };
    let found = (first..REGION_UNITS * UNIT_BLOCKS).find(|block| has(*block) != hole)?;
    Some(at.max(region + (found * BLOCK) as u64))
}
