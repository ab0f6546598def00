//! The next files of a directory: which to open and read before a program does.
//!
//! A program that copies or searches a directory opens one file after the other and reads each. The
//! second one that it had to wait for, in an order that is known, begins it: by name, as the
//! directory is listed, or by number, as many programs sort what they list. Then the MDT is asked
//! for what an open brings (attributes, layout, the locks of a reader) of the next [`ASKED_FIRST`]
//! files in one request, of [`ASKED_MAX`] once one of them was opened. If the program must look the
//! second one up, it begins there: that request is the lookup, too, and the open of that file needs
//! none. With the open of the second file the first bytes of those behind it are fetched.
//!
//! A file that was opened without a request counts when the kernel reads its beginning: it has no
//! pages of it. Then the bytes of files behind it that need no request either are fetched, too.
//!
//! Waste is bounded: [`HELD_FIRST`] files have bytes ahead of the program, and twice as many with
//! each of them that was opened, up to [`HELD_MAX`]. So the first ones come before the others, and
//! the line is soon full. Those that no program opens within [`EXPIRY`] lose them. The bytes
//! are part of the budget and of the account of read-ahead (docs/read-ahead.md). Files that are
//! opened without a request, and read from the kernel's pages, begin nothing. A lookup begins
//! nothing more until a file of that directory was opened.
//!
//! This file decides; `ops/files_ahead.rs` acts.

use env::clock::Monotonic;
use foldhash::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use types::attr::FileType;
use types::fid::Fid;
use types::name::Name;
use wire::mds::DirEntry;

/// Directories that are followed; beyond it the one that was used longest ago goes.
const DIRECTORIES_MAX: usize = 16;
/// Entries of one listing that are followed; of a larger one only the first ones.
const FILES_MAX: usize = 1 << 16;
/// A program that leaves out less than so many files goes on in order.
const SKIP_MAX: usize = 4;
/// Files ahead of the program of which the MDT was asked: at first, and at most.
const ASKED_FIRST: usize = 64;
const ASKED_MAX: usize = 256;
/// Files with bytes ahead of the program: at first, and at most.
const HELD_FIRST: usize = 4;
const HELD_MAX: usize = 64;
/// After this time a file that no program opened loses its bytes.
pub(crate) const EXPIRY: Duration = Duration::from_secs(5);

/// Neighbours in a listing, to ask the MDT for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// They are behind this name; `None`: at the beginning.
    pub(crate) after: Option<Name>,
    /// So many entries.
    pub(crate) count: u32,
}

/// Files to ask the MDT for.
#[derive(Debug)]
pub(crate) struct FileBatch {
    /// Their directory.
    pub(crate) dir: Fid,
    /// Where they are.
    pub(crate) runs: Vec<Run>,
    /// They themselves, in the order of the program.
    pub(crate) files: Vec<Fid>,
    /// Dropped when the answer is learnt: it wakes those that wait.
    pub(crate) done: watch::Sender<()>,
}

/// What is to be done now.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Ask for these.
    pub(crate) ask: Option<FileBatch>,
    /// Fetch those of the file that was opened, before all others: the program reads it now.
    pub(crate) fetch_own: bool,
    /// Fetch the first bytes of these, of this directory.
    pub(crate) fetch: Vec<Fid>,
    pub(crate) dir: Option<Fid>,
}

/// Bytes that no program wanted; they go with the value.
pub(crate) struct Gone<B> {
    /// None are left.
    pub(crate) is_last: bool,
    _bytes: Vec<B>,
}

/// What a lookup does whose name no lock covers.
#[derive(Debug)]
pub(crate) enum OnLookup {
    /// It asks the MDT itself.
    Ask,
    /// The file is on its way: it waits for the end of this, then looks again.
    Wait(watch::Receiver<()>),
    /// It asks for these files, its own among them.
    Fetch(FileBatch),
}

/// See the module. `B`: what keeps the bytes of a file.
pub(crate) struct FilesAhead<B> {
    walks: VecDeque<Walk>,
    /// Directories that were not known as a whole when a program opened this file of them.
    begun: VecDeque<(Fid, Fid)>,
    coming: HashMap<Fid, watch::Receiver<()>>,
    held: HashMap<Fid, (B, Monotonic)>,
    /// A task looks after those that are held.
    is_watched: bool,
}

/// A directory whose files are being opened, the newest use last.
struct Walk {
    dir: Fid,
    /// In name order. Only a hint: it may be older than the directory.
    listing: Arc<[DirEntry]>,
    /// Places of its files: by name, and by number.
    orders: [Vec<u32>; 2],
    /// Where the program is in each order, and how many files it opened there one after the other.
    at: [Option<usize>; 2],
    run: [u32; 2],
    /// The order that is followed.
    order: usize,
    /// Up to here, in that order, the MDT was asked.
    asked: usize,
    /// Files that it answered, in that order.
    ready: VecDeque<Fid>,
    /// So many of those that were asked for were opened.
    used: u32,
    /// The file that was opened last, if its bytes were fetched ahead, or are now.
    ahead: Option<Fid>,
    /// The kernel has no pages of files that were opened without a request.
    reads: bool,
    /// The lookup of this file asked for it and those behind it, and no file was opened since.
    looked: Option<Fid>,
}

impl<B> Default for FilesAhead<B> {
    fn default() -> FilesAhead<B> {
        let (walks, begun) = (VecDeque::new(), VecDeque::new());
        let (coming, held) = (HashMap::default(), HashMap::default());
        FilesAhead { walks, begun, coming, held, is_watched: false }
    }
}

impl<B> FilesAhead<B> {
    /// True if nothing is followed, nor may be from the next file on: neither a lookup nor an open
    /// that needs no request changes anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.walks.is_empty() && self.begun.is_empty()
    }

    /// What the open of a file must wait for, because the file was asked for.
    pub(crate) fn coming(&self, file: Fid) -> Option<watch::Receiver<()>> {
        self.coming.get(&file).cloned()
    }

    /// The directory of a file, if it is followed.
    pub(crate) fn dir_of(&self, file: Fid) -> Option<Fid> {
        self.walks.iter().find(|walk| walk.places(file).is_some()).map(|walk| walk.dir)
    }

    /// A program looks a name up that no lock covers. `listing`: as for [`FilesAhead::opened`].
    pub(crate) fn looked(
        &mut self,
        dir: Fid,
        name: &Name,
        listing: Option<Arc<[DirEntry]>>,
        is_known: impl Fn(Fid) -> bool,
    ) -> OnLookup {
        let was_begun = self.begun.iter().any(|(begun, _)| *begun == dir);
        let Some(walk) = self.walk(dir, listing, was_begun) else { return OnLookup::Ask };
        let Some(file) = walk.file(name) else { return OnLookup::Ask };
        if let Some(done) = self.coming.get(&file) {
            return OnLookup::Wait(done.clone());
        }
        if is_known(file) {
            return OnLookup::Ask;
        }
        let coming = &self.coming;
        let Some(walk) = self.walks.back_mut() else { return OnLookup::Ask };
        let batch = walk.ask_from(file, |file| is_known(file) || coming.contains_key(&file));
        let Some(batch) = batch else { return OnLookup::Ask };
        self.comes(&batch);
        OnLookup::Fetch(batch)
    }

    /// A program opened a file of a directory to read it. `missed`: it had to wait. `listing`: the
    /// directory as it is known; `None`: not as a whole, at the moment. `is_known`: an open of a
    /// file needs no request.
    pub(crate) fn opened(
        &mut self,
        (dir, file): (Fid, Fid),
        missed: bool,
        listing: Option<Arc<[DirEntry]>>,
        is_known: impl Fn(Fid) -> bool,
    ) -> Steps {
        let was_ahead = self.held.remove(&file).is_some() || self.coming.contains_key(&file);
        let Some(walk) = self.walk(dir, listing, missed) else {
            if missed {
                self.begun.retain(|(begun, _)| *begun != dir);
                self.begun.truncate(DIRECTORIES_MAX - 1);
                self.begun.push_front((dir, file));
            }
            return Steps::default();
        };
        // An open that is asked of the MDT brings what it can by itself.
        let fetch_own = walk.looked.take() == Some(file) && !missed;
        let missed = missed || fetch_own;
        let was_ready = walk.came_to(file);
        walk.used = walk.used.saturating_add(u32::from(was_ahead || was_ready));
        walk.ahead = (was_ahead || fetch_own).then_some(file);
        if !walk.goes_on(file) || !(missed || was_ahead || was_ready) {
            return Steps::default();
        }
        let coming = &self.coming;
        let Some(walk) = self.walks.back_mut() else { return Steps::default() };
        let ask = walk.next(|file| is_known(file) || coming.contains_key(&file));
        ask.iter().for_each(|batch| self.comes(batch));
        Steps { ask, fetch_own, fetch: self.next_to_fetch(dir), dir: Some(dir) }
    }

    /// The kernel reads the beginning of a file that a program opened without a request. `listing`:
    /// as for [`FilesAhead::opened`].
    pub(crate) fn read(
        &mut self,
        (dir, file): (Fid, Fid),
        listing: Option<Arc<[DirEntry]>>,
        is_known: impl Fn(Fid) -> bool,
    ) -> Steps {
        match self.walks.iter_mut().find(|walk| walk.dir == dir) {
            Some(walk) if walk.ahead == Some(file) => return Steps::default(),
            Some(walk) => walk.reads = true,
            None => {}
        }
        self.opened((dir, file), true, listing, is_known)
    }

    /// A directory that is followed, now as the one used last. If it is not yet, and `begins`, it
    /// is from now on; the file with which a program began there counts.
    fn walk(
        &mut self,
        dir: Fid,
        listing: Option<Arc<[DirEntry]>>,
        begins: bool,
    ) -> Option<&mut Walk> {
        let found = self.walks.iter().position(|walk| walk.dir == dir);
        let walk = match (found, listing) {
            (Some(at), listing) => {
                let walk = self.walks.remove(at)?;
                match listing.filter(|new| !Arc::ptr_eq(new, &walk.listing)) {
                    Some(listing) => Walk::new(dir, listing),
                    None => walk,
                }
            }
            (None, Some(listing)) if begins => {
                let mut walk = Walk::new(dir, listing);
                let begun = self.begun.iter().position(|(begun, _)| *begun == dir);
                let begun = begun.and_then(|at| self.begun.remove(at));
                begun.into_iter().for_each(|(_, file)| _ = walk.goes_on(file));
                walk
            }
            (None, _) => return None,
        };
        if self.walks.len() >= DIRECTORIES_MAX {
            self.walks.pop_front();
        }
        self.walks.push_back(walk);
        self.walks.back_mut()
    }

    /// Files are asked for.
    fn comes(&mut self, batch: &FileBatch) {
        let done = batch.done.subscribe();
        self.coming.extend(batch.files.iter().map(|file| (*file, done.clone())));
    }

    /// A batch of this directory was answered, or will not be. Files whose bytes are to be fetched.
    pub(crate) fn answered(&mut self, dir: Fid, files: &[Fid]) -> Vec<Fid> {
        let walk = self.walks.iter_mut().find(|walk| walk.dir == dir);
        // Those that a program did not open meanwhile: an open waits for the batch.
        if let Some(walk) = walk {
            let looked = walk.looked;
            walk.ready.extend(files.iter().filter(|file| looked != Some(**file)));
        }
        files.iter().for_each(|file| _ = self.coming.remove(file));
        self.next_to_fetch(dir)
    }

    /// Files of a directory whose bytes are to be fetched: as many as there is room for. Few are
    /// left until there is room for more, so that those on an MDT share a request.
    pub(crate) fn next_to_fetch(&mut self, dir: Fid) -> Vec<Fid> {
        let held = self.held.len();
        let Some(walk) = self.walks.iter_mut().find(|walk| walk.dir == dir) else {
            return Vec::new();
        };
        if walk.run[walk.order] == 0 {
            // No second file was opened.
            return Vec::new();
        }
        let most = walk.held_max();
        let (room, ready) = (most.saturating_sub(held), walk.ready.len());
        let count = if room < ready.min(most / 4) { 0 } else { room.min(ready) };
        walk.ready.drain(..count).collect()
    }

    /// True if few files that were asked for ahead were opened yet: what is fetched now is wanted
    /// at once, in order.
    pub(crate) fn begins(&self, dir: Fid) -> bool {
        self.walks.iter().any(|walk| walk.dir == dir && walk.held_max() < HELD_MAX)
    }

    /// The bytes of a file are on their way. True if a task must look after them from now on.
    #[must_use]
    pub(crate) fn hold(&mut self, file: Fid, bytes: B, now: Monotonic) -> bool {
        self.held.insert(file, (bytes, now));
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// Lets bytes go that no program wanted. If none are left, its task may end.
    pub(crate) fn expire(&mut self, now: Monotonic) -> Gone<B> {
        let is_old = |since: Monotonic| now.saturating_sub(since) >= EXPIRY;
        let gone = self.held.extract_if(|_, (_, since)| is_old(*since));
        let _bytes = gone.map(|(_, (bytes, _))| bytes).collect();
        self.is_watched = !self.held.is_empty();
        Gone { is_last: self.held.is_empty(), _bytes }
    }
}

impl Walk {
    fn new(dir: Fid, listing: Arc<[DirEntry]>) -> Walk {
        let files = listing.iter().zip(0u32..).take(FILES_MAX);
        // Another MDT has the others.
        let files = files.filter(|(entry, _)| {
            entry.file_type == FileType::Regular && entry.fid.mdt() == dir.mdt()
        });
        let by_name: Vec<u32> = files.map(|(_, place)| place).collect();
        let mut by_number = by_name.clone();
        by_number.sort_unstable_by_key(|place| listing[*place as usize].fid.ino());
        Walk {
            dir,
            listing,
            orders: [by_name, by_number],
            at: [None; 2],
            run: [0; 2],
            order: 0,
            asked: 0,
            ready: VecDeque::new(),
            used: 0,
            ahead: None,
            reads: false,
            looked: None,
        }
    }

    /// Files that may have bytes ahead of the program now.
    fn held_max(&self) -> usize {
        HELD_MAX.min(HELD_FIRST << self.used.min(HELD_MAX.ilog2()))
    }

    /// The file of a name.
    fn file(&self, name: &Name) -> Option<Fid> {
        let place = self.listing.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
        Some(self.listing[place].fid)
    }

    /// The program opened a file. True if it was asked for and its bytes were not; so were those
    /// before it, which the program left out.
    fn came_to(&mut self, file: Fid) -> bool {
        let at = self.ready.iter().take(SKIP_MAX).position(|ready| *ready == file);
        if let Some(at) = at {
            self.ready.drain(..=at);
        }
        at.is_some()
    }

    /// Where a file is in each order.
    fn places(&self, file: Fid) -> Option<[usize; 2]> {
        let ino = |place: &u32| self.listing[*place as usize].fid.ino();
        let by_number = self.orders[1].binary_search_by_key(&file.ino(), ino).ok()?;
        let by_name = self.orders[0].binary_search(&self.orders[1][by_number]).ok()?;
        Some([by_name, by_number])
    }

    /// The program is there now. True if it goes on in the order that is followed.
    fn goes_on(&mut self, file: Fid) -> bool {
        let Some(places) = self.places(file) else { return false };
        for (order, place) in places.into_iter().enumerate() {
            let before = self.at[order].replace(place);
            match before.map(|before| place.wrapping_sub(before)) {
                Some(0) => {}
                Some(1..=SKIP_MAX) => self.run[order] = self.run[order].saturating_add(1),
                _ => self.run[order] = 0,
            }
        }
        let order = match self.run[self.order] {
            0 => self.run.iter().position(|run| *run > 0),
            _ => Some(self.order),
        };
        let Some(order) = order else {
            // It went elsewhere.
            (self.used, self.reads, self.asked) = (0, false, 0);
            self.ready.clear();
            return false;
        };
        if order != self.order {
            (self.order, self.asked) = (order, 0);
            self.ready.clear();
        }
        true
    }

    /// A file that would go on in an order is about to be looked up: it and those behind it, to
    /// be asked for.
    fn ask_from(&mut self, file: Fid, is_known: impl Fn(Fid) -> bool) -> Option<FileBatch> {
        let places = self.places(file).filter(|_| self.looked.is_none())?;
        let follows = |order: usize| {
            let before = self.at[order]?;
            (1..=SKIP_MAX).contains(&places[order].checked_sub(before)?).then_some(order)
        };
        let order = follows(self.order).or_else(|| follows(1 - self.order))?;
        if order != self.order {
            (self.order, self.asked) = (order, 0);
            self.ready.clear();
        }
        if places[order] < self.asked {
            // It was asked for, and something took its locks.
            return None;
        }
        self.asked = places[order];
        let batch = self.next(is_known)?;
        self.looked = Some(file);
        Some(batch)
    }

    /// The next files to ask for, if enough of those that were asked for are used up.
    fn next(&mut self, is_known: impl Fn(Fid) -> bool) -> Option<FileBatch> {
        let order = &self.orders[self.order];
        let here = self.at[self.order]? + 1;
        self.asked = self.asked.max(here);
        let window = if self.used > 0 { ASKED_MAX } else { ASKED_FIRST };
        let ahead = self.asked - here;
        if ahead > window / 2 {
            return None;
        }
        let end = (here + window).min(order.len());
        let places = order.get(self.asked..end).unwrap_or_default();
        let fid = |place: &u32| self.listing[*place as usize].fid;
        let (known, places): (Vec<u32>, Vec<u32>) =
            places.iter().partition(|place| is_known(fid(place)));
        if self.reads {
            self.ready.extend(known.iter().map(fid));
        }
        self.asked = self.asked.max(end);
        if places.is_empty() {
            return None;
        }
        let files = places.iter().map(|place| self.listing[*place as usize].fid).collect();
        let (dir, runs, done) = (self.dir, self.runs(places), watch::Sender::new(()));
        Some(FileBatch { dir, runs, files, done })
    }

    /// Places as runs of neighbours.
    fn runs(&self, mut places: Vec<u32>) -> Vec<Run> {
        places.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        let mut next = None;
        for place in places {
            match runs.last_mut().filter(|_| next == Some(place)) {
                Some(run) => run.count += 1,
                None => {
                    let before = place.checked_sub(1).map(|before| before as usize);
                    let after = before.map(|before| self.listing[before].name.clone());
                    runs.push(Run { after, count: 1 });
                }
            }
            next = Some(place + 1);
        }
        runs
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
