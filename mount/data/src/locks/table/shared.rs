//! Extents: what is held of files that several clients write at once (docs/locks/protocol.md,
//! "Shared-write files").
//!
//! A file is here as long as anything of it is held, without a break. During that time it is not
//! cut, so a size that it once had is a lower bound of its size. Extents for writing that were lost
//! with a session are remembered: writes under them may wait to be stored.

use super::Table;
use crate::locks::gate::Ticket;
use std::collections::BTreeMap;
use types::attr::Attr;
use types::fid::Fid;
use types::lock::InodeBits;
use types::ranges::{ByteRange, Extent, Ranges};
use wire::mds::Entry;
use wire::message::Grant;

struct Held {
    /// Of this time that the file is here.
    number: u64,
    /// Attributes from an MDT: the size is a lower bound, the mode is as it was then.
    base: Attr,
    read: Ranges,
    write: Ranges,
}

/// See the module. Bounded by what MDTs grant.
#[derive(Default)]
pub struct Shared {
    files: BTreeMap<Fid, Held>,
    lost: BTreeMap<Fid, Ranges>,
    last: u64,
}

impl Held {
    fn covers(&self, Extent { range, write }: Extent) -> bool {
        if self.write.covers(range) || !write && self.read.covers(range) {
            return true;
        }
        // A part to read, a part to write.
        !write && self.write.overlaps(range) && {
            let both: Ranges = self.read.iter().chain(self.write.overlapping(range)).collect();
            both.covers(range)
        }
    }
}

impl Table {
    /// A reply brought an extent.
    pub(crate) fn arrived_extent(
        &mut self,
        mdt: u16,
        ticket: Ticket,
        entry: &Entry,
        extent: Extent,
    ) {
        let (fid, attr) = (entry.attr.fid, &entry.attr);
        if fid.mdt() != mdt || !self.gate(mdt).admit_range(ticket, fid, extent.range) {
            return;
        }
        let Shared { files, lost, last } = &mut self.shared;
        let held = files.entry(fid).or_insert_with(|| {
            *last += 1;
            Held { number: *last, base: *attr, read: Ranges::default(), write: Ranges::default() }
        });
        let size = held.base.size.max(attr.size);
        if attr.version > held.base.version {
            held.base = *attr;
        }
        held.base.size = size;
        match extent.write {
            true => held.write.insert(extent.range),
            false => held.read.insert(extent.range),
        }
        if let Some(ranges) = lost.get_mut(&fid).filter(|_| extent.write) {
            ranges.remove(extent.range);
            if ranges.is_empty() {
                lost.remove(&fid);
            }
        }
    }

    /// A reply granted locks on whole files: what was lost of them before is held with them.
    pub(crate) fn whole_again(&mut self, grants: &[Grant]) {
        if !self.shared.lost.is_empty() {
            let writes = grants.iter().filter(|grant| grant.bits.contains(InodeBits::WRITE));
            writes.for_each(|grant| _ = self.shared.lost.remove(&grant.fid));
        }
    }

    /// If these bytes are held as an extent: the number of this time that the file is shared.
    pub fn shares(&self, fid: Fid, extent: Extent) -> Option<u64> {
        // Usually no file is shared.
        if self.shared.files.is_empty() {
            return None;
        }
        self.shared.files.get(&fid).filter(|held| held.covers(extent)).map(|held| held.number)
    }

    /// How often any file came to be shared so far.
    pub(crate) fn shared_so_far(&self) -> u64 {
        self.shared.last
    }

    /// True if anything of the file is held as an extent.
    pub(crate) fn is_shared(&self, fid: Fid) -> bool {
        self.shared.files.contains_key(&fid)
    }

    /// True if anything of the file is held for writing.
    pub(crate) fn writes_shared(&self, fid: Fid) -> bool {
        self.shared.files.get(&fid).is_some_and(|held| !held.write.is_empty())
    }

    /// True if extents of this MDT are held.
    pub(crate) fn shares_of(&self, mdt: u16) -> bool {
        self.shared.files.keys().any(|fid| fid.mdt() == mdt)
    }

    /// Attributes of a shared file, as far as they can be known: a lower bound of the size, and the
    /// mode.
    pub(crate) fn shared_base(&self, fid: Fid) -> Option<Attr> {
        self.shared.files.get(&fid).map(|held| held.base)
    }

    /// Lower bound of the size of a shared file, if it is shared since then.
    pub(crate) fn shared_size(&self, fid: Fid, number: u64) -> Option<u64> {
        self.shared.files.get(&fid).filter(|held| held.number == number).map(|held| held.base.size)
    }

    /// A shared file was shown with this size, in answer to a request made under an extent of this
    /// time.
    pub(crate) fn note_shared_size(&mut self, fid: Fid, number: u64, size: u64) {
        if let Some(held) = self.shared.files.get_mut(&fid).filter(|held| held.number == number) {
            held.base.size = held.base.size.max(size);
        }
    }

    /// These bytes are called back: replies under way lose them.
    pub(crate) fn calls_range(&mut self, fid: Fid, range: ByteRange) {
        self.gate(fid.mdt()).note_range(fid, range);
    }

    /// These bytes are gone.
    pub(crate) fn take_range(&mut self, fid: Fid, range: ByteRange) {
        let Shared { files, lost, .. } = &mut self.shared;
        if let Some(held) = files.get_mut(&fid) {
            held.read.remove(range);
            held.write.remove(range);
            if held.read.is_empty() && held.write.is_empty() {
                files.remove(&fid);
            }
        }
        if let Some(ranges) = lost.get_mut(&fid) {
            ranges.remove(range);
            if ranges.is_empty() {
                lost.remove(&fid);
            }
        }
    }

    /// All extents of an MDT are lost; `remembers`: those for writing may be asked for again.
    pub(crate) fn lose_extents(&mut self, mdt: u16, remembers: bool) {
        let Shared { files, lost, .. } = &mut self.shared;
        let of_mdt = |fid: &Fid| fid.mdt() == mdt;
        let gone: Vec<Fid> = files.keys().copied().filter(of_mdt).collect();
        for fid in gone {
            let Some(held) = files.remove(&fid) else { continue };
            let ranges = lost.entry(fid).or_default();
            held.write.iter().for_each(|range| ranges.insert(range));
        }
        lost.retain(|fid, ranges| !of_mdt(fid) || remembers && !ranges.is_empty());
    }

    /// For an MDT that restarted: the lost extents for writing of these files; forgets those of all
    /// others.
    pub fn lost_extents(
        &mut self,
        mdt: u16,
        wanted: impl Fn(Fid) -> bool,
    ) -> BTreeMap<Fid, Ranges> {
        let lost = &mut self.shared.lost;
        lost.retain(|fid, _| fid.mdt() != mdt || wanted(*fid));
        lost.iter()
            .filter(|(fid, _)| fid.mdt() == mdt)
            .map(|(fid, ranges)| (*fid, ranges.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::time::Timestamp;

    const FID: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    fn entry(size: u64, version: u64) -> Entry {
        let at = Timestamp::default();
        let (atime, mtime, ctime, btime) = (at, at, at, at);
        let (mode, uid, gid, nlink, rdev, blocks) = (0o100_644, 0, 0, 1, 0, 0);
        let attr = Attr {
            fid: FID,
            mode,
            uid,
            gid,
            nlink,
            rdev,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            btime,
            version,
        };
        Entry { attr, has_xattr: false, noatime: false, striped: 0 }
    }

    fn extent(start: u64, end: u64, write: bool) -> Extent {
        Extent { range: ByteRange::new(start, end), write }
    }

    fn grant(table: &mut Table, size: u64, extent: Extent) {
        let ticket = table.gate(FID.mdt()).send();
        table.arrived_extent(FID.mdt(), ticket, &entry(size, size), extent);
        table.gate(FID.mdt()).came_back(ticket);
    }

    #[test]
    fn parts_cover_together_and_a_size_holds_as_long_as_anything_is_held() {
        let mut table = Table::default();
        grant(&mut table, 100, extent(0, 10, false));
        grant(&mut table, 90, extent(10, 20, true));
        let number = table.shares(FID, extent(5, 15, false)).expect("covered");
        assert!(
            table.shares(FID, extent(5, 15, true)).is_none()
                && table.shares(FID, extent(12, 15, true)).is_some()
        );
        assert_eq!(table.shared_size(FID, number), Some(100));
        table.note_shared_size(FID, number, 300);
        table.take_range(FID, ByteRange::new(0, 10));
        assert_eq!(table.shared_base(FID).map(|base| base.size), Some(300));
        table.take_range(FID, ByteRange::new(10, 20));
        grant(&mut table, 7, extent(0, 10, false));
        table.note_shared_size(FID, number, 300);
        assert_eq!(
            (table.shared_size(FID, number), table.shared_base(FID).unwrap().size),
            (None, 7),
            "it was cut since"
        );
    }

    #[test]
    fn a_callback_that_overtakes_takes_what_it_names_and_no_more() {
        let mut table = Table::default();
        let (first, second) = (table.gate(FID.mdt()).send(), table.gate(FID.mdt()).send());
        table.calls_range(FID, ByteRange::new(0, 10));
        table.arrived_extent(FID.mdt(), first, &entry(1, 1), extent(5, 20, true));
        assert!(!table.is_shared(FID));
        table.arrived_extent(FID.mdt(), second, &entry(1, 1), extent(10, 20, true));
        assert!(table.is_shared(FID));
    }

    #[test]
    fn what_was_lost_is_asked_for_again_until_it_is_held_or_called_back() {
        let mut table = Table::default();
        grant(&mut table, 1, extent(0, 10, true));
        grant(&mut table, 1, extent(20, 30, true));
        grant(&mut table, 1, extent(40, 50, false));
        table.lose_extents(FID.mdt(), true);
        assert!(!table.is_shared(FID));
        grant(&mut table, 1, extent(0, 5, true));
        table.take_range(FID, ByteRange::new(25, 60));
        let lost = table.lost_extents(FID.mdt(), |_| true);
        assert_eq!(
            lost[&FID].iter().collect::<Vec<_>>(),
            [ByteRange::new(5, 10), ByteRange::new(20, 25)]
        );
        table.whole_again(&[Grant { fid: FID, bits: InodeBits::ALL }]);
        assert!(table.lost_extents(FID.mdt(), |_| true).is_empty());
        table.lose_extents(FID.mdt(), false);
        assert!(table.lost_extents(FID.mdt(), |_| true).is_empty(), "an eviction");
    }
}
