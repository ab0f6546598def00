//! Files and folders that changed since they were last synced.
//!
//! A mark carries the number of its last change. A syncer notes the number first and takes the mark
//! away only if it is still the same. So a change that comes during the sync keeps its mark, and a
//! second syncer never relies on what the first has not finished.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;

struct Marks<K> {
    changed: HashMap<K, u64>,
    changes: u64,
    /// There was no room for a mark at this change: everything counts as changed.
    overflow: Option<u64>,
}

/// Changed things, at most `max` of them by name.
pub struct Unsynced<K> {
    marks: Mutex<Marks<K>>,
    max: usize,
}

/// A state of the marks, to be confirmed after the sync.
pub struct Noted<K> {
    /// The marked things, with the number of their last change; nothing if there were too many.
    pub marked: Vec<(K, u64)>,
    /// There were too many: only syncing everything helps.
    pub overflow: bool,
    changes: u64,
}

impl<K: Hash + Ord + Clone> Unsynced<K> {
    /// Room for `max` marks.
    pub fn new(max: usize) -> Unsynced<K> {
        Unsynced {
            marks: Mutex::new(Marks { changed: HashMap::new(), changes: 0, overflow: None }),
            max,
        }
    }

    /// Marks it as changed.
    pub fn mark(&self, what: &K) {
        let marks = &mut *self.marks.lock();
        marks.changes += 1;
        if let Some(number) = marks.changed.get_mut(what) {
            *number = marks.changes;
        } else if marks.changed.len() < self.max {
            marks.changed.insert(what.clone(), marks.changes);
        } else {
            marks.overflow = Some(marks.changes);
        }
    }

    /// Number of the last change of one thing; `None`: it is synced. Without a mark of its own, an
    /// overflow counts.
    pub fn number(&self, what: &K) -> Option<u64> {
        let marks = self.marks.lock();
        marks.changed.get(what).copied().or(marks.overflow)
    }

    /// It was synced after its last change had this number.
    pub fn synced(&self, what: &K, number: u64) {
        let marks = &mut *self.marks.lock();
        if marks.changed.get(what) == Some(&number) {
            marks.changed.remove(what);
        }
    }

    /// Everything that is marked now.
    pub fn note(&self) -> Noted<K> {
        let marks = self.marks.lock();
        let overflow = marks.overflow.is_some();
        let mut marked = Vec::new();
        if !overflow {
            marked.extend(marks.changed.iter().map(|(k, n)| (k.clone(), *n)));
            // The order of syncing does not depend on the order of a hash map: a simulated run can
            // be repeated.
            marked.sort_unstable();
        }
        Noted { marked, overflow, changes: marks.changes }
    }

    /// Everything that had changed at `noted` was synced.
    pub fn all_synced(&self, noted: &Noted<K>) {
        let marks = &mut *self.marks.lock();
        marks.changed.retain(|_, number| *number > noted.changes);
        marks.overflow = marks.overflow.filter(|number| *number > noted.changes);
    }

    /// The thing is gone.
    pub fn forget(&self, what: &K) {
        self.marks.lock().changed.remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_during_a_sync_keeps_its_mark() {
        let unsynced = Unsynced::new(8);
        unsynced.mark(&1);
        let number = unsynced.number(&1).unwrap();
        unsynced.mark(&1);
        unsynced.synced(&1, number);
        assert!(unsynced.number(&1).is_some());
        let noted = unsynced.note();
        unsynced.mark(&2);
        unsynced.all_synced(&noted);
        assert_eq!((unsynced.number(&1), unsynced.number(&2).is_some()), (None, true));
    }

    #[test]
    fn too_many_marks_mean_everything() {
        let unsynced = Unsynced::new(2);
        (0..3).for_each(|n| unsynced.mark(&n));
        let noted = unsynced.note();
        assert!(noted.overflow && noted.marked.is_empty());
        assert!(unsynced.number(&2).is_some(), "without a mark of its own");
        unsynced.all_synced(&noted);
        assert!(!unsynced.note().overflow);
        assert_eq!(unsynced.number(&2), None);
    }
}
