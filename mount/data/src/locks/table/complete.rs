//! Complete directories, of which every name is known: any other name is absent, and they can be
//! listed without a request.
//!
//! A mount knows all names of a directory that it created itself, because that was empty, and of
//! one that a listing showed from its start to its end, page after page; in both cases under an
//! UPDATE that it held all the time. The directory
//! stays complete under own changes whose replies show where their names lead. That ends with the
//! first name that is dropped, and with UPDATE.

use super::{Held, Led, NAME_BYTES, Table, UPDATE, bits_of};
use std::sync::Arc;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// Size of one listed entry beside the characters of its name, about, bytes.
const ENTRY_BYTES: usize = 80;

/// All entries of a directory, without attributes.
pub(crate) struct CompleteListing {
    entries: Arc<[DirEntry]>,
    parent: Option<Fid>,
    weight: usize,
}

/// The first entries of a directory, without attributes; the next page goes on behind them.
#[derive(Default)]
pub(crate) struct PartialListing {
    entries: Vec<DirEntry>,
    parent: Option<Fid>,
    weight: usize,
}

impl Table {
    pub(crate) fn is_complete(&self, dir: Fid) -> bool {
        self.slots.get(&dir).is_some_and(|slot| slot.complete)
    }

    /// A name that was dropped is known again.
    pub(crate) fn still_complete(&mut self, dir: Fid, complete: bool) {
        if let Some(slot) = self.slots.get_mut(&dir) {
            slot.complete |= complete;
        }
    }

    pub(crate) fn no_longer_complete(&mut self, dir: Fid) {
        self.forget_listing(dir);
        if let Some(slot) = self.slots.get_mut(&dir) {
            slot.complete = false;
        }
    }

    pub(crate) fn forget_listing(&mut self, dir: Fid) {
        let Some(slot) = self.slots.get_mut(&dir) else { return };
        let whole = slot.listing.take().map_or(0, |listing| listing.weight);
        let part = slot.partial.take().map_or(0, |partial| partial.weight);
        slot.weight = slot.weight.saturating_sub(whole + part);
        self.weight = self.weight.saturating_sub(whole + part);
    }

    /// A directory was made by this mount.
    pub(crate) fn made_dir(&mut self, dir: Fid, held: &Held) {
        let covered = bits_of(held, dir).contains(UPDATE);
        if let Some(slot) = self.slots.get_mut(&dir).filter(|_| covered) {
            slot.complete = true;
        }
    }

    /// Takes what was listed of a directory up to this name (`None`: nothing yet), so that the next
    /// page goes on behind it. `None`: the page is not the next one, or names before it are not
    /// known any more.
    pub(crate) fn take_partial(
        &mut self,
        dir: Fid,
        after: Option<&Name>,
    ) -> Option<PartialListing> {
        let Some(after) = after else {
            self.forget_listing(dir);
            return Some(PartialListing::default());
        };
        let slot = self.slots.get_mut(&dir).filter(|slot| slot.bits.contains(UPDATE))?;
        let partial = slot
            .partial
            .take_if(|partial| partial.entries.last().is_some_and(|last| last.name == *after))?;
        slot.weight = slot.weight.saturating_sub(partial.weight);
        self.weight = self.weight.saturating_sub(partial.weight);
        Some(partial)
    }

    /// A reply listed the entries of a directory behind those, covered by UPDATE; its names were
    /// learnt before. `more`: the directory goes on.
    pub(crate) fn listed(
        &mut self,
        dir: Fid,
        partial: PartialListing,
        (entries, more): (&[DirEntry], bool),
    ) {
        let Some(slot) = self.slots.get_mut(&dir).filter(|slot| slot.bits.contains(UPDATE)) else {
            return;
        };
        let PartialListing { entries: mut known, parent, mut weight } = partial;
        weight += entries.iter().map(|entry| ENTRY_BYTES + entry.name.len()).sum::<usize>();
        known.extend(entries.iter().map(|entry| DirEntry { entry: None, ..entry.clone() }));
        if more {
            slot.partial = Some(PartialListing { entries: known, parent, weight });
        } else {
            slot.complete = true;
            slot.listing = Some(CompleteListing { entries: known.into(), parent, weight });
        }
        self.heavier(dir, weight);
    }

    /// A reply showed the parent of a directory.
    pub(crate) fn learn_parent(&mut self, dir: Fid, parent: Fid, held: &Held) {
        let covered = bits_of(held, dir).contains(UPDATE);
        let Some(slot) = self.slots.get_mut(&dir).filter(|_| covered) else { return };
        if let Some(listing) = &mut slot.listing {
            listing.parent = Some(parent);
        }
        if let Some(partial) = &mut slot.partial {
            partial.parent = Some(parent);
        }
    }

    /// All entries of a directory in name order, without attributes, and its parent. `None`: ask.
    /// `with_attr`: the listing is useful only if all attributes are known.
    pub fn listing(&mut self, dir: Fid, with_attr: bool) -> Option<(Arc<[DirEntry]>, Fid)> {
        let slot = self.slots.get_mut(&dir)?;
        let listing = slot.listing.as_ref()?;
        let (entries, parent) = (listing.entries.clone(), listing.parent?);
        slot.changes = 0;
        slot.use_at(self.now);
        let known = !with_attr || entries.iter().all(|entry| self.has_attr(entry.fid));
        known.then_some((entries, parent))
    }

    /// The directory is complete, and has no such name.
    pub(crate) fn learn_absent(&mut self, dir: Fid, name: &Name) {
        if let Some(slot) = self.slots.get_mut(&dir) {
            let absent = Led { to: None, by_update: true, by_lookup: false, trust: None };
            slot.names.insert(name.clone(), absent);
            self.heavier(dir, NAME_BYTES + 2 * name.len());
        }
    }
}

#[cfg(test)]
#[path = "complete_tests.rs"]
mod tests;
