//! Nodes: the numbers by which the kernel names inodes.
//!
//! Every answer that shows the kernel a node counts one lookup; FORGET gives lookups back, and the
//! last one frees the number. So the table is exactly as large as what the kernel remembers.
//! Numbers are never used again.
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
        by_id.entry(id).or_insert(Slot { fid, lookups: 0, shown: None }).lookups += 1;
        id
    }
}

struct Slot {
    fid: Fid,
    lookups: u64,
    /// Attributes that the kernel was last shown, of inodes that programs can use without opening
    /// them here.
    shown: Option<Box<Shown>>,
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
        by_id.insert(NodeId::ROOT, Slot { fid: Fid::ROOT, lookups: 1, shown: None });
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
        self.mounted.get().copied().unwrap_or(Fid::ROOT)
    }

    /// True if the whole file system is mounted.
    pub fn is_whole(&self) -> bool {
        self.mounted.get().is_none()
    }

    /// The number of an inode, counting one lookup.
    pub fn remember(&self, fid: Fid) -> NodeId {
        self.inner.lock().remember(fid, false)
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
    /// if these were the last; `None` for a mirror, whose inode has its own number.
    pub fn forget(&self, id: NodeId, count: u64) -> Option<Fid> {
        if id == NodeId::ROOT {
            return None;
        }
        let inner = &mut *self.inner.lock();
        let slot = inner.by_id.get_mut(&id)?;
        slot.lookups = slot.lookups.saturating_sub(count);
        if slot.lookups > 0 {
            return None;
        }
        let fid = slot.fid;
        inner.by_id.remove(&id);
        if inner.mirrors.get(&fid) == Some(&id) {
            inner.mirrors.remove(&fid);
            return None;
        }
        inner.by_fid.remove(&fid);
        Some(fid)
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
        assert_eq!(table.forget(node, 1), Some(fid(1)));
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
