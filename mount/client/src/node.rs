//! Nodes: the numbers by which the kernel names inodes.
//!
//! Every answer that tells the kernel a node counts one lookup; FORGET gives lookups back, and the last one frees the
//! number. So the table is exactly as large as what the kernel remembers. Numbers are never used again.

use foldhash::HashMap;
use parking_lot::Mutex;
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
}

struct Inner {
    by_id: HashMap<NodeId, Slot>,
    by_fid: HashMap<Fid, NodeId>,
    next: u64,
}

struct Slot {
    fid: Fid,
    lookups: u64,
}

impl NodeTable {
    /// Only the root.
    pub fn new() -> NodeTable {
        let mut by_id = HashMap::default();
        let mut by_fid = HashMap::default();
        by_id.insert(NodeId::ROOT, Slot { fid: Fid::ROOT, lookups: 1 });
        by_fid.insert(Fid::ROOT, NodeId::ROOT);
        NodeTable { inner: Mutex::new(Inner { by_id, by_fid, next: NodeId::ROOT.0 + 1 }) }
    }

    /// The number of an inode, counting one lookup.
    pub fn remember(&self, fid: Fid) -> NodeId {
        let inner = &mut *self.inner.lock();
        let id = *inner.by_fid.entry(fid).or_insert_with(|| {
            let id = NodeId(inner.next);
            inner.next += 1;
            id
        });
        inner.by_id.entry(id).or_insert(Slot { fid, lookups: 0 }).lookups += 1;
        id
    }

    /// The inode behind a number.
    pub fn fid(&self, id: NodeId) -> Option<Fid> {
        self.inner.lock().by_id.get(&id).map(|slot| slot.fid)
    }

    /// The number of an inode, if the kernel has it.
    pub fn node(&self, fid: Fid) -> Option<NodeId> {
        self.inner.lock().by_fid.get(&fid).copied()
    }

    /// Gives back `count` lookups. Unknown numbers and the root are left alone. The inode, if these were the last.
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
