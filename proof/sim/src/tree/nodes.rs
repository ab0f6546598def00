//! The inodes of a state of the name space.
//!
//! A search makes many states that differ in a node or two, compares each with all others, and
//! forgets most of them. So states share what they have in common, and a state knows the hash of
//! its content: a copy and a comparison take the same time for a large name space as for an empty
//! one. Two states with the same hash count as equal: it has 128 bits, so among a million states
//! two different ones are taken for one with a chance of 1 to 10^27.

use super::Node;
use crate::history::Ino;
use foldhash::fast::FixedState;
use rpds::RedBlackTreeMapSync;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Inodes by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    by_ino: RedBlackTreeMapSync<Ino, Arc<Node>>,
    /// Sum of the hashes of all pairs, so that it does not depend on the order of changes.
    hash: u128,
}

fn hash_of(ino: Ino, node: &Node) -> u128 {
    let [high, low] = [1, 2].map(|seed| FixedState::with_seed(seed).hash_one((ino, node)));
    u128::from(high) << 64 | u128::from(low)
}

impl Nodes {
    pub(super) fn new() -> Nodes {
        Nodes { by_ino: RedBlackTreeMapSync::new_sync(), hash: 0 }
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Arc<Node>> {
        self.by_ino.get(&ino)
    }

    /// In the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ino, &Arc<Node>)> {
        self.by_ino.iter().map(|(ino, node)| (*ino, node))
    }

    /// Adds a node, or puts it in the place of the one with this number.
    pub(super) fn insert(&mut self, ino: Ino, node: Arc<Node>) {
        if let Some(old) = self.by_ino.get(&ino) {
            self.hash = self.hash.wrapping_sub(hash_of(ino, old));
        }
        self.hash = self.hash.wrapping_add(hash_of(ino, &node));
        self.by_ino.insert_mut(ino, node);
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Arc<Node>> {
        let node = self.by_ino.get(&ino)?.clone();
        self.hash = self.hash.wrapping_sub(hash_of(ino, &node));
        self.by_ino.remove_mut(&ino);
        Some(node)
    }

    /// Changes a node, if it is there.
    pub(super) fn change<T>(&mut self, ino: Ino, by: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let mut node = self.by_ino.get(&ino)?.clone();
        let changed = by(Arc::make_mut(&mut node));
        self.insert(ino, node);
        Some(changed)
    }
}

impl PartialEq for Nodes {
    fn eq(&self, other: &Nodes) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Nodes {}

impl Hash for Nodes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.hash);
    }
}

impl std::ops::Index<Ino> for Nodes {
    type Output = Node;

    /// # Panics
    /// There is no such inode.
    fn index(&self, ino: Ino) -> &Node {
        &self.by_ino[&ino]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Kind;
    use std::collections::BTreeMap;

    fn node(links: u32) -> Arc<Node> {
        Arc::new(Node { kind: Kind::File, mdt: 0, links, parent: 1, names: BTreeMap::new() })
    }

    fn hash(nodes: &Nodes) -> u64 {
        FixedState::default().hash_one(nodes)
    }

    #[test]
    fn equal_content_is_equal_whatever_led_to_it() {
        let (mut one, mut other) = (Nodes::new(), Nodes::new());
        one.insert(2, node(1));
        one.insert(3, node(1));
        other.insert(3, node(7));
        other.insert(4, node(1));
        assert_ne!(one, other);
        let before = one.clone();
        other.change(3, |node| node.links = 1);
        other.insert(2, node(1));
        assert!(other.remove(4).is_some() && other.remove(4).is_none());
        assert_eq!((&one, hash(&one)), (&other, hash(&other)));
        one.change(2, |node| node.links = 2);
        assert_ne!(one, other);
        assert_ne!(hash(&one), hash(&other));
        assert_eq!((&before, hash(&before)), (&other, hash(&other)), "a copy stays what it was");
    }
}
