//! A bounded map that forgets what was not used for the longest.
//!
//! There are two generations of half of the bound. What comes, or is used, is in the younger one;
//! when that is full, the older one goes and the younger one becomes it. So what was used among the
//! last half of the bound is there.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub struct Generations<K, V> {
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
    /// Of a generation.
    max: usize,
}

impl<K: Ord + Copy, V> Generations<K, V> {
    /// Empty; of at most `max` entries, 2 at least.
    pub fn new(max: usize) -> Generations<K, V> {
        Generations { young: BTreeMap::new(), old: BTreeMap::new(), max: (max / 2).max(1) }
    }

    /// The value of a key, which is used.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            self.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    /// The value of a key, which is used; a new one if there was none.
    pub fn entry(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if let Some(value) = self.old.remove(&key) {
            self.insert(key, value);
        } else if !self.young.contains_key(&key) {
            self.insert(key, new());
        }
        self.young.get_mut(&key).expect("it was put there")
    }

    fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// All of them, in no order. This does not use them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.young.iter_mut().chain(&mut self.old).map(|(key, value)| (*key, value))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_the_longest_goes() {
        let mut map = Generations::new(6);
        (1..=3).for_each(|key| *map.entry(key, || 0) += key);
        map.entry(4, || 4);
        assert_eq!(map.len(), 4);
        // The first is used again, and so stays beside the newer ones.
        assert_eq!(map.get_mut(1), Some(&mut 1));
        (5..=6).for_each(|key| *map.entry(key, || key) += 0);
        let mut left: Vec<i32> = map.iter_mut().map(|(key, _)| key).collect();
        left.sort_unstable();
        assert_eq!(left, [1, 4, 5, 6]);
        assert!(map.get_mut(2).is_none());
        (10..1000).for_each(|key| *map.entry(key, || key) += 0);
        assert!(map.len() <= 6 && !map.is_empty());
        assert!(map.get_mut(999).is_some() && map.get_mut(10).is_none());
        assert_eq!(map.entry(999, || 7), &999, "it is not made anew");
    }
}
