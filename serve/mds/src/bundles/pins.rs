//! What bundles are about to change at this MDT. Other changes of it wait, and no client is granted
//! a lock that says that it stays as it is.
//!
//! What is *unsettled* is not shown either: another MDT may have done its part, of which a client
//! may know. At a participant that is so from the Prepare on, at the coordinator from the decision
//! on.
//!
//! A directory that is pinned as one *above* another one may be used in every way, but gets no
//! other parent, and is not removed. Several bundles may pin it so.
//!
//! Bound: [`BUNDLE_PINS_MAX`] pins per bundle.

use foldhash::HashMap;
use namespace::view::Change;
use std::collections::{BTreeMap, BTreeSet};
use types::bundle::BundleId;
use types::fid::Fid;
use types::limits::BUNDLE_PINS_MAX;
use types::lock::InodeBits;
use types::name::Name;

/// What a bundle pins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pin {
    /// An inode.
    Inode(Fid),
    /// A name of a directory, which must stay.
    Name(Fid, Name),
    /// All names of a stripe: some of them pass to other stripes. No other bundle has pinned one.
    Names(Fid),
    /// A directory above the place to which another one is moved.
    Above(Fid),
    /// The right to move a directory to another parent over several MDTs.
    Token,
}

/// What one bundle has pinned.
#[derive(Default)]
struct Pinned {
    pins: Vec<Pin>,
    unsettled: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pins {
    of: BTreeMap<BundleId, Pinned>,
    inodes: HashMap<Fid, BundleId>,
    names: HashMap<Fid, BTreeMap<Name, BundleId>>,
    passing: HashMap<Fid, BundleId>,
    above: HashMap<Fid, BTreeSet<BundleId>>,
    token: Option<BundleId>,
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

    /// What the bundle has pinned may be changed at another MDT already.
    pub(crate) fn unsettle(&mut self, id: BundleId) {
        if let Some(pinned) = self.of.get_mut(&id) {
            pinned.unsettled = true;
        }
    }

    fn is_unsettled(&self, id: &BundleId) -> bool {
        self.of.get(id).is_some_and(|pinned| pinned.unsettled)
    }

    /// A bundle because of which this name must not be shown now.
    pub(crate) fn unsettled_name(&self, dir: Fid, name: &[u8]) -> Option<BundleId> {
        if self.of.is_empty() {
            return None;
        }
        self.named(dir, name).filter(|id| self.is_unsettled(id))
    }

    /// A bundle because of which this inode must not be shown now: it, or a name in it, is about to
    /// change.
    pub(crate) fn unsettled_inode(&self, fid: Fid) -> Option<BundleId> {
        if self.of.is_empty() {
            return None;
        }
        let names = self.names.get(&fid).into_iter().flat_map(BTreeMap::values);
        self.inodes.get(&fid).into_iter().chain(names).find(|id| self.is_unsettled(id)).copied()
    }

    fn named(&self, dir: Fid, name: &[u8]) -> Option<BundleId> {
        let name = self.names.get(&dir).and_then(|names| names.get(name));
        name.or_else(|| self.passing.get(&dir)).copied()
    }

    /// A bundle, other than `own`, that has pinned a name of this directory.
    pub(crate) fn named_in(&self, own: BundleId, dir: Fid) -> Option<BundleId> {
        self.names.get(&dir)?.values().find(|id| **id != own).copied()
    }

    /// Pins; no other bundle has pinned it ([`Pins::meets`], [`Pins::changing_inode`],
    /// [`Pins::token_of`]). `false`: the bundle has pinned too much.
    pub(crate) fn pin(&mut self, id: BundleId, pin: Pin) -> bool {
        let pinned = self.of.entry(id).or_default();
        if pinned.pins.contains(&pin) {
            return true;
        }
        if pinned.pins.len() >= BUNDLE_PINS_MAX {
            return false;
        }
        match &pin {
            Pin::Inode(fid) => _ = self.inodes.insert(*fid, id),
            Pin::Name(dir, name) => {
                _ = self.names.entry(*dir).or_default().insert(name.clone(), id);
            }
            Pin::Names(dir) => _ = self.passing.insert(*dir, id),
            Pin::Above(fid) => _ = self.above.entry(*fid).or_default().insert(id),
            Pin::Token => self.token = Some(id),
        }
        pinned.pins.push(pin);
        true
    }

    /// A bundle is over.
    pub(crate) fn unpin(&mut self, id: BundleId) {
        let pinned = self.of.remove(&id).unwrap_or_default();
        for pin in pinned.pins {
            match pin {
                Pin::Inode(fid) => _ = self.inodes.remove(&fid),
                Pin::Name(dir, name) => {
                    let Some(names) = self.names.get_mut(&dir) else { continue };
                    names.remove(&name);
                    if names.is_empty() {
                        self.names.remove(&dir);
                    }
                }
                Pin::Names(dir) => _ = self.passing.remove(&dir),
                Pin::Above(fid) => {
                    let Some(bundles) = self.above.get_mut(&fid) else { continue };
                    bundles.remove(&id);
                    if bundles.is_empty() {
                        self.above.remove(&fid);
                    }
                }
                Pin::Token => self.token = None,
            }
        }
    }

    /// A bundle, other than `own`, that has pinned some of this. A directory that loses its name
    /// must have no pinned one in it.
    pub(crate) fn meets(&self, own: Option<BundleId>, changes: &[Change<'_>]) -> Option<BundleId> {
        if self.of.is_empty() {
            return None;
        }
        let other = |id: &&BundleId| Some(**id) != own;
        changes.iter().find_map(|change| {
            let names = self.names.get(&change.fid);
            let named = names.and_then(|names| {
                let of = |name: &[u8]| names.get(name).filter(other);
                let goes = change.bits.contains(InodeBits::OPEN);
                let goes = goes.then(|| names.values().find(other)).flatten();
                change.names.into_iter().flatten().find_map(of).or(goes).copied()
            });
            // It gets, loses or moves a name.
            let moves = change.bits.contains(InodeBits::LOOKUP);
            let above = moves.then(|| self.above.get(&change.fid)).flatten();
            let above = above.and_then(|bundles| bundles.iter().find(other)).copied();
            self.inodes.get(&change.fid).filter(other).copied().or(named).or(above)
        })
    }

    /// A bundle, other than `own`, that is about to change, make or remove this inode.
    pub(crate) fn changing_inode(&self, own: Option<BundleId>, fid: Fid) -> Option<BundleId> {
        self.inodes.get(&fid).copied().filter(|id| Some(*id) != own)
    }

    /// The bundle that has the token.
    pub(crate) fn token_of(&self) -> Option<BundleId> {
        self.token
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

    /// The names that a bundle has pinned.
    pub(crate) fn names_of(&self, id: BundleId) -> impl Iterator<Item = (Fid, &Name)> {
        self.of.get(&id).into_iter().flat_map(|pinned| &pinned.pins).filter_map(|pin| match pin {
            Pin::Name(dir, name) => Some((*dir, name)),
            _ => None,
        })
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

    fn id(number: u64) -> BundleId {
        BundleId { coordinator: TargetIndex(0), boot: 1, number }
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_unsettled_is_not_shown() {
        let mut pins = Pins::default();
        assert!(pins.pin(id(1), Pin::Name(DIR, name("a"))) && pins.pin(id(1), Pin::Inode(OTHER)));
        assert_eq!([pins.unsettled_inode(DIR), pins.unsettled_inode(OTHER)], [None; 2]);
        pins.unsettle(id(1));
        assert_eq!([pins.unsettled_inode(DIR), pins.unsettled_inode(OTHER)], [Some(id(1)); 2]);
        assert_eq!(pins.unsettled_name(DIR, b"a"), Some(id(1)));
        assert_eq!([pins.unsettled_name(DIR, b"b"), pins.unsettled_name(OTHER, b"a")], [None; 2]);
        pins.unpin(id(1));
        assert_eq!(pins.unsettled_inode(DIR), None);
        pins.unsettle(id(1));
        assert_eq!(pins.unsettled_inode(DIR), None, "it is over");
    }

    #[test]
    fn what_is_pinned_is_met_and_not_granted() {
        let mut pins = Pins::default();
        pins.pin(id(1), Pin::Name(DIR, name("a")));
        pins.pin(id(2), Pin::Name(DIR, name("b")));
        pins.pin(id(3), Pin::Inode(OTHER));
        let meets = |changes: &[Change<'_>]| pins.meets(None, changes);
        assert_eq!(meets(&[Change::name(DIR, b"a")]), Some(id(1)));
        assert_eq!(meets(&[Change::name(DIR, b"c")]), None);
        assert_eq!(meets(&[Change::name(DIR, b"c"), Change::name(OTHER, b"x")]), Some(id(3)));
        assert_eq!(meets(&[Change::named(DIR, false)]), None, "it moves, and keeps its names");
        assert!(meets(&[Change::named(DIR, true)]).is_some(), "it must stay");
        assert_eq!(pins.meets(Some(id(1)), &[Change::name(DIR, b"a")]), None, "it is its own");
        assert_eq!(pins.meets(Some(id(1)), &[Change::named(DIR, true)]), Some(id(2)));
        assert_eq!(pins.changing_inode(None, OTHER), Some(id(3)));
        assert_eq!(
            [pins.changing_inode(Some(id(3)), OTHER), pins.changing_inode(None, DIR)],
            [None; 2]
        );
        let all = InodeBits::LOOKUP.union(InodeBits::UPDATE);
        assert_eq!(pins.grantable(DIR, all), InodeBits::LOOKUP);
        assert_eq!(pins.grantable(OTHER, all), InodeBits::NONE);
        assert_eq!(pins.names_in(DIR).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(pins.names_of(id(2)).collect::<Vec<_>>(), [(DIR, &name("b"))]);
        assert_eq!(pins.names_of(id(3)).count(), 0);
        (1..4).for_each(|number| pins.unpin(id(number)));
        assert!(pins.is_empty() && pins.names.is_empty() && pins.inodes.is_empty());
        assert_eq!(pins.grantable(OTHER, all), all);
    }

    #[test]
    fn directories_above_stay_where_they_are_and_one_bundle_has_the_token() {
        let mut pins = Pins::default();
        (1..3).for_each(|n| assert!(pins.pin(id(n), Pin::Above(DIR))));
        pins.pin(id(1), Pin::Token);
        assert_eq!(pins.token_of(), Some(id(1)));
        assert_eq!(pins.meets(None, &[Change::name(DIR, b"a")]), None, "it may be used");
        assert_eq!(pins.meets(None, &[Change::named(DIR, false)]), Some(id(1)));
        assert_eq!(pins.meets(Some(id(1)), &[Change::named(DIR, false)]), Some(id(2)));
        pins.unpin(id(1));
        assert_eq!(pins.token_of(), None);
        assert_eq!(pins.meets(None, &[Change::named(DIR, false)]), Some(id(2)));
        pins.unpin(id(2));
        assert!(pins.is_empty() && pins.above.is_empty());
    }

    #[test]
    fn names_pass_while_no_other_bundle_has_pinned_one() {
        let mut pins = Pins::default();
        pins.pin(id(1), Pin::Name(DIR, name("a")));
        assert_eq!([pins.named_in(id(2), DIR), pins.named_in(id(1), DIR)], [Some(id(1)), None]);
        pins.unpin(id(1));
        assert!(pins.pin(id(2), Pin::Inode(DIR)) && pins.pin(id(2), Pin::Names(DIR)));
        assert_eq!(pins.meets(None, &[Change::name(DIR, b"b")]), Some(id(2)));
        assert_eq!(pins.unsettled_name(DIR, b"b"), None);
        pins.unsettle(id(2));
        assert_eq!(pins.unsettled_name(DIR, b"b"), Some(id(2)));
        pins.unpin(id(2));
        assert!(pins.is_empty() && pins.passing.is_empty());
    }

    #[test]
    fn a_bundle_pins_no_more_than_the_limit() {
        let mut pins = Pins::default();
        for oid in 0..BUNDLE_PINS_MAX as u32 {
            assert!(pins.pin(id(1), Pin::Above(Fid { oid, ..DIR })));
        }
        assert!(!pins.pin(id(1), Pin::Token));
        assert!(pins.pin(id(1), Pin::Above(DIR)), "that is pinned");
    }
}
