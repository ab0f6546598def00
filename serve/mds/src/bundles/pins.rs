//! What bundles are about to change at this MDT. Other changes of it wait, and no client is granted
//! a lock that says that it stays as it is.
//!
//! Bound: one pin per bundle.

use foldhash::HashMap;
use namespace::view::Change;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use types::bundle::BundleId;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;

/// What a bundle pins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pin {
    /// An inode.
    Inode(Fid),
    /// A name of a directory, which must stay.
    Name(Fid, Name),
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pins {
    of: BTreeMap<BundleId, Pin>,
    inodes: HashMap<Fid, BundleId>,
    names: HashMap<Fid, BTreeMap<Name, BundleId>>,
    /// Names whose inode may be gone at its MDT already.
    leaving: BTreeMap<BundleId, (Fid, Name)>,
    count: Arc<AtomicUsize>,
}

impl Pins {
    /// True if nothing is pinned.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// True if the bundle has pinned something.
    pub(crate) fn has(&self, id: BundleId) -> bool {
        self.of.contains_key(&id)
    }

    /// How many there are, for those that look without the lock of the state.
    pub(crate) fn count(&self) -> Arc<AtomicUsize> {
        self.count.clone()
    }

    /// The pinned name of a bundle goes for certain, and another MDT may remove the inode first.
    pub(crate) fn leaves(&mut self, id: BundleId) {
        if let Some(Pin::Name(dir, name)) = self.of.get(&id) {
            self.leaving.insert(id, (*dir, name.clone()));
        }
    }

    /// A bundle by which this name, or any of this directory, leaves now.
    pub(crate) fn leaving(&self, dir: Fid, name: Option<&Name>) -> Option<BundleId> {
        let is = |of: &Fid, leaving: &Name| *of == dir && name.is_none_or(|name| name == leaving);
        self.leaving.iter().find(|(_, (of, name))| is(of, name)).map(|(id, _)| *id)
    }

    /// Pins; nothing else has pinned it ([`Pins::meets`]).
    pub(crate) fn pin(&mut self, id: BundleId, pin: Pin) {
        match &pin {
            Pin::Inode(fid) => _ = self.inodes.insert(*fid, id),
            Pin::Name(dir, name) => {
                _ = self.names.entry(*dir).or_default().insert(name.clone(), id)
            }
        }
        self.of.insert(id, pin);
        self.count.store(self.of.len(), Ordering::Release);
    }

    /// A bundle is over.
    pub(crate) fn unpin(&mut self, id: BundleId) {
        let pin = self.of.remove(&id);
        self.leaving.remove(&id);
        self.count.store(self.of.len(), Ordering::Release);
        match pin {
            Some(Pin::Inode(fid)) => _ = self.inodes.remove(&fid),
            Some(Pin::Name(dir, name)) => {
                let Some(names) = self.names.get_mut(&dir) else { return };
                names.remove(&name);
                if names.is_empty() {
                    self.names.remove(&dir);
                }
            }
            None => {}
        }
    }

    /// A bundle that has pinned some of this. A directory that loses its name must have no pinned
    /// one in it.
    pub(crate) fn meets(&self, changes: &[Change<'_>]) -> Option<BundleId> {
        if self.of.is_empty() {
            return None;
        }
        changes.iter().find_map(|change| {
            let names = self.names.get(&change.fid);
            let named = names.and_then(|names| {
                let of = |name: &[u8]| names.iter().find(|(pinned, _)| pinned.as_bytes() == name);
                let goes =
                    change.bits.contains(InodeBits::OPEN).then(|| names.iter().next()).flatten();
                change.names.into_iter().flatten().find_map(of).or(goes).map(|(_, id)| *id)
            });
            self.inodes.get(&change.fid).copied().or(named)
        })
    }

    /// The part of these bits of an inode that may be granted.
    pub(crate) fn grantable(&self, fid: Fid, bits: InodeBits) -> InodeBits {
        if self.of.is_empty() {
            bits
        } else if self.inodes.contains_key(&fid) {
            InodeBits::NONE
        } else if self.names.contains_key(&fid) {
            bits.difference(InodeBits::UPDATE)
        } else {
            bits
        }
    }

    /// The pinned names of a directory.
    pub(crate) fn names_in(&self, dir: Fid) -> impl Iterator<Item = &[u8]> {
        self.names.get(&dir).into_iter().flat_map(|names| names.keys().map(Name::as_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::target::TargetIndex;

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };
    const OTHER: Fid = Fid { oid: 2, ..DIR };

    #[test]
    fn a_name_leaves_from_its_decision_to_its_end() {
        let id = BundleId { coordinator: TargetIndex(0), boot: 1, number: 1 };
        let (a, b) = (Name::new(b"a").unwrap(), Name::new(b"b").unwrap());
        let mut pins = Pins::default();
        let count = pins.count();
        pins.pin(id, Pin::Name(DIR, a.clone()));
        assert_eq!((pins.leaving(DIR, None), count.load(Ordering::Relaxed)), (None, 1));
        pins.leaves(id);
        assert_eq!([pins.leaving(DIR, None), pins.leaving(DIR, Some(&a))], [Some(id); 2]);
        assert_eq!([pins.leaving(DIR, Some(&b)), pins.leaving(OTHER, None)], [None; 2]);
        pins.unpin(id);
        assert_eq!((pins.leaving(DIR, None), count.load(Ordering::Relaxed)), (None, 0));
        pins.leaves(id);
        assert_eq!(pins.leaving(DIR, None), None, "it is over");
    }

    #[test]
    fn what_is_pinned_is_met_and_not_granted() {
        let id = |number| BundleId { coordinator: TargetIndex(0), boot: 1, number };
        let (a, b) = (Name::new(b"a").unwrap(), Name::new(b"b").unwrap());
        let mut pins = Pins::default();
        pins.pin(id(1), Pin::Name(DIR, a.clone()));
        pins.pin(id(2), Pin::Name(DIR, b));
        pins.pin(id(3), Pin::Inode(OTHER));
        assert_eq!(pins.meets(&[Change::name(DIR, b"a")]), Some(id(1)));
        assert_eq!(pins.meets(&[Change::name(DIR, b"c")]), None);
        assert_eq!(pins.meets(&[Change::name(DIR, b"c"), Change::name(OTHER, b"x")]), Some(id(3)));
        assert_eq!(pins.meets(&[Change::named(DIR, false)]), None, "it moves, and keeps its names");
        assert!(pins.meets(&[Change::named(DIR, true)]).is_some(), "it must stay");
        let all = InodeBits::LOOKUP.union(InodeBits::UPDATE);
        assert_eq!(pins.grantable(DIR, all), InodeBits::LOOKUP);
        assert_eq!(pins.grantable(OTHER, all), InodeBits::NONE);
        assert_eq!(pins.names_in(DIR).collect::<Vec<_>>(), [b"a", b"b"]);
        (1..4).for_each(|number| pins.unpin(id(number)));
        assert!(pins.is_empty() && pins.names.is_empty() && pins.inodes.is_empty());
        assert_eq!(pins.grantable(OTHER, all), all);
    }
}
