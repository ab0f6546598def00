//! What read-ahead may cost a mount, and what it was good for: one budget of memory, and an account
//! of bytes that were fetched in vain. Pure: the time is given.
//!
//! **Budget.** Each piece holds a [`Charge`] of its bytes, so memory is returned however the piece
//! goes. Files that are being read get equal parts, but at least [`SHARE_MIN`]. If all is taken,
//! files that were not read for [`IDLE`] lose their pieces, the oldest first.
//!
//! **Waste.** While more than an eighth of what programs read, and [`Ledger::free`], was fetched in
//! vain, the mount is *careful*: it fetches an eighth of what was read in sequence. Both counts are
//! halved every [`HALVED`].
//!
//! **Habit.** If of the last small files that were read from their beginnings nearly all were read
//! to their ends, the next ones are fetched whole with their first read.

use env::clock::Monotonic;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::time::Timestamp;

/// Time without a read after which a file's pieces make room for others.
const IDLE: Duration = Duration::from_secs(2);
/// Least part of the budget of a file, bytes.
const SHARE_MIN: u64 = 128 << 10;
/// Of so many bytes that programs read one may be fetched in vain.
const WASTE_ONE_IN: u64 = 8;
/// Of so many bytes of the budget one may be, whatever is read.
const FREE_ONE_IN: u64 = 16;
/// Interval at which reads and waste count half.
const HALVED: Duration = Duration::from_secs(10);
/// Files whose reading shows a habit, and those of them that must agree.
const HABIT: (u32, u32) = (8, 7);
/// Dead entries beyond which the lists of files are cleaned.
const DEAD_MAX: usize = 1024;
/// What Lustre counts in, bytes.
const PAGE: u64 = 4096;

/// Bounds of read-ahead that an administrator sets for a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAheadLimits {
    /// Bytes of all files that lie ahead of their readers; 0: nothing is fetched ahead.
    pub mount: u64,
    /// Bytes of one file; 0: nothing is fetched ahead.
    pub file: u64,
    /// A file of up to so many bytes is fetched to its end once it is read in sequence.
    pub whole: u64,
    /// For tests: any read has the file fetched from its start, also what it reads itself.
    pub eager: bool,
}

/// The budget, unless it is set: a 16th of the host's memory, but at least and at most so many
/// bytes.
const BUDGET: (u64, u64) = (64 << 20, 1 << 30);

impl ReadAheadLimits {
    /// Those of a host with so many bytes of memory.
    pub fn of_memory(bytes: u64) -> ReadAheadLimits {
        let mount = (bytes / 16).clamp(BUDGET.0, BUDGET.1) >> 20 << 20;
        ReadAheadLimits { mount, file: mount / 4, whole: 4 << 20, eager: false }
    }
}

impl Default for ReadAheadLimits {
    /// Those of a host with 4 GiB.
    fn default() -> ReadAheadLimits {
        ReadAheadLimits::of_memory(4 << 30)
    }
}

/// What happened since the mount, or since it was cleared. In pages of 4 KiB, but for those that
/// say otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ReadAheadFigures {
    /// Read, and fetched ahead.
    pub hits: u64,
    /// Read, and not fetched ahead.
    pub misses: u64,
    /// Reads, each, that waited for what was on its way.
    pub miss_inside_window: u64,
    /// Reads, each, that continued none.
    pub not_consecutive: u64,
    /// Fetched in vain.
    pub discarded: u64,
    /// Times that there was no room for more.
    pub hit_max: u64,
    /// Requests.
    pub requests: u64,
    /// Fetched ahead.
    pub pages: u64,
}

/// What a file may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// Bytes that may lie ahead of its readers.
    pub(crate) reach: u64,
    /// Files up to this size are fetched whole; bytes.
    pub(crate) whole: u64,
    /// Too much was fetched in vain.
    pub(crate) careful: bool,
    /// Small files are read to their ends, as a rule.
    pub(crate) habit: bool,
    /// See [`ReadAheadLimits::eager`].
    pub(crate) eager: bool,
}

/// A read, for the account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Bytes that were fetched ahead.
    pub(crate) hit: u64,
    /// All others.
    pub(crate) missed: u64,
    /// It waited for what was on its way.
    pub(crate) waited: bool,
    /// It continued none.
    pub(crate) anyhow: bool,
}

#[derive(Default)]
struct Books {
    limits: ReadAheadLimits,
    used: u64,
    read: u64,
    wasted: u64,
    since: Monotonic,
    /// Files that are being read, and those that were some time ago, by the number of their last
    /// use.
    live: BTreeMap<u64, (Weak<dyn Fetched>, Monotonic)>,
    idle: BTreeMap<u64, Weak<dyn Fetched>>,
    uses: u64,
    /// One bit for each small file, the newest first, and how many there are.
    habit: (u32, u32),
    figures: ReadAheadFigures,
    cleared: Option<Timestamp>,
}

/// A file that pieces were fetched of, as the ledger knows it.
pub(crate) trait Fetched: Send + Sync {
    /// Number of its last use in the ledger; 0: none.
    fn last_use(&self) -> &AtomicU64;
    /// All that was fetched goes.
    fn forget(&self);
}

/// See the module.
#[derive(Default)]
pub struct Ledger {
    books: Mutex<Books>,
}

/// The budget's part of one piece.
pub(crate) struct Charge {
    ledger: Arc<Ledger>,
    bytes: u64,
    unread: u64,
}

impl Charge {
    /// So many bytes of it were read. True if that is all.
    pub(crate) fn read(&mut self, bytes: u64) -> bool {
        self.unread = self.unread.saturating_sub(bytes);
        self.unread == 0
    }

    /// It was not sent, or failed: that is no waste.
    pub(crate) fn brought_nothing(&mut self) {
        self.unread = 0;
        let figures = &mut self.ledger.books.lock().figures;
        figures.requests = figures.requests.saturating_sub(1);
        figures.pages = figures.pages.saturating_sub(self.bytes.div_ceil(PAGE));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut books = self.ledger.books.lock();
        books.used -= self.bytes;
        books.wasted += self.unread;
        books.figures.discarded += self.unread.div_ceil(PAGE);
    }
}

impl Books {
    /// Too much was fetched in vain.
    fn is_careful(&self) -> bool {
        self.wasted > self.limits.mount / FREE_ONE_IN + self.read / WASTE_ONE_IN
    }

    fn turn(&mut self, now: Monotonic) {
        while now.saturating_sub(self.since) >= HALVED {
            if self.read + self.wasted == 0 {
                self.since = now;
                break;
            }
            (self.read, self.wasted) = (self.read / 2, self.wasted / 2);
            self.since += HALVED;
        }
        while let Some((_, at)) = self.live.values().next()
            && now.saturating_sub(*at) >= IDLE
            && let Some((number, (file, _))) = self.live.pop_first()
        {
            self.idle.insert(number, file);
        }
        if self.idle.len() > DEAD_MAX && self.uses.is_multiple_of(DEAD_MAX as u64) {
            self.idle.retain(|_, file| file.strong_count() > 0);
        }
    }
}

impl Ledger {
    /// A file is read now: what it may use.
    pub(crate) fn share<F: Fetched + 'static>(&self, file: &Arc<F>, now: Monotonic) -> Share {
        let books = &mut *self.books.lock();
        books.turn(now);
        books.uses += 1;
        let before = file.last_use().swap(books.uses, Ordering::Relaxed);
        if books.live.remove(&before).is_none() {
            books.idle.remove(&before);
        }
        let used: Weak<F> = Arc::downgrade(file);
        books.live.insert(books.uses, (used, now));
        let ReadAheadLimits { mount, file, whole, eager } = books.limits;
        let part = (mount / books.live.len().max(1) as u64).max(SHARE_MIN).min(mount);
        let (bits, known) = books.habit;
        let (all, agree) = HABIT;
        Share {
            reach: part.min(file),
            whole: whole.min(part).min(file),
            careful: books.is_careful(),
            habit: known >= all && (bits & ((1 << all) - 1)).count_ones() >= agree,
            eager,
        }
    }

    /// True if files that no program has opened may be fetched: unless it is switched off, or too
    /// much was fetched in vain.
    pub fn may_fetch_files(&self) -> bool {
        let books = self.books.lock();
        let ReadAheadLimits { mount, file, .. } = books.limits;
        mount > 0 && file > 0 && !books.is_careful()
    }

    /// A file is closed.
    pub(crate) fn left(&self, file: &dyn Fetched) {
        let books = &mut *self.books.lock();
        let number = file.last_use().swap(0, Ordering::Relaxed);
        books.live.remove(&number);
        books.idle.remove(&number);
    }

    /// A read was done.
    pub(crate) fn note(&self, read: Read) {
        let books = &mut *self.books.lock();
        books.read += read.hit + read.missed;
        books.figures.hits += read.hit.div_ceil(PAGE);
        books.figures.misses += read.missed.div_ceil(PAGE);
        books.figures.miss_inside_window += u64::from(read.waited);
        books.figures.not_consecutive += u64::from(read.anyhow);
    }

    /// A small file that was read from its beginning was read to its end, or not.
    pub(crate) fn note_habit(&self, to_end: bool) {
        let habit = &mut self.books.lock().habit;
        *habit = (habit.0 << 1 | u32::from(to_end), habit.1.saturating_add(1));
    }

    /// Room for a piece of so many bytes; `None`: there is none.
    pub(crate) fn charge(self: &Arc<Ledger>, bytes: u64) -> Option<Charge> {
        loop {
            let idle = {
                let books = &mut *self.books.lock();
                if books.used + bytes <= books.limits.mount {
                    books.used += bytes;
                    books.figures.requests += 1;
                    books.figures.pages += bytes.div_ceil(PAGE);
                    return Some(Charge { ledger: self.clone(), bytes, unread: bytes });
                }
                let Some((_, idle)) = books.idle.pop_first() else {
                    books.figures.hit_max += 1;
                    return None;
                };
                idle
            };
            // Its pieces give their charges back here.
            if let Some(file) = idle.upgrade() {
                file.forget();
            }
        }
    }

    /// The bounds.
    pub fn limits(&self) -> ReadAheadLimits {
        self.books.lock().limits
    }

    /// Sets them, for what is fetched from then on.
    pub fn set_limits(&self, limits: ReadAheadLimits) {
        self.books.lock().limits = limits;
    }

    /// Bytes that are held, or on their way.
    pub fn used(&self) -> u64 {
        self.books.lock().used
    }

    /// What happened, and since when; `None`: since the mount.
    pub fn figures(&self) -> (ReadAheadFigures, Option<Timestamp>) {
        let books = self.books.lock();
        (books.figures, books.cleared)
    }

    /// Clears the figures.
    pub fn clear_figures(&self, now: Timestamp) {
        let books = &mut *self.books.lock();
        (books.figures, books.cleared) = (ReadAheadFigures::default(), Some(now));
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
