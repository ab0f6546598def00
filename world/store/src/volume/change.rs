//! Writing and allocating.
//!
//! A block of a unit that no record names is written where the unit lies: an append to a small file
//! goes on in its unit. A block that a record names is never written again: the unit moves to a new
//! place, with its other blocks, which are compared with their checksums on the way.

use super::inner::{BLOCK, Reservation, Volume};
use super::map::{Changed, GivenUp, Mapped, touched};
use super::space::PIECE;
use crate::error::StoreError;
use disk::volume::{REGION_UNITS, UNIT_BLOCKS, UNIT_BYTES, Unit, block_sum};
use types::errno::Errno;
use types::object::ObjectId;

const UNIT: usize = UNIT_BYTES as usize;
/// Units that are allocated in one step.
const ALLOCATED_AT_ONCE: u64 = 1024;

/// Bytes of a write, `[from, to)`, that lie in one run on the device.
#[derive(Clone, Copy)]
struct Run {
    at: u64,
    from: usize,
    to: usize,
}

/// A change of one unit, done on the device but not in memory.
struct Done {
    number: u64,
    unit: Unit,
    moved: bool,
}

/// A part of a write that lies in one unit.
struct Part<'a> {
    number: u64,
    /// Where it begins in the unit.
    from: usize,
    /// Where it begins in what is written.
    within: usize,
    bytes: &'a [u8],
}

impl Part<'_> {
    fn to(&self) -> usize {
        self.from + self.bytes.len()
    }

    fn touched(&self) -> u16 {
        touched(self.from, self.to(), BLOCK)
    }
}

fn parts(bytes: &[u8], offset: u64) -> impl Iterator<Item = Part<'_>> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(done..).filter(|rest| !rest.is_empty())?;
        let at = offset + done as u64;
        let (from, within) = ((at % UNIT_BYTES) as usize, done);
        let len = rest.len().min(UNIT - from);
        done += len;
        Some(Part { number: at / UNIT_BYTES, from, within, bytes: &rest[..len] })
    })
}

fn place_in(number: u64) -> (u64, usize) {
    (number / REGION_UNITS as u64, (number % REGION_UNITS as u64) as usize)
}

impl Volume {
    pub(super) fn write_at(
        &self,
        id: ObjectId,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), StoreError> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            let path = self.path.clone();
            return Err(StoreError::Io { action: "write", path, errno: Errno::EFBIG });
        }
        for (n, piece) in bytes.chunks(PIECE).enumerate() {
            self.bound_memory()?;
            self.write_piece(id, piece, offset + (n * PIECE) as u64)?;
        }
        Ok(())
    }

    fn write_piece(&self, id: ObjectId, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.check()?;
        // As if all of it were new: where there is room, that need not be known.
        let most = parts(bytes, offset).count() as u64;
        let generous = {
            let free = self.space.lock().free();
            if free > 4 * most { Some(self.reserve(most, most)?) } else { None }
        };
        let mut reservation = match generous {
            Some(reservation) => reservation,
            None => {
                let (all, new) = {
                    let shard = self.shard(id).read();
                    self.needs(shard.get(&id), id, bytes, offset)?
                };
                self.reserve(all, new)?
            }
        };
        loop {
            let mut shard = self.shard(id).write();
            let (all, new) = self.needs(shard.get(&id), id, bytes, offset)?;
            if all <= reservation.left && new <= reservation.new {
                let entry = self.entry(&mut shard, id, true)?;
                // It was just made.
                let Some(entry) = entry else { return Ok(()) };
                return self.write_parts((entry, id), bytes, offset, (&mut reservation, all));
            }
            drop(shard);
            // Another change came between, which no caller orders so.
            drop(reservation);
            reservation = self.reserve(all, new)?;
        }
    }

    /// Units that a write takes, and how many of them make the object larger.
    fn needs(
        &self,
        entry: Option<&Changed>,
        id: ObjectId,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(u64, u64), StoreError> {
        let (mut all, mut new, mut known) = (0, 0, None);
        for part in parts(bytes, offset) {
            let (region, index) = place_in(part.number);
            if known.as_ref().is_none_or(|(known, _)| *known != region) {
                known = Some((region, self.units(entry, id, region)?));
            }
            let unit = known.as_ref().and_then(|(_, units)| units.as_ref()?[index]);
            match unit {
                None => (all, new) = (all + 1, new + 1),
                Some(unit) if unit.used & part.touched() != 0 => all += 1,
                Some(_) => {}
            }
        }
        Ok((all, new))
    }

    fn write_parts(
        &self,
        (entry, id): (&mut Changed, ObjectId),
        bytes: &[u8],
        offset: u64,
        (reservation, want): (&mut Reservation<'_>, u64),
    ) -> Result<(), StoreError> {
        let mut done = Vec::new();
        let written = self.write_units((entry, id), bytes, offset, (reservation, want), &mut done);
        if let Err(error) = written {
            let mut space = self.space.lock();
            done.iter().filter(|done| done.moved).for_each(|done| space.free_now(done.unit.place));
            return Err(error);
        }
        for Done { number, unit, moved } in done {
            let (region, index) = place_in(number);
            let region = self.region(entry, id, region)?;
            let old = region.units[index];
            if moved {
                self.gave_up(region.give_up(index));
            }
            let (sealed, put) = match old.filter(|_| !moved) {
                Some(old) => (old.sealed, old.put),
                None => (0, false),
            };
            region.units[index] = Some(Mapped { unit, sealed, put });
            entry.record.units += u64::from(old.is_none());
        }
        entry.record.size = entry.record.size.max(offset + bytes.len() as u64);
        entry.dirty = true;
        Ok(())
    }

    /// Writes to the device; memory does not know of it yet.
    fn write_units(
        &self,
        (entry, id): (&mut Changed, ObjectId),
        bytes: &[u8],
        offset: u64,
        (reservation, mut want): (&mut Reservation<'_>, u64),
        done: &mut Vec<Done>,
    ) -> Result<(), StoreError> {
        let mut run = None;
        for part in parts(bytes, offset) {
            let (region, index) = place_in(part.number);
            let old = self.region(entry, id, region)?.units[index];
            let stays = old.filter(|old| old.sealed & part.touched() == 0);
            let (place, moved) = match stays {
                Some(old) => (old.unit.place, false),
                None => {
                    let place = reservation.place(want).ok_or_else(|| self.no_space())?;
                    want = want.saturating_sub(1);
                    (place, true)
                }
            };
            let unit = Unit { place, ..Unit::default() };
            // Noted first, so that a failure gives the place back.
            done.push(Done { number: part.number, unit, moved });
            let (unit, direct) = self.write_part((id, &part), old, (place, moved))?;
            if let Some(done) = done.last_mut() {
                done.unit = unit;
            }
            if let Some(at) = direct {
                let (from, to) = (part.within, part.within + part.bytes.len());
                match &mut run {
                    Some(Run { at: before, from: began, to: end })
                        if *end == from && *before + (from - *began) as u64 == at =>
                    {
                        *end = to;
                    }
                    _ => {
                        if let Some(Run { at, from, to }) = run.replace(Run { at, from, to }) {
                            self.write_device(&bytes[from..to], at)?;
                        }
                    }
                }
            }
        }
        match run {
            Some(Run { at, from, to }) => self.write_device(&bytes[from..to], at),
            None => Ok(()),
        }
    }

    /// Returns what the unit is with a part, and where the part's own bytes are to be written;
    /// `None`: they were, with bytes around them.
    fn write_part(
        &self,
        (id, part): (ObjectId, &Part<'_>),
        old: Option<Mapped>,
        (place, moved): (u32, bool),
    ) -> Result<(Unit, Option<u64>), StoreError> {
        let touched = part.touched();
        let old = old.map(|old| old.unit).unwrap_or_default();
        // Blocks that come along to a new place.
        let kept = if moved { old.data & !touched } else { 0 };
        let used = if moved { kept } else { old.used };
        let mut unit =
            Unit { place, used: used | touched, data: old.data | touched, sums: old.sums };
        let sums = |unit: &mut Unit, first: usize, bytes: &[u8]| {
            for (n, block) in bytes.chunks(BLOCK).enumerate() {
                if touched & 1 << (first + n) != 0 {
                    unit.sums[first + n] = block_sum(block);
                }
            }
        };
        let start = u64::from(place) * UNIT_BYTES;
        let (cut_head, cut_tail) = (part.from % BLOCK != 0, part.to() % BLOCK != 0);
        if kept == 0 && !cut_head && !cut_tail {
            sums(&mut unit, part.from / BLOCK, part.bytes);
            return Ok((unit, Some(start + part.from as u64)));
        }
        let range = kept | touched;
        let first = range.trailing_zeros() as usize;
        let end = UNIT_BLOCKS - range.leading_zeros() as usize;
        let mut buf = vec![0; (end - first) * BLOCK];
        let (head, tail) = (part.from / BLOCK, (part.to() - 1) / BLOCK);
        // With the blocks of which only a part is written.
        let mut needed = kept;
        if cut_head {
            needed |= old.data & 1 << head;
        }
        if cut_tail {
            needed |= old.data & 1 << tail;
        }
        self.read_kept((id, part.number * UNIT_BYTES), &old, (first, needed), &mut buf)?;
        let from = part.from - first * BLOCK;
        buf[from..from + part.bytes.len()].copy_from_slice(part.bytes);
        sums(&mut unit, first, &buf);
        self.write_device(&buf, start + (first * BLOCK) as u64)?;
        Ok((unit, None))
    }

    /// Reads these blocks of a unit to their places in `buf`, which begins with block `first`.
    fn read_kept(
        &self,
        at: (ObjectId, u64),
        old: &Unit,
        (first, needed): (usize, u16),
        buf: &mut [u8],
    ) -> Result<(), StoreError> {
        let mut block = 0;
        while block < UNIT_BLOCKS {
            let run = (block..UNIT_BLOCKS).take_while(|block| needed & 1 << block != 0).count();
            if run > 0 {
                let from = (block - first) * BLOCK;
                self.read_blocks(at, old, block, needed, &mut buf[from..from + run * BLOCK])?;
            }
            block += run.max(1);
        }
        Ok(())
    }

    /// A region gave up a place.
    pub(super) fn gave_up(&self, given_up: GivenUp) {
        match given_up {
            GivenUp::Nothing => {}
            GivenUp::Free(place) => self.space.lock().free_now(place),
            GivenUp::Superseded => self.space.lock().supersede(1),
        }
    }

    /// Gives places to the units of a range that have none; the object reaches to `end` then.
    pub(super) fn allocate_units(
        &self,
        id: ObjectId,
        start: u64,
        end: u64,
    ) -> Result<(), StoreError> {
        self.check()?;
        let (first, last) = (start / UNIT_BYTES, end.div_ceil(UNIT_BYTES));
        let has = {
            let shard = self.shard(id).read();
            self.object(shard.get(&id), id)?.unwrap_or_default().units
        };
        // Nothing is allocated if all of it has no room.
        if (last - first).saturating_sub(has) > self.space.lock().free() {
            return Err(self.no_space());
        }
        let mut number = first;
        while number < last {
            let until = last.min(number + ALLOCATED_AT_ONCE);
            self.bound_memory()?;
            let missing =
                self.missing(id, number * UNIT_BYTES, (until - number) * UNIT_BYTES)? / UNIT_BYTES;
            let mut reservation = self.reserve(missing, missing)?;
            let mut shard = self.shard(id).write();
            let Some(entry) = self.entry(&mut shard, id, true)? else { return Ok(()) };
            while number < until {
                let (region, index) = place_in(number);
                let region = self.region(entry, id, region)?;
                if region.units[index].is_none() {
                    let place = reservation.place(until - number).ok_or_else(|| self.no_space())?;
                    let unit = Unit { place, ..Unit::default() };
                    region.units[index] = Some(Mapped { unit, sealed: 0, put: false });
                    (entry.record.units, entry.dirty) = (entry.record.units + 1, true);
                }
                number += 1;
            }
        }
        let mut shard = self.shard(id).write();
        if let Some(entry) = self.entry(&mut shard, id, true)? {
            entry.record.size = entry.record.size.max(end);
            entry.dirty = true;
        }
        Ok(())
    }
}
