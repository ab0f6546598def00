//! How fast directories grow, as far as names are made here: which of them may have to be split
//! (docs/dne.md, section 12). It is known in memory only; at a restart it begins anew.
//!
//! Bound: [`DIRS_MAX`] directories are watched, those that grew last.

use foldhash::HashMap;
use std::collections::BTreeMap;
use std::time::Duration;
use types::fid::Fid;
use types::session::ClientUuid;

/// Directories that are watched.
const DIRS_MAX: usize = 4096;
/// Length of the time in which names are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// So many names in that time, by more than one client, are much.
const MUCH: u32 = 1000;
/// After so many names the size of a directory is looked at again.
const LOOK: u32 = 4096;

/// Why a directory is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Grows {
    /// It has got many names.
    Large,
    /// Several clients make many names in it at once.
    Hot,
}

struct Growth {
    since: Duration,
    made: u32,
    client: ClientUuid,
    shared: bool,
    unlooked: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct DirGrowth {
    of: HashMap<Fid, Growth>,
    due: BTreeMap<Fid, Grows>,
}

impl DirGrowth {
    /// A client has made a name. `large`: names of a large directory. True if the directory is to
    /// be looked at.
    pub(crate) fn made(&mut self, dir: Fid, client: ClientUuid, now: Duration, large: u32) -> bool {
        if self.of.len() >= DIRS_MAX && !self.of.contains_key(&dir) {
            self.of.retain(|_, growth| now.saturating_sub(growth.since) < WINDOW);
            if self.of.len() >= DIRS_MAX {
                self.of.clear();
            }
        }
        let new = || Growth { since: now, made: 0, client, shared: false, unlooked: 0 };
        let growth = self.of.entry(dir).or_insert_with(new);
        if now.saturating_sub(growth.since) >= WINDOW {
            *growth = Growth { unlooked: growth.unlooked, ..new() };
        }
        growth.made += 1;
        growth.unlooked += 1;
        growth.shared |= client != growth.client;
        let grows = if growth.shared && growth.made >= MUCH {
            Grows::Hot
        } else if growth.unlooked >= LOOK.min(large) {
            Grows::Large
        } else {
            return false;
        };
        (growth.since, growth.made, growth.shared, growth.unlooked) = (now, 0, false, 0);
        let due = self.due.entry(dir).or_insert(grows);
        *due = grows.max(*due);
        true
    }

    /// Directories, and stripes of some, in which names were made.
    pub(crate) fn watched(&self) -> Vec<Fid> {
        let mut all: Vec<Fid> = self.of.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Takes a directory that is to be looked at.
    pub(crate) fn take_due(&mut self) -> Option<(Fid, Grows)> {
        self.due.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_directory_is_hot_if_several_clients_make_many_names_at_once() {
        let mut growth = DirGrowth::default();
        let client = |n: u32| ClientUuid(u128::from(n % 2));
        assert!((0..999).all(|n| !growth.made(DIR, client(n), ms(1), 50_000)));
        assert!(growth.made(DIR, client(1), ms(2), 50_000));
        assert_eq!([growth.take_due(), growth.take_due()], [Some((DIR, Grows::Hot)), None]);
        // Slowly, or by one client: it is only large.
        let mut slow = DirGrowth::default();
        assert!((0..4095).all(|n| !slow.made(DIR, client(n), ms(2 * u64::from(n)), 50_000)));
        assert!(slow.made(DIR, client(0), ms(9000), 50_000));
        let mut alone = DirGrowth::default();
        assert!((0..4095).all(|_| !alone.made(DIR, client(0), ms(1), 50_000)));
        assert!(alone.made(DIR, client(0), ms(1), 50_000));
        let mut low = DirGrowth::default();
        assert!((0..99).all(|_| !low.made(DIR, client(0), ms(1), 100)));
        assert!(low.made(DIR, client(0), ms(1), 100));
        assert_eq!([slow, alone].map(|mut g| g.take_due()), [Some((DIR, Grows::Large)); 2]);
    }

    #[test]
    fn few_directories_are_watched() {
        let mut growth = DirGrowth::default();
        for oid in 0..3 * DIRS_MAX as u32 {
            growth.made(Fid { oid, ..DIR }, ClientUuid(1), ms(u64::from(oid)), 50_000);
            assert!(growth.of.len() <= DIRS_MAX);
        }
    }
}
