//! In which directory a program found a file last: a hint of what it may open next. A lock need not
//! cover it, so it may be old.
//!
//! Bound: a place for each of [`PLACES`] files. Files that share a place forget each other.

use parking_lot::Mutex;
use types::fid::Fid;

/// Files whose directory is remembered.
const PLACES: usize = 1024;

/// A file, and its directory.
type Place = Mutex<Option<(Fid, Fid)>>;

/// See the module.
pub(crate) struct FoundIn(Box<[Place]>);

impl Default for FoundIn {
    fn default() -> FoundIn {
        FoundIn((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl FoundIn {
    /// A program found a file in a directory, or in this stripe of one.
    pub(crate) fn note(&self, file: Fid, dir: Fid) {
        *self.place(file).lock() = Some((file, dir));
    }

    /// The directory of a file.
    pub(crate) fn of(&self, file: Fid) -> Option<Fid> {
        let (found, dir) = (*self.place(file).lock())?;
        (found == file).then_some(dir)
    }

    fn place(&self, file: Fid) -> &Place {
        &self.0[file.oid as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_directory_of_a_file_counts_until_another_file_takes_its_place() {
        let found = FoundIn::default();
        let file = |oid| Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 };
        assert_eq!(found.of(file(1)), None);
        found.note(file(1), file(7));
        found.note(file(2), file(7));
        found.note(file(1), file(8));
        assert_eq!((found.of(file(1)), found.of(file(2))), (Some(file(8)), Some(file(7))));
        found.note(file(1 + PLACES as u32), file(7));
        assert_eq!(found.of(file(1)), None);
    }
}
