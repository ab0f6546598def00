//! Which directories to list because programs look for names that do not exist.
//!
//! Every file that is made is looked up first, and compilers look for headers in one directory
//! after the other. In a directory of which all names are known that costs nothing; in any other
//! one each name costs a round trip. So after a lookup that found nothing, the next one in that
//! directory lists its names first. At most [`NAMES_PER_MISS`] names are asked for per lookup that
//! found nothing. If the directory has more, or locks do not cover the names for long, as other
//! clients change them, it is listed again after twice as many such lookups.
//!
//! This file decides; `ops/directories/names_ahead.rs` acts.

use env::clock::Monotonic;
use foldhash::HashMap;
use std::time::Duration;
use types::fid::Fid;
use types::limits::READDIR_ENTRIES_MAX;

/// Names that one lookup that found nothing is worth: some 28 KB.
const NAMES_PER_MISS: u32 = 1024;
/// Directories whose lookups are counted; beyond it the counts begin anew.
const DIRECTORIES_MAX: usize = 1024;
/// After this time without a lookup that finds nothing, a directory is forgotten.
const EXPIRY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(crate) struct NamesAhead {
    dirs: HashMap<Fid, Misses>,
}

#[derive(Clone, Copy)]
struct Misses {
    count: u32,
    /// With this count it is listed before the next lookup.
    list_at: u32,
    last: Monotonic,
}

impl NamesAhead {
    /// An MDT was asked for a name that does not exist.
    pub(crate) fn missed(&mut self, dir: Fid, now: Monotonic) {
        if self.dirs.len() >= DIRECTORIES_MAX && !self.dirs.contains_key(&dir) {
            self.dirs.retain(|_, misses| !misses.is_old(now));
            if self.dirs.len() >= DIRECTORIES_MAX {
                self.dirs.clear();
            }
        }
        let anew = Misses { count: 0, list_at: 1, last: now };
        let misses = self.dirs.entry(dir).or_insert(anew);
        if misses.is_old(now) {
            *misses = anew;
        }
        (misses.count, misses.last) = (misses.count.saturating_add(1), now);
    }

    /// A name is about to be looked up. Up to how many names of its directory are to be listed
    /// first; `None`: it is not to be listed.
    pub(crate) fn limit(&mut self, dir: Fid, now: Monotonic) -> Option<u32> {
        let misses = self.dirs.get_mut(&dir).filter(|misses| !misses.is_old(now))?;
        if misses.count < misses.list_at {
            return None;
        }
        misses.list_at = misses.count.saturating_mul(2);
        Some(misses.count.saturating_mul(NAMES_PER_MISS).min(READDIR_ENTRIES_MAX as u32))
    }
}

impl Misses {
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
