//! Which client works with which inode, and how quickly authors take turns: in changing names of a
//! directory, and in asking for the data of a file.
//!
//! A directory is busy if a name was changed within the last second by another client than the one
//! before. It stays busy until it has had one author, or none, for a second. A file needs some more
//! turns. The table is fixed: an inode that meets another one in its place is forgotten, and is
//! busy again after its next authors. Only speed depends on it.

use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::time::Duration;
use types::fid::Fid;
use types::session::ClientUuid;

/// How long authors take turns, and a directory stays busy.
pub const BUSY: Duration = Duration::from_secs(1);
/// Directories that are remembered.
const PLACES: usize = 4096;

#[derive(Clone, Copy)]
struct Place {
    dir: Fid,
    author: ClientUuid,
    /// Time of the last change of a name.
    at: Duration,
    busy_until: Duration,
    /// How often another author came within that time.
    turns: u32,
}

/// The table. Made at the first turn.
pub struct Heat {
    places: Vec<Place>,
    hasher: FixedState,
    /// After so many turns an inode is busy.
    busy_after: u32,
    /// From this time on, no inode is busy.
    quiet_from: Duration,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat::with_turns(1)
    }
}

impl Heat {
    /// An inode with this many turns is busy.
    pub fn with_turns(busy_after: u32) -> Heat {
        Heat {
            places: Vec::new(),
            hasher: FixedState::default(),
            busy_after,
            quiet_from: Duration::ZERO,
        }
    }

    fn index(&self, dir: Fid) -> usize {
        self.hasher.hash_one(dir) as usize % PLACES
    }

    /// `author` works with the inode.
    pub fn note(&mut self, dir: Fid, author: ClientUuid, now: Duration) {
        if self.places.is_empty() {
            let empty = Place {
                dir: Fid::NONE,
                author,
                at: Duration::ZERO,
                busy_until: Duration::ZERO,
                turns: 0,
            };
            self.places = vec![empty; PLACES];
        }
        let index = self.index(dir);
        let place = &mut self.places[index];
        if place.dir != dir {
            *place = Place { dir, author, at: now, busy_until: Duration::ZERO, turns: 0 };
            return;
        }
        if now.saturating_sub(place.at) >= BUSY {
            place.turns = 0;
        } else if place.author != author {
            place.turns = place.turns.saturating_add(1);
            if place.turns >= self.busy_after {
                place.busy_until = now + BUSY;
                self.quiet_from = self.quiet_from.max(place.busy_until);
            }
        }
        (place.author, place.at) = (author, now);
    }

    /// True if the inode is busy.
    pub fn is_busy(&self, dir: Fid, now: Duration) -> bool {
        if now >= self.quiet_from {
            return false;
        }
        let place = &self.places[self.index(dir)];
        place.dir == dir && now < place.busy_until
    }
}
