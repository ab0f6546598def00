//! The log of an embedded target: the journal beside its tree, a preallocated ring.
//!
//! The epoch of the newest record is the fence. A claim appends a record without changes, which
//! carries the new epoch: it is durable like any group, and costs one sync. The tree notes the
//! epoch of what it took over (`disk::journal::Applied`), so none is forgotten when its record is
//! overwritten.
//!
//! A ring keeps two owners in one process apart. Two processes are kept apart by the lock of the
//! folder.

use crate::batch::Batch;
use crate::engine::Fence;
use crate::error::StoreError;
use crate::journal::Journal;
use crate::log::{Entry, Log, Position, Room};
use disk::journal::Applied;
use env::Env;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct State {
    journal: Journal,
    fence: Fence,
    /// Records that are there and were not read yet.
    unread: Vec<Entry>,
}

/// A journal as a log.
pub struct Ring {
    state: Mutex<State>,
    /// Everything before this place is in the tree.
    tail: AtomicU64,
    capacity: u64,
}

impl Ring {
    /// Opens the journal of a tree that has taken over this much.
    ///
    /// # Errors
    /// A record that was acknowledged is damaged, the epochs of records fall, the file has another
    /// size than it was made with, or it cannot be read.
    pub fn open(env: &Env, path: &Path, applied: &Applied) -> Result<Ring, StoreError> {
        let (journal, unread) = Journal::open(env, path, applied)?;
        let fence = unread.last().map_or(Fence(applied.fence), |entry| entry.fence);
        Ok(Ring {
            capacity: applied.capacity,
            tail: AtomicU64::new(applied.next),
            state: Mutex::new(State { journal, fence, unread }),
        })
    }
}

impl Log for Ring {
    fn claim(&self, after: Position, at_least: Fence) -> Result<Fence, StoreError> {
        let mut state = self.state.lock();
        let fence = Fence(state.fence.0 + 1).max(at_least);
        let mut batch = Batch::new();
        batch.set_transno(after.transno);
        batch.freeze();
        let end = state.journal.append(after, &batch, fence)?;
        state.fence = fence;
        state.unread.push(Entry { batch: Arc::new(batch), fence, end });
        Ok(fence)
    }

    fn append(
        &self,
        after: Position,
        batch: &Arc<Batch>,
        fence: Fence,
    ) -> Result<Position, StoreError> {
        let mut state = self.state.lock();
        if fence < state.fence {
            return Err(StoreError::Fenced { ours: fence.0, current: state.fence.0 });
        }
        state.journal.append(after, batch, fence)
    }

    fn read(&self, after: Position, each: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        let unread = std::mem::take(&mut self.state.lock().unread);
        unread.into_iter().filter(|entry| entry.end.number > after.number).for_each(each);
        Ok(())
    }

    fn room(&self, batch: &Batch) -> Room {
        let bytes = Journal::record_bytes(batch);
        if bytes > self.capacity {
            return Room::Never;
        }
        let used = self.state.lock().journal.head() - self.tail.load(Ordering::Acquire);
        if used + bytes <= self.capacity { Room::Now } else { Room::AfterTrim }
    }

    fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.tail.fetch_max(through.at, Ordering::AcqRel);
        Ok(())
    }
}
