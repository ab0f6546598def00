//! Taking away: locks that are called back, given up, or lost, with everything that they covered.
//! The caller gets back what the kernel must be told to forget.

use super::{
    GAP, IDLE_CHANGES_MAX, LISTED_SECONDS, LOOKUP, MANY_NAMES, NAME_BYTES, PERM, Slot, Table,
    UPDATE, WEIGHT_MAX, XATTR,
};
use crate::kernel_view::invalidations::Invalidations;
use crate::locks::stripes::Striped;
use layout::layout::Layout;
use std::sync::Arc;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;

impl Table {
    /// These bits are gone, and what they covered.
    pub fn take(&mut self, fid: Fid, bits: InodeBits, invalidations: &mut Invalidations) {
        if bits.intersects(LOOKUP.union(UPDATE)) {
            self.recent.take(fid, invalidations);
        }
        for bit in [LOOKUP, UPDATE] {
            if bits.contains(bit) {
                self.recent.called_back(fid, bit);
            }
        }
        if bits.intersects(LOOKUP.union(UPDATE)) {
            self.forget_listing(fid);
        }
        let recent = &mut self.recent;
        let Some(slot) = self.slots.get_mut(&fid) else { return };
        let bits = slot.bits.intersection(bits);
        slot.bits = slot.bits.difference(bits);
        if bits.contains(XATTR) {
            slot.xattrs = None;
        }
        if bits.contains(InodeBits::LAYOUT) {
            slot.layout = None;
        }
        if bits.contains(UPDATE) {
            slot.complete = false;
            slot.attr = None;
            if std::mem::take(&mut slot.attr_trusted) {
                invalidations.attrs.push(fid);
            }
            let mut bytes = 0;
            slot.names.retain(|name, led| {
                led.by_update = false;
                if !led.by_lookup {
                    bytes += NAME_BYTES + 2 * name.len();
                    if let Some(trust) = led.trust {
                        invalidations.name(fid, name.clone(), recent.is_settling(trust));
                        if let Some(to) = led.to {
                            recent.note_shown(fid, name.clone(), to);
                        }
                    }
                }
                led.by_lookup
            });
            slot.weight = slot.weight.saturating_sub(bytes);
            self.weight = self.weight.saturating_sub(bytes);
        }
        if bits.contains(PERM) {
            slot.permissions = None;
        }
        if bits.contains(LOOKUP) {
            self.take_names_here(fid, invalidations);
            self.nameless.insert(fid);
        }
        if bits.contains(GAP) {
            self.take_gaps(fid);
        }
        self.drop_if_empty(fid);
    }

    /// Names that lead here go. UPDATE of their directories would still cover some, but LOOKUP is
    /// called back when a name goes or the inode dies: they are of no use.
    fn take_names_here(&mut self, fid: Fid, invalidations: &mut Invalidations) {
        let led_here = self
            .slots
            .get_mut(&fid)
            .map(|slot| std::mem::take(&mut slot.led_here))
            .unwrap_or_default();
        for (dir, name) in led_here {
            self.invalidate_name(dir, &name, invalidations);
            self.drop_if_empty(dir);
        }
    }

    /// Removes a name; the kernel must forget it, too, if it was told of it.
    fn invalidate_name(&mut self, dir: Fid, name: &Name, invalidations: &mut Invalidations) {
        let dropped = self.drop_name(dir, name);
        if let Some(trust) = dropped.trust {
            invalidations.name(dir, name.clone(), self.recent.is_settling(trust));
            if let Some(to) = dropped.to {
                self.recent.note_shown(dir, name.clone(), to);
            }
        }
    }

    fn drop_if_empty(&mut self, fid: Fid) {
        let empty =
            |slot: &Slot| slot.bits.is_empty() && slot.names.is_empty() && slot.led_here.is_empty();
        if self.slots.get(&fid).is_some_and(empty) {
            self.remove(fid);
        }
    }

    fn remove(&mut self, fid: Fid) {
        if let Some(slot) = self.slots.remove(&fid) {
            self.weight = self.weight.saturating_sub(slot.weight);
            self.removed.remove(&fid);
            self.nameless.remove(&fid);
        }
    }

    /// Another client changes these names of a directory. `false`: nothing is held of it (any
    /// more).
    pub fn changing(
        &mut self,
        dir: Fid,
        names: &[Name],
        invalidations: &mut Invalidations,
    ) -> bool {
        self.recent.take(dir, invalidations);
        for name in names {
            self.invalidate_name(dir, name, invalidations);
        }
        let Some(slot) = self.slots.get_mut(&dir) else { return false };
        slot.attr = None;
        if std::mem::take(&mut slot.attr_trusted) {
            invalidations.attrs.push(dir);
        }
        slot.changes = slot.changes.saturating_add(1);
        if !slot.bits.contains(UPDATE) || slot.changes >= IDLE_CHANGES_MAX {
            self.take(dir, UPDATE, invalidations);
            return false;
        }
        true
    }

    /// An inode that was chosen to be given up keeps some of its bits.
    pub fn stays(&mut self, fid: Fid) {
        if let Some(slot) = self.slots.get_mut(&fid)
            && std::mem::take(&mut slot.leaving)
        {
            self.ring.push_back(fid);
        }
    }

    /// Everything of one inode goes; what was held.
    pub fn give(&mut self, fid: Fid, invalidations: &mut Invalidations) -> InodeBits {
        let bits = self.bits(fid);
        self.take(fid, InodeBits::ALL, invalidations);
        // Names that are covered by what they lead to.
        let names: Vec<Name> = self
            .slots
            .get(&fid)
            .map(|slot| slot.names.keys().cloned().collect())
            .unwrap_or_default();
        for name in names {
            self.invalidate_name(fid, &name, invalidations);
        }
        self.remove(fid);
        bits
    }

    /// Everything that an MDT granted is lost.
    pub fn lose(&mut self, mdt: u16) -> Invalidations {
        self.gate(mdt).note_all();
        let fids: Vec<Fid> = self.slots.keys().filter(|fid| fid.mdt() == mdt).copied().collect();
        let mut invalidations = Invalidations { all_names: true, ..Invalidations::default() };
        for fid in fids {
            self.give(fid, &mut invalidations);
        }
        invalidations
    }

    /// An own change took the last name of this inode. Its locks end with it: when nothing here
    /// uses it any more, [`Table::bury`] is due.
    pub(crate) fn lost_last_name(&mut self, fid: Fid) {
        if self.slots.contains_key(&fid) {
            self.removed.insert(fid);
        }
    }

    /// As [`Table::lost_last_name`]; a directory goes with all of its stripes.
    pub(crate) fn lost_all_names(&mut self, fid: Fid) {
        if let Striped::Of(stripes) = self.stripes.of(fid) {
            stripes.shards().iter().for_each(|shard| self.lost_last_name(*shard));
        }
        self.lost_last_name(fid);
    }

    /// True if this inode lost its last name by a change of this mount.
    pub fn is_removed(&self, fid: Fid) -> bool {
        self.removed.contains(&fid)
    }

    /// All such inodes of which something is held.
    pub fn removed(&self) -> Vec<Fid> {
        self.removed.iter().copied().collect()
    }

    /// Inodes that lost LOOKUP and did not get it back. If such an inode is not in use here, its
    /// slot will answer nothing any more: it may be gone, and the rest of its locks must be given
    /// back.
    pub fn nameless(&mut self) -> Vec<Fid> {
        let slots = &self.slots;
        self.nameless.retain(|fid| slots.get(fid).is_some_and(|slot| !slot.bits.contains(LOOKUP)));
        self.nameless.iter().copied().collect()
    }

    /// Forgets an inode that is gone. Nothing is given back, because its MDT has no locks of it any
    /// more; replies under way no longer grant any.
    pub fn bury(&mut self, fid: Fid) {
        self.gate(fid.mdt()).note(fid, InodeBits::ALL);
        self.give(fid, &mut Invalidations::default());
    }

    /// Inodes of which something is held: of one MDT, or all. In order.
    pub fn held(&self, mdt: Option<u16>) -> Vec<Fid> {
        let wanted = |fid: &&Fid| mdt.is_none_or(|mdt| fid.mdt() == mdt);
        let mut fids: Vec<Fid> = self.slots.keys().filter(wanted).copied().collect();
        fids.sort_unstable();
        fids
    }

    /// Inodes with DATA or WRITE, and their layouts if they are known. In order.
    pub fn with_data(&self) -> Vec<(Fid, Option<Arc<Layout>>)> {
        let data = InodeBits::DATA.union(InodeBits::WRITE);
        let with_data = self.slots.iter().filter(|(_, slot)| slot.bits.intersects(data));
        let mut fids: Vec<_> = with_data.map(|(fid, slot)| (*fid, slot.layout.clone())).collect();
        fids.sort_unstable_by_key(|(fid, _)| *fid);
        fids
    }

    /// Inodes whose locks were not used for longer than allowed, at most `count`. `pinned` ones
    /// stay. In order.
    pub fn aged(&self, count: usize, pinned: impl Fn(Fid) -> bool) -> Vec<Fid> {
        if self.bounds.age_ms == 0 {
            return Vec::new();
        }
        let is_old =
            |slot: &Slot| self.now.saturating_sub(slot.used_at) * 1000 >= self.bounds.age_ms;
        let old =
            self.slots.iter().filter(|(fid, slot)| is_old(slot) && !slot.leaving && !pinned(**fid));
        let mut fids: Vec<Fid> = old.map(|(fid, _)| *fid).collect();
        fids.sort_unstable();
        fids.truncate(count);
        fids
    }

    /// Inodes whose locks must be given up, at most `count`, because there are too many. `pinned`
    /// ones stay. A directory of many names that was used a moment ago goes only if nothing else
    /// can: a program that lists it would have to ask for one name after the other.
    pub fn victims(&mut self, count: usize, pinned: impl Fn(Fid) -> bool) -> Vec<Fid> {
        let now = self.now;
        let is_listed = |slot: &Slot| {
            slot.names.len() >= MANY_NAMES && now.saturating_sub(slot.used_at) < LISTED_SECONDS
        };
        let mut victims = self.oldest(count, |fid, slot| is_listed(slot) || pinned(fid));
        if victims.is_empty() {
            victims = self.oldest(count, |fid, _| pinned(fid));
        }
        // An inode that the kernel forgot stands in the queue twice, and one that is gone once:
        // from time to time they are swept.
        if self.ring.len() > 2 * self.slots.len() + 1024 {
            let mut seen = foldhash::HashSet::default();
            let slots = &self.slots;
            self.ring.retain(|fid| slots.contains_key(fid) && seen.insert(*fid));
        }
        victims
    }

    /// The oldest inodes, at most `count`, and no more than there are too many; with a second
    /// chance for those used since. Those that `stays` names are passed over.
    fn oldest(&mut self, count: usize, stays: impl Fn(Fid, &Slot) -> bool) -> Vec<Fid> {
        let mut victims = Vec::new();
        let (mut slots, mut weight) = (self.slots.len(), self.weight);
        let mut looks = 2 * self.ring.len();
        while (slots > self.bounds.locks || weight > WEIGHT_MAX)
            && victims.len() < count
            && looks > 0
        {
            looks -= 1;
            let Some(fid) = self.ring.pop_front() else { break };
            let Some(slot) = self.slots.get_mut(&fid).filter(|slot| !slot.leaving) else {
                continue;
            };
            if std::mem::take(&mut slot.used) || stays(fid, slot) {
                self.ring.push_back(fid);
                continue;
            }
            slot.leaving = true;
            slots -= 1;
            weight = weight.saturating_sub(slot.weight);
            victims.push(fid);
        }
        victims
    }
}
