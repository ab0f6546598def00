//! One file: its present pages, and those as of the last sync.

use super::{DiskEvent, Usage};
use crate::hash::Event;
use crate::rng::Rng;
use crate::world::{Core, Process};
use env::disk::File;
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that a disk writes or does not write, as one.
pub(super) const PAGE: u64 = 4096;

type Page = Arc<[u8; PAGE as usize]>;

#[derive(Clone, Default)]
struct Content {
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
    pub(super) number: u64,
    state: Mutex<State>,
    usage: Arc<Usage>,
}

impl Inode {
    pub(super) fn new(number: u64, usage: Arc<Usage>) -> Inode {
        let state = State { now: Content::default(), synced: Content::default(), changed: false };
        Inode { number, state: Mutex::new(state), usage }
    }

    pub(super) fn sync(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.changed) {
            state.synced = state.now.clone();
        }
    }

    /// Of what was not synced everything, nothing, or any part is left.
    pub(super) fn crash(&self, rng: &mut Rng) {
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
                let numbers: BTreeSet<u64> = old.pages.keys().chain(state.now.pages.keys()).copied().collect();
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
    /// Bytes of the last page beyond the end are zeros.
    fn clear_tail(&mut self) {
        let (number, from) = (self.len / PAGE, (self.len % PAGE) as usize);
        if let Some(page) = self.pages.get_mut(&number) {
            Arc::make_mut(page)[from..].fill(0);
        }
    }
}

pub(super) struct SimFile {
    pub(super) core: Arc<Core>,
    pub(super) process: Arc<Process>,
    pub(super) inode: Arc<Inode>,
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

fn end_of(start: u64, len: u64) -> io::Result<u64> {
    start.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

impl SimFile {
    fn look<T>(&self, look: impl FnOnce(&Content) -> T) -> io::Result<T> {
        if !self.process.is_alive() {
            return Err(io::Error::other("this process was killed"));
        }
        Ok(look(&self.inode.state.lock().now))
    }

    fn change<T>(&self, event: DiskEvent, change: impl FnOnce(&mut Content, &Usage) -> io::Result<T>) -> io::Result<T> {
        if !self.process.is_alive() {
            return Err(io::Error::other("this process was killed"));
        }
        self.core.executor.note(Event::Disk, self.inode.number, event as u64);
        let mut state = self.inode.state.lock();
        state.changed = true;
        change(&mut state.now, &self.inode.usage)
    }
}

/// The page, made if it is a hole.
fn page<'a>(content: &'a mut Content, usage: &Usage, number: u64) -> io::Result<&'a mut [u8; PAGE as usize]> {
    let page = match content.pages.entry(number) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(_) if !usage.take() => return Err(full()),
        Entry::Vacant(hole) => hole.insert(Arc::new([0; PAGE as usize])),
    };
    Ok(Arc::make_mut(page))
}

/// The parts of `[start, end)`: (page, from, to).
fn parts(start: u64, end: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    (start / PAGE..end.div_ceil(PAGE)).map(move |number| {
        let base = number * PAGE;
        (number, (start.max(base) - base) as usize, (end.min(base + PAGE) - base) as usize)
    })
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.look(|content| {
            let end = content.len.min(offset.saturating_add(buf.len() as u64));
            if offset >= end {
                return 0;
            }
            for (number, from, to) in parts(offset, end) {
                let at = (number * PAGE + from as u64 - offset) as usize;
                match content.pages.get(&number) {
                    Some(page) => buf[at..at + to - from].copy_from_slice(&page[from..to]),
                    None => buf[at..at + to - from].fill(0),
                }
            }
            (end - offset) as usize
        })
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let end = end_of(offset, buf.len() as u64)?;
        self.change(DiskEvent::Write, |content, usage| {
            for (number, from, to) in parts(offset, end) {
                let at = (number * PAGE + from as u64 - offset) as usize;
                page(content, usage, number)?[from..to].copy_from_slice(&buf[at..at + to - from]);
                content.len = content.len.max(number * PAGE + to as u64);
            }
            Ok(())
        })
    }

    fn size_and_blocks(&self) -> io::Result<(u64, u64)> {
        self.look(|content| (content.len, content.pages.len() as u64 * PAGE / 512))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(DiskEvent::Resize, |content, usage| {
            content.len = len;
            let kept = len.div_ceil(PAGE);
            let before = content.pages.len();
            content.pages.retain(|number, _| *number < kept);
            usage.give(before - content.pages.len());
            content.clear_tail();
            Ok(())
        })
    }

    fn punch(&self, start: u64, len: u64) -> io::Result<()> {
        let end = end_of(start, len)?;
        self.change(DiskEvent::Punch, |content, usage| {
            let numbers: Vec<u64> = content.pages.range(start / PAGE..end.div_ceil(PAGE)).map(|(n, _)| *n).collect();
            for number in numbers {
                let (from, to) = (start.max(number * PAGE), end.min((number + 1) * PAGE));
                if to - from == PAGE {
                    content.pages.remove(&number);
                    usage.give(1);
                } else if let Some(page) = content.pages.get_mut(&number) {
                    Arc::make_mut(page)[(from % PAGE) as usize..(to - number * PAGE) as usize].fill(0);
                }
            }
            Ok(())
        })
    }

    fn allocate(&self, start: u64, len: u64, zero: bool) -> io::Result<()> {
        let end = end_of(start, len)?;
        self.change(DiskEvent::Allocate, |content, usage| {
            for (number, from, to) in parts(start, end) {
                let page = page(content, usage, number)?;
                if zero {
                    page[from..to].fill(0);
                }
            }
            if len > 0 {
                content.len = content.len.max(end);
            }
            Ok(())
        })
    }

    fn seek(&self, offset: u64, hole: bool) -> io::Result<Option<u64>> {
        self.look(|content| {
            if offset >= content.len {
                return None;
            }
            let mut at = offset;
            while at < content.len && content.pages.contains_key(&(at / PAGE)) == hole {
                at = (at / PAGE + 1) * PAGE;
            }
            match hole {
                true => Some(at.min(content.len)),
                false => (at < content.len).then_some(at),
            }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.look(|_| ())?;
        self.core.executor.note(Event::Disk, self.inode.number, DiskEvent::Sync as u64);
        self.inode.sync();
        Ok(())
    }
}
