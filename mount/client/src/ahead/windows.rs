//! Windows: entries of a listing whose attributes are fetched together.
//!
//! The second miss in a directory fetches the attributes of [`WINDOW_FIRST`] entries at once: the
//! one that was missed, and those behind it that were not fetched yet. Each further miss fetches
//! [`GROWS`] times as many, up to [`WINDOW_MAX`]. So the order in which a program looks hardly
//! matters.
//!
//! What was fetched may be missed all the same: others called its locks back, the MDT had no room
//! for more, or this mount had none. The first such miss asks for itself. The next one fetches
//! [`AGAIN_GROWS`] of those that are missing, from its name on, and each further one so many times
//! as many as the one before it. A miss of what was fetched last begins anew.
//!
//! Waste is bounded: an entry is fetched once per listing, so all of it costs what `ls -l` would
//! have. Entries that are fetched again are at most [`TRIAL`], and [`USED_ONE_IN`] for each one
//! that was looked at. If [`TRIAL`] entries of one listing or more were fetched and fewer than one
//! in [`USED_ONE_IN`] was looked at, the next listings of that directory fetch nothing for a while.
//!
//! [`super::statahead`] has the directories that programs list, [`super::written`] those with files
//! that other clients write.

use env::clock::Monotonic;
use env::watch;
use foldhash::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// Entries of the first window.
pub(super) const WINDOW_FIRST: usize = 2048;
/// Entries of a window, at most: one request, half of what one may ask for.
pub(crate) const WINDOW_MAX: usize = 16_384;
/// Each window is so many times the one before it.
const GROWS: usize = 4;
/// Files that are being written, of a window: about what a program looks at within a round trip.
pub(crate) const PAUSED_MAX: usize = WINDOW_FIRST;
/// Misses before the first window.
pub(super) const MISSES: u32 = 2;
/// Directories that are watched; beyond it the one that was used longest ago goes.
pub(super) const DIRECTORIES_MAX: usize = 256;
/// Entries of their listings in all, about 100 MB; beyond it the same.
const ENTRIES_MAX: usize = 1 << 20;
/// Entries that are looked at, to find one that was lost.
const AROUND: usize = 64;
/// Each window of entries that were lost is so many times the one before it.
const AGAIN_GROWS: usize = 4;
/// Entries fetched of a listing from which on their use is looked at.
pub(super) const TRIAL: u64 = 4096;
/// Of so many fetched entries one must have been looked at.
pub(super) const USED_ONE_IN: u64 = 64;
/// How long a directory is left alone whose entries were fetched in vain: at first, and at most.
const REST: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(600)];

/// What a lookup that found no attributes does.
#[derive(Debug)]
pub(crate) enum OnMiss {
    /// It asks the MDT itself.
    Ask,
    /// The attributes are on their way: it waits for the end of this, then looks again.
    Wait(watch::Receiver<()>),
    /// It fetches the attributes of these inodes, its own among them.
    Fetch(Window),
}

/// Attributes to fetch.
#[derive(Debug)]
pub(crate) struct Window {
    /// Of these inodes.
    pub(crate) fids: Vec<Fid>,
    /// They were fetched before, and something took their locks or granted none: most likely other
    /// clients write them. And the one that was missed was not missed before.
    pub(crate) again: bool,
    /// Dropped when the answer is learnt, or will not come: it wakes those that wait.
    pub(crate) done: watch::Sender<()>,
}

/// What happened since the mount.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StataheadFigures {
    /// Entries whose attributes were fetched ahead.
    pub total: u64,
    /// Times that a directory was left alone, because what was fetched of it was not used.
    pub wrong: u64,
    /// Listings of which something was fetched.
    pub lists: u64,
    /// Lookups in these that found attributes.
    pub hits: u64,
    /// Lookups in these that found none.
    pub misses: u64,
}

/// Directories whose entries are fetched.
#[derive(Default)]
pub(super) struct Directories {
    pub(super) all: HashMap<Fid, Directory>,
    /// Counts uses, to tell which is older.
    uses: u64,
    pub(super) figures: StataheadFigures,
}

/// One of them, and what was fetched of its newest listing.
#[derive(Default)]
pub(super) struct Directory {
    /// In name order. Only a hint: it may be older than the directory.
    pub(super) listing: Arc<[DirEntry]>,
    pub(super) misses: u32,
    /// Entries of the newest window; 0: there was none.
    pub(super) size: usize,
    /// By place in the listing: the number of the window that has it, from 1 on; 0: none.
    window_of: Vec<u16>,
    /// Ends of the windows, by number.
    windows: Vec<watch::Receiver<()>>,
    pub(super) fetched: u64,
    pub(super) used: u64,
    pub(super) again: Again,
    /// Places that were missed.
    missed: HashSet<usize>,
    /// Of files that were shown without locks: places, and that each is fetched for its first miss
    /// only.
    pub(super) showed: Option<HashMap<Fid, usize>>,
    /// More may be fetched before it is missed.
    pub(super) goes_on: bool,
    rests_until: Option<Monotonic>,
    rest: Duration,
    last_use: u64,
}

/// Entries that are missed though they were fetched.
#[derive(Default)]
pub(super) struct Again {
    /// Misses of such entries.
    missed: u64,
    /// Entries fetched again.
    pub(super) fetched: u64,
    /// Entries of the newest window of these; 1: the miss asked for itself.
    size: usize,
    /// Its number.
    window: u16,
}

impl Directories {
    /// A directory that is used now. [`Directories::make_room`] is to follow.
    pub(super) fn used(&mut self, dir: Fid) -> (&mut Directory, &mut StataheadFigures) {
        self.uses += 1;
        let directory = self.all.entry(dir).or_default();
        directory.last_use = self.uses;
        (directory, &mut self.figures)
    }

    /// A lookup in a directory found no attributes. `listing`: the directory as it is known;
    /// `None`: not as a whole, at the moment. `max`: entries of a window, at most; 0: nothing is
    /// fetched. `is_known`: the attributes of an inode are covered.
    pub(super) fn miss(
        &mut self,
        (dir, name): (Fid, &Name),
        listing: Option<Arc<[DirEntry]>>,
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        now: Monotonic,
    ) -> OnMiss {
        if max == 0 || listing.is_none() && !self.all.contains_key(&dir) {
            return OnMiss::Ask;
        }
        let (directory, figures) = self.used(dir);
        if let Some(listing) = listing {
            directory.begin_if_other(listing, now, figures);
        }
        let on_miss = directory.miss(name, max, is_known, now, figures);
        self.make_room();
        on_miss
    }

    /// The directories that were used longest ago go if there are too many.
    pub(super) fn make_room(&mut self) {
        let entries =
            |all: &HashMap<Fid, Directory>| all.values().map(|d| d.listing.len()).sum::<usize>();
        while self.all.len() > DIRECTORIES_MAX || entries(&self.all) > ENTRIES_MAX {
            let oldest = self.all.iter().min_by_key(|(_, directory)| directory.last_use);
            let Some(oldest) = oldest.map(|(fid, _)| *fid) else { return };
            self.all.remove(&oldest);
        }
    }
}

impl Directory {
    /// A listing showed these entries without locks. `looks`: a program that looked at those before
    /// looks at each.
    pub(super) fn show(&mut self, listing: Arc<[DirEntry]>, looks: bool) {
        let (window_of, last_use) = (vec![0; listing.len()], self.last_use);
        let misses = if looks { MISSES - 1 } else { 0 };
        let showed = Some(listing.iter().map(|entry| entry.fid).zip(0..).collect());
        *self = Directory { listing, window_of, misses, showed, last_use, ..Directory::default() };
    }

    /// As [`Directory::begin`], if it is not the listing of before.
    pub(super) fn begin_if_other(
        &mut self,
        listing: Arc<[DirEntry]>,
        now: Monotonic,
        figures: &mut StataheadFigures,
    ) {
        if !Arc::ptr_eq(&listing, &self.listing) {
            self.begin(listing, now, figures);
        }
    }

    /// Another listing: places mean something else.
    pub(super) fn begin(
        &mut self,
        listing: Arc<[DirEntry]>,
        now: Monotonic,
        figures: &mut StataheadFigures,
    ) {
        let &mut Directory { mut rests_until, mut rest, last_use, .. } = self;
        if self.fetched >= TRIAL {
            if self.used * USED_ONE_IN < self.fetched {
                figures.wrong += 1;
                rest = (rest * 2).clamp(REST[0], REST[1]);
                rests_until = Some(now + rest);
            } else {
                rest = Duration::ZERO;
            }
        }
        let window_of = vec![0; listing.len()];
        *self =
            Directory { listing, window_of, rests_until, rest, last_use, ..Directory::default() };
    }

    fn miss(
        &mut self,
        name: &Name,
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        now: Monotonic,
        figures: &mut StataheadFigures,
    ) -> OnMiss {
        let Some(place) = self.place(name) else { return OnMiss::Ask };
        let is_first = self.missed.insert(place);
        if self.showed.is_some() && !is_first {
            return OnMiss::Ask;
        }
        self.misses += 1;
        if self.misses < MISSES || self.rests(now) {
            return OnMiss::Ask;
        }
        figures.misses += 1;
        if let Some(done) = self.done(place) {
            // Its sender is gone when the answer is learnt.
            return match done.has_changed() {
                Ok(_) => OnMiss::Wait(done.clone()),
                Err(_) => self.lost((place, is_first), max, is_known, figures),
            };
        }
        self.window(place, max, is_known, figures).map_or(OnMiss::Ask, OnMiss::Fetch)
    }

    /// The end of the window that has a place.
    fn done(&self, place: usize) -> Option<&watch::Receiver<()>> {
        self.windows.get(usize::from(self.window_of[place]).checked_sub(1)?)
    }

    /// An entry is missed that was fetched.
    fn lost(
        &mut self,
        (place, is_first): (usize, bool),
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        figures: &mut StataheadFigures,
    ) -> OnMiss {
        if is_known(self.listing[place].fid) {
            // It is asked for because the kernel knows better than its lock says.
            return OnMiss::Ask;
        }
        let again = &mut self.again;
        again.missed += 1;
        again.size = match self.window_of[place] == again.window {
            // Their writer went on too soon.
            _ if self.showed.is_some() => PAUSED_MAX,
            true => 1,
            false => (again.size * AGAIN_GROWS).clamp(1, WINDOW_MAX),
        };
        let most = TRIAL + USED_ONE_IN * (self.used + again.missed) - again.fetched;
        let size = again.size.min(max).min(usize::try_from(most).unwrap_or(usize::MAX));
        if size < 2 {
            return OnMiss::Ask;
        }
        let is_over =
            |place: usize| self.done(place).is_none_or(|done| done.has_changed().is_err());
        let around = (place..self.listing.len()).chain(0..place).take(size * AROUND);
        let missing = |place: &usize| is_over(*place) && !is_known(self.listing[*place].fid);
        let places: Vec<usize> = around.filter(missing).take(size).collect();
        let count = places.len() as u64;
        let Some(mut window) = self.begin_window(&places) else { return OnMiss::Ask };
        window.again = is_first;
        (self.again.window, self.again.fetched) =
            (self.window_of[place], self.again.fetched + count);
        figures.total += count;
        OnMiss::Fetch(window)
    }

    pub(super) fn place(&self, name: &Name) -> Option<usize> {
        self.listing.binary_search_by(|entry| entry.name.cmp(name)).ok()
    }

    pub(super) fn rests(&self, now: Monotonic) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// The next window, from a place on.
    pub(super) fn window(
        &mut self,
        place: usize,
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        figures: &mut StataheadFigures,
    ) -> Option<Window> {
        let size = (self.size * GROWS).clamp(WINDOW_FIRST, WINDOW_MAX).min(max);
        let around = (place..self.listing.len()).chain(0..place);
        let missing =
            |place: &usize| self.window_of[*place] == 0 && !is_known(self.listing[*place].fid);
        let places: Vec<usize> = around.filter(missing).take(size).collect();
        let window = self.begin_window(&places)?;
        figures.lists += u64::from(self.size == 0);
        self.size = size;
        self.goes_on = places.len() == size;
        self.fetched += places.len() as u64;
        figures.total += places.len() as u64;
        Some(window)
    }

    /// A window of these places; `None`: there are none, or too many windows.
    fn begin_window(&mut self, places: &[usize]) -> Option<Window> {
        let number = u16::try_from(self.windows.len() + 1).ok().filter(|_| !places.is_empty())?;
        let done = watch::Sender::new(());
        self.windows.push(done.subscribe());
        places.iter().for_each(|place| self.window_of[*place] = number);
        let fids = places.iter().map(|place| self.listing[*place].fid).collect();
        Some(Window { fids, again: false, done })
    }
}

/// What the tests of both uses look at.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use types::attr::FileType;

    pub(crate) const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    pub(crate) fn name(n: usize) -> Name {
        Name::new(format!("f{n:06}").as_bytes()).unwrap()
    }

    pub(crate) fn fid(n: usize) -> Fid {
        Fid { oid: 10 + n as u32, ..DIR }
    }

    pub(crate) fn listing(count: usize) -> Arc<[DirEntry]> {
        let entry = |n| DirEntry {
            name: name(n),
            fid: fid(n),
            file_type: FileType::Regular,
            entry: None,
            layout: None,
        };
        (0..count).map(entry).collect()
    }

    pub(crate) fn at(seconds: u64) -> Monotonic {
        Monotonic::default() + Duration::from_secs(seconds)
    }
}
