//! What the table answers: to operations of this mount, and to the kernel. Nothing changes but what
//! was used, which names own changes are about, and what the kernel may trust from now on.

use super::{Known, Led, Table};
use crate::kernel_view::recent::Asked;
use bytes::Bytes;
use layout::layout::Layout;
use std::sync::Arc;
use types::attr::Attr;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use wire::mds::Entry;

impl Table {
    /// The inode that a name leads to.
    pub fn name(&mut self, dir: Fid, name: &Name) -> Known {
        let Some(slot) = self.slots.get_mut(&dir) else { return Known::Nothing };
        slot.changes = 0;
        slot.use_at(self.now);
        match slot.names.get(name) {
            Some(Led { to: Some(fid), .. }) => Known::To(*fid),
            Some(Led { to: None, .. }) => Known::Absent,
            None if slot.complete => {
                self.learn_absent(dir, name);
                Known::Absent
            }
            // The kernel is given no trust in it, so it is noted nowhere else.
            None if slot.gaps.as_ref().is_some_and(|gaps| gaps.contains(name)) => Known::Absent,
            None => Known::Nothing,
        }
    }

    /// True if an own request under way changes this name. Other answers may then show its effect
    /// already, and the known content is older.
    pub fn is_changing(&self, dir: Fid, name: &Name) -> bool {
        self.changing.get(&dir).is_some_and(|names| names.contains(name))
    }

    /// A request is sent that may change this name.
    pub fn begin_change(&mut self, dir: Fid, name: &Name) {
        self.changing.entry(dir).or_default().push(name.clone());
    }

    /// That request is over.
    pub(crate) fn end_change(&mut self, dir: Fid, name: &Name) {
        let Some(names) = self.changing.get_mut(&dir) else { return };
        if let Some(at) = names.iter().position(|other| other == name) {
            names.swap_remove(at);
        }
        if names.is_empty() {
            self.changing.remove(&dir);
        }
    }

    /// Attributes, if they are covered.
    pub fn attr(&mut self, fid: Fid) -> Option<Entry> {
        let slot = self.slots.get_mut(&fid)?;
        slot.changes = 0;
        slot.use_at(self.now);
        if let Some(entry) = slot.attr.as_ref().filter(|entry| entry.striped != 0) {
            self.stripes.note(fid, entry.striped);
        }
        slot.attr.clone()
    }

    /// Whether an inode has extended attributes, if that is known.
    pub fn has_xattr(&self, fid: Fid) -> Option<bool> {
        let slot = self.slots.get(&fid)?;
        slot.attr.as_ref().or(slot.permissions.as_deref()).map(|entry| entry.has_xattr)
    }

    /// Attributes of a directory of which mode, owner and ACL are covered.
    pub fn permissions(&mut self, fid: Fid) -> Option<Attr> {
        let slot = self.slots.get_mut(&fid)?;
        slot.use_at(self.now);
        slot.permissions.as_ref().map(|entry| entry.attr)
    }

    /// An extended attribute, if it is known; `Some(None)`: known to be absent.
    pub fn xattr(&mut self, fid: Fid, name: &[u8]) -> Option<Option<Bytes>> {
        let slot = self.slots.get_mut(&fid)?;
        slot.use_at(self.now);
        let known = slot.xattrs.as_ref().and_then(|xattrs| xattrs.values.get(name).cloned());
        // Setting the first one changes ctime. So shown attributes say whether there is any.
        let shown = slot.attr.as_ref().or(slot.permissions.as_deref());
        let none = shown.is_some_and(|entry| !entry.has_xattr) && is_stored(name);
        known.or(none.then_some(None))
    }

    /// The list of extended attributes, if it is known.
    pub fn xattr_list(&mut self, fid: Fid) -> Option<Bytes> {
        let slot = self.slots.get_mut(&fid)?;
        slot.use_at(self.now);
        slot.xattrs.as_ref()?.list.clone()
    }

    /// The target of a symbolic link, if it is known.
    pub fn target(&mut self, fid: Fid) -> Option<Bytes> {
        let slot = self.slots.get_mut(&fid)?;
        slot.use_at(self.now);
        slot.target.clone()
    }

    /// The layout, if it is covered.
    pub fn layout(&mut self, fid: Fid) -> Option<Arc<Layout>> {
        let slot = self.slots.get_mut(&fid)?;
        slot.use_at(self.now);
        slot.layout.clone()
    }

    // Answers to the kernel.

    /// A name that leads to an inode, as LOOKUP of the inode covers it.
    pub fn led_by(&self, fid: Fid) -> Option<(Fid, Name)> {
        self.slots.get(&fid)?.led_here.first().cloned()
    }

    /// True if a program may open a file for reading without a request.
    pub fn opens_to_read(&self, fid: Fid) -> bool {
        let needed = InodeBits::OPEN.union(InodeBits::LAYOUT);
        self.slots.get(&fid).is_some_and(|slot| slot.bits.contains(needed) && slot.layout.is_some())
    }

    /// Attributes for the kernel: the newest that are known, and whether it may trust them.
    pub fn attr_for_kernel(&mut self, attr: &Attr) -> (Attr, bool) {
        let Some(slot) = self.slots.get_mut(&attr.fid) else { return (*attr, false) };
        match &slot.attr {
            Some(known) if known.attr.version >= attr.version => {
                let covered = !self.recent.is_miscounted(attr.fid);
                slot.attr_trusted |= covered;
                (known.attr, covered)
            }
            _ => (*attr, false),
        }
    }

    /// Size of a file, if the kernel was told of it, or knows it by itself; else 0.
    pub(crate) fn told_size(&self, fid: Fid) -> u64 {
        let slot = self.slots.get(&fid).filter(|slot| slot.attr_trusted);
        slot.and_then(|slot| slot.attr.as_ref()).map_or(0, |entry| entry.attr.size)
    }

    /// A name is sent to the kernel. True if the kernel may trust it.
    pub fn trust_name(&mut self, dir: Fid, name: &Name, to: Option<Fid>, asked: Asked) -> bool {
        let led = self
            .slots
            .get_mut(&dir)
            .and_then(|slot| slot.names.get_mut(name))
            .filter(|led| led.to == to);
        let miscounted = to.is_some_and(|fid| self.recent.is_miscounted(fid));
        let trust = led.filter(|_| !miscounted).and_then(|led| {
            let trust = self.recent.trust(dir, to, asked, led.trust)?;
            led.trust = Some(trust);
            Some(trust)
        });
        match to {
            Some(to) if trust.is_none() => self.recent.note_shown(dir, name.clone(), to),
            _ => self.recent.not_shown(dir, name),
        }
        trust.is_some()
    }

    /// True if locks cover the attributes of an inode.
    pub fn has_attr(&self, fid: Fid) -> bool {
        self.slots.get(&fid).is_some_and(|slot| slot.attr.is_some())
    }

    /// True if the kernel was told of this name, and of the attributes of the inode it leads to,
    /// and may trust both.
    pub(crate) fn kernel_trusts(&self, dir: Fid, name: &Name, to: Fid) -> bool {
        let led = self.slots.get(&dir).and_then(|slot| slot.names.get(name));
        led.is_some_and(|led| led.trust.is_some() && led.to == Some(to))
            && self.slots.get(&to).is_some_and(|slot| slot.attr_trusted && slot.attr.is_some())
    }

    /// The kernel forgot an inode, and so all that it was told of it; its lock goes first when room
    /// is needed.
    pub fn kernel_forgot(&mut self, fid: Fid) {
        self.stripes.forgotten(fid);
        if let Some(slot) = self.slots.get_mut(&fid) {
            (slot.attr_trusted, slot.used) = (false, false);
            self.ring.push_front(fid);
        }
    }
}

/// True if it is an attribute that must be set first. The others are made of facts that the file
/// system knows.
fn is_stored(name: &[u8]) -> bool {
    [&b"user."[..], b"security.", b"system.posix_acl_"].iter().any(|space| name.starts_with(space))
}
