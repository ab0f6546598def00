//! The log of a store: the one place that decides what is durable, and which owner may write.
//!
//! Entries have consecutive numbers from 1, and each carries the epoch (fence) of the owner that
//! wrote it. Invariants: numbers have no gaps; fences never fall from one entry to the next; no
//! fence is claimed twice. The tree above it is a copy that can be made again
//! (docs/ownership.md).

use crate::batch::Batch;
use crate::engine::Fence;
use crate::error::StoreError;
use std::sync::Arc;
use types::session::Transno;

/// A place in a log: behind an entry, or at the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Number of the entry before it; 0: none.
    pub number: u64,
    /// Newest transno up to there.
    pub transno: Transno,
    /// Where the next entry is, as the log itself counts: a ring in bytes since its first lap, a
    /// log that finds entries by their number not at all (0).
    pub at: u64,
}

/// One entry.
#[derive(Clone)]
pub struct Entry {
    /// Its changes, frozen; none, if it only begins an epoch.
    pub batch: Arc<Batch>,
    /// Epoch of the owner that wrote it.
    pub fence: Fence,
    /// The place behind it.
    pub end: Position,
}

/// Whether a log has room for a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It can be appended.
    Now,
    /// It can be appended once older entries are trimmed.
    AfterTrim,
    /// It is larger than the log. Only a log that is as durable as the tree beside it has such a
    /// bound: the group goes into the tree alone, behind everything older.
    Never,
}

/// Ordered, durable, fenced groups of changes.
pub trait Log: Send + Sync {
    /// Begins a new epoch, durably: one more than the newest, and at least `at_least`. From then on
    /// nothing is appended for an older one. `after` is the newest place that the caller knows;
    /// there may be more behind it, so the caller reads on. Blocks.
    ///
    /// # Errors
    /// The log cannot be written.
    fn claim(&self, after: Position, at_least: Fence) -> Result<Fence, StoreError>;

    /// Makes a group durable as the entry behind `after`, and returns the place behind it. The
    /// caller made sure that there is room, and has read everything. A group that the log could
    /// never hold took a number without an entry; then `after` is behind that. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if a newer epoch began. After any other error it is not known whether
    /// the entry is there: the log must not be used any more.
    fn append(
        &self,
        after: Position,
        batch: &Arc<Batch>,
        fence: Fence,
    ) -> Result<Position, StoreError>;

    /// Calls `each` with the entries behind `after` that are there now, in order. Blocks.
    ///
    /// # Errors
    /// An entry is damaged or missing, or the log cannot be read.
    fn read(&self, after: Position, each: &mut dyn FnMut(Entry)) -> Result<(), StoreError>;

    /// Whether a group can be appended.
    fn room(&self, batch: &Batch) -> Room;

    /// The tree durably has everything up to `through`: the log may use that space again.
    ///
    /// # Errors
    /// The log cannot be written. It keeps what it has; a later call may succeed.
    fn trim(&self, through: Position) -> Result<(), StoreError>;
}
