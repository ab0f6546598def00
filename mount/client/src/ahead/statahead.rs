//! Statahead: which attributes to fetch before programs ask.
//!
//! A program that lists a directory and then looks at each entry (`find`, `du`, `rm -r`) meets
//! names that the listing taught, without attributes. The second such miss in a directory fetches
//! the attributes of many entries at once ([`super::windows`]).
//!
//! The first page of a listing comes with attributes. If the program then asked for names only, and
//! looks at [`LOOKS`] entries of the first page after that, the first window is fetched before it
//! misses any. So is each further one, once it looked at one in [`GOES_ON_AFTER`] entries that were
//! fetched.
//!
//! A directory whose names are all known is listed from memory, also where attributes are not
//! known: then the first miss fetches the first window.
//!
//! What is fetched is kept under locks as everything else is, and handed out by lookups only
//! (docs/client.md). This file decides; `ops/directories/statahead.rs` acts.

use super::windows::{Directories, MISSES, OnMiss, StataheadFigures, Window};
use env::clock::Monotonic;
use std::collections::VecDeque;
use std::sync::Arc;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// The next window is fetched before it is missed once one in so many entries was looked at.
const GOES_ON_AFTER: u64 = 4;
/// Looks at entries with attributes before the first window of a directory of which the rest was
/// listed without.
const LOOKS: u32 = 3;
/// Directories of which a program asked for names only, and that it did not look at yet.
const NAMED_MAX: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Statahead {
    directories: Directories,
    /// Looks at directories of which a program asked for names only, the newest last.
    named: VecDeque<(Fid, u32)>,
}

impl Statahead {
    /// A program lists a directory, and asks for names only.
    pub(crate) fn named(&mut self, dir: Fid) {
        match self.named.back_mut().filter(|(newest, _)| *newest == dir) {
            Some((_, looks)) => *looks = 0,
            None => {
                self.named.retain(|(named, _)| *named != dir);
                if self.named.len() >= NAMED_MAX {
                    self.named.pop_front();
                }
                self.named.push_back((dir, 0));
            }
        }
    }

    /// A program lists a directory anew, of which this listing is known. True if the names will do:
    /// the attributes of all that is missing are fetched from the first miss on. False: nothing is
    /// fetched in this directory for a while.
    #[must_use]
    pub(crate) fn listed_again(
        &mut self,
        dir: Fid,
        listing: Arc<[DirEntry]>,
        now: Monotonic,
    ) -> bool {
        let (directory, figures) = self.directories.used(dir);
        // What was fetched before may have been called back since.
        directory.begin(listing, now, figures);
        directory.misses = MISSES - 1;
        let will_do = !directory.rests(now);
        self.directories.make_room();
        will_do
    }

    /// A lookup in a directory found attributes under locks. True if those of the other entries
    /// will be wanted, too: [`Statahead::rest`] has them.
    #[must_use]
    pub(crate) fn hit(&mut self, dir: Fid) -> bool {
        let Directories { all, figures, .. } = &mut self.directories;
        if let Some(directory) = all.get_mut(&dir).filter(|directory| directory.size > 0) {
            directory.used += 1;
            figures.hits += 1;
            if directory.goes_on && directory.used * GOES_ON_AFTER >= directory.fetched {
                directory.goes_on = false;
                return true;
            }
        }
        let Some(at) = self.named.iter().rposition(|(named, _)| *named == dir) else {
            return false;
        };
        self.named[at].1 += 1;
        let wanted = self.named[at].1 >= LOOKS;
        if wanted {
            self.named.remove(at);
        }
        wanted
    }

    /// A program looks at entries of this directory, one after the other, from this name on: what
    /// to fetch before it misses one. As [`Statahead::miss`].
    pub(crate) fn rest(
        &mut self,
        (dir, name): (Fid, &Name),
        listing: Option<Arc<[DirEntry]>>,
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        now: Monotonic,
    ) -> Option<Window> {
        let listing = listing.filter(|_| max > 0)?;
        let (directory, figures) = self.directories.used(dir);
        directory.begin_if_other(listing, now, figures);
        directory.misses = directory.misses.max(MISSES);
        let place = directory.place(name).filter(|_| !directory.rests(now));
        let window = place.and_then(|place| directory.window(place, max, is_known, figures));
        self.directories.make_room();
        window
    }

    /// A lookup in a directory found no attributes. `listing`: the directory as it is known;
    /// `None`: not as a whole, at the moment. `max`: entries of a window, at most; 0: nothing is
    /// fetched. `is_known`: the attributes of an inode are covered.
    pub(crate) fn miss(
        &mut self,
        at: (Fid, &Name),
        listing: Option<Arc<[DirEntry]>>,
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        now: Monotonic,
    ) -> OnMiss {
        self.directories.miss(at, listing, max, is_known, now)
    }

    /// What happened since the mount, or since it was cleared.
    pub(crate) fn figures(&mut self) -> &mut StataheadFigures {
        &mut self.directories.figures
    }
}

#[cfg(test)]
#[path = "statahead_tests.rs"]
mod tests;
