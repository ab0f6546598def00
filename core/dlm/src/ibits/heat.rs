//! Who changes names in which directory, and how quickly authors take turns.
//!
//! A directory in which another client than the last one changed a name within the last second is busy, until it
//! has had one author, or none, for a second. A fixed table: a directory that meets another one in its place is
//! forgotten, and is busy again after its next two authors. Only speed depends on it.

use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::time::Duration;
use types::fid::Fid;
use types::session::ClientUuid;

/// How long authors take turns and a directory stays busy.
pub const BUSY: Duration = Duration::from_secs(1);
/// Directories that are remembered.
const PLACES: usize = 4096;

#[derive(Clone, Copy)]
struct Place {
    dir: Fid,
    author: ClientUuid,
    /// When a name was changed last.
    at: Duration,
    busy_until: Duration,
}

/// The table. Made at the first change of a name.
#[derive(Default)]
pub(super) struct Heat {
    places: Vec<Place>,
    hasher: FixedState,
    /// Nothing is busy from then on.
    quiet_from: Duration,
}

impl Heat {
    fn index(&self, dir: Fid) -> usize {
        self.hasher.hash_one(dir) as usize % PLACES
    }

    /// `author` changes a name.
    pub(super) fn note(&mut self, dir: Fid, author: ClientUuid, now: Duration) {
        if self.places.is_empty() {
            let empty = Place { dir: Fid::NONE, author, at: Duration::ZERO, busy_until: Duration::ZERO };
            self.places = vec![empty; PLACES];
        }
        let index = self.index(dir);
        let place = &mut self.places[index];
        if place.dir != dir {
            *place = Place { dir, author, at: now, busy_until: Duration::ZERO };
            return;
        }
        if place.author != author && now.saturating_sub(place.at) < BUSY {
            place.busy_until = now + BUSY;
            self.quiet_from = self.quiet_from.max(place.busy_until);
        }
        (place.author, place.at) = (author, now);
    }

    /// Is the directory busy?
    pub(super) fn is_busy(&self, dir: Fid, now: Duration) -> bool {
        if now >= self.quiet_from {
            return false;
        }
        let place = &self.places[self.index(dir)];
        place.dir == dir && now < place.busy_until
    }
}
