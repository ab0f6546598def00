//! Statahead: which attributes to fetch before programs ask.
//!
//! A program that lists a directory and then looks at each entry (`find`, `du`, `rm -r`) meets
//! names that the listing taught, without attributes. The second such miss in a directory fetches
//! the attributes of [`WINDOW_FIRST`] entries at once: the one that was missed, and those behind it
//! that were not fetched yet. Each further miss fetches [`GROWS`] times as many, up to
//! [`WINDOW_MAX`]. So the order in which a program looks hardly matters.
//!
//! The first page of a listing comes with attributes. If the program then asked for names only, and
//! looks at [`LOOKS`] entries of the first page after that, the first window is fetched before it
//! misses any. So is each further one, once it looked at one in [`GOES_ON_AFTER`] entries that were
//! fetched.
//!
//! A directory whose names are all known is listed from memory, also where attributes are not
//! known: then the first miss fetches the first window.
//!
//! What was fetched may be missed all the same: others called its locks back, the MDT had no room
//! for more, or this mount had none. The first such miss asks for itself. The next one fetches
//! [`AGAIN_GROWS`] of those that are missing, from its name on, and each further one so many times
//! as many as the one before it. A miss of what was fetched last begins anew.
//!
//! Another client may be writing what is missing. Then nothing is granted unless it stops for that
//! (`GetattrMany`, `pause`), so entries that are fetched again are asked for so. A listing that
//! the kernel wanted with attributes shows which files these are, before one is missed. Another
//! instance of [`Statahead`] has them ([`Statahead::showed`]) and fetches them in the same way,
//! [`PAUSED_MAX`] at once. A program that looks at the same file again and again stops no writer of
//! others: only the first miss of each entry does.
//!
//! Waste is bounded: an entry is fetched once per listing, so all of it costs what `ls -l` would
//! have. Entries that are fetched again are at most [`TRIAL`], and [`USED_ONE_IN`] for each one
//! that was looked at. If [`TRIAL`] entries of one listing or more were fetched and fewer than one
//! in [`USED_ONE_IN`] was looked at, the next listings of that directory fetch nothing for a while.
//!
//! What is fetched is kept under locks as everything else is, and handed out by lookups only
//! (docs/client.md). This file decides; `ops/statahead.rs` acts.

use env::clock::Monotonic;
use env::watch;
use foldhash::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// Entries of the first window.
const WINDOW_FIRST: usize = 2048;
/// Entries of a window, at most: one request, half of what one may ask for.
pub(crate) const WINDOW_MAX: usize = 16_384;
/// Each window is so many times the one before it.
const GROWS: usize = 4;
/// The next window is fetched before it is missed once one in so many entries was looked at.
const GOES_ON_AFTER: u64 = 4;
/// Files that are being written, of a window: about what a program looks at within a round trip.
pub(crate) const PAUSED_MAX: usize = WINDOW_FIRST;
/// Misses before the first window.
const MISSES: u32 = 2;
/// Looks at entries with attributes before the first window of a directory of which the rest was
/// listed without.
const LOOKS: u32 = 3;
/// Directories that are watched; beyond it the one that was used longest ago goes.
const DIRECTORIES_MAX: usize = 256;
/// Directories of which a program asked for names only, and that it did not look at yet.
const NAMED_MAX: usize = 64;
/// Entries of their listings in all, about 100 MB; beyond it the same.
const ENTRIES_MAX: usize = 1 << 20;
/// Entries that are looked at, to find one that was lost.
const AROUND: usize = 64;
/// Each window of entries that were lost is so many times the one before it.
const AGAIN_GROWS: usize = 4;
/// Entries fetched of a listing from which on their use is looked at.
const TRIAL: u64 = 4096;
/// Of so many fetched entries one must have been looked at.
const USED_ONE_IN: u64 = 64;
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

/// See the module.
#[derive(Default)]
pub(crate) struct Statahead {
    directories: HashMap<Fid, Directory>,
    /// Looks at directories of which a program asked for names only, the newest last.
    named: VecDeque<(Fid, u32)>,
    /// Counts misses, to tell which use is older.
    uses: u64,
    pub(crate) figures: StataheadFigures,
}

#[derive(Default)]
struct Directory {
    /// In name order. Only a hint: it may be older than the directory.
    listing: Arc<[DirEntry]>,
    misses: u32,
    /// Entries of the newest window; 0: there was none.
    size: usize,
    /// By place in the listing: the number of the window that has it, from 1 on; 0: none.
    window_of: Vec<u16>,
    /// Ends of the windows, by number.
    windows: Vec<watch::Receiver<()>>,
    fetched: u64,
    used: u64,
    again: Again,
    /// Places that were missed.
    missed: HashSet<usize>,
    /// Of files that were shown without locks: places, and that each is fetched for its first miss
    /// only.
    showed: Option<HashMap<Fid, usize>>,
    /// More may be fetched before it is missed.
    goes_on: bool,
    rests_until: Option<Monotonic>,
    rest: Duration,
    last_use: u64,
}

/// Entries that are missed though they were fetched.
#[derive(Default)]
struct Again {
    /// Misses of such entries.
    missed: u64,
    /// Entries fetched again.
    fetched: u64,
    /// Entries of the newest window of these; 1: the miss asked for itself.
    size: usize,
    /// Its number.
    window: u16,
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
        self.uses += 1;
        let directory = self.directories.entry(dir).or_default();
        directory.last_use = self.uses;
        // What was fetched before may have been called back since.
        directory.begin(listing, now, &mut self.figures);
        directory.misses = MISSES - 1;
        let will_do = !directory.rests(now);
        self.make_room();
        will_do
    }

    /// A listing showed these entries of a directory without locks on their attributes: other
    /// clients write them. `goes_on`: behind those that it showed before.
    pub(crate) fn showed(&mut self, dir: Fid, listing: Arc<[DirEntry]>, goes_on: bool) {
        let before = self.directories.remove(&dir);
        if listing.is_empty() {
            return;
        }
        self.uses += 1;
        // A program that looked at those before looks at each.
        let looks = before.is_some_and(|before| before.misses >= MISSES) && goes_on;
        let (window_of, misses) = (vec![0; listing.len()], if looks { MISSES - 1 } else { 0 });
        let last_use = self.uses;
        let showed = Some(listing.iter().map(|entry| entry.fid).zip(0..).collect());
        let directory =
            Directory { listing, window_of, misses, showed, last_use, ..Directory::default() };
        self.directories.insert(dir, directory);
        self.make_room();
    }

    /// The directory and the name with which such an inode was shown.
    pub(crate) fn name_of(&self, fid: Fid) -> Option<(Fid, Name)> {
        self.directories.iter().find_map(|(dir, directory)| {
            let place = *directory.showed.as_ref()?.get(&fid)?;
            Some((*dir, directory.listing.get(place)?.name.clone()))
        })
    }

    /// True if the listing of a directory that is remembered has this name.
    pub(crate) fn has(&self, dir: Fid, name: &Name) -> bool {
        self.directories.get(&dir).is_some_and(|directory| directory.place(name).is_some())
    }

    /// A lookup in a directory found attributes under locks. True if those of the other entries
    /// will be wanted, too: [`Statahead::rest`] has them.
    #[must_use]
    pub(crate) fn hit(&mut self, dir: Fid) -> bool {
        if let Some(directory) =
            self.directories.get_mut(&dir).filter(|directory| directory.size > 0)
        {
            directory.used += 1;
            self.figures.hits += 1;
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
        self.uses += 1;
        let directory = self.directories.entry(dir).or_default();
        directory.last_use = self.uses;
        if !Arc::ptr_eq(&listing, &directory.listing) {
            directory.begin(listing, now, &mut self.figures);
        }
        directory.misses = directory.misses.max(MISSES);
        let place = directory.place(name);
        let window = place
            .filter(|_| !directory.rests(now))
            .and_then(|place| directory.window(place, max, is_known, &mut self.figures));
        self.make_room();
        window
    }

    /// A lookup in a directory found no attributes. `listing`: the directory as it is known;
    /// `None`: not as a whole, at the moment. `max`: entries of a window, at most; 0: nothing is
    /// fetched. `is_known`: the attributes of an inode are covered.
    pub(crate) fn miss(
        &mut self,
        (dir, name): (Fid, &Name),
        listing: Option<Arc<[DirEntry]>>,
        max: usize,
        is_known: impl Fn(Fid) -> bool,
        now: Monotonic,
    ) -> OnMiss {
        if max == 0 || listing.is_none() && !self.directories.contains_key(&dir) {
            return OnMiss::Ask;
        }
        self.uses += 1;
        let directory = self.directories.entry(dir).or_default();
        directory.last_use = self.uses;
        if let Some(listing) = listing.filter(|listing| !Arc::ptr_eq(listing, &directory.listing)) {
            directory.begin(listing, now, &mut self.figures);
        }
        let on_miss = directory.miss(name, max, is_known, now, &mut self.figures);
        self.make_room();
        on_miss
    }

    fn make_room(&mut self) {
        let entries = |directories: &HashMap<Fid, Directory>| {
            directories.values().map(|d| d.listing.len()).sum::<usize>()
        };
        while self.directories.len() > DIRECTORIES_MAX || entries(&self.directories) > ENTRIES_MAX {
            let oldest = self
                .directories
                .iter()
                .min_by_key(|(_, directory)| directory.last_use)
                .map(|(fid, _)| *fid);
            let Some(oldest) = oldest else { return };
            self.directories.remove(&oldest);
        }
    }
}

impl Directory {
    /// Another listing: places mean something else.
    fn begin(&mut self, listing: Arc<[DirEntry]>, now: Monotonic, figures: &mut StataheadFigures) {
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

    fn place(&self, name: &Name) -> Option<usize> {
        self.listing.binary_search_by(|entry| entry.name.cmp(name)).ok()
    }

    fn rests(&self, now: Monotonic) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// The next window, from a place on.
    fn window(
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use types::attr::FileType;

    const DIR: Fid = Fid { seq: Fid::SEQ_NORMAL, oid: 1, ver: 0 };

    fn name(n: usize) -> Name {
        Name::new(format!("f{n:06}").as_bytes()).unwrap()
    }

    fn fid(n: usize) -> Fid {
        Fid { oid: 10 + n as u32, ..DIR }
    }

    fn listing(count: usize) -> Arc<[DirEntry]> {
        let entry = |n| DirEntry {
            name: name(n),
            fid: fid(n),
            file_type: FileType::Regular,
            entry: None,
            layout: None,
        };
        (0..count).map(entry).collect()
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::default() + Duration::from_secs(seconds)
    }

    /// Looks at entries in this order; the number of waits. A window is there at once.
    fn waits(count: usize, order: impl Iterator<Item = usize>) -> usize {
        let (mut statahead, listing) = (Statahead::default(), listing(count));
        let (mut known, mut fetched) = (BTreeSet::new(), BTreeSet::new());
        let mut waits = 0;
        for n in order {
            if known.contains(&fid(n)) {
                _ = statahead.hit(DIR);
                continue;
            }
            waits += 1;
            match statahead.miss(
                (DIR, &name(n)),
                Some(listing.clone()),
                WINDOW_MAX,
                |_| false,
                at(0),
            ) {
                OnMiss::Ask => _ = known.insert(fid(n)),
                OnMiss::Fetch(window) => {
                    assert!(window.fids.contains(&fid(n)) && window.fids.len() <= WINDOW_MAX);
                    assert!(
                        window.fids.iter().all(|fid| fetched.insert(*fid)),
                        "nothing is fetched twice"
                    );
                    known.extend(window.fids);
                }
                OnMiss::Wait(_) => panic!("nothing is on its way"),
            }
        }
        waits
    }

    #[test]
    fn a_large_directory_costs_few_waits_in_any_order() {
        let count = 100_000;
        assert!(waits(count, 0..count) <= 13, "{}", waits(count, 0..count));
        // By inode of a directory whose names say nothing about it: 7,919 is prime to the count.
        let hashed = (0..count).map(|n| n * 7_919 % count);
        assert!(waits(count, hashed.clone()) <= 13, "{}", waits(count, hashed));
        assert_eq!(waits(16, 0..16), 2);
    }

    /// Looks at all entries in order. Until this many waits an MDT without room grants nothing for
    /// what is fetched. Returns waits, and entries that were fetched again.
    fn waits_without_locks(count: usize, until: usize) -> (usize, u64) {
        let (mut statahead, listing) = (Statahead::default(), listing(count));
        let (mut known, mut fetched) = (BTreeSet::new(), BTreeSet::new());
        let mut waits = 0;
        for n in 0..count {
            if known.contains(&fid(n)) {
                _ = statahead.hit(DIR);
                continue;
            }
            waits += 1;
            let is_known = |fid: Fid| known.contains(&fid);
            let listing = Some(listing.clone());
            match statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, is_known, at(0)) {
                OnMiss::Ask => _ = known.insert(fid(n)),
                // The lookup asks for itself then.
                OnMiss::Fetch(window) if waits <= until => {
                    known.insert(fid(n));
                    fetched.extend(window.fids);
                }
                OnMiss::Fetch(window) => {
                    let is_lost = window.fids.iter().any(|fid| fetched.contains(fid));
                    assert_eq!(window.again, is_lost, "what came without locks is paused");
                    known.extend(window.fids);
                }
                OnMiss::Wait(_) => panic!("nothing is on its way"),
            }
        }
        (waits, statahead.directories[&DIR].again.fetched)
    }

    #[test]
    fn what_came_without_locks_is_fetched_again_in_few_waits() {
        let count = 50_000;
        let (waits, again) = waits_without_locks(count, 40);
        assert!(waits <= 60 && again <= count as u64, "{waits} waits, {again} fetched again");
        // The MDT never has room.
        let (waits, again) = waits_without_locks(count, usize::MAX);
        assert!(waits == count && again <= 2 * count as u64, "{waits} waits, {again} in vain");
    }

    #[test]
    fn looks_at_what_others_change_all_the_time_fetch_little_of_the_rest() {
        let (mut statahead, listing) = (Statahead::default(), listing(100_000));
        let looks = 1000;
        let mut fetched = 0;
        for look in 0..looks {
            let n = [7, 30_000, 60_000][look % 3];
            let listing = Some(listing.clone());
            let miss = statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| false, at(0));
            if let OnMiss::Fetch(window) = miss {
                fetched += window.fids.len();
            }
        }
        let once = fetched - statahead.directories[&DIR].again.fetched as usize;
        assert!(once <= 2 * WINDOW_MAX, "{once}");
        let most = TRIAL as usize + USED_ONE_IN as usize * looks;
        assert!(fetched - once <= most, "{fetched}");
    }

    #[test]
    fn a_look_at_one_name_fetches_nothing_else() {
        let mut statahead = Statahead::default();
        let miss = |statahead: &mut Statahead, n, listing| {
            statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| false, at(0))
        };
        assert!(matches!(miss(&mut statahead, 3, Some(listing(10))), OnMiss::Ask));
        assert!(
            matches!(miss(&mut Statahead::default(), 3, None), OnMiss::Ask),
            "no listing is known"
        );
        assert!(
            matches!(miss(&mut statahead, 99, None), OnMiss::Ask),
            "the listing has no such name"
        );
        assert!(
            matches!(statahead.miss((DIR, &name(4)), None, 0, |_| false, at(0)), OnMiss::Ask),
            "switched off"
        );
        // The listing is remembered: a change of the directory does not end its use.
        assert!(matches!(miss(&mut statahead, 5, None), OnMiss::Fetch(_)));
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        let (mut statahead, listing) = (Statahead::default(), listing(10));
        let mut miss = |n| {
            statahead.miss((DIR, &name(n)), Some(listing.clone()), WINDOW_MAX, |_| false, at(0))
        };
        assert!(matches!(miss(0), OnMiss::Ask));
        let OnMiss::Fetch(window) = miss(1) else { panic!("the second miss fetches") };
        assert_eq!(window.fids, (1..10).chain([0]).map(fid).collect::<Vec<_>>());
        assert!(matches!(miss(7), OnMiss::Wait(_)));
        drop(window);
        assert!(matches!(miss(7), OnMiss::Ask), "it was called back meanwhile");
    }

    #[test]
    fn a_directory_that_is_fetched_in_vain_is_left_alone_for_a_while() {
        let mut statahead = Statahead::default();
        let fetches = |statahead: &mut Statahead, second| {
            let listing = listing(2 * WINDOW_MAX);
            let mut fetched = 0;
            for n in [0, 1, 10_000, 20_000, 30_000, 31_000] {
                let on_miss = statahead.miss(
                    (DIR, &name(n)),
                    Some(listing.clone()),
                    WINDOW_MAX,
                    |_| false,
                    at(second),
                );
                fetched += usize::from(matches!(on_miss, OnMiss::Fetch(_)));
            }
            fetched
        };
        assert_eq!(fetches(&mut statahead, 0), 4);
        assert_eq!(fetches(&mut statahead, 1), 0, "nothing of it was looked at");
        assert_eq!(statahead.figures.wrong, 1);
        assert_eq!(fetches(&mut statahead, 30), 0);
        assert_eq!(fetches(&mut statahead, 31), 4);
        assert_eq!(fetches(&mut statahead, 40), 0);
        assert_eq!(fetches(&mut statahead, 40 + 59), 0, "twice as long");
        assert_eq!(fetches(&mut statahead, 40 + 60), 4);
        (0..500).for_each(|_| _ = statahead.hit(DIR));
        assert_eq!(fetches(&mut statahead, 40 + 61), 4);
    }

    #[test]
    fn looks_at_the_first_page_fetch_the_rest_if_it_was_listed_without_attributes() {
        let (mut statahead, listing) = (Statahead::default(), listing(5000));
        let is_known = |known: Fid| (0..1024).any(|n| fid(n) == known);
        assert!((0..9).all(|_| !statahead.hit(DIR)), "its attributes came with it");
        statahead.named(DIR);
        assert!(!statahead.hit(DIR) && !statahead.hit(DIR) && statahead.hit(DIR));
        let rest = |statahead: &mut Statahead| {
            let listing = Some(listing.clone());
            statahead.rest((DIR, &name(2)), listing, WINDOW_MAX, is_known, at(0))
        };
        let window = rest(&mut statahead).expect("what it will look at");
        assert_eq!(window.fids, (1024..1024 + WINDOW_FIRST).map(fid).collect::<Vec<_>>());
        assert!(
            (1..WINDOW_FIRST / GOES_ON_AFTER as usize).all(|_| !statahead.hit(DIR)),
            "enough is on its way"
        );
        assert!(statahead.hit(DIR));
        let window = rest(&mut statahead).expect("the next window");
        assert_eq!(window.fids, (1024 + WINDOW_FIRST..5000).map(fid).collect::<Vec<_>>());
        assert!((0..5000).all(|_| !statahead.hit(DIR)), "that is all");
    }

    #[test]
    fn a_directory_that_is_listed_from_memory_is_fetched_from_its_first_miss_on() {
        let mut statahead = Statahead::default();
        let listing = listing(10);
        let miss = |statahead: &mut Statahead, n, known: bool| {
            let listing = Some(listing.clone());
            statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| known, at(0))
        };
        // What was fetched for one listing is called back before the next one.
        for _ in 0..3 {
            assert!(statahead.listed_again(DIR, listing.clone(), at(0)));
            let OnMiss::Fetch(window) = miss(&mut statahead, 4, false) else { panic!("it waits") };
            assert_eq!(window.fids, (4..10).chain(0..4).map(fid).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_directory_at_rest_is_not_listed_from_memory() {
        let (mut statahead, listing) = (Statahead::default(), listing(2 * WINDOW_MAX));
        let again =
            |statahead: &mut Statahead, at| statahead.listed_again(DIR, listing.clone(), at);
        assert!(again(&mut statahead, at(0)));
        for n in [0, 10_000, 20_000] {
            let listing = Some(listing.clone());
            _ = statahead.miss((DIR, &name(n)), listing, WINDOW_MAX, |_| false, at(0));
        }
        assert!(!again(&mut statahead, at(1)), "nothing of it was looked at");
        assert!(!again(&mut statahead, at(30)) && again(&mut statahead, at(31)));
    }

    #[test]
    fn files_that_others_write_are_fetched_together() {
        let mut written = Statahead::default();
        let miss = |written: &mut Statahead, n| {
            written.miss((DIR, &name(n)), None, PAUSED_MAX, |_| false, at(0))
        };
        let some = |from: usize, to: usize| listing(to)[from..].into();
        written.showed(DIR, some(0, 3000), false);
        assert!(written.has(DIR, &name(2999)) && !written.has(DIR, &name(3000)));
        assert!(matches!(miss(&mut written, 0), OnMiss::Ask), "one look says nothing");
        assert!(matches!(miss(&mut written, 0), OnMiss::Ask), "nor more looks at one file");
        assert_eq!(written.name_of(fid(7)), Some((DIR, name(7))));
        assert_eq!(written.name_of(fid(3000)), None);
        let OnMiss::Fetch(window) = miss(&mut written, 1) else { panic!("the second one fetches") };
        assert_eq!(window.fids, (1..1 + PAUSED_MAX).map(fid).collect::<Vec<_>>());
        drop(window);
        assert!(matches!(miss(&mut written, 1), OnMiss::Ask), "it is written again");
        let OnMiss::Fetch(window) = miss(&mut written, 2) else { panic!("it was not seen yet") };
        assert!(window.again && window.fids[0] == fid(2) && window.fids.len() == PAUSED_MAX);
        drop(window);
        // The program goes on: the next ones come with their first miss.
        written.showed(DIR, some(3000, 3010), true);
        let OnMiss::Fetch(window) = miss(&mut written, 3000) else { panic!("it waits") };
        assert_eq!(window.fids, (3000..3010).map(fid).collect::<Vec<_>>());
        written.showed(DIR, some(0, 10), false);
        assert!(matches!(miss(&mut written, 0), OnMiss::Ask), "another listing");
        written.showed(DIR, some(0, 0), false);
        assert!(!written.has(DIR, &name(0)), "nobody writes any more");
    }

    #[test]
    fn what_locks_cover_is_not_fetched() {
        let (mut statahead, listing) = (Statahead::default(), listing(100));
        let mut miss = |n| {
            let is_known = |fid: Fid| !fid.oid.is_multiple_of(10);
            statahead.miss((DIR, &name(n)), Some(listing.clone()), WINDOW_MAX, is_known, at(0))
        };
        assert!(matches!(miss(0), OnMiss::Ask));
        let OnMiss::Fetch(window) = miss(10) else { panic!("the second miss fetches") };
        assert_eq!(window.fids, (1..10).chain([0]).map(|n| fid(10 * n)).collect::<Vec<_>>());
    }

    #[test]
    fn few_directories_are_watched() {
        let mut statahead = Statahead::default();
        for n in 0..2 * DIRECTORIES_MAX {
            statahead.miss((fid(n), &name(0)), Some(listing(1)), WINDOW_MAX, |_| false, at(0));
        }
        assert_eq!(statahead.directories.len(), DIRECTORIES_MAX);
        assert!(statahead.directories.contains_key(&fid(2 * DIRECTORIES_MAX - 1)));
    }
}
