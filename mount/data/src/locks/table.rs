//! The locks that this mount holds, and the content that it knows because of them.
//!
//! One slot per inode: the bits held, and the content that they cover. Content is kept only under
//! the grants of the reply that brought it, so nothing here depends on the order in which replies
//! arrive. A name is covered by UPDATE of its directory or by LOOKUP of the inode it leads to; both
//! are remembered with the name. Answers that the kernel may trust without end are marked
//! (`trust`). Taking bits away returns what the kernel must be told to forget.
//!
//! Pure and small-locked: no I/O, no waiting. The bound is memory (`WEIGHT_MAX`) and a number of
//! locks; the oldest go, with a second chance for those used since.

mod changed;
mod complete;
mod gaps;
mod grants;
mod questions;
mod shared;
mod taking;
pub mod unlinked;

use crate::kernel_view::invalidations::Invalidations;
use crate::kernel_view::recent::{Recent, Trust};
use crate::locks::gate::Gate;
use crate::locks::stripes::StripedDirectories;
use bytes::Bytes;
use complete::{CompleteListing, PartialListing};
use foldhash::HashMap;
use layout::layout::Layout;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use types::attr::Attr;
use types::fid::Fid;
use types::limits::IBITS_LOCKS_PER_CLIENT_MAX;
use types::lock::InodeBits;
use types::name::Name;
use types::names::NameRanges;
use wire::mds::Entry;

/// Inodes with locks; below what an MDT lets one client have, so that it rarely has to call back
/// for room.
pub const LOCKS_MAX: usize = IBITS_LOCKS_PER_CLIENT_MAX / 2;
/// Memory of all slots and names, bytes, about.
pub(crate) const WEIGHT_MAX: usize = 192 << 20;
/// Size of one slot with its places in maps and queue, about, bytes.
const SLOT_BYTES: usize = 480;
/// Size of one name beside its characters, about, bytes.
const NAME_BYTES: usize = 96;
/// Number of a directory's changes that a mount is told of without using the directory meanwhile,
/// after which it drops the lock.
pub(crate) const IDLE_CHANGES_MAX: u8 = 16;
/// A directory of so many names was listed, or is being listed.
const MANY_NAMES: usize = 1024;
/// Time after its last use in which such a directory is not given up for room, seconds.
const LISTED_SECONDS: u64 = 10;

const LOOKUP: InodeBits = InodeBits::LOOKUP;
const UPDATE: InodeBits = InodeBits::UPDATE;
const PERM: InodeBits = InodeBits::PERM;
const XATTR: InodeBits = InodeBits::XATTR;
const GAP: InodeBits = InodeBits::GAP;

/// Bounds that an administrator sets for a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Inodes with locks, at most; 1 to [`LOCKS_MAX`].
    pub locks: usize,
    /// Locks that were not used for this long are given back, milliseconds; 0: age does not matter.
    pub age_ms: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { locks: LOCKS_MAX, age_ms: 0 }
    }
}

/// What is known of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// It leads to this inode.
    To(Fid),
    /// There is no such name.
    Absent,
    /// Ask.
    Nothing,
}

/// Bits of the grants of one reply that still hold.
pub type Held = HashMap<Fid, InodeBits>;

/// Of a [`Held`]: the bits of one inode.
pub fn bits_of(held: &Held, fid: Fid) -> InodeBits {
    held.get(&fid).copied().unwrap_or_default()
}

#[derive(Default)]
struct Slot {
    bits: InodeBits,
    /// Number of the time for which DATA is held.
    data_tenure: u64,
    /// Under UPDATE.
    attr: Option<Entry>,
    /// Of a directory, under PERM: mode, owner, ACL. The rest may be old.
    permissions: Option<Box<Entry>>,
    /// The kernel may trust `attr` (or an older state, which it knows to be old by itself).
    attr_trusted: bool,
    names: HashMap<Name, Led>,
    /// Of a directory, under UPDATE: it has only these names.
    complete: bool,
    /// Its listing, if it was asked for and nothing changed since.
    listing: Option<CompleteListing>,
    /// Its first pages, while a listing is under way and nothing has changed since.
    partial: Option<PartialListing>,
    /// Of a directory, under GAP: it has no names in these ranges.
    gaps: Option<Box<NameRanges>>,
    /// Names that lead here and are covered by LOOKUP of this inode.
    led_here: SmallVec<[(Fid, Name); 1]>,
    xattrs: Option<Box<Xattrs>>,
    /// Of a symbolic link; never changes.
    target: Option<Bytes>,
    /// Under LAYOUT.
    layout: Option<Arc<Layout>>,
    /// Reported changes since this mount used the directory.
    changes: u8,
    used: bool,
    /// Time of the last use, seconds of the mount's clock.
    used_at: u64,
    /// Chosen to be given up.
    leaving: bool,
    weight: usize,
}

impl Slot {
    fn use_at(&mut self, now: u64) {
        (self.used, self.used_at) = (true, now);
    }
}

struct Led {
    to: Option<Fid>,
    by_update: bool,
    by_lookup: bool,
    /// The kernel was told of it, and may trust it.
    trust: Option<Trust>,
}

/// A name that was in the table.
#[derive(Default)]
struct Dropped {
    to: Option<Fid>,
    trust: Option<Trust>,
}

#[derive(Default)]
struct Xattrs {
    values: HashMap<Bytes, Option<Bytes>>,
    list: Option<Bytes>,
}

/// See the module.
#[derive(Default)]
pub struct Table {
    slots: HashMap<Fid, Slot>,
    gates: HashMap<u16, Gate>,
    ring: VecDeque<Fid>,
    /// Seconds of the mount's clock, about.
    now: u64,
    bounds: Bounds,
    /// Inodes that lost their last name by a change of this mount and are in `slots`. Their MDT
    /// drops the locks without a callback.
    removed: BTreeSet<Fid>,
    /// Inodes in `slots` of which LOOKUP was called back: another client removed a name, perhaps
    /// the last one, and the MDT does not report which other locks ended with the inode.
    nameless: BTreeSet<Fid>,
    /// Inodes of which the answer to their removal granted OPEN, which a note at the gate took
    /// ([`Table::untaken_open`]).
    untaken_opens: BTreeSet<Fid>,
    weight: usize,
    /// Times for which DATA of an inode was held, so far.
    data_tenures: u64,
    pending: Invalidations,
    /// What the kernel must forget because a reply showed that it is old.
    outdated: Invalidations,
    recent: Recent,
    shared: shared::Shared,
    /// Directories over several MDTs.
    pub stripes: StripedDirectories,
    /// Names that own requests under way change, each as often as there are requests.
    changing: HashMap<Fid, Vec<Name>>,
}

impl Table {
    /// Inodes of which locks are held.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The gate of an MDT.
    pub fn gate(&mut self, mdt: u16) -> &mut Gate {
        self.gates.entry(mdt).or_default()
    }

    fn slot(&mut self, fid: Fid) -> &mut Slot {
        self.slots.entry(fid).or_insert_with(|| {
            self.ring.push_back(fid);
            self.weight += SLOT_BYTES;
            Slot { weight: SLOT_BYTES, used: true, used_at: self.now, ..Slot::default() }
        })
    }

    fn heavier(&mut self, fid: Fid, bytes: usize) {
        if let Some(slot) = self.slots.get_mut(&fid) {
            slot.weight += bytes;
            self.weight += bytes;
        }
    }

    /// The bits held of an inode.
    pub fn bits(&self, fid: Fid) -> InodeBits {
        self.slots.get(&fid).map_or(InodeBits::NONE, |slot| slot.bits)
    }

    /// True if anything of an MDT is known.
    pub(crate) fn holds_of(&self, mdt: u16) -> bool {
        self.slots.keys().any(|fid| fid.mdt() == mdt) || self.shares_of(mdt)
    }

    /// Inodes with something, and their memory, about, in bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.weight)
    }

    // Content that replies bring.

    /// A reply showed an inode; `bits`: its grants for it that hold.
    pub(crate) fn learn_entry(&mut self, entry: &Entry, bits: InodeBits) {
        let fid = entry.attr.fid;
        if entry.striped != 0 {
            self.stripes.note(fid, entry.striped);
        }
        let Some(slot) = self.slots.get_mut(&fid) else { return };
        // Asked for a moment ago: it must not go before a program has looked at it.
        slot.used |= bits != InodeBits::NONE;
        let known = slot.attr.as_ref().map_or(0, |known| known.attr.version);
        if bits.contains(UPDATE) && entry.attr.version >= known {
            // Within a version the access time only grows.
            let before =
                slot.attr.as_ref().filter(|known| known.attr.version == entry.attr.version);
            let atime =
                before.map_or(entry.attr.atime, |known| known.attr.atime.max(entry.attr.atime));
            slot.attr = Some(Entry { attr: Attr { atime, ..entry.attr }, ..entry.clone() });
        } else if entry.attr.version > known {
            slot.attr = None;
        }
        let known = slot.permissions.as_ref().map_or(0, |known| known.attr.version);
        if bits.contains(PERM) && entry.attr.version >= known {
            slot.permissions = Some(Box::new(entry.clone()));
        }
    }

    /// A reply showed where a name leads.
    pub(crate) fn learn_name(&mut self, dir: Fid, name: &Name, to: Option<Fid>, held: &Held) {
        let by_update = bits_of(held, dir).contains(UPDATE);
        let by_lookup = to.is_some_and(|fid| bits_of(held, fid).contains(LOOKUP));
        let complete = self.is_complete(dir);
        let known = self
            .slots
            .get(&dir)
            .and_then(|slot| slot.names.get(name))
            .map(|led| (led.to, led.trust));
        let same = known.is_some_and(|(leads, _)| leads == to);
        if !by_update && !by_lookup {
            if known.is_none() && to.is_some() {
                self.no_longer_complete(dir);
            }
            if known.is_some()
                && !same
                && let Dropped { to, trust: Some(trust) } = self.drop_name(dir, name)
            {
                self.outdated.name(dir, name.clone(), self.recent.is_settling(trust));
                if let Some(to) = to {
                    self.recent.note_shown(dir, name.clone(), to);
                }
            }
            return;
        }
        let trust = known.and_then(|(_, trust)| trust);
        // A name that leads where it led changes no listing.
        _ = if same { self.remove_name(dir, name) } else { self.drop_name(dir, name) };
        let bytes = NAME_BYTES + 2 * name.len();
        self.slot(dir).names.insert(name.clone(), Led { to, by_update, by_lookup, trust });
        self.heavier(dir, bytes);
        if let (true, Some(fid)) = (by_lookup, to) {
            self.slot(fid).led_here.push((dir, name.clone()));
        }
        self.still_complete(dir, complete);
    }

    /// Removes a name: the inode it leads to from now on is unknown.
    fn drop_name(&mut self, dir: Fid, name: &Name) -> Dropped {
        self.no_longer_complete(dir);
        self.remove_name(dir, name)
    }

    /// As [`Table::drop_name`], of a name that is about to be learnt again.
    fn remove_name(&mut self, dir: Fid, name: &Name) -> Dropped {
        let Some(slot) = self.slots.get_mut(&dir) else { return Dropped::default() };
        let Some(led) = slot.names.remove(name) else { return Dropped::default() };
        let bytes = NAME_BYTES + 2 * name.len();
        slot.weight = slot.weight.saturating_sub(bytes);
        self.weight = self.weight.saturating_sub(bytes);
        if let Some(child) =
            led.to.filter(|_| led.by_lookup).and_then(|fid| self.slots.get_mut(&fid))
        {
            child.led_here.retain(|(d, n)| *d != dir || n != name);
        }
        Dropped { to: led.to, trust: led.trust }
    }

    /// A reply brought a value of an extended attribute, or that there is none.
    pub(crate) fn learn_xattr(
        &mut self,
        fid: Fid,
        name: &Bytes,
        value: Option<&Bytes>,
        bits: InodeBits,
    ) {
        let Some(slot) = self.slots.get_mut(&fid).filter(|_| bits.contains(XATTR)) else { return };
        let bytes = NAME_BYTES + name.len() + value.map_or(0, Bytes::len);
        slot.xattrs.get_or_insert_default().values.insert(own(name), value.map(own));
        self.heavier(fid, bytes);
    }

    /// A reply brought the list of extended attributes.
    pub(crate) fn learn_xattr_list(&mut self, fid: Fid, list: &Bytes, bits: InodeBits) {
        let Some(slot) = self.slots.get_mut(&fid).filter(|_| bits.contains(XATTR)) else { return };
        slot.xattrs.get_or_insert_default().list = Some(own(list));
        self.heavier(fid, list.len());
    }

    /// A reply brought the target of a symbolic link.
    pub(crate) fn learn_target(&mut self, fid: Fid, target: &Bytes) {
        if let Some(slot) = self.slots.get_mut(&fid).filter(|slot| slot.target.is_none()) {
            slot.target = Some(own(target));
            self.heavier(fid, target.len());
        }
    }

    /// A reply brought a layout.
    pub fn learn_layout(&mut self, fid: Fid, layout: &Arc<Layout>, bits: InodeBits) {
        let Some(slot) = self.slots.get_mut(&fid) else { return };
        let newer = slot.layout.as_ref().is_none_or(|known| known.generation <= layout.generation);
        if bits.contains(InodeBits::LAYOUT) && newer {
            slot.layout = Some(layout.clone());
        } else if newer {
            slot.layout = None;
        }
    }

    /// Takes what the kernel must forget because of own changes.
    pub(crate) fn take_pending(&mut self) -> Invalidations {
        std::mem::take(&mut self.pending)
    }

    /// Takes what the kernel must forget because it is old; it may be told at any time.
    pub(crate) fn outdated(&mut self) -> Invalidations {
        std::mem::take(&mut self.outdated)
    }

    /// Bounds of the table.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// As [`Table::bounds`]. Surplus locks go at the next look.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// True if more locks are held than allowed.
    pub(crate) fn is_too_much(&self) -> bool {
        self.slots.len() > self.bounds.locks || self.weight > WEIGHT_MAX
    }

    /// Sets the present time, seconds.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self) {
        self.recent.advance();
    }
}

/// A copy of its own: a slice would keep the whole message.
fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
