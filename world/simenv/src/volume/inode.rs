//! One file: its present pages, and those as of the last sync.

use crate::rng::Rng;
use crate::volume::usage::{PAGE, Usage};
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Page = Arc<[u8; PAGE as usize]>;

#[derive(Clone, Default)]
pub(crate) struct Content {
    pages: BTreeMap<u64, Page>,
    len: u64,
}

struct State {
    now: Content,
    synced: Content,
    changed: bool,
}

/// An inode.
pub(crate) struct Inode {
    pub(crate) number: u64,
    state: Mutex<State>,
    usage: Arc<Usage>,
}

impl Inode {
    pub(crate) fn new(number: u64, usage: Arc<Usage>) -> Inode {
        let state = State { now: Content::default(), synced: Content::default(), changed: false };
        Inode { number, state: Mutex::new(state), usage }
    }

    /// Looks at its present bytes.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Content) -> T) -> T {
        look(&self.state.lock().now)
    }

    /// Changes its present bytes.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Content, &Usage) -> T) -> T {
        let mut state = self.state.lock();
        state.changed = true;
        change(&mut state.now, &self.usage)
    }

    pub(crate) fn sync(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.changed) {
            state.synced = state.now.clone();
        }
    }

    /// Of what was not synced everything, nothing, or any part is left.
    pub(crate) fn crash(&self, rng: &mut Rng) {
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.changed) {
            return;
        }
        let before = state.now.pages.len();
        match rng.below(3) {
            0 => state.now = state.synced.clone(),
            1 => {}
            _ => {
                let old = state.synced.clone();
                let numbers: BTreeSet<u64> =
                    old.pages.keys().chain(state.now.pages.keys()).copied().collect();
                let now = &mut state.now;
                if rng.chance(500) {
                    now.len = old.len;
                }
                for number in numbers {
                    if rng.chance(500) {
                        match old.pages.get(&number) {
                            Some(page) => now.pages.insert(number, page.clone()),
                            None => now.pages.remove(&number),
                        };
                    }
                }
                let pages = now.len.div_ceil(PAGE);
                now.pages.retain(|number, _| *number < pages);
                now.clear_tail();
            }
        }
        state.synced = state.now.clone();
        self.usage.pages.fetch_add(state.now.pages.len() as i64 - before as i64, Ordering::Relaxed);
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.usage.give(self.state.get_mut().now.pages.len());
    }
}

impl Content {
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let end = self.len.min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return 0;
        }
        for (number, from, to) in parts(offset, end) {
            let at = (number * PAGE + from as u64 - offset) as usize;
            match self.pages.get(&number) {
                Some(page) => buf[at..at + to - from].copy_from_slice(&page[from..to]),
                None => buf[at..at + to - from].fill(0),
            }
        }
        (end - offset) as usize
    }

    /// Writes `[offset, end)`. A full disk takes the pages before the one that has no room.
    pub(crate) fn write(
        &mut self,
        usage: &Usage,
        buf: &[u8],
        offset: u64,
        end: u64,
    ) -> io::Result<()> {
        for (number, from, to) in parts(offset, end) {
            let at = (number * PAGE + from as u64 - offset) as usize;
            self.page(usage, number)?[from..to].copy_from_slice(&buf[at..at + to - from]);
            self.len = self.len.max(number * PAGE + to as u64);
        }
        Ok(())
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that are no holes.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(crate) fn set_len(&mut self, usage: &Usage, len: u64) {
        self.len = len;
        let kept = len.div_ceil(PAGE);
        let before = self.pages.len();
        self.pages.retain(|number, _| *number < kept);
        usage.give(before - self.pages.len());
        self.clear_tail();
    }

    /// Makes `[start, end)` a hole; of pages that are only partly in it, zeros.
    pub(crate) fn punch(&mut self, usage: &Usage, start: u64, end: u64) {
        let numbers: Vec<u64> =
            self.pages.range(start / PAGE..end.div_ceil(PAGE)).map(|(n, _)| *n).collect();
        for number in numbers {
            let (from, to) = (start.max(number * PAGE), end.min((number + 1) * PAGE));
            if to - from == PAGE {
                self.pages.remove(&number);
                usage.give(1);
            } else if let Some(page) = self.pages.get_mut(&number) {
                Arc::make_mut(page)[(from % PAGE) as usize..(to - number * PAGE) as usize].fill(0);
            }
        }
    }

    /// Gives `[start, end)` its pages, if `zero` with zeros in them.
    pub(crate) fn allocate(
        &mut self,
        usage: &Usage,
        start: u64,
        end: u64,
        zero: bool,
    ) -> io::Result<()> {
        for (number, from, to) in parts(start, end) {
            let page = self.page(usage, number)?;
            if zero {
                page[from..to].fill(0);
            }
        }
        if end > start {
            self.len = self.len.max(end);
        }
        Ok(())
    }

    /// The first byte from `offset` on that is a hole, or data; the end counts as a hole.
    pub(crate) fn seek(&self, offset: u64, hole: bool) -> Option<u64> {
        if offset >= self.len {
            return None;
        }
        let mut at = offset;
        while at < self.len && self.pages.contains_key(&(at / PAGE)) == hole {
            at = (at / PAGE + 1) * PAGE;
        }
        match hole {
            true => Some(at.min(self.len)),
            false => (at < self.len).then_some(at),
        }
    }

    /// The page, made if it is a hole.
    fn page(&mut self, usage: &Usage, number: u64) -> io::Result<&mut [u8; PAGE as usize]> {
        let page = match self.pages.entry(number) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(_) if !usage.take() => return Err(io::ErrorKind::StorageFull.into()),
            Entry::Vacant(hole) => hole.insert(Arc::new([0; PAGE as usize])),
        };
        Ok(Arc::make_mut(page))
    }

    /// Bytes of the last page beyond the end are zeros.
    fn clear_tail(&mut self) {
        let (number, from) = (self.len / PAGE, (self.len % PAGE) as usize);
        if let Some(page) = self.pages.get_mut(&number) {
            Arc::make_mut(page)[from..].fill(0);
        }
    }
}

/// The parts of `[start, end)`: (page, from, to).
fn parts(start: u64, end: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    (start / PAGE..end.div_ceil(PAGE)).map(move |number| {
        let base = number * PAGE;
        (number, (start.max(base) - base) as usize, (end.min(base + PAGE) - base) as usize)
    })
}
