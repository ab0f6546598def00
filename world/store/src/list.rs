//! All objects of a target, page by page, for checkers.
//!
//! The order is that of the folders, then of the ids: a page begins after the last object of the
//! one before, wherever that is now. Objects that come or go meanwhile may or may not be listed;
//! all others are listed once.

use crate::error::StoreError;
use crate::objects::{Objects, parse_name};
use env::disk::Open;
use std::io;
use std::path::{Path, PathBuf};
use types::object::ObjectId;

impl Objects {
    /// Up to `limit` objects after `after` (`None`: from the first): size in bytes and 512-byte
    /// blocks of each. Files with other names, or in folders that are not theirs, are skipped.
    pub(crate) fn page(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<(ObjectId, u64, u64)>, StoreError> {
        let mut listed = Vec::new();
        let from = after.map(|id| self.folder(id));
        let begins = from.as_deref().and_then(Path::parent);
        for upper in self.folders(&self.root)? {
            if begins.is_some_and(|begins| *upper < *begins) {
                continue;
            }
            for lower in self.folders(&upper)? {
                if from.as_deref().is_some_and(|from| *lower < *from) {
                    continue;
                }
                let behind = after.filter(|_| from.as_deref() == Some(&*lower));
                if self.list_folder(&lower, behind, limit, &mut listed)? {
                    return Ok(listed);
                }
            }
        }
        Ok(listed)
    }

    /// Sorted paths of what is in a folder.
    fn folders(&self, above: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let names = match self.env.disk.list(above) {
            // A file that is not ours.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
            names => names.map_err(StoreError::io("list", above))?,
        };
        let mut paths: Vec<PathBuf> = names.into_iter().map(|name| above.join(name)).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    /// Adds the objects of one folder. True if the list is full.
    fn list_folder(
        &self,
        folder: &Path,
        behind: Option<ObjectId>,
        limit: usize,
        listed: &mut Vec<(ObjectId, u64, u64)>,
    ) -> Result<bool, StoreError> {
        let names = match self.env.disk.list(folder) {
            // A file that is not ours.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(false),
            names => names.map_err(StoreError::io("list", folder))?,
        };
        let mut ids: Vec<ObjectId> = names.iter().filter_map(|name| parse_name(name)).collect();
        ids.retain(|id| behind.is_none_or(|behind| *id > behind) && self.folder(*id) == *folder);
        ids.sort_unstable();
        for id in ids {
            let path = self.path(id);
            // Not through the open files: a list would push all others out.
            let file = match self.env.disk.open(&path, Open::Existing) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(StoreError::io("open", &path))?,
            };
            let (size, blocks) =
                file.size_and_blocks().map_err(StoreError::io("look at", &path))?;
            listed.push((id, size, blocks));
            if listed.len() == limit {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
