//! Links that the kernel counts down by itself, and attributes that it may have of an older state
//! (docs/locks/kernel.md, R12 and R40).

use super::{Known, Table};
use crate::kernel_view::invalidations::Invalidations;
use crate::kernel_view::recent::ShownName;
use types::fid::Fid;
use types::name::Name;
use wire::mds::Removed;

/// Where the kernel may believe that a name leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Believed {
    /// What locks cover.
    pub(super) known: Known,
    /// What the kernel was told a moment ago, uncovered now.
    pub(super) shown: ShownName,
}

impl Believed {
    fn known_fid(&self) -> Option<Fid> {
        if let Known::To(fid) = self.known { Some(fid) } else { None }
    }

    fn shown_fid(&self) -> Option<Fid> {
        if let ShownName::To(fid) = self.shown { Some(fid) } else { None }
    }
}

impl Table {
    /// Where the kernel believes that a name leads which it asks to remove.
    pub fn believed(&mut self, dir: Fid, name: &Name) -> Believed {
        Believed { known: self.name(dir, name), shown: self.recent.shown(dir, name) }
    }

    /// A name is sent to the kernel, which may not trust it.
    pub(crate) fn show_name(&mut self, dir: Fid, name: &Name, to: Option<Fid>) {
        match to {
            Some(to) => self.recent.note_shown(dir, name.clone(), to),
            None => self.recent.not_shown(dir, name),
        }
    }

    /// The inode that the kernel has under a name, as it was told last; `None`: that is not known,
    /// or it has none. A lookup without the directory's lock may have told it of another one in the
    /// same moment.
    pub(crate) fn expected(&self, dir: Fid, name: &Name) -> Option<Fid> {
        match self.recent.shown(dir, name) {
            // Told after anything that a lock covers.
            ShownName::To(fid) => Some(fid),
            ShownName::Anywhere => None,
            ShownName::Nowhere => {
                let led = self.slots.get(&dir)?.names.get(name)?;
                led.trust.and(led.to)
            }
        }
    }

    /// An own change removed a name; `before`: what the kernel believed when it sent the request.
    /// After the kernel has read the answer, it counts down the links of the inode that *it* knew
    /// by that name. So it may not trust the counts of either inode for a while, unless the name
    /// was the last one of the inode that was meant.
    pub fn counted_down(&mut self, before: Believed, removed: Removed) {
        let (known, shown) = (before.known_fid(), before.shown_fid());
        let expected =
            known.or(shown) == Some(removed.fid) && shown.is_none_or(|fid| fid == removed.fid);
        if !expected || removed.nlink > 0 {
            self.miscounted(removed.fid);
        }
        for other in [known, shown].into_iter().flatten().filter(|fid| *fid != removed.fid) {
            self.miscounted(other);
            // The count may become 0, and link(2) refuses such an inode without a request. So the
            // kernel must ask for its other names again.
            self.pending.all_names();
        }
        if known.is_none() && before.shown == ShownName::Anywhere {
            self.recent.all_miscounted();
            self.pending.all_names();
        }
    }

    /// An own change took the last name of this inode, and its answer says that this mount holds
    /// OPEN, but a note at the gate took that grant: it does not hold OPEN, and only this mount can
    /// say so. Bounded by requests: the one that removed the name asks for it next.
    pub(crate) fn note_untaken_open(&mut self, fid: Fid) {
        self.untaken_opens.insert(fid);
    }

    /// See [`Table::note_untaken_open`]; told once.
    pub fn untaken_open(&mut self, fid: Fid) -> bool {
        self.untaken_opens.remove(&fid)
    }

    /// The kernel may have older attributes than other clients are about to see.
    pub(crate) fn distrust_attr(&mut self, fid: Fid, invalidations: &mut Invalidations) {
        if self.slots.get_mut(&fid).is_some_and(|slot| std::mem::take(&mut slot.attr_trusted)) {
            invalidations.attrs.push(fid);
        }
    }

    fn miscounted(&mut self, fid: Fid) {
        if fid == Fid::NONE {
            return;
        }
        self.recent.miscounted(fid);
        // It stays trusted: an answer may be on its way.
        if self.slots.get(&fid).is_some_and(|slot| slot.attr_trusted) {
            self.pending.attrs.push(fid);
        }
    }
}
