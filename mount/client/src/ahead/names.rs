//! Which directories to list because programs look for names in them, without a listing.
//!
//! **Names that do not exist.**
//! Every file that is made is looked up first, and compilers look for headers in one directory
//! after the other. In a directory of which all names are known that costs nothing; in any other
//! one each name costs a round trip. So after a lookup that found nothing, the next one in that
//! directory lists its names first. At most [`NAMES_PER_MISS`] names are asked for per lookup that
//! found nothing. If the directory has more, or locks do not cover the names for long, as other
//! clients change them, it is listed again after twice as many such lookups.
//!
//! **Names that exist**, far away. A program that has a list of its own (git status, a build) looks
//! at one file after the other. Statahead needs to know their names. So with the third name that
//! was found by a request over a long line, and again with the sixth, twelfth and so on, the names
//! are listed in the background, as many for each such lookup as above. Near the servers a lookup
//! is cheap, and locks on what it would save are not: each client of a job may look at a few files
//! of one large directory, and a client that removes them then calls all of them back.
//!
//! **Files that are opened**, over any long line. The next files of a directory can be opened and
//! read ahead only if its names are known. So with the first open that waits for its MDT, and again
//! with the second, fourth and so on, they are listed beside it, as many for each as above: in the
//! time of that wait the line carries ten times as much, or more.
//!
//! This file decides; `ops/directories/names_ahead.rs` acts.

use env::clock::Monotonic;
use foldhash::HashMap;
use std::time::Duration;
use types::fid::Fid;
use types::limits::READDIR_ENTRIES_MAX;

/// Names that one lookup is worth: some 28 KB.
const NAMES_PER_MISS: u32 = 1024;
/// Lookups that found their names before a directory is listed for these.
const FOUND_FIRST: u32 = 3;
/// Directories whose lookups are counted; beyond it the counts begin anew.
const DIRECTORIES_MAX: usize = 1024;
/// After this time without a lookup that asks an MDT, a directory is forgotten.
const EXPIRY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(crate) struct NamesAhead {
    dirs: HashMap<Fid, Asked>,
}

/// What an MDT was asked for in a directory.
#[derive(Clone, Copy)]
struct Asked {
    /// Lookups that found nothing.
    absent: Misses,
    /// Those that found something.
    found: Misses,
    /// Opens for reading.
    opened: Misses,
    last: Monotonic,
}

/// Questions that would have had their answer here if the directory had been listed.
#[derive(Clone, Copy)]
struct Misses {
    count: u32,
    /// With this count it is listed.
    list_at: u32,
}

impl NamesAhead {
    /// An MDT was asked for a name that does not exist.
    pub(crate) fn missed(&mut self, dir: Fid, now: Monotonic) {
        self.asked(dir, now).absent.add();
    }

    /// An MDT far away was asked for a name that exists, in a directory of which not all names are
    /// known. Up to how many names of the directory are to be listed; `None`: it is not to be
    /// listed.
    pub(crate) fn found(&mut self, dir: Fid, now: Monotonic) -> Option<u32> {
        let found = &mut self.asked(dir, now).found;
        found.add();
        found.limit()
    }

    /// An MDT over a long line is asked to open a file for reading, in a directory of which not all
    /// names are known. As [`NamesAhead::found`].
    pub(crate) fn opened(&mut self, dir: Fid, now: Monotonic) -> Option<u32> {
        let opened = &mut self.asked(dir, now).opened;
        opened.add();
        opened.limit()
    }

    fn asked(&mut self, dir: Fid, now: Monotonic) -> &mut Asked {
        if self.dirs.len() >= DIRECTORIES_MAX && !self.dirs.contains_key(&dir) {
            self.dirs.retain(|_, asked| !asked.is_old(now));
            if self.dirs.len() >= DIRECTORIES_MAX {
                self.dirs.clear();
            }
        }
        let anew = Asked {
            absent: Misses::listed_at(1),
            found: Misses::listed_at(FOUND_FIRST),
            opened: Misses::listed_at(1),
            last: now,
        };
        let asked = self.dirs.entry(dir).or_insert(anew);
        if asked.is_old(now) {
            *asked = anew;
        }
        asked.last = now;
        asked
    }

    /// A name is about to be looked up. Up to how many names of its directory are to be listed
    /// first; `None`: it is not to be listed.
    pub(crate) fn limit(&mut self, dir: Fid, now: Monotonic) -> Option<u32> {
        let asked = self.dirs.get_mut(&dir).filter(|asked| !asked.is_old(now))?;
        asked.absent.limit()
    }
}

impl Misses {
    /// The directory is listed with so many of them at first.
    fn listed_at(list_at: u32) -> Misses {
        Misses { count: 0, list_at }
    }

    fn add(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Up to how many names are to be listed: the next time with twice as many misses. `None`: not
    /// now.
    fn limit(&mut self) -> Option<u32> {
        if self.count < self.list_at {
            return None;
        }
        self.list_at = self.count.saturating_mul(2);
        Some(self.count.saturating_mul(NAMES_PER_MISS).min(READDIR_ENTRIES_MAX as u32))
    }
}

impl Asked {
    fn is_old(&self, now: Monotonic) -> bool {
        now.saturating_sub(self.last) >= EXPIRY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fid(oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::default() + Duration::from_secs(seconds)
    }

    /// Looks up so many names that do not exist, one a second. With which ones the directory is
    /// listed, and how many names are asked for.
    fn listed(ahead: &mut NamesAhead, lookups: u64) -> Vec<(u64, u32)> {
        let mut listed = Vec::new();
        for n in 1..=lookups {
            listed.extend(ahead.limit(fid(1), at(n)).map(|names| (n, names)));
            ahead.missed(fid(1), at(n));
        }
        listed
    }

    #[test]
    fn the_second_lookup_lists_and_further_ones_rarely() {
        let listed = listed(&mut NamesAhead::default(), 1000);
        let at = |power: u32| (1 + (1 << power), READDIR_ENTRIES_MAX.min(1024 << power) as u32);
        assert_eq!(listed, (0..=9).map(at).collect::<Vec<(u64, u32)>>());
    }

    #[test]
    fn lookups_that_find_their_names_list_more_rarely() {
        let mut ahead = NamesAhead::default();
        let found = |n| Some((n, ahead.found(fid(1), at(0))?));
        let listed: Vec<(u32, u32)> = (1..=30).filter_map(found).collect();
        assert_eq!(listed, [(3, 3072), (6, 6144), (12, 12_288), (24, 24_576)]);
        let opened = |n| Some((n, ahead.opened(fid(2), at(0))?));
        let listed: Vec<(u32, u32)> = (1..=7).filter_map(opened).collect();
        assert_eq!(listed, [(1, 1024), (2, 2048), (4, 4096)], "opens, from the first one on");
        let mut ahead = NamesAhead::default();
        for n in 0..10 {
            assert_eq!(ahead.found(fid(1), at(60 * n)), None, "too rarely");
        }
        assert_eq!(ahead.limit(fid(1), at(540)), None, "no lookup found nothing");
    }

    #[test]
    fn each_directory_counts_for_itself_and_is_forgotten() {
        let mut ahead = NamesAhead::default();
        ahead.missed(fid(1), at(0));
        assert_eq!(ahead.limit(fid(2), at(0)), None);
        assert_eq!(ahead.limit(fid(1), at(60)), None, "that is too long ago");
        ahead.missed(fid(1), at(60));
        assert_eq!(ahead.limit(fid(1), at(119)), Some(1024));
        assert_eq!(ahead.limit(fid(1), at(119)), None, "it is on its way");
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let mut ahead = NamesAhead::default();
        for n in 0..10 * DIRECTORIES_MAX as u32 {
            ahead.missed(fid(n), at(0));
            assert!(ahead.dirs.len() <= DIRECTORIES_MAX);
        }
    }
}
