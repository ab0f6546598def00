//! Open object files, the least recently used closed first.
//!
//! All targets of a process share one [`OpenFiles`], because the limit on open files is the
//! process's, not a target's. Each target has a [`Share`] of it, which keeps the objects of targets
//! apart. A file that an operation still uses stays open until that is done; it only leaves the
//! table.

use env::disk::File;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use types::limits;
use types::object::ObjectId;

/// An object of one of the targets.
type Key = (u32, ObjectId);

#[derive(Default)]
struct Table {
    files: HashMap<Key, (Arc<dyn File>, u64), foldhash::fast::RandomState>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    shares: u32,
}

impl Table {
    fn remove(&mut self, key: &Key) -> Option<Arc<dyn File>> {
        let (file, used) = self.files.remove(key)?;
        self.by_use.remove(&used);
        Some(file)
    }

    fn pop_oldest(&mut self) -> Option<Arc<dyn File>> {
        let (_, key) = self.by_use.pop_first()?;
        self.files.remove(&key).map(|(file, _)| file)
    }
}

/// Open files of all targets of a process.
pub struct OpenFiles {
    table: Mutex<Table>,
    max: usize,
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("open", &self.len()).field("max", &self.max).finish()
    }
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles::new(limits::OBJECT_FILES_OPEN_MAX)
    }
}

impl OpenFiles {
    /// Room for `max` files, at least 1.
    pub fn new(max: usize) -> OpenFiles {
        OpenFiles { table: Mutex::default(), max: max.max(1) }
    }

    /// Open files.
    pub fn len(&self) -> usize {
        self.table.lock().files.len()
    }

    /// True if no file is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The process has no descriptors left: closes the older half. `false`: there was nothing to
    /// close.
    pub fn shed(&self) -> bool {
        let closed: Vec<_> = {
            let table = &mut *self.table.lock();
            let half = table.files.len().div_ceil(2);
            std::iter::from_fn(|| table.pop_oldest()).take(half).collect()
        };
        !closed.is_empty()
    }
}

/// The files of one target. Those that it leaves open are closed when it is dropped.
#[derive(Debug)]
pub struct Share {
    files: Arc<OpenFiles>,
    number: u32,
}

impl Share {
    /// A new share.
    pub fn new(files: Arc<OpenFiles>) -> Share {
        let number = {
            let table = &mut *files.table.lock();
            table.shares += 1;
            table.shares
        };
        Share { files, number }
    }

    /// The file, if it is open.
    pub fn get(&self, id: ObjectId) -> Option<Arc<dyn File>> {
        let table = &mut *self.files.table.lock();
        let key = (self.number, id);
        let (file, used) = table.files.get_mut(&key)?;
        if *used != table.uses {
            table.by_use.remove(used);
            table.uses += 1;
            *used = table.uses;
            table.by_use.insert(table.uses, key);
        }
        Some(file.clone())
    }

    /// Keeps a file open; the one kept before under this id, if any, wins.
    pub fn insert(&self, id: ObjectId, file: Arc<dyn File>) -> Arc<dyn File> {
        let table = &mut *self.files.table.lock();
        let key = (self.number, id);
        if let Some((first, _)) = table.files.get(&key) {
            return first.clone();
        }
        let closed = (table.files.len() >= self.files.max).then(|| table.pop_oldest());
        table.uses += 1;
        table.files.insert(key, (file.clone(), table.uses));
        table.by_use.insert(table.uses, key);
        drop(closed);
        file
    }

    /// Forgets a file.
    pub fn remove(&self, id: ObjectId) {
        let removed = self.files.table.lock().remove(&(self.number, id));
        drop(removed);
    }

    /// See [`OpenFiles::shed`].
    pub fn shed(&self) -> bool {
        self.files.shed()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let closed: Vec<_> = {
            let table = &mut *self.files.table.lock();
            let own: Vec<Key> =
                table.files.keys().filter(|(number, _)| *number == self.number).copied().collect();
            own.iter().filter_map(|key| table.remove(key)).collect()
        };
        drop(closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use types::fid::Fid;

    struct Nothing;

    impl File for Nothing {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }
        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Ok(())
        }
        fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
            Ok((0, 0))
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn punch(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn allocate(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
            Ok(())
        }
        fn seek(&self, _: u64, _: bool) -> io::Result<Option<u64>> {
            Ok(None)
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn object(oid: u32) -> ObjectId {
        ObjectId { fid: Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }, instance: 1, stripe: 0 }
    }

    #[test]
    fn targets_share_one_bound_and_nothing_else() {
        let files = Arc::new(OpenFiles::new(3));
        let (a, b) = (Share::new(files.clone()), Share::new(files.clone()));
        a.insert(object(1), Arc::new(Nothing));
        a.insert(object(2), Arc::new(Nothing));
        assert!(b.get(object(1)).is_none(), "another target has an object of that name");
        b.insert(object(1), Arc::new(Nothing));
        assert!(a.get(object(1)).is_some());
        b.insert(object(2), Arc::new(Nothing));
        assert_eq!(files.len(), 3);
        assert!(a.get(object(2)).is_none(), "the least recently used one of all was closed");
        drop(b);
        assert_eq!(files.len(), 1, "what a target left open");
        a.remove(object(1));
        assert!(files.is_empty());
    }

    #[test]
    fn without_descriptors_the_older_half_goes_until_nothing_is_left() {
        let files = Arc::new(OpenFiles::new(8));
        let share = Share::new(files.clone());
        (0..5).for_each(|n| drop(share.insert(object(n), Arc::new(Nothing))));
        assert!(share.shed());
        assert_eq!(files.len(), 2);
        assert!(share.get(object(4)).is_some() && share.get(object(0)).is_none());
        assert!(share.shed() && share.shed());
        assert!(!share.shed());
    }
}
