//! Files that a listing showed, and that other clients are writing: which to ask for together.
//!
//! Nothing is granted of such a file unless its writer stops for that (`GetattrMany`, `pause`). A
//! listing that the kernel wanted with attributes shows which files these are, before one is
//! missed. They are fetched as those of [`super::statahead`], [`PAUSED_MAX`] at once. A program
//! that looks at the same file again and again stops no writer of others: only the first miss of
//! each entry does.

use super::windows::{Directories, MISSES, OnMiss, PAUSED_MAX};
use env::clock::Monotonic;
use std::sync::Arc;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// See the module.
#[derive(Default)]
pub(crate) struct WrittenFiles {
    directories: Directories,
}

impl WrittenFiles {
    /// A listing showed these entries of a directory without locks on their attributes: other
    /// clients write them. `goes_on`: behind those that it showed before.
    pub(crate) fn showed(&mut self, dir: Fid, listing: Arc<[DirEntry]>, goes_on: bool) {
        let before = self.directories.all.remove(&dir);
        if listing.is_empty() {
            return;
        }
        let looks = before.is_some_and(|before| before.misses >= MISSES) && goes_on;
        let (directory, _) = self.directories.used(dir);
        directory.show(listing, looks);
        self.directories.make_room();
    }

    /// The directory and the name with which such an inode was shown.
    pub(crate) fn name_of(&self, fid: Fid) -> Option<(Fid, Name)> {
        self.directories.all.iter().find_map(|(dir, directory)| {
            let place = *directory.showed.as_ref()?.get(&fid)?;
            Some((*dir, directory.listing.get(place)?.name.clone()))
        })
    }

    /// True if the listing of a directory that is remembered has this name.
    pub(crate) fn has(&self, dir: Fid, name: &Name) -> bool {
        self.directories.all.get(&dir).is_some_and(|directory| directory.place(name).is_some())
    }

    /// A lookup of one of them found no attributes. `max`: files of a window, at most, and not more
    /// than [`PAUSED_MAX`]; `is_known`: the attributes of an inode are covered.
    pub(crate) fn miss(
        &mut self,
        at: (Fid, &Name),
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        now: Monotonic,
    ) -> OnMiss {
        self.directories.miss(at, None, max.min(PAUSED_MAX), is_known, now)
    }
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
