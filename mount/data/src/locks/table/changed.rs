//! Changes of this mount itself. The gate is told too: replies that were under way show the state
//! before.

use super::{Held, LOOKUP, PERM, Table, UPDATE, XATTR, bits_of};
use crate::kernel_view::recent::Trust;
use types::fid::Fid;
use types::name::Name;
use wire::mds::Entry;

impl Table {
    /// An own change altered an inode; `entry` is its new state, if the reply has it.
    pub(crate) fn changed_inode(&mut self, fid: Fid, entry: Option<&Entry>, held: &Held) {
        self.forget_listing(fid);
        self.gate(fid.mdt()).note(fid, UPDATE);
        match entry {
            Some(entry) => self.learn_entry(entry, bits_of(held, fid)),
            None => {
                if let Some(slot) = self.slots.get_mut(&fid) {
                    slot.attr = None;
                }
            }
        }
    }

    /// The MDT recorded an access by this mount. The version stays, so it does not show which
    /// replies are older: those under way lose their say. Except for a directory whose attributes
    /// are known: it may be being listed, and keeps its later access time ([`Table::learn_entry`]).
    pub(crate) fn accessed(&mut self, entry: &Entry) {
        let fid = entry.attr.fid;
        let known = self.slots.get_mut(&fid).and_then(|slot| slot.attr.as_mut());
        let listed = known.as_ref().is_some_and(|known| known.attr.is_dir());
        if let Some(known) = known.filter(|known| known.attr.version <= entry.attr.version) {
            known.attr.atime = entry.attr.atime;
        }
        if !listed {
            self.gate(fid.mdt()).note(fid, UPDATE);
        }
    }

    /// An own change altered a name of a directory.
    pub(crate) fn changed_name(&mut self, dir: Fid, name: &Name, to: Option<Fid>, held: &Held) {
        self.gate(dir.mdt()).note(dir, UPDATE);
        if let Some(fid) = to {
            self.gate(fid.mdt()).note(fid, LOOKUP);
        }
        let complete = self.is_complete(dir);
        let trust = self.drop_changed(dir, name, to);
        self.learn_name(dir, name, to, held);
        if self.slots.get(&dir).is_some_and(|slot| slot.names.contains_key(name)) {
            self.still_complete(dir, complete);
        }
        // An answer about the old state may still make the kernel trust what it has of the name,
        // now the new state.
        let trust = trust.filter(|trust| self.recent.is_settling(*trust));
        if let Some(led) = self.slots.get_mut(&dir).and_then(|slot| slot.names.get_mut(name)) {
            led.trust = led.trust.or(trust);
        }
    }

    /// Drops a name that an own change altered. The kernel may go on seeing it for a moment.
    fn drop_changed(&mut self, dir: Fid, name: &Name, to: Option<Fid>) -> Option<Trust> {
        // It changes that name itself.
        self.recent.not_shown(dir, name);
        let dropped = self.drop_name(dir, name);
        if let Some(trust) = dropped.trust {
            self.recent.changed(
                dir,
                name.clone(),
                trust,
                [dropped.to.unwrap_or(Fid::NONE), to.unwrap_or(Fid::NONE)],
            );
        }
        dropped.trust
    }

    /// An own change removed a name of this inode or gave it another one: replies that were under
    /// way may show the names before.
    pub(crate) fn renamed_inode(&mut self, fid: Fid) {
        self.forget_listing(fid);
        self.gate(fid.mdt()).note(fid, LOOKUP);
    }

    /// An own change whose caller no longer waited altered a name: the kernel does not know.
    pub(crate) fn abandoned_name(&mut self, dir: Fid, name: &Name) {
        let trust = self.drop_name(dir, name).trust.unwrap_or_default();
        self.outdated.name(dir, name.clone(), self.recent.is_settling(trust));
    }

    /// An own change altered a name in a way that its reply does not show.
    pub(crate) fn forget_name(&mut self, dir: Fid, name: &Name) {
        self.gate(dir.mdt()).note(dir, UPDATE);
        self.drop_changed(dir, name, None);
    }

    /// The kernel itself moved a name to here, together with its trust in it. A callback of the
    /// name during the rename did not help: the kernel looked for it at its old place. If the name
    /// is not covered here, all names are to be invalidated.
    pub fn moved(&mut self, dir: Fid, name: &Name) {
        match self.slots.get_mut(&dir).and_then(|slot| slot.names.get_mut(name)) {
            Some(led) => led.trust = Some(self.recent.now()),
            None => self.pending.all_names(),
        }
    }

    /// It is unknown whether an own change altered this inode.
    pub(crate) fn unsure_inode(&mut self, fid: Fid) {
        self.changed_inode(fid, None, &Held::default());
        self.pending.attrs.push(fid);
    }

    /// An own change altered extended attributes, an ACL maybe.
    pub(crate) fn changed_xattrs(&mut self, fid: Fid) {
        self.gate(fid.mdt()).note(fid, XATTR);
        if let Some(slot) = self.slots.get_mut(&fid) {
            slot.xattrs = None;
        }
        self.changed_permissions(fid);
    }

    /// An own change may have altered mode or owner.
    pub(crate) fn changed_permissions(&mut self, fid: Fid) {
        self.gate(fid.mdt()).note(fid, PERM);
        if let Some(slot) = self.slots.get_mut(&fid) {
            slot.permissions = None;
        }
    }
}
