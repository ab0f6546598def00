//! Directory read-ahead: which directories to list before a program opens them.
//!
//! A program that walks through a tree (`find`, `du`, `cp -r`, `rm -r`) lists one directory after
//! the other. The second directory that was not known, of one parent whose listing is known, begins
//! it: the other directories of that parent are listed in few requests, those behind it first. What
//! comes is kept under locks, as if the program had listed it, so its own listing costs no request.
//!
//! A walk goes down, too: a directory that was listed ahead and is visited has its own directories
//! listed. After [`DESCENTS`] steps from a directory straight into one of its own, that happens as
//! soon as a listing comes, so the walk of a deep tree does not wait once per directory.
//! Directories are listed in the order of a walk that goes down first, so what is needed first
//! comes first.
//!
//! At most [`AHEAD_FIRST`] directories are listed ahead and not visited, [`GROWTH`] more for each
//! that is visited, up to [`AHEAD_MAX`], or fewer if they are large ([`AHEAD_ENTRIES`]). When half
//! of that has room, all of it is asked for, in requests that travel together. So a walk that goes
//! on at its own speed sends something once in many directories, not all the time. If the walk
//! waits for what comes next, that is asked for at once. Those that no program visits for
//! [`EXPIRY`] no longer count, and the bound begins anew. This file decides;
//! `ops/directories/ahead.rs` acts.

use env::clock::Monotonic;
use env::watch;
use foldhash::HashMap;
use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use types::fid::Fid;

/// Directories of one parent that a program had to wait for before others are listed ahead.
const MISSES: u32 = 2;
/// Steps down before directories are listed ahead of a visit of their parent.
const DESCENTS: u32 = 2;
/// Directories listed ahead and not visited yet, at first.
const AHEAD_FIRST: usize = 64;
/// How many more for each visit.
const GROWTH: usize = 16;
/// Directories listed ahead and not visited yet, at most.
const AHEAD_MAX: usize = 2048;
/// Entries of these, at most, about: a third of what a mount keeps under locks.
const AHEAD_ENTRIES: usize = 65_536;
/// Directories of one request.
const BATCH_MAX: usize = 64;
/// So far the queue is looked through for directories of the MDT of the first one.
const QUEUE_LOOK: usize = BATCH_MAX * BATCHES_MAX;
/// Requests on their way.
const BATCHES_MAX: usize = 16;
/// Directories that wait to be listed; those behind are left to the program.
const QUEUE_MAX: usize = 16_384;
/// Directories about which anything is known; beyond it all is forgotten.
const STATES_MAX: usize = 65_536;
/// Directories whose parent is remembered, and parents whose misses are counted.
const PARENTS_MAX: usize = 65_536;
/// Directories below the one where a walk began, at most; deeper ones are left to the program.
const PATH_MAX: usize = 64;
/// After this time a directory that was listed ahead and not visited was listed in vain.
const EXPIRY: Duration = Duration::from_secs(30);

/// Directories to list in one request, of one MDT.
pub(crate) struct Batch {
    /// These.
    pub(crate) dirs: Vec<Fid>,
    /// Dropped when the answer is learnt: it wakes those that wait.
    pub(crate) done: watch::Sender<()>,
}

/// What became of a directory of a batch.
pub(crate) enum Answer {
    /// It was listed, has so many entries, and these directories among them.
    Listed(usize, Vec<Fid>),
    /// It was not reached, because one before it failed.
    Canceled,
    /// It cannot be listed.
    Failed,
}

/// See the module.
pub(crate) struct DirAhead {
    states: HashMap<Fid, State>,
    /// What to list, in the order of the walk.
    queue: BTreeSet<(Path, Fid)>,
    parents: HashMap<Fid, Fid>,
    /// Of directories in `states`.
    paths: HashMap<Fid, Path>,
    misses: HashMap<Fid, u32>,
    /// Listed ahead or on their way, and not visited.
    ahead: usize,
    allowed: usize,
    batches: usize,
    /// All that has room is being asked for.
    asks: bool,
    /// The walk waits for what comes next.
    hurries: bool,
    /// Entries of a directory, about: the mean of those that were listed ahead, newer ones more.
    entries: usize,
    last: Option<Fid>,
    descents: u32,
    looked: Monotonic,
}

/// Places in the listings from where the walk began; so paths sort as a walk visits them.
type Path = Arc<[u32]>;

enum State {
    Queued,
    OnItsWay(watch::Receiver<()>),
    /// Listed ahead at that time, and not visited.
    Ahead(Monotonic),
    /// Visited at that time: it is not listed ahead again soon.
    Visited(Monotonic),
}

impl Default for DirAhead {
    fn default() -> DirAhead {
        DirAhead {
            states: HashMap::default(),
            queue: BTreeSet::new(),
            parents: HashMap::default(),
            paths: HashMap::default(),
            misses: HashMap::default(),
            ahead: 0,
            allowed: AHEAD_FIRST,
            batches: 0,
            asks: false,
            hurries: false,
            entries: 0,
            last: None,
            descents: 0,
            looked: Monotonic::default(),
        }
    }
}

impl DirAhead {
    /// A directory was found below another one.
    pub(crate) fn found(&mut self, dir: Fid, parent: Fid) {
        if self.parents.len() >= PARENTS_MAX {
            self.parents.clear();
        }
        self.parents.insert(dir, parent);
    }

    /// A program begins to list a directory. `known`: locks cover its listing. `directories`: those
    /// of a listed directory, in name order. What to wait for, if its listing is on its way.
    pub(crate) fn visited(
        &mut self,
        dir: Fid,
        known: bool,
        directories: impl Fn(Fid) -> Vec<Fid>,
        now: Monotonic,
    ) -> Option<watch::Receiver<()>> {
        self.expire(now);
        let parent = self.parents.get(&dir).copied();
        if self.last.is_some() && parent == self.last {
            self.descents = self.descents.saturating_add(1);
        }
        self.last = Some(dir);
        if self.states.len() >= STATES_MAX {
            self.begin_anew();
        }
        match self.states.insert(dir, State::Visited(now)) {
            Some(State::Ahead(_)) => {
                self.ahead = self.ahead.saturating_sub(1);
                self.grow(GROWTH);
                self.line_up(directories(dir), dir);
                None
            }
            Some(State::OnItsWay(done)) => {
                let wait = done.clone();
                self.states.insert(dir, State::OnItsWay(done));
                Some(wait)
            }
            Some(State::Queued) => {
                // The program is faster, or walks in another order.
                self.grow(GROWTH);
                self.hurries = true;
                if self.queue.iter().take(BATCH_MAX).any(|(_, next)| *next == dir) {
                    self.hurry();
                }
                None
            }
            Some(State::Visited(_)) | None if known => None,
            Some(State::Visited(_)) | None => {
                self.missed(dir, parent, directories);
                None
            }
        }
    }

    fn grow(&mut self, more: usize) {
        self.allowed = (self.allowed + more).min(AHEAD_MAX);
    }

    /// The walk waits for what comes next in the queue: it is asked for at once, whatever else is
    /// ahead of the walk.
    fn hurry(&mut self) {
        self.allowed = self.allowed.max((self.ahead + BATCH_MAX).min(2 * AHEAD_MAX));
        self.hurries = true;
    }

    fn missed(&mut self, dir: Fid, parent: Option<Fid>, directories: impl Fn(Fid) -> Vec<Fid>) {
        let Some(parent) = parent else { return };
        if self.misses.len() >= PARENTS_MAX {
            self.misses.clear();
        }
        let misses = self.misses.entry(parent).or_default();
        *misses += 1;
        if *misses < MISSES && self.descents < DESCENTS {
            return;
        }
        // Those that wait come first, so the listing need not be looked through with each miss.
        if self.queue.len() > QUEUE_MAX / 2 {
            return;
        }
        let mut siblings = directories(parent);
        if let Some(place) = siblings.iter().position(|fid| *fid == dir) {
            // Those behind it first.
            siblings.rotate_left(place);
            self.line_up(siblings, parent);
            // A walk that goes down needs these before what is on its way.
            if self.descents >= DESCENTS {
                self.hurry();
            }
        }
    }

    /// Queues directories of a parent of which nothing is known yet, in this order, as far as there
    /// is room.
    fn line_up(&mut self, dirs: Vec<Fid>, parent: Fid) {
        let above = self.paths.get(&parent).cloned().unwrap_or_default();
        if above.len() >= PATH_MAX {
            return;
        }
        let mut room = QUEUE_MAX.saturating_sub(self.queue.len());
        for (dir, place) in dirs.into_iter().zip(0..) {
            let is_known = self.states.contains_key(&dir);
            if !is_known && room == 0 {
                continue;
            }
            let path: Path = above.iter().copied().chain([place]).collect();
            self.paths.insert(dir, path.clone());
            if !is_known {
                room -= 1;
                self.states.insert(dir, State::Queued);
                self.found(dir, parent);
                self.queue.insert((path, dir));
            }
        }
    }

    /// The next request to send; `None`: no more for now.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        let mut allowed = self.allowed;
        if !self.hurries {
            allowed = allowed.min(AHEAD_ENTRIES / self.entries.max(1));
        }
        let room = allowed.saturating_sub(self.ahead);
        self.asks |= room >= (allowed / 2).min(self.queue.len()) || mem::take(&mut self.hurries);
        self.asks &= room > 0 && !self.queue.is_empty() && self.batches < BATCHES_MAX;
        if !self.asks {
            return None;
        }
        let room = room.min(BATCH_MAX);
        let done = watch::Sender::new(());
        let mut dirs = Vec::new();
        while dirs.is_empty()
            && let Some(mdt) = self.queue.first().map(|(_, dir)| dir.mdt())
        {
            let of_mdt = self.queue.iter().take(QUEUE_LOOK).filter(|(_, dir)| dir.mdt() == mdt);
            let chosen: Vec<(Path, Fid)> = of_mdt.take(room).cloned().collect();
            for place in chosen {
                self.queue.remove(&place);
                let (_, dir) = place;
                if matches!(self.states.get(&dir), Some(State::Queued)) {
                    self.states.insert(dir, State::OnItsWay(done.subscribe()));
                    dirs.push(dir);
                }
            }
        }
        if dirs.is_empty() {
            return None;
        }
        self.ahead += dirs.len();
        self.batches += 1;
        Some(Batch { dirs, done })
    }

    /// The answer to a batch, directory by directory.
    pub(crate) fn answered(&mut self, answers: Vec<(Fid, Answer)>, now: Monotonic) {
        self.batches = self.batches.saturating_sub(1);
        let deep = self.descents >= DESCENTS;
        for (dir, answer) in answers {
            match answer {
                Answer::Listed(entries, directories) => {
                    self.entries = (7 * self.entries + entries).div_ceil(8);
                    self.states.insert(dir, State::Ahead(now));
                    if deep {
                        self.line_up(directories, dir);
                    }
                }
                Answer::Canceled => {
                    self.ahead = self.ahead.saturating_sub(1);
                    self.states.insert(dir, State::Queued);
                    let path = self.paths.get(&dir).cloned().unwrap_or_default();
                    self.queue.insert((path, dir));
                }
                Answer::Failed => {
                    self.ahead = self.ahead.saturating_sub(1);
                    self.states.insert(dir, State::Visited(now));
                }
            }
        }
    }

    /// Forgets what is old; it looks once per [`EXPIRY`].
    fn expire(&mut self, now: Monotonic) {
        if now.saturating_sub(self.looked) < EXPIRY {
            return;
        }
        self.looked = now;
        let is_old = |since: &Monotonic| now.saturating_sub(*since) >= EXPIRY;
        if self.states.values().any(|state| matches!(state, State::Ahead(since) if is_old(since))) {
            self.begin_anew();
        }
        self.states.retain(|_, state| !matches!(state, State::Visited(since) if is_old(since)));
        self.paths.retain(|dir, _| self.states.contains_key(dir));
    }

    /// What is ahead was listed in vain, or is too much to know.
    fn begin_anew(&mut self) {
        self.states.retain(|_, state| matches!(state, State::OnItsWay(_)));
        self.queue.clear();
        self.paths.clear();
        self.misses.clear();
        self.ahead = self.states.len();
        (self.allowed, self.descents) = (AHEAD_FIRST, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::VecDeque;

    fn fid(oid: u32) -> Fid {
        Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
    }

    fn at(seconds: u64) -> Monotonic {
        Monotonic::default() + Duration::from_secs(seconds)
    }

    /// A tree: `width` directories in each, `depth` levels below the root.
    struct Tree {
        width: u32,
        depth: u32,
    }

    impl Tree {
        /// Children of node `n` are `n * width + 1..`, as in a heap.
        fn directories(&self, dir: Fid) -> Vec<Fid> {
            let inner: u32 = (0..self.depth).map(|level| self.width.pow(level)).sum();
            if dir.oid >= inner {
                return Vec::new();
            }
            (1..=self.width).map(|n| fid(dir.oid * self.width + n)).collect()
        }

        /// Directories in depth-first order.
        fn walk(&self, dir: Fid, order: &mut Vec<Fid>) {
            order.push(dir);
            self.directories(dir).into_iter().for_each(|child| self.walk(child, order));
        }
    }

    #[test]
    fn a_request_is_for_one_mdt() {
        let far = |oid| Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid, ver: 0 };
        let mut ahead = DirAhead::default();
        ahead.line_up(vec![fid(1), far(2), far(3), fid(4)], fid(0));
        let batches: Vec<Vec<Fid>> =
            std::iter::from_fn(|| ahead.next()).map(|batch| batch.dirs).collect();
        assert_eq!(batches, [[fid(1), fid(4)], [far(2), far(3)]]);
    }

    /// What a walk costs.
    struct Cost {
        waits: usize,
        requests: usize,
        directories: usize,
    }

    /// Walks depth first. An answer comes when the program waits next.
    fn cost(tree: &Tree) -> Cost {
        let mut order = Vec::new();
        tree.walk(fid(0), &mut order);
        let (mut ahead, mut sent) = (DirAhead::default(), Vec::new());
        let (mut waits, mut requests, mut most) = (0, 0, 0);
        for dir in &order {
            let mut waited = false;
            let known = matches!(ahead.states.get(dir), Some(State::Ahead(_)));
            let on_its_way = ahead.visited(*dir, known, |dir| tree.directories(dir), at(0));
            waited |= !known;
            sent.extend(std::iter::from_fn(|| ahead.next()));
            if waited {
                waits += 1;
                requests += sent.len();
                for batch in std::mem::take(&mut sent) {
                    let listed = |dir: &Fid| (*dir, Answer::Listed(0, tree.directories(*dir)));
                    ahead.answered(batch.dirs.iter().map(listed).collect(), at(0));
                }
                sent.extend(std::iter::from_fn(|| ahead.next()));
            }
            if on_its_way.is_some() {
                assert!(ahead.visited(*dir, true, |dir| tree.directories(dir), at(0)).is_none());
            }
            for child in tree.directories(*dir) {
                ahead.found(child, *dir);
            }
            most = most.max(ahead.ahead);
        }
        assert!(most <= AHEAD_MAX);
        Cost { waits, requests: requests + sent.len(), directories: order.len() }
    }

    #[test]
    fn a_walk_waits_rarely() {
        for (width, depth, most) in [(17, 3, 40), (70, 2, 40), (5000, 1, 40), (2, 11, 50)] {
            let Cost { waits, requests, directories } = cost(&Tree { width, depth });
            assert!(
                waits <= most && requests <= 70 + directories / 32,
                "{waits} waits, {requests} requests for {directories} directories, {width} in \
                 each, {depth} deep"
            );
        }
    }

    /// Walks depth first; so many visits take as long as a round trip. Returns how often something
    /// was sent, where all that is sent within a round trip of the first of it counts once, and how
    /// many round trips the walk took.
    fn rounds(tree: &Tree, visits: u32) -> (usize, u32) {
        let mut order = Vec::new();
        tree.walk(fid(0), &mut order);
        let mut ahead = DirAhead::default();
        // In parts of a round trip: now, when what is sent begins a new round, and when answers
        // come.
        let (mut now, mut until, mut rounds) = (0, 0, 0);
        let mut under_way: VecDeque<(u32, Vec<Fid>)> = VecDeque::new();
        for dir in &order {
            let known = matches!(ahead.states.get(dir), Some(State::Ahead(_)));
            let coming = ahead.visited(*dir, known, |dir| tree.directories(dir), at(0));
            // The program's own request, if there is one.
            let mut sent = !known && coming.is_none();
            let answered = if sent { now + visits } else { now };
            loop {
                for batch in std::iter::from_fn(|| ahead.next()) {
                    under_way.push_back((now + visits, batch.dirs));
                    sent = true;
                }
                if std::mem::take(&mut sent) && now >= until {
                    (rounds, until) = (rounds + 1, now + visits);
                }
                let waits = matches!(ahead.states.get(dir), Some(State::OnItsWay(_)));
                let next = under_way.pop_front_if(|(at, _)| waits || *at <= answered);
                let Some((at_that_time, dirs)) = next else { break };
                now = now.max(at_that_time);
                let listed = |dir: Fid| (dir, Answer::Listed(16, tree.directories(dir)));
                ahead.answered(dirs.into_iter().map(listed).collect(), at(0));
            }
            now = now.max(answered) + 1;
            if coming.is_some() {
                ahead.visited(*dir, true, |dir| tree.directories(dir), at(0));
            }
            tree.directories(*dir).into_iter().for_each(|child| ahead.found(child, *dir));
        }
        (rounds, now / visits)
    }

    #[test]
    fn a_walk_at_its_own_speed_asks_rarely() {
        for visits in [50, 200, 1000] {
            let (rounds, trips) = rounds(&Tree { width: 70, depth: 2 }, visits);
            assert!(
                rounds <= 20 && trips <= 4900 / visits + 20,
                "{visits} visits in a round trip: {rounds} rounds, {trips} round trips"
            );
        }
    }

    #[test]
    fn single_directories_bring_no_others() {
        let tree = Tree { width: 200, depth: 1 };
        let mut ahead = DirAhead::default();
        (1..=200).for_each(|n| ahead.found(fid(n), fid(0)));
        assert!(ahead.visited(fid(7), false, |dir| tree.directories(dir), at(0)).is_none());
        assert!(ahead.next().is_none(), "one directory says nothing");
        assert!(ahead.visited(fid(7), true, |dir| tree.directories(dir), at(0)).is_none());
        assert!(ahead.next().is_none(), "what is known costs nothing");
        ahead.visited(fid(9), false, |dir| tree.directories(dir), at(0));
        let batch = ahead.next().expect("the second one begins it");
        assert_eq!(batch.dirs, (10..10 + AHEAD_FIRST as u32).map(fid).collect::<Vec<_>>());
        assert!(ahead.next().is_none(), "no more until one is visited");
        assert!(
            ahead.visited(fid(12), false, |dir| tree.directories(dir), at(0)).is_some(),
            "it is on its way"
        );
    }

    #[test]
    fn a_directory_that_is_gone_stops_no_others() {
        let tree = Tree { width: 200, depth: 1 };
        let mut ahead = DirAhead::default();
        (1..=200).for_each(|n| ahead.found(fid(n), fid(0)));
        (1..=2).for_each(|n| _ = ahead.visited(fid(n), false, |dir| tree.directories(dir), at(0)));
        let batch = ahead.next().unwrap();
        let answers = batch.dirs.iter().enumerate().map(|(n, dir)| match n {
            0 => (*dir, Answer::Listed(0, Vec::new())),
            1 => (*dir, Answer::Failed),
            _ => (*dir, Answer::Canceled),
        });
        ahead.answered(answers.collect(), at(0));
        let again = ahead.next().unwrap();
        assert_eq!(again.dirs[..AHEAD_FIRST - 2], batch.dirs[2..]);
        assert_eq!(again.dirs.len(), AHEAD_FIRST - 1, "one is there and not visited");
    }

    #[test]
    fn a_huge_directory_in_any_order_takes_bounded_memory_and_work() {
        let count = 100_000;
        let tree = Tree { width: count, depth: 1 };
        let (mut ahead, looked) = (DirAhead::default(), Cell::new(0));
        (1..=count).for_each(|n| ahead.found(fid(n), fid(0)));
        // 7,919 is prime to the count.
        for n in 0..2000 {
            let directories = |dir| {
                looked.set(looked.get() + 1);
                tree.directories(dir)
            };
            ahead.visited(fid(1 + n * 7_919 % count), false, directories, at(0));
            while let Some(batch) = ahead.next() {
                ahead.answered(
                    batch.dirs.iter().map(|dir| (*dir, Answer::Listed(0, Vec::new()))).collect(),
                    at(0),
                );
            }
            assert!(ahead.queue.len() <= QUEUE_MAX && ahead.paths.len() <= ahead.states.len());
        }
        assert!(looked.get() < 100, "the listing was looked through {} times", looked.get());
    }

    #[test]
    fn what_is_not_visited_ends_it() {
        let tree = Tree { width: 200, depth: 1 };
        let mut ahead = DirAhead::default();
        (1..=200).for_each(|n| ahead.found(fid(n), fid(0)));
        (1..=2).for_each(|n| _ = ahead.visited(fid(n), false, |dir| tree.directories(dir), at(1)));
        let batch = ahead.next().unwrap();
        ahead.answered(
            batch.dirs.iter().map(|dir| (*dir, Answer::Listed(0, Vec::new()))).collect(),
            at(1),
        );
        assert!(ahead.next().is_none());
        ahead.visited(fid(50), false, |dir| tree.directories(dir), at(60));
        assert!(ahead.next().is_none() && ahead.ahead == 0 && ahead.queue.is_empty());
    }
}
