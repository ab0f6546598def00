//! Space of a volume: which units are free, and which will be.
//!
//! A unit that no record names any more *waits* until the transaction that says so is committed.
//! One that a change in memory *superseded* is still named by a record; it waits from the next
//! round on. Both count as free when the OST asks how much room there is, because a round and a
//! commit make them free. A writer *reserves* what it may take before it changes anything, and
//! waits for a round and a commit if need be.

use super::allocator::{Allocator, Extent, push};
use disk::volume::UNIT_BYTES;
use std::collections::{BTreeSet, VecDeque};
use types::session::Transno;

/// Most units that are kept for overwriting on a full volume: 64 MiB.
const KEPT_MAX: u64 = 1024;
/// Fewest: what two writers take at once ([`PIECE`]).
const KEPT_MIN: u64 = 96;
/// Smaller volumes keep one part in this many.
const KEPT_PART: u64 = 50;
/// Bytes that are written in one step: what is kept must be enough for it.
pub(super) const PIECE: usize = 2 << 20;
/// Units that are not to be trusted, at most.
pub(super) const DOUBTFUL_MAX: usize = 1 << 16;
/// Runs of units that wait for a commit, beyond which a thread that frees more commits first: 16
/// MiB of memory.
pub(super) const WAITING_MAX: usize = 1 << 20;

/// See the module.
pub(super) struct Space {
    allocator: Allocator,
    /// Units of the volume.
    all: u64,
    /// Units that objects may have in all, with those that are kept.
    total: u64,
    waiting: VecDeque<(Transno, Vec<Extent>)>,
    waiting_units: u64,
    waiting_runs: usize,
    superseded: u64,
    /// Of the free units: those that writers under way may take.
    reserved: u64,
    /// What writers under way will add to their objects.
    growing: u64,
    /// Units that writers took for what they overwrite, until they supersede others.
    moving: u64,
    /// Units that two records name, or none can: no object gets them.
    doubtful: BTreeSet<u32>,
    /// Objects that there are.
    pub(super) objects: u64,
}

/// Answer to a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reserved {
    /// The units are there.
    Yes,
    /// They will be, after a round and a commit.
    Later,
    /// The volume is full.
    Full,
}

impl Space {
    pub(super) fn new(allocator: Allocator) -> Space {
        Space {
            all: allocator.free(),
            total: allocator.free(),
            allocator,
            waiting: VecDeque::new(),
            waiting_units: 0,
            waiting_runs: 0,
            superseded: 0,
            reserved: 0,
            growing: 0,
            moving: 0,
            doubtful: BTreeSet::new(),
            objects: 0,
        }
    }

    /// Objects may have no more than so many bytes. What is there already stays.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.total = self.all.min(bytes / UNIT_BYTES);
    }

    /// Takes a unit that a record names. If another one does, or there is none, no object gets
    /// it from now on; returns how many such there are.
    pub(super) fn found(&mut self, unit: u32) -> usize {
        if !self.allocator.take(unit) && self.doubtful.len() <= DOUBTFUL_MAX {
            self.doubtful.insert(unit);
        }
        self.doubtful.len()
    }

    /// Units up to which the volume reaches.
    pub(super) fn units(&self) -> u32 {
        self.allocator.units()
    }

    /// Units that objects may have in all.
    pub(super) fn total(&self) -> u64 {
        self.total - self.kept().min(self.total)
    }

    /// Units that objects have.
    pub(super) fn used(&self) -> u64 {
        self.all - (self.allocator.free() + self.waiting_units + self.superseded)
    }

    fn unused(&self) -> u64 {
        self.total.saturating_sub(self.used())
    }

    fn kept(&self) -> u64 {
        (self.total / KEPT_PART).clamp(KEPT_MIN, KEPT_MAX)
    }

    /// Units that objects may still get.
    pub(super) fn free(&self) -> u64 {
        self.unused().saturating_sub(self.kept())
    }

    /// True if frees must wait for a commit first.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting_runs > WAITING_MAX
    }

    /// Reserves `all` units, `new` of which make objects larger. What is promised leaves
    /// [`Space::kept`] free, and this only half of it: overwrites that are under way never
    /// make a promise fail.
    pub(super) fn reserve(&mut self, all: u64, new: u64) -> Reserved {
        if new > 0 && self.unused() + self.moving < self.kept() / 2 + self.growing + new {
            return Reserved::Full;
        }
        if self.allocator.free() - self.reserved < all {
            return Reserved::Later;
        }
        self.reserved += all;
        self.growing += new;
        Reserved::Yes
    }

    /// Takes up to `want` units of a reservation, of which `new` are left to make objects larger.
    pub(super) fn take(&mut self, want: u32, new: u64) -> Extent {
        let extent = self.allocator.allocate(want).unwrap_or(Extent { start: 0, len: 0 });
        let len = u64::from(extent.len);
        self.reserved -= len;
        self.growing -= new.min(len);
        self.moving += len - new.min(len);
        extent
    }

    /// A reservation ends: units that were not taken, of them such that were to make objects
    /// larger, and units that were taken for what was overwritten.
    pub(super) fn end(&mut self, left: u64, new: u64, moved: u64) {
        self.reserved -= left;
        self.growing -= new;
        self.moving -= moved;
    }

    /// A unit that no record ever named.
    pub(super) fn free_now(&mut self, unit: u32) {
        if !self.doubtful.contains(&unit) {
            self.allocator.release_all(Extent { start: unit, len: 1 });
        }
    }

    /// Units that a record still names, and no object has any more.
    pub(super) fn supersede(&mut self, units: u64) {
        self.superseded += units;
    }

    /// Superseded units wait from now on, or another way frees them.
    pub(super) fn unsupersede(&mut self, units: u64) {
        self.superseded -= units;
    }

    /// No record names these once this transaction is committed. Sorted, each once.
    pub(super) fn free_after(&mut self, transno: Transno, units: impl Iterator<Item = u32>) {
        let mut extents = Vec::new();
        let doubtful = &self.doubtful;
        units.filter(|unit| !doubtful.contains(unit)).for_each(|unit| push(&mut extents, unit));
        if extents.is_empty() {
            return;
        }
        self.waiting_units += extents.iter().map(|extent| u64::from(extent.len)).sum::<u64>();
        self.waiting_runs += extents.len();
        self.waiting.push_back((transno, extents));
    }

    /// Everything up to this transaction is committed.
    pub(super) fn committed(&mut self, transno: Transno) {
        while self.waiting.front().is_some_and(|(own, _)| *own <= transno) {
            let Some((_, extents)) = self.waiting.pop_front() else { return };
            self.waiting_runs -= extents.len();
            for extent in extents {
                self.waiting_units -= u64::from(extent.len);
                self.allocator.release_all(extent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_can_be_taken_while_others_overwrite() {
        let mut space = Space::new(Allocator::new(16..1016));
        let promised = space.free();
        assert_eq!((space.used(), promised, space.total()), (0, 904, 904));
        assert_eq!(space.reserve(33, 0), Reserved::Yes);
        assert_eq!(space.take(33, 0).len, 33);
        assert_eq!(space.reserve(953, 953), Reserved::Full);
        assert_eq!(space.reserve(promised, promised), Reserved::Yes);
        assert_eq!(u64::from(space.take(904, promised).len), promised);
        space.end(0, 0, 0);
        space.supersede(33);
        space.end(0, 0, 33);
        assert_eq!((space.free(), space.used()), (0, 904));
    }

    #[test]
    fn a_limit_leaves_room_for_overwrites_only() {
        let mut space = Space::new(Allocator::new(16..10_016));
        space.limit(1000 * UNIT_BYTES);
        assert_eq!((space.used(), space.free(), space.total()), (0, 904, 904));
        assert_eq!(space.reserve(953, 953), Reserved::Full);
        assert_eq!(space.reserve(904, 904), Reserved::Yes);
        assert_eq!(space.take(904, 904).len, 904);
        space.end(0, 0, 0);
        assert_eq!((space.used(), space.free()), (904, 0));
        assert_eq!(space.reserve(500, 0), Reserved::Yes, "the volume has room for what moves");
        space.end(500, 0, 0);
        // Less than there is.
        space.limit(500 * UNIT_BYTES);
        assert_eq!((space.used(), space.free(), space.total()), (904, 0, 404));
        assert_eq!((space.reserve(1, 1), space.reserve(1, 0)), (Reserved::Full, Reserved::Yes));
        space.limit(u64::MAX);
        assert_eq!(space.total(), 10_000 - 200);
    }

    #[test]
    fn an_overwrite_of_a_full_volume_waits_for_a_commit() {
        let mut space = Space::new(Allocator::new(16..1016));
        assert_eq!(space.reserve(904, 904), Reserved::Yes);
        let taken = space.take(904, 904);
        space.end(0, 0, 0);
        assert_eq!((taken.len, space.free(), space.used()), (904, 0, 904));
        assert_eq!(space.reserve(96, 0), Reserved::Yes);
        assert_eq!(space.take(96, 0).len, 96);
        space.supersede(96);
        space.end(0, 0, 96);
        assert_eq!((space.free(), space.used()), (0, 904), "df does not see it");
        assert_eq!(space.reserve(1, 0), Reserved::Later);
        space.unsupersede(96);
        space.free_after(Transno(7), taken.start..taken.start + 96);
        space.committed(Transno(6));
        assert_eq!(space.reserve(1, 0), Reserved::Later);
        space.committed(Transno(7));
        assert_eq!(space.reserve(96, 0), Reserved::Yes);
        assert_eq!(space.reserve(49, 49), Reserved::Full);
    }
}
