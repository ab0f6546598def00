//! Open object files, the least recently used closed first.
//!
//! Bound: `limits::OBJECT_FILES_OPEN_MAX` per target. A file that somebody still uses stays open until they are done;
//! it only leaves the table.

use env::disk::File;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use types::object::ObjectId;

#[derive(Default)]
struct Table {
    files: HashMap<ObjectId, (Arc<dyn File>, u64), foldhash::fast::RandomState>,
    by_use: BTreeMap<u64, ObjectId>,
    uses: u64,
}

/// Open files by object.
pub struct OpenFiles {
    table: Mutex<Table>,
    max: usize,
}

impl OpenFiles {
    /// Room for `max` files, at least 1.
    pub fn new(max: usize) -> OpenFiles {
        OpenFiles { table: Mutex::default(), max: max.max(1) }
    }

    /// The file, if it is open.
    pub fn get(&self, id: ObjectId) -> Option<Arc<dyn File>> {
        let table = &mut *self.table.lock();
        let (file, used) = table.files.get_mut(&id)?;
        if *used != table.uses {
            table.by_use.remove(used);
            table.uses += 1;
            *used = table.uses;
            table.by_use.insert(table.uses, id);
        }
        Some(file.clone())
    }

    /// Keeps a file open; the one kept before under this id, if any, wins.
    pub fn insert(&self, id: ObjectId, file: Arc<dyn File>) -> Arc<dyn File> {
        let table = &mut *self.table.lock();
        if let Some((first, _)) = table.files.get(&id) {
            return first.clone();
        }
        let mut closed = None;
        if table.files.len() >= self.max {
            closed = table.by_use.pop_first().and_then(|(_, oldest)| table.files.remove(&oldest));
        }
        table.uses += 1;
        table.files.insert(id, (file.clone(), table.uses));
        table.by_use.insert(table.uses, id);
        drop(closed);
        file
    }

    /// Forgets a file.
    pub fn remove(&self, id: ObjectId) {
        let table = &mut *self.table.lock();
        if let Some((_, used)) = table.files.remove(&id) {
            table.by_use.remove(&used);
        }
    }

    /// Open files.
    pub fn len(&self) -> usize {
        self.table.lock().files.len()
    }

    /// None open?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
