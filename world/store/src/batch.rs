//! A group of changes: while open the overlay's newest layer, once frozen one atomic batch.
//!
//! Keys and values lie in one arena. A hash table answers point reads and collapses repeated
//! updates of a key (a value that fits is overwritten in place). Order is made only for a scan:
//! from then on an open group keeps a B-tree. A frozen group is sorted once, by the first user that
//! needs it, usually the commit thread. Bounds: `limits::GROUP_BYTES_SOFT` and `GROUP_BYTES_HARD`,
//! kept by the store.

use crate::engine::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;
use std::collections::{BTreeMap, btree_map};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::{LazyLock, OnceLock};
use types::session::Transno;

/// Seeded per process: names come from users, which must not be able to choose collisions.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Memory of an entry beside its key and value, bytes (entry, hash slot).
const ENTRY_OVERHEAD: usize = size_of::<Entry>() + 8;

/// Value length that marks a deleted key.
const DELETED: u32 = u32::MAX;

type Key = SmallVec<[u8; 40]>;

struct Entry {
    hash: u64,
    key_at: u32,
    value_at: u32,
    value_len: u32,
    value_room: u32,
    key_len: u16,
}

/// Hash of a key, the same for all batches of this process.
pub fn hash(key: &[u8]) -> u64 {
    HASHER.hash_one(key)
}

/// A batch's answer about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found<'a> {
    /// The batch does not have the key: ask the layer below.
    Unknown,
    /// The key is deleted.
    Deleted,
    /// Value of the key.
    Value(&'a [u8]),
}

/// Puts and deletes by key, one per key.
#[derive(Default)]
pub struct Batch {
    transno: Transno,
    arena: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    /// Order of an open batch, kept since its first scan.
    ordered: OnceLock<BTreeMap<Key, u32>>,
    /// Order of a frozen batch.
    sorted: OnceLock<Box<[u32]>>,
    frozen: bool,
}

impl Batch {
    /// An empty open batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty open batch that keeps order from the start, for a store that is being scanned.
    pub fn new_ordered() -> Batch {
        Batch { ordered: OnceLock::from(BTreeMap::new()), ..Batch::default() }
    }

    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory it takes, bytes.
    pub fn bytes(&self) -> usize {
        self.arena.len() + self.entries.len() * ENTRY_OVERHEAD
    }

    /// Newest transno in it.
    pub fn transno(&self) -> Transno {
        self.transno
    }

    /// Says that everything up to `transno` is in it.
    pub fn set_transno(&mut self, transno: Transno) {
        debug_assert!(transno >= self.transno, "transnos only grow");
        self.transno = transno;
    }

    /// True if it was scanned before, or was made for scans.
    pub fn is_ordered(&self) -> bool {
        self.ordered.get().is_some()
    }

    /// Ends changes. From now on scans use a sorted list.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        assert!(
            value.len() <= VALUE_BYTES_MAX,
            "a value of {} bytes is too long for a record",
            value.len()
        );
        let (index, len) = (self.entry(key) as usize, value.len() as u32);
        if value.len() > self.entries[index].value_room as usize {
            self.entries[index].value_at = arena_offset(self.arena.len());
            self.entries[index].value_room = len;
            self.arena.extend_from_slice(value);
        } else {
            let at = self.entries[index].value_at as usize;
            self.arena[at..at + value.len()].copy_from_slice(value);
        }
        self.entries[index].value_len = len;
    }

    /// Deletes a key, whether or not a layer below has it.
    pub fn delete(&mut self, key: &[u8]) {
        let index = self.entry(key) as usize;
        self.entries[index].value_len = DELETED;
    }

    /// The batch's answer about `key`.
    pub fn get(&self, key: &[u8]) -> Found<'_> {
        self.get_hashed(hash(key), key)
    }

    /// [`Batch::get`] with the key's [`hash`] already at hand.
    pub fn get_hashed(&self, hash: u64, key: &[u8]) -> Found<'_> {
        match self.table.find(hash, |i| self.key(*i) == key) {
            None => Found::Unknown,
            Some(i) => self.value(*i).map_or(Found::Deleted, Found::Value),
        }
    }

    /// All changes in the order in which their keys first came; `None` = deleted.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        (0..self.entries.len() as u32).map(|i| (self.key(i), self.value(i)))
    }

    /// Changes from `start` (inclusive) to `end` (exclusive) in key order; `None` = deleted.
    pub fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Range<'a> {
        if start >= end || self.entries.is_empty() {
            return Range { batch: self, order: Order::Sorted([].iter()) };
        }
        let order = if !self.frozen || self.is_ordered() {
            let tree = self.ordered.get_or_init(|| {
                (0..self.entries.len() as u32).map(|i| (Key::from_slice(self.key(i)), i)).collect()
            });
            Order::Tree(tree.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end))))
        } else {
            let all = self.sorted();
            let from = all.partition_point(|i| self.key(*i) < start);
            let len = all[from..].partition_point(|i| self.key(*i) < end);
            Order::Sorted(all[from..from + len].iter())
        };
        Range { batch: self, order }
    }

    /// All changes of a frozen batch in key order.
    pub fn iter_sorted(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.sorted().iter().map(|i| (self.key(*i), self.value(*i)))
    }

    fn sorted(&self) -> &[u32] {
        debug_assert!(self.frozen);
        self.sorted.get_or_init(|| match self.ordered.get() {
            Some(tree) => tree.values().copied().collect(),
            None => {
                let mut all: Box<[u32]> = (0..self.entries.len() as u32).collect();
                all.sort_unstable_by(|a, b| self.key(*a).cmp(self.key(*b)));
                all
            }
        })
    }

    fn key(&self, index: u32) -> &[u8] {
        let e = &self.entries[index as usize];
        &self.arena[e.key_at as usize..e.key_at as usize + usize::from(e.key_len)]
    }

    fn value(&self, index: u32) -> Option<&[u8]> {
        let e = &self.entries[index as usize];
        let at = e.value_at as usize;
        (e.value_len != DELETED).then(|| &self.arena[at..at + e.value_len as usize])
    }

    /// Index of a key's entry, made if it is new (then deleted and without room for a value).
    fn entry(&mut self, key: &[u8]) -> u32 {
        debug_assert!(!self.frozen, "a frozen batch never changes");
        let hash = hash(key);
        if let Some(i) = self.table.find(hash, |i| self.key(*i) == key) {
            return *i;
        }
        assert!(
            !key.is_empty() && key.len() <= KEY_BYTES_MAX,
            "a key has 1 to 511 bytes, not {}",
            key.len()
        );
        let (index, key_at) = (self.entries.len() as u32, arena_offset(self.arena.len()));
        self.arena.extend_from_slice(key);
        let key_len = key.len() as u16;
        self.entries.push(Entry {
            hash,
            key_at,
            value_at: 0,
            value_len: DELETED,
            value_room: 0,
            key_len,
        });
        let entries = &self.entries;
        self.table.insert_unique(hash, index, |i| entries[*i as usize].hash);
        if let Some(tree) = self.ordered.get_mut() {
            tree.insert(Key::from_slice(key), index);
        }
        index
    }
}

fn arena_offset(at: usize) -> u32 {
    u32::try_from(at).expect("a group stays far below 4 GiB: admit() waits beyond GROUP_BYTES_HARD")
}

enum Order<'a> {
    Tree(btree_map::Range<'a, Key, u32>),
    Sorted(std::slice::Iter<'a, u32>),
}

/// Changes of one batch in key order.
pub struct Range<'a> {
    batch: &'a Batch,
    order: Order<'a>,
}

impl<'a> Iterator for Range<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let index = match &mut self.order {
            Order::Tree(range) => *range.next()?.1,
            Order::Sorted(slice) => *slice.next()?,
        };
        Some((self.batch.key(index), self.batch.value(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_updates_collapse_in_place() {
        let mut batch = Batch::new();
        batch.put(b"parent", &[1; 200]);
        let bytes = batch.bytes();
        for n in 0..1000u32 {
            batch.put(b"parent", &[n as u8; 200]);
        }
        assert_eq!((batch.len(), batch.bytes()), (1, bytes));
        assert_eq!(batch.get(b"parent"), Found::Value(&[231; 200]));
        batch.put(b"parent", &[7; 300]);
        assert_eq!(batch.get(b"parent"), Found::Value(&[7; 300]));
        batch.put(b"parent", b"");
        assert_eq!(batch.get(b"parent"), Found::Value(b""));
        batch.delete(b"parent");
        assert_eq!(batch.get(b"parent"), Found::Deleted);
        assert_eq!(batch.get(b"child"), Found::Unknown);
    }

    #[test]
    fn order_is_the_same_open_and_frozen() {
        for early in [false, true] {
            let mut batch = Batch::new();
            for n in [5u8, 3, 9, 1, 7] {
                batch.put(&[n], &[n, n]);
                if early {
                    assert!(batch.range(&[0], &[255]).map(|(k, _)| k[0]).is_sorted());
                }
            }
            batch.delete(&[3]);
            let list = |b: &Batch| {
                b.range(&[2], &[9]).map(|(k, v)| (k[0], v.map(<[u8]>::len))).collect::<Vec<_>>()
            };
            let expect = vec![(3, None), (5, Some(2)), (7, Some(2))];
            if early {
                assert_eq!(list(&batch), expect);
            }
            batch.freeze();
            assert_eq!(list(&batch), expect);
            assert_eq!(batch.iter_sorted().map(|(k, _)| k[0]).collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
            assert_eq!(batch.range(&[9], &[2]).count(), 0);
        }
    }
}
