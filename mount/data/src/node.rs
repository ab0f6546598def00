//! Nodes: the numbers by which the kernel names inodes.
//!
//! Every answer that shows the kernel a node counts one lookup; FORGET gives lookups back, and the
//! last one frees the number. So the table is exactly as large as what the kernel remembers.
//! Numbers are never used again.
//!
//! A directory that goes to other MDTs gets another inode, and keeps its number: what the kernel
//! has below it stays where it is. The inodes that it has left lead to its number, the newest
//! [`LEFT_MAX`].
//!
//! A *mirror* is a second number of an inode. The kernel gives a directory one place only, and
//! refuses (ELOOP) a name that leads to a directory above it. `.lustre/fid/[FID]` of the root is
//! such a name, so there the root has another number.

use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use types::attr::Attr;
use types::fid::Fid;

/// Inodes that a directory has left while the kernel knew it, and that still lead to its number.
const LEFT_MAX: usize = 16;

/// Number of an inode in this mount; never reused. 1 is the root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory.
    pub const ROOT: NodeId = NodeId(1);
}

/// Both directions of the table, and the lookup counts. The root is always there.
pub struct NodeTable {
    inner: Mutex<Inner>,
    /// There was a mirror: until then none is looked for.
    mirrored: AtomicBool,
    /// The directory that is mounted, if that is not the root of the file system.
    mounted: OnceLock<Fid>,
}

struct Inner {
    by_id: HashMap<NodeId, Slot>,
    by_fid: HashMap<Fid, NodeId>,
    mirrors: HashMap<Fid, NodeId>,
    next: u64,
}

impl Inner {
    fn remember(&mut self, fid: Fid, mirror: bool) -> NodeId {
        let Inner { by_id, by_fid, mirrors, next } = self;
        let id = *if mirror { mirrors } else { by_fid }.entry(fid).or_insert_with(|| {
            let id = NodeId(*next);
            *next += 1;
            id
        });
        by_id.entry(id).or_insert(Slot::of(fid)).lookups += 1;
        id
    }
}

struct Slot {
    fid: Fid,
    /// Inodes that the directory has left, the oldest first.
    left: Vec<Fid>,
    lookups: u64,
    /// Attributes that the kernel was last shown, of inodes that programs can use without opening
    /// them here.
    shown: Option<Box<Shown>>,
}

impl Slot {
    fn of(fid: Fid) -> Slot {
        Slot { fid, left: Vec::new(), lookups: 0, shown: None }
    }
}

/// Attributes that the kernel was shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The attributes.
    pub attr: Attr,
    /// Whether the inode has extended attributes; `None`: unknown.
    pub has_xattr: Option<bool>,
}

impl NodeTable {
    /// Only the root.
    pub fn new() -> NodeTable {
        let mut by_id = HashMap::default();
        let mut by_fid = HashMap::default();
        by_id.insert(NodeId::ROOT, Slot { lookups: 1, ..Slot::of(Fid::ROOT) });
        by_fid.insert(Fid::ROOT, NodeId::ROOT);
        let mirrors = HashMap::default();
        let inner = Mutex::new(Inner { by_id, by_fid, mirrors, next: NodeId::ROOT.0 + 1 });
        NodeTable { inner, mirrored: AtomicBool::new(false), mounted: OnceLock::new() }
    }

    /// This directory is the root of the mount. Before the kernel knows any node, once.
    pub fn set_root(&self, fid: Fid) {
        if fid == Fid::ROOT || self.mounted.set(fid).is_err() {
            return;
        }
        let inner = &mut *self.inner.lock();
        if let Some(slot) = inner.by_id.get_mut(&NodeId::ROOT) {
            slot.fid = fid;
        }
        inner.by_fid.remove(&Fid::ROOT);
        inner.by_fid.insert(fid, NodeId::ROOT);
    }

    /// The directory that is the root of the mount.
    pub fn root(&self) -> Fid {
        match self.is_whole() {
            true => Fid::ROOT,
            // It may have got another inode.
            false => self.fid(NodeId::ROOT).unwrap_or(Fid::ROOT),
        }
    }

    /// True if the whole file system is mounted.
    pub fn is_whole(&self) -> bool {
        self.mounted.get().is_none()
    }

    /// The number of an inode, counting one lookup.
    pub fn remember(&self, fid: Fid) -> NodeId {
        self.inner.lock().remember(fid, false)
    }

    /// A directory has another inode by now. If the kernel knows it by one that it has left, and
    /// not by the new one, it keeps the number; true then.
    pub fn moved(&self, left: &[Fid], to: Fid) -> bool {
        let inner = &mut *self.inner.lock();
        if inner.by_fid.contains_key(&to) {
            return false;
        }
        let Some(id) = left.iter().rev().find_map(|fid| inner.by_fid.get(fid)).copied() else {
            return false;
        };
        let Some(slot) = inner.by_id.get_mut(&id) else { return false };
        slot.left.push(std::mem::replace(&mut slot.fid, to));
        if slot.left.len() > LEFT_MAX {
            inner.by_fid.remove(&slot.left.remove(0));
        }
        slot.shown = None;
        inner.by_fid.insert(to, id);
        true
    }

    /// The number of its mirror, counting one lookup.
    pub fn remember_mirror(&self, fid: Fid) -> NodeId {
        self.mirrored.store(true, Ordering::Release);
        self.inner.lock().remember(fid, true)
    }

    /// True if this is the number of a mirror.
    pub fn is_mirror(&self, id: NodeId) -> bool {
        if !self.mirrored.load(Ordering::Acquire) {
            return false;
        }
        let inner = self.inner.lock();
        inner.by_id.get(&id).is_some_and(|slot| inner.mirrors.get(&slot.fid) == Some(&id))
    }

    /// The kernel is about to be shown this inode, and knows it.
    pub fn show(&self, shown: Shown) {
        let inner = &mut *self.inner.lock();
        let slot = inner.by_fid.get(&shown.attr.fid).and_then(|id| inner.by_id.get_mut(id));
        if let Some(slot) = slot {
            let has_xattr =
                shown.has_xattr.or(slot.shown.as_ref().and_then(|before| before.has_xattr));
            let shown = Shown { has_xattr, ..shown };
            match &mut slot.shown {
                Some(before) => **before = shown,
                none => *none = Some(Box::new(shown)),
            }
        }
    }

    /// Attributes that the kernel, which knows the inode, was last shown.
    pub fn shown(&self, fid: Fid) -> Option<Shown> {
        let inner = self.inner.lock();
        let slot = inner.by_fid.get(&fid).and_then(|id| inner.by_id.get(id))?;
        slot.shown.as_deref().cloned()
    }

    /// The inode behind a number.
    pub fn fid(&self, id: NodeId) -> Option<Fid> {
        self.inner.lock().by_id.get(&id).map(|slot| slot.fid)
    }

    /// The number of an inode, if the kernel has it.
    pub fn node(&self, fid: Fid) -> Option<NodeId> {
        self.inner.lock().by_fid.get(&fid).copied()
    }

    /// Gives back `count` lookups. Unknown numbers and the root are left alone. Returns the inode
    /// if these were the last, and those that it had before; `None` for a mirror, whose inode has
    /// its own number.
    pub fn forget(&self, id: NodeId, count: u64) -> Option<(Fid, Vec<Fid>)> {
        if id == NodeId::ROOT {
            return None;
        }
        let inner = &mut *self.inner.lock();
        let slot = inner.by_id.get_mut(&id)?;
        slot.lookups = slot.lookups.saturating_sub(count);
        if slot.lookups > 0 {
            return None;
        }
        let (fid, left) = (slot.fid, std::mem::take(&mut slot.left));
        inner.by_id.remove(&id);
        if inner.mirrors.get(&fid) == Some(&id) {
            inner.mirrors.remove(&fid);
            return None;
        }
        inner.by_fid.remove(&fid);
        left.iter().for_each(|fid| _ = inner.by_fid.remove(fid));
        Some((fid, left))
    }

    /// Inodes that the kernel remembers, the root included.
    pub fn count(&self) -> usize {
        self.inner.lock().by_id.len()
    }
}

impl Default for NodeTable {
    fn default() -> NodeTable {
        NodeTable::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fid(oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
    }

    #[test]
    fn a_number_lives_until_its_last_lookup_is_given_back() {
        let table = NodeTable::new();
        let node = table.remember(fid(1));
        assert_eq!(table.remember(fid(1)), node);
        assert_ne!(table.remember(fid(2)), node);
        assert_eq!(table.forget(node, 1), None);
        assert_eq!((table.fid(node), table.node(fid(1))), (Some(fid(1)), Some(node)));
        assert_eq!(table.forget(node, 1), Some((fid(1), Vec::new())));
        assert_eq!(table.node(fid(1)), None);
        assert_eq!(table.fid(node), None);
        assert_ne!(table.remember(fid(1)), node, "numbers are never used again");
        assert_eq!(table.count(), 3);
    }

    #[test]
    fn a_mirror_is_another_number_of_the_same_inode() {
        let table = NodeTable::new();
        let mirror = table.remember_mirror(Fid::ROOT);
        assert_ne!(mirror, NodeId::ROOT);
        assert_eq!(table.remember_mirror(Fid::ROOT), mirror);
        assert_eq!(
            (table.fid(mirror), table.node(Fid::ROOT)),
            (Some(Fid::ROOT), Some(NodeId::ROOT))
        );
        assert!(table.is_mirror(mirror) && !table.is_mirror(NodeId::ROOT));
        assert_eq!(table.forget(mirror, 2), None, "the root itself is still known");
        assert_eq!((table.fid(mirror), table.fid(NodeId::ROOT)), (None, Some(Fid::ROOT)));
        assert_eq!(table.count(), 1);
    }

    #[test]
    fn a_directory_with_another_inode_keeps_its_number() {
        let table = NodeTable::new();
        let (node, other) = (table.remember(fid(1)), table.remember(fid(9)));
        assert!(!table.moved(&[fid(7)], fid(2)), "the kernel does not know it");
        assert!(!table.moved(&[fid(1)], fid(9)), "the kernel knows the new one");
        assert!(table.moved(&[fid(7), fid(1)], fid(2)));
        assert_eq!((table.fid(node), table.remember(fid(2))), (Some(fid(2)), node));
        assert_eq!([1, 2, 9].map(|n| table.node(fid(n))), [Some(node), Some(node), Some(other)]);
        assert!(table.moved(&[fid(2)], fid(3)));
        assert_eq!(table.forget(node, 2), Some((fid(3), vec![fid(1), fid(2)])));
        assert!((1..=3).all(|n| table.node(fid(n)).is_none()));
    }

    #[test]
    fn only_the_newest_inodes_that_a_directory_left_are_remembered() {
        let table = NodeTable::new();
        table.set_root(fid(1));
        let last = LEFT_MAX as u32 + 3;
        assert!((2..=last).all(|n| table.moved(&[fid(n - 1)], fid(n))));
        assert_eq!((table.root(), table.fid(NodeId::ROOT)), (fid(last), Some(fid(last))));
        let known = (1..=last).filter(|n| table.node(fid(*n)).is_some());
        assert_eq!(known.collect::<Vec<_>>(), (3..=last).collect::<Vec<_>>());
    }

    #[test]
    fn a_directory_is_the_root_of_its_mount() {
        let table = NodeTable::new();
        assert!(table.is_whole() && table.root() == Fid::ROOT);
        table.set_root(fid(1));
        assert_eq!((table.is_whole(), table.root()), (false, fid(1)));
        assert_eq!(
            (table.fid(NodeId::ROOT), table.node(fid(1))),
            (Some(fid(1)), Some(NodeId::ROOT))
        );
        assert_eq!(table.node(Fid::ROOT), None);
        table.set_root(fid(2));
        assert_eq!(table.root(), fid(1), "once");
        assert_eq!(table.count(), 1);
    }

    #[test]
    fn too_many_forgets_do_no_harm() {
        let table = NodeTable::new();
        let node = table.remember(fid(1));
        table.forget(node, 7);
        table.forget(node, 7);
        table.forget(NodeId::ROOT, u64::MAX);
        assert_eq!(table.fid(NodeId::ROOT), Some(Fid::ROOT));
        assert_eq!(table.remember(Fid::ROOT), NodeId::ROOT);
        assert_eq!(table.count(), 1);
    }
}
