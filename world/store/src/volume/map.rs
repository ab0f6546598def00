//! What memory knows of an object beyond its records: changes since the last round.
//!
//! `now` has the regions that were changed since the last round froze them. While a round is under
//! way, `frozen` has those that it will put. What is in neither is as its record says. A block that
//! a frozen region or a record names is *sealed*: nothing is written there again.

use disk::volume::{ObjectRecord, REGION_UNITS, RegionUnits, Unit};
use std::collections::BTreeMap;

/// A unit of a region in memory.
#[derive(Clone, Copy)]
pub(super) struct Mapped {
    pub(super) unit: Unit,
    /// Blocks that a frozen region or a record names.
    pub(super) sealed: u16,
    /// A frozen region or a record names the place.
    pub(super) put: bool,
}

/// A region in memory.
#[derive(Default)]
pub(super) struct Region {
    pub(super) units: [Option<Mapped>; REGION_UNITS],
    /// Places that it had, and that a frozen region or a record still names.
    pub(super) superseded: Vec<u32>,
}

/// What becomes of a place that a region gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GivenUp {
    /// There was none.
    Nothing,
    /// No record names it: it is free.
    Free(u32),
    /// It is superseded.
    Superseded,
}

impl Region {
    /// As it was put.
    pub(super) fn of(units: &RegionUnits) -> Region {
        let mapped = |unit: &Unit| Mapped { unit: *unit, sealed: unit.used, put: true };
        Region {
            units: std::array::from_fn(|index| units[index].as_ref().map(mapped)),
            superseded: Vec::new(),
        }
    }

    /// As it is to be put.
    pub(super) fn content(&self) -> RegionUnits {
        std::array::from_fn(|index| self.units[index].map(|mapped| mapped.unit))
    }

    /// Its units in which blocks were written since a record named them, with the bits of these.
    pub(super) fn written(&self) -> impl Iterator<Item = (usize, &Unit, u16)> {
        self.units.iter().enumerate().filter_map(|(index, mapped)| {
            let mapped = mapped.as_ref()?;
            let blocks = mapped.unit.data & !mapped.sealed;
            (blocks != 0).then_some((index, &mapped.unit, blocks))
        })
    }

    /// Gives up the place of a unit.
    pub(super) fn give_up(&mut self, index: usize) -> GivenUp {
        match self.units[index].take() {
            None => GivenUp::Nothing,
            Some(Mapped { unit, put: false, .. }) => GivenUp::Free(unit.place),
            Some(Mapped { unit, put: true, .. }) => {
                self.superseded.push(unit.place);
                GivenUp::Superseded
            }
        }
    }
}

/// An object in memory.
#[derive(Default)]
pub(super) struct Changed {
    /// As it is now.
    pub(super) record: ObjectRecord,
    /// `record` is not put yet.
    pub(super) dirty: bool,
    pub(super) now: BTreeMap<u64, Box<Region>>,
    pub(super) frozen: BTreeMap<u64, Box<Region>>,
    pub(super) frozen_record: Option<ObjectRecord>,
}

impl Changed {
    /// As its record says, or new.
    pub(super) fn of(record: Option<ObjectRecord>) -> Changed {
        Changed {
            record: record.unwrap_or_default(),
            dirty: record.is_none(),
            ..Changed::default()
        }
    }

    /// True if a round would put nothing of it.
    pub(super) fn is_clean(&self) -> bool {
        !self.dirty && self.now.is_empty()
    }

    /// A region, if it is in memory.
    pub(super) fn region(&self, region: u64) -> Option<&Region> {
        self.now.get(&region).or_else(|| self.frozen.get(&region)).map(|region| &**region)
    }

    /// The first region in memory from this one on.
    pub(super) fn next_region(&self, from: u64) -> Option<u64> {
        let first = |regions: &BTreeMap<u64, Box<Region>>| {
            regions.range(from..).next().map(|(region, _)| *region)
        };
        first(&self.now).into_iter().chain(first(&self.frozen)).min()
    }

    /// What changed is to be put; changes from now on are new ones.
    pub(super) fn freeze(&mut self) {
        debug_assert!(self.frozen.is_empty(), "one round at a time");
        self.dirty = false;
        self.frozen_record = Some(self.record);
        self.frozen = std::mem::take(&mut self.now);
    }
}

/// The bits of the blocks that `[from, to)` of a unit touches.
pub(super) fn touched(from: usize, to: usize, block: usize) -> u16 {
    bits(from / block, to.div_ceil(block))
}

/// The bits of the blocks that lie within `[from, to)` of a unit.
pub(super) fn within(from: usize, to: usize, block: usize) -> u16 {
    bits(from.div_ceil(block), to / block)
}

fn bits(first: usize, end: usize) -> u16 {
    if first >= end {
        return 0;
    }
    ((1u32 << end) - (1u32 << first)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_blocks() {
        assert_eq!((touched(0, 1, 4096), touched(4095, 4097, 4096)), (1, 3));
        assert_eq!((within(0, 1, 4096), within(1, 8192, 4096)), (0, 2));
        assert_eq!((touched(0, 65536, 4096), within(0, 65536, 4096)), (u16::MAX, u16::MAX));
        assert_eq!((touched(7, 7, 4096) & !1, within(65536, 65536, 4096)), (0, 0));
    }

    #[test]
    fn what_was_put_is_sealed_and_superseded() {
        let mut units = RegionUnits::default();
        units[3] = Some(Unit { place: 20, used: 7, data: 5, ..Unit::default() });
        let mut region = Region::of(&units);
        assert_eq!(region.content(), units);
        assert_eq!(region.units[3].map(|mapped| mapped.sealed), Some(7));
        assert_eq!(region.give_up(3), GivenUp::Superseded);
        assert_eq!((region.give_up(3), &region.superseded[..]), (GivenUp::Nothing, &[20][..]));
        let unit = Unit { place: 21, ..Unit::default() };
        region.units[3] = Some(Mapped { unit, sealed: 0, put: false });
        assert_eq!(region.give_up(3), GivenUp::Free(21));
        assert_eq!(region.written().count(), 0, "no unit is left");
        let unit = Unit { place: 22, used: 0b111, data: 0b101, ..Unit::default() };
        region.units[9] = Some(Mapped { unit, sealed: 0b011, put: true });
        let written: Vec<_> = region.written().map(|(index, _, blocks)| (index, blocks)).collect();
        assert_eq!(written, [(9, 0b100)], "what a record names was written before");
    }
}
