//! Ranges of absent names, beside the bit GAP of their locks, and how far a new one may reach.
//!
//! The table holds at least what the client may use: the client cuts its ranges when it sends a
//! name, the target when it makes the name.
//!
//! Clients whose names come in turns would call each other's ranges back for ever. So when a
//! foreign name meets a range, the client's next ranges in that directory reach only over names
//! with the same beginning, just long enough to tell the two names apart. That is a fixed table:
//! two clients that share a place in it learn again. Only speed depends on it.

use super::{Change, InodeBits};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::time::Duration;
use types::fid::Fid;
use types::limits::GAPS_MAX;
use types::names::{NameRange, NameRanges};

/// How long a meeting is remembered.
const LEARNT: Duration = Duration::from_secs(10);
/// Clients and directories for which meetings are remembered.
const PLACES: usize = 4096;

/// A client whose range met a foreign name, and the directory.
#[derive(Clone, Copy)]
struct Place {
    dir: Fid,
    client: u32,
    depth: u16,
    until: Duration,
}

/// See the module.
#[derive(Default)]
pub(super) struct Gaps {
    held: HashMap<(Fid, u32), NameRanges, FixedState>,
    /// Made at the first meeting.
    places: Vec<Place>,
    hasher: FixedState,
}

impl Gaps {
    /// Ranges of a client in a directory; none if it does not hold GAP.
    pub(super) fn of(&self, dir: Fid, client: u32) -> Option<&NameRanges> {
        self.held.get(&(dir, client))
    }

    /// True if there is room for ranges of one more client or directory.
    pub(super) fn has_room(&self, dir: Fid, client: u32) -> bool {
        self.held.len() < GAPS_MAX || self.held.contains_key(&(dir, client))
    }

    pub(super) fn add(&mut self, dir: Fid, client: u32, range: NameRange) {
        self.held.entry((dir, client)).or_default().add(range);
    }

    /// The client no longer holds GAP.
    pub(super) fn remove(&mut self, dir: Fid, client: u32) {
        self.held.remove(&(dir, client));
    }

    /// The client makes this name itself.
    pub(super) fn cut(&mut self, dir: Fid, client: u32, name: &[u8]) {
        if let Some(ranges) = self.held.get_mut(&(dir, client)) {
            ranges.cut(name);
        }
    }

    /// The bits that a holder of `held` must drop before another client makes this change. Besides
    /// those of `super::clash` this is GAP, if one of the names is in its ranges or if the change
    /// does not list its names.
    pub(super) fn clash(&self, client: u32, held: InodeBits, change: &Change) -> InodeBits {
        self.clash_of(
            client,
            held,
            change.fid,
            change.bits,
            change.names.iter().map(|name| &**name),
        )
    }

    /// As [`Gaps::clash`], with the parts of the change apart.
    pub(super) fn clash_of<'n>(
        &self,
        client: u32,
        held: InodeBits,
        fid: Fid,
        bits: InodeBits,
        names: impl IntoIterator<Item = &'n [u8]>,
    ) -> InodeBits {
        let clash = super::clash(held, bits);
        if !held.contains(InodeBits::GAP) || !bits.contains(InodeBits::UPDATE) {
            return clash;
        }
        let mut names = names.into_iter().peekable();
        let meets = |name: &[u8]| self.of(fid, client).is_some_and(|ranges| ranges.contains(name));
        match names.peek().is_none() || names.any(meets) {
            true => clash.union(InodeBits::GAP),
            false => clash,
        }
    }

    /// How far a range that begins with this name may reach.
    pub(super) fn reach(&self, dir: Fid, client: u32, name: &[u8], now: Duration) -> NameRange {
        let learnt =
            |place: &&Place| place.dir == dir && place.client == client && now < place.until;
        let place = self.places.get(self.index(dir, client)).filter(learnt);
        NameRange::at(name, place.map_or(0, |place| place.depth.into()))
    }

    /// Another client is about to change this name: if it is in a range, the two clients shall
    /// part.
    pub(super) fn meets(&mut self, dir: Fid, client: u32, name: &[u8], now: Duration) {
        let Some(range) = self.of(dir, client).and_then(|ranges| ranges.around(name)) else {
            return;
        };
        let common =
            range.start().iter().zip(name).take_while(|(own, foreign)| own == foreign).count();
        if self.places.is_empty() {
            let empty = Place { dir: Fid::NONE, client: 0, depth: 0, until: Duration::ZERO };
            self.places = vec![empty; PLACES];
        }
        let index = self.index(dir, client);
        let place = &mut self.places[index];
        if (place.dir, place.client) != (dir, client) || now >= place.until {
            *place = Place { dir, client, depth: 0, until: now };
        }
        (place.depth, place.until) = (place.depth.max(common as u16 + 1), now + LEARNT);
    }

    fn index(&self, dir: Fid, client: u32) -> usize {
        self.hasher.hash_one((dir, client)) as usize % PLACES
    }

    /// Clients and directories with ranges.
    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = (Fid, u32)> {
        self.held.keys().copied()
    }
}
